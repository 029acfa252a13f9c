/**
 * How well a number of samples determines a quantile: the samples between which the true one lies. Pure.
 *
 * Source: order statistics; of n independent samples the number below the true q quantile is binomial (n, q), so the
 * true one lies between the samples of ranks l and u with the probability F(u - 1) - F(l - 1), whatever the distribution
 * (H. A. David, H. N. Nagaraja, "Order Statistics", 2003, 7.1).
 * Limits: sums of the binomial distribution up to a variance of 50, its normal approximation with the correction for
 * continuity above: there the rank differs by at most one.
 */

import { findRank, rankOf, type Bins } from "./quantile.ts";

/** Error at each end: 95 of 100 intervals hold the true quantile. */
const TAIL = 0.025;
/** The 0.975 quantile of the normal distribution. */
const Z = 1.959963984540054;
const VARIANCE_EXACT = 50;

export interface Ranks {
  /** 0 when no sample is low enough. */
  readonly lo: number;
  /** n + 1 when no sample is high enough. */
  readonly hi: number;
}

/** Least k with P(X <= k) >= `share`, X binomial (n, p), p <= 1/2. */
function binomialAt(n: number, p: number, share: number): number {
  let probability = (1 - p) ** n;
  let sum = probability;
  let k = 0;
  while (sum < share && k < n) {
    probability *= ((n - k) / (k + 1)) * (p / (1 - p));
    sum += probability;
    k++;
  }
  return k;
}

/** Ranks whose samples hold the true `q` quantile between them in 95 of 100 cases. */
export function ranksOf(n: number, q: number): Ranks {
  if (!(q > 0 && q < 1)) return { lo: q <= 0 ? 0 : n, hi: q <= 0 ? 1 : n + 1 };
  const variance = n * q * (1 - q);
  if (variance > VARIANCE_EXACT) {
    const half = Z * Math.sqrt(variance);
    return { lo: Math.max(0, Math.floor(n * q - half)), hi: Math.min(n + 1, Math.ceil(n * q + half + 1)) };
  }
  if (q > 0.5) {
    const { lo, hi } = ranksOf(n, 1 - q);
    return { lo: n + 1 - hi, hi: n + 1 - lo };
  }
  const [low, high] = [binomialAt(n, q, TAIL), binomialAt(n, q, 1 - TAIL)];
  return { lo: low, hi: high + 1 };
}

export interface Interval {
  /** Null: the samples do not bound it there. */
  readonly lo: number | null;
  readonly hi: number | null;
  /** Samples. */
  readonly n: number;
  /** The estimate is the greatest sample, for there are too few above it. */
  readonly isMax: boolean;
}

/** Where the `q` quantile of what was measured lies, from its bins; null without samples. */
export function intervalOf(bins: Bins, q: number): Interval | null {
  let n = 0;
  for (let at = 0; at < bins.counts.length; at++) n += bins.counts[at] as number;
  if (!(n > 0)) return null;
  const whole = Math.max(1, Math.round(n));
  const ranks = ranksOf(whole, q);
  const isMax = q < 1 && rankOf(q, whole) === whole;
  return { lo: ranks.lo < 1 ? null : edge(bins, ranks.lo, "lo"), hi: ranks.hi > whole ? null : edge(bins, ranks.hi, "hi"), n, isMax };
}

/** The end of the bin of a rank, or the exact least or greatest sample where that is nearer. */
function edge(bins: Bins, rank: number, side: "lo" | "hi"): number | null {
  const found = findRank(bins.counts, rank);
  if (found === null) return null;
  const [lo, hi] = [bins.lo[found.at] as number, bins.hi[found.at] as number];
  if (side === "lo") return bins.min !== null && lo <= bins.min && bins.min <= hi ? bins.min : lo;
  return bins.max !== null && lo <= bins.max && bins.max <= hi ? bins.max : hi;
}
