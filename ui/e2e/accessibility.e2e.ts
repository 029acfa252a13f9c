/** Every page by axe, dark and light, on a desktop and on a phone: no findings; nothing hangs over the edge of a phone; the first stop of Tab skips to the content. */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Theme } from "../src/colour.ts";
import { open, Server, shared } from "./harness.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const all = shared();
let broker: Server;

beforeAll(async () => {
  broker = await Server.broker({ east: all.server.url });
  const rule = { name: "shop", title: "Shop", variables: [{ name: "cpu", label: "cpu", match: "ogive_hiccup_seconds" }], panels: [
    { title: "Late", queries: ["ogive_hiccup_seconds"], kind: "heatmap", x: 0, y: 0, w: 6, h: 4 },
    { title: "Epoch", queries: ["ogive_clock_epoch"], kind: "number", x: 6, y: 0, w: 6, h: 4 },
    { title: "Table", queries: ["ogive_clock_epoch"], kind: "table", x: 0, y: 4, w: 6, h: 3 },
    { title: "Words", queries: [], kind: "text", text: "What this is.", x: 6, y: 4, w: 6, h: 3 } ] };
  await fetch(`${all.server.url}/v1/boards`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(rule) });
});
afterAll(() => broker?.end());

/** A page, and what is there once it is drawn. */
const PAGES: readonly [string, string, string][] = [
  ["the heat map", "", "[data-fact=total] .value"],
  ["a comparison", "?compare=1h", "#compare .verdict"],
  ["lines", "?query=ogive_clock_epoch", ".linetable td"],
  ["two expressions", "?query=ogive_clock_epoch&and=ogive_hiccup_seconds", "#more [data-panel]"],
  ["an unknown name", "?query=nothing_of_this_name", "#empty h2"],
  ["the list of boards", "board.html", "[data-board=shop]"],
  ["a board", "board.html?name=shop&range=5m", "[data-title=Late] [data-panel]"],
  ["a board that is edited", "board.html?name=shop&range=5m&edit=1", "[data-title=Table] td"],
  ["lines of logs", "logs.html", "#found"],
  ["alerts", "alerts.html", "#summary .fact"],
  ["services", "services.html", "main h2, main .start"],
  ["operation", "operate.html", "#senders table"],
  ["the fleet", "fleet.html", "#states .fact"],
  ["stacks", "flame.html", "#start pre"],
  ["why it was slow", "?why=", "#why .slow-note, #why [data-lane]"],
  ["lines by place", "?by=broker", "#places .linetable td"],
];

interface Finding {
  id: string;
  nodes: { target: unknown; html: string; failureSummary: string }[];
}

async function findings(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  const { violations } = (await page.evaluate(() => (window as unknown as { axe: { run: () => Promise<unknown> } }).axe.run())) as { violations: Finding[] };
  return violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => `${JSON.stringify(node.target)} ${node.failureSummary.replace(/\s+/g, " ")}`).join(" | ")}`);
}

for (const [size, width] of [["desktop", 1440], ["phone", 390]] as const) {
  test(`no findings on a ${size}, dark and light`, async () => {
    const wrong: Record<string, unknown> = {};
    for (const [name, path, there] of [...PAGES, ["the broker", "broker.html", "#destinations h2"] as const]) {
      const { page, errors } = await open(all.browser, `${name === "the broker" ? broker.url : all.server.url}/${path}`, "dark", 844, width);
      await page.locator(there).first().waitFor({ state: "attached", timeout: 90_000 }).catch(() => (wrong[`${name}, not drawn`] = there));
      for (const theme of ["dark", "light"] as Theme[]) {
        await page.emulateMedia({ colorScheme: theme });
        const found = await findings(page);
        const over = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
        if (found.length > 0 || over > 0 || errors.length > 0) wrong[`${name}, ${theme}`] = { found, over, errors };
      }
      await page.close();
    }
    expect(wrong).toEqual({});
    // Thirty-two looks at a page.
  }, 900_000);
}

test("Tab first offers to skip to the content, on every page", async () => {
  for (const path of ["", "board.html", "logs.html", "alerts.html", "services.html", "operate.html"]) {
    const { page } = await open(all.browser, `${all.server.url}/${path}`);
    await page.locator(".skip").waitFor({ state: "attached" });
    await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
    await page.keyboard.press("Tab");
    expect([path, await page.evaluate(() => document.activeElement?.className)]).toEqual([path, "skip"]);
    await page.keyboard.press("Enter");
    expect(new URL(page.url()).hash).toBe("#content");
    await page.close();
  }
});

test("a phone has the list of series, and what is chosen there is drawn", async () => {
  const { page, errors } = await open(all.browser, all.server.url, "dark", 844, 390);
  expect(await page.locator("#series").isVisible()).toBe(false);
  await page.getByRole("button", { name: "Series" }).click();
  await page.locator("#series input").fill("clock_epoch");
  await page.locator("#series").getByRole("button", { name: "ogive_clock_epoch" }).click();
  await expect.poll(() => page.locator("#title").innerText()).toBe("ogive_clock_epoch");
  await expect.poll(() => page.locator("#series").isVisible()).toBe(false);
  await page.locator(".linetable td").first().waitFor();
  expect(errors).toEqual([]);
  await page.close();
});

test("who wants less motion gets none", async () => {
  const { page } = await open(all.browser, all.server.url);
  await page.emulateMedia({ reducedMotion: "reduce" });
  const moving = await page.evaluate(() => [...document.querySelectorAll("*")].filter((one) => {
    const style = getComputedStyle(one);
    return [style.transitionDuration, style.animationDuration].some((all) => all.split(",").some((part) => parseFloat(part) > 0.01)) || style.scrollBehavior === "smooth";
  }).length);
  expect(moving).toBe(0);
  await page.close();
});
