/**
 * Columns of bins as the server sends them, and exact arithmetic on them. Pure.
 *
 * Invariants: a bin (its pair of bounds) has one id in a table for as long as the table lives, so merging is adding
 * by id; a column's ids ascend on the real axis; counts are exact below 2^53.
 */

export interface WireColumn {
  t: number;
  /** Where what it counts begins, when that is known. */
  from?: number;
  /** Null where nothing is claimed: data of this second may still come. */
  count: string | number | null;
  /** What a live column claims: `known`, `partial`, or `unknown`. */
  state?: string;
  sum: number | null;
  min: number | null;
  max: number | null;
  bins: [Bound, Bound, number | string][];
  quantiles?: [number, Bound, Bound, Bound][];
}

/** JSON has no infinities: an open end may come as text or null. */
type Bound = number | string | null;

export interface QuantileMark {
  readonly q: number;
  readonly value: number;
  readonly lo: number;
  readonly hi: number;
}

export interface Column {
  /** End of what the column covers, seconds since the epoch. */
  readonly t: number;
  /** Begin of what it covers; null when that is the column before. */
  readonly from: number | null;
  /** Slots of the picture that it is drawn over. */
  readonly slots: number;
  readonly count: number;
  /** Nothing is known of it yet: not even that it is empty. */
  readonly unknown: boolean;
  /** The count as it came, for numbers beyond 2^53. */
  readonly countText: string;
  readonly sum: number | null;
  readonly min: number | null;
  readonly max: number | null;
  readonly ids: Int32Array;
  readonly counts: Float64Array;
  readonly quantiles: readonly QuantileMark[];
}

function bound(value: Bound, open: number): number {
  if (value === null) return open;
  if (typeof value === "number") return value;
  const text = value.replace("Inf", "Infinity");
  return Number(text);
}

/** Gives each distinct pair of bounds a number. */
export class BinTable {
  readonly lo: number[] = [];
  readonly hi: number[] = [];
  private readonly byLo = new Map<number, number[]>();

  get size(): number {
    return this.lo.length;
  }

  id(lo: number, hi: number): number {
    let ids = this.byLo.get(lo);
    if (ids === undefined) {
      ids = [];
      this.byLo.set(lo, ids);
    }
    for (const id of ids) if (this.hi[id] === hi) return id;
    const id = this.lo.length;
    this.lo.push(lo);
    this.hi.push(hi);
    ids.push(id);
    return id;
  }

  /** Reads one column. Bins without a count are left out. */
  column(wire: WireColumn): Column {
    const bins = wire.bins
      .map(([lo, hi, count]) => ({ lo: bound(lo, -Infinity), hi: bound(hi, Infinity), count: Number(count) }))
      .filter((bin) => bin.count > 0)
      .sort((a, b) => a.lo - b.lo || a.hi - b.hi);
    return {
      t: wire.t,
      from: wire.from ?? null,
      slots: 1,
      count: Number(wire.count),
      unknown: wire.state === "unknown",
      countText: String(wire.count ?? 0),
      sum: wire.sum,
      min: wire.min,
      max: wire.max,
      ids: Int32Array.from(bins, (bin) => this.id(bin.lo, bin.hi)),
      counts: Float64Array.from(bins, (bin) => bin.count),
      quantiles: (wire.quantiles ?? []).map(([q, value, lo, hi]) => ({
        q,
        value: bound(value, NaN),
        lo: bound(lo, -Infinity),
        hi: bound(hi, Infinity),
      })),
    };
  }

  /** Natural logarithm of hi/lo: the height of the bin on a log axis. Bins at or across zero have none (`NaN`). */
  logWidth(id: number): number {
    const lo = this.lo[id] as number;
    const hi = this.hi[id] as number;
    const width = lo > 0 ? Math.log(hi / lo) : hi < 0 ? Math.log(lo / hi) : NaN;
    return Number.isFinite(width) && width > 0 ? width : NaN;
  }
}

export interface Merged {
  /** Ascending on the real axis. */
  readonly ids: number[];
  readonly counts: number[];
  /** Sum of the counts of the bins. */
  readonly total: number;
  readonly min: number | null;
  readonly max: number | null;
  readonly sum: number | null;
}

/** Adds columns bin by bin. A min, max or sum that one of them lacks is lacking in the result. */
export function merge(table: BinTable, columns: Iterable<Column>): Merged {
  const byId = new Float64Array(table.size);
  let total = 0;
  let min: number | null = Infinity;
  let max: number | null = -Infinity;
  let sum: number | null = 0;
  for (const column of columns) {
    if (column.count === 0) continue;
    for (let i = 0; i < column.ids.length; i++) {
      const count = column.counts[i] as number;
      byId[column.ids[i] as number]! += count;
      total += count;
    }
    min = min === null || column.min === null ? null : Math.min(min, column.min);
    max = max === null || column.max === null ? null : Math.max(max, column.max);
    sum = sum === null || column.sum === null ? null : sum + column.sum;
  }
  const ids: number[] = [];
  for (let id = 0; id < byId.length; id++) if ((byId[id] as number) > 0) ids.push(id);
  ids.sort((a, b) => (table.lo[a] as number) - (table.lo[b] as number) || (table.hi[a] as number) - (table.hi[b] as number));
  const finite = (value: number | null): number | null => (value !== null && Number.isFinite(value) ? value : null);
  return { ids, counts: ids.map((id) => byId[id] as number), total, min: finite(min), max: finite(max), sum };
}

/** Merges columns into one that ends at `t`; its quantiles are the bins that hold them, without interpolation. */
export function mergeInto(table: BinTable, columns: readonly Column[], t: number, quantiles: readonly number[]): Column {
  const merged = merge(table, columns);
  return {
    t,
    from: null,
    slots: 1,
    count: merged.total,
    unknown: false,
    countText: String(merged.total),
    sum: merged.sum,
    min: merged.min,
    max: merged.max,
    ids: Int32Array.from(merged.ids),
    counts: Float64Array.from(merged.counts),
    quantiles: quantiles.flatMap((q) => {
      const bin = quantileBin(table, merged, q);
      return bin === null ? [] : [{ q, value: middle(bin.lo, bin.hi), lo: bin.lo, hi: bin.hi }];
    }),
  };
}

/** A representative of a bin: the geometric mean where both ends have one sign. */
export function middle(lo: number, hi: number): number {
  if (!Number.isFinite(lo)) return hi;
  if (!Number.isFinite(hi)) return lo;
  return lo > 0 || hi < 0 ? Math.sign(lo) * Math.sqrt(lo * hi) : (lo + hi) / 2;
}

/** The bin that holds the sample of rank `ceil(q n)`. */
export function quantileBin(table: BinTable, merged: Merged, q: number): { lo: number; hi: number } | null {
  if (merged.total === 0) return null;
  // The margin undoes products such as 0.07 * 100 = 7.000000000000001, which would move one rank up.
  const rank = Math.max(1, Math.ceil(q * merged.total - 1e-9 * merged.total));
  let before = 0;
  for (let i = 0; i < merged.ids.length; i++) {
    before += merged.counts[i] as number;
    if (before >= rank) {
      const id = merged.ids[i] as number;
      return { lo: table.lo[id] as number, hi: table.hi[id] as number };
    }
  }
  const last = merged.ids[merged.ids.length - 1] as number;
  return { lo: table.lo[last] as number, hi: table.hi[last] as number };
}

/** Share of samples at or below `value`: exact bounds, which are equal unless `value` is inside of a bin. */
export function shareBelow(table: BinTable, merged: Merged, value: number): { lo: number; hi: number } {
  let sure = 0;
  let maybe = 0;
  for (let i = 0; i < merged.ids.length; i++) {
    const id = merged.ids[i] as number;
    if ((table.hi[id] as number) <= value) sure += merged.counts[i] as number;
    else if ((table.lo[id] as number) < value) maybe += merged.counts[i] as number;
  }
  if (merged.total === 0) return { lo: NaN, hi: NaN };
  return { lo: sure / merged.total, hi: (sure + maybe) / merged.total };
}

/** The edge nearest to `value` on a log scale, of the bin that it cuts; `value` itself where it cuts none. */
export function snapToEdge(table: BinTable, merged: Merged, value: number): number {
  for (const id of merged.ids) {
    const lo = table.lo[id] as number;
    const hi = table.hi[id] as number;
    if (!(lo < value && value < hi)) continue;
    if (!Number.isFinite(lo)) return hi;
    if (!Number.isFinite(hi)) return lo;
    const halfway = middle(lo, hi);
    return value < halfway ? lo : hi;
  }
  return value;
}

/** Position in `column` of the bin that holds `value` (upper edge included, where two bins touch the lower wins), or -1. */
export function binAt(table: BinTable, column: Column, value: number): number {
  for (let i = 0; i < column.ids.length; i++) {
    const id = column.ids[i] as number;
    if ((table.lo[id] as number) <= value && value <= (table.hi[id] as number)) return i;
  }
  return -1;
}

/** Count of the bins of `column` up to and including position `index`. */
export function countUpTo(column: Column, index: number): number {
  let count = 0;
  for (let i = 0; i <= index; i++) count += column.counts[i] as number;
  return count;
}
