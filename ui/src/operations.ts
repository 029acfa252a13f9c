/** What operators look at: the ledger of samples by protocol, and what grew. Pure. */

import type { Series } from "./api.ts";

/** Samples that came in by a protocol, and what became of them. */
export interface LedgerRow {
  readonly protocol: string;
  readonly accepted: number;
  readonly duplicate: number;
  /** Not taken, for a reason that the sender can mend. */
  readonly rejected: number;
  /** Not taken, for a reason of the server's. */
  readonly refused: number;
  /** Why they were not taken, what is most first. */
  readonly reasons: readonly (readonly [string, number])[];
}

/** Rows of `ogive_ingest_samples_total` by protocol: those that lost most first, then those that brought most; protocols that brought nothing are left out. */
export function ledgerOf(series: readonly Series[]): LedgerRow[] {
  const rows = new Map<string, { -readonly [K in keyof LedgerRow]: LedgerRow[K] } & { all: Map<string, number> }>();
  for (const { metric, value } of series) {
    const protocol = metric["protocol"] ?? "";
    const count = Number(value?.[1] ?? 0);
    if (!(count > 0)) continue;
    let row = rows.get(protocol);
    if (row === undefined) rows.set(protocol, (row = { protocol, accepted: 0, duplicate: 0, rejected: 0, refused: 0, reasons: [], all: new Map() }));
    const outcome = metric["outcome"] ?? "";
    if (outcome === "accepted" || outcome === "duplicate") row[outcome] += count;
    else if (outcome === "rejected" || outcome === "refused") {
      row[outcome] += count;
      const reason = metric["reason"] ?? "";
      row.all.set(reason, (row.all.get(reason) ?? 0) + count);
    } else row.all.set(outcome, (row.all.get(outcome) ?? 0) + count);
  }
  const lost = (row: LedgerRow): number => row.rejected + row.refused;
  return [...rows.values()]
    .map(({ all, ...row }) => ({ ...row, reasons: [...all].sort((a, b) => b[1] - a[1]) }))
    .sort((a, b) => lost(b) - lost(a) || b.accepted - a.accepted || a.protocol.localeCompare(b.protocol));
}

export interface Growth {
  readonly name: string;
  readonly now: number;
  readonly before: number;
}

/** Names whose number of series differs between two counts, what grew most first. */
export function growthOf(now: readonly Series[], before: readonly Series[], most = 20): Growth[] {
  const counts = (list: readonly Series[]): Map<string, number> => new Map(list.map(({ metric, value }) => [metric["__name__"] ?? "", Number(value?.[1] ?? 0)]));
  const [is, was] = [counts(now), counts(before)];
  const names = new Set([...is.keys(), ...was.keys()]);
  return [...names]
    .map((name) => ({ name, now: is.get(name) ?? 0, before: was.get(name) ?? 0 }))
    .filter((one) => one.now !== one.before)
    .sort((a, b) => b.now - b.before - (a.now - a.before) || a.name.localeCompare(b.name))
    .slice(0, most);
}
