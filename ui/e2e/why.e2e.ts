/** Why was it slow: a real process that is held up, what the kernel measured of it, and what the page says of the slow column. */

import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { binary, boxOf, open, shared, viewWhen } from "./harness.ts";

const all = shared();
/** Longer than a column, so that one lies within. */
const HELD_MS = 2_200;
const QUERY = "ogive_hiccup_seconds";

let observer: ChildProcess | undefined;

type Answer = { data: { result: { metric: Record<string, string>; values: [number, string][] }[] } };

/** What the doctor says of programs in the kernel: needs a build with them, and root. */
function isObservable(): boolean {
  try {
    return execFileSync(binary(), ["kernel", "doctor"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).split("\n").filter((line) => /^(tp_btf|task storage) +yes/.test(line)).length === 2;
  } catch {
    return false;
  }
}

const observable = isObservable();
if (!observable) console.warn("skipped: this build or this user cannot observe the kernel, see ogive kernel doctor");

beforeAll(() => {
  if (!observable) return;
  const { pid, url } = all.server;
  observer = spawn(binary(), ["kernel", "export", "--to", url, "-p", String(pid), "--observe", "sched,interrupts,micro,locks", "--budget", "100"], { stdio: "ignore" });
});

afterAll(() => void observer?.kill("SIGTERM"));

/** Seconds in which threads of the server were in a state, by the end of the second. */
async function inState(state: string): Promise<[number, number][]> {
  const end = Math.floor(Date.now() / 1000);
  const query = `sum(increase(ogive_kernel_state_nanoseconds_total{pid="${all.server.pid}", state="${state}"}[1s])) / 1e9`;
  const { data } = await all.server.json<Answer>("api/v1/query_range", { query, start: String(end - 120), end: String(end), step: "1" });
  return (data.result[0]?.values ?? []).map(([t, value]) => [t, Number(value)]);
}

test.skipIf(!observable)("a click on a slow column says that the process was stopped", async () => {
  const { server } = all;
  await expect.poll(async () => (await inState("sleep")).length, { timeout: 60_000, interval: 500 }).toBeGreaterThanOrEqual(8);
  process.kill(server.pid, "SIGSTOP");
  // That long it must be held: the test waits for no fact here, it makes one.
  await new Promise((done) => setTimeout(done, HELD_MS));
  process.kill(server.pid, "SIGCONT");
  await expect.poll(async () => (await inState("stop")).reduce((sum, [, seconds]) => sum + seconds, 0), { timeout: 60_000, interval: 500 }).toBeGreaterThan(HELD_MS / 1000);
  const after = Date.now() / 1000;
  await expect.poll(async () => (await inState("sleep")).at(-1)?.[0], { timeout: 60_000, interval: 500 }).toBeGreaterThan(after);

  const end = Math.floor(Date.now() / 1000);
  const { page, errors } = await open(all.browser, `${server.url}/?query=${QUERY}&start=${end - 60}&end=${end}`);
  await viewWhen(page, (one) => one.columns >= 5 && one.step === 1);
  await page.locator('[data-control="why"]').click();
  // It is the server's own series, so its own process is chosen.
  await expect.poll(() => page.locator("#why select").inputValue()).toBe(`{comm="ogive", pid="${server.pid}"}`);
  const states = page.locator('[data-lane="states"]');
  await expect.poll(() => states.isVisible()).toBe(true);
  const now = await viewWhen(page, (one) => one.total > 0);
  const lane = JSON.parse((await states.getAttribute("data-view"))!) as { names: string[]; first: number; left: number; plotWidth: number };
  expect(lane.names).toContain("stop");
  // One time axis: the lanes begin and end below the picture, to the pixel.
  const [map, canvas] = [await boxOf(page.locator("#cells")), await boxOf(states.locator("canvas"))];
  expect(Math.abs(canvas.x + lane.left - (map.x + now.left))).toBeLessThan(0.5);
  expect([lane.first, lane.plotWidth]).toEqual([now.first, now.plotWidth]);
  for (const id of ["queue", "switches", "interrupts"]) expect(await page.locator(`[data-lane="${id}"]`).isVisible()).toBe(true);

  // The slow column: the one in which the process was stopped longest.
  const [slow, seconds] = (await inState("stop")).reduce((a, b) => (b[1] > a[1] ? b : a));
  const at = now.left + ((slow - now.first + 0.5) / (now.last - now.first + 1)) * now.plotWidth;
  await page.locator("#overlay").click({ position: { x: at, y: now.top + now.plotHeight / 2 } });
  await expect.poll(() => page.locator("#why [data-moved]").first().getAttribute("data-moved")).not.toBe(null);
  const row = page.locator('#why [data-moved="states:stop"]');
  await expect.poll(() => row.count()).toBe(1);
  expect(await row.innerText()).toContain("▲ Microstates: stop");
  const said = Number((await row.locator("td").first().innerText()).replace(",", ""));
  expect(Math.abs(said - seconds)).toBeLessThan(0.01 * seconds + 0.006);
  expect(await row.locator("td").nth(1).innerText()).toBe("0");
  expect(new URL(page.url()).searchParams.get("column")).toBe(String(slow));
  if (process.env["OGIVE_SCREENSHOT"] !== undefined) {
    await page.locator("#why").evaluate((node) => node.scrollIntoView({ block: "end" }));
    await page.screenshot({ path: join(import.meta.dirname, "../../docs/images/why.png"), fullPage: false });
  }
  // A link shows the same; a usual column says so or names what else moved, never the stop.
  await page.reload();
  await expect.poll(() => row.count()).toBe(1);
  const quiet = page.locator('[data-lane="states"] canvas');
  await quiet.click({ position: { x: lane.left + lane.plotWidth * ((slow - 4 - now.first + 0.5) / (now.last - now.first + 1)), y: 20 } });
  await expect.poll(() => new URL(page.url()).searchParams.get("column")).toBe(String(slow - 4));
  await expect.poll(() => row.count()).toBe(0);
  expect(errors).toEqual([]);
  await page.close();
});
