// How soon does the page paint, and how many frames a second does it draw while somebody drags over 24 hours of 1,000 series?
// Beside each stands the same with a page that has nothing in it: what the browser and the machine can do at all.
import type { Browser, CDPSession, Page } from "playwright-core";
import { beforeAll, test } from "vitest";
import { boxOf, open, shared, viewWhen, type Server } from "../e2e/harness.ts";

const NAME = "figures_seconds";
const SERIES = Number(process.env["OGIVE_SERIES"] ?? 1000);
const HOURS = 24;
/** Minutes of one batch. */
const BATCH = 20;
const ROUNDS = Number(process.env["OGIVE_ROUNDS"] ?? 9);
const DRAG_MS = 4000;
/** A page of the same size that answers to the pointer and draws nothing. */
const EMPTY = "data:text/html,<title>empty</title><body style='margin:0'><p>empty</p><canvas style='width:100vw;height:80vh'></canvas>";

const all = shared();
let end: number;

/** Cells of a minute: sixty samples in twelve bins around a level that wanders. */
function cells(minute: number, series: number): Record<string, number> {
  const level = 10 + ((minute * 7 + series * 13) % 60);
  const bins: Record<string, number> = {};
  for (let i = 0; i < 12; i++) bins[`${level + i * 2}e-4`] = 12 - i;
  return bins;
}

async function fill(server: Server): Promise<void> {
  const source = crypto.randomUUID();
  const series = Array.from({ length: SERIES }, (_, i) => ({ labels: { __name__: NAME, id: String(i) }, kind: "histogram", temporality: "delta", unit: "s", width_ms: 60_000 }));
  const minutes = HOURS * 60;
  for (let from = 0, sequence = 1; from < minutes; from += BATCH, sequence++) {
    const times = Array.from({ length: Math.min(BATCH, minutes - from) }, (_, i) => from + i);
    const samples = series.flatMap((_, one) => times.map((minute) => ({ series: one, time_ms: (end - (minutes - 1 - minute) * 60) * 1000, histogram: { bins: cells(minute, one) } })));
    await server.push({ source, sequence, series, samples });
  }
}

beforeAll(async () => {
  end = Math.floor(Date.now() / 60_000) * 60 - 60;
  const before = Date.now();
  await fill(all.server);
  console.log(`${SERIES} series x ${HOURS} h of minutes sent in ${((Date.now() - before) / 1000).toFixed(0)} s`);
});

const median = (numbers: number[]): number => numbers.toSorted((a, b) => a - b)[numbers.length >> 1] as number;
const spread = (numbers: number[], digits = 0): string => `${median(numbers).toFixed(digits)} (${Math.min(...numbers).toFixed(digits)} to ${Math.max(...numbers).toFixed(digits)})`;

/** Milliseconds from the request until something is painted, in a browser profile that has nothing in its cache. */
async function firstPaint(browser: Browser, url: string): Promise<number> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  const page = await context.newPage();
  await page.goto(url);
  const paint = await page.waitForFunction(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
  const ms = (await paint.jsonValue()) as number;
  await context.close();
  return ms;
}

/** CPU seconds that the main thread of a page has used. */
async function mainThread(devtools: CDPSession): Promise<number> {
  const { metrics } = await devtools.send("Performance.getMetrics");
  return metrics.find((one) => one.name === "TaskDuration")?.value ?? 0;
}

interface Drag {
  /** Frames a second. */
  frames: number;
  /** Milliseconds of CPU of the main thread for each frame. */
  busy: number;
}

/** Drags to and fro, and counts the frames that the page is asked for. */
async function drag(page: Page, box: { x: number; y: number; width: number; height: number }): Promise<Drag> {
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("Performance.setTimeDomain", { timeDomain: "threadTicks" }).catch(() => undefined);
  await devtools.send("Performance.enable", { timeDomain: "threadTicks" });
  const y = box.y + box.height / 2;
  await page.mouse.move(box.x + box.width * 0.2, y);
  await page.mouse.down();
  await page.evaluate(() => {
    const state = window as unknown as { frames: number; counting: boolean };
    [state.frames, state.counting] = [0, true];
    const count = (): void => {
      state.frames++;
      if (state.counting) requestAnimationFrame(count);
    };
    requestAnimationFrame(count);
  });
  const [from, cpu] = [Date.now(), await mainThread(devtools)];
  for (let i = 0; Date.now() - from < DRAG_MS; i++) {
    const part = 0.3 + 0.5 * Math.abs(Math.sin(i / 40));
    await page.mouse.move(box.x + box.width * part, y + 20 * Math.sin(i / 9));
  }
  const used = (await mainThread(devtools)) - cpu;
  const seconds = (Date.now() - from) / 1000;
  const frames = await page.evaluate(() => {
    const state = window as unknown as { frames: number; counting: boolean };
    state.counting = false;
    return state.frames;
  });
  await page.mouse.up();
  await devtools.detach();
  return { frames: frames / seconds, busy: (used * 1000) / Math.max(1, frames) };
}

test("first paint", async () => {
  const [page, empty]: [number[], number[]] = [[], []];
  for (let round = 0; round < ROUNDS; round++) {
    page.push(await firstPaint(all.browser, `${all.server.url}/?query=${NAME}&start=${end - HOURS * 3600}&end=${end}`));
    empty.push(await firstPaint(all.browser, `${all.server.url}/favicon.svg`));
  }
  console.log(`first paint: ${spread(page)} ms; a page of one small picture: ${spread(empty)} ms; ${ROUNDS} rounds`);
});

test("dragging over a day", async () => {
  const url = `${all.server.url}/?query=${NAME}&start=${end - HOURS * 3600}&end=${end}`;
  const { page } = await open(all.browser, url);
  const view = await viewWhen(page, (now) => now.columns > 100, 1_000_000);
  console.log(`${view.columns} columns of ${view.step} s, ${view.total} samples`);
  const box = await boxOf(page.locator("#overlay"));
  const plot = { x: box.x + view.left, y: box.y + view.top, width: view.plotWidth, height: view.plotHeight };
  const other = await all.browser.newPage({ viewport: { width: 1440, height: 900 } });
  await other.goto(EMPTY);
  const [mine, none]: [Drag[], Drag[]] = [[], []];
  for (let round = 0; round < ROUNDS; round++) {
    await page.bringToFront();
    mine.push(await drag(page, plot));
    await page.goto(url);
    await viewWhen(page, (now) => now.columns > 100, 1_000_000);
    await other.bringToFront();
    none.push(await drag(other, plot));
  }
  const say = (drags: Drag[]): string => `${spread(drags.map((one) => one.frames))} frames a second, ${spread(drags.map((one) => one.busy), 2)} ms of the main thread's CPU a frame`;
  console.log(`dragging: ${say(mine)}\nan empty page: ${say(none)}`);
});
