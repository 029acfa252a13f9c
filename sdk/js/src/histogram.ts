// Counted bins, with exact merges. Counts are BigInt: they are exact up to 2^64-1, where they saturate.

import { type Bin, binOfKey, isValid, type Key, keyOf, keyOfBin, NAN_KEY } from "./bin.js";

export const COUNT_MAX = (1n << 64n) - 1n;

const saturating = (sum: bigint): bigint => (sum > COUNT_MAX ? COUNT_MAX : sum);

/** What is known of the samples beside their bins. */
export interface Exact {
  /** The sum of the samples. */
  readonly sum: number;
  /** The least sample. */
  readonly min: number;
  /** The greatest sample. */
  readonly max: number;
}

/** A histogram of the LogLinear10 scheme. */
export class Histogram {
  /** Filled bins, ascending by key. */
  #keys: Key[] = [];
  #counts: bigint[] = [];
  #exact: Exact | null = null;

  /** Counts a sample, once or `count` times. */
  record(value: number, count: bigint | number = 1n): void {
    const n = BigInt(count);
    if (n <= 0n) return;
    const key = keyOf(value);
    if (key !== NAN_KEY) {
      const added = { sum: value * Number(n), min: value, max: value };
      this.#exact = this.#hasNumbers ? joined(this.#exact, added) : added;
    }
    this.#add(key, n);
  }

  /** Counts samples of a bin. Sum, minimum and maximum are then not known. Throws RangeError for an invalid bin. */
  recordBin(bin: Bin, count: bigint | number): void {
    if (!isValid(bin)) throw new RangeError(`(${bin.val}, ${bin.exp}) is no bin`);
    this.recordKey(keyOfBin(bin), BigInt(count));
  }

  /** As recordBin, of a key. */
  recordKey(key: Key, count: bigint): void {
    if (count <= 0n) return;
    if (key !== NAN_KEY) this.#exact = null;
    this.#add(key, count);
  }

  #add(key: Key, count: bigint): void {
    const at = this.#place(key);
    if (this.#keys[at] === key) {
      this.#counts[at] = saturating(this.#counts[at] + count);
    } else {
      this.#keys.splice(at, 0, key);
      this.#counts.splice(at, 0, saturating(count));
    }
  }

  #place(key: Key): number {
    let [low, high] = [0, this.#keys.length];
    // What is recorded in order goes to the end.
    if (high > 0 && this.#keys[high - 1] < key) return high;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#keys[middle] < key) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** All samples, those that are not numbers included. Saturates at 2^64-1. */
  get count(): bigint {
    return saturating(this.#counts.reduce((sum, count) => sum + count, 0n));
  }

  get #hasNumbers(): boolean {
    return this.#keys.length > 1 || (this.#keys.length === 1 && this.#keys[0] !== NAN_KEY);
  }

  /** Samples that are numbers. */
  get real(): bigint {
    return saturating(this.#counts.reduce((sum, count) => sum + count, -this.nan));
  }

  /** Samples that are not numbers, infinite, or not below 1e128. */
  get nan(): bigint {
    return this.#keys[0] === NAN_KEY ? this.#counts[0] : 0n;
  }

  /** Sum, minimum and maximum of the samples where they are known exactly. */
  get exact(): Exact | null {
    return this.#exact;
  }

  /** States what is known beside the bins, as a recorder does. */
  setExact(exact: Exact): void {
    this.#exact = exact;
  }

  /** Filled bins with their counts: NaN, then ascending on the real axis. */
  *bins(): Generator<[Bin, bigint]> {
    for (const [key, count] of this.entries()) yield [binOfKey(key), count];
  }

  /** As bins, with keys. */
  *entries(): Generator<[Key, bigint]> {
    for (let at = 0; at < this.#keys.length; at += 1) yield [this.#keys[at], this.#counts[at]];
  }

  /** Entries without the NaN bin. */
  *numbers(): Generator<[Key, bigint]> {
    for (const entry of this.entries()) if (entry[0] !== NAN_KEY) yield entry;
  }

  /** @internal The bin at whose end at least `rank` samples that are numbers have passed, or the last; the samples below it and in it. */
  find(rank: number): { key: Key; below: number; count: number } {
    let [key, below, count] = [0, 0, 0];
    for (let at = this.#keys[0] === NAN_KEY ? 1 : 0; at < this.#keys.length && (below + count < rank || count === 0); at += 1) {
      below += count;
      key = this.#keys[at];
      count = Number(this.#counts[at]);
    }
    return { key, below, count };
  }

  /** Samples that are numbers, as a double. */
  get total(): number {
    let sum = 0;
    for (let at = this.#keys[0] === NAN_KEY ? 1 : 0; at < this.#keys.length; at += 1) sum += Number(this.#counts[at]);
    return sum;
  }

  /** Adds the samples of another histogram. Bins merge exactly. */
  merge(other: Histogram): void {
    if (other.#hasNumbers) this.#exact = this.#hasNumbers ? joined(this.#exact, other.exact) : other.exact;
    // Bins that both have are added where they are; then those that are missing are put in from the end, if there are any.
    let [missing, at] = [0, 0];
    for (let from = 0; from < other.#keys.length; from += 1) {
      const key = other.#keys[from];
      while (at < this.#keys.length && this.#keys[at] < key) at += 1;
      if (this.#keys[at] === key) this.#counts[at] = saturating(this.#counts[at] + other.#counts[from]);
      else missing += 1;
    }
    if (missing > 0) this.#insert(other, missing);
  }

  /** Puts in what bins of another are missing here, as many as `missing` says. */
  #insert(other: Histogram, missing: number): void {
    let from = this.#keys.length;
    for (let at = other.#keys.length - 1; missing > 0; at -= 1) {
      const key = other.#keys[at];
      for (; from > 0 && this.#keys[from - 1] > key; from -= 1) {
        this.#keys[from - 1 + missing] = this.#keys[from - 1];
        this.#counts[from - 1 + missing] = this.#counts[from - 1];
      }
      if (from > 0 && this.#keys[from - 1] === key) continue;
      missing -= 1;
      this.#keys[from + missing] = key;
      this.#counts[from + missing] = other.#counts[at];
    }
  }

  /**
   * Takes the samples of another histogram away. Returns how many bins held fewer than were to be taken; those are left
   * empty. Sum, minimum and maximum are then not known.
   */
  subtract(other: Histogram): number {
    let short = 0;
    for (const [key, count] of other.entries()) if (this.#take(key, count) < count) short += 1;
    if (other.real > 0n) this.#exact = null;
    return short;
  }

  /** Takes up to `count` samples of the bin of `value` away, and returns how many. */
  remove(value: number, count: bigint | number): bigint {
    const key = keyOf(value);
    const taken = this.#take(key, BigInt(count));
    if (taken > 0n && key !== NAN_KEY) this.#exact = null;
    return taken;
  }

  #take(key: Key, count: bigint): bigint {
    const at = this.#place(key);
    if (this.#keys[at] !== key) return 0n;
    const taken = count < this.#counts[at] ? count : this.#counts[at];
    this.#counts[at] -= taken;
    if (this.#counts[at] === 0n) {
      this.#keys.splice(at, 1);
      this.#counts.splice(at, 1);
    }
    return taken;
  }
}

function joined(one: Exact | null, other: Exact | null): Exact | null {
  if (one === null || other === null) return null;
  return { sum: one.sum + other.sum, min: Math.min(one.min, other.min), max: Math.max(one.max, other.max) };
}
