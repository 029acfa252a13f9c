/**
 * What a broker shows while it is watched: events of the stream, and the newest second of each series. Pure.
 *
 * Invariants: fragments of one second of a series add up; their quantiles are those of the largest fragment.
 */

import type { Labels } from "./api.ts";
import { formatCount } from "./format.ts";
import { seriesName } from "./series.ts";

/** JSON has no infinities. */
type Num = number | null;

export interface WatchCell {
  /** End of the second by the samples' own times. */
  readonly t: number;
  readonly labels: Labels;
  readonly unit: string;
  readonly temporality: string;
  readonly samples: number;
  readonly value?: string;
  readonly count: string | null;
  readonly max: Num;
  readonly quantiles: readonly (readonly [Num, Num, Num, Num])[];
}

export interface WatchColumn {
  /** The broker's clock. */
  readonly t: number;
  readonly count: string | null;
  readonly cells: readonly WatchCell[];
  readonly left_out: { readonly batches: number; readonly samples: number; readonly texts: number; readonly schemes: number; readonly bins: number; readonly deltas?: number };
}

export interface StreamEvent {
  readonly name: string;
  readonly data: string;
}

/** Puts events together from the pieces in which a stream comes. */
export class EventReader {
  private rest = "";

  push(text: string): StreamEvent[] {
    const parts = (this.rest + text).split("\n\n");
    this.rest = parts.pop() as string;
    return parts.flatMap((part) => {
      const lines = part.split("\n");
      const of = (field: string): string | undefined => lines.find((line) => line.startsWith(`${field}:`))?.slice(field.length + 1).trimStart();
      const data = of("data");
      return data === undefined ? [] : [{ name: of("event") ?? "message", data }];
    });
  }
}

/** A series' newest second. */
export interface WatchedRow {
  readonly name: string;
  readonly unit: string;
  readonly t: number;
  readonly count: number | null;
  readonly value: number | null;
  readonly max: number | null;
  readonly quantiles: ReadonlyMap<number, number>;
  /** Measurements of the largest fragment. */
  readonly largest: number;
  /** The column in which it last came, by the broker's clock. */
  readonly seen: number;
}

/** A series that was silent for longer is no longer shown; the broker gives its place to another one, too. */
const SILENT_SECONDS = 60;

/** A number as the server writes it. */
function numberOf(text: string | null | undefined): number | null {
  return text === null || text === undefined ? null : Number(text.replace("Inf", "Infinity"));
}

function greater(a: number | null, b: number | null): number | null {
  return a === null ? b : b === null ? a : Math.max(a, b);
}

/** What a cell makes of a row; `before` is the row as it was. */
export function rowOf(cell: WatchCell, seen: number, before: WatchedRow | undefined): WatchedRow {
  const count = numberOf(cell.count);
  const value = numberOf(cell.value);
  const quantiles = new Map(cell.quantiles.flatMap(([q, at]): [number, number][] => (q === null || at === null ? [] : [[q, at]])));
  const row = { name: seriesName(cell.labels), unit: cell.unit, t: cell.t, count, value, max: cell.max, quantiles, largest: count ?? 0, seen };
  if (before === undefined || before.t < cell.t) return row;
  // What came late for an earlier second only shows that the series is there.
  if (before.t > cell.t) return { ...before, seen };
  if (cell.temporality !== "delta") return row;
  const sum = (a: number | null, b: number | null): number | null => (a === null ? b : b === null ? a : a + b);
  const widest = before.largest >= row.largest ? before : row;
  return { ...row, count: sum(before.count, count), value: sum(before.value, value), max: greater(before.max, row.max), quantiles: widest.quantiles, largest: widest.largest };
}

/** The series that came lately. */
export class Watched {
  private readonly rows = new Map<string, WatchedRow>();

  take(column: WatchColumn): void {
    for (const cell of column.cells) {
      const name = seriesName(cell.labels);
      this.rows.set(name, rowOf(cell, column.t, this.rows.get(name)));
    }
    for (const [name, row] of this.rows) if (column.t - row.seen > SILENT_SECONDS) this.rows.delete(name);
  }

  /** By name. */
  all(): WatchedRow[] {
    return [...this.rows.values()].sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  }
}

/** What a column does not show, in words; empty when it shows everything. */
export function leftOutText({ left_out: { batches, samples, texts, schemes, deltas = 0 } }: WatchColumn): string {
  const parts = [
    [samples, "samples of further series or seconds (narrow the selector)"],
    [batches, "batches that came faster than they were read"],
    [texts, "texts"],
    [schemes, "histograms of another scheme"],
    [deltas, "histograms that the sum has no room for"],
  ] as const;
  const some = parts.filter(([count]) => count > 0).map(([count, what]) => `${formatCount(count)} ${what}`);
  return some.length === 0 ? "" : `Left out: ${some.join(", ")}.`;
}
