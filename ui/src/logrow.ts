/** A stored line as a row that opens to its fields and labels. */

import type { Labels } from "./api.ts";
import { el } from "./dom.ts";
import { formatClock, formatDate } from "./format.ts";
import type { LogLine } from "./loglines.ts";
import { quote } from "./selector.ts";

export interface RowHandlers {
  /** Only lines with this value of the field. */
  field(name: string, value: string): void;
  /** Only lines of this series. */
  series(selector: string): void;
}

export function lineRow(one: LogLine, handlers: RowHandlers): HTMLElement {
  const ms = String(Math.round((((one.t % 1) + 1) % 1) * 1000) % 1000).padStart(3, "0");
  const head = el("summary", {},
    el("time", { title: formatDate(one.t) }, `${formatClock(one.t)}.${ms}`),
    el("span", { class: `severity ${one.severity}` }, one.severity === "unknown" ? "" : one.severity),
    el("span", { class: "series-of" }, one.labels["job"] ?? one.labels["__name__"] ?? ""),
    el("span", { class: "text" }, one.line),
  );
  const out = el("details", { class: `log-line ${one.severity}` }, head);
  // Most lines are never opened.
  out.addEventListener("toggle", () => out.childElementCount > 1 || out.append(detail(one, handlers)));
  return out;
}

function detail(one: LogLine, handlers: RowHandlers): HTMLElement {
  const rows = one.fields.map(([name, value]) => {
    const ask = el("button", { type: "button", class: "link", title: "Search for this", click: () => handlers.field(name, value) }, value === "" ? "(empty)" : value);
    return el("div", {}, el("dt", {}, name), el("dd", {}, ask));
  });
  const series = selectorOf(one.labels);
  const only = el("button", { type: "button", class: "link", title: "Only this series", click: () => handlers.series(series) }, series);
  return el("div", { class: "log-detail" }, el("pre", {}, one.line), el("dl", {}, ...rows, el("div", {}, el("dt", {}, "series"), el("dd", {}, only))));
}

function selectorOf(labels: Labels): string {
  const others = Object.entries(labels).filter(([name]) => name !== "__name__");
  const inner = others.map(([name, value]) => `${name}=${quote(value)}`).join(", ");
  return inner === "" ? (labels["__name__"] ?? "") : `${labels["__name__"] ?? ""}{${inner}}`;
}
