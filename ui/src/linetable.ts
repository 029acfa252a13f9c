/** The legend of lines: a table of their last, least, greatest and mean values, that sorts, isolates and hides. */

import { el } from "./dom.ts";
import { formatValue } from "./format.ts";
import type { Stroke } from "./series.ts";

/** Numbers about a line; null where it has no values. */
export interface Summary {
  readonly last: number | null;
  readonly min: number | null;
  readonly max: number | null;
  readonly mean: number | null;
}

export interface Row extends Summary {
  readonly name: string;
  readonly stroke: Stroke;
}

export type Column = "name" | keyof Summary;

const COLUMNS: readonly [Column, string][] = [["name", "Series"], ["last", "last"], ["min", "min"], ["max", "max"], ["mean", "mean"]];

/** Of the steps that have a value. Pure. */
export function summaryOf(values: readonly (number | null)[]): Summary {
  const known = values.filter((value) => value !== null);
  if (known.length === 0) return { last: null, min: null, max: null, mean: null };
  let [min, max, sum] = [Infinity, -Infinity, 0];
  for (const value of known) [min, max, sum] = [Math.min(min, value), Math.max(max, value), sum + value];
  return { last: known.at(-1) as number, min, max, mean: sum / known.length };
}

/** Places of rows in the order of a column: names ascend, numbers descend, what has none is last. Pure. */
export function orderOf(rows: readonly Row[], by: Column, reversed: boolean): number[] {
  const compare = (a: Row, b: Row): number => {
    if (by === "name") return a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
    return (b[by] ?? -Infinity) - (a[by] ?? -Infinity) || 0;
  };
  const places = rows.map((_, at) => at);
  return places.sort((a, b) => (reversed ? -1 : 1) * compare(rows[a] as Row, rows[b] as Row) || a - b);
}

/**
 * Which lines show after a click on `at`: alone, or all again where it was alone already; with `only` false it is hidden or shown.
 * Pure.
 */
export function shownAfter(shown: readonly boolean[], at: number, only: boolean): boolean[] {
  if (!only) return shown.map((one, i) => (i === at ? !one : one));
  const alone = shown.every((one, i) => one === (i === at));
  return shown.map((_, i) => alone || i === at);
}

export class LineTable {
  private rows: readonly Row[] = [];
  private shown: boolean[] = [];
  private by: Column | null = null;
  private reversed = false;
  private unit = "";
  private readonly body = el("tbody", {});
  private readonly heads: HTMLElement[];

  constructor(
    parent: HTMLElement,
    private readonly handlers: { show(shown: readonly boolean[]): void; point(at: number | null): void },
  ) {
    this.heads = COLUMNS.map(([column, title]) => el("th", { scope: "col" }, el("button", { type: "button", "data-sort": column, click: () => this.sort(column) }, title)));
    parent.append(el("table", {}, el("thead", {}, el("tr", {}, ...this.heads)), this.body));
    this.body.addEventListener("mouseleave", () => this.handlers.point(null));
  }

  /** Shows other rows; what is hidden stays hidden where the names are the same. */
  show(rows: readonly Row[], unit: string): readonly boolean[] {
    const same = rows.length === this.rows.length && rows.every((row, i) => row.name === this.rows[i]?.name);
    if (!same) this.shown = rows.map(() => true);
    this.rows = rows;
    this.unit = unit;
    this.draw();
    return this.shown;
  }

  /** Marks the row of the line under the mouse. */
  mark(at: number | null): void {
    for (const row of this.body.children) row.classList.toggle("near", at !== null && (row as HTMLElement).dataset["at"] === String(at));
  }

  private sort(column: Column): void {
    this.reversed = this.by === column && !this.reversed;
    this.by = column;
    this.draw();
  }

  private click(at: number, only: boolean): void {
    this.shown = shownAfter(this.shown, at, only);
    this.draw();
    this.handlers.show(this.shown);
  }

  private draw(): void {
    const { by } = this;
    this.heads.forEach((head, i) => head.setAttribute("aria-sort", COLUMNS[i]?.[0] !== by ? "none" : (by === "name") !== this.reversed ? "ascending" : "descending"));
    const order = by === null ? this.rows.map((_, at) => at) : orderOf(this.rows, by, this.reversed);
    const focused = [...this.body.querySelectorAll("button")].indexOf(document.activeElement as HTMLButtonElement);
    this.body.replaceChildren(...order.map((at) => this.row(at)));
    if (focused >= 0) this.body.querySelectorAll("button")[focused]?.focus();
  }

  private row(at: number): HTMLElement {
    const row = this.rows[at] as Row;
    const swatch = el("span", { class: "swatch" });
    swatch.style.borderTopColor = row.stroke.colour;
    swatch.style.borderTopStyle = row.stroke.dash.length === 0 ? "solid" : (row.stroke.dash[0] as number) > 4 ? "dashed" : "dotted";
    const title = "Click: this line alone, and all again. Shift and click: hide it or show it.";
    const click = (event: MouseEvent): void => this.click(at, !event.shiftKey);
    const name = el("button", { type: "button", class: "name", title, "aria-pressed": String(this.shown[at]), click }, swatch, row.name);
    const cells = COLUMNS.slice(1).map(([column]) => {
      const value = row[column as keyof Summary];
      return el("td", {}, value === null ? "–" : formatValue(value, this.unit, 4));
    });
    const line = el("tr", { "data-at": at, class: this.shown[at] === true ? "" : "hidden-line" }, el("th", { scope: "row" }, name), ...cells);
    line.addEventListener("mouseenter", () => this.handlers.point(at));
    return line;
  }
}
