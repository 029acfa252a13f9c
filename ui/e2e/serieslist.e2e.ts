/** The list of series: grouped by prefix, with courses, and fluid with 5,000 names. */

import type { Page } from "playwright-core";
import { beforeAll, expect, test } from "vitest";
import { open, shared } from "./harness.ts";

const COUNT = 5_000;
const all = shared();

beforeAll(async () => {
  const now = Math.floor(Date.now() / 60_000) * 60_000;
  const names = Array.from({ length: COUNT }, (_, i) => `many${i % 50}_of_${String(i).padStart(4, "0")}`);
  for (let from = 0; from < COUNT; from += 1_000) {
    const some = names.slice(from, from + 1_000);
    const series = some.map((name) => ({ labels: { __name__: name }, kind: "float" }));
    const samples = some.flatMap((_, i) => [3, 2, 1].map((ago) => ({ series: i, time_ms: now - ago * 60_000, float: ago })));
    expect(await all.server.push({ source: crypto.randomUUID(), sequence: 1, series, samples })).toMatchObject({ accepted: 3_000 });
  }
});

const named = (page: Page): Promise<(string | undefined)[]> => page.locator("#series .item").evaluateAll((all) => all.map((one) => (one as HTMLElement).dataset["name"]));

test("5,000 names are a list that scrolls, searches and walks at once", async () => {
  const { page, errors } = await open(all.browser, all.server.url);
  const list = page.locator("#series .list");
  const head = page.locator("#series .group").first();
  // What is chosen is in view, further down; whoever scrolls stays where they scroll to.
  await expect.poll(() => page.locator('#series .item[aria-current="true"]').first().isVisible()).toBe(true);
  expect(await list.evaluate((node) => node.scrollTop)).toBeGreaterThan(COUNT * 32);
  await list.evaluate((node) => (node.scrollTop = 0));
  await expect.poll(() => head.innerText()).toContain("many0_");
  expect(await head.locator("span").innerText()).toBe("100");
  // Nothing is drawn that is not near to what is seen.
  expect(await page.locator("#series .item").count()).toBeLessThan(80);
  expect(await list.evaluate((node) => node.scrollHeight)).toBeGreaterThan(COUNT * 32);
  // What is in view has its course: three minutes of a number, and the minutes for which the last one stands.
  await expect.poll(async () => Number(await page.locator('#series .item[data-name="many0_of_0000"] canvas').getAttribute("data-points"))).toBeGreaterThanOrEqual(3);
  // Each step of a scroll through all of it draws its rows in that frame.
  const slow = await page.evaluate(async () => {
    const node = document.querySelector("#series .list") as HTMLElement;
    const blank: number[] = [];
    for (let top = 0; top < node.scrollHeight; top += 4_000) {
      node.scrollTop = top;
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      const box = node.getBoundingClientRect();
      if (!node.contains(document.elementFromPoint(box.left + 60, box.top + box.height / 2)) || document.querySelectorAll("#series .item").length === 0) blank.push(top);
    }
    return blank;
  });
  expect(slow).toEqual([]);
  await page.locator("#series input").fill("of_4999");
  await expect.poll(() => named(page)).toEqual(["many49_of_4999"]);
  await page.locator("#series input").press("ArrowDown");
  await page.keyboard.press("Enter");
  await expect.poll(() => page.locator("#title").innerText()).toBe("many49_of_4999");
  // By type, and the choice is kept.
  await page.locator("#series input").fill("");
  await page.locator("[data-by=type]").click();
  await expect.poll(() => head.innerText()).toContain("Histograms");
  await page.reload();
  await expect.poll(() => page.locator('#series .item[aria-current="true"]').isVisible()).toBe(true);
  await list.evaluate((node) => (node.scrollTop = 0));
  await expect.poll(() => head.innerText()).toContain("Histograms");
  expect(errors).toEqual([]);
  await page.close();
});

test("names stand by the job that sends them, as the API counts them", async () => {
  const time_ms = Date.now() - 1_000;
  const sent = [["rpc_of_job", "shop"], ["rpc_of_job", "pay"], ["disk_of_job", "shop"]] as const;
  const series = sent.map(([name, job]) => ({ labels: { __name__: name, job }, kind: "float" }));
  expect(await all.server.push({ source: crypto.randomUUID(), sequence: 1, series, samples: series.map((_, i) => ({ series: i, time_ms, float: 1 })) })).toMatchObject({ accepted: 3 });
  const { page, errors } = await open(all.browser, all.server.url);
  await page.locator("[data-by=job]").click();
  const heads = page.locator("#series .group");
  await expect.poll(() => heads.allInnerTexts()).toEqual(expect.arrayContaining([expect.stringContaining("pay"), expect.stringContaining("shop")]));
  // The server's own names become more as it runs: list and answer are looked at until they are of one moment.
  const differing = async (): Promise<string[]> => {
    const { data } = await all.server.json<{ data: { result: { metric: { job: string }; value: [number, string] }[] } }>("api/v1/query", { query: 'count by (job) (count by (__name__, job) ({job!=""}))' });
    const wrong: string[] = [];
    for (const { metric, value } of data.result) {
      const shown = await heads.filter({ hasText: metric.job }).locator("span").innerText();
      if (shown !== value[1]) wrong.push(`${metric.job}: ${shown} and ${value[1]}`);
    }
    return wrong;
  };
  await expect.poll(differing).toEqual([]);
  await page.locator("#series input").fill("of_job");
  await expect.poll(() => named(page)).toEqual(["rpc_of_job", "disk_of_job", "rpc_of_job"]);
  expect(errors).toEqual([]);
  await page.close();
});
