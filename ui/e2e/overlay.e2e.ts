/** What browsers waited for over what the server took for the same route: in two clicks, with the numbers of both. */

import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import type { Comparison } from "../src/api.ts";
import { open, pixels, Places, type Point, shared, viewWhen } from "./harness.ts";

const SERVER = 'e2e_http_seconds{route="/items"}';
const BROWSER = 'e2e_page_seconds{route="/items", timing="load"}';
const all = shared();
let end: number;

beforeAll(async () => {
  end = Math.floor(Date.now() / 1000) - 10;
  const histogram = (labels: Record<string, string>): object => ({ labels, kind: "histogram", temporality: "delta", unit: "s", width_ms: 1000 });
  const series = [
    histogram({ __name__: "e2e_http_seconds", route: "/items", code: "2xx" }),
    histogram({ __name__: "e2e_page_seconds", route: "/items", timing: "load" }),
    histogram({ __name__: "e2e_page_seconds", route: "/items", timing: "ttfb" }),
    histogram({ __name__: "e2e_otel_seconds", http_route: "/items" }),
    histogram({ __name__: "e2e_http_seconds", route: "/other" }),
    { labels: { __name__: "e2e_items_total", route: "/items" }, kind: "float", temporality: "cumulative", unit: "", width_ms: 0 },
  ];
  const of = (number: number, bins: Record<string, number>): object[] => Array.from({ length: 100 }, (_, ago) => ({ series: number, time_ms: (end - ago) * 1000, histogram: { bins } }));
  const samples = [
    ...of(0, { "1.3e-2": 60, "2.6e-2": 35, "5.2e-2": 5 }),
    ...of(1, { "2.4e-1": 3, "6.1e-1": 1 }),
    ...of(2, { "3e-2": 4 }),
    ...of(3, { "1.3e-2": 9 }),
    ...of(4, { "1e0": 7 }),
    ...Array.from({ length: 100 }, (_, ago) => ({ series: 5, time_ms: (end - ago) * 1000, float: 1000 - ago })),
  ];
  expect(await all.server.push({ source: crypto.randomUUID(), sequence: 1, series, samples })).toMatchObject({ accepted: 600 });
});

type Over = { ghost: number | null; ghostColumns: number };

test("two clicks lay a page's timings over the server's cells of its route", async () => {
  const { page, errors } = await open(all.browser, `${all.server.url}/?query=${encodeURIComponent(SERVER)}&start=${end - 100}&end=${end}`);
  await viewWhen(page, (one) => one.columns === 100);
  await page.locator("[data-control=over]").click();
  const offered = page.locator("#compare [data-over]");
  await expect.poll(() => offered.allInnerTexts()).toEqual(['e2e_otel_seconds{http_route="/items"}', BROWSER, 'e2e_page_seconds{route="/items", timing="ttfb"}']);
  await offered.nth(1).click();

  // Both distributions, with their counts, over one axis of values.
  const now = await viewWhen(page, (one) => (one as unknown as Over).ghost !== null);
  expect([now.total, (now as unknown as Over).ghost, (now as unknown as Over).ghostColumns]).toEqual([10_000, 400, 100]);
  const places = new Places(now);
  const fast = places.cell(end - 50, 0.013, 0.014, 0.5, 0.5);
  const slow = places.cell(end - 50, 0.61, 0.62, 0.5, 0.5);
  expect(slow[1]).toBeGreaterThan(now.top);
  expect(fast[1]).toBeGreaterThan(slow[1] + 50);
  // The other's p50 is a dashed line through bins in which the server has nothing. The panel below may still change the
  // height of the picture: places and pixels are read again until they belong together.
  const coloursOf = async (points: Point[]): Promise<number> => new Set((await pixels(page, points)).map(String)).size;
  const line = async (): Promise<string> => {
    const now = new Places(await viewWhen(page, (one) => (one as unknown as Over).ghost !== null));
    const dashes = Array.from({ length: 320 }, (_, i) => now.cell(end - 90 + (i % 40) * 2, 0.24, 0.25, 0.5, (Math.floor(i / 40) + 0.5) / 8));
    const empty = dashes.map(([x]): Point => [x, now.span(0.4, 0.41)[0]]);
    return (await coloursOf(dashes)) > 1 && (await coloursOf(empty)) === 1 ? "dashed, and nothing beside it" : "something else";
  };
  await expect.poll(line).toBe("dashed, and nothing beside it");

  // The table is the server's answer for both.
  const { data } = await all.server.json<{ data: Comparison }>("v1/compare", { query: SERVER, before_query: BROWSER, start: String(end - 100), end: String(end), offset: "0s" });
  expect([data.before.count, data.after.count, data.verdict]).toEqual([400, 10_000, "moved"]);
  await expect.poll(() => page.locator("#compare thead th").allInnerTexts()).toEqual(["Of", "The other, dashed", "This", "From the other to this, 95 %"]);
  await expect.poll(() => page.locator("#compare [data-row=count] td").allInnerTexts()).toEqual(["400", "10,000", "+2400 %"]);
  const [browser, server] = await page.locator("#compare [data-row=p99] td").allInnerTexts();
  expect([browser, server].every((text) => /\d+(\.\d+)? ms$/.test(text as string))).toBe(true);
  expect(Number.parseFloat(browser as string)).toBeGreaterThanOrEqual(610);
  expect(Number.parseFloat(server as string)).toBeLessThan(60);
  await expect.poll(() => page.locator("#compare .verdict").innerText()).toMatch(/^this is \d+\.\d % faster than the other: /);
  if (process.env["OGIVE_SCREENSHOT"] !== undefined) await page.screenshot({ path: join(import.meta.dirname, "../../docs/images/browser-server.png") });

  // The other way round: what has its own timing is offered beside the server's.
  expect(new URL(page.url()).searchParams.get("compare")).toBe(`over:${BROWSER}`);
  await page.reload();
  await viewWhen(page, (one) => (one as unknown as Over).ghost === 400);
  await page.getByRole("button", { name: "Close the comparison" }).click();
  await viewWhen(page, (one) => (one as unknown as Over).ghost === null && one.columns === 100);
  await page.goto(`${all.server.url}/?query=${encodeURIComponent(BROWSER)}&start=${end - 100}&end=${end}&compare=over:`);
  await expect.poll(() => offered.allInnerTexts()).toEqual([SERVER, 'e2e_otel_seconds{http_route="/items"}', 'e2e_page_seconds{route="/items", timing="ttfb"}']);
  expect(errors).toEqual([]);
  await page.close();
});

test("an expression can be written, and a route without others is said to have none", async () => {
  const other = 'e2e_http_seconds{route="/other"}';
  const { page, errors } = await open(all.browser, `${all.server.url}/?query=${encodeURIComponent(other)}&start=${end - 100}&end=${end}&compare=over:`);
  await expect.poll(() => page.locator("#compare .slow-note").innerText()).toContain("write an expression");
  const written = page.getByLabel("Another expression to lay over");
  await written.fill(BROWSER);
  await written.press("Enter");
  await viewWhen(page, (one) => (one as unknown as Over).ghost === 400);
  expect(errors).toEqual([]);
  await page.close();
});
