/** How much of one thing happens for each of another, and how that changed: what `ogive ops` shows. Pure. */

import type { QueryData, Series } from "./api.ts";

/** Something that is counted, and under which name it is shown. */
export interface Counter {
  readonly name: string;
  readonly expr: string;
}

/** What Ogive itself does for a request: as `ogive ops` has it, which a test compares. */
export const OWN: readonly Counter[] = [
  { name: "queries", expr: "ogive_query_seconds" },
  { name: "batches", expr: 'ogive_ingest_seconds{stage="total"}' },
  { name: "samples accepted", expr: 'ogive_ingest_samples_total{outcome="accepted"}' },
  { name: "samples rejected", expr: 'ogive_ingest_samples_total{outcome="rejected"}' },
  { name: "fsyncs", expr: "ogive_journal_fsync_seconds" },
  { name: "flushes", expr: "ogive_flush_seconds" },
];

/** What they are counted for. */
export const OWN_PER: Counter = { name: "request", expr: "ogive_http_request_seconds" };

/** The increase of a bare selector over `range`; any other expression as it is. */
export function countQuery(expr: string, range: string): string {
  const text = expr.trim();
  return /^[a-zA-Z_:][\w:.]*\s*(\{[^{}]*\})?$|^\{[^{}]+\}$/.test(text) ? `sum(increase(${text}[${range}]))` : text;
}

/** The sum of an answer's values, of histograms of their samples; null where there are none. */
export function countOf(data: QueryData): number | null {
  if (data.resultType === "scalar") return Number(data.result[1]);
  if (data.resultType !== "vector") return null;
  const count = ({ value, histogram }: Series): number => Number(value?.[1] ?? (histogram?.[1] as { count: string } | undefined)?.count ?? Number.NaN);
  const counts = data.result.map(count).filter((count) => !Number.isNaN(count));
  return counts.length === 0 ? null : counts.reduce((sum, count) => sum + count, 0);
}

type Pair = readonly [now: number | null, before: number | null];

export interface PerUnit {
  readonly name: string;
  readonly counts: Pair;
  /** For each of the other: now and before. */
  readonly each: Pair;
  /** How much more it became, as a share; null where it is not known. */
  readonly change: number | null;
  /** The change is less than counts as small as these vary by chance (two standard deviations). */
  readonly noise: boolean;
}

export function perUnit(name: string, counts: Pair, per: Pair): PerUnit {
  const quotient = (at: 0 | 1): number | null => {
    const [count, of] = [counts[at], per[at]];
    return count === null || of === null || !(of > 0) ? null : count / of;
  };
  const each: Pair = [quotient(0), quotient(1)];
  const change = each[0] !== null && each[1] !== null && each[1] > 0 ? each[0] / each[1] - 1 : null;
  // The relative variance of a quotient of independent counts is the sum of 1/n.
  const variance = [...counts, ...per].reduce<number>((sum, count) => sum + (count === null ? 0 : 1 / Math.max(1, count)), 0);
  return { name, counts, each, change, noise: change !== null && Math.abs(change) < 2 * Math.sqrt(variance) };
}

/** Lines of a text as counters. */
export function countersOf(text: string): Counter[] {
  const lines = text.split("\n").map((line) => line.trim());
  return lines.filter((line) => line !== "").map((line) => ({ name: line, expr: line }));
}
