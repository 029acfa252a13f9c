import { rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
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

let server: Server;
let browser: Browser;
let file: string;

beforeAll(async () => {
  browser = await launch();
  server = await Server.start((own) => {
    file = join(own.data, "..", `rules-${own.port}.yml`);
    writeFileSync(file, RULES);
    return ["serve", "--data", own.data, "--listen", `127.0.0.1:${own.port}`, "--rules", file, "--alerting-wait", "0s"];
  });
});

afterAll(async () => {
  await browser?.close();
  await server?.end();
  if (file !== undefined) rmSync(file, { force: true });
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
