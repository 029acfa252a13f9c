/**
 * Columns of a heat map as the server sends them: bytes, about a ninth of the JSON. Pure.
 *
 * Format: docs/formats/columns.md. Limits: every length is compared with what is left before anything of that length is made.
 * Failure: a frame that is cut, longer than it says, or of another version is an error that says where.
 */

import type { WireColumn } from "./bins.ts";
import { quantileOf } from "./quantile.ts";

/** What `Accept` and `Content-Type` say. */
export const KIND = "application/vnd.ogive.columns";

const MAGIC = [0x4f, 0x47, 0x56, 0x43];
const VERSION = 1;
const [FLOAT, HAS_SUM, HAS_MIN, HAS_MAX] = [1, 2, 4, 8];

class Reader {
  private at = 0;
  private readonly view: DataView;

  constructor(private readonly bytes: Uint8Array) {
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get left(): number {
    return this.bytes.length - this.at;
  }

  fail(what: string): never {
    throw new RangeError(`not a frame of columns: ${what} at byte ${this.at}`);
  }

  byte(): number {
    if (this.left < 1) this.fail("it is cut");
    return this.bytes[this.at++] as number;
  }

  take(length: number): Uint8Array {
    if (length > this.left) this.fail("it is cut");
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }

  double(): number {
    if (this.left < 8) this.fail("it is cut");
    this.at += 8;
    return this.view.getFloat64(this.at - 8, true);
  }

  /** Exact below 2^53, as all numbers of the page. */
  integer(): number {
    let [value, size] = [0, 1];
    for (let bytes = 0; bytes < 10; bytes++) {
      const byte = this.byte();
      value += (byte & 0x7f) * size;
      if (byte < 0x80) return value;
      size *= 128;
    }
    return this.fail("an integer of more than ten bytes");
  }

  signed(): number {
    const value = this.integer();
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }

  /** How many things follow that take `least` bytes each. */
  size(least: number): number {
    const size = this.integer();
    if (size * least > this.left) this.fail(`${size} entries`);
    return size;
  }
}

/** What stands in front of the columns, and those. */
export interface Frame {
  readonly head: unknown;
  readonly columns: WireColumn[];
}

const times = <T>(count: number, one: (at: number) => T): T[] => Array.from({ length: count }, (_, at) => one(at));

/** Reads a frame; quantiles are computed for those that its head names, or for `usual` where it names none. */
export function readFrame(bytes: Uint8Array, usual: readonly number[] = []): Frame {
  const reader = new Reader(bytes);
  if (MAGIC.some((byte) => reader.byte() !== byte)) reader.fail("other bytes");
  if (reader.byte() !== VERSION) reader.fail("another version");
  const head = JSON.parse(new TextDecoder().decode(reader.take(reader.size(1)))) as { data?: { quantiles?: number[] } };
  const bounds = reader.size(16);
  const [lo, hi] = [times(bounds, () => reader.double()), times(bounds, () => reader.double())];
  // A column takes a byte in each of its five streams.
  const count = reader.size(5);
  let before = 0;
  const ends = times(count, () => (before += reader.signed()));
  const lengths = times(count, () => reader.integer());
  const flags = [...reader.take(count)];
  const sizes = times(count, () => reader.size(1));
  const places = sizes.map((size) => {
    let place = 0;
    return times(size, () => {
      place += reader.signed();
      return place >= 0 && place < bounds ? place : reader.fail(`no bin ${place}`);
    });
  });
  const counts = flags.map((flag, at) => {
    const one = (): number => ((flag & FLOAT) === 0 ? reader.integer() : reader.double());
    return times((sizes[at] as number) + 1, one);
  });
  const quantiles = head.data?.quantiles ?? usual;
  const columns = flags.map((flag, at): WireColumn => {
    const known = (bit: number): number | null => ((flag & bit) === 0 ? null : reader.double());
    const [sum, min, max] = [known(HAS_SUM), known(HAS_MIN), known(HAS_MAX)];
    const [total, ...each] = counts[at] as [number, ...number[]];
    const [ids, t] = [places[at] as number[], (ends[at] as number) / 1000];
    const bins = ids.map((id, i): [number, number, number] => [lo[id] as number, hi[id] as number, each[i] as number]);
    const length = lengths[at] as number;
    const from = length === 0 ? {} : { from: ((ends[at] as number) - (length - 1)) / 1000 };
    const of = { lo: bins.map((bin) => bin[0]), hi: bins.map((bin) => bin[1]), counts: each, min, max, float: (flag & FLOAT) !== 0 };
    const marks = quantiles.flatMap((q): [number, number, number, number][] => {
      const found = quantileOf(of, q);
      return found === null ? [] : [[q, found.value, found.lo, found.hi]];
    });
    return { t, ...from, count: total, sum, min, max, bins, quantiles: marks };
  });
  if (reader.left > 0) reader.fail(`${reader.left} bytes too many`);
  return { head, columns };
}
