/** What the page shows, as the address says it. Pure: the address in, the state out, and back. */

import { formatDuration, parseDuration, zone } from "./format.ts";
import { formatCompared, parseCompared, type Compared } from "./compared.ts";
import { PALETTE_NAMES, type PaletteName, type Scaling } from "./colour.ts";

/** The first thing anybody sees: a thousand real measurements a second and CPU, with nothing set up. */
export const DEFAULT_QUERY = "ogive_hiccup_seconds";

export const QUANTILES = ["0.5", "0.9", "0.99", "0.999", "max"] as const;
export type QuantileName = (typeof QUANTILES)[number];

/** The last so many seconds, moving with the clock; or two fixed instants, in seconds since the epoch. */
export interface LiveRange {
  readonly last: number;
}
export type Range = LiveRange | { readonly start: number; readonly end: number };

export interface Span {
  readonly start: number;
  readonly end: number;
}

/** A box of time and value. */
export interface Area extends Span {
  readonly lo: number;
  readonly hi: number;
}

/** Numbers as lines, as rows, or as the server sends them. */
export const VIEWS = ["lines", "table", "json"] as const;
export type NumberView = (typeof VIEWS)[number];

export interface State {
  readonly query: string;
  /** Labels of the group that is drawn, `*` for all merged; null leaves the choice to the server. */
  readonly group: string | null;
  readonly range: Range;
  readonly scaling: Scaling;
  readonly density: boolean;
  readonly palette: PaletteName;
  readonly quantiles: readonly QuantileName[];
  readonly threshold: number | null;
  /** How numbers are shown. */
  readonly view: NumberView;
  /** Counters as they are, and not their rates. */
  readonly raw: boolean;
  /** Only values between these are drawn. */
  readonly values: readonly [number, number] | null;
  /** What the picture is compared with. */
  readonly compare: Compared | null;
  /** Cells show how they differ from what they are compared with. */
  readonly difference: boolean;
  /** Expressions that are drawn below the first one. */
  readonly more: readonly string[];
  /** The box that is explained. */
  readonly area: Area | null;
  /** Slow traces of this time are shown: (start, end], seconds since the epoch. */
  readonly slow: Span | null;
  /** Which of them, by the instant when it was published, in nanoseconds. */
  readonly trace: string | null;
  /** Stored lines of this time are shown below the picture, and what is searched in them. */
  readonly lines: Span | null;
  readonly find: string;
  /** The process whose kernel series stand below the picture: a selector in braces, empty for the likeliest; null for none. */
  readonly why: string | null;
  /** The label by whose values the quantile lines are laid over one another below the picture; null for none. */
  readonly by: string | null;
  /** The end of the column of which is said what was unusual, in seconds since the epoch. */
  readonly column: number | null;
}

export const DEFAULTS: State = {
  query: DEFAULT_QUERY,
  group: null,
  range: { last: 300 },
  scaling: "sqrt",
  // On: bins of a log-linear histogram are nine times wider (on the log axis) just above a power of ten than just
  // below it, so plain counts jump there and paint a band at every decade that the data do not have. Count per log
  // width shows a smooth distribution smooth. The exact count stays one hover away.
  density: true,
  palette: "ember",
  quantiles: ["0.5", "0.99"],
  threshold: null,
  view: "lines",
  raw: false,
  values: null,
  compare: null,
  difference: false,
  more: [],
  area: null,
  slow: null,
  trace: null,
  lines: null,
  find: "",
  why: null,
  by: null,
  column: null,
};

/** Expressions beside the first one: each is a picture of its own. */
export const MORE_MAX = 7;

/** Longest and shortest range: 10 years and 5 columns of a second. */
const RANGE_MIN = 5;
const RANGE_MAX = 10 * 365 * 86400;

export function isLive(range: Range): range is LiveRange {
  return "last" in range;
}

/** Reads the query part of an address. What is missing or senseless takes its default. */
export function parseState(search: string): State {
  const params = new URLSearchParams(search);
  const scaling = params.get("scale");
  const palette = params.get("colours");
  const quantiles = params.get("q");
  const threshold = Number(params.get("threshold") ?? NaN);
  return {
    query: params.get("query") ?? DEFAULTS.query,
    group: params.get("group"),
    range: parseRange(params, DEFAULTS.range),
    scaling: scaling === "linear" || scaling === "sqrt" || scaling === "log" ? scaling : DEFAULTS.scaling,
    density: params.has("density") ? params.get("density") !== "0" : DEFAULTS.density,
    palette: PALETTE_NAMES.find((name) => name === palette) ?? DEFAULTS.palette,
    quantiles: quantiles === null ? DEFAULTS.quantiles : QUANTILES.filter((q) => quantiles.split(",").includes(q)),
    threshold: Number.isFinite(threshold) ? threshold : null,
    view: VIEWS.find((view) => view === params.get("view")) ?? DEFAULTS.view,
    raw: params.get("raw") === "1",
    values: parseValues(params.get("values")),
    compare: parseCompared(params.get("compare")),
    difference: params.get("difference") === "1",
    more: params.getAll("and").filter((query) => query.trim() !== "").slice(0, MORE_MAX),
    area: parseArea(params.get("box")),
    slow: parseSpan(params.get("slow")),
    trace: params.get("trace"),
    lines: parseSpan(params.get("lines")),
    find: params.get("find") ?? "",
    why: params.get("why"),
    by: params.get("by") || null,
    column: Number.isFinite(Number(params.get("column") ?? NaN)) ? Number(params.get("column")) : null,
  };
}

function parseValues(text: string | null): readonly [number, number] | null {
  const [lo, hi, ...more] = (text ?? "").split(",").map((part) => (part === "" ? NaN : Number(part))) as [number, number];
  return more.length === 0 && Number.isFinite(lo) && Number.isFinite(hi) && lo > 0 && hi > lo ? [lo, hi] : null;
}

function parseArea(text: string | null): Area | null {
  const [start, end, lo, hi, ...more] = (text ?? "").split(",").map((part) => (part === "" ? NaN : Number(part)));
  const numbers = [start, end, lo, hi] as [number, number, number, number];
  if (more.length > 0 || !numbers.every((one) => Number.isFinite(one)) || numbers[0] >= numbers[1] || numbers[2] > numbers[3]) return null;
  return { start: numbers[0], end: numbers[1], lo: numbers[2], hi: numbers[3] };
}

function parseSpan(text: string | null): Span | null {
  const match = /^(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)$/.exec(text ?? "");
  if (match === null) return null;
  const [start, end] = [Number(match[1]), Number(match[2])];
  return end > start ? { start, end } : null;
}

/** The range that an address names; `usual` when it names none. */
export function parseRange(params: URLSearchParams, usual: Range): Range {
  const start = Number(params.get("start") ?? NaN);
  const end = Number(params.get("end") ?? NaN);
  if (Number.isFinite(start) && Number.isFinite(end) && end - start >= 1 && end - start <= RANGE_MAX) return { start, end };
  const last = parseDuration(params.get("range") ?? "");
  return last === null || !(last > 0) ? usual : { last: Math.min(RANGE_MAX, Math.max(RANGE_MIN, last)) };
}

/** Writes the address; what has its default value is left out, so the first page has a bare address. */
export function formatState(state: State): string {
  const params = new URLSearchParams();
  if (state.query !== DEFAULTS.query) params.set("query", state.query);
  if (state.group !== null) params.set("group", state.group);
  if ("start" in state.range) {
    params.set("start", String(state.range.start));
    params.set("end", String(state.range.end));
  } else if (!isLive(DEFAULTS.range) || state.range.last !== DEFAULTS.range.last) {
    params.set("range", formatDuration(state.range.last));
  }
  if (state.scaling !== DEFAULTS.scaling) params.set("scale", state.scaling);
  if (state.density !== DEFAULTS.density) params.set("density", state.density ? "1" : "0");
  if (state.palette !== DEFAULTS.palette) params.set("colours", state.palette);
  if (state.quantiles.join() !== DEFAULTS.quantiles.join()) params.set("q", state.quantiles.join());
  if (state.threshold !== null) params.set("threshold", String(state.threshold));
  if (state.view !== DEFAULTS.view) params.set("view", state.view);
  if (state.raw) params.set("raw", "1");
  if (state.values !== null) params.set("values", state.values.join());
  if (state.compare !== null) params.set("compare", formatCompared(state.compare));
  if (state.compare !== null && state.difference) params.set("difference", "1");
  for (const query of state.more) params.append("and", query);
  if (state.area !== null) params.set("box", [state.area.start, state.area.end, state.area.lo, state.area.hi].join());
  if (state.slow !== null) params.set("slow", `${state.slow.start}-${state.slow.end}`);
  if (state.slow !== null && state.trace !== null) params.set("trace", state.trace);
  if (state.lines !== null) params.set("lines", `${state.lines.start}-${state.lines.end}`);
  if (state.lines !== null && state.find !== "") params.set("find", state.find);
  if (state.why !== null) params.set("why", state.why);
  if (state.by !== null) params.set("by", state.by);
  if (state.why !== null && state.column !== null) params.set("column", String(state.column));
  const text = params.toString().replace(/%2C/g, ",");
  return text === "" ? "" : `?${text}`;
}

/** True when two states ask the server for the same data. */
export function sameData(a: State, b: State): boolean {
  return a.query === b.query && JSON.stringify(a.compare) === JSON.stringify(b.compare) && a.raw === b.raw && a.view === b.view && a.group === b.group && JSON.stringify(a.range) === JSON.stringify(b.range);
}

/** Reads what a person types as an instant: epoch seconds, a date and time of the chosen zone such as `2026-03-01 14:05`, or `now`, `now-7d`, `-1h`. */
export function parseInstant(text: string, now = Date.now() / 1000): number | null {
  const trimmed = text.trim();
  const ago = /^(now)?(?:\s*-\s*(\w+))?$/.exec(trimmed);
  if (trimmed !== "" && ago !== null) {
    const seconds = ago[2] === undefined ? 0 : parseDuration(ago[2]);
    return seconds === null || (ago[1] === undefined && /^-\s*\d+$/.test(trimmed)) ? null : now - seconds;
  }
  if (/^\d{9,11}(\.\d+)?$/.test(trimmed)) return Number(trimmed);
  const match = /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d))?)?(Z)?$/.exec(trimmed);
  if (match === null) return null;
  const [year, month, day, hour, minute, second] = match.slice(1, 7).map((part) => Number(part ?? 0)) as [number, number, number, number, number, number];
  const millis =
    match[7] === "Z" || zone() === "utc"
      ? Date.UTC(year, month - 1, day, hour, minute, second)
      : new Date(year, month - 1, day, hour, minute, second).getTime();
  return Number.isNaN(millis) ? null : millis / 1000;
}
