/**
 * Lines of quantiles over a heat map, each with the band in which the true quantile lies.
 *
 * Invariants: the band holds the true quantile of what was measured in 95 of 100 columns, and the bin of the estimate always;
 * where a column has too few samples to bound it on both sides, the line is faint and dashed, and says so under the mouse.
 */

import type { BinTable, Column } from "./bins.ts";
import { intervalOf, type Interval } from "./confidence.ts";
import { formatBounds, formatCount, formatValue } from "./format.ts";
import type { Layout } from "./heatmap.ts";
import type { QuantileName } from "./state.ts";
import { ink } from "./theme.ts";

/** What a column says of a quantile. */
export interface Mark {
  readonly value: number;
  readonly lo: number;
  readonly hi: number;
}

/** A column's place in a line. */
interface Point {
  readonly x: number;
  readonly y: number;
  /** Ends of the band. */
  readonly below: number;
  readonly above: number;
  readonly faint: boolean;
}

/** Where the lines are drawn. */
export interface Ground {
  readonly context: CanvasRenderingContext2D;
  readonly layout: Layout;
  readonly table: BinTable;
  readonly first: number;
  readonly last: number;
  readonly columns: ReadonlyMap<number, Column>;
  slotSpan(slot: number): [number, number];
  yOf(value: number): number;
  /** Whether the axis shows a value. */
  shows(value: number): boolean;
}

/** Value and error bounds of a quantile of a column. The greatest value is exact where the column carries it. */
export function markOf(column: Column, table: BinTable, name: QuantileName): Mark | null {
  if (name !== "max") return column.quantiles.find((mark) => String(mark.q) === name) ?? null;
  if (column.max !== null) return { value: column.max, lo: column.max, hi: column.max };
  const id = column.ids[column.ids.length - 1];
  if (id === undefined) return null;
  return { value: table.hi[id] as number, lo: table.lo[id] as number, hi: table.hi[id] as number };
}

export function quantileLabel(name: QuantileName): string {
  return name === "max" ? "max" : `p${Number((Number(name) * 100).toFixed(6))}`;
}

export function cssName(name: QuantileName): string {
  return quantileLabel(name).replace(".", "");
}

/** Intervals by the bins of their column, which a column that is drawn over several slots shares with itself. */
const known = new WeakMap<Int32Array, Map<QuantileName, Interval | null>>();

/** Where the true quantile of a column lies; null for the greatest value, which is no estimate. */
export function confidenceOf(column: Column, table: BinTable, name: QuantileName): Interval | null {
  if (name === "max") return null;
  let of = known.get(column.ids);
  if (of === undefined) known.set(column.ids, (of = new Map()));
  let interval = of.get(name);
  if (interval === undefined) {
    const lo = Array.from(column.ids, (id) => table.lo[id] as number);
    const hi = Array.from(column.ids, (id) => table.hi[id] as number);
    interval = intervalOf({ lo, hi, counts: column.counts, min: column.min, max: column.max, float: false }, Number(name));
    of.set(name, interval);
  }
  return interval;
}

/** Whether there are too few samples to bound the quantile on both sides. */
export function isFaint(interval: Interval | null): boolean {
  return interval !== null && (interval.lo === null || interval.hi === null);
}

/** The interval in words: `95 %: 1.1 – 1.4 ms`, `p99 of 12 samples is the maximum`. */
export function confidenceText(interval: Interval, name: QuantileName, unit: string): string {
  if (interval.isMax) return `${quantileLabel(name)} of ${formatCount(interval.n)} ${interval.n === 1 ? "sample" : "samples"} is the maximum`;
  if (interval.lo !== null && interval.hi !== null) return `95 %: ${formatBounds(interval.lo, interval.hi, unit)}`;
  if (interval.lo !== null) return `95 %: above ${formatValue(interval.lo, unit, 3)}, too few samples for more`;
  return interval.hi === null ? "too few samples to say more" : `95 %: below ${formatValue(interval.hi, unit, 3)}, too few samples for more`;
}

/** Draws the lines of `names` and writes their labels at their ends. Gives back how many columns of each are faint. */
export function drawQuantiles(ground: Ground, names: readonly QuantileName[]): Record<string, number> {
  const { context, layout } = ground;
  context.save();
  context.beginPath();
  context.rect(layout.left, layout.top, layout.plotWidth, layout.plotHeight);
  context.clip();
  const ends: { y: number; name: QuantileName }[] = [];
  const faint: Record<string, number> = {};
  for (const name of names) {
    const runs = runsOf(ground, name);
    for (const run of runs) drawRun(ground, run, ink(`q-${cssName(name)}`));
    faint[name] = runs.flat().filter((point) => point.faint).length;
    const end = runs.at(-1)?.at(-1);
    if (end !== undefined) ends.push({ y: end.y, name });
  }
  context.restore();
  drawLabels(ground, ends);
  return faint;
}

/** Draws the lines of another time: thin and dashed, without bands. */
export function drawGhosts(ground: Ground, names: readonly QuantileName[], columns: ReadonlyMap<number, Column>): void {
  const { context, layout } = ground;
  context.save();
  context.beginPath();
  context.rect(layout.left, layout.top, layout.plotWidth, layout.plotHeight);
  context.clip();
  context.setLineDash([5, 4]);
  for (const name of names) {
    context.beginPath();
    let drawing = false;
    for (let slot = ground.first; slot <= ground.last; slot++) {
      const column = columns.get(slot);
      const mark = column === undefined ? null : markOf(column, ground.table, name);
      if (mark === null || !ground.shows(mark.value)) {
        drawing = false;
        continue;
      }
      const [from, to] = ground.slotSpan(slot);
      const y = ground.yOf(mark.value);
      if (drawing) context.lineTo((from + to) / 2, y);
      else context.moveTo(from, y);
      if (!columns.has(slot + 1)) context.lineTo(to, y);
      drawing = true;
    }
    context.strokeStyle = ink("halo");
    context.lineWidth = 3;
    context.stroke();
    context.strokeStyle = ink(`q-${cssName(name)}`);
    context.globalAlpha = 0.85;
    context.lineWidth = 1.25;
    context.stroke();
    context.globalAlpha = 1;
  }
  context.restore();
}

/** Points of a quantile, in runs that a column without data interrupts. */
function runsOf(ground: Ground, name: QuantileName): Point[][] {
  const runs: Point[][] = [];
  let run: Point[] = [];
  for (let slot = ground.first; slot <= ground.last; slot++) {
    const column = ground.columns.get(slot);
    const mark = column === undefined ? null : markOf(column, ground.table, name);
    if (mark === null || !ground.shows(mark.value)) {
      if (run.length > 0) runs.push(run);
      run = [];
      continue;
    }
    const interval = confidenceOf(column as Column, ground.table, name);
    const [from, to] = ground.slotSpan(slot);
    run.push({
      x: (from + to) / 2,
      y: ground.yOf(mark.value),
      below: ground.yOf(Math.min(mark.lo, interval?.lo ?? mark.lo)),
      above: ground.yOf(Math.max(mark.hi, interval?.hi ?? mark.hi)),
      faint: isFaint(interval),
    });
  }
  if (run.length > 0) runs.push(run);
  return runs;
}

/** Parts of a run that are alike; each begins where the one before ends, so that the line has no gap. */
function parts(run: readonly Point[]): { points: Point[]; faint: boolean }[] {
  const out: { points: Point[]; faint: boolean }[] = [];
  for (const point of run) {
    const part = out.at(-1);
    if (part !== undefined && part.faint === point.faint) part.points.push(point);
    else {
      part?.points.push(point);
      out.push({ points: [point], faint: point.faint });
    }
  }
  return out;
}

/** How much of the picture below a band covers: the band of a quantile that is not bounded may reach over half of it and says little. */
const BAND = { sure: 0.2, faint: 0.07 };

function drawRun(ground: Ground, run: readonly Point[], colour: string): void {
  const { context } = ground;
  const half = ground.layout.plotWidth / (ground.last - ground.first + 1) / 2;
  const [lead, tail] = [run[0] as Point, run[run.length - 1] as Point];
  const left = (point: Point): number => (point === lead ? point.x - half : point.x);
  const right = (point: Point): number => (point === tail ? point.x + half : point.x);
  context.fillStyle = colour;
  for (const { points, faint } of parts(run)) {
    const [first, last] = [points[0] as Point, points[points.length - 1] as Point];
    context.globalAlpha = faint ? BAND.faint : BAND.sure;
    context.beginPath();
    context.moveTo(left(first), first.above);
    for (const point of points) context.lineTo(point.x, point.above);
    context.lineTo(right(last), last.above);
    context.lineTo(right(last), last.below);
    for (const point of [...points].reverse()) context.lineTo(point.x, point.below);
    context.lineTo(left(first), first.below);
    context.fill();
  }
  context.lineJoin = "round";
  for (const { points, faint } of parts(run)) {
    context.globalAlpha = faint ? 0.5 : 1;
    context.setLineDash(faint ? [3, 3] : []);
    context.beginPath();
    points.forEach((point, i) => {
      if (i === 0) context.moveTo(left(point), point.y);
      context.lineTo(right(point), point.y);
    });
    context.strokeStyle = ink("halo");
    context.lineWidth = 3.5;
    context.stroke();
    context.strokeStyle = colour;
    context.lineWidth = 1.5;
    context.stroke();
  }
  context.setLineDash([]);
  context.globalAlpha = 1;
}

function drawLabels({ context, layout }: Ground, ends: { y: number; name: QuantileName }[]): void {
  ends.sort((a, b) => a.y - b.y);
  context.textAlign = "left";
  context.font = `600 11px ${ink("font-numbers")}`;
  let below = layout.top;
  for (const { y, name } of ends) {
    const place = Math.max(y, below + 6);
    context.fillStyle = ink(`q-${cssName(name)}`);
    context.fillText(quantileLabel(name), layout.left + layout.plotWidth + 6, place);
    below = place + 7;
  }
}
