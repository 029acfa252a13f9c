/** Float results as lines, by uPlot. */

import type uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Series } from "./api.ts";
import { formatValue } from "./format.ts";
import { LINES_MAX, seriesName, strokeOf } from "./series.ts";
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

/** A third of the page's code, which a heat map does without. */
let library: typeof uPlot | null = null;

export class Lines {
  /** Called behind each drawing. */
  drawn: () => void = () => undefined;
  private plot: uPlot | null = null;
  private names = "";
  /** Counts what is shown, since what draws it may come later than the next picture. */
  private turn = 0;

  constructor(
    private readonly parent: HTMLElement,
    private readonly zoom: (start: number, end: number) => void,
  ) {}

  clear(): void {
    this.turn++;
    this.forget();
  }

  private forget(): void {
    this.plot?.destroy();
    this.plot = null;
    this.names = "";
  }

  async show(series: readonly Series[], unit: string, start: number, end: number, step: number): Promise<void> {
    const turn = ++this.turn;
    library ??= (await import("uplot")).default;
    if (turn !== this.turn) return;
    const drawn = series.slice(0, LINES_MAX);
    const { times, rows } = align(drawn);
    const data = withGaps(times, rows, step);
    const names = JSON.stringify([drawn.map((one) => seriesName(one.metric)), unit, document.documentElement.dataset["theme"] ?? "", ink("muted")]);
    if (this.plot === null || names !== this.names) {
      this.forget();
      this.names = names;
      this.plot = new library(this.build(drawn, unit), data, this.parent);
      // The legend's height is known only now.
      this.resize();
    } else this.plot.setData(data, false);
    this.plot.batch(() => {
      this.plot?.setScale("x", { min: start, max: end });
    });
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
    const legend = this.parent.querySelector<HTMLElement>(".u-legend")?.offsetHeight ?? 34;
    const { paddingLeft, paddingRight, paddingTop, paddingBottom } = getComputedStyle(this.parent);
    const [across, along] = [parseFloat(paddingLeft) + parseFloat(paddingRight), parseFloat(paddingTop) + parseFloat(paddingBottom)];
    return { width: this.parent.clientWidth - across, height: Math.max(160, this.parent.clientHeight - along - legend) };
  }

  private build(series: readonly Series[], unit: string): uPlot.Options {
    const axis = { stroke: () => ink("muted"), grid: { stroke: () => ink("grid"), width: 1 }, ticks: { stroke: () => ink("line"), width: 1 }, font: `11px ${ink("font-numbers")}` };
    return {
      ...this.size(),
      scales: { x: { time: true, auto: false }, y: { range: (_, min, max) => (min === null || max === null ? [0, 1] : (library as typeof uPlot).rangeNum(Math.min(min, min > 0 && min < max / 2 ? 0 : min), max, 0.1, true)) } },
      axes: [
        { ...axis, space: 90, values: [[86400, "{YYYY}-{MM}-{DD}", null, null, null, null, null, null, 1], [60, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", null, null, null, null, null, 1], [1, "{HH}:{mm}:{ss}", "\n{YYYY}-{MM}-{DD}", null, null, null, null, null, 1]] },
        { ...axis, size: 74, values: (_, values) => values.map((value) => formatValue(value, unit, 3)) },
      ],
      series: [
        { value: "{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}" },
        ...series.map((one, i) => ({
          label: seriesName(one.metric),
          stroke: strokeOf(i).colour,
          dash: [...strokeOf(i).dash],
          width: 1.75,
          points: { show: false },
          value: (_: uPlot, value: number | null) => (value === null ? "–" : formatValue(value, unit, 4)),
        })),
      ],
      cursor: { drag: { x: true, y: false, setScale: false } },
      hooks: {
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
