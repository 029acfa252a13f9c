/**
 * Exemplars as points on the heat map: single measurements at their time and value, with the trace that they belong to. A click searches the
 * stored lines of their minute for the trace.
 *
 * Invariants: points belong to the picture that was loaded last; a point whose value is not on the axis is not drawn.
 * Limits: the `POINTS_MAX` largest values are drawn, and each is an element.
 */

import { fetchExemplars, type ExemplarSeries, type Labels } from "./api.ts";
import { formatClock, formatValue } from "./format.ts";
import type { Heatmap } from "./heatmap.ts";

/** More would cover the cells; the largest values are those that one asks about. */
const POINTS_MAX = 200;

/** A live picture asks again this often, in columns that close. */
const EVERY_COLUMNS = 5;

export interface Point {
  readonly t: number;
  readonly value: number;
  readonly labels: Labels;
}

/** All exemplars of an answer, the largest first. Pure. */
export function pointsOf(series: readonly ExemplarSeries[]): Point[] {
  const all = series.flatMap(({ exemplars }) => exemplars.map(({ timestamp, value, labels }) => ({ t: Number(timestamp), value: Number(value), labels })));
  return all.filter(({ t, value }) => Number.isFinite(t) && Number.isFinite(value)).sort((a, b) => b.value - a.value);
}

/** The trace of an exemplar, by the names that senders use; empty for one without. Pure. */
export function traceOf(labels: Labels): string {
  return labels["trace_id"] ?? labels["traceID"] ?? labels["traceId"] ?? "";
}

/** What a point says. Pure. */
export function pointText({ t, value, labels }: Point, unit: string): string {
  const rest = Object.entries(labels).map(([name, text]) => `${name}=${text}`).join(", ");
  return `${formatClock(t)}  ${formatValue(value, unit)}${rest === "" ? "" : `  ${rest}`}`;
}

export class Exemplars {
  private points: Point[] = [];
  private turn = 0;
  private ticks = 0;
  private unit = "";

  constructor(
    private readonly host: HTMLElement,
    private readonly map: Heatmap,
    private readonly choose: (point: Point) => void,
  ) {}

  clear(): void {
    this.turn++;
    this.points = [];
    this.host.replaceChildren();
  }

  async load(query: string, start: number, end: number, unit: string, signal: AbortSignal): Promise<void> {
    const turn = ++this.turn;
    this.unit = unit;
    try {
      const found = await fetchExemplars(query, start, end, signal);
      if (turn !== this.turn) return;
      this.points = pointsOf(found);
      this.draw();
    } catch {
      // The picture is right without points; the server's absence is said elsewhere.
    }
  }

  /** A column has closed. */
  tick(query: string, signal: AbortSignal): void {
    if (++this.ticks % EVERY_COLUMNS === 0) void this.load(query, this.map.start, this.map.end, this.unit, signal);
  }

  draw(): void {
    const { map } = this;
    const seen = this.points.filter(({ t, value }) => t > map.start && t <= map.end && map.shows(value)).slice(0, POINTS_MAX);
    this.host.dataset["points"] = String(seen.length);
    this.host.replaceChildren(
      ...seen.map((point) => {
        const mark = document.createElement("button");
        mark.type = "button";
        mark.className = "exemplar";
        mark.style.left = `${map.x(point.t)}px`;
        mark.style.top = `${map.yOf(point.value)}px`;
        mark.title = pointText(point, this.unit);
        mark.setAttribute("aria-label", `Exemplar ${mark.title}`);
        mark.tabIndex = -1;
        mark.addEventListener("click", () => this.choose(point));
        return mark;
      }),
    );
  }
}
