import { expect, test } from "vitest";
import { intervalOf, ranksOf } from "../src/confidence.ts";

/** P(X <= k) of the binomial distribution, by logarithms of factorials. */
function cdf(n: number, q: number, k: number): number {
  const logs = [0];
  for (let i = 1; i <= n; i++) logs.push((logs[i - 1] as number) + Math.log(i));
  const log = (i: number): number => logs[i] as number;
  let sum = 0;
  for (let i = 0; i <= Math.min(k, n); i++) sum += Math.exp(log(n) - log(i) - log(n - i) + i * Math.log(q) + (n - i) * Math.log(1 - q));
  return sum;
}

test.each([0.1, 0.5, 0.9, 0.99, 0.999])("ranks are the narrowest that hold the %s quantile in 95 of 100 cases", (q) => {
  for (const n of [1, 2, 5, 12, 50, 99, 100, 150, 300, 500, 1000, 3000]) {
    const { lo, hi } = ranksOf(n, q);
    // The normal approximation may be one rank off, which the next wider rank then shows.
    const [slack, exact] = n * q * (1 - q) > 50 ? [1, false] : [0, true];
    expect(cdf(n, q, lo - 1 - slack), `${n}`).toBeLessThanOrEqual(0.025 + 1e-9);
    expect(cdf(n, q, hi - 1 + slack), `${n}`).toBeGreaterThanOrEqual(0.975 - 1e-9);
    if (exact && lo < n) expect(cdf(n, q, lo), `${n}: ${lo}`).toBeGreaterThan(0.025 - 1e-9);
    if (exact && hi > 1) expect(cdf(n, q, hi - 2), `${n}: ${hi}`).toBeLessThan(0.975 + 1e-9);
  }
});

test("the median of 100 samples lies between the 40th and the 61st", () => {
  expect(ranksOf(100, 0.5)).toEqual({ lo: 40, hi: 61 });
});

test("intervals hold the true quantile as often as they say", () => {
  let seed = 3;
  const random = (): number => (seed = (seed * 48271) % 2147483647) / 2147483647;
  for (const [n, q] of [[20, 0.5], [200, 0.9], [1000, 0.5]] as const) {
    let held = 0;
    for (let round = 0; round < 1000; round++) {
      const samples = Array.from({ length: n }, random).sort((a, b) => a - b);
      const { lo, hi } = ranksOf(n, q);
      if ((samples[lo - 1] ?? 0) <= q && q <= (samples[hi - 1] ?? 1)) held++;
    }
    expect(held / 1000, `${n} ${q}`).toBeGreaterThan(0.94);
    expect(held / 1000, `${n} ${q}`).toBeLessThan(0.99);
  }
});

test("the p99 of 12 samples is the maximum, without a bound above", () => {
  const bins = { lo: [1, 2], hi: [2, 3], counts: [10, 2], min: 1.1, max: 2.7, float: false };
  expect(intervalOf(bins, 0.99)).toEqual({ lo: 2, hi: null, n: 12, isMax: true });
  expect(intervalOf(bins, 0.5)).toEqual({ lo: 1.1, hi: 2, n: 12, isMax: false });
  expect(intervalOf({ ...bins, counts: [1000, 2000] }, 0.5)).toEqual({ lo: 2, hi: 2.7, n: 3000, isMax: false });
  expect(intervalOf({ ...bins, counts: [] }, 0.5)).toBeNull();
});
