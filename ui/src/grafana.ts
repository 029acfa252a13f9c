/**
 * Grafana's dashboards as boards: panels that have a counterpart, and a report of what had none. Pure.
 *
 * Source: the JSON of Grafana's dashboards, "Dashboard JSON model" of its documentation: `panels` with `type`, `gridPos` on 24 columns and
 * `targets` with `expr`, rows with panels of their own, and variables in `templating.list`.
 */

import { arranged, clamped, nameOf, type Board, type Panel, type PanelKind, type Variable } from "./board.ts";

/** What an import comes to. */
export interface Imported {
  readonly board: Board;
  /** What had no counterpart, and what was changed, one sentence each. */
  readonly report: readonly string[];
  readonly panels: { readonly taken: number; readonly left: number };
}

/** Types of panels that have a counterpart. */
const COUNTERPARTS: Readonly<Record<string, PanelKind>> = {
  timeseries: "lines", graph: "lines", "trend": "lines", barchart: "lines", heatmap: "heatmap", histogram: "heatmap",
  stat: "number", singlestat: "number", gauge: "number", bargauge: "number", table: "table", "table-old": "table", text: "text",
};

const PANELS_MAX = 64;
const QUERIES_MAX = 8;
/** Rows of Grafana's grid are 30 pixels with their gap, ours 72. */
const ROWS = 2.4;

type Json = Record<string, unknown>;

function object(value: unknown): Json {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {};
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Whether this looks like a dashboard of Grafana and not like a board. */
export function isGrafana(value: unknown): boolean {
  const outer = object(value);
  const inner = object(outer["dashboard"] ?? outer);
  return "schemaVersion" in inner || "templating" in inner || list(inner["panels"]).some((panel) => "gridPos" in object(panel)) || Array.isArray(inner["rows"]);
}

/** An expression without what only Grafana knows: intervals become a window that fits any step. */
export function expression(expr: string): { query: string; changed: boolean } {
  const query = expr
    .replace(/\$(__rate_interval|\{__rate_interval\})/g, "1m")
    .replace(/\$(__interval|\{__interval\})/g, "1m")
    .replace(/\$(__range|\{__range\})/g, "1h")
    .replace(/\[\[(\w+)\]\]/g, "$${$1}");
  return { query, changed: query !== expr };
}

function variableOf(value: unknown, report: string[]): Variable[] {
  const of = object(value);
  const name = text(of["name"]);
  const query = typeof of["query"] === "string" ? of["query"] : text(object(of["query"])["query"]);
  const found = /^label_values\(\s*(?:([\s\S]+),\s*)?([a-zA-Z_]\w*)\s*\)$/.exec(query.trim());
  if (text(of["type"]) !== "query" || found === null) {
    report.push(`The variable ${JSON.stringify(name)} of type ${JSON.stringify(text(of["type"]))} has no counterpart: only label_values() has.`);
    return [];
  }
  const match = found[1]?.trim() ?? "";
  return [{ name, label: found[2] as string, ...(match === "" ? {} : { match: match.replace(/\$\{?\w+\}?/g, ".*") }) }];
}

function panelOf(value: unknown, report: string[]): Panel[] {
  const of = object(value);
  const [type, title] = [text(of["type"]), text(of["title"])];
  const kind = COUNTERPARTS[type];
  const place = object(of["gridPos"]);
  const number = (name: string, usual: number): number => (typeof place[name] === "number" ? (place[name] as number) : usual);
  const at = clamped({ x: number("x", 0) / 2, y: number("y", 0) / ROWS, w: number("w", 12) / 2, h: Math.max(2, number("h", 8) / ROWS) });
  const called = title === "" ? `A panel of type ${JSON.stringify(type)}` : `The panel ${JSON.stringify(title)} of type ${JSON.stringify(type)}`;
  if (kind === undefined) {
    report.push(`${called} has no counterpart.`);
    return [];
  }
  if (kind === "text") {
    const words = text(object(of["options"])["content"]) || text(of["content"]);
    return [{ title, queries: [], kind, ...at, text: words }];
  }
  const targets = list(of["targets"]).map(object).filter((target) => target["hide"] !== true);
  const queries = targets.map((target) => expression(text(target["expr"]))).filter(({ query }) => query.trim() !== "");
  if (queries.length === 0) {
    report.push(`${called} has no expression of PromQL.`);
    return [];
  }
  if (queries.length < targets.length) report.push(`${called}: ${targets.length - queries.length} of its queries are not PromQL.`);
  if (queries.length > QUERIES_MAX) report.push(`${called}: the first ${QUERIES_MAX} of its ${queries.length} queries were taken.`);
  if (queries.some(({ changed }) => changed)) report.push(`${called}: intervals of Grafana's became fixed windows.`);
  if (list(of["transformations"]).length > 0) report.push(`${called}: its transformations were left out.`);
  return [{ title, queries: queries.slice(0, QUERIES_MAX).map(({ query }) => query), kind: heat(kind, queries.map(({ query }) => query)), ...at }];
}

/** A heat map of buckets is one of the histogram itself here. */
function heat(kind: PanelKind, queries: readonly string[]): PanelKind {
  return kind === "heatmap" && queries.some((query) => /histogram_quantile/.test(query)) ? "lines" : kind;
}

/** Panels of rows stand in the rows: old ones in lists of their own, new ones behind their row or, where it is closed, in it. */
function flat(dashboard: Json): unknown[] {
  const rows = list(dashboard["rows"]).flatMap((row, at) => {
    const inside = list(object(row)["panels"]).map(object);
    let x = 0;
    return inside.map((panel) => {
      const w = Math.min(24, 2 * (typeof panel["span"] === "number" ? panel["span"] : 12));
      const place = { x, y: at * 8, w, h: 8 };
      x = (x + w) % 24;
      return { gridPos: place, ...panel };
    });
  });
  const panels = list(dashboard["panels"]).flatMap((panel) => (text(object(panel)["type"]) === "row" ? list(object(panel)["panels"]) : [panel]));
  return [...rows, ...panels];
}

/** A dashboard as a board; null for what is none. */
export function ofGrafana(value: unknown): Imported | null {
  if (!isGrafana(value)) return null;
  const outer = object(value);
  const dashboard = object(outer["dashboard"] ?? outer);
  const report: string[] = [];
  const variables = list(object(dashboard["templating"])["list"]).flatMap((one) => variableOf(one, report));
  const all = flat(dashboard);
  const panels = all.flatMap((one) => panelOf(one, report));
  if (panels.length > PANELS_MAX) report.push(`The first ${PANELS_MAX} of ${panels.length} panels were taken.`);
  const annotations = list(object(dashboard["annotations"])["list"]).filter((one) => object(one)["builtIn"] !== 1);
  if (annotations.length > 0) report.push(`${annotations.length} annotations have no counterpart: events of the server stand on every picture.`);
  const from = /^now-(\d+[smhdw])$/.exec(text(object(dashboard["time"])["from"]))?.[1];
  const title = text(dashboard["title"]) || "Imported board";
  const taken = panels.slice(0, PANELS_MAX);
  const board: Board = { name: nameOf(title), title, ...(from === undefined ? {} : { range: from }), variables: variables.slice(0, 16), panels: arranged(taken) };
  return { board, report, panels: { taken: taken.length, left: all.length - taken.length } };
}
