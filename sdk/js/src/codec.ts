// The OpenHistogram byte and base64 forms (docs/formats/openhistogram.md).

import { type Bin, binOfKey, isValid, type Key, keyOfBin } from "./bin.js";
import { COUNT_MAX, Histogram } from "./histogram.js";

/** All bins that there are. */
export const BINS_MAX = 2 + 2 * 90 * 256;

/** A form that cannot be read: the message names what, and where. */
export class FormatError extends Error {}

/** What a reader had to mend. */
export interface Repairs {
  /** Bins that the format does not know, which were left out. */
  invalidBins: number;
  /** Samples in the bins that were left out. */
  invalidSamples: bigint;
  /** Bins with a count of 0. */
  emptyBins: number;
  /** Zero bins with an exponent. */
  oddZeroBins: number;
  /** Bins that were there already, which were added. */
  duplicateBins: number;
  /** Bins below the one before. */
  unsortedBins: number;
  /** Counts of more bytes than they need. */
  wideCounts: number;
  /** Bins that were declared and are behind the end. */
  missingBins: number;
  /** Bytes behind the last bin. */
  trailingBytes: number;
  /** Whether there was white space, or padding was missing. */
  looseBase64: boolean;
}

const widthOf = (count: bigint): number => Math.max(1, Math.ceil(count.toString(16).length / 2));

/** A histogram, and what had to be mended to read it. */
export interface Read {
  /** What was read. */
  histogram: Histogram;
  /** What was mended. */
  repairs: Repairs;
}

/** The canonical byte form. */
export function encode(histogram: Histogram): Uint8Array {
  const bytes: number[] = [0, 0];
  let bins = 0;
  for (const [key, count] of histogram.entries()) {
    const { val, exp } = binOfKey(key);
    const width = widthOf(count);
    bytes.push(val & 255, exp & 255, width - 1);
    for (let rest = count, at = 0; at < width; at += 1, rest >>= 8n) bytes.push(Number(rest & 255n));
    bins += 1;
  }
  bytes[0] = bins >> 8;
  bytes[1] = bins & 255;
  return Uint8Array.from(bytes);
}

/** Reads the byte form: more than a canonical writer writes, and says what it mended. Throws FormatError. */
export function decode(bytes: Uint8Array): Read {
  const repairs: Repairs = {
    invalidBins: 0, invalidSamples: 0n, emptyBins: 0, oddZeroBins: 0, duplicateBins: 0, unsortedBins: 0, wideCounts: 0,
    missingBins: 0, trailingBytes: 0, looseBase64: false,
  };
  if (bytes.length < 2) throw new FormatError(`the input of ${bytes.length} bytes ends inside the number of bins`);
  const declared = bytes[0] * 256 + bytes[1];
  if (declared > BINS_MAX) throw new FormatError(`${declared} bins are declared, and there are ${BINS_MAX}`);
  const sums = new Map<Key, bigint>();
  let [offset, last] = [2, -Infinity];
  for (let read = 0; read < declared; read += 1) {
    if (offset === bytes.length) {
      repairs.missingBins = declared - read;
      break;
    }
    if (bytes.length - offset < 3) throw new FormatError(`the input ends inside the bin at byte ${offset}`);
    const bin: Bin = { val: (bytes[offset] << 24) >> 24, exp: (bytes[offset + 1] << 24) >> 24 };
    const width = bytes[offset + 2] + 1;
    if (width > 8) throw new FormatError(`the count at byte ${offset + 2} is ${width} bytes wide, and 8 is the most`);
    if (bytes.length - offset - 3 < width) throw new FormatError(`the input ends inside the count at byte ${offset + 3}`);
    let count = 0n;
    for (let at = width - 1; at >= 0; at -= 1) count = (count << 8n) | BigInt(bytes[offset + 3 + at]);
    offset += 3 + width;
    if (count === 0n) {
      repairs.emptyBins += 1;
      continue;
    }
    if (!isValid(bin)) {
      repairs.invalidBins += 1;
      const sum = repairs.invalidSamples + count;
      repairs.invalidSamples = sum > COUNT_MAX ? COUNT_MAX : sum;
      continue;
    }
    const key = keyOfBin(bin);
    if (bin.val === 0 && bin.exp !== 0) repairs.oddZeroBins += 1;
    if (width > widthOf(count)) repairs.wideCounts += 1;
    if (key < last) repairs.unsortedBins += 1;
    if (sums.has(key)) repairs.duplicateBins += 1;
    last = key;
    sums.set(key, (sums.get(key) ?? 0n) + count);
  }
  repairs.trailingBytes = bytes.length - offset;
  const histogram = new Histogram();
  for (const key of [...sums.keys()].sort((a, b) => a - b)) histogram.recordKey(key, sums.get(key)!);
  return { histogram, repairs };
}

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** The byte form in base64, with padding. */
export function encodeBase64(histogram: Histogram): string {
  const bytes = encode(histogram);
  let text = "";
  for (let at = 0; at < bytes.length; at += 3) {
    const group = (bytes[at] << 16) | ((bytes[at + 1] ?? 0) << 8) | (bytes[at + 2] ?? 0);
    const digits = [18, 12, 6, 0].map((shift) => ALPHABET[(group >> shift) & 63]).join("");
    text += digits.slice(0, Math.min(bytes.length - at, 3) + 1).padEnd(4, "=");
  }
  return text;
}

/** The bytes of a text in base64, read with white space and without padding too, which is reported. Throws FormatError. */
export function bytesOfBase64(text: string): { bytes: Uint8Array; isLoose: boolean } {
  const dense = text.replace(/[ \t\r\n]/g, "");
  const digits = dense.replace(/={1,2}$/, "");
  const padding = dense.length - digits.length;
  const needed = (4 - (digits.length % 4)) % 4;
  const stray = [...digits].findIndex((digit) => !ALPHABET.includes(digit));
  if (stray >= 0) throw new FormatError(`character ${stray} is not of base64`);
  if (needed === 3 || padding > needed) throw new FormatError("the text is no whole number of bytes in base64");
  const bytes: number[] = [];
  let [held, bits] = [0, 0];
  for (const digit of digits) {
    held = ((held << 6) | ALPHABET.indexOf(digit)) & 0xffff;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      bytes.push((held >> bits) & 255);
    }
  }
  return { bytes: Uint8Array.from(bytes), isLoose: dense.length < text.length || padding < needed };
}

/** Reads the base64 form. White space and missing padding are read and reported; bytes behind the last bin are an error. */
export function decodeBase64(text: string): Read {
  const { bytes, isLoose } = bytesOfBase64(text);
  const { histogram, repairs } = decode(bytes);
  if (repairs.trailingBytes > 0) throw new FormatError(`${repairs.trailingBytes} bytes are left behind the last bin`);
  repairs.looseBase64 = isLoose;
  return { histogram, repairs };
}
