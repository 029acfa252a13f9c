/** A box over time and value, and what the server finds different in it, beside truth from what was sent. */

import { beforeAll, expect, test } from "vitest";
import { boxOf, open, Places, shared, viewWhen } from "./harness.ts";

const NAME = "e2e_orders_seconds";
const all = shared();
let end: number;

beforeAll(async () => {
  end = Math.floor(Date.now() / 1000) - 10;
  const pairs = ["a", "b", "c"].flatMap((host) => ["/x", "/y", "/z"].map((route) => ({ host, route })));
  const series = pairs.map((labels) => ({ labels: { __name__: NAME, job: "shop", ...labels }, kind: "histogram", temporality: "delta", unit: "s", width_ms: 1000 }));
  // Of 100 seconds, host b is slow on /y for ten: 40 of its 50 samples.
  const samples = pairs.flatMap(({ host, route }, i) =>
    Array.from({ length: 100 }, (_, ago) => {
      const slow = host === "b" && route === "/y" && ago >= 40 && ago < 50;
      return { series: i, time_ms: (end - ago) * 1000, histogram: { bins: slow ? { "1.2e-3": 10, "5.1e-1": 40 } : { "1.2e-3": 49, "5.1e-1": 1 } } };
    }),
  );
  expect(await all.server.push({ source: crypto.randomUUID(), sequence: 1, series, samples })).toMatchObject({ accepted: 900 });
  // Of the same job, its database is slow at the same time, and its cache never is.
  const others = ["e2e_orders_sql_seconds", "e2e_orders_cache_seconds"].map((name) => ({ labels: { __name__: name, job: "shop" }, kind: "histogram", temporality: "delta", unit: "s", width_ms: 1000 }));
  const cells = others.flatMap((_, i) => Array.from({ length: 100 }, (_, ago) => ({ series: i, time_ms: (end - ago) * 1000, histogram: { bins: i === 0 && ago >= 40 && ago < 50 ? { "2.1e-1": 50 } : { "1.1e-3": 40, "2.1e-3": 10 } } })));
  expect(await all.server.push({ source: crypto.randomUUID(), sequence: 1, series: others, samples: cells })).toMatchObject({ accepted: 200 });
});

test("a box over what is slow names its host and route, and a click keeps only those", async () => {
  const { page, errors } = await open(all.browser, `${all.server.url}/?query=${NAME}&start=${end - 100}&end=${end}`);
  const now = await viewWhen(page, (one) => one.columns === 100);
  const places = new Places(now);
  const over = await boxOf(page.locator("#overlay"));
  const [x0, y0] = places.cell(end - 49, 0.51, 0.52, 0.5, 0.5);
  const [x1] = places.cell(end - 40, 0.51, 0.52, 0.5, 0.5);
  await page.locator("[data-control=explain]").click();
  await page.mouse.move(over.x + x0, over.y + y0 - 30);
  await page.mouse.down();
  await page.mouse.move(over.x + x1, over.y + y0 + 30, { steps: 5 });
  await page.mouse.up();
  const rows = page.locator("#explain .explain-body tbody tr");
  await expect.poll(() => rows.count()).toBe(3);
  // Ten seconds: 400 slow samples of b and /y, and one a second of each of the eight others.
  expect(await page.locator("#explain .slow-note").innerText()).toContain("480 samples in the box, 44,520 elsewhere, 9 series");
  expect(await rows.evaluateAll((all) => all.map((row) => (row as HTMLElement).dataset["row"]))).toEqual(['host="b", route="/y"', 'host="b"', 'route="/y"']);
  expect(await rows.first().locator("td").first().innerText()).toContain("400");
  const related = page.locator("#explain [data-related]");
  await expect.poll(() => related.evaluateAll((all) => all.map((row) => (row as HTMLElement).dataset["related"]))).toEqual(["e2e_orders_sql_seconds"]);
  expect(await related.locator("td").allInnerTexts()).toEqual([expect.stringContaining("slower"), "500", "4,500"]);
  const box = new URL(page.url()).searchParams.get("box")?.split(",").map(Number) as number[];
  expect(box.slice(0, 2)).toEqual([end - 50, end - 40]);
  // A link shows the same.
  await page.reload();
  await expect.poll(() => rows.count()).toBe(3);
  await rows.first().locator("button").click();
  await expect.poll(() => page.locator("#query").inputValue()).toBe(`${NAME}{host="b", route="/y"}`);
  await expect.poll(() => page.locator("[data-fact=total] .value").innerText()).toBe("5,000");
  expect(await page.locator("#explain").isVisible()).toBe(false);
  expect(errors).toEqual([]);
  await page.close();
});

test("a box in which nothing differs says so", async () => {
  const { page, errors } = await open(all.browser, `${all.server.url}/?query=${NAME}&start=${end - 100}&end=${end}&box=${end - 20},${end - 10},0.0001,0.002`);
  await expect.poll(() => page.locator("#explain .explain-body").innerText()).toContain("by more than chance explains");
  // Beside the rest, in which the database was slow for a while, it is fast here; the cache is as ever.
  const related = page.locator("#explain [data-related]");
  await expect.poll(() => related.evaluateAll((all) => all.map((row) => (row as HTMLElement).dataset["related"]))).toEqual(["e2e_orders_sql_seconds"]);
  expect(await related.innerText()).toContain("faster");
  await page.locator("#explain").getByRole("button", { name: "Close the explanation" }).click();
  await expect.poll(() => page.locator("#explain").isVisible()).toBe(false);
  expect(errors).toEqual([]);
  await page.close();
});
