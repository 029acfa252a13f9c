import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { gridOf, stepOf } from "../src/loglines.ts";
import { boxOf, open, shared, view, viewWhen } from "./harness.ts";

const all = shared();

const shown = (page: Page) => page.locator(".log-line .text").allInnerTexts();

/** Three hundred lines of two series, one each second up to `end`, and three that say what is wrong. */
async function send(): Promise<number> {
  const end = Math.floor(Date.now() / 1000) - 5;
  const series = ["api", "web"].map((job) => ({ labels: { __name__: "app_log", job }, kind: "text" }));
  const usual = Array.from({ length: 300 }, (_, ago) => ({ series: ago % 2, time_ms: (end - ago) * 1000, text: `level=info msg="request ${ago}" status=200` }));
  const samples = [
    ...usual,
    { series: 0, time_ms: end * 1000 + 500, text: 'level=error msg="<b>no route</b>" status=503' },
    { series: 1, time_ms: (end - 100) * 1000, text: '{"level":"warn","msg":"slow","status":504}' },
    { series: 1, time_ms: (end - 200) * 1000, text: 'level=error msg="disk is full" status=507' },
  ];
  expect(await all.server.push({ source: crypto.randomUUID(), sequence: 1, series, samples })).toMatchObject({ accepted: 303 });
  return end;
}

test("lines are searched, counted, opened, and chosen by their bars", async () => {
  const end = await send();
  const { page, errors } = await open(all.browser, `${all.server.url}/logs.html?match=app_log&start=${end - 400}&end=${end + 10}`);
  await expect.poll(() => page.locator("#found").innerText()).toBe("200 of 303 lines");
  expect((await shown(page))[0]).toBe('level=error msg="<b>no route</b>" status=503');
  await page.locator("#older").click();
  await expect.poll(async () => (await shown(page)).length).toBe(303);
  expect(await page.locator("#older").isVisible()).toBe(false);

  // A search by a field of logfmt and JSON; its bars have the colours of what they count.
  await page.locator("#search").fill("status>=500");
  await page.keyboard.press("Enter");
  await expect.poll(() => page.locator("#found").innerText()).toBe("3 of 3 lines");
  await expect.poll(() => page.locator(".log-bar i.error").count()).toBe(2);
  await expect.poll(() => page.locator(".log-bar i.warn").count()).toBe(1);
  expect(new URL(page.url()).searchParams.get("search")).toBe("status>=500");

  // A line opens to its fields, and a field leads to the lines that have it.
  await page.locator(".log-line summary").nth(1).click();
  await expect.poll(() => page.locator(".log-detail dt").allInnerTexts()).toEqual(["level", "msg", "status", "series"]);
  await page.locator(".log-detail dd button", { hasText: "slow" }).click();
  await expect.poll(() => page.locator("#search").inputValue()).toBe("status>=500 msg=slow");
  await expect.poll(async () => (await shown(page)).length).toBe(1);
  await page.goBack();
  await expect.poll(async () => (await shown(page)).length).toBe(3);

  // A bar is chosen by a click.
  await page.locator(".log-bar:has(i.warn)").click();
  await expect.poll(() => shown(page)).toEqual(['{"level":"warn","msg":"slow","status":504}']);
  const params = new URL(page.url()).searchParams;
  expect(Number(params.get("start"))).toBeLessThan(end - 100);
  expect(Number(params.get("end"))).toBeGreaterThanOrEqual(end - 100);

  // What is wrong is said, and the lines of before stay.
  await page.locator("#search").fill("(a");
  await page.keyboard.press("Enter");
  await expect.poll(() => page.locator("#search-error").innerText()).toContain("column 1");
  expect(await shown(page)).toHaveLength(1);
  expect(errors).toEqual([]);
  await page.close();
});

test("a part of the heat map opens its lines", async () => {
  const { page, errors } = await open(all.browser, `${all.server.url}/?range=5m`);
  await viewWhen(page, (one) => one.columns >= 3);
  const now = await view(page);
  expect(await page.locator("#logs-link").getAttribute("href")).toBe("logs.html?range=5m");
  const box = await boxOf(page.locator("#overlay"));
  await page.keyboard.down("Shift");
  await page.mouse.move(box.x + now.left + now.plotWidth * 0.2, box.y + 100);
  await page.mouse.down();
  await page.mouse.move(box.x + now.left + now.plotWidth * 0.8, box.y + 140, { steps: 5 });
  await page.mouse.up();
  await page.keyboard.up("Shift");
  // They stand below the picture, which stays.
  const lines = page.locator("#log-lines");
  await expect.poll(() => lines.locator(".slow-note").innerText()).toMatch(/ of [\d,]+ lines$/);
  const [start, end] = new URL(page.url()).searchParams.get("lines")!.split("-").map(Number) as [number, number];
  expect(end - start).toBeGreaterThan(150);
  expect(end - start).toBeLessThan(220);
  expect((await view(page)).total).toBeGreaterThan(0);
  // As many as the server has in that time, and those that a search finds.
  const step = stepOf(end - start, 60);
  const grid = gridOf({ start, end }, step);
  const found = await all.server.json<{ data: { columns: [number, Record<string, number>][] } }>("v1/logs/columns", { query: "", start: String(grid.start + step), end: String(grid.end), step: String(step) });
  const total = found.data.columns.reduce((sum, [, counts]) => sum + Object.values(counts).reduce((a, b) => a + b, 0), 0);
  expect(await lines.locator(".slow-note").innerText()).toBe(`100 of ${total} lines`);
  await lines.getByRole("button", { name: "Older lines" }).click();
  await expect.poll(() => lines.locator(".log-line").count()).toBe(total);
  await lines.getByLabel("Search the lines").fill("status>=500");
  await page.keyboard.press("Enter");
  const wrong = await all.server.json<{ data: { lines: { line: string }[] } }>("v1/logs", { query: "status>=500", start: String(grid.start), end: String(grid.end) });
  await expect.poll(() => lines.locator(".text").allInnerTexts()).toEqual(wrong.data.lines.map(({ line }) => line));
  expect(wrong.data.lines.length).toBeGreaterThan(0);
  // A link shows the same; a field of a line is searched by a click; Escape closes.
  await page.reload();
  await expect.poll(() => lines.locator(".log-line").count()).toBe(wrong.data.lines.length);
  await lines.locator("summary").first().click();
  await lines.locator(".log-detail dd button").first().click();
  await expect.poll(() => lines.getByLabel("Search the lines").inputValue()).toContain("status>=500 ");
  if (process.env["OGIVE_SCREENSHOT"] !== undefined) await page.screenshot({ path: join(import.meta.dirname, "../../docs/images/lines.png") });
  await page.locator("#overlay").focus();
  await page.keyboard.press("Escape");
  await expect.poll(() => lines.isVisible()).toBe(false);
  expect(errors).toEqual([]);
  await page.close();
});
