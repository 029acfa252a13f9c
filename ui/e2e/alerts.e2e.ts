import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { launch, open, Server } from "./harness.ts";

const RULES = `groups:
- name: live
  interval: 1s
  rules:
  - alert: Slow
    expr: my_seconds > 0.5
    labels: {severity: page}
    annotations: {summary: '{{ $labels.host }} takes {{ $value }} s'}
`;

/** A slow trace. */
const TRACE = readFileSync(resolve(import.meta.dirname, "../../vectors/trace/slow.txt"), "utf8").trimEnd();

/** A rule on the p99 of a histogram, and one on what a lost instance sent. */
const PICTURED = `groups:
- name: pictured
  interval: 1s
  rules:
  - alert: SlowRequests
    expr: histogram_quantile(0.99, sum by (host) (rate(shop_seconds[1m]))) > 0.5
    labels: {severity: page}
  - alert: QueueLong
    expr: last_over_time(queue_length[30m]) > 5
`;

let server: Server;
let browser: Browser;
let file: string;
let pictured: Server;
let otherFile: string;

beforeAll(async () => {
  browser = await launch();
  server = await Server.start((own) => {
    file = join(own.data, "..", `rules-${own.port}.yml`);
    writeFileSync(file, RULES);
    return ["serve", "--data", own.data, "--listen", `127.0.0.1:${own.port}`, "--rules", file, "--alerting-wait", "0s"];
  });
  pictured = await Server.start((own) => {
    otherFile = join(own.data, "..", `rules-${own.port}.yml`);
    writeFileSync(otherFile, PICTURED);
    return ["serve", "--data", own.data, "--listen", `127.0.0.1:${own.port}`, "--rules", otherFile, "--alerting-wait", "0s"];
  });
});

afterAll(async () => {
  await browser?.close();
  await server?.end();
  await pictured?.end();
  for (const one of [file, otherFile]) if (one !== undefined) rmSync(one, { force: true });
});

test("alerts are listed, acknowledged with a reason, and rules tested while somebody writes", async () => {
  const now = Math.floor(Date.now() / 1000);
  const hosts = ["a", "b", "c"];
  const series = hosts.map((host) => ({ labels: { __name__: "my_seconds", host }, kind: "float" }));
  const seconds = Array.from({ length: 120 }, (_, at) => now - 60 + at);
  const samples = seconds.flatMap((second) => hosts.map((_, at) => ({ series: at, time_ms: second * 1000, float: at === 2 ? 0.1 : 0.9 })));
  expect(await server.push({ source: crypto.randomUUID(), sequence: 1, series, samples })).toMatchObject({ accepted: samples.length });
  const { page, errors } = await open(browser, `${server.url}/alerts.html`);
  const alerts = page.locator(".alert");
  await expect.poll(() => alerts.count(), { timeout: 60_000 }).toBe(2);
  expect(await page.locator(".alert-group .counts").innerText()).toBe("2 firing");
  expect((await alerts.first().locator(".text").innerText())).toMatch(/^[ab] takes 0.9 s$/);

  // A reason that was begun is still there when the list was drawn anew.
  await alerts.first().locator("summary").click();
  const reason = alerts.first().getByLabel("Reason");
  await reason.fill("the disk is being replaced");
  await reason.evaluate((input: HTMLInputElement) => {
    input.classList.add("before");
    input.blur();
  });
  await expect.poll(() => page.locator("input.before").count()).toBe(0);
  expect(await reason.inputValue()).toBe("the disk is being replaced");

  // One is acknowledged: the reason is kept, and it moves behind the other.
  await alerts.first().getByText("Acknowledge").click();
  await expect.poll(() => page.locator(".alert-group .counts").innerText()).toBe("2 firing · 1 quiet");
  await expect.poll(() => page.locator(".silence").innerText()).toContain("the disk is being replaced");
  expect(await page.locator(".silence").innerText()).toContain("until it ceases");
  expect(await alerts.last().locator(".condition").innerText()).toBe("quiet");
  const silences = await server.json<{ data: { silences: { acknowledgement: boolean }[] } }>("v1/silences");
  expect(silences.data.silences.map((one) => one.acknowledgement)).toEqual([true]);

  // A rule is tested as it is written; a mistake says its place.
  await page.locator("#stretch").selectOption("1h");
  await page.locator("#rules").fill(RULES.replace("> 0.5", "> "));
  await expect.poll(() => page.locator("#backtest .problem").innerText()).toContain("could not parse expression");
  await page.locator("#rules").fill(RULES);
  await expect.poll(() => page.locator(".tested p").innerText(), { timeout: 60_000 }).toMatch(/^Slow fired 2 times; with for: 2m [02] times, with for: 10m 0 times$/);
  const fired = await page.locator(".tested .track i").evaluateAll((all) => all.map((one) => parseFloat((one as HTMLElement).style.left)));
  expect(fired.length).toBe(2);
  // A minute and more before the end is near the end of an hour, and at the end of a day.
  for (const left of fired) expect(left).toBeLessThan(99);
  if (process.env["OGIVE_SCREENSHOT"] === "1") await page.screenshot({ path: resolve(import.meta.dirname, "../../docs/images/alerts.png") });

  await page.locator(".silence button").click();
  await expect.poll(() => page.locator(".silence").count()).toBe(0);
  expect(errors).toEqual([]);
});

test("an alert has its picture, and what is lost with a parent stands below it", async () => {
  const now = Math.floor(Date.now() / 1000);
  // The instance b sent each second until five minutes ago; a goes on, and its host x became slow a minute ago.
  const names = ["queue_length", "queue_age"].flatMap((name) => Array.from({ length: 4 }, (_, at) => ({ labels: { __name__: name, instance: "b", queue: `q${at}` }, kind: "float" })));
  const lost = Array.from({ length: 120 }, (_, at) => now - 420 + at).flatMap((second) => names.map((_, at) => ({ series: at, time_ms: second * 1000, float: 9 })));
  expect(await pictured.push({ source: crypto.randomUUID(), sequence: 1, series: names, samples: lost })).toMatchObject({ accepted: lost.length });
  // On x the route /pay is the slow one.
  const of = (host: string, route: string) => ({ labels: { __name__: "shop_seconds", instance: "a", host, route }, kind: "histogram", temporality: "delta", unit: "s", width_ms: 1000 });
  const cells = [of("x", "/pay"), of("x", "/list"), of("y", "/list")];
  const bins = (second: number, at: number): Record<string, number> => (at === 0 && second > now - 60 ? { "2e+0": 50 } : { "1e-2": at < 2 ? 50 : 100 });
  const [source, sent] = [crypto.randomUUID(), { sequence: 0, upTo: now - 480 }];
  const send = async (): Promise<void> => {
    const [from, to] = [sent.upTo, Math.floor(Date.now() / 1000)];
    if (to === from) return;
    sent.upTo = to;
    const seconds = Array.from({ length: to - from }, (_, at) => from + at + 1);
    const samples = seconds.flatMap((second) => cells.map((_, at) => ({ series: at, time_ms: second * 1000, histogram: { bins: bins(second, at) } })));
    expect(await pictured.push({ source, sequence: ++sent.sequence, series: cells, samples })).toMatchObject({ accepted: samples.length });
  };
  await send();
  const texts = [{ labels: { __name__: "shop_slow", instance: "a", host: "x", route: "/pay" }, kind: "text" }];
  const trace = { series: 0, time_ms: (now - 2) * 1000, text: TRACE };
  expect(await pictured.push({ source: crypto.randomUUID(), sequence: 1, series: texts, samples: [trace] })).toMatchObject({ accepted: 1 });
  // A start reads the last hours again.
  await pictured.stop();
  await pictured.run();
  const sender = setInterval(() => void send(), 500);
  onTestFinished(() => clearInterval(sender));

  const { page, errors } = await open(browser, `${pictured.url}/alerts.html`);
  const family = page.locator(".finding.family");
  await expect.poll(() => family.count(), { timeout: 90_000 }).toBe(1);
  expect(await family.locator("summary .text").first().innerText()).toContain('instance="b" is lost: 8 of its 8 series');
  await expect.poll(() => family.locator(".alert").count(), { timeout: 60_000 }).toBe(4);
  expect(await family.locator("summary .counts").first().innerText()).toMatch(/^8 series suppressed · 4 alerts/);
  const rest = page.locator("#groups .alert");
  await expect.poll(() => rest.count(), { timeout: 60_000 }).toBe(1);
  expect(await page.locator("#groups .alert-group b").allInnerTexts()).toEqual(["SlowRequests"]);

  // The picture is of the host that is slow alone, with the threshold above what was usual, and says what changed.
  await rest.locator("summary").click();
  const picture = rest.locator(".alert-picture");
  await expect.poll(() => picture.getAttribute("data-view"), { timeout: 60_000 }).not.toBe(null);
  // It is drawn anew as cells come: some after the begin, of the slow host.
  const cellsOf = (name: string): Promise<string[]> => picture.locator("tr", { has: page.getByRole("rowheader", { name, exact: true }) }).locator("td").allInnerTexts();
  await expect.poll(async () => (await cellsOf("p99"))[1], { timeout: 90_000 }).toMatch(/^[12][.0-9]*.s \([^)]* to [^)]*\)$/);
  type View = { x: number; y: number; width: number; height: number; columns: number; before: number; after: number };
  const viewNow = async (): Promise<View> => JSON.parse((await picture.getAttribute("data-view")) as string) as View;
  // The two series of a second are there one after the other.
  await expect.poll(async () => (await viewNow()).after % 100).toBe(0);
  const view = await viewNow();
  expect(view.x).toBeGreaterThan(0);
  expect(view.x).toBeLessThan(view.width);
  expect(view.y).toBeGreaterThan(0);
  expect(view.y).toBeLessThan(view.height);
  expect(view.before).toBeGreaterThan(0);
  expect(await picture.locator(".note").first().innerText()).toMatch(/: it began; threshold 500.ms$/);
  // Both lines are on the canvas: their pixels are all of one colour, and no cell has it. The picture moves on as time does.
  const lines = await picture.evaluate((element: HTMLElement) => {
    const { x, y } = JSON.parse(element.dataset["view"] as string) as { x: number; y: number };
    const canvas = element.querySelector("canvas") as HTMLCanvasElement;
    const context = canvas.getContext("2d") as CanvasRenderingContext2D;
    const colours = (left: number, top: number, width: number, height: number): number => {
      const words = new Uint32Array(context.getImageData(left, top, width, height).data.buffer);
      return new Set(words).size;
    };
    return [colours(0, y, canvas.width, 1), colours(x, 0, 1, canvas.height)];
  });
  expect(lines).toEqual([1, 2]);

  // What may explain it: the route that is slow, and a trace; both lead to the picture.
  await expect.poll(() => picture.locator(".reasons tbody tr").count(), { timeout: 60_000 }).toBeGreaterThan(0);
  const [label, share] = [picture.locator(".reasons tbody th").first(), picture.locator(".reasons tbody td").first()];
  expect([await label.innerText(), await share.innerText()]).toEqual(['route="/pay"', "100 %"]);
  expect(await picture.locator(".slowest li").innerText()).toContain("OrderPath of feed 1");
  const led = await open(browser, new URL((await picture.locator(".slowest a").getAttribute("href")) as string, `${pictured.url}/`).href);
  await expect.poll(() => led.page.locator("#traces .fall li").count(), { timeout: 30_000 }).toBeGreaterThan(0);
  const box = await open(browser, new URL((await picture.locator(".note a").getAttribute("href")) as string, `${pictured.url}/`).href);
  await expect.poll(() => box.page.locator(".explain-body tr[data-row]").count(), { timeout: 30_000 }).toBeGreaterThan(0);
  expect([led.errors, box.errors]).toEqual([[], []]);
  await Promise.all([led.page.close(), box.page.close()]);

  // It outlives a turn of the list.
  await picture.evaluate((element) => element.classList.add("before"));
  await rest.evaluate((element) => element.classList.add("old"));
  await expect.poll(() => page.locator(".alert.old").count(), { timeout: 30_000 }).toBe(0);
  expect(await page.locator(".alert-picture.before").count()).toBe(1);
  // The stored states of the alerts have the labels of what is lost: they once made it look as if half of it were back.
  const judged = async (): Promise<number> => (await pictured.json<{ watermark_ms: number }>("v1/detections")).watermark_ms;
  const later = (await judged()) + 10_000;
  await expect.poll(judged, { timeout: 60_000 }).toBeGreaterThan(later);
  const { active } = await pictured.json<{ active: { kind: string; sentence: string }[] }>("v1/detections");
  expect(active.map((one) => one.kind)).toContain("lost_parent");
  expect(await family.count()).toBe(1);
  if (process.env["OGIVE_SCREENSHOT"] === "1") {
    await family.locator("summary").first().click();
    await page.screenshot({ path: resolve(import.meta.dirname, "../../docs/images/alert.png"), fullPage: true });
  }
  expect(errors).toEqual([]);
});
