/**
 * What mouse, touch and keyboard do on the heat map: read a cell, open its slow traces, choose a range by dragging, set a
 * threshold.
 *
 * Invariants: the cursor is a slot and a value, not a pixel, so it stays where it is when the picture moves or changes
 * size; mouse and keyboard move the same cursor and fill the same box.
 */

import { binAt, countUpTo, shareBelow, type Column } from "./bins.ts";
import { el } from "./dom.ts";
import { formatBounds, formatClock, formatCount, formatDate, formatDuration, formatShare, formatValue } from "./format.ts";
import { pill, type Heatmap } from "./heatmap.ts";
import { confidenceOf, confidenceText, cssName, isFaint, markOf, quantileLabel } from "./quantilelines.ts";
import type { Area, QuantileName } from "./state.ts";
import { ink } from "./theme.ts";

export interface PointerHandlers {
  zoom(start: number, end: number): void;
  /** What is different about the samples of a box. */
  explain(area: Area): void;
  /** The box that is explained. */
  area(): Area | null;
  /** Whether a drag without keys marks a box. */
  marking(): boolean;
  /** The stored lines of this time. */
  lines(start: number, end: number): void;
  /** The slow traces of a column, the one nearest to the value first. */
  pick(slot: number, value: number): void;
  /** The time whose slow traces are shown. */
  picked(): { start: number; end: number } | null;
  escape(): boolean;
  threshold(value: number | null): void;
  unit(): string;
  quantiles(): readonly QuantileName[];
  back(): void;
  forward(): void;
  toggleLive(): void;
}

interface Cursor {
  slot: number;
  value: number;
}

/** A drag shorter than this is a click. */
const DRAG_PIXELS = 6;

/** A click so near to a column with slow traces means it. */
const NEAR_PIXELS = 8;

/** The marks stand above the plot, and can be clicked as well. */
const MARK_PIXELS = 9;

export class Pointer {
  private cursor: Cursor | null = null;
  private drag: { from: number; to: number; top: number; bottom: number; box: boolean } | null = null;
  private onAxis = false;
  private readonly context: CanvasRenderingContext2D;

  constructor(
    private readonly map: Heatmap,
    private readonly overlay: HTMLCanvasElement,
    private readonly box: HTMLElement,
    private readonly voice: HTMLElement,
    private readonly handlers: PointerHandlers,
  ) {
    const context = overlay.getContext("2d");
    if (context === null) throw new Error("this browser has no 2d canvas");
    this.context = context;
    overlay.addEventListener("pointermove", (event) => this.move(event));
    overlay.addEventListener("pointerdown", (event) => this.down(event));
    overlay.addEventListener("pointerup", (event) => this.up(event));
    overlay.addEventListener("pointercancel", () => this.stop());
    overlay.addEventListener("pointerleave", () => this.leave());
    overlay.addEventListener("dblclick", (event) => {
      if (this.place(event).x < this.map.layout.left) this.handlers.threshold(null);
    });
    overlay.addEventListener("keydown", (event) => this.key(event));
    overlay.addEventListener("blur", () => this.leave());
  }

  /** Draws again what is under the cursor, after the picture below has changed. */
  refresh(): void {
    const { layout } = this.map;
    const ratio = Math.max(1, window.devicePixelRatio || 1);
    const [width, height] = [Math.round(layout.width * ratio), Math.round(layout.height * ratio)];
    if (this.overlay.width !== width) this.overlay.width = width;
    if (this.overlay.height !== height) this.overlay.height = height;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.clearRect(0, 0, layout.width, layout.height);
    if (this.cursor !== null && (this.cursor.slot < this.map.first || this.cursor.slot > this.map.last)) this.cursor = null;
    this.drawPicked();
    this.drawArea();
    this.drawDrag();
    if (this.cursor === null || this.drag !== null || this.map.axis === null) this.box.hidden = true;
    else this.drawCursor(this.cursor);
  }

  private place(event: MouseEvent): { x: number; y: number } {
    const box = this.overlay.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  private move(event: PointerEvent): void {
    const { x, y } = this.place(event);
    const { left, top, plotHeight } = this.map.layout;
    const inside = y >= top - MARK_PIXELS && y <= top + plotHeight;
    this.overlay.style.cursor = x < left && inside ? "ns-resize" : "crosshair";
    if (this.onAxis) return this.setThreshold(y);
    if (this.drag !== null) [this.drag.to, this.drag.bottom] = [x, y];
    const slot = inside ? this.map.slotAt(x) : null;
    this.cursor = slot === null ? null : { slot, value: this.map.valueAt(y) };
    this.refresh();
  }

  private down(event: PointerEvent): void {
    if (event.button !== 0) return;
    const { x, y } = this.place(event);
    const { left, top, plotHeight } = this.map.layout;
    if (y < top - MARK_PIXELS || y > top + plotHeight) return;
    this.overlay.setPointerCapture(event.pointerId);
    if (x < left) {
      this.onAxis = true;
      this.setThreshold(y);
    } else if (this.map.slotAt(x) !== null) this.drag = { from: x, to: x, top: y, bottom: y, box: event.altKey || this.handlers.marking() };
  }

  private up(event: PointerEvent): void {
    const drag = this.drag;
    this.stop();
    if (drag === null) return;
    if (Math.abs(this.place(event).x - drag.from) < DRAG_PIXELS) {
      const slot = this.near(drag.from);
      if (slot !== null) this.handlers.pick(slot, this.map.valueAt(this.place(event).y));
      return;
    }
    const ends = [this.map.timeAt(drag.from), this.map.timeAt(drag.to)].sort((a, b) => a - b) as [number, number];
    if (drag.box) this.mark(drag, ends);
    else if (event.shiftKey) this.handlers.lines(Math.floor(ends[0]), Math.ceil(ends[1]));
    else this.handlers.zoom(Math.floor(ends[0]), Math.max(Math.floor(ends[0]) + 5, Math.ceil(ends[1])));
  }

  /** A box ends where columns do, so that what it counts is what is seen in it. */
  private mark(drag: { top: number; bottom: number }, [from, to]: [number, number]): void {
    const { map } = this;
    const { top, plotHeight } = map.layout;
    const inside = (y: number): number => map.valueAt(Math.min(top + plotHeight, Math.max(top, y)));
    const [lo, hi] = [inside(drag.top), inside(drag.bottom)].sort((a, b) => a - b) as [number, number];
    const start = Math.max(map.start, Math.floor(from / map.step) * map.step);
    const end = Math.min(map.end, Math.max(start + map.step, Math.ceil(to / map.step) * map.step));
    const short = (value: number): number => Number(value.toPrecision(4));
    if (start < end) this.handlers.explain({ start, end, lo: short(lo), hi: short(hi) });
  }

  /** The slot at a pixel, or the nearest that has slow traces: columns are a few pixels wide, and live ones move. */
  private near(x: number): number | null {
    const { map } = this;
    const slot = map.slotAt(x);
    if (slot === null || map.marks.has(slot)) return slot;
    const away = (one: number): number => Math.abs((map.slotSpan(one)[0] + map.slotSpan(one)[1]) / 2 - x);
    const [nearest] = [...map.marks.keys()].filter((one) => away(one) <= NEAR_PIXELS).sort((a, b) => away(a) - away(b));
    return nearest ?? slot;
  }

  private stop(): void {
    this.drag = null;
    this.onAxis = false;
    this.refresh();
  }

  private leave(): void {
    if (this.drag !== null || this.onAxis) return;
    this.cursor = null;
    this.refresh();
  }

  private setThreshold(y: number): void {
    const value = this.map.valueAt(y);
    if (Number.isFinite(value)) this.handlers.threshold(value);
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const jump = event.shiftKey ? 10 : 1;
    switch (event.key) {
      case "ArrowLeft":
        return this.step(event, -jump, 0);
      case "ArrowRight":
        return this.step(event, jump, 0);
      case "ArrowUp":
        return this.step(event, 0, 1);
      case "ArrowDown":
        return this.step(event, 0, -1);
      case "Home":
        return this.step(event, -Infinity, 0);
      case "End":
        return this.step(event, Infinity, 0);
      case "Enter":
        event.preventDefault();
        if (this.cursor !== null) this.handlers.pick(this.cursor.slot, this.cursor.value);
        return;
      case "t":
        event.preventDefault();
        if (this.cursor !== null) this.handlers.threshold(this.cursor.value);
        return;
      case "l":
      case "L":
        event.preventDefault();
        if (this.cursor !== null) this.handlers.lines((this.cursor.slot - 1) * this.map.step, this.cursor.slot * this.map.step);
        return;
      case "Escape":
        if (this.handlers.escape()) return;
        this.cursor = null;
        this.handlers.threshold(null);
        return this.refresh();
      case "Backspace":
        event.preventDefault();
        return event.shiftKey ? this.handlers.forward() : this.handlers.back();
      case " ":
        event.preventDefault();
        return this.handlers.toggleLive();
    }
  }

  /** Moves by columns, or to the next bin that holds something. */
  private step(event: KeyboardEvent, columns: number, bins: number): void {
    event.preventDefault();
    const { map } = this;
    const cursor = this.cursor ?? this.start();
    if (cursor === null) return;
    cursor.slot = Math.min(map.last, Math.max(map.first, cursor.slot + columns));
    const column = map.columns.get(cursor.slot);
    if (bins !== 0 && column !== undefined) cursor.value = this.nextBin(column, cursor.value, bins);
    this.cursor = cursor;
    this.refresh();
    this.voice.textContent = this.box.innerText.replace(/\n/g, ", ");
  }

  private start(): Cursor | null {
    for (let slot = this.map.last; slot >= this.map.first; slot--) {
      const column = this.map.columns.get(slot);
      if (column === undefined || column.ids.length === 0) continue;
      const median = markOf(column, this.map.table, "0.5");
      return { slot, value: median?.value ?? this.inside(column, 0) };
    }
    return null;
  }

  /** A value that is inside of a bin and of no other. */
  private inside(column: Column, index: number): number {
    const id = column.ids[index] as number;
    const [from, to] = this.map.binSpan(id);
    const value = this.map.valueAt((from + to) / 2);
    const [lo, hi] = [this.map.table.lo[id] as number, this.map.table.hi[id] as number];
    return value > lo && value < hi ? value : lo > 0 && Number.isFinite(hi) ? Math.sqrt(lo * hi) : (Math.max(lo, -1e300) + Math.min(hi, 1e300)) / 2;
  }

  private nextBin(column: Column, value: number, way: number): number {
    const { table } = this.map;
    if (way > 0) {
      for (let i = 0; i < column.ids.length; i++) if ((table.lo[column.ids[i] as number] as number) >= value) return this.inside(column, i);
    } else {
      for (let i = column.ids.length - 1; i >= 0; i--) if ((table.hi[column.ids[i] as number] as number) <= value) return this.inside(column, i);
    }
    return value;
  }

  /** Edges around the columns whose slow traces are shown. */
  private drawPicked(): void {
    const picked = this.handlers.picked();
    if (picked === null || this.map.axis === null) return;
    const { left, top, plotWidth, plotHeight } = this.map.layout;
    const x = (t: number): number => left + ((t - this.map.start) / (this.map.end - this.map.start)) * plotWidth;
    const [from, to] = [Math.max(left, x(picked.start)), Math.min(left + plotWidth, x(picked.end))];
    if (to <= from) return;
    this.context.fillStyle = ink("select");
    this.context.fillRect(from, top, to - from, plotHeight);
    this.context.strokeStyle = ink("accent");
    this.context.lineWidth = 1.5;
    this.context.strokeRect(from - 1, top - 1, to - from + 2, plotHeight + 2);
  }

  /** Edges of the box that is explained. */
  private drawArea(): void {
    const area = this.handlers.area();
    if (area === null || this.map.axis === null) return;
    const { left, top, plotWidth, plotHeight } = this.map.layout;
    const [from, to] = [Math.max(left, this.map.x(area.start)), Math.min(left + plotWidth, this.map.x(area.end))];
    const [high, low] = [Math.max(top, this.map.yOf(area.hi)), Math.min(top + plotHeight, this.map.yOf(area.lo))];
    if (to <= from || low <= high) return;
    this.context.fillStyle = ink("select");
    this.context.fillRect(from, high, to - from, low - high);
    this.context.strokeStyle = ink("accent");
    this.context.lineWidth = 1.5;
    this.context.strokeRect(from, high, to - from, low - high);
  }

  private drawDrag(): void {
    if (this.drag === null) return;
    const { left, top, plotWidth, plotHeight } = this.map.layout;
    const clamp = (x: number): number => Math.min(left + plotWidth, Math.max(left, x));
    const [from, to] = [clamp(this.drag.from), clamp(this.drag.to)].sort((a, b) => a - b) as [number, number];
    const clampY = (y: number): number => Math.min(top + plotHeight, Math.max(top, y));
    const ends = this.drag.box ? [clampY(this.drag.top), clampY(this.drag.bottom)] : [top - 0.5, top + plotHeight + 0.5];
    const [high, low] = ends.sort((a, b) => a - b) as [number, number];
    this.context.fillStyle = ink("select");
    this.context.fillRect(from, high, to - from, low - high);
    this.context.strokeStyle = ink("accent");
    this.context.strokeRect(from, high, to - from, low - high);
  }

  private drawCursor(cursor: Cursor): void {
    const { map, context } = this;
    const { left, top, plotWidth, plotHeight } = map.layout;
    const [x0, x1] = map.slotSpan(cursor.slot);
    const column = map.columns.get(cursor.slot);
    const index = column === undefined ? -1 : binAt(map.table, column, cursor.value);
    const y = map.yOf(cursor.value);
    context.fillStyle = ink("cross");
    context.fillRect(left, Math.round(y), plotWidth, 1);
    context.fillRect(Math.round((x0 + x1) / 2), top, 1, plotHeight);
    if (column !== undefined && index >= 0) {
      const [from, to] = map.binSpan(column.ids[index] as number);
      context.strokeStyle = ink("cursor-halo");
      context.lineWidth = 4;
      context.strokeRect(x0 - 1, from - 1, x1 - x0 + 2, to - from + 2);
      context.strokeStyle = ink("cursor");
      context.lineWidth = 1.5;
      context.strokeRect(x0 - 1, from - 1, x1 - x0 + 2, to - from + 2);
    }
    pill(context, formatValue(cursor.value, this.handlers.unit(), 3), left - 4, y, ink("pill"), ink("on-pill"));
    this.fillBox(cursor, column, index);
    this.box.hidden = false;
    this.putBox((x0 + x1) / 2, y);
  }

  /** Beside the cursor, on the side that has room, and never outside of the picture. */
  private putBox(x: number, y: number): void {
    const { width, height } = this.map.layout;
    const [w, h] = [this.box.offsetWidth, this.box.offsetHeight];
    const left = x + 18 + w > width ? x - 18 - w : x + 18;
    this.box.style.transform = `translate(${Math.max(4, Math.round(left))}px, ${Math.round(Math.min(Math.max(4, y - h / 2), height - h - 4))}px)`;
  }

  private fillBox(cursor: Cursor, column: Column | undefined, index: number): void {
    const { map } = this;
    const unit = this.handlers.unit();
    const end = column === undefined ? cursor.slot * map.step : map.slotOf(column) * map.step;
    const when = el("div", { class: "when" }, el("b", {}, formatClock(end)), ` ${formatDate(end)} · ${formatDuration((column?.slots ?? 1) * map.step)}`);
    if (column === undefined) {
      this.box.replaceChildren(when, el("div", { class: "none" }, this.map.pending.has(cursor.slot) ? "Not known yet: data may still come." : "No data in this column."));
      return;
    }
    const rows: [string, string, string?][] = [];
    if (index >= 0) {
      const id = column.ids[index] as number;
      const count = column.counts[index] as number;
      const range = formatBounds(map.table.lo[id] as number, map.table.hi[id] as number, unit, 4);
      rows.push(["bin", range], ["count", formatCount(count), "count"]);
      rows.push(["share of column", formatShare(count / column.count)], ["at or below", formatShare(countUpTo(column, index) / column.count)]);
    } else {
      const one = { ids: [...column.ids], counts: [...column.counts], total: column.count, min: null, max: null, sum: null };
      rows.push(["at", formatValue(cursor.value, unit, 3)], ["count", "0", "count"]);
      rows.push(["below", formatShare(shareBelow(map.table, one, cursor.value).lo)]);
    }
    rows.push(["column", formatCount(column.countText)]);
    const slow = map.marks.get(cursor.slot);
    if (slow !== undefined) rows.push(["slow traces", `${formatCount(slow)}, click`]);
    const list = el("dl", {});
    for (const [name, value, key] of rows) list.append(el("dt", {}, name), el("dd", key === undefined ? {} : { "data-key": key }, value));
    const marks = el("div", { class: "marks" });
    for (const name of this.handlers.quantiles()) {
      const mark = markOf(column, map.table, name);
      if (mark === null) continue;
      const text = mark.lo === mark.hi ? formatValue(mark.value, unit, 4) : formatBounds(mark.lo, mark.hi, unit);
      const interval = confidenceOf(column, map.table, name);
      const sure = interval === null ? [] : [el("span", { class: "sure", "data-key": `sure-${name}` }, confidenceText(interval, name, unit))];
      marks.append(el("span", { class: `q q-${cssName(name)}` }, quantileLabel(name)), el("span", isFaint(interval) ? { class: "faint" } : {}, text), ...sure);
    }
    this.box.replaceChildren(when, list, ...(marks.childElementCount > 0 ? [marks] : []));
  }
}
