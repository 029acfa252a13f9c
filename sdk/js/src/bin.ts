// Bins of the LogLinear10 scheme, by the rule of docs/formats/openhistogram.md.

/** A bin as its byte form holds it. */
export interface Bin {
  /** Ten times the mantissa of the edge nearer zero, with the sign: 10 to 99, -99 to -10; 0 is the zero bin, -1 the NaN bin. */
  readonly val: number;
  /** The decimal exponent of that edge. */
  readonly exp: number;
}

/** Holds what is nearer zero than 1e-128. */
export const ZERO_BIN: Bin = Object.freeze({ val: 0, exp: 0 });
/** Holds what is not a number, infinite, or not below 1e128. */
export const NAN_BIN: Bin = Object.freeze({ val: -1, exp: 0 });

/** A bin's place in the order of the format: NaN, then ascending on the real axis, with zero at 0. */
export type Key = number;
export const NAN_KEY: Key = -32768;

/** The doubles nearest to 1e-128 up to 1e128. */
const POWERS = Float64Array.from({ length: 257 }, (_, at) => Number(`1e${at - 128}`));

export const power = (exponent: number): number => POWERS[exponent + 128];

/** What a scaled mantissa may lack and still belong to the bin above: 0.3 is stored below 0.3 and belongs to 30. */
const SLACK = 1e-13;

const DOUBLE = new Float64Array(1);
const WORDS = new Uint32Array(DOUBLE.buffer);
const HIGH = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1 ? 1 : 0;

/** The greatest e with 10^e <= magnitude, for 1e-128 <= magnitude < 1e128. */
function decade(magnitude: number): number {
  DOUBLE[0] = magnitude;
  const binary = (WORDS[HIGH] >>> 20) - 1023;
  // 78913 / 2^18 is log10(2) less 2e-7: the estimate is the decade of 2^binary, or one below.
  const estimate = Math.max((binary * 78913) >> 18, -128);
  return magnitude >= power(estimate + 1) ? estimate + 1 : estimate;
}

/** The key of a double's bin. */
export function keyOf(value: number): Key {
  const magnitude = Math.abs(value);
  if (!(magnitude < POWERS[256])) return NAN_KEY;
  if (magnitude < POWERS[0]) return 0;
  let exponent = decade(magnitude);
  let mantissa = Math.trunc((magnitude / power(exponent)) * 10 + SLACK);
  if (mantissa === 100) {
    mantissa = 10;
    exponent += 1;
    if (exponent > 127) return NAN_KEY;
  }
  const index = (exponent + 128) * 90 + mantissa - 9;
  return value < 0 ? -index : index;
}

/** The bin of a double. */
export const binOf = (value: number): Bin => binOfKey(keyOf(value));

/**
 * The bin of value * 10^scale, in integers throughout: digits below the second are cut off. Nanoseconds are (ns, -9). Of
 * 64-bit integers, -2^63 counts as -(2^63-1).
 */
export function binOfInteger(value: bigint | number, scale: number): Bin {
  const integer = BigInt(value);
  let digits = integer < 0n ? -integer : integer;
  if (digits === 1n << 63n && integer < 0n) digits -= 1n;
  if (digits === 0n) return ZERO_BIN;
  let exponent = scale + 1;
  if (digits < 10n) {
    digits *= 10n;
    exponent -= 1;
  }
  while (digits >= 100n) {
    digits /= 10n;
    exponent += 1;
  }
  if (exponent < -128) return ZERO_BIN;
  if (exponent > 127) return NAN_BIN;
  return { val: integer < 0n ? -Number(digits) : Number(digits), exp: exponent };
}

/** Whether the format knows the bin. (0, exp) with an exponent is valid and means the zero bin. */
export function isValid(bin: Bin): boolean {
  const digits = Math.abs(bin.val);
  return bin.val === 0 || (digits >= 10 && digits <= 99) || (bin.val === -1 && bin.exp === 0);
}

/** The key of a valid bin. */
export function keyOfBin(bin: Bin): Key {
  if (bin.val >= 10) return (bin.exp + 128) * 90 + bin.val - 9;
  if (bin.val <= -10) return -((bin.exp + 128) * 90 - bin.val - 9);
  return bin.val === 0 ? 0 : NAN_KEY;
}

/** The bin of a key. */
export function binOfKey(key: Key): Bin {
  if (key === NAN_KEY) return NAN_BIN;
  if (key === 0) return ZERO_BIN;
  const index = Math.abs(key) - 1;
  const digits = (index % 90) + 10;
  return { val: key < 0 ? -digits : digits, exp: Math.floor(index / 90) - 128 };
}

/** The edges of a bin on the real axis: the doubles nearest to the decimal numbers. */
export function bounds(key: Key): [lo: number, hi: number] {
  if (key === NAN_KEY) return [NaN, NaN];
  if (key === 0) return [0, 0];
  const index = Math.abs(key) - 1;
  const digits = (index % 90) + 10;
  const exponent = Math.floor(index / 90) - 129;
  const near = Number(`${digits}e${exponent}`);
  const far = Number(`${digits + 1}e${exponent}`);
  return key > 0 ? [near, far] : [-far, -near];
}

/** The harmonic mean of a bin's edges, the value with the least greatest relative error; 0 for the zero bin. */
export function midpoint(key: Key): number {
  const [lo, hi] = bounds(key);
  return lo === hi ? 0 : lo * ((2 * hi) / (lo + hi));
}

/** A bin's label, its edge nearer zero: 1.2e-3, -5.0e-1, 0, NaN. */
export function labelOfBin(bin: Bin): string {
  if (bin.val === 0) return "0";
  if (bin.val === -1) return "NaN";
  const digits = Math.abs(bin.val);
  return `${bin.val < 0 ? "-" : ""}${Math.floor(digits / 10)}.${digits % 10}e${bin.exp}`;
}

/** The bin of a label: a decimal number, which is binned, or NaN. Throws RangeError for another text. */
export function binOfLabel(label: string): Bin {
  if (label === "NaN") return NAN_BIN;
  const number = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(label) ? Number(label) : NaN;
  const key = keyOf(number);
  if (key === NAN_KEY) throw new RangeError(`${JSON.stringify(label)} is no decimal number below 1e128, nor NaN`);
  return binOfKey(key);
}
