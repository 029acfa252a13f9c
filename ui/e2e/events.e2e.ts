import { expect, test } from "vitest";
import { boxOf, open, shared, viewWhen } from "./harness.ts";

const all = shared();

/** The words of the flags that stand in the picture, with their lines. */
const flags = async (page: Awaited<ReturnType<typeof open>>["page"]): Promise<string[]> => page.locator("#events .event span").evaluateAll((all) => all.map((one) => one.getAttribute("title") ?? ""));

test("a release is a mark with its words on the heat map and on lines", async () => {
  const sent = await fetch(`${all.server.url}/v1/events`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ text: "deploy v42", kind: "deploy", labels: { service: "checkout" } }),
  });
  expect(sent.status).toBe(200);
  const { page, errors } = await open(all.browser, `${all.server.url}/`);
  await viewWhen(page, (now) => now.columns >= 2);
  await expect.poll(() => flags(page), { timeout: 60_000 }).toContainEqual(expect.stringContaining("deploy: deploy v42 (service=checkout)"));
  const mark = page.locator("#events .event", { has: page.locator('span[title*="deploy v42"]') });
  const [line, map] = [await boxOf(mark), await boxOf(page.locator("#cells"))];
  expect(line.x).toBeGreaterThan(map.x);
  expect(line.x).toBeLessThan(map.x + map.width);
  expect(line.height).toBeGreaterThan(100);

  await page.goto(`${all.server.url}/?query=${encodeURIComponent("ogive_clock_frequency_hertz")}`);
  await expect.poll(() => flags(page), { timeout: 60_000 }).toContainEqual(expect.stringContaining("deploy v42"));
  expect(await page.locator("#lines .u-over").count()).toBe(1);
  expect(errors).toEqual([]);
  await page.close();
});
