/** Pictures of what real senders send: the OpenTelemetry SDK at 15 s and prometheus_client's classic buckets, beside what they counted. */

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Page } from "playwright-core";
import { beforeAll, expect, test } from "vitest";
import { formatCount, formatValue } from "../src/format.ts";
import { binary, freePort, open, Server, shared, viewWhen } from "./harness.ts";

const all = shared();
const SECONDS = 3600;
/** A whole quarter of a minute, some minutes ago. */
const END = Math.floor(Date.now() / 15_000) * 15 - 600;
const CHECKOUT = "shop_checkout_duration_seconds";
const REPORT = "shop_report_duration_seconds";

interface Sent {
  count: number;
  max: number;
  slow: number;
  routes: Record<string, number>;
}
let sent: Record<string, Sent>;
let scraped: Record<string, number>;

const PYTHON = resolve(import.meta.dirname, "../../target/clients/venv/bin/python");

function python(program: string, ...args: string[]): string {
  if (!existsSync(PYTHON)) throw new Error("the clients of other makers are not installed: run scripts/clients");
  return execFileSync(PYTHON, [join(import.meta.dirname, "senders", program), ...args], { encoding: "utf8" });
}

beforeAll(() => {
  const { url, data } = all.server;
  sent = JSON.parse(python("otel_past.py", new URL(url).host, String(END), String(SECONDS))) as Record<string, Sent>;
  const text = join(data, "..", `${new URL(url).port}.om`);
  scraped = JSON.parse(python("prometheus_past.py", text, String(END), String(SECONDS))) as Record<string, number>;
  execFileSync(binary(), ["import", "openmetrics", text, "--server", url]);
});

const picture = (query: string, more = ""): string => `${all.server.url}/?query=${encodeURIComponent(query)}&start=${END - SECONDS}&end=${END}${more}`;
const fact = (page: Page, name: string, part = "value"): Promise<string> => page.locator(`[data-fact="${name}"] .${part}`).innerText();

/** What the documentation shows, when somebody makes it. */
async function shot(page: Page, name: string): Promise<void> {
  if (process.env["OGIVE_SCREENSHOT"] === undefined) return;
  await page.mouse.move(0, 0);
  await page.waitForTimeout(1500);
  await page.screenshot({ path: resolve(import.meta.dirname, `../../docs/images/${name}.png`) });
}

const SIZE = ["dark", 760, 1240] as const;

test("an exponential histogram of the OpenTelemetry SDK has each of its samples, and its greatest", async () => {
  const { page, errors } = await open(all.browser, picture(CHECKOUT), ...SIZE);
  const now = await viewWhen(page, (one) => one.columns === SECONDS / 15);
  const { count, max } = sent["shop.checkout.duration"] as Sent;
  expect([now.step, now.total, await fact(page, "total"), await fact(page, "max")]).toEqual([15, count, formatCount(count), formatValue(max, "s", 4)]);
  await shot(page, "otlp");
  expect(errors).toEqual([]);
  await page.close();
});

test("a few samples are points, and quantiles that they do not bound say so in full", async () => {
  const { page, errors } = await open(all.browser, picture(REPORT), ...SIZE);
  const now = await viewWhen(page, (one) => one.total > 0);
  const { count } = sent["shop.report.duration"] as Sent;
  expect(now.total).toBe(count);
  expect(await fact(page, "p999", "note")).toContain(`p99.9 of ${count} samples is the maximum`);
  // It once ended in an ellipsis in the middle of that.
  expect(await page.locator("[data-fact=p999] .note").evaluate((note) => note.scrollWidth <= note.clientWidth)).toBe(true);
  // Bins of the SDK's finest scale were "15.2 - 15.2 s".
  expect(await fact(page, "p999")).toMatch(/^[\d.]+ s$/);
  await shot(page, "low-counts");
  expect(errors).toEqual([]);
  await page.close();
});

test("classic buckets are a heat map with each request", async () => {
  // The last scrape is of a moment after the range.
  const { page, errors } = await open(all.browser, picture("web_request_duration_seconds_bucket").replace(`end=${END}`, `end=${END + 15}`), ...SIZE);
  const counted = Object.values(scraped).reduce((sum, one) => sum + one, 0);
  const now = await viewWhen(page, (one) => one.columns > 200);
  expect([now.step, now.total]).toEqual([15, counted]);
  await shot(page, "classic");
  expect(errors).toEqual([]);
  await page.close();
});

test("groups fill the page, the worst first, with the time that they show", async () => {
  const { page, errors } = await open(all.browser, picture(`sum by (host, route) (${CHECKOUT})`), ...SIZE);
  await expect.poll(() => page.locator("#multiples .panel b").first().innerText()).toBe('{host="b", route="/pay"}');
  await expect.poll(() => page.locator("#multiples .panel").count()).toBe(6);
  const { filled, room } = await page.evaluate(() => {
    const [panels, scroller] = [[...document.querySelectorAll("#multiples .panel")], document.querySelector("#multiples .scroller") as HTMLElement];
    return { filled: Math.max(...panels.map((one) => one.getBoundingClientRect().bottom)) - scroller.getBoundingClientRect().top, room: scroller.clientHeight };
  });
  // Six groups once used the upper third.
  expect(filled).toBeGreaterThan(room * 0.9);
  expect(filled).toBeLessThanOrEqual(room);
  expect(await page.locator("#multiples .bar").innerText()).toMatch(/\d\d:\d\d:\d\d – \d\d:\d\d:\d\d/);
  // What needs one picture is not offered for six.
  expect(await page.locator("[data-control=explain], [data-control=compare-3600]").count()).toBe(0);
  await shot(page, "groups");
  expect(errors).toEqual([]);
  await page.close();
});

test("a box over what was slow names the host and route, and counts those that were", async () => {
  const { page, errors } = await open(all.browser, picture(CHECKOUT, `&box=${END - 900},${END - 600},0.2,0.6`), ...SIZE);
  const rows = page.locator("#explain .explain-body tbody tr");
  await expect.poll(() => rows.first().getAttribute("data-row")).toBe('host="b", route="/pay"');
  const { slow, count } = sent["shop.checkout.duration"] as Sent;
  expect(await page.locator("#explain .slow-note").innerText()).toContain(`${formatCount(slow)} samples in the box, ${formatCount(count - slow)} elsewhere`);
  // A link's box was "200m - 600m": its unit comes with the columns.
  await expect.poll(() => page.locator("#explain h2").innerText()).toContain("200 – 600 ms");
  await shot(page, "explain");
  expect(errors).toEqual([]);
  await page.close();
});

test("a phone shows the picture without scrolling", async () => {
  const { page, errors } = await open(all.browser, picture(CHECKOUT), "dark", 844, 390);
  const now = await viewWhen(page, (one) => one.columns > 10);
  expect(now.total).toBe((sent["shop.checkout.duration"] as Sent).count);
  const box = await page.locator("#cells").boundingBox();
  // Choices took so many rows that it ended below the screen.
  expect((box?.y ?? 999) + (box?.height ?? 999)).toBeLessThan(700);
  await shot(page, "phone");
  expect(errors).toEqual([]);
  await page.close();
});

test("a week of cells of a minute has each sample", async () => {
  const last = Math.floor(END / 3600) * 3600;
  const series = [{ labels: { __name__: "e2e_week_seconds" }, kind: "histogram", temporality: "delta", unit: "s", width_ms: 60_000 }];
  const minutes = Array.from({ length: 7 * 1440 }, (_, ago) => ({ series: 0, time_ms: (last - ago * 60) * 1000, histogram: { bins: { "1.2e-3": 5 + (ago % 7), "3.5e-2": ago % 2 } } }));
  const total = minutes.reduce((sum, { histogram }) => sum + Object.values(histogram.bins).reduce((all, one) => all + one, 0), 0);
  expect(await all.server.push({ source: crypto.randomUUID(), sequence: 1, series, samples: minutes })).toMatchObject({ accepted: minutes.length });
  const { page, errors } = await open(all.browser, `${all.server.url}/?query=e2e_week_seconds&start=${last - 7 * 86400}&end=${last}`, ...SIZE);
  const now = await viewWhen(page, (one) => one.columns > 100);
  expect([now.total, now.step % 60]).toEqual([total, 0]);
  expect(errors).toEqual([]);
  await page.close();
});

test("what the DogStatsD client of Datadog sends over UDP is on the live picture, each of it", async () => {
  const statsd = await freePort();
  const server = await Server.start(({ data, port }) => ["serve", "--data", data, "--listen", `127.0.0.1:${port}`, "--statsd", `udp:127.0.0.1:${statsd}`, "--statsd", `unix:${data}/statsd`]);
  try {
    const { page, errors } = await open(all.browser, `${server.url}/?query=${encodeURIComponent('dog_size{via="udp"}')}&range=1m`, ...SIZE);
    const client = resolve(import.meta.dirname, "../../crates/ogive/tests/clients/dogstatsd.py");
    execFileSync(PYTHON, [client, "127.0.0.1", String(statsd), join(server.data, "statsd"), "500"]);
    await viewWhen(page, (one) => one.total === 500);
    expect(await fact(page, "max")).toBe("100");
    expect(errors).toEqual([]);
    await page.close();
  } finally {
    await server.end();
  }
});
