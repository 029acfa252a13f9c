import { resolve } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, open, Server } from "./harness.ts";

let near: Server;
let away: Server;
let broker: Server;
let browser: Browser;

beforeAll(async () => {
  browser = await launch();
  [near, away] = await Promise.all([Server.start(), Server.start()]);
  broker = await Server.broker({ near: near.url, away: away.url });
});

afterAll(async () => {
  await browser?.close();
  for (const one of [broker, near, away]) await one?.end();
});

async function send(count: number): Promise<void> {
  const cells = { labels: { __name__: "asked_seconds" }, kind: "histogram", temporality: "delta", unit: "s", width_ms: 1000 };
  for (let sequence = 1; sequence <= count; sequence++) {
    const samples = [{ series: 0, time_ms: (Math.floor(Date.now() / 1000) - sequence) * 1000, histogram: { bins: { "1.2e-3": 4 } } }];
    await broker.push({ source: crypto.randomUUID(), sequence, series: [cells], samples });
  }
}

const card = (page: Page, name: string) => page.locator(`.destination[data-name="${name}"]`);
const words = async (page: Page, name: string): Promise<string> => (await card(page, name).innerText()).replace(/\s+/g, " ");
const done = (page: Page, name: string) => card(page, name).locator(".track i").evaluateAll((all) => all.map((one) => Number((one as HTMLElement).dataset["done"])));

test("a broker's page shows who is behind, why, and what of the spool each has", async () => {
  await away.stop();
  await send(20);
  const { page, errors } = await open(browser, broker.url);
  await expect.poll(() => page.title()).toBe("edge-1 · Ogive broker");
  await expect.poll(() => words(page, "near")).toContain("up to date");
  await expect.poll(() => words(page, "away")).toContain("does not answer");
  const text = await words(page, "away");
  expect(text).toMatch(/Not there yet [\d.]+ k?B/);
  expect(text).toContain(away.url);
  expect(text).toMatch(/failures in a row/);
  expect((await done(page, "away")).every((share) => share < 1)).toBe(true);
  await expect.poll(() => done(page, "near")).toContain(1);
  if (process.env["OGIVE_SCREENSHOT"] === "1") await page.screenshot({ path: resolve(import.meta.dirname, "../../docs/images/broker.png") });

  // It comes back and gets everything, and the page shows it without a reload.
  await away.run();
  await expect.poll(() => words(page, "away")).toContain("up to date");
  await expect.poll(() => words(page, "away")).toContain("Not there yet 0 B");

  // A broker that is gone is said so over the last picture.
  await broker.stop();
  await expect.poll(() => page.locator("#lost").isVisible()).toBe(true);
  expect(await page.locator("#lost").innerText()).toContain("The broker does not answer.");
  expect(await words(page, "away")).toContain("up to date");
  await broker.run();
  await expect.poll(() => page.locator("#lost").isVisible()).toBe(false);
  expect(errors).toEqual([]);
  await page.close();
});

test("a server's first page is not a broker's", async () => {
  const { page } = await open(browser, near.url);
  expect(await page.title()).not.toContain("broker");
  await page.close();
});
