/** What is awkward: names of any characters, a slow server, a proxy's page in place of an answer, a range without samples, a change of the clock. */

import { beforeAll, expect, test } from "vitest";
import { open, shared, viewWhen } from "./harness.ts";

const all = shared();
const DOTTED = "e2e.größe 😀.seconds";
let end: number;

beforeAll(async () => {
  end = Math.floor(Date.now() / 60_000) * 60 - 60;
  const cells = (series: number): object[] => Array.from({ length: 10 }, (_, ago) => ({ series, time_ms: (end - ago * 60) * 1000, histogram: { bins: { "1.2e-3": series + 1 } } }));
  const kind = { kind: "histogram", temporality: "delta", unit: "s", width_ms: 60_000 };
  const series = [
    { labels: { __name__: DOTTED, "http.route": '/a"\\<b>', long: "v".repeat(900) }, ...kind },
    { labels: { __name__: DOTTED, "http.route": "/b" }, ...kind },
    { labels: { __name__: "e2e_plain_seconds" }, ...kind },
  ];
  expect(await all.server.push({ source: crypto.randomUUID(), sequence: 1, series, samples: [0, 1, 2].flatMap(cells) })).toMatchObject({ accepted: 30 });
});

const range = (): string => `start=${end - 600}&end=${end}`;

test("a name of any characters is chosen, narrowed by a label of any characters, and grouped by it", async () => {
  const { page, errors } = await open(all.browser, `${all.server.url}/?query=e2e_plain_seconds&${range()}`);
  await page.locator(`#series .item[data-name="${DOTTED}"]`).click();
  await expect.poll(() => page.locator("#query").inputValue()).toBe(`{"${DOTTED}"}`);
  await viewWhen(page, (one) => one.total === 30);
  await page.locator("#series .chip", { hasText: "/b" }).click();
  await expect.poll(() => page.locator("#query").inputValue()).toBe(`{"${DOTTED}", "http.route"="/b"}`);
  await viewWhen(page, (one) => one.total === 20);
  await page.goto(`${all.server.url}/?query=${encodeURIComponent(`sum by ("http.route") ({"${DOTTED}"})`)}&${range()}`);
  await page.locator("#multiples .panel", { hasText: "/b" }).click();
  await viewWhen(page, (one) => one.total === 20);
  expect(new URL(page.url()).searchParams.get("group")).toBe('{"http.route"="/b"}');
  expect(errors).toEqual([]);
  await page.close();
});

test("a slow answer is said to be awaited, over a picture that is dim and not taken for it", async () => {
  const { page, errors } = await open(all.browser, `${all.server.url}/?query=e2e_plain_seconds&${range()}`);
  await viewWhen(page, (one) => one.total === 30);
  expect(await page.locator(".asking").isVisible()).toBe(false);
  let answer = (): void => undefined;
  const held = new Promise<void>((done) => (answer = done));
  await page.route("**/v1/heatmap*", async (route) => {
    await held;
    await route.fallback();
  });
  await page.locator(`#series .item[data-name="${DOTTED}"]`).click();
  await expect.poll(() => page.locator(".asking").innerText()).toMatch(/^Asking the server…( \d+ s)?$/);
  const opacity = (): Promise<number> => page.locator("#map").evaluate((map) => Number(getComputedStyle(map).opacity));
  await expect.poll(opacity).toBeLessThan(0.5);
  answer();
  await expect.poll(() => page.locator(".asking").isVisible()).toBe(false);
  await viewWhen(page, (one) => one.total === 30);
  await expect.poll(opacity).toBe(1);
  expect(errors).toEqual([]);
  await page.close();
});

test("a list that has not come is no empty list", async () => {
  const { page } = await open(all.browser, `${all.server.url}/?query=e2e_plain_seconds&${range()}`);
  let answer = (): void => undefined;
  const held = new Promise<void>((done) => (answer = done));
  await page.route("**/api/v1/label/__name__/values*", async (route) => {
    await held;
    await route.fallback();
  });
  await page.reload();
  await expect.poll(() => page.locator("#series .note").innerText()).toBe("Asking for the series…");
  answer();
  await page.locator('#series .item[aria-current="true"]').waitFor();
  await page.close();
});

test("a proxy's login page is no refusal and no empty picture", async () => {
  const { page } = await open(all.browser, `${all.server.url}/?query=e2e_plain_seconds&${range()}`);
  await viewWhen(page, (one) => one.total === 30);
  await page.route("**/v1/heatmap*", (route) => route.fulfill({ status: 200, contentType: "text/html", body: "<h1>Log in</h1>" }));
  await page.locator(`#series .item[data-name="${DOTTED}"]`).click();
  await expect.poll(() => page.locator("#lost").innerText()).toMatch(/^The server answered .*What you see is old\. Trying again…$/s);
  expect(await page.locator("#lines").isVisible()).toBe(false);
  await page.unroute("**/v1/heatmap*");
  await expect.poll(() => page.locator("#lost").isVisible()).toBe(false);
  await viewWhen(page, (one) => one.total === 30);
  await page.close();
});

test("a range without samples says when the last one was, and leads there", async () => {
  const { page, errors } = await open(all.browser, `${all.server.url}/?query=e2e_plain_seconds&start=${end - 7200}&end=${end - 3600}`);
  await expect.poll(() => page.locator("#empty [data-last]").getAttribute("data-last")).toBe(String(end));
  await page.locator("#empty").getByRole("button", { name: "Show that time" }).click();
  await viewWhen(page, (one) => one.total === 30);
  await page.locator("#back").click();
  await expect.poll(() => page.locator("#empty h2").innerText()).toBe("No samples in this range");
  expect(errors).toEqual([]);
  await page.close();
});

test("the zone is said, with both offsets where the clock changes, and numbers are those of no locale", async () => {
  // 2026-10-25 03:00 CEST is 02:00 CET.
  const night = Date.UTC(2026, 9, 25, 1) / 1000;
  const { page, errors } = await open(all.browser, `${all.server.url}/?query=e2e_plain_seconds&start=${night - 7200}&end=${night + 7200}`, "dark", 900, 1440, { locale: "de-DE", timezoneId: "Europe/Berlin" });
  await expect.poll(() => page.locator("#range-button").getAttribute("title")).toBe("Times are local, UTC+02:00, then UTC+01:00");
  expect(await page.locator("#range-button").innerText()).toContain("2026-10-25 01:00:00 – 04:00:00");
  await page.goto(`${all.server.url}/?query=e2e_plain_seconds&${range()}`);
  await expect.poll(() => page.locator("[data-fact=p50] .value").innerText()).toBe("1.2 – 1.3 ms");
  expect(errors).toEqual([]);
  await page.close();
});

test("the expression has room for itself, and names keep their last word", async () => {
  for (const [width, least] of [[1440, 700], [800, 400], [390, 150]] as const) {
    const { page } = await open(all.browser, `${all.server.url}/?query=e2e_plain_seconds&start=${end - 7 * 86400}&end=${end}`, "dark", 900, width);
    const box = await page.locator("#query").boundingBox();
    // It was 90 pixels at 1440, and 10 beside a range with dates.
    expect([width, (box?.width ?? 0) >= least]).toEqual([width, true]);
    await page.close();
  }
});

test("by keyboard the picture is a few stops behind the list, whose names are one stop", async () => {
  const { page, errors } = await open(all.browser, `${all.server.url}/?query=e2e_plain_seconds&${range()}`);
  await viewWhen(page, (one) => one.total === 30);
  await page.locator('#series .item[aria-current="true"]').waitFor();
  await page.locator("#series input").focus();
  const stops: string[] = [];
  for (let i = 0; i < 40 && stops.at(-1) !== "overlay"; i++) {
    await page.keyboard.press("Tab");
    stops.push(await page.evaluate(() => (document.activeElement as HTMLElement).dataset["name"] ?? document.activeElement?.id ?? ""));
  }
  // Each name in view was a stop once.
  expect(stops.filter((one) => one === "e2e_plain_seconds" || one.startsWith("ogive_"))).toEqual(["e2e_plain_seconds"]);
  expect(stops.at(-1)).toBe("overlay");
  await page.locator('#series .item[aria-current="true"]').focus();
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Enter");
  await expect.poll(() => page.locator("#query").inputValue()).not.toBe("e2e_plain_seconds");
  expect(errors).toEqual([]);
  await page.close();
});
