/** Stored lines as the server answers them, the address of their page, and the bars of their counts. Pure. */

import type { Labels } from "./api.ts";
import { formatDuration } from "./format.ts";
import { quote } from "./selector.ts";
import { isLive, parseRange, type Range } from "./state.ts";

/** From the most serious. */
export const SEVERITIES = ["fatal", "error", "warn", "info", "debug", "trace", "unknown"] as const;
export type Severity = (typeof SEVERITIES)[number];

export interface LogLine {
  readonly t: number;
  readonly labels: Labels;
  readonly severity: Severity;
  readonly line: string;
  readonly fields: readonly (readonly [string, string])[];
}

interface Scanned {
  readonly series: number;
  readonly scanned: number;
  readonly scanned_bytes: number;
  /** As much was looked at as one answer may: there may be more. */
  readonly partial: boolean;
}

export interface LogLines extends Scanned {
  readonly complete: boolean;
  /** Where the next page begins. */
  readonly next: string | null;
  readonly lines: readonly LogLine[];
}

export type Counts = Readonly<Partial<Record<Severity, number>>>;

export interface LogColumns extends Scanned {
  /** Up to this time lines are not counted; null when all are. */
  readonly from: number | null;
  /** The end of each column that has any, and how many. */
  readonly columns: readonly (readonly [number, Counts])[];
}

export interface LogState {
  readonly search: string;
  /** A selector of series; empty for all. */
  readonly match: string;
  readonly range: Range;
}

const USUAL: Range = { last: 3600 };

export function parseLogState(address: string): LogState {
  const params = new URLSearchParams(address);
  return { search: params.get("search") ?? "", match: params.get("match") ?? "", range: parseRange(params, USUAL) };
}

/** What has its usual value is left out. */
export function formatLogState({ search, match, range }: LogState): string {
  const params = new URLSearchParams();
  if (search !== "") params.set("search", search);
  if (match !== "") params.set("match", match);
  if (!isLive(range)) {
    params.set("start", String(range.start));
    params.set("end", String(range.end));
  } else if (!isLive(USUAL) || range.last !== USUAL.last) params.set("range", formatDuration(range.last));
  const text = params.toString();
  return text === "" ? "" : `?${text}`;
}

/** Widths of columns that people count in, seconds. */
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];

/** The narrowest width of columns of which at most `columns` fill the range. */
export function stepOf(seconds: number, columns: number): number {
  const least = seconds / columns;
  return STEPS.find((step) => step >= least) ?? Math.ceil(least / 86400) * 86400;
}

/** The columns (start, end] of a range, on the grid of their step. */
export function gridOf(range: { readonly start: number; readonly end: number }, step: number): { start: number; end: number } {
  const start = Math.floor(range.start / step) * step;
  return { start, end: Math.max(start + step, Math.ceil(range.end / step) * step) };
}

export interface LogBar {
  readonly start: number;
  readonly end: number;
  readonly total: number;
  /** From the bottom, of the height of the highest bar, 0 to 1. */
  readonly parts: readonly { readonly severity: Severity; readonly height: number; readonly count: number }[];
  /** Not counted: the server stopped before. */
  readonly unknown: boolean;
}

/** One bar for each column from `start` to `end`, empty ones too; the most serious at the bottom, where it is seen. */
export function barsOf({ columns, from }: LogColumns, start: number, end: number, step: number): LogBar[] {
  const counts = new Map(columns);
  const sum = (of: Counts): number => Object.values(of).reduce((sum, count) => sum + count, 0);
  const highest = Math.max(1, ...columns.map(([, of]) => sum(of)));
  const bars: LogBar[] = [];
  for (let at = start + step; at <= end; at += step) {
    const of = counts.get(at) ?? {};
    const parts = SEVERITIES.filter((severity) => (of[severity] ?? 0) > 0).map((severity) => ({ severity, count: of[severity] as number, height: (of[severity] as number) / highest }));
    bars.push({ start: at - step, end: at, total: sum(of), parts, unknown: from !== null && at - step < from });
  }
  return bars;
}

/** What a bar says: `14:05:00: 12 lines, 3 error, 9 info`. */
export function barText(bar: LogBar, clock: (seconds: number) => string): string {
  const parts = bar.parts.map(({ severity, count }) => `${count} ${severity}`);
  const total = bar.total === 1 ? "1 line" : `${bar.total} lines`;
  return `${clock(bar.start)} – ${clock(bar.end)}: ${bar.unknown ? "not counted" : [total, ...parts].join(", ")}`;
}

/** The search, with one more condition. */
export function withField(search: string, name: string, value: string): string {
  const plain = /^[\w.@/:-]+$/;
  const left = plain.test(name) && !["AND", "OR", "NOT"].includes(name) && !name.startsWith("/") ? name : quote(name);
  const condition = `${left}=${plain.test(value) ? value : quote(value)}`;
  const before = / OR /.test(search) ? `(${search.trim()})` : search.trim();
  return before === "" ? condition : `${before} ${condition}`;
}
