// A recorder of durations for hot paths: no allocation, and no lock, as a JavaScript thread is alone.

import { type Key } from "./bin.js";
import { Histogram } from "./histogram.js";

/** Flat bins of nanoseconds: 0 is the zero bin, then those of 1 ns and above, of which 2^53 ns fill 1,440. */
const FLAT_BINS = 2048;
/** What a flat bin's number lacks to its key: 1 ns is 1.0e-9 s. */
const FLAT_TO_KEY = (128 - 9) * 90;

/**
 * The leading bits of a double (exponent and seven more) name a cell of 1/128 of its value, in which lies one edge at most:
 * EDGES holds it, BINS the flat bin below it. Doubles from 2^0 to 2^53 have 53 * 128 cells.
 */
const CELLS = 54 * 128;
const EDGES = new Float64Array(CELLS);
const BINS = new Uint16Array(CELLS);

function flatOf(nanoseconds: number): number {
  if (nanoseconds < 1) return 0;
  let [digits, exponent] = [BigInt(Math.floor(nanoseconds)), 1];
  if (digits < 10n) {
    digits *= 10n;
    exponent = 0;
  }
  while (digits >= 100n) {
    digits /= 10n;
    exponent += 1;
  }
  return exponent * 90 + Number(digits) - 9;
}

/** The least whole number of nanoseconds above a flat bin. */
function edgeAbove(bin: number): number {
  const digits = ((bin - 1) % 90) + 11;
  const exponent = Math.floor((bin - 1) / 90);
  return exponent === 0 ? Math.ceil(digits / 10) : Number(`${digits}e${exponent - 1}`);
}

for (let cell = 0; cell < CELLS; cell += 1) {
  const bin = flatOf(2 ** (cell >>> 7) * (1 + (cell & 127) / 128));
  EDGES[cell] = edgeAbove(bin);
  BINS[cell] = bin;
}

const DOUBLE = new Float64Array(1);
const WORDS = new Uint32Array(DOUBLE.buffer);
const HIGH = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1 ? 1 : 0;

/** Counts durations of one thread. What is below zero counts as zero, what is above 2^53 ns (104 days) as 2^53 ns. */
export class Recorder {
  readonly #counts = new Float64Array(FLAT_BINS);
  /** Sum, minimum and maximum, in an array: a field that holds a double is an object of its own, made anew by each change. */
  readonly #exact = Float64Array.of(0, Infinity, 0);

  /** Counts a duration in nanoseconds; fractions of one are cut off. */
  recordNanoseconds(nanoseconds: number): void {
    // Written so that NaN counts as zero too.
    const value = nanoseconds >= 1 ? (nanoseconds < 9007199254740992 ? Math.floor(nanoseconds) : 9007199254740991) : 0;
    let bin = 0;
    if (value >= 1) {
      DOUBLE[0] = value;
      const cell = (WORDS[HIGH] >>> 13) - (1023 << 7);
      bin = BINS[cell] + (value >= EDGES[cell] ? 1 : 0);
    }
    this.#counts[bin] += 1;
    const exact = this.#exact;
    exact[0] += value;
    if (value < exact[1]) exact[1] = value;
    if (value > exact[2]) exact[2] = value;
  }

  /** Counts a duration in milliseconds, such as a difference of performance.now(). */
  recordMilliseconds(milliseconds: number): void {
    this.recordNanoseconds(milliseconds * 1e6);
  }

  /** Runs `work` and counts how long it took, also when it throws; of a promise until it settles. */
  timed<T>(work: () => T): T {
    const start = performance.now();
    const end = (): void => this.recordMilliseconds(performance.now() - start);
    let result: T;
    try {
      result = work();
    } catch (error) {
      end();
      throw error;
    }
    if (result instanceof Promise) return result.finally(end) as T;
    end();
    return result;
  }

  /** What was counted since the last call, in seconds; begins anew. */
  take(): Histogram {
    const taken = new Histogram();
    for (let bin = 0; bin < FLAT_BINS; bin += 1) {
      if (this.#counts[bin] === 0) continue;
      const key: Key = bin === 0 ? 0 : FLAT_TO_KEY + bin;
      taken.recordKey(key, BigInt(this.#counts[bin]));
      this.#counts[bin] = 0;
    }
    const [sum, min, max] = this.#exact;
    if (taken.count > 0n) taken.setExact({ sum: sum / 1e9, min: min / 1e9, max: max / 1e9 });
    this.#exact.set([0, Infinity, 0]);
    return taken;
  }
}
