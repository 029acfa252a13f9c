/** The operator's page: every figure beside the API's, and what was sent. */

import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { open, shared } from "./harness.ts";

const NAME = "e2e_operated";
const all = shared();

beforeAll(async () => {
  const now = Date.now();
  const series = Array.from({ length: 40 }, (_, i) => ({ labels: { __name__: NAME, host: `h${i}` }, kind: "float" }));
  const samples = series.map((_, i) => ({ series: i, time_ms: now - 1_000, float: i }));
  // One sample is of a series that is not there: it is rejected.
  const verdict = await all.server.push({ source: crypto.randomUUID(), sequence: 1, series, samples: [...samples, { series: 99, time_ms: now, float: 1 }] });
  expect(verdict).toMatchObject({ accepted: 40 });
  for (let i = 0; i < 3; i++) await all.server.json("api/v1/query", { query: `sum(${NAME})` });
});

test("senders, expressions, cardinality and disks are those of the API", async () => {
  const { page, errors } = await open(all.browser, `${all.server.url}/operate.html`);
  // The server's own counters are stored each second, so the ledger comes a moment later.
  const batch = page.locator("#senders tr", { hasText: "batch" });
  await expect.poll(() => batch.locator("td").allInnerTexts()).toEqual(["41", "40", "0", "1", "0", "series_unknown 1"]);
  const query = page.locator("#queries tr", { hasText: `sum(${NAME})` });
  await expect.poll(() => query.locator("td").nth(1).innerText()).toBe("3");
  const { data } = await all.server.json<{ data: { queries: { query: string; times: number }[] } }>("v1/queries");
  expect(data.queries.find((one) => one.query === `sum(${NAME})`)?.times).toBe(3);
  const name = page.locator("#cardinality tr", { hasText: NAME });
  await expect.poll(() => name.first().locator("td").innerText()).toBe("40");
  await expect.poll(() => page.locator("#disks tbody th").innerText()).toBe(all.server.data);
  expect(await page.locator("#targets").innerText()).toContain("Nothing is scraped");
  await page.locator("#grew-button").click();
  const grew = page.locator("#grew tr", { hasText: NAME });
  await expect.poll(() => grew.locator("td").allInnerTexts()).toEqual(["0", "40", "+40"]);
  if (process.env["OGIVE_SCREENSHOT"] !== undefined) await page.screenshot({ path: join(import.meta.dirname, "../../docs/images/operate.png") });
  // An expression is looked at alone.
  await query.locator("a").click();
  await expect.poll(() => page.locator("#query").inputValue()).toBe(`sum(${NAME})`);
  expect(errors).toEqual([]);
  await page.close();
});
