/** One check from three brokers: their quantile lines over one another, and all of it in the heat map above. */

import type { Page } from "playwright-core";
import { beforeAll, expect, test } from "vitest";
import { open, shared, viewWhen } from "./harness.ts";

const CHECK = "e2e-shop";
const QUERY = `ogive_check_seconds{check="${CHECK}", phase="total"}`;
const BROKERS = ["edge-1", "edge-2", "edge-3"];
const SITES = ["fra", "ams", "fra"];
/** A run of each broker every 10 s, for ten minutes. */
const RUNS = 60;
const EVERY = 10;
const all = shared();
let end: number;

beforeAll(async () => {
  end = Math.floor(Date.now() / 60_000) * 60 - 60;
  // As brokers name what checks of their group measure.
  const labels = (name: string, at: number): object => ({ __name__: name, check: CHECK, kind: "http", target: "https://shop.example.com/", broker: BROKERS[at], site: SITES[at] });
  const series = BROKERS.flatMap((_, at) => [
    { labels: { ...labels("ogive_check_seconds", at), phase: "total" }, kind: "histogram", temporality: "delta", unit: "s", width_ms: 1000 },
    { labels: labels("ogive_check_up", at), kind: "float" },
  ]);
  const samples = BROKERS.flatMap((_, at) =>
    Array.from({ length: RUNS }, (_, run) => (end - run * EVERY - at) * 1000).flatMap((time_ms) => [
      { series: 2 * at, time_ms, histogram: { bins: { [`${at + 1}.2e-2`]: 1 } } },
      { series: 2 * at + 1, time_ms, float: 1 },
    ]),
  );
  expect(await all.server.push({ source: crypto.randomUUID(), sequence: 1, series, samples })).toMatchObject({ accepted: 2 * RUNS * BROKERS.length });
});

interface Drawn {
  label: string;
  places: string[];
  lines: [string, number][];
  step: number;
}

const drawn = async (page: Page): Promise<Drawn> => JSON.parse((await page.locator("#places").getAttribute("data-places")) ?? "{}") as Drawn;
const names = async (page: Page): Promise<string[] | undefined> => (await drawn(page)).lines?.map(([name]) => name);
const BOTH = BROKERS.flatMap((broker) => [`${broker} p50`, `${broker} p99`]);

test("the lines of each place are laid over one another below the heat map of all", async () => {
  const { page, errors } = await open(all.browser, `${all.server.url}/?query=${encodeURIComponent(QUERY)}&start=${end - RUNS * EVERY - 10}&end=${end + 10}&by=broker`);
  await viewWhen(page, (one) => one.total === RUNS * BROKERS.length);
  await expect.poll(() => names(page)).toEqual(BOTH);
  const { places, lines, step } = await drawn(page);
  // A column holds a run of each broker, so that lines have no gaps.
  expect([places, step]).toEqual([BROKERS, EVERY]);
  for (const [name, points] of lines) expect(points, name).toBeGreaterThanOrEqual(RUNS - 1);

  // The legend: a colour for each place.
  const rows = page.locator("#places .linetable tbody button.name");
  expect(await rows.allInnerTexts()).toEqual(BOTH);
  const colours = await rows.locator(".swatch").evaluateAll((swatches) => swatches.map((swatch) => getComputedStyle(swatch).borderTopColor));
  expect(new Set(colours).size).toBe(BROKERS.length);
  BROKERS.forEach((_, at) => expect(colours[2 * at]).toBe(colours[2 * at + 1]));
  expect(await page.locator("#places .linetable tbody tr").nth(2).innerText()).toMatch(/22(\.\d+)? ms/);

  // The quantiles are those of the page, and the address says what is shown.
  await page.locator('[data-control="q-0.5"]').click();
  await expect.poll(() => names(page)).toEqual(BROKERS.map((broker) => `${broker} p99`));
  await expect.poll(() => page.locator("#places select option").allInnerTexts()).toEqual(["broker", "site"]);
  await page.locator("#places select").selectOption("site");
  await expect.poll(() => names(page)).toEqual(["ams p99", "fra p99"]);
  expect(new URL(page.url()).searchParams.get("by")).toBe("site");
  const again = await open(all.browser, page.url());
  await expect.poll(() => names(again.page)).toEqual(["ams p99", "fra p99"]);
  expect(again.errors).toEqual([]);
  await again.page.close();

  // The same button that opens it closes it.
  await page.locator('[data-control="places"]').click();
  await expect.poll(() => page.locator("#places").isVisible()).toBe(false);
  expect(new URL(page.url()).searchParams.has("by")).toBe(false);
  expect(errors).toEqual([]);
  await page.close();
});

test("a check of the fleet's page leads there with one click", async () => {
  const { page, errors } = await open(all.browser, `${all.server.url}/fleet.html`);
  const link = page.locator(`#checks a[data-check="${CHECK}"]`);
  await link.waitFor();
  expect(await page.locator("#checks li", { has: page.locator(`a[data-check="${CHECK}"]`) }).innerText()).toBe(`${CHECK} from 3 places`);
  await link.click();
  await expect.poll(() => names(page)).toEqual(BOTH);
  expect(new URL(page.url()).searchParams.get("query")).toBe(QUERY);
  expect(errors).toEqual([]);
  await page.close();
});

test("what has no labels to go by says so", async () => {
  const { page } = await open(all.browser, `${all.server.url}/?query=${encodeURIComponent(`sum(${QUERY})`)}&start=${end - RUNS * EVERY}&end=${end}&by=broker`);
  await expect.poll(() => page.locator("#places .slow-note").innerText()).toContain("Only a plain selector");
  await page.close();
});
