/**
 * The heat map on its canvas: cells, axes, quantiles, threshold, and the distribution of what is in view beside it.
 *
 * Invariants: the picture shows slots `first..=last`, slot k covers (k*step - step, k*step]; a column whose cells are wider is
 * drawn over the slots that they cover, unless those have columns of their own; adding a column at the live
 * edge paints that column only, unless it widens the value axis or exceeds the colour scale; both of those only grow
 * while the view moves, so the picture does not flicker, and are fitted anew by `load`.
 */

import { covers, DomainBuilder, niceCeil, stepFor, timeTicks, ValueAxis, type Domain } from "./axis.ts";
import { merge, type BinTable, type Column, type Merged } from "./bins.ts";
import { CellLayer, greatest, greatestDifference, RING, shadesOf, type Look } from "./cells.ts";
import { differencePalette, palette, paletteWords, type PaletteName, type Rgb, type Scaling, type Theme } from "./colour.ts";
import { formatClock, formatDate, formatValue } from "./format.ts";
import { drawMarginal } from "./marginal.ts";
import { drawMark, spaced } from "./marks.ts";
import { Pending } from "./pending.ts";
import { drawGhosts, drawQuantiles } from "./quantilelines.ts";
import type { QuantileName } from "./state.ts";
import { ink } from "./theme.ts";

export interface Options {
  readonly theme: Theme;
  readonly palette: PaletteName;
  readonly scaling: Scaling;
  readonly density: boolean;
  readonly quantiles: readonly QuantileName[];
  readonly threshold: number | null;
  readonly unit: string;
  /** Only values between these; null for all. */
  readonly values?: readonly [number, number] | null;
  /** Cells show how their shares differ from those of another time. */
  readonly difference?: boolean;
}

/** Another time, moved to where it is compared. */
export interface Ghost {
  readonly columns: ReadonlyMap<number, Column>;
  /** All of it; null where columns add up to it. */
  readonly merged: Merged | null;
}

/** Places on the canvas, in CSS pixels. */
export interface Layout {
  readonly width: number;
  readonly height: number;
  readonly left: number;
  readonly top: number;
  readonly plotWidth: number;
  readonly plotHeight: number;
  /** Left edge and width of the distribution; width 0 when there is no room. */
  readonly sideLeft: number;
  readonly sideWidth: number;
}

const GUTTER = { left: 74, top: 10, bottom: 30, right: 14, labels: 44, side: 150, sideFrom: 760 };

/** Part of a slot that a column may leave at its begin: senders' clocks stray by some milliseconds, and cells end between slots. */
const COVERED = 0.5;

export class Heatmap {
  /** Columns by slot; one that covers several stands in each. */
  readonly columns = new Map<number, Column>();
  /** Seconds at the live edge that may still get data. */
  readonly pending = new Pending();
  /** Slow traces of each slot that has any. */
  readonly marks = new Map<number, number>();
  /** Called behind each drawing. */
  drawn: () => void = () => undefined;
  step = 1;
  first = 0;
  last = 0;
  layout: Layout;
  axis: ValueAxis | null = null;
  /** What is in view, each cell once; null when there is no such thing. */
  merged: Merged | null = null;
  max = 1;
  /** What is compared with; null when nothing is. */
  ghost: Ghost | null = null;
  /** All of the other time that is in view. */
  ghostMerged: Merged | null = null;
  /** Greatest difference of shares, where differences are drawn. */
  differenceMax = 0;
  colours: Rgb[] = [];
  private domain: Domain | null = null;
  private readonly cells: CellLayer;
  readonly context: CanvasRenderingContext2D;
  private words: Uint32Array = new Uint32Array(0);
  private shades: Uint32Array = new Uint32Array(0);
  ratio = 1;
  /** Samples of each bin in a usual column. */
  private usual = new Float64Array(0);
  /** Seconds that cells cover usually; 0 when that is not known. */
  width = 0;
  /** Columns of each quantile that have too few samples for it. */
  private faint: Record<string, number> = {};
  /** The distribution as the server gives it, where columns do not add up to it. */
  private given: { merged: Merged | null } | null = null;

  constructor(
    readonly canvas: HTMLCanvasElement,
    readonly table: BinTable,
    private options: Options,
  ) {
    const context = canvas.getContext("2d");
    if (context === null) throw new Error("this browser has no 2d canvas");
    this.context = context;
    this.cells = new CellLayer(table);
    this.layout = this.measure();
    this.recolour();
  }

  /** Seconds of a column for a range drawn at the present width. */
  stepFor(seconds: number): number {
    return stepFor(seconds, this.layout.plotWidth * this.ratio);
  }

  get start(): number {
    return (this.first - 1) * this.step;
  }

  get end(): number {
    return this.last * this.step;
  }

  /** Shows other columns: everything is fitted and painted anew. */
  load(columns: readonly Column[], step: number, start: number, end: number, given: { merged: Merged | null } | null = null): void {
    this.step = step;
    this.given = given;
    this.first = Math.round(start / step) + 1;
    this.last = Math.max(this.first, Math.round(end / step));
    this.columns.clear();
    for (const column of columns) this.columns.set(this.slotOf(column), column);
    for (const column of columns) this.spread(column);
    if (step === 1) this.pending.keep(this.first, this.last, this.columns);
    else this.pending.clear();
    this.fit();
  }

  /** The columns of the picture, each once. */
  get own(): Set<Column> {
    return new Set(this.columns.values());
  }

  /** The slot in which a column ends. */
  slotOf(column: Column): number {
    return Math.ceil(column.t / this.step - 1e-6);
  }

  /** Draws a column over the slots that its cells cover and that are nobody's; gives back which. */
  private spread(column: Column): number[] {
    const last = this.slotOf(column);
    const from = column.from === null ? last - 1 : Math.floor(column.from / this.step + COVERED);
    const slots = [last];
    for (let slot = last - 1; slot > from && slot > last - RING; slot--) {
      const there = this.columns.get(slot);
      if (there !== undefined && this.slotOf(there) !== last) break;
      slots.push(slot);
    }
    // Before a column that follows one, all is covered. At the end of a gap it is as wide as cells are: where in its first slot it
    // begins is below what is drawn.
    if (!this.columns.has(last - slots.length)) slots.length = Math.min(slots.length, Math.max(1, Math.round(this.width / this.step)));
    const drawn = { ...column, slots: slots.length };
    for (const slot of slots) this.columns.set(slot, drawn);
    return slots;
  }

  /** Adds or replaces a column; the view moves along when `follow` and it is beyond the live edge. */
  add(column: Column, follow: boolean): void {
    const slot = this.slotOf(column);
    const painted = column.count > 0 ? this.spread(column) : [slot];
    for (const one of painted) this.pending.note(one, column.unknown && !this.columns.has(one));
    if (follow && slot > this.last) {
      const moved = slot - this.last;
      for (let gone = this.first; gone < this.first + moved && gone <= this.last; gone++) this.columns.delete(gone);
      // Slots that are skipped over may hold a picture of the ring's last turn.
      for (let blank = this.last + 1; blank <= slot; blank++) this.cells.paintOne(blank, this.columns.get(blank));
      this.first += moved;
      this.last = slot;
      this.pending.keep(this.first, this.last, this.columns);
    }
    if (slot < this.first || slot > this.last) return;
    if (column.count > 0 && this.outgrows(column)) this.fit(true);
    else {
      for (const one of painted) if (one >= this.first) this.cells.paintOne(one, this.columns.get(one));
      this.summarise();
      this.draw();
    }
  }

  setOptions(options: Options): void {
    const before = this.options;
    this.options = options;
    const differs = (...keys: (keyof Options)[]): boolean => keys.some((key) => before[key] !== options[key]);
    if (differs("theme", "palette", "scaling")) this.recolour();
    if (differs("theme", "palette", "scaling", "density", "difference") || JSON.stringify(before.values ?? null) !== JSON.stringify(options.values ?? null)) this.fit();
    else this.draw();
  }

  /** Shows another time below, or none. */
  setGhost(ghost: Ghost | null): void {
    if (ghost === null && this.ghost === null) return;
    this.ghost = ghost;
    this.fit();
  }

  /** Whether the axis shows a value. */
  shows(value: number): boolean {
    return this.axis?.shows(value, value) === true;
  }

  /** Whether cells are differences. */
  get differs(): boolean {
    return this.options.difference === true && this.ghost !== null;
  }

  /** Takes options whose unit belongs to columns that `load` brings next: nothing is painted until then. */
  setUnit(options: Options): void {
    this.options = options;
  }

  resize(): void {
    this.layout = this.measure();
    this.fit();
  }

  /** Slot below a pixel of the plot, or null. */
  slotAt(x: number): number | null {
    const { left, plotWidth } = this.layout;
    if (x < left || x >= left + plotWidth) return null;
    return this.first + Math.floor(((x - left) / plotWidth) * (this.last - this.first + 1));
  }

  /** Left and right edge of a slot. */
  slotSpan(slot: number): [number, number] {
    const width = this.layout.plotWidth / (this.last - this.first + 1);
    const x = this.layout.left + (slot - this.first) * width;
    return [x, x + width];
  }

  timeAt(x: number): number {
    const part = (x - this.layout.left) / this.layout.plotWidth;
    return this.start + Math.min(1, Math.max(0, part)) * (this.end - this.start);
  }

  /** The place of a time in CSS pixels of the canvas. */
  x(t: number): number {
    return this.layout.left + ((t - this.start) / (this.end - this.start)) * this.layout.plotWidth;
  }

  /** Top and bottom of a bin in CSS pixels of the canvas. */
  binSpan(id: number): [number, number] {
    const [from, to] = (this.axis as ValueAxis).span(this.table.lo[id] as number, this.table.hi[id] as number);
    return [this.layout.top + from / this.ratio, this.layout.top + to / this.ratio];
  }

  yOf(value: number): number {
    return this.layout.top + (this.axis?.y(value) ?? 0) / this.ratio;
  }

  valueAt(y: number): number {
    return this.axis?.value((y - this.layout.top) * this.ratio) ?? NaN;
  }

  private measure(): Layout {
    this.ratio = Math.max(1, window.devicePixelRatio || 1);
    const width = Math.max(240, this.canvas.clientWidth);
    const height = Math.max(160, this.canvas.clientHeight);
    this.canvas.width = Math.round(width * this.ratio);
    this.canvas.height = Math.round(height * this.ratio);
    const sideWidth = width >= GUTTER.sideFrom ? GUTTER.side : 0;
    const right = GUTTER.right + GUTTER.labels + sideWidth;
    const plotWidth = Math.floor(width - GUTTER.left - right);
    return {
      width,
      height,
      left: GUTTER.left,
      top: GUTTER.top,
      plotWidth,
      plotHeight: Math.floor(height - GUTTER.top - GUTTER.bottom),
      sideLeft: GUTTER.left + plotWidth + GUTTER.labels,
      sideWidth,
    };
  }

  private recolour(): void {
    this.colours = palette(this.options.palette, this.options.theme);
    this.words = paletteWords(this.colours);
    this.shades = shadesOf(this.words, this.options.scaling);
  }

  private outgrows(column: Column): boolean {
    const builder = new DomainBuilder();
    for (const id of column.ids) builder.add(this.table.lo[id] as number, this.table.hi[id] as number);
    const domain = builder.build();
    if (domain === null) return false;
    if (this.options.values !== undefined && this.options.values !== null) return this.axis === null || greatest(this.table, [column], this.axis, this.options.density, this.usual) > this.max;
    if (this.domain === null || this.axis === null || !covers(this.domain, domain)) return true;
    return greatest(this.table, [column], this.axis, this.options.density, this.usual) > this.max;
  }

  /** Fits the value axis and the colour scale to what is in view; `grow` keeps what the old ones had. */
  private fit(grow = false): void {
    const builder = new DomainBuilder();
    const seen = new Set<number>();
    const own = this.own;
    for (const column of own) for (const id of column.ids) seen.add(id);
    for (const id of this.given?.merged?.ids ?? []) seen.add(id);
    for (const id of this.ghost?.merged?.ids ?? []) seen.add(id);
    for (let slot = this.first; slot <= this.last; slot++) for (const id of this.ghost?.columns.get(slot)?.ids ?? []) seen.add(id);
    for (const id of seen) builder.add(this.table.lo[id] as number, this.table.hi[id] as number);
    this.domain = chosen(builder.build(), this.options.values ?? null);
    this.usual = new Float64Array(this.table.size);
    for (const { ids, counts } of own) ids.forEach((id, i) => (this.usual[id]! += (counts[i] as number) / own.size));
    this.axis = this.domain === null ? null : new ValueAxis(this.domain, Math.round(this.layout.plotHeight * this.ratio), this.ratio);
    const amount = this.axis === null ? 0 : greatest(this.table, own, this.axis, this.options.density, this.usual);
    const max = amount > 0 ? niceCeil(amount) : 1;
    this.max = grow ? Math.max(this.max, max) : max;
    this.differenceMax = this.axis === null || !this.differs ? 0 : Math.max(1e-9, greatestDifference(this.table, this.columns, (this.ghost as Ghost).columns, this.axis, this.options.density, this.usual));
    if (this.axis !== null) this.cells.paintAll(this.look(this.axis), this.columns, this.first, this.last);
    this.summarise();
    this.draw();
  }

  private look(axis: ValueAxis): Look {
    const { density } = this.options;
    const look = { axis, shades: this.shades, empty: this.words[0] as number, density, usual: this.usual, max: this.max };
    if (!this.differs || this.ghost === null) return look;
    return { ...look, difference: { before: this.ghost.columns, shades: paletteWords(differencePalette(this.options.theme)), max: this.differenceMax } };
  }

  private summarise(): void {
    this.merged = this.given === null ? merge(this.table, this.own) : this.given.merged;
    this.ghostMerged = this.ghost === null ? null : (this.ghost.merged ?? merge(this.table, this.ghostInView()));
  }

  private ghostInView(): Set<Column> {
    const seen = new Set<Column>();
    for (let slot = this.first; slot <= this.last; slot++) {
      const column = this.ghost?.columns.get(slot);
      if (column !== undefined) seen.add(column);
    }
    return seen;
  }

  draw(): void {
    const { context, layout, ratio } = this;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, layout.width, layout.height);
    this.drawGround();
    this.drawPending();
    if (this.axis !== null) {
      const width = Math.round(layout.plotWidth * ratio);
      this.cells.show(context, this.first, this.last, Math.round(layout.left * ratio), Math.round(layout.top * ratio), width);
    }
    this.drawAxes();
    this.drawMarks();
    this.drawn();
    if (this.axis === null) return;
    if (this.ghost !== null) drawGhosts(this, this.options.quantiles, this.ghost.columns);
    this.faint = drawQuantiles(this, this.options.quantiles);
    this.drawThreshold();
    if (layout.sideWidth > 0 && this.merged !== null) {
      drawMarginal(context, this, this.merged, this.options.density, this.ghostMerged);
    }
    this.publish();
  }

  /** Hatching: what stays visible is where there is no data. */
  private drawGround(): void {
    const { context, layout } = this;
    context.save();
    context.beginPath();
    context.rect(layout.left, layout.top, layout.plotWidth, layout.plotHeight);
    context.clip();
    context.fillStyle = ink("plot");
    context.fillRect(layout.left, layout.top, layout.plotWidth, layout.plotHeight);
    context.strokeStyle = ink("hatch");
    context.lineWidth = 1;
    context.beginPath();
    for (let x = -layout.plotHeight; x < layout.plotWidth; x += 9) {
      context.moveTo(layout.left + x, layout.top + layout.plotHeight);
      context.lineTo(layout.left + x + layout.plotHeight, layout.top);
    }
    context.stroke();
    context.restore();
  }

  /** A veil over seconds that may still get data, so that nobody takes them for empty ones. */
  private drawPending(): void {
    const { context, layout } = this;
    context.fillStyle = ink("pending");
    for (const [first, last] of this.pending.runs()) {
      const [[from], [, to]] = [this.slotSpan(first), this.slotSpan(last)];
      context.fillRect(from, layout.top, to - from, layout.plotHeight);
    }
  }

  private drawAxes(): void {
    const { context, layout } = this;
    const bottom = layout.top + layout.plotHeight;
    context.font = `11px ${ink("font-numbers")}`;
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const tick of this.axis?.ticks() ?? []) {
      const y = Math.round(layout.top + tick.at / this.ratio) + 0.5;
      context.fillStyle = ink(tick.major ? "muted" : "faint");
      context.fillRect(layout.left - (tick.major ? 6 : 3), y - 0.5, tick.major ? 6 : 3, 1);
      if (!tick.major) continue;
      context.fillText(formatValue(tick.value, this.options.unit, 3), layout.left - 10, Math.min(Math.max(y, 6), bottom));
      context.fillStyle = ink("grid");
      context.fillRect(layout.left, y - 0.5, layout.plotWidth, 1);
    }
    context.textAlign = "center";
    for (const tick of timeTicks(this.start, this.end, layout.plotWidth)) {
      const x = Math.round(this.x(tick.t)) + 0.5;
      context.fillStyle = ink("grid");
      context.fillRect(x - 0.5, layout.top, 1, layout.plotHeight);
      context.fillStyle = ink("muted");
      context.fillRect(x - 0.5, bottom, 1, 5);
      const text = tick.midnight ? formatDate(tick.t) : formatClock(tick.t).slice(0, tick.fine ? 8 : 5);
      if (x > layout.left + 20 && x < layout.left + layout.plotWidth - 10) context.fillText(text, x, bottom + 16);
    }
    context.strokeStyle = ink("line");
    context.lineWidth = 1;
    context.strokeRect(layout.left - 0.5, layout.top - 0.5, layout.plotWidth + 1, layout.plotHeight + 1);
  }

  private drawMarks(): void {
    const slots = [...this.marks.keys()].filter((slot) => slot >= this.first && slot <= this.last);
    for (const slot of spaced(slots, this.layout.plotWidth / (this.last - this.first + 1))) {
      const [from, to] = this.slotSpan(slot);
      drawMark(this.context, (from + to) / 2, this.layout.top);
    }
  }

  private drawThreshold(): void {
    const { threshold, unit } = this.options;
    if (threshold === null) return;
    const { context, layout } = this;
    const y = Math.round(this.yOf(threshold)) + 0.5;
    context.save();
    context.strokeStyle = ink("threshold");
    context.lineWidth = 1.5;
    context.setLineDash([6, 4]);
    context.beginPath();
    context.moveTo(layout.left, y);
    context.lineTo(layout.sideWidth > 0 ? layout.sideLeft + layout.sideWidth : layout.left + layout.plotWidth, y);
    context.stroke();
    context.restore();
    pill(context, formatValue(threshold, unit, 3), layout.left - 4, y, ink("threshold"), ink("on-threshold"));
  }

  /** The geometry as attributes, for tests that look at pixels and for anybody who scripts the page. */
  private publish(): void {
    const { left, top, plotWidth, plotHeight } = this.layout;
    this.canvas.dataset["view"] = JSON.stringify({
      ...{ left, top, plotWidth, plotHeight, ratio: this.ratio, step: this.step, first: this.first, last: this.last },
      ...{ domain: this.domain, max: this.max, columns: this.own.size, total: this.merged?.total ?? null, marks: [...this.marks.keys()], pending: this.pending.runs(), faint: this.faint },
      ...{ ghost: this.ghostMerged?.total ?? null, ghostColumns: this.ghost === null ? 0 : this.ghostInView().size, difference: this.differenceMax },
    });
  }
}

/** The part of a domain that was chosen; all of it where none was, or where it holds nothing. */
function chosen(domain: Domain | null, values: readonly [number, number] | null): Domain | null {
  if (domain === null || values === null) return domain;
  const [lo, hi] = values;
  return lo > 0 && hi > lo ? { positive: { lo, hi }, negative: null, zero: false } : domain;
}

/** A label on the value axis. */
export function pill(context: CanvasRenderingContext2D, text: string, right: number, y: number, ground: string, colour: string): void {
  context.font = `600 11px ${ink("font-numbers")}`;
  const width = context.measureText(text).width + 12;
  context.fillStyle = ground;
  context.beginPath();
  context.roundRect(right - width, y - 9, width, 18, 4);
  context.fill();
  context.fillStyle = colour;
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.fillText(text, right - 6, y + 0.5);
}
