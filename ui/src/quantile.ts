/**
 * Quantiles of a column's bins, by the server's rule (docs/http.md). Pure.
 *
 * Invariants: the sample of rank ceil(q n) lies between lo and hi; the first and the last rank are exact where least and greatest
 * sample are known.
 */

/** Ascending bins of a column: where they begin and end, and what they count. */
export interface Bins {
  readonly lo: ArrayLike<number>;
  readonly hi: ArrayLike<number>;
  readonly counts: ArrayLike<number>;
  readonly min: number | null;
  readonly max: number | null;
  /** Whether counts are masses (native histograms with doubles) and not numbers of samples. */
  readonly float: boolean;
}

export interface Estimate {
  readonly value: number;
  readonly lo: number;
  readonly hi: number;
}

/** The sample that is the `q` quantile of `n`: 1 to n. Products such as 0.07 * 100 = 7.000000000000001 stay at their rank. */
export function rankOf(q: number, n: number): number {
  const nearest = Math.round(q * n);
  const rank = Math.abs(q * n - nearest) <= nearest * 2 * Number.EPSILON ? nearest : Math.ceil(q * n);
  return Math.min(n, Math.max(1, rank));
}

/** Place of the first bin at whose end `rank` samples have passed, and the samples before it; the last one where there is none. */
export function findRank(counts: ArrayLike<number>, rank: number): { at: number; below: number } | null {
  let [passed, found] = [0, null as { at: number; below: number } | null];
  for (let at = 0; at < counts.length; at++) {
    const count = counts[at] as number;
    if (count === 0) continue;
    found = { at, below: passed };
    passed += count;
    if (passed >= rank) break;
  }
  return found;
}

/** The `q` quantile; null when there are no samples. */
export function quantileOf(bins: Bins, q: number): Estimate | null {
  let total = 0;
  for (let at = 0; at < bins.counts.length; at++) total += bins.counts[at] as number;
  if (!(total > 0)) return null;
  const rank = bins.float ? q * total : rankOf(q, total);
  const found = findRank(bins.counts, rank);
  if (found === null) return null;
  let [lo, hi] = [bins.lo[found.at] as number, bins.hi[found.at] as number];
  const count = bins.counts[found.at] as number;
  const share = (rank - found.below) / (bins.float ? count : count + 1);
  if (bins.max !== null && lo <= bins.max && bins.max <= hi) hi = bins.max;
  if (bins.min !== null && lo <= bins.min && bins.min <= hi) lo = bins.min;
  if (!bins.float && rank >= total && bins.max === hi) lo = hi;
  else if (!bins.float && rank <= 1 && bins.min === lo) hi = lo;
  return { value: within(lo, hi, Math.min(1, Math.max(0, share))), lo, hi };
}

/** The value at `share` of the way; the finite end where the other is open. */
function within(lo: number, hi: number, share: number): number {
  if (Number.isFinite(lo) && Number.isFinite(hi)) return Math.min(hi, Math.max(lo, lo + (hi - lo) * share));
  return Number.isFinite(lo) ? lo : Number.isFinite(hi) ? hi : 0;
}
