/** Several expressions in one view, a part of the values, and the way back and forward. */

import { beforeAll, expect, test } from "vitest";
import { boxOf, open, Places, shared, viewWhen } from "./harness.ts";

const NAME = "e2e_views_seconds";
const all = shared();
let end: number;

beforeAll(async () => {
  end = Math.floor(Date.now() / 1000) - 10;
  const series = [
    { labels: { __name__: NAME }, kind: "histogram", temporality: "delta", unit: "s", width_ms: 1000 },
    { labels: { __name__: "e2e_views_load", host: "a" }, kind: "float" },
  ];
  const samples = Array.from({ length: 100 }, (_, ago) => [
    { series: 0, time_ms: (end - ago) * 1000, histogram: { bins: { "1.2e-3": 70, "5.1e-1": 30 } } },
    { series: 1, time_ms: (end - ago) * 1000, float: 1 },
  ]).flat();
  expect(await all.server.push({ source: crypto.randomUUID(), sequence: 1, series, samples })).toMatchObject({ accepted: 200 });
});

test("expressions stand below each other over the same time, and change places", async () => {
  const { page, errors } = await open(all.browser, `${all.server.url}/?query=${NAME}&start=${end - 100}&end=${end}`);
  await viewWhen(page, (one) => one.columns === 100);
  await page.locator("#add-query").click();
  await page.locator("#query").fill("e2e_views_load");
  await page.locator("#query").press("Enter");
  await page.locator(".linetable td").first().waitFor();
  const below = page.locator("#more .panel-content");
  const drawn = async (): Promise<unknown> => JSON.parse((await below.first().getAttribute("data-panel")) ?? "null");
  await expect.poll(drawn).toMatchObject({ drawn: "heatmap", total: 10_000, columns: 100 });
  expect(new URL(page.url()).searchParams.getAll("and")).toEqual([NAME]);
  await page.getByRole("button", { name: "To the top" }).click();
  await viewWhen(page, (one) => one.columns === 100);
  await expect.poll(drawn).toMatchObject({ drawn: "lines", series: 1 });
  await page.reload();
  await expect.poll(drawn).toMatchObject({ drawn: "lines", series: 1 });
  await page.getByRole("button", { name: "Remove this expression" }).click();
  await expect.poll(() => page.locator("#more").isVisible()).toBe(false);
  expect(errors).toEqual([]);
  await page.close();
});

test("a box zooms into time and value; back and forward lead there", async () => {
  const { page, errors } = await open(all.browser, `${all.server.url}/?query=${NAME}&start=${end - 100}&end=${end}`);
  const whole = await viewWhen(page, (one) => one.columns === 100);
  const places = new Places(whole);
  const over = await boxOf(page.locator("#overlay"));
  const [x0, y0] = places.cell(end - 59, 0.51, 0.52, 0.5, 0.5);
  const [x1] = places.cell(end - 40, 0.51, 0.52, 0.5, 0.5);
  await page.locator("[data-control=zoom]").click();
  await page.mouse.move(over.x + x0, over.y + y0 - 20);
  await page.mouse.down();
  await page.mouse.move(over.x + x1, over.y + y0 + 20, { steps: 5 });
  await page.mouse.up();
  const part = await viewWhen(page, (one) => one.columns === 20);
  const domain = part.domain.positive as { lo: number; hi: number };
  expect(domain.lo).toBeGreaterThan(0.0013);
  expect(domain.lo).toBeLessThan(0.51);
  expect(domain.hi).toBeGreaterThan(0.52);
  // What is counted is the time, with all of its values.
  expect(part.total).toBe(2_000);
  const [lo, hi] = (new URL(page.url()).searchParams.get("values") ?? "").split(",").map(Number) as [number, number];
  expect([lo, hi]).toEqual([domain.lo, domain.hi]);
  await page.locator("#back").click();
  await viewWhen(page, (one) => one.columns === 100 && (one.domain.positive?.lo ?? 1) < 0.0012);
  await page.locator("#forward").click();
  await viewWhen(page, (one) => one.columns === 20 && one.domain.positive?.lo === domain.lo);
  await page.locator("[data-control=all-values]").click();
  await viewWhen(page, (one) => one.columns === 20 && (one.domain.positive?.lo ?? 1) < 0.0012);
  expect(errors).toEqual([]);
  await page.close();
});
