/**
 * Float results as lines, by uPlot: the line nearest to the mouse is named beside it, and a table below names all.
 *
 * Invariants: a line keeps its stroke while others are hidden; the library comes with the first lines.
 */

import type uPlot from "uplot";
import type { Series } from "./api.ts";
import { el } from "./dom.ts";
import { formatClock, formatDate, formatValue, zone, zoned } from "./format.ts";
import { LineTable, summaryOf } from "./linetable.ts";
import { LINES_MAX, seriesName, strokeOf, type Stroke } from "./series.ts";
import { ink } from "./theme.ts";

/** One time column and one value column per series; steps that a series lacks are null, which breaks its line. */
export function align(series: readonly Series[]): { times: number[]; rows: (number | null)[][] } {
  const all = new Set<number>();
  for (const one of series) for (const [t] of one.values ?? []) all.add(t);
  const times = [...all].sort((a, b) => a - b);
  const place = new Map(times.map((t, i) => [t, i]));
  const rows = series.map((one) => {
    const row = new Array<number | null>(times.length).fill(null);
    for (const [t, text] of one.values ?? []) {
      const value = Number(text.replace("Inf", "Infinity"));
      row[place.get(t) as number] = Number.isFinite(value) ? value : null;
    }
    return row;
  });
  return { times, rows };
}

/** Puts null where a step is missing from all series, so that no line crosses a gap. */
export function withGaps(times: readonly number[], rows: readonly (number | null)[][], step: number): uPlot.AlignedData {
  const outTimes: number[] = [];
  const outRows: (number | null)[][] = rows.map(() => []);
  times.forEach((t, i) => {
    if (i > 0 && t - (times[i - 1] as number) > step * 1.5) {
      outTimes.push((times[i - 1] as number) + step);
      for (const row of outRows) row.push(null);
    }
    outTimes.push(t);
    rows.forEach((row, s) => (outRows[s] as (number | null)[]).push(row[i] ?? null));
  });
  return [outTimes, ...outRows];
}

/** How lines look. */
export interface LinesLook {
  stroke(place: number): Stroke;
  /** Mark the places of values: of few, most have no neighbour that a line could lead to. */
  readonly points: boolean;
}

const USUAL_LOOK: LinesLook = { stroke: strokeOf, points: false };

/** A third of the page's code, which a heat map does without. */
let library: typeof uPlot | null = null;

export class Lines {
  /** Called behind each drawing. */
  drawn: () => void = () => undefined;
  private plot: uPlot | null = null;
  private names = "";
  /** Counts what is shown, since what draws it may come later than the next picture. */
  private turn = 0;

  private near: number | null = null;
  private unit = "";
  private labels: string[] = [];
  private look = USUAL_LOOK;
  private readonly host = el("div", { class: "plot" });
  private readonly tip = el("div", { class: "tip", hidden: true });
  private readonly table: LineTable;

  constructor(
    private readonly parent: HTMLElement,
    private readonly zoom: (start: number, end: number) => void,
  ) {
    const below = el("div", { class: "linetable" });
    parent.append(this.host, below, this.tip);
    this.table = new LineTable(below, {
      show: (shown) => this.plot?.batch(() => shown.forEach((one, i) => this.plot?.setSeries(i + 1, { show: one }))),
      point: (at) => this.plot?.setSeries(at === null ? null : at + 1, { focus: true }),
    });
    this.host.addEventListener("mouseleave", () => this.hover(null));
  }

  clear(): void {
    this.turn++;
    this.forget();
  }

  private forget(): void {
    this.tip.hidden = true;
    this.plot?.destroy();
    this.plot = null;
    this.names = "";
  }

  async show(series: readonly Series[], unit: string, start: number, end: number, step: number, look: LinesLook = USUAL_LOOK): Promise<void> {
    const turn = ++this.turn;
    library ??= (await import("uplot")).default;
    if (turn !== this.turn) return;
    const drawn = series.slice(0, LINES_MAX);
    this.look = look;
    const { times, rows } = align(drawn);
    const data = withGaps(times, rows, step);
    const names = JSON.stringify([drawn.map((one, i) => [seriesName(one.metric), look.stroke(i)]), look.points, unit, document.documentElement.dataset["theme"] ?? "", zone(), ink("muted")]);
    if (this.plot === null || names !== this.names) {
      this.forget();
      this.names = names;
      this.unit = unit;
      this.labels = drawn.map((one) => seriesName(one.metric));
      this.tabulate(rows);
      this.plot = new library(this.build(drawn, unit), data, this.host);
    } else {
      this.tabulate(rows); this.plot.setData(data, false);
    }
    this.plot.batch(() => {
      this.plot?.setScale("x", { min: start, max: end });
    });
  }

  private tabulate(rows: readonly (readonly (number | null)[])[]): void {
    const all = rows.map((row, i) => ({ name: this.labels[i] as string, stroke: this.look.stroke(i), ...summaryOf(row) }));
    const shown = this.table.show(all, this.unit);
    this.plot?.batch(() => shown.forEach((one, i) => this.plot?.setSeries(i + 1, { show: one })));
  }

  /** Names the line nearest to the mouse, at its value nearest to it. */
  private hover(plot: uPlot | null): void {
    const [idx, left, top] = [plot?.cursor.idx ?? null, plot?.cursor.left ?? -1, plot?.cursor.top ?? -1];
    let [near, distance] = [null as number | null, Infinity];
    if (plot !== null && idx !== null && left >= 0) {
      for (let i = 1; i < plot.series.length; i++) {
        const value = plot.data[i]?.[idx];
        if (value === null || value === undefined || plot.series[i]?.show !== true) continue;
        const away = Math.abs(plot.valToPos(value, "y") - top);
        if (away < distance) [near, distance] = [i - 1, away];
      }
    }
    if (near !== this.near) this.table.mark(near);
    this.near = near;
    this.tip.hidden = near === null;
    if (plot === null || idx === null || near === null) return;
    const [t, value] = [plot.data[0][idx] as number, plot.data[near + 1]?.[idx] as number];
    const swatch = el("span", { class: "swatch" });
    swatch.style.borderTopColor = this.look.stroke(near).colour;
    this.tip.replaceChildren(el("div", { class: "when" }, el("b", {}, formatClock(t)), ` ${formatDate(t)}`), el("div", { class: "line" }, swatch, this.labels[near] as string), el("div", { class: "value", "data-key": "value" }, formatValue(value, this.unit, 4)));
    const over = plot.over.getBoundingClientRect();
    const box = this.parent.getBoundingClientRect();
    const x = over.left - box.left + left;
    const wide = this.tip.offsetWidth;
    this.tip.style.transform = `translate(${Math.max(4, x + 18 + wide > box.width ? x - 18 - wide : x + 18)}px, ${Math.max(4, over.top - box.top + top - this.tip.offsetHeight / 2)}px)`;
  }

  /** Where the plot is on the screen, and the place of a time in it; none while there is none. */
  area(): { box: DOMRect; x: (t: number) => number } | null {
    const { plot } = this;
    return plot === null ? null : { box: plot.over.getBoundingClientRect(), x: (t) => plot.valToPos(t, "x") };
  }

  resize(): void {
    this.plot?.setSize(this.size());
  }

  private size(): { width: number; height: number } {
    return { width: this.host.clientWidth, height: Math.max(160, this.host.clientHeight) };
  }

  private build(series: readonly Series[], unit: string): uPlot.Options {
    const axis = { stroke: () => ink("muted"), grid: { stroke: () => ink("grid"), width: 1 }, ticks: { stroke: () => ink("line"), width: 1 }, font: `11px ${ink("font-numbers")}` };
    return {
      ...this.size(),
      // The library reads local fields: these are those of the chosen zone.
      tzDate: (t) => {
        const date = zoned(t);
        return new Date(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate(), date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds());
      },
      scales: { x: { time: true, auto: false }, y: { range: (_, min, max) => (min === null || max === null ? [0, 1] : (library as typeof uPlot).rangeNum(Math.min(min, min > 0 && min < max / 2 ? 0 : min), max, 0.1, true)) } },
      axes: [
        { ...axis, space: 90, values: [[86400, "{YYYY}-{MM}-{DD}", null, null, null, null, null, null, 1], [60, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", null, null, null, null, null, 1], [1, "{HH}:{mm}:{ss}", "\n{YYYY}-{MM}-{DD}", null, null, null, null, null, 1]] },
        { ...axis, size: 74, values: (_, values) => values.map((value) => formatValue(value, unit, 3)) },
      ],
      series: [
        {},
        ...series.map((one, i) => ({
          label: seriesName(one.metric),
          stroke: this.look.stroke(i).colour,
          dash: [...this.look.stroke(i).dash],
          width: 1.75,
          points: this.look.points ? { show: true, size: 5 } : { show: false },
        })),
      ],
      cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 7 } },
      focus: { alpha: 0.25 },
      legend: { show: false },
      hooks: {
        setCursor: [(plot) => this.hover(plot)],
        draw: [() => this.drawn()],
        setSelect: [
          (plot) => {
            if (plot.select.width < 6) return;
            this.zoom(plot.posToVal(plot.select.left, "x"), plot.posToVal(plot.select.left + plot.select.width, "x"));
            plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
          },
        ],
      },
    };
  }
}
