/** Boards: ready-made, arranged, saved, with variables and versions, imported from Grafana, on a wall; counts beside the API's. */

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { beforeAll, expect, test } from "vitest";
import { boxOf, open, shared } from "./harness.ts";

const NAME = "e2e_board_seconds";
const all = shared();
let end: number;

const BOARD = {
  name: "shop",
  title: "Shop",
  variables: [{ name: "host", label: "host", match: NAME }],
  panels: [
    { title: "Latency", queries: [`${NAME}{host=~"$host"}`], kind: "heatmap", x: 0, y: 0, w: 6, h: 4 },
    { title: "Samples", queries: [`histogram_count(sum(increase(${NAME}{host=~"$host"}[100s])))`], kind: "number", x: 6, y: 0, w: 6, h: 4 },
    { title: "Load", queries: ['e2e_load{host=~"$host"}'], kind: "lines", x: 0, y: 4, w: 12, h: 4 },
  ],
};

beforeAll(async () => {
  end = Math.floor(Date.now() / 1000) - 10;
  const hosts = ["a", "b"];
  const series = hosts.flatMap((host) => [
    { labels: { __name__: NAME, host }, kind: "histogram", temporality: "delta", unit: "s", width_ms: 1000 },
    { labels: { __name__: "e2e_load", host }, kind: "float" },
  ]);
  const samples = hosts.flatMap((_, at) =>
    Array.from({ length: 100 }, (_, ago) => [
      { series: at * 2, time_ms: (end - ago) * 1000, histogram: { bins: { "1.2e-3": 10 * (at + 1) } } },
      { series: at * 2 + 1, time_ms: (end - ago) * 1000, float: at + 1 },
    ]).flat(),
  );
  expect(await all.server.push({ source: crypto.randomUUID(), sequence: 1, series, samples })).toMatchObject({ accepted: 400 });
});

const range = (): string => `start=${end - 100}&end=${end}`;
const panel = async (page: Page, title: string): Promise<Record<string, unknown>> => JSON.parse((await page.locator(`[data-title="${title}"] .panel-content`).getAttribute("data-panel")) ?? "{}") as Record<string, unknown>;
const placeOf = (page: Page, title: string): Promise<string | null> => page.locator(`[data-title="${title}"]`).getAttribute("data-place");

test("a saved board shows what the API counts, and a variable narrows it down", async () => {
  const file = join(all.server.data, "shop.json");
  writeFileSync(file, JSON.stringify(BOARD));
  await fetch(`${all.server.url}/v1/boards`, { method: "POST", headers: { "content-type": "application/json" }, body: readFileSync(file) });
  const { page, errors } = await open(all.browser, `${all.server.url}/board.html`);
  await page.locator("[data-board=shop]").click();
  await page.locator("[data-title=Latency]").waitFor();
  await page.goto(`${all.server.url}/board.html?name=shop&${range()}`);
  await expect.poll(async () => (await panel(page, "Latency"))["total"]).toBe(3_000);
  await expect.poll(async () => (await panel(page, "Samples"))["values"]).toEqual(["3000"]);
  await expect.poll(async () => (await panel(page, "Load"))["series"]).toBe(2);
  if (process.env["OGIVE_SCREENSHOT"] !== undefined) await page.screenshot({ path: join(import.meta.dirname, "../../docs/images/board.png") });
  const heat = await all.server.json<{ data: { distribution: { count: string } } }>("v1/heatmap", { query: NAME, start: String(end - 99), end: String(end), step: "1", merge: "true" });
  expect(Number(heat.data.distribution.count)).toBe(3_000);
  await page.locator("[data-variable=host]").selectOption("b");
  await expect.poll(async () => (await panel(page, "Latency"))["total"]).toBe(2_000);
  await expect.poll(async () => (await panel(page, "Load"))["series"]).toBe(1);
  expect(new URL(page.url()).searchParams.get("var-host")).toBe("b");
  // The title opens the panel's expression alone, with the value in it.
  expect(decodeURIComponent((await page.locator("[data-title=Latency] a").getAttribute("href")) ?? "")).toContain('host=~"b"');
  // A wall shows panels alone.
  await page.goto(`${page.url()}&tv=1`);
  await expect.poll(async () => (await panel(page, "Latency"))["total"]).toBe(2_000);
  expect(await page.locator("header").isVisible()).toBe(false);
  expect(await page.evaluate(() => document.documentElement.scrollHeight <= window.innerHeight)).toBe(true);
  await page.keyboard.press("Escape");
  await expect.poll(() => page.locator("header").isVisible()).toBe(true);
  expect(errors).toEqual([]);
  await page.close();
});

test("panels are dragged, and a link holds what is not saved; a save is a version, and none overwrites another's", async () => {
  const { page, errors } = await open(all.browser, `${all.server.url}/board.html?name=shop&${range()}&edit=1`);
  await expect.poll(async () => (await panel(page, "Latency"))["total"]).toBe(3_000);
  expect(await page.locator("#dirty").isVisible()).toBe(false);
  // To the left: what is there goes down. Again when the panel moved away below the pointer.
  await expect
    .poll(async () => {
      if ((await placeOf(page, "Samples")) !== "0,0,6,4") {
        const head = await boxOf(page.locator("[data-title=Samples] .panel-head"));
        await page.mouse.move(head.x + 200, head.y + 15);
        await page.mouse.down();
        await page.mouse.move(head.x - 300, head.y + 15, { steps: 8 });
        await page.mouse.move(head.x + 200 - 6 * (head.width / 6), head.y + 15, { steps: 8 });
        await page.mouse.up();
      }
      return placeOf(page, "Samples");
    })
    .toBe("0,0,6,4");
  expect([await placeOf(page, "Latency"), await placeOf(page, "Load")]).toEqual(["0,4,6,4", "0,8,12,4"]);
  await expect.poll(() => page.locator("#dirty").isVisible()).toBe(true);
  const link = (): string => new URL(page.url()).hash;
  await expect.poll(() => link().length).toBeGreaterThan(20);
  const dragged = link();
  // By keys: wider, and back.
  await page.locator("[data-title=Samples] .grip").focus();
  await page.keyboard.press("Shift+ArrowRight");
  await expect.poll(() => placeOf(page, "Samples")).toBe("0,0,7,4");
  // The link follows a moment later.
  await expect.poll(link).not.toBe(dragged);
  await page.reload();
  await expect.poll(() => placeOf(page, "Samples")).toBe("0,0,7,4");
  await page.locator("#save").click();
  await expect.poll(() => page.locator("#dirty").isVisible()).toBe(false);
  await expect.poll(() => page.locator("#versions select").inputValue()).toBe("2");
  const saved = await all.server.json<{ data: { version: number; board: typeof BOARD } }>("v1/boards/shop");
  expect(saved.data.version).toBe(2);
  expect(saved.data.board.panels.map(({ x, y, w, h }) => [x, y, w, h])).toEqual([[0, 4, 6, 4], [0, 0, 7, 4], [0, 8, 12, 4]]);
  // Somebody else saves meanwhile.
  await page.locator("#edit").click();
  await fetch(`${all.server.url}/v1/boards`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ ...BOARD, title: "Theirs" }) });
  await page.locator("[data-title=Load] .grip").focus();
  await page.keyboard.press("Shift+ArrowDown");
  await expect.poll(() => page.locator("#dirty").isVisible()).toBe(true);
  await page.locator("#save").click();
  await expect.poll(() => page.locator("#notices").innerText()).toContain("version 3 by now");
  // An earlier version can be looked at.
  await page.goto(`${all.server.url}/board.html?name=shop&version=1`);
  await expect.poll(() => placeOf(page, "Samples")).toBe("6,0,6,4");
  expect(errors).toEqual([]);
  await page.close();
});

test("a ready-made board is there because its series are, and a panel of it can be changed", async () => {
  const { page, errors } = await open(all.browser, `${all.server.url}/board.html`);
  await page.locator("[data-ready=ogive]").click();
  await expect.poll(async () => Number((await panel(page, "HTTP requests"))["total"])).toBeGreaterThan(0);
  expect(await page.locator("[data-ready=host]").count()).toBe(0);
  await page.locator("#edit").click();
  await page.locator('[data-title="HTTP requests"]').getByRole("button", { name: "Change this panel" }).click();
  const form = page.getByRole("dialog", { name: "Panel" });
  await form.getByLabel("Title").fill("Both");
  await form.getByLabel("Kind").selectOption("lines");
  await form.getByLabel("Expressions").fill("ogive_clock_epoch\nogive_clock_epoch * 2");
  await form.getByRole("button", { name: "Take" }).click();
  await expect.poll(async () => await panel(page, "Both")).toMatchObject({ drawn: "lines", series: 2 });
  expect(errors).toEqual([]);
  await page.close();
});

test("a ready-made board comes with its series, and becomes a board of one's own", async () => {
  const name = "http_server_request_duration_seconds";
  const routes = ["/cart", "/pay"];
  const series = [...routes.map((http_route) => ({ labels: { __name__: name, job: "shop", http_route, http_response_status_code: "200" }, kind: "histogram", temporality: "delta", unit: "s", width_ms: 1000 })), { labels: { __name__: "ogive_check_up", check: "db", kind: "postgres", target: "db" }, kind: "float" }];
  const cells = Array.from({ length: 60 }, (_, ago) => routes.map((_, at) => ({ series: at, time_ms: (end - ago) * 1000, histogram: { bins: { "1.2e-3": 4 + at } } }))).flat();
  expect(await all.server.push({ source: crypto.randomUUID(), sequence: 1, series, samples: [...cells, { series: 2, time_ms: end * 1000, float: 1 }] })).toMatchObject({ accepted: 121 });
  const { page, errors } = await open(all.browser, `${all.server.url}/board.html`);
  // A check of a database is none of an HTTP service.
  await expect.poll(() => page.locator("[data-ready]").evaluateAll((all) => all.map((one) => one.getAttribute("data-ready")))).toEqual(["ogive", "http", "postgresql"]);
  await page.locator("[data-ready=http]").click();
  await expect.poll(() => page.locator("[data-title]").evaluateAll((all) => all.map((one) => one.getAttribute("data-title")))).toEqual(["Duration (OpenTelemetry)", "Requests a second by route", "Requests a second by status"]);
  await expect.poll(async () => Number((await panel(page, "Duration (OpenTelemetry)"))["total"])).toBeGreaterThan(0);
  await expect.poll(async () => await panel(page, "Requests a second by route")).toMatchObject({ drawn: "lines", series: routes.length });
  await page.locator("#edit").click();
  page.once("dialog", (dialog) => void dialog.accept("Our shop"));
  await page.locator("#save").click();
  await expect.poll(async () => (await all.server.json<{ data: { boards: { name: string; panels: number }[] } }>("v1/boards")).data.boards).toContainEqual(expect.objectContaining({ name: "our-shop", panels: 3 }));
  expect(errors).toEqual([]);
  await page.close();
});

test("a dashboard of Grafana's is taken with a report of what has no counterpart", async () => {
  const dashboard = {
    title: "Imported", schemaVersion: 39, templating: { list: [{ type: "query", name: "host", query: `label_values(${NAME}, host)` }] },
    panels: [
      { type: "heatmap", title: "Latency", gridPos: { x: 0, y: 0, w: 12, h: 8 }, targets: [{ expr: `sum(increase(${NAME}{host=~"$host"}[1s]))` }] },
      { type: "timeseries", title: "Load", gridPos: { x: 12, y: 0, w: 12, h: 8 }, targets: [{ expr: 'e2e_load{host=~"$host"}' }] },
      { type: "nodeGraph", title: "Graph", gridPos: { x: 0, y: 8, w: 12, h: 8 }, targets: [] },
    ],
  };
  const { page, errors } = await open(all.browser, `${all.server.url}/board.html?${range()}`);
  await page.locator("#import-file").setInputFiles({ name: "dashboard.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify(dashboard)) });
  await expect.poll(async () => (await panel(page, "Latency"))["total"]).toBe(3_000);
  await expect.poll(async () => (await panel(page, "Load"))["series"]).toBe(2);
  const notices = await page.locator("#notices").innerText();
  expect(notices).toContain('The panel "Graph" of type "nodeGraph" has no counterpart.');
  expect(notices).toContain("2 panels were taken, 1 have no counterpart.");
  await page.locator("[data-variable=host]").selectOption("a");
  await expect.poll(async () => (await panel(page, "Latency"))["total"]).toBe(1_000);
  page.on("dialog", (dialog) => void dialog.accept("From Grafana"));
  await page.locator("#save").click();
  await expect.poll(() => new URL(page.url()).searchParams.get("name")).toBe("from-grafana");
  const list = await all.server.json<{ data: { boards: { name: string; panels: number }[] } }>("v1/boards");
  expect(list.data.boards.find(({ name }) => name === "from-grafana")).toMatchObject({ panels: 2 });
  expect(errors).toEqual([]);
  await page.close();
});
