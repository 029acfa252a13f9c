/**
 * The cells of the heat map: a picture with one pixel per column and the height of the plot, stretched when shown.
 *
 * Invariants: the picture is a ring, column `slot` is at x = slot mod capacity, so a new second draws one pixel column
 * and moves nothing; a bin covers the rows between its rounded true bounds, at least one; level 0 means "measured,
 * nothing there" and a column without data is transparent: no data is not zero.
 */

import type { ValueAxis } from "./axis.ts";
import type { BinTable, Column } from "./bins.ts";
import { level, type Scaling } from "./colour.ts";

/** Columns of the ring: above `COLUMNS_MAX` of the axis, so that a column about to leave is still there. */
export const RING = 2048;

export interface Look {
  readonly axis: ValueAxis;
  readonly words: Uint32Array;
  readonly scaling: Scaling;
  readonly density: boolean;
  /** Amount that has the last colour. */
  readonly max: number;
}

/** Rows and weight of each bin of a table on one axis. */
export interface Geometry {
  readonly top: Int32Array;
  readonly bottom: Int32Array;
  readonly weight: Float64Array;
}

/** One percent of a value, as a difference of natural logarithms: what density counts samples per. */
const PERCENT = Math.log(1.01);

/** What a count in bin `id` amounts to: itself, or samples per one percent of value. */
export function weightOf(table: BinTable, id: number, density: boolean, least = 0): number {
  if (!density) return 1;
  const width = table.logWidth(id);
  // Bins at zero and open ends have no log width; they count as one decade, which keeps them visible and modest.
  return PERCENT / Math.max(Number.isNaN(width) ? Math.LN10 : width, least);
}

export function layOut(table: BinTable, axis: ValueAxis, density: boolean): Geometry {
  const size = table.size;
  const top = new Int32Array(size);
  const bottom = new Int32Array(size);
  const weight = new Float64Array(size);
  const rows = Math.max(1, Math.round(axis.height));
  for (let id = 0; id < size; id++) {
    const [from, to] = axis.span(table.lo[id] as number, table.hi[id] as number);
    top[id] = Math.max(0, Math.min(rows - 1, Math.round(from)));
    bottom[id] = Math.min(rows, Math.max((top[id] as number) + 1, Math.round(to)));
    // A bin finer than a pixel is averaged over the pixel that it gets.
    const least = to - from < 1 && to > from ? (table.logWidth(id) || 0) / (to - from) : 0;
    weight[id] = weightOf(table, id, density, Number.isFinite(least) ? least : 0);
  }
  return { top, bottom, weight };
}

/** Paints one column into `out`, whose rows are `stride` words apart, beginning at word `offset`. */
export function paint(
  column: Column | undefined,
  geometry: Geometry,
  look: Look,
  amounts: Float64Array,
  out: Uint32Array,
  offset: number,
  stride: number,
): void {
  const rows = amounts.length;
  if (column === undefined || column.count === 0) {
    for (let row = 0; row < rows; row++) out[offset + row * stride] = 0;
    return;
  }
  amounts.fill(0);
  const { ids, counts } = column;
  for (let i = 0; i < ids.length; i++) {
    const id = ids[i] as number;
    const amount = (counts[i] as number) * (geometry.weight[id] as number);
    const bottom = geometry.bottom[id] as number;
    for (let row = geometry.top[id] as number; row < bottom; row++) amounts[row]! += amount;
  }
  let last = -1;
  let word = 0;
  for (let row = 0; row < rows; row++) {
    const amount = amounts[row] as number;
    if (amount !== last) {
      last = amount;
      word = look.words[level(amount, look.max, look.scaling)] as number;
    }
    out[offset + row * stride] = word;
  }
}

/** Greatest amount of any cell: what the last colour stands for, before rounding. */
export function greatest(table: BinTable, columns: Iterable<Column>, density: boolean): number {
  const weights = new Float64Array(table.size);
  for (let id = 0; id < weights.length; id++) weights[id] = weightOf(table, id, density);
  let max = 0;
  for (const column of columns) {
    for (let i = 0; i < column.ids.length; i++) {
      const amount = (column.counts[i] as number) * (weights[column.ids[i] as number] as number);
      if (amount > max) max = amount;
    }
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

  constructor(private readonly table: BinTable) {
    const context = this.canvas.getContext("2d", { willReadFrequently: false });
    if (context === null) throw new Error("this browser has no 2d canvas");
    this.context = context;
  }

  /** Takes a new look and paints every slot from `first` to `last`. */
  paintAll(look: Look, columns: ReadonlyMap<number, Column>, first: number, last: number): void {
    const rows = Math.max(1, Math.round(look.axis.height));
    if (this.canvas.height !== rows || this.canvas.width !== RING) {
      this.canvas.width = RING;
      this.canvas.height = rows;
    }
    this.look = look;
    this.geometry = layOut(this.table, look.axis, look.density);
    this.geometrySize = this.table.size;
    this.amounts = new Float64Array(rows);
    const image = new ImageData(RING, rows);
    const words = new Uint32Array(image.data.buffer);
    for (let slot = first; slot <= last; slot++) {
      paint(columns.get(slot), this.geometry, look, this.amounts, words, mod(slot), RING);
    }
    this.context.putImageData(image, 0, 0);
  }

  /** Paints one slot in the look that stands. */
  paintOne(slot: number, column: Column | undefined): void {
    if (this.look === null) return;
    if (this.geometry === null || this.geometrySize !== this.table.size) {
      this.geometry = layOut(this.table, this.look.axis, this.look.density);
      this.geometrySize = this.table.size;
    }
    const image = new ImageData(1, this.amounts.length);
    paint(column, this.geometry, this.look, this.amounts, new Uint32Array(image.data.buffer), 0, 1);
    this.context.putImageData(image, mod(slot), 0);
  }

  /** Draws slots `first..=last` stretched over a rectangle, in at most two pieces of the ring. */
  show(target: CanvasRenderingContext2D, first: number, last: number, x: number, y: number, width: number): void {
    const count = last - first + 1;
    const scale = width / count;
    const height = this.canvas.height;
    target.imageSmoothingEnabled = false;
    for (let slot = first; slot <= last; ) {
      const from = mod(slot);
      const run = Math.min(RING - from, last - slot + 1);
      target.drawImage(this.canvas, from, 0, run, height, x + (slot - first) * scale, y, run * scale, height);
      slot += run;
    }
  }
}

function mod(slot: number): number {
  return ((slot % RING) + RING) % RING;
}
