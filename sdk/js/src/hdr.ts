// Reads HdrHistogram's encoding of version 2 (docs/formats/hdrhistogram.md).

import { keyOf, type Key } from "./bin.js";
import { FormatError, bytesOfBase64 } from "./codec.js";
import { Histogram } from "./histogram.js";

// First bytes, without the word size, which has no meaning in version 2.
const PLAIN = 0x1c849303;
const COMPRESSED = 0x1c849304;
// Those of other forms: versions 1 and 0, and histograms of doubles.
const OLD = [0x1c849301, 0x1c849302, 0x1c849308, 0x1c849309];
const DOUBLES = [0x0c72120e, 0x0c72120f];
const HEADER_BYTES = 40;
/** 16 MiB: all 835,584 counts that five digits can have, at nine bytes, twice. */
const PLAIN_BYTES_MAX = 16 * 2 ** 20;
/** Bins a power of two, as a binary logarithm, for 0 to 5 digits: 2 * 10^digits steps, rounded up to a power of two, half of them. */
const GROUPINGS = [0, 4, 7, 10, 14, 17];

/** The bins of a form. */
interface Grid {
  readonly grouping: number;
  readonly shift: number;
  readonly unit: number;
}

/**
 * Reads a form, plain or compressed, as HdrHistogram's libraries in all languages write it. `unit` is the value of one recorded
 * unit: 1e-9 makes nanoseconds seconds. Each count goes to the bin that holds the middle of its own; sum, minimum and maximum are
 * not known. Rejects with FormatError for another form, one that is cut, or a compressed one that unfolds to more than 16 MiB.
 */
export async function decodeHdr(bytes: Uint8Array, unit: number): Promise<Histogram> {
  return cookieOf(bytes) === COMPRESSED ? decodePlain(await inflate(bytes), unit) : decodePlain(bytes, unit);
}

/** Reads the base64 of a form, as decodeHdr does: a line of an interval log has it. */
export async function decodeHdrBase64(text: string, unit: number): Promise<Histogram> {
  return decodeHdr(bytesOfBase64(text).bytes, unit);
}

const viewOf = (bytes: Uint8Array): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

const cookieOf = (bytes: Uint8Array): number => (bytes.length < 4 ? 0 : (viewOf(bytes).getUint32(0) & 0xffffff0f) >>> 0);

/** Why a form with these first bytes is not read. */
function stranger(cookie: number): string {
  if (OLD.includes(cookie))
    return "the form is of version 0 or 1, and only version 2 is read: encode it with a current HdrHistogram, or import its log with ogive import hdr-log";
  if (DOUBLES.includes(cookie))
    return "the form is a histogram of doubles, and only those of integers are read: import its log with ogive import hdr-log";
  return "the first bytes are not those of an HdrHistogram of version 2";
}

async function inflate(bytes: Uint8Array): Promise<Uint8Array> {
  const length = bytes.length < 8 ? Infinity : viewOf(bytes).getUint32(4);
  if (length > bytes.length - 8) throw new FormatError(`the input of ${bytes.length} bytes ends inside the compressed form`);
  const unfolding = new DecompressionStream("deflate");
  const writer = unfolding.writable.getWriter();
  // What is wrong with it, the reader says.
  const written = writer.write(bytes.slice(8, 8 + length)).then(() => writer.close()).catch(() => undefined);
  const reader = unfolding.readable.getReader();
  const parts: Uint8Array[] = [];
  let filled = 0;
  for (;;) {
    const { done, value } = await reader.read().catch((error: unknown) => {
      throw new FormatError(`the compressed form is cut, or not zlib: ${String(error)}`);
    });
    if (done) break;
    filled += value.length;
    if (filled > PLAIN_BYTES_MAX) {
      await reader.cancel();
      throw new FormatError("the compressed form unfolds to more than 16 MiB");
    }
    parts.push(value);
  }
  await written;
  const plain = new Uint8Array(filled);
  let at = 0;
  for (const part of parts) {
    plain.set(part, at);
    at += part.length;
  }
  return plain;
}

function decodePlain(bytes: Uint8Array, unit: number): Histogram {
  const grid = headerOf(bytes, unit);
  const payload = viewOf(bytes).getUint32(4);
  const there = bytes.length - HEADER_BYTES;
  if (payload > there) throw new FormatError(`the input ends inside the counts: ${there} bytes of ${payload}`);
  return countsOf(bytes.subarray(HEADER_BYTES, HEADER_BYTES + payload), grid);
}

function headerOf(bytes: Uint8Array, unit: number): Grid {
  if (cookieOf(bytes) !== PLAIN) throw new FormatError(stranger(cookieOf(bytes)));
  if (bytes.length < HEADER_BYTES) throw new FormatError(`the input of ${bytes.length} bytes ends inside the header`);
  const fields = viewOf(bytes);
  const grouping = GROUPINGS[fields.getUint32(12)];
  const least = fields.getBigInt64(16);
  if (grouping === undefined) throw new FormatError(`${fields.getUint32(12)} significant digits, and 5 are the most`);
  if (least < 1n || least >= 1n << 41n) throw new FormatError("the least discernible value is outside 1..2^41");
  if (!(unit >= 1e-100 && unit <= 1e100)) throw new FormatError(`the unit ${unit} is outside 1e-100..1e100`);
  return { grouping, shift: least.toString(2).length - 1, unit };
}

function countsOf(payload: Uint8Array, grid: Grid): Histogram {
  const histogram = new Histogram();
  const last = (63 - grid.shift - grid.grouping) * 2 ** grid.grouping + 2 ** (grid.grouping + 1) - 1;
  let index = 0;
  for (let at = 0; at < payload.length; ) {
    // A zig-zag LEB128 number of at most nine bytes, the ninth with eight bits.
    let length = 1;
    while (length < 9 && payload[at + length - 1] >= 0x80) length += 1;
    if (at + length > payload.length) throw new FormatError(`the input ends inside the count at byte ${HEADER_BYTES + at}`);
    const value = numberOf(payload.subarray(at, at + length));
    if (value % 2n === 1n) {
      // So many zeros; past the last bin, how many does not matter.
      index = Math.min(index + Number((value + 1n) / 2n), last + 1);
    } else {
      if (value > 0n && index > last) throw new FormatError(`there are more counts than bins, at byte ${HEADER_BYTES + at}`);
      histogram.recordKey(keyOfIndex(index, grid), value / 2n);
      index = Math.min(index + 1, last + 1);
    }
    at += length;
  }
  return histogram;
}

function numberOf(bytes: Uint8Array): bigint {
  // Most are short.
  if (bytes.length <= 4) return BigInt(bytes.reduceRight((value, byte) => value * 128 + (byte & 0x7f), 0));
  const whole = bytes.length === 9 ? BigInt(bytes[8]) : 0n;
  return bytes.subarray(0, 8).reduceRight((value, byte) => (value << 7n) | BigInt(byte & 0x7f), whole);
}

/** The key of the middle of a bin, rounded down to a whole unit, as HdrHistogram has it. */
function keyOfIndex(index: number, { grouping, shift, unit }: Grid): Key {
  if (index === 0) return 0;
  const exponent = Math.max(Math.floor(index / 2 ** grouping) - 1, 0);
  const width = 2 ** (exponent + shift);
  const units = (index - exponent * 2 ** grouping) * width + Math.floor(width / 2);
  // Of a unit that is one n-th: 5 units of 1e-3 are 0.005.
  const parts = Math.round(1 / unit);
  return keyOf(parts > 1 && 1 / parts === unit ? units / parts : units * unit);
}
