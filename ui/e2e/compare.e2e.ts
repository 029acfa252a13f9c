/** A range beside the same range an hour ago: lines, map, distribution and verdict, beside truth from what was sent and the API. */

import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import type { Comparison } from "../src/api.ts";
import { differencePalette } from "../src/colour.ts";
import { open, pixels, Places, shared, viewWhen } from "./harness.ts";

const NAME = "e2e_checkout_seconds";
const all = shared();
let end: number;

beforeAll(async () => {
  end = Math.floor(Date.now() / 1000) - 10;
  const series = [{ labels: { __name__: NAME, job: "shop" }, kind: "histogram", temporality: "delta", unit: "s", width_ms: 1000 }];
  // 100 seconds of 100 samples; an hour ago half as many, all of them faster. The map then has two bands.
  const of = (to: number, bins: Record<string, number>): object[] => Array.from({ length: 100 }, (_, ago) => ({ series: 0, time_ms: (to - ago) * 1000, histogram: { bins } }));
  const samples = [...of(end, { "1.3e-2": 60, "2.6e-2": 35, "5.2e-2": 5 }), ...of(end - 3600, { "1.0e-2": 30, "2.0e-2": 18, "4.0e-2": 2 })];
  expect(await all.server.push({ source: crypto.randomUUID(), sequence: 1, series, samples })).toMatchObject({ accepted: 200 });
});

type Compared = { ghost: number | null; ghostColumns: number; difference: number };

test("an hour ago stands below the picture, and the verdict is the API's", async () => {
  const { page, errors } = await open(all.browser, `${all.server.url}/?query=${NAME}&start=${end - 100}&end=${end}`);
  await viewWhen(page, (one) => one.columns === 100);
  await page.locator("[data-control=compare-3600]").click();
  const now = await viewWhen(page, (one) => (one as unknown as Compared).ghost !== null);
  expect(now.total).toBe(10_000);
  expect(now as unknown as Compared).toMatchObject({ ghost: 5_000, ghostColumns: 100, difference: 0 });
  const range = { query: NAME, start: String(end - 100), end: String(end), offset: "1h" };
  const { data } = await all.server.json<{ data: Comparison }>("v1/compare", range);
  expect([data.before.count, data.after.count, data.verdict]).toEqual([5_000, 10_000, "moved"]);
  const verdict = page.locator("#compare .verdict");
  await expect.poll(() => verdict.innerText()).toBe(`${data.sentence}: ${data.words}`);
  expect(data.sentence).toMatch(/^after is (29|30)\.\d % slower than before$/);
  expect(await page.locator("#compare [data-row=count] td").allInnerTexts()).toEqual(["5,000", "10,000", "+100 %"]);
  const row = await page.locator("#compare [data-row=p99] td").allInnerTexts();
  expect(row[2]).toMatch(/^\+29\.\d % \(\+29\.\d to \+(29|30)\.\d\)$/);

  // Differences: more where it is now, less where it was.
  await page.locator("[data-control=difference]").click();
  await viewWhen(page, (one) => (one as unknown as Compared).difference > 0);
  if (process.env["OGIVE_SCREENSHOT"] !== undefined) await page.screenshot({ path: join(import.meta.dirname, "../../docs/images/compare.png") });
  // Without lines, whose bands would tint the cells.
  await page.goto(`${page.url()}&q=`);
  const slot = end - 50;
  const colours = differencePalette("dark");
  const place = (pixel: unknown): number => colours.findIndex((one) => JSON.stringify(one) === JSON.stringify(pixel)) / colours.length;
  // The panel below may still change the height of the picture: places and pixels are read again until they belong together.
  const sides = async (): Promise<string> => {
    const places = new Places(await viewWhen(page, (one) => (one as unknown as Compared).difference > 0));
    const [more, less] = await pixels(page, [places.cell(slot, 0.026, 0.027, 0.5, 0.5), places.cell(slot, 0.02, 0.021, 0.5, 0.5)]);
    return place(more) > 0.6 && place(less) >= 0 && place(less) < 0.4 ? "more and less" : `${place(more)} and ${place(less)}`;
  };
  await expect.poll(sides).toBe("more and less");
  expect(await page.locator("#legend small").innerText()).toContain("now, less before");
  expect(new URL(page.url()).searchParams.get("compare")).toBe("1h");

  // A link shows the same; so does the way back.
  await page.reload();
  await viewWhen(page, (one) => (one as unknown as Compared).difference > 0);
  await page.getByRole("button", { name: "Close the comparison" }).click();
  await expect.poll(() => page.locator("#compare").isVisible()).toBe(false);
  await viewWhen(page, (one) => (one as unknown as Compared).ghost === null && one.columns === 100);
  await page.goBack();
  await viewWhen(page, (one) => (one as unknown as Compared).ghost === 5_000);
  expect(errors).toEqual([]);
  await page.close();
});

test("another time can be written, and one without samples is said to be one", async () => {
  const { page, errors } = await open(all.browser, `${all.server.url}/?query=${NAME}&start=${end - 100}&end=${end}&compare=1d`);
  await expect.poll(() => page.locator("#compare .verdict").innerText()).toContain("the range before has no samples");
  const other = page.getByLabel("Another time to compare with");
  await other.fill("whenever");
  await other.press("Enter");
  await expect.poll(() => page.locator("#compare .slow-note").innerText()).toContain("Write how long ago");
  await other.fill(String(end - 3700));
  await other.press("Enter");
  await viewWhen(page, (one) => (one as unknown as Compared).ghost === 5_000);
  expect(new URL(page.url()).searchParams.get("compare")).toBe(`@${end - 3700}`);
  expect(errors).toEqual([]);
  await page.close();
});
