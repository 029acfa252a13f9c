/** Heat maps of many groups side by side, compared with what was sent. */

import type { Page } from "playwright-core";
import { beforeAll, expect, test } from "vitest";
import { level } from "../src/colour.ts";
import { levelOf, mapOf, open, Places, shared, type View } from "./harness.ts";

const NAME = "e2e_routes_seconds";
const QUERY = encodeURIComponent(`sum by (route) (${NAME})`);
const GROUPS = 500;
const SECONDS = 60;
const all = shared();
let end: number;

const route = (i: number): string => `/r${String(i).padStart(3, "0")}`;
/** Samples of a second: routes with a higher number have fewer, and are slower. */
const counts = (i: number): Record<string, number> => ({ "1.2e-3": 1000 - i, [`${10 + Math.floor(i / 10)}e-3`]: 20 });

beforeAll(async () => {
  end = Math.floor((Date.now() - 10_000) / 60_000) * 60;
  const numbers = Array.from({ length: GROUPS }, (_, i) => i);
  const series = numbers.map((i) => ({ labels: { __name__: NAME, route: route(i) }, kind: "histogram", temporality: "delta", unit: "s", width_ms: 1000 }));
  for (let part = 0; part < 4; part++) {
    const seconds = Array.from({ length: SECONDS / 4 }, (_, at) => end - part * (SECONDS / 4) - at);
    const samples = numbers.flatMap((i) => seconds.map((t) => ({ series: i, time_ms: t * 1000, histogram: { bins: counts(i) } })));
    expect(await all.server.push({ source: crypto.randomUUID(), sequence: part + 1, series, samples })).toMatchObject({ accepted: samples.length });
  }
});

interface Multiples {
  total: number;
  max: number;
  order: string;
  drawn: number;
  loaded: number;
  domain: View["domain"];
  step: number;
}

const shown = async (page: Page): Promise<Multiples> => JSON.parse((await page.locator("#multiples").getAttribute("data-view")) ?? "{}") as Multiples;
const names = (page: Page): Promise<string[]> => page.locator("#multiples .panel b").allInnerTexts();

test("500 groups have one scale, are sorted, and only those in view are there", async () => {
  const { page, errors } = await open(all.browser, `${all.server.url}/?query=${QUERY}&start=${end - SECONDS}&end=${end}&q=&density=0&scale=linear`);
  await expect.poll(async () => (await shown(page)).total).toBe(GROUPS);
  await expect.poll(async () => (await names(page))[0]).toMatch(/r49\d/);
  const first = await shown(page);
  expect(first.drawn).toBeGreaterThan(5);
  expect(first.drawn).toBeLessThan(60);
  expect(first.step).toBe(1);
  // The p99 of route 499 is in [59, 60) ms: 20 of 521 samples are there.
  expect(await page.locator("#multiples .panel .head span").first().innerText()).toMatch(/^p99 59(\.\d+)? ms · /);

  await page.locator("#multiples select").selectOption("count");
  await expect.poll(async () => (await names(page)).slice(0, 2)).toEqual(['{route="/r000"}', '{route="/r001"}']);
  const pixels = await panelColours(page, '{route="/r000"}');
  const view = await shown(page);
  const places = new Places({ ...view, left: 0, top: 0, plotWidth: SECONDS, plotHeight: 92, ratio: 1, first: 1, last: SECONDS } as unknown as View);
  const colours = mapOf("ember", "dark");
  for (const [lo, hi, count] of [[1.2e-3, 1.3e-3, 1000], [10e-3, 11e-3, 20]] as const) {
    const [top, bottom] = places.span(lo, hi);
    const row = Math.floor((top + bottom) / 2);
    const seen = pixels.map((column) => levelOf(colours, column[row] as [number, number, number]));
    // A bin of less than two rows shares them with its neighbours; its colour is at most its own.
    const expected = level(count, view.max, "linear");
    expect(seen.every((found) => found > 0 && found <= expected + 1), `${lo}: ${seen[0]} ${expected}`).toBe(true);
  }
  expect(errors).toEqual([]);
  await page.close();
});

/** Colours of every row in the middle of columns of a panel, right of what the scale covers. */
function panelColours(page: Page, name: string): Promise<[number, number, number][][]> {
  return page.evaluate((wanted) => {
    const canvas = [...document.querySelectorAll<HTMLElement>("#multiples .panel")].find((panel) => panel.dataset["group"] === wanted)?.querySelector("canvas") as HTMLCanvasElement;
    const { data } = (canvas.getContext("2d") as CanvasRenderingContext2D).getImageData(0, 0, canvas.width, canvas.height);
    return [0.4, 0.6, 0.8].map((part) =>
      Array.from({ length: canvas.height }, (_, y): [number, number, number] => {
        const at = (y * canvas.width + Math.floor(canvas.width * part)) * 4;
        return [data[at] as number, data[at + 1] as number, data[at + 2] as number];
      }),
    );
  }, name);
}

test("scrolling reaches the last group, and a click draws it alone with each of its samples", async () => {
  const { page, errors } = await open(all.browser, `${all.server.url}/?query=${QUERY}&start=${end - SECONDS}&end=${end}`);
  await expect.poll(async () => (await shown(page)).total).toBe(GROUPS);
  const frames = await page.evaluate(async () => {
    const box = document.querySelector("#multiples .scroller") as HTMLElement;
    const times: number[] = [];
    let before = performance.now();
    for (let top = 0; top < 4000; top += 80) {
      box.scrollTop = top;
      await new Promise((done) => requestAnimationFrame(done));
      times.push(performance.now() - before);
      before = performance.now();
    }
    return times.sort((a, b) => a - b);
  });
  console.log(`scrolling 500 groups: median frame ${frames[Math.floor(frames.length / 2)]?.toFixed(1)} ms, slowest ${frames.at(-1)?.toFixed(1)} ms`);
  await page.locator("#multiples .scroller").evaluate((box) => (box.scrollTop = box.scrollHeight));
  await expect.poll(async () => (await names(page)).some((name) => name.includes("r00"))).toBe(true);
  expect((await shown(page)).drawn).toBeLessThan(60);
  await page.locator('#multiples .panel[data-group=\'{route="/r005"}\']').click();
  await expect.poll(() => page.locator("[data-fact=total] .value").innerText()).toBe((SECONDS * (1000 - 5 + 20)).toLocaleString("en-US"));
  expect(new URL(page.url()).searchParams.get("group")).toBe('{route="/r005"}');
  await page.locator("[data-control=group]").selectOption("");
  await expect.poll(async () => (await shown(page)).drawn).toBeGreaterThan(5);
  expect(errors).toEqual([]);
  await page.close();
});
