/** Asking: the editor and what it fetches, mistakes and what was meant, keys, times. */

import { beforeAll, expect, test } from "vitest";
import { open, shared } from "./harness.ts";

const all = shared();
let end: number;

beforeAll(async () => {
  end = Math.floor(Date.now() / 1000) - 10;
  const series = ["/checkout", "/search"].map((route) => ({ labels: { __name__: "e2e_shop_seconds", route }, kind: "histogram", unit: "s", width_ms: 1000 }));
  const samples = [0, 1].flatMap((one) => [0, 1, 2].map((ago) => ({ series: one, time_ms: (end - ago) * 1000, histogram: { bins: { "1.2e-3": 10 } } })));
  expect(await all.server.push({ source: crypto.randomUUID(), sequence: 1, series, samples })).toMatchObject({ accepted: 6 });
});

test("the editor comes when it is opened, and completes names, labels and values from the server", async () => {
  const { page, errors } = await open(all.browser, `${all.server.url}/?query=e2e_shop_seconds&start=${end - 60}&end=${end}`);
  const scripts: string[] = [];
  page.on("request", (request) => void (request.url().endsWith(".js") && scripts.push(request.url())));
  await page.locator("#cells[data-view]").waitFor();
  expect(scripts.filter((url) => url.includes("editor"))).toEqual([]);
  await page.locator("body").press("e");
  const editor = page.locator("#editor .cm-content");
  await editor.waitFor();
  expect(scripts.filter((url) => url.includes("editor")).length).toBe(1);
  const offered = async (typed: string, wanted: string): Promise<void> => {
    await page.keyboard.press("Control+a");
    await page.keyboard.type(typed, { delay: 20 });
    await expect.poll(() => page.locator("#editor .cm-tooltip-autocomplete li").allInnerTexts().then((all) => all.some((text) => text.includes(wanted)))).toBe(true);
  };
  await offered("e2e_sh", "e2e_shop_seconds");
  await offered("e2e_shop_seconds{rou", "route");
  await offered('e2e_shop_seconds{route="/ch', "/checkout");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+a");
  await page.keyboard.type("sum(\n  e2e_shop_seconds\n", { delay: 10 });
  await page.keyboard.press("Control+Enter");
  // The bracket was closed by the editor.
  await expect.poll(() => page.locator("#title").innerText()).toMatch(/^sum\(\s+e2e_shop_seconds\s+\)$/);
  await expect.poll(() => page.locator("[data-fact=total] .value").innerText()).toBe("60");
  expect(errors).toEqual([]);
  await page.close();
});

test("a click puts a quantile and groups around an expression", async () => {
  const { page, errors } = await open(all.browser, `${all.server.url}/?query=e2e_shop_seconds&start=${end - 60}&end=${end}`);
  await page.locator("#editor-button").click();
  await page.locator("#editor select option", { hasText: "route" }).waitFor({ state: "attached" });
  await page.locator("#editor select").selectOption("route");
  await expect.poll(() => page.locator("#multiples .panel b").allInnerTexts()).toEqual(['{route="/checkout"}', '{route="/search"}']);
  await page.locator("[data-wrap=p99]").click();
  await expect.poll(() => page.locator("#query").inputValue()).toBe("histogram_quantile(0.99, sum by (route) (e2e_shop_seconds))");
  await expect.poll(() => page.locator(".linetable tbody tr").count()).toBe(2);
  expect(errors).toEqual([]);
  await page.close();
});

test("a mistake is underlined in the editor, and a name that is near is offered", async () => {
  const { page } = await open(all.browser, `${all.server.url}/?query=e2e_shop_seconds&start=${end - 60}&end=${end}`);
  await page.locator("#editor-button").click();
  await page.locator("#editor .cm-content").waitFor();
  await page.locator("#query").fill("summ(e2e_shop_seconds)");
  await page.locator("#query").press("Enter");
  await page.locator("#query-error").waitFor();
  await expect.poll(() => page.locator("#editor .cm-lintRange-error").count()).toBeGreaterThan(0);
  await page.locator("#query-error button", { hasText: "Did you mean sum?" }).click();
  await expect.poll(() => page.locator("[data-fact=total] .value").innerText()).toBe("60");
  // A name that nobody sends, one letter off.
  await page.locator("#query").fill("e2e_shop_secods");
  await page.locator("#query").press("Enter");
  await page.locator("#empty button", { hasText: "e2e_shop_seconds" }).click();
  await expect.poll(() => page.locator("[data-fact=total] .value").innerText()).toBe("60");
  await page.close();
});

test("times are read as now-7d, and written in the chosen zone; ? shows the keys", async () => {
  const { page, errors } = await open(all.browser, `${all.server.url}/?query=e2e_shop_seconds&start=1700000000&end=1700000060`);
  await page.locator("#range-button").click();
  expect(await page.locator("#range-menu .presets button").last().innerText()).toBe("Last 365d");
  await page.locator("[data-zone=utc]").click();
  await expect.poll(() => page.locator("#range-button").innerText()).toContain("2023-11-14 22:13:20 – 22:14:20 UTC");
  await page.reload();
  await expect.poll(() => page.locator("#range-button").innerText()).toContain("UTC");
  await page.locator("#range-button").click();
  await page.getByLabel("From", { exact: true }).fill("now-7d");
  await page.getByLabel("To", { exact: true }).fill("now");
  await page.getByRole("button", { name: "Show this range" }).click();
  await expect.poll(() => page.locator("#range-button").innerText()).toContain("Last 7d");
  await page.locator("#overlay").press("?");
  await page.locator("dialog.keys", { hasText: "the editor" }).waitFor();
  await page.keyboard.press("Escape");
  await expect.poll(() => page.locator("dialog.keys").isVisible()).toBe(false);
  expect(errors).toEqual([]);
  await page.close();
});
