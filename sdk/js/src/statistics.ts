// Statistics of a histogram, defined in docs/formats/openhistogram.md. Samples in the NaN bin are in none of them.

import { bounds, type Key, keyOf, midpoint, NAN_KEY } from "./bin.js";
import { COUNT_MAX, type Histogram } from "./histogram.js";

/** An estimate with what is certain: the sample of its rank lies between lo and hi. */
export interface Quantile {
  /** The estimate. */
  readonly value: number;
  /** The lower edge of the bin of the sample. */
  readonly lo: number;
  /** The upper edge of the bin of the sample. */
  readonly hi: number;
}

const total = (histogram: Histogram): number => histogram.total;

/** The bin at whose end at least `rank` samples have passed, or the last. */
function walk(histogram: Histogram, rank: number): { lo: number; hi: number; below: number; count: number } {
  const { key, below, count } = histogram.find(rank);
  const [lo, hi] = bounds(key);
  return { lo, hi, below, count };
}

/** The q quantile, 0 <= q <= 1: rank max(1, ceil(q n)). Null without samples or with another q. */
export function quantile(histogram: Histogram, q: number): Quantile | null {
  const n = total(histogram);
  if (!(q >= 0 && q <= 1) || n === 0) return null;
  const product = q * n;
  // A rounding of q n (0.07 * 100 is 7.000000000000001) must not move the answer to the next sample.
  const nearest = Math.round(product);
  const whole = Math.abs(product - nearest) <= nearest * 2 ** -51 ? nearest : Math.ceil(product);
  const rank = Math.min(Math.max(whole, 1), n);
  let { lo, hi, below, count } = walk(histogram, rank);
  const exact = histogram.exact;
  if (exact !== null) {
    if (lo <= exact.max && exact.max <= hi) hi = exact.max;
    if (lo <= exact.min && exact.min <= hi) lo = exact.min;
    if (rank >= n && hi === exact.max) lo = hi;
    else if (rank <= 1 && lo === exact.min) hi = lo;
  }
  const value = lo + (hi - lo) * Math.min(Math.max((rank - below) / (count + 1), 0), 1);
  return { value: Math.min(Math.max(value, lo), hi), lo, hi };
}

/** OpenHistogram's type 1: the k-th of c samples of a bin stands at left + k/(c+1) of its width. */
export const quantileType1 = (histogram: Histogram, q: number): number =>
  q >= 0 && q <= 1 ? spread(histogram, total(histogram) * q) : NaN;

/** OpenHistogram's type 7: as type 1, for the sample of rank floor((n-1) q + 1). */
export const quantileType7 = (histogram: Histogram, q: number): number =>
  q >= 0 && q <= 1 ? spread(histogram, Math.floor((total(histogram) - 1) * q + 1)) : NaN;

function spread(histogram: Histogram, rank: number): number {
  if (histogram.real === 0n) return NaN;
  const { lo, hi, below, count } = walk(histogram, rank);
  return lo + (hi - lo) * (Math.max(Math.ceil(rank - below), 1) / (count + 1));
}

/** The share of samples below x, linear inside the bin that holds it. NaN without samples. */
export function fractionBelow(histogram: Histogram, x: number): number {
  const n = total(histogram);
  if (Number.isNaN(x) || n === 0) return NaN;
  let below = 0;
  for (const [key, count] of histogram.numbers()) {
    const [lo, hi] = key === 0 ? [1e-128, 1e-128] : bounds(key);
    if (x >= hi) {
      below += Number(count);
      continue;
    }
    if (x > lo) below += Number(count) * ((x - lo) / (hi - lo));
    break;
  }
  return Math.min(below / n, 1);
}

function countWhere(histogram: Histogram, x: number, wanted: (key: Key, at: number) => boolean): bigint {
  if (Number.isNaN(x)) return 0n;
  const key = keyOf(x);
  const at = key === NAN_KEY ? Math.sign(x) * Infinity : key;
  let sum = 0n;
  for (const [other, count] of histogram.numbers()) if (wanted(other, at)) sum += count;
  return sum > COUNT_MAX ? COUNT_MAX : sum;
}

/** Samples in the bins up to and with that of x. */
export const countBelow = (histogram: Histogram, x: number): bigint => countWhere(histogram, x, (key, at) => key <= at);
/** Samples in the bins below that of x. */
export const countBelowExclusive = (histogram: Histogram, x: number): bigint =>
  countWhere(histogram, x, (key, at) => key < at);
/** Samples in the bins from that of x upwards. */
export const countAbove = (histogram: Histogram, x: number): bigint => countWhere(histogram, x, (key, at) => key >= at);
/** Samples in the bins above that of x. */
export const countAboveExclusive = (histogram: Histogram, x: number): bigint =>
  countWhere(histogram, x, (key, at) => key > at);
/** Samples in the bin of x. */
export const countNearby = (histogram: Histogram, x: number): bigint => countWhere(histogram, x, (key, at) => key === at);

/** A sum that carries its rounding error along (Neumaier). */
function compensated(terms: Iterable<number>): number {
  let [sum, lost] = [0, 0];
  for (const term of terms) {
    const next = sum + term;
    lost += Math.abs(sum) >= Math.abs(term) ? sum - next + term : term - next + sum;
    sum = next;
  }
  return Number.isFinite(lost) ? sum + lost : sum;
}

const middles = (histogram: Histogram): Array<[number, number]> =>
  [...histogram.numbers()].map(([key, count]) => [midpoint(key), Number(count)]);

/** The exact sum where it is known, else that of the midpoints. */
export const sum = (histogram: Histogram): number =>
  histogram.exact?.sum ?? compensated(middles(histogram).map(([middle, count]) => middle * count));

/** The mean: exact where the sum is known, else of the midpoints. NaN without samples. */
export function mean(histogram: Histogram): number {
  const n = total(histogram);
  if (n === 0) return NaN;
  return histogram.exact ? histogram.exact.sum / n : meanOfBins(histogram, n);
}

const meanOfBins = (histogram: Histogram, n: number): number =>
  compensated(middles(histogram).map(([middle, count]) => middle * (count / n)));

/** The standard deviation of the midpoints around their mean, in two passes. NaN without samples. */
export function standardDeviation(histogram: Histogram): number {
  const n = total(histogram);
  if (n === 0) return NaN;
  const center = meanOfBins(histogram, n);
  const scale = Math.max(...middles(histogram).map(([middle]) => Math.abs(middle - center)));
  if (scale === 0 || !Number.isFinite(scale)) return scale;
  const squares = middles(histogram).map(([middle, count]) => ((middle - center) / scale) ** 2 * (count / n));
  return scale * Math.sqrt(Math.max(compensated(squares), 0));
}

/** The k-th raw moment as OpenHistogram has it: the sum of midpoint^k count, divided by n^k. NaN without samples. */
export function openHistogramMoment(histogram: Histogram, k: number): number {
  const n = total(histogram);
  if (n === 0) return NaN;
  return middles(histogram).reduce((sum, [middle, count]) => sum + middle ** k * count, 0) / n ** k;
}
