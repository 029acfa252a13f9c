/** Numbers as lines: rates of counters, the table below, the line nearest to the mouse; beside what was sent. */

import { beforeAll, expect, test } from "vitest";
import { boxOf, open, shared } from "./harness.ts";

const all = shared();
let end: number;

const SECONDS = 600;

beforeAll(async () => {
  end = Math.floor((Date.now() - 20_000) / 10_000) * 10;
  const hosts = Array.from({ length: 12 }, (_, i) => `h${String(i).padStart(2, "0")}`);
  const series = [
    { labels: { __name__: "e2e_io_bytes_total" }, kind: "float", temporality: "cumulative", unit: "By" },
    ...hosts.map((host) => ({ labels: { __name__: "e2e_heap_bytes", host }, kind: "float", unit: "By" })),
  ];
  const times = Array.from({ length: SECONDS / 10 + 1 }, (_, at) => end - SECONDS + at * 10);
  // The counter climbs by 2,500 a second; the heap of host n is n MB, and twice that in the last sample.
  const samples = times.flatMap((t, at) => [
    { series: 0, time_ms: t * 1000, float: 1_000_000 + at * 25_000 },
    ...hosts.map((_, i) => ({ series: i + 1, time_ms: t * 1000, float: (i + 1) * 1e6 * (t === end ? 2 : 1) })),
  ]);
  expect(await all.server.push({ source: crypto.randomUUID(), sequence: 1, series, samples })).toMatchObject({ accepted: samples.length });
});

test("a counter is drawn as its rate, and as it was counted a click later", async () => {
  const { page, errors } = await open(all.browser, `${all.server.url}/?query=e2e_io_bytes_total&start=${end - 300}&end=${end}`);
  const cells = page.locator(".linetable tbody td");
  await expect.poll(() => cells.allInnerTexts()).toEqual(["2.5 kB/s", "2.5 kB/s", "2.5 kB/s", "2.5 kB/s"]);
  await page.locator("[data-control=raw]").click();
  await expect.poll(() => cells.first().innerText()).toBe("2.5 MB");
  expect(new URL(page.url()).searchParams.get("raw")).toBe("1");
  await page.locator("[data-control=rate]").click();
  await expect.poll(() => cells.first().innerText()).toBe("2.5 kB/s");
  await page.locator("[data-control=view-table]").click();
  await expect.poll(() => page.locator("#table tbody td").nth(2).innerText()).toBe("2500");
  await page.locator("[data-control=view-json]").click();
  const json = JSON.parse(await page.locator("#table pre").innerText()) as { resultType: string; result: { values: [number, string][] }[] };
  expect(json.resultType).toBe("matrix");
  expect(json.result[0]?.values.every(([, value]) => value === "2500")).toBe(true);
  expect(errors).toEqual([]);
  await page.close();
});

test("the table sorts, isolates and hides, and the mouse names the nearest line", async () => {
  const { page, errors } = await open(all.browser, `${all.server.url}/?query=e2e_heap_bytes&start=${end - SECONDS}&end=${end}`);
  const rows = page.locator(".linetable tbody tr");
  await expect.poll(() => rows.count()).toBe(12);
  const names = (): Promise<string[]> => rows.locator("th").allInnerTexts();
  expect((await names())[0]).toBe('e2e_heap_bytes{host="h00"}');
  await page.locator("[data-sort=max]").click();
  await expect.poll(async () => (await names())[0]).toBe('e2e_heap_bytes{host="h11"}');
  const [last, min, max, mean] = await rows.first().locator("td").allInnerTexts();
  expect([last, min, max]).toEqual(["24 MB", "12 MB", "24 MB"]);
  // The server's own steps: the mean over them, worked out here.
  const range = await all.server.json<{ data: { result: { values: [number, string][] }[] } }>("api/v1/query_range", { query: 'e2e_heap_bytes{host="h11"}', start: String(end - SECONDS), end: String(end), step: "1" });
  const values = (range.data.result[0] as { values: [number, string][] }).values.map(([, value]) => Number(value));
  const truth = values.reduce((sum, value) => sum + value, 0) / values.length / 1e6;
  expect(Number((mean as string).replace(" MB", ""))).toBeCloseTo(truth, 1);

  // Twelve lines have twelve looks: eight hues, then the same dashed.
  const strokes = await rows.locator(".swatch").evaluateAll((all) => all.map((one) => `${(one as HTMLElement).style.borderTopColor} ${(one as HTMLElement).style.borderTopStyle}`));
  expect(new Set(strokes).size).toBe(12);

  await page.mouse.move(0, 0);
  const over = await boxOf(page.locator("#lines .u-over"));
  await page.mouse.move(over.x + over.width / 2, over.y + 4);
  await expect.poll(() => page.locator("#lines .tip .line").innerText()).toBe('e2e_heap_bytes{host="h11"}');
  expect(await page.locator("#lines .tip .value").innerText()).toBe("12 MB");
  await expect.poll(() => page.locator(".linetable tr.near th").innerText()).toBe('e2e_heap_bytes{host="h11"}');

  const hidden = page.locator(".linetable tr.hidden-line");
  await rows.first().locator("button").click();
  await expect.poll(() => hidden.count()).toBe(11);
  await rows.first().locator("button").click();
  await expect.poll(() => hidden.count()).toBe(0);
  await rows.first().locator("button").click({ modifiers: ["Shift"] });
  await expect.poll(() => hidden.count()).toBe(1);
  // A hidden line is nobody's nearest.
  await page.mouse.move(over.x + over.width / 3, over.y + 6);
  await expect.poll(() => page.locator("#lines .tip .line").innerText()).toBe('e2e_heap_bytes{host="h10"}');
  expect(errors).toEqual([]);
  await page.close();
});
