/**
 * The cells of the heat map: a picture with one pixel per column and the height of the plot, stretched when shown. It
 * lies on its side, a column is a row of pixels: written in one run, it is painted twice as fast as upright.
 *
 * Invariants: the picture is a ring, column `slot` is at slot mod capacity, so a new second draws one row of pixels
 * and moves nothing; a bin covers the rows between its true bounds, and the rows that it covers in part take it in
 * part, so bins finer than a pixel neither vanish nor make stripes (rounding to whole rows did); by density, bins are
 * blurred where samples are few (kernel.ts); a column that covers several slots shares its samples out to them; level 0
 * means "measured, nothing there" and a column without data is transparent: no data is not zero.
 */

import type { ValueAxis } from "./axis.ts";
import type { BinTable, Column } from "./bins.ts";
import { level, type Scaling } from "./colour.ts";
import { shareUpTo, windows } from "./kernel.ts";

/** Columns of the ring: above `COLUMNS_MAX` of the axis, so that a column about to leave is still there. */
export const RING = 2048;

export interface Look {
  readonly axis: ValueAxis;
  /** Pixel word of each of `SHADES` equal parts of `max`, and of `max` itself. */
  readonly shades: Uint32Array;
  /** Pixel word of "measured, nothing there". */
  readonly empty: number;
  readonly density: boolean;
  /** Samples of each bin in a usual column, by id: where they are few, bins are drawn over one width. */
  readonly usual: Float64Array;
  /** Amount that has the last colour. */
  readonly max: number;
  /** Columns of another time: what is painted is how the shares of a column differ from theirs. */
  readonly difference?: Difference;
}

/** What a picture of differences needs. */
export interface Difference {
  readonly before: ReadonlyMap<number, Column>;
  /** Pixel words from "less than before" over "alike" in the middle to "more". */
  readonly shades: Uint32Array;
  /** Difference of shares that has the first and the last of them. */
  readonly max: number;
}

/** Parts by which amounts are distinguished: fine enough that neighbours differ by at most one colour where any is seen. */
const SHADES = 65_536;

/** Looks up what `level` would compute: a picture asks a million times, and a table answers five times faster. */
export function shadesOf(words: Uint32Array, scaling: Scaling): Uint32Array {
  const shades = new Uint32Array(SHADES + 1);
  // Each part has the colour of its middle; the first one is "some", never "none".
  for (let i = 0; i <= SHADES; i++) shades[i] = words[level(Math.min(i + 0.5, SHADES), SHADES, scaling)] as number;
  return shades;
}

/** Rows and weights of each bin of a table on one axis: whole rows between `first` and `last`, those two in part. */
export interface Geometry {
  readonly first: Int32Array;
  readonly last: Int32Array;
  readonly weight: Float64Array;
  readonly firstWeight: Float64Array;
  readonly lastWeight: Float64Array;
  /** Weights of the rows from `first` on, for bins that are blurred. */
  readonly profiles: readonly (Float64Array | undefined)[];
}

/** One percent of a value, as a difference of natural logarithms: what density counts samples per. */
const PERCENT = Math.log(1.01);

/** What a count in bin `id` amounts to when it is drawn `width` wide: itself, or samples per one percent of value. */
function weightOf(width: number, density: boolean): number {
  if (!density) return 1;
  // Bins at zero and open ends have no log width; they count as one decade, which keeps them visible and modest.
  return PERCENT / (Number.isNaN(width) ? Math.LN10 : width);
}

/** Part of a row that the thinnest bin covers: below this it would be lost to rounding. */
const ROWS_LEAST = 1e-6;

export function layOut(table: BinTable, axis: ValueAxis, density: boolean, usual: ArrayLike<number>): Geometry {
  const { size } = table;
  const rows = Math.max(1, Math.round(axis.height));
  const [first, last] = [new Int32Array(size), new Int32Array(size)];
  const [weight, firstWeight, lastWeight] = [new Float64Array(size), new Float64Array(size), new Float64Array(size)];
  const profiles: (Float64Array | undefined)[] = [];
  const blur = density ? windows(table, usual) : null;
  for (let id = 0; id < size; id++) {
    const width = table.logWidth(id);
    if (!axis.shows(table.lo[id] as number, table.hi[id] as number)) {
      // A part of the values was chosen, and this is not of it: its rows take nothing.
      profiles[id] = new Float64Array(0);
      continue;
    }
    const profile = blur === null ? null : profileOf(table, id, blur[id] as number, axis);
    if (profile !== null) {
      [first[id], profiles[id]] = profile;
      continue;
    }
    const [from, to] = axis.span(table.lo[id] as number, table.hi[id] as number);
    const top = Math.max(0, Math.min(rows - ROWS_LEAST, from));
    const bottom = Math.min(rows, Math.max(top + ROWS_LEAST, to));
    const whole = weightOf(width, density);
    const [a, b] = [Math.floor(top), Math.min(rows, Math.ceil(bottom)) - 1];
    first[id] = a;
    last[id] = b;
    weight[id] = whole;
    firstWeight[id] = whole * (a < b ? a + 1 - top : bottom - top);
    lastWeight[id] = a < b ? whole * (bottom - b) : 0;
  }
  return { first, last, weight, firstWeight, lastWeight, profiles };
}

/** First row and the weights of the rows that a blurred bin covers; null for a bin without a log width, or outside of the axis. */
function profileOf(table: BinTable, id: number, window: number, axis: ValueAxis): [number, Float64Array] | null {
  const [lo, hi, width] = [table.lo[id] as number, table.hi[id] as number, table.logWidth(id)];
  const side = lo > 0 ? axis.domain.positive : axis.domain.negative;
  if (Number.isNaN(width) || side === null) return null;
  const [from, to] = lo > 0 ? [0, axis.band[0]] : [axis.band[1], axis.height];
  const height = Math.log(side.hi / side.lo) / (to - from);
  // Distance of a row from the middle of the bin, on the log axis, in the direction in which rows grow.
  const middle = Math.log(Math.abs(lo) * Math.abs(hi)) / 2;
  const at = lo > 0 ? from + (Math.log(side.hi) - middle) / height : from + (middle - Math.log(side.lo)) / height;
  const reach = (width + window) / 2 / height;
  const first = Math.max(Math.floor(from), Math.floor(at - reach));
  const end = Math.min(Math.ceil(to), Math.ceil(at + reach));
  if (end <= first) return null;
  const share = (row: number): number => shareUpTo((Math.min(to, Math.max(from, row)) - at) * height, width, window);
  const weights = Float64Array.from({ length: end - first }, (_, i) => ((share(first + i + 1) - share(first + i)) * PERCENT) / height);
  return [first, weights];
}

/** Adds up what each row of a column amounts to, times `scale`. */
export function accumulate(column: { readonly ids: ArrayLike<number>; readonly counts: ArrayLike<number> }, geometry: Geometry, scale: number, amounts: Float64Array): void {
  amounts.fill(0);
  const { ids, counts } = column;
  const { first, last, weight, firstWeight, lastWeight, profiles } = geometry;
  for (let i = 0; i < ids.length; i++) {
    const id = ids[i] as number;
    const count = (counts[i] as number) * scale;
    const top = first[id] as number;
    const profile = profiles[id];
    if (profile !== undefined) {
      for (let row = 0; row < profile.length; row++) amounts[top + row]! += count * (profile[row] as number);
      continue;
    }
    const bottom = last[id] as number;
    amounts[top]! += count * (firstWeight[id] as number);
    const amount = count * (weight[id] as number);
    for (let row = top + 1; row < bottom; row++) amounts[row]! += amount;
    if (bottom > top) amounts[bottom]! += count * (lastWeight[id] as number);
  }
}

/** Paints one column into `out`, its top row at word `offset` and the others after it. */
export function paint(column: Column | undefined, geometry: Geometry, look: Look, amounts: Float64Array, out: Uint32Array, offset: number): void {
  const rows = amounts.length;
  if (column === undefined || column.count === 0) {
    out.fill(0, offset, offset + rows);
    return;
  }
  accumulate(column, geometry, SHADES / look.max / column.slots, amounts);
  const { shades, empty } = look;
  for (let row = 0; row < rows; row++) {
    const amount = amounts[row] as number;
    out[offset + row] = amount > 0 ? (shades[amount < SHADES ? amount | 0 : SHADES] as number) : empty;
  }
}

/** How the shares of a column's samples in each row differ from those of another; `amounts` is scratch. Pure. */
export function differences(now: Column, before: Column, geometry: Geometry, amounts: Float64Array, out: Float64Array): void {
  accumulate(before, geometry, -1 / before.count, amounts);
  out.set(amounts);
  accumulate(now, geometry, 1 / now.count, amounts);
  for (let row = 0; row < out.length; row++) out[row]! += amounts[row] as number;
}

/** Paints how a column differs from that of another time; nothing where one of them holds nothing. */
export function paintDifference(now: Column | undefined, slot: number, geometry: Geometry, { before, shades, max }: Difference, scratch: [Float64Array, Float64Array], out: Uint32Array, offset: number): void {
  const then = before.get(slot);
  const [amounts, difference] = scratch;
  if (now === undefined || then === undefined || now.count === 0 || then.count === 0) {
    out.fill(0, offset, offset + amounts.length);
    return;
  }
  differences(now, then, geometry, amounts, difference);
  const half = (shades.length - 1) / 2;
  for (let row = 0; row < difference.length; row++) {
    const part = Math.min(1, Math.sqrt(Math.abs(difference[row] as number) / max));
    out[offset + row] = shades[Math.round(half + Math.sign(difference[row] as number) * part * half)] as number;
  }
}

/** Greatest difference of any cell from that of another time. */
export function greatestDifference(table: BinTable, columns: ReadonlyMap<number, Column>, before: ReadonlyMap<number, Column>, axis: ValueAxis, density: boolean, usual: ArrayLike<number>): number {
  const geometry = layOut(table, axis, density, usual);
  const rows = Math.max(1, Math.round(axis.height));
  const [amounts, difference] = [new Float64Array(rows), new Float64Array(rows)];
  let max = 0;
  for (const [slot, now] of columns) {
    const then = before.get(slot);
    if (then === undefined || now.count === 0 || then.count === 0) continue;
    differences(now, then, geometry, amounts, difference);
    for (const one of difference) max = Math.max(max, Math.abs(one));
  }
  return max;
}

/** Greatest amount of any cell: what the last colour stands for, before rounding. */
export function greatest(table: BinTable, columns: Iterable<Column>, axis: ValueAxis, density: boolean, usual: ArrayLike<number>): number {
  let max = 0;
  if (!density) {
    for (const column of columns) for (const count of column.counts) max = Math.max(max, count / column.slots);
    return max;
  }
  const geometry = layOut(table, axis, density, usual);
  const amounts = new Float64Array(Math.max(1, Math.round(axis.height)));
  for (const column of columns) {
    accumulate(column, geometry, 1 / column.slots, amounts);
    for (const amount of amounts) if (amount > max) max = amount;
  }
  return max;
}

export class CellLayer {
  readonly canvas = document.createElement("canvas");
  private readonly context: CanvasRenderingContext2D;
  private geometry: Geometry | null = null;
  private geometrySize = -1;
  private look: Look | null = null;
  private amounts = new Float64Array(1);
  private scratch = new Float64Array(1);

  constructor(private readonly table: BinTable) {
    const context = this.canvas.getContext("2d", { willReadFrequently: false });
    if (context === null) throw new Error("this browser has no 2d canvas");
    this.context = context;
  }

  /** Takes a new look and paints every slot from `first` to `last`. */
  paintAll(look: Look, columns: ReadonlyMap<number, Column>, first: number, last: number): void {
    const rows = Math.max(1, Math.round(look.axis.height));
    if (this.canvas.width !== rows || this.canvas.height !== RING) {
      this.canvas.width = rows;
      this.canvas.height = RING;
    }
    this.look = look;
    this.geometry = layOut(this.table, look.axis, look.density, look.usual);
    this.geometrySize = this.table.size;
    this.amounts = new Float64Array(rows);
    const image = new ImageData(rows, RING);
    const words = new Uint32Array(image.data.buffer);
    for (let slot = first; slot <= last; slot++) {
      this.put(slot, columns.get(slot), look, this.geometry, words, mod(slot) * rows);
    }
    this.context.putImageData(image, 0, 0);
  }

  /** Paints one slot in the look that stands. */
  paintOne(slot: number, column: Column | undefined): void {
    if (this.look === null) return;
    if (this.geometry === null || this.geometrySize !== this.table.size) {
      this.geometry = layOut(this.table, this.look.axis, this.look.density, this.look.usual);
      this.geometrySize = this.table.size;
    }
    const image = new ImageData(this.amounts.length, 1);
    this.put(slot, column, this.look, this.geometry, new Uint32Array(image.data.buffer), 0);
    this.context.putImageData(image, 0, mod(slot));
  }

  private put(slot: number, column: Column | undefined, look: Look, geometry: Geometry, words: Uint32Array, offset: number): void {
    if (look.difference === undefined) return paint(column, geometry, look, this.amounts, words, offset);
    if (this.scratch.length !== this.amounts.length) this.scratch = new Float64Array(this.amounts.length);
    paintDifference(column, slot, geometry, look.difference, [this.amounts, this.scratch], words, offset);
  }

  /** Draws slots `first..=last` upright and stretched over a rectangle of device pixels, in at most two pieces of the ring. */
  show(target: CanvasRenderingContext2D, first: number, last: number, x: number, y: number, width: number): void {
    const count = last - first + 1;
    const scale = width / count;
    const rows = this.canvas.width;
    target.save();
    target.setTransform(0, 1, 1, 0, x, y);
    target.imageSmoothingEnabled = false;
    for (let slot = first; slot <= last; ) {
      const from = mod(slot);
      const run = Math.min(RING - from, last - slot + 1);
      target.drawImage(this.canvas, 0, from, rows, run, 0, (slot - first) * scale, rows, run * scale);
      slot += run;
    }
    target.restore();
  }
}

function mod(slot: number): number {
  return ((slot % RING) + RING) % RING;
}
