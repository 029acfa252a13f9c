/**
 * Where values and instants fall on the picture. Pure.
 *
 * Invariants: `y` falls as the value rises; inside a log segment `value(y(v)) = v` to rounding; a bin's
 * rectangle is its true bounds on the axis, so bins of unequal log width are drawn unequal.
 */

import { zoneOffset } from "./format.ts";

/** Least and greatest distance from zero that one sign shows. */
export interface Extent {
  readonly lo: number;
  readonly hi: number;
}

/** What a value axis shows: either sign on a log scale, and a band for what is at zero. */
export interface Domain {
  readonly negative: Extent | null;
  readonly zero: boolean;
  readonly positive: Extent | null;
}

export interface Tick {
  readonly at: number;
  readonly value: number;
  /** Labelled ticks are major. */
  readonly major: boolean;
}

/** Height of the zero band, in CSS pixels times the device ratio that the caller applies. */
const ZERO_BAND = 12;

/** Next of 1, 2, 5 times a power of ten at or below `value`. */
export function niceFloor(value: number): number {
  const decade = Math.floor(Math.log10(value) + 1e-9);
  const mantissa = value / 10 ** decade;
  const step = mantissa >= 5 - 1e-9 ? 5 : mantissa >= 2 - 1e-9 ? 2 : 1;
  return Number(`${step}e${decade}`);
}

/** Next of 1, 2, 5 times a power of ten at or above `value`. */
export function niceCeil(value: number): number {
  const decade = Math.floor(Math.log10(value) + 1e-9);
  const mantissa = value / 10 ** decade;
  if (mantissa <= 1 + 1e-9) return Number(`1e${decade}`);
  if (mantissa <= 2 + 1e-9) return Number(`2e${decade}`);
  if (mantissa <= 5 + 1e-9) return Number(`5e${decade}`);
  return Number(`1e${decade + 1}`);
}

/** Values below this are at zero for the eye: OpenHistogram's zero bin ends at 1e-128. */
const AT_ZERO = 1e-100;

/** Collects bounds of bins and answers the domain that shows all of them. */
export class DomainBuilder {
  private positive: [number, number] | null = null;
  private negative: [number, number] | null = null;
  private zero = false;

  add(lo: number, hi: number): void {
    // The lowest bucket of a classic histogram is open below; its values are as those of the others, above zero.
    if (lo === -Infinity && hi > AT_ZERO) lo = hi / 10;
    if (lo >= -AT_ZERO && hi <= AT_ZERO) {
      this.zero = true;
      return;
    }
    if (hi > AT_ZERO) this.positive = widen(this.positive, lo, hi);
    if (lo < -AT_ZERO) this.negative = widen(this.negative, -hi, -lo);
    if (lo <= 0 && hi >= 0) this.zero = true;
  }

  build(): Domain | null {
    if (this.positive === null && this.negative === null && !this.zero) return null;
    const positive = nice(this.positive);
    const negative = nice(this.negative);
    if (positive === null && negative === null) return { positive: { lo: 1e-3, hi: 1 }, negative: null, zero: true };
    return { positive, negative, zero: this.zero || (positive !== null && negative !== null) };
  }
}

/** An open end (zero or infinity) takes one decade beyond the end that is known. */
function widen(extent: [number, number] | null, lo: number, hi: number): [number, number] {
  const near = lo > AT_ZERO ? lo : hi / 10;
  const far = Number.isFinite(hi) ? hi : Math.max(lo, AT_ZERO) * 10;
  const from = Number.isFinite(near) ? near : far / 10;
  return extent === null ? [from, far] : [Math.min(extent[0], from), Math.max(extent[1], far)];
}

/** Rounds outward to 1, 2, 5 and keeps at least one decade, so that one bin does not fill the picture. */
function nice(extent: [number, number] | null): Extent | null {
  if (extent === null) return null;
  let [lo, hi] = extent;
  if (hi / lo < 10) {
    const middle = Math.sqrt(lo * hi);
    lo = middle / Math.sqrt(10);
    hi = middle * Math.sqrt(10);
  }
  return { lo: niceFloor(lo), hi: niceCeil(hi) };
}

export function sameDomain(a: Domain | null, b: Domain | null): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** True when `outer` shows everything that `inner` does. */
export function covers(outer: Domain, inner: Domain): boolean {
  const holds = (a: Extent | null, b: Extent | null): boolean => b === null || (a !== null && a.lo <= b.lo && a.hi >= b.hi);
  return holds(outer.positive, inner.positive) && holds(outer.negative, inner.negative) && (outer.zero || !inner.zero);
}

/** Decades that a domain spans, both signs. */
export function decades(domain: Domain): number {
  const of = (extent: Extent | null): number => (extent === null ? 0 : Math.log10(extent.hi / extent.lo));
  return of(domain.positive) + of(domain.negative);
}

/** The vertical axis: pixels grow downward, values grow upward. */
export class ValueAxis {
  /** Rows of the zero band, `[top, bottom)`; empty when the domain has none. */
  readonly band: readonly [number, number];
  private readonly perDecade: number;

  constructor(
    readonly domain: Domain,
    readonly height: number,
    ratio = 1,
  ) {
    const zero = domain.zero ? Math.min(ZERO_BAND * ratio, height / 4) : 0;
    const total = decades(domain);
    this.perDecade = total > 0 ? (height - zero) / total : 0;
    const top = domain.positive === null ? 0 : Math.log10(domain.positive.hi / domain.positive.lo) * this.perDecade;
    this.band = [top, top + zero];
  }

  /** Pixel of `value`; what is outside of the domain falls on the nearest end. */
  y(value: number): number {
    const { positive, negative } = this.domain;
    if (value > 0 && positive !== null) {
      if (value <= positive.lo) return this.band[0];
      return Math.max(0, Math.log10(positive.hi / value) * this.perDecade);
    }
    if (value < 0 && negative !== null) {
      if (-value <= negative.lo) return this.band[1];
      return Math.min(this.height, this.band[1] + Math.log10(-value / negative.lo) * this.perDecade);
    }
    return value > 0 ? this.band[0] : this.band[1];
  }

  /** Value at a pixel; the zero band is 0. */
  value(y: number): number {
    const { positive, negative } = this.domain;
    if (y < this.band[0] && positive !== null) return positive.hi / 10 ** (Math.max(0, y) / this.perDecade);
    if (y >= this.band[1] && negative !== null) {
      return -negative.lo * 10 ** ((Math.min(y, this.height) - this.band[1]) / this.perDecade);
    }
    if (y >= this.band[1] && !this.domain.zero && positive !== null) return positive.lo;
    return 0;
  }

  /** Whether any of a bin is on the axis: all are, unless a part of the values was chosen. */
  shows(lo: number, hi: number): boolean {
    const { positive, negative, zero } = this.domain;
    const meets = (extent: Extent | null, from: number, to: number): boolean => extent !== null && (from === to ? to >= extent.lo : to > extent.lo) && (from === to ? from <= extent.hi : from < extent.hi);
    if (zero && lo <= AT_ZERO && hi >= -AT_ZERO) return true;
    return (hi > AT_ZERO && meets(positive, Math.max(0, lo), hi)) || (lo < -AT_ZERO && meets(negative, Math.max(0, -hi), -lo));
  }

  /** Top and bottom of a bin, unrounded. A bin at zero is the band; a bin that begins at zero ends at it. */
  span(lo: number, hi: number): [number, number] {
    if (lo >= -AT_ZERO && hi <= AT_ZERO) return [this.band[0], this.band[1]];
    return [this.y(hi), lo === 0 ? this.band[0] : hi === 0 ? this.y(lo) : this.y(lo)];
  }

  ticks(): Tick[] {
    const ticks: Tick[] = [];
    const { positive, negative } = this.domain;
    if (positive !== null) for (const [value, major] of this.logTicks(positive)) ticks.push(this.tick(value, major));
    if (this.domain.zero) ticks.push({ at: (this.band[0] + this.band[1]) / 2, value: 0, major: true });
    if (negative !== null) for (const [value, major] of this.logTicks(negative)) ticks.push(this.tick(-value, major));
    return ticks;
  }

  private tick(value: number, major: boolean): Tick {
    return { at: this.y(value), value, major };
  }

  /** Ticks at 1, 2, 5 where there is room for labels, otherwise at decades or every n-th decade. */
  private logTicks(extent: Extent): [number, boolean][] {
    const labelled = this.perDecade > 110 ? [1, 2, 5] : [1];
    const minor = this.perDecade > 260 ? [1, 2, 3, 4, 5, 6, 7, 8, 9] : this.perDecade > 28 ? [1, 2, 5] : [1];
    const every = Math.max(1, Math.ceil(26 / Math.max(this.perDecade, 1e-9)));
    const out: [number, boolean][] = [];
    const first = Math.floor(Math.log10(extent.lo) + 1e-9);
    const last = Math.ceil(Math.log10(extent.hi) - 1e-9);
    for (let decade = first; decade <= last; decade++) {
      if (every > 1 && decade % every !== 0) continue;
      for (const mantissa of minor) {
        const value = Number(`${mantissa}e${decade}`);
        if (value < extent.lo * (1 - 1e-9) || value > extent.hi * (1 + 1e-9)) continue;
        out.push([value, labelled.includes(mantissa)]);
      }
    }
    return out;
  }
}

const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

/** Largest number of columns asked for and drawn: 1,800 columns of 2 pixels fill a 3,600 pixel wide picture. */
export const COLUMNS_MAX = 1800;

/** Seconds of one column for a range drawn `width` pixels wide: columns are at least two pixels and one second. */
export function stepFor(seconds: number, width: number): number {
  const columns = Math.max(30, Math.min(COLUMNS_MAX, Math.floor(width / 2)));
  for (const step of TIME_STEPS) if (seconds / step <= columns) return step;
  const day = 86400;
  return Math.ceil(seconds / columns / day) * day;
}

export interface TimeTick {
  readonly t: number;
  /** True when the label shows seconds. */
  readonly fine: boolean;
  readonly midnight: boolean;
}

/** Ticks on round local times, at most one per `spacing` pixels. */
export function timeTicks(start: number, end: number, width: number, spacing = 90): TimeTick[] {
  const count = Math.max(1, Math.floor(width / spacing));
  const wanted = (end - start) / count;
  const step = TIME_STEPS.find((size) => size >= wanted) ?? Math.ceil(wanted / 86400) * 86400;
  const offset = zoneOffset(start);
  const out: TimeTick[] = [];
  for (let t = Math.ceil((start + offset) / step) * step - offset; t <= end; t += step) {
    out.push({ t, fine: step < 60, midnight: (t + offset) % 86400 === 0 });
  }
  return out;
}
