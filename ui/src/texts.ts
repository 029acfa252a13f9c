/** Results that are not numbers over time, as a table. */

import type { QueryData, Series } from "./api.ts";
import { el } from "./dom.ts";
import { formatClock, formatDate } from "./format.ts";
import { seriesName } from "./series.ts";
import { lineSummary } from "./traces.ts";

export interface Row {
  readonly t: number;
  readonly series: string;
  readonly value: string;
}

/** Rows shown; a longer result is cut at the old end and says so. */
export const ROWS_MAX = 1000;

/** True for a value that is not a number as Prometheus writes one. Pure. */
export function isText(value: string): boolean {
  return !/^(NaN|[+-]?Inf|[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)$/.test(value);
}

/** True for expressions that PromQL answers at one instant only: a string, or the samples of a range. Pure. */
export function isInstantOnly(expression: string): boolean {
  return /^\s*["'`]/.test(expression) || /^[^()]*\]\s*$/.test(expression);
}

/** True when any value of the result is text. Pure. */
export function hasText(data: QueryData): boolean {
  if (data.resultType === "string") return true;
  if (data.resultType === "scalar") return false;
  return data.result.some((one) => (one.values ?? (one.value === undefined ? [] : [one.value])).some(([, value]) => isText(value)));
}

/** Newest first. Pure. */
export function rowsOf(data: QueryData): Row[] {
  if (data.resultType === "string" || data.resultType === "scalar") return [{ t: data.result[0], series: "", value: data.result[1] }];
  const of = (one: Series): Row[] => (one.values ?? (one.value === undefined ? [] : [one.value])).map(([t, value]) => ({ t, series: seriesName(one.metric), value }));
  return data.result.flatMap(of).sort((a, b) => b.t - a.t);
}

/** `open` shows a slow trace that is a row's text. */
export function drawTable(parent: HTMLElement, data: QueryData, open: (t: number, id: string) => void): void {
  const rows = rowsOf(data);
  const body = el("tbody", {});
  for (const row of rows.slice(0, ROWS_MAX)) {
    body.append(el("tr", {}, el("td", {}, `${formatDate(row.t)} ${formatClock(row.t)}`), el("td", {}, row.series), el("td", {}, valueOf(row, open))));
  }
  const head = el("thead", {}, el("tr", {}, el("th", {}, "Time"), el("th", {}, "Series"), el("th", {}, "Value")));
  const cut = rows.length > ROWS_MAX ? [el("p", {}, `The newest ${ROWS_MAX} of ${rows.length} values. Choose a shorter range to see the others.`)] : [];
  parent.replaceChildren(el("table", {}, head, body), ...cut);
}

/** The result as the server sends it. */
export function drawJson(parent: HTMLElement, data: QueryData): void {
  parent.replaceChildren(el("pre", { class: "json", tabindex: "0" }, JSON.stringify(data, null, 1)));
}

function valueOf(row: Row, open: (t: number, id: string) => void): Node | string {
  const trace = lineSummary(row.value);
  if (trace === null) return row.value;
  return el("button", { type: "button", class: "link", title: row.value, click: () => open(row.t, trace.id) }, trace.text);
}
