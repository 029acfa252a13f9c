// Histograms made of histograms, and of other schemes' buckets.

import { binOf, binOfKey, bounds, keyOf, keyOfBin, NAN_KEY, power } from "./bin.js";
import { Histogram } from "./histogram.js";

/** The bins that touch [lower, upper]; the others are dropped, the NaN bin included. */
export function clamped(histogram: Histogram, lower: number, upper: number): Histogram {
  const kept = new Histogram();
  const ends = [keyOf(lower), keyOf(upper)];
  for (const [key, count] of histogram.numbers()) {
    const [lo, hi] = key === 0 ? [-1e-128, 1e-128] : bounds(key);
    if ((lo <= upper && hi >= lower) || ends.includes(key)) kept.recordKey(key, count);
  }
  return kept;
}

/**
 * A histogram that is coarser near zero: bins with a decimal exponent below `exponent` go to the zero bin, those with it to
 * the whole digit below. From an exponent of 0 on, NaN goes to the zero bin too, as in OpenHistogram.
 */
export function compressedBelow(histogram: Histogram, exponent: number): Histogram {
  const compressed = new Histogram();
  for (const [key, count] of histogram.entries()) {
    const bin = binOfKey(key);
    let to = key;
    if (key === NAN_KEY) to = exponent >= 0 ? 0 : key;
    else if (key !== 0 && bin.exp < exponent) to = 0;
    else if (key !== 0 && bin.exp === exponent) to = keyOfBin({ val: bin.val - (bin.val % 10), exp: bin.exp });
    compressed.recordKey(to, count);
  }
  return compressed;
}

/** A bucket of another scheme, with its own count. */
export interface ForeignBucket {
  /** Samples of this bucket alone. */
  readonly count: bigint | number;
  /** Its lower edge. */
  readonly lower: number;
  /** Its upper edge. */
  readonly upper: number;
}

/** Where in a bucket its samples are placed. */
export type Placement = "high" | "low" | "mid" | "harmonic_mean";

const FAR = 1e127;
const ENDLESS = 1e128;

/** Places the samples of ascending buckets into bins. One without an end is placed a neighbour's width from its finite edge. */
export function fromBuckets(placement: Placement, buckets: readonly ForeignBucket[]): Histogram {
  const histogram = new Histogram();
  let before = 0;
  buckets.forEach(({ count, lower, upper }, at) => {
    const inverted = Math.abs(lower) > Math.abs(upper) || upper < 0;
    const [near, far] = inverted ? [upper, lower] : [lower, upper];
    let value = place(placement, near, far);
    if (at > 0 && upper >= ENDLESS) value = near + Math.min(before, Math.abs(near));
    else if (at === 0 && buckets.length > 2 && lower <= -ENDLESS)
      value = near - Math.min(Math.abs(buckets[1].upper - buckets[1].lower), Math.abs(near));
    histogram.recordBin(binOf(value), count);
    before = Math.abs(far - near);
  });
  return histogram;
}

function place(placement: Placement, near: number, far: number): number {
  if (near === 0 && far === 0) return 0;
  const signed = (magnitude: number, of: number): number => (of < 0 ? -magnitude : magnitude);
  if (placement === "high" || placement === "low") {
    if (Math.abs(near) > FAR) return signed(ENDLESS, near);
    if (placement === "high") return Math.abs(far) > FAR ? signed(FAR, far) : far - signed(widthAt(far) / 100, far);
    return near > 0 ? near + widthAt(near) / 100 : near - widthAt(near) / 100;
  }
  if (placement === "harmonic_mean" && near !== 0 && far !== 0)
    return near + far === 0 ? 0 : near * (far / (near / 2 + far / 2));
  return near + (far - near) / 2;
}

function widthAt(value: number): number {
  const key = keyOf(value);
  return key === 0 || key === NAN_KEY ? 1e-127 : power(binOfKey(key).exp) / 10;
}
