// Does the page's memory stay level while it shows live data for an hour? Every minute it prints what JavaScript holds after a
// collection, the nodes of the document and the listeners.
import { test } from "vitest";
import { open, shared, viewWhen } from "../e2e/harness.ts";

const MINUTES = Number(process.env["OGIVE_MINUTES"] ?? 60);
const NAME = "figures_live_seconds";

const all = shared();

/** A cell of each of ten series for the second that just ended. */
async function second(source: string, sequence: number): Promise<void> {
  const series = Array.from({ length: 10 }, (_, i) => ({ labels: { __name__: NAME, id: String(i) }, kind: "histogram", temporality: "delta", unit: "s", width_ms: 1000 }));
  const bins = (i: number): Record<string, number> => Object.fromEntries(Array.from({ length: 12 }, (_, bin) => [`${10 + ((sequence * 7 + i * 3 + bin * 2) % 80)}e-4`, 12 - bin]));
  const samples = series.map((_, i) => ({ series: i, time_ms: Math.floor(Date.now() / 1000) * 1000, histogram: { bins: bins(i) } }));
  await all.server.push({ source, sequence, series, samples });
}

test("an hour of live data", async () => {
  const source = crypto.randomUUID();
  let sequence = 1;
  await second(source, sequence);
  const sending = setInterval(() => void second(source, ++sequence), 1000);
  const { page } = await open(all.browser, `${all.server.url}/?query=${NAME}`);
  await viewWhen(page, (now) => now.columns > 1);
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("Performance.enable");
  for (let minute = 0; minute <= MINUTES; minute++) {
    await devtools.send("HeapProfiler.collectGarbage");
    const { metrics } = await devtools.send("Performance.getMetrics");
    const of = (name: string): number => metrics.find((one) => one.name === name)?.value ?? 0;
    const now = JSON.parse((await page.locator("#cells").getAttribute("data-view")) ?? "{}") as { columns: number };
    console.log(`minute ${minute}: ${(of("JSHeapUsedSize") / 1e6).toFixed(2)} MB, ${of("Nodes")} nodes, ${of("JSEventListeners")} listeners, ${now.columns} columns`);
    if (minute < MINUTES) await page.waitForTimeout(60_000);
  }
  clearInterval(sending);
}, 2 * 3600_000);
