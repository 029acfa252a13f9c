/** How sure quantiles are: bands, faint lines, and the words under the mouse, beside truth worked out from what was sent. */

import { beforeAll, expect, test } from "vitest";
import { boxOf, open, Places, shared, viewWhen } from "./harness.ts";

const NAME = "e2e_sparse_seconds";
const all = shared();
let end: number;

beforeAll(async () => {
  end = Math.floor(Date.now() / 1000) - 10;
  const series = [{ labels: { __name__: NAME }, kind: "histogram", temporality: "delta", unit: "s", width_ms: 1000 }];
  // Ten seconds of 12 samples, then ten of 10,000, of which 1,000 are at the upper value.
  const samples = Array.from({ length: 20 }, (_, ago) => ({
    series: 0,
    time_ms: (end - ago) * 1000,
    histogram: { bins: ago < 10 ? { "1.2e-3": 9_000, "3.5e-2": 1_000 } : { "1.2e-3": 11, "3.5e-2": 1 } },
  }));
  expect(await all.server.push({ source: crypto.randomUUID(), sequence: 1, series, samples })).toMatchObject({ accepted: 20 });
});

test("quantiles of few samples are faint and say that they are the maximum", async () => {
  const { page, errors } = await open(all.browser, `${all.server.url}/?query=${NAME}&start=${end - 20}&end=${end}&q=0.5,0.99`);
  const now = await viewWhen(page, (one) => one.columns === 20);
  const { faint } = now as unknown as { faint: Record<string, number> };
  // The median of 12 lies between the 3rd and the 10th sample; their p99 has nothing above it. 10,000 bound both.
  expect(faint).toEqual({ "0.5": 0, "0.99": 10 });
  const places = new Places(now);
  const box = await boxOf(page.locator("#overlay"));
  const over = async (slot: number): Promise<void> => {
    const [x, y] = places.cell(slot, 1.2e-3, 1.3e-3, 0.5, 0.5);
    await page.mouse.move(box.x + x, box.y + y);
  };
  await over(end - 15);
  await expect.poll(() => page.locator("[data-key='sure-0.99']").innerText()).toBe("p99 of 12 samples is the maximum");
  expect(await page.locator("[data-key='sure-0.5']").innerText()).toMatch(/^95 %: 1\.2.*1\.3 ms$/);
  await over(end - 5);
  await expect.poll(() => page.locator("[data-key='sure-0.99']").innerText()).toMatch(/^95 %: 35.*36 ms$/);
  // Of all 100,120 in view the p90 has rank 90,108: 90,110 are at the lower value, and by the ranks 89,922 to 90,295 the true one may be at either.
  expect(await page.locator("[data-fact=p90] .note").innerText()).toMatch(/^95 %: 1\.2.*36 ms/);
  expect(await page.locator("[data-fact=p50] .note").innerText()).toMatch(/^95 %: 1\.2.*1\.3 ms/);
  expect(errors).toEqual([]);
  await page.close();
});
