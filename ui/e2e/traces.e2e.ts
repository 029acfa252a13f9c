import { spawn } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { isTrace, type Trace, type Traces } from "../src/traces.ts";
import { binary, boxOf, open, Places, shared, viewWhen } from "./harness.ts";

const EXAMPLE = readFileSync(resolve(import.meta.dirname, "../../vectors/trace/slow.txt"), "utf8").trimEnd();

const all = shared();

/** A path of orders whose last cell holds one of 10 ms, with its trace; the cells before have none. */
async function send(): Promise<number> {
  const end = Math.floor(Date.now() / 1000) - 3;
  const cells = { labels: { __name__: "order_path_seconds", stage: "total" }, kind: "histogram", temporality: "delta", unit: "s", width_ms: 1000 };
  const journal = { ...cells, labels: { __name__: "order_path_seconds", stage: "journal", class: "infra" } };
  const texts = { labels: { __name__: "order_path_slow", stage: "total" }, kind: "text" };
  const usual = [1, 2, 3, 4, 5, 6].map((ago) => ({ series: 0, time_ms: (end - ago) * 1000, histogram: { bins: { "1.2e-4": 400 } } }));
  const samples = [
    ...usual,
    { series: 0, time_ms: end * 1000, histogram: { bins: { "1.2e-4": 400, "1e-2": 1 } } },
    { series: 1, time_ms: end * 1000, histogram: { bins: { "1e-2": 1 } } },
    { series: 2, time_ms: end * 1000, text: EXAMPLE },
    // A second one of the same cell that is no trace.
    { series: 2, time_ms: end * 1000, text: "<b>by hand</b>" },
  ];
  expect(await all.server.push({ source: crypto.randomUUID(), sequence: 1, series: [cells, journal, texts], samples })).toMatchObject({ accepted: 10 });
  return end;
}

/** Sends one batch of so many numbers. */
async function load(count: number): Promise<void> {
  const now = Date.now();
  const samples = Array.from({ length: count }, (_, at) => ({ series: 0, time_ms: now + at, float: at }));
  await all.server.push({ source: crypto.randomUUID(), sequence: 1, series: [{ labels: { __name__: "e2e_load" }, kind: "float" }], samples });
}

const SCREENSHOT = process.env["OGIVE_SCREENSHOT"] === "1";

const panel = (page: Page) => page.locator("#traces");
const stages = (page: Page) => page.locator(".fall li .fall-name").allInnerTexts();

test("a click on the tail opens the slow trace of its cell, and the address keeps it", async () => {
  const end = await send();
  const query = encodeURIComponent('order_path_seconds{stage="total"}');
  const { page, errors } = await open(all.browser, `${all.server.url}/?query=${query}&start=${end - 20}&end=${end + 2}`);
  const now = await viewWhen(page, (one) => one.columns === 7 && one.marks.length > 0);
  expect(now.marks).toEqual([end]);
  const box = await boxOf(page.locator("#overlay"));
  const [x, y] = new Places(now).cell(end, 1e-2, 1.1e-2, 0.5, 0.5);
  await page.mouse.move(box.x + x, box.y + y);
  await expect.poll(() => page.locator("#tip").innerText()).toContain("slow traces");
  await page.mouse.click(box.x + x, box.y + y);
  await expect.poll(() => stages(page)).toEqual(["decode", "journal", "matched", "publish"]);
  const text = (await panel(page).innerText()).replace(/\s+/g, " ");
  for (const part of ["10,041,210 ns", "99.93 %", "10,047,998 ns", "OrderPath of feed 1", "counter, tsc-lfence at 2.5961 GHz", "error at most 35 ns", "Not stamped: replicate", "gap 10.1 ms", "1 texts are no slow traces"]) {
    expect(text).toContain(part);
  }
  // The bars are where the stages lie.
  const bar = (at: number) => boxOf(page.locator(".fall .track i").nth(at));
  const track = await boxOf(page.locator(".fall .track").first());
  expect((await bar(1)).width / track.width).toBeCloseTo(0.9993, 2);
  expect((await bar(3)).x).toBeGreaterThan(track.x + track.width * 0.98);
  await expect.poll(() => page.url()).toContain(`slow=${end - 1}-${end}&trace=1700000000123456789`);

  // The keyboard goes to the other one, which is shown as it is, not as markup.
  await page.keyboard.press("ArrowDown");
  await expect.poll(() => page.locator(".slow-detail pre").innerText()).toBe("<b>by hand</b>");
  await page.keyboard.press("ArrowUp");
  await expect.poll(() => stages(page)).toHaveLength(4);

  // The link alone leads there.
  const other = await open(all.browser, page.url(), "light");
  await expect.poll(() => stages(other.page)).toEqual(["decode", "journal", "matched", "publish"]);
  await other.page.close();

  // A text describes it in short, and leads to it as well.
  const texts = await open(all.browser, `${all.server.url}/?query=order_path_slow&range=15m`);
  await expect.poll(() => texts.page.locator("#table td:last-child").allInnerTexts()).toEqual(["<b>by hand</b>", "OrderPath of feed 1: 10 ms, journal 99.93 %"]);
  await texts.page.locator("#table button").click();
  await expect.poll(() => stages(texts.page)).toHaveLength(4);
  await texts.page.close();

  // A stage leads to its own histogram, where the same trace stays open.
  await page.locator(".fall li button", { hasText: "journal" }).click();
  await expect.poll(() => page.locator("#query").inputValue()).toContain('stage="journal"');
  await expect.poll(() => stages(page)).toHaveLength(4);
  await expect.poll(() => page.evaluate(() => document.activeElement?.className)).toBe("slow-list");
  await page.keyboard.press("Escape");
  await expect.poll(() => panel(page).isVisible()).toBe(false);
  await expect.poll(() => page.url()).not.toContain("slow=");
  expect(errors).toEqual([]);
  await page.close();
});

test("a cell without slow traces says in a line how to get them, by keyboard too", async () => {
  const { page, errors } = await open(all.browser, `${all.server.url}/?range=30s`);
  await viewWhen(page, (now) => now.columns >= 3);
  await page.locator("#overlay").focus();
  await page.keyboard.press("End");
  await page.keyboard.press("Enter");
  await expect.poll(() => panel(page).locator(".slow-note").innerText()).toContain("trace_path!");
  await expect.poll(() => page.locator("#live").getAttribute("aria-pressed")).toBe("false");
  await page.keyboard.press("Escape");
  await expect.poll(() => panel(page).isVisible()).toBe(false);
  // What the click stopped goes on.
  await expect.poll(() => page.locator("#live").getAttribute("aria-pressed")).toBe("true");
  expect(errors).toEqual([]);
  await page.close();
});

test.each(["dark", "light"] as const)("a slow batch of the server itself is found with nothing set up (%s)", async (theme) => {
  // A large batch among the small ones of a quiet server; a busy machine may need more than one.
  let found: Trace[] = [];
  for (let tries = 0; found.length === 0 && tries < 60; tries++) {
    await load(20_000);
    await new Promise((done) => setTimeout(done, 1200));
    const { data } = await all.server.json<{ data: Traces }>("v1/traces", { query: "ogive_ingest_seconds", limit: "1000" });
    found = data.traces.filter(isTrace).filter((one) => one.publisher === "/v1/batch");
  }
  const { t, published_ns } = found[0]!;
  const query = encodeURIComponent('ogive_ingest_seconds{stage="total"}');
  const { page, errors } = await open(all.browser, `${all.server.url}/?query=${query}&start=${t - 100}&end=${t + 5}&slow=${t - 1}-${t}&trace=${published_ns}`, theme);
  await viewWhen(page, (now) => now.marks.includes(t));
  await expect.poll(() => stages(page)).toEqual(["read", "decoded", "queued", "journaled", "durable", "applied", "answered"]);
  expect(await panel(page).innerText()).toContain("OgiveIngest of");
  await expect.poll(() => page.locator("#status").innerText()).toContain("paused");
  expect(errors).toEqual([]);
  await page.close();
}, 300_000);

test.runIf(SCREENSHOT)("a picture for the README: the matching engine of the examples with a slow journal", async () => {
  const engine = spawn(resolve(dirname(binary()), "ogive-matching-engine"), ["journal", "110", "--export", all.server.url], { stdio: "ignore" });
  await new Promise((done, fail) => engine.once("exit", done).once("error", fail));
  const asked = async (more: Record<string, string>) => (await all.server.json<{ data: Traces }>("v1/traces", { query: "order_path_seconds", limit: "1000", ...more })).data.traces.filter(isTrace);
  const newest = (await asked({}))[0]!.t;
  const shown = (await asked({ end: String(newest - 40) })).find((one) => one.worst === "journal")!;
  const query = encodeURIComponent('order_path_seconds{stage="total"}');
  const address = `${all.server.url}/?query=${query}&start=${newest - 100}&end=${newest}&slow=${shown.t - 1}-${shown.t}&trace=${shown.published_ns}`;
  const { page, errors } = await open(all.browser, address);
  await expect.poll(() => page.locator(".fall .worst .fall-name").innerText()).toBe("journal");
  await viewWhen(page, (now) => now.marks.includes(shown.t), 20_000);
  const path = resolve(import.meta.dirname, "../../docs/images/traces.png");
  mkdirSync(dirname(path), { recursive: true });
  await page.screenshot({ path });
  expect(errors).toEqual([]);
  await page.close();
}, 300_000);
