/** What operators look at: the ledger of samples by protocol, and what grew. Pure. */

import { formatCompact, formatCount } from "./format.ts";
import { quote } from "./selector.ts";
import type { ForgottenSenders, SenderAccount, Series } from "./api.ts";

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

/** A sender as it is listed. */
export interface SenderRow {
  readonly name: string;
  readonly protocol: string;
  readonly tenant: string;
  readonly received: number;
  readonly accepted: number;
  readonly duplicate: number;
  /** Samples that were rejected or refused. */
  readonly lost: number;
  /** Why they were, and why requests could not be read; what is most first. */
  readonly reasons: readonly (readonly [string, number])[];
  readonly missing: number;
  /** Milliseconds. */
  readonly last: number;
}

/** What nobody but the server itself sends. */
const OWN = new Set(["quantizer", "detect", "rules", "check"]);

/** Senders, those that lost something first, then those that sent last; the forgotten are one row of each protocol. */
export function sendersOf(senders: readonly SenderAccount[], forgotten: readonly ForgottenSenders[]): SenderRow[] {
  const sum = (counts: Readonly<Record<string, number>>): number => Object.values(counts).reduce((all, one) => all + one, 0);
  const row = (name: string, tenant: string, of: ForgottenSenders): SenderRow => {
    const unread = Object.entries(of.unreadable).map(([reason, count]) => [`unreadable: ${reason}`, count] as const);
    const reasons = [...Object.entries(of.rejected), ...Object.entries(of.refused), ...unread].sort((a, b) => b[1] - a[1]);
    return { name, tenant, protocol: of.protocol, received: of.received, accepted: of.accepted, duplicate: of.duplicate, lost: sum(of.rejected) + sum(of.refused), reasons, missing: of.missing_batches, last: of.last_ms };
  };
  const name = (one: SenderAccount): string => [one.sender, ...(one.source === undefined ? [] : [one.source])].filter((part) => part !== "").join(", ") || (OWN.has(one.protocol) ? "this server" : "any");
  const rows = [...senders.map((one) => row(name(one), one.tenant, one)), ...forgotten.map((one) => row("earlier ones", "any", one))];
  const harm = ({ lost, reasons, missing }: SenderRow): number => lost + missing + reasons.reduce((all, [, count]) => all + count, 0);
  return rows.sort((a, b) => harm(b) - harm(a) || b.last - a.last || a.name.localeCompare(b.name));
}

/** A change in words, its sign first; and by how many times, where there was something before. */
export function changeOf({ now, before }: { readonly now: number; readonly before: number }): string {
  if (now === before) return "the same";
  const count = `${now > before ? "+" : "−"}${formatCount(Math.abs(now - before))}`;
  return before === 0 ? `${count}, new` : now >= 2 * before ? `${count}, ${formatCompact(now / before)} times` : count;
}

/** A selector of the series that have a pair, as the server lists it. */
export function pairSelector(pair: string): string {
  const at = pair.indexOf("=");
  return `{${pair.slice(0, at)}=${quote(pair.slice(at + 1))}}`;
}

/** Something that waits to be done. */
export interface Queue {
  readonly name: string;
  /** Which of several. */
  readonly label: string;
  readonly value: number;
  readonly unit: "" | "s";
  readonly means: string;
}

/** Figures of `/v1/status` that are queues. */
const QUEUES: readonly { key: string; name: string; unit: "" | "s"; means: string }[] = [
  { key: "queue_batches", name: "Batches", unit: "", means: "received, and not yet in the store" },
  { key: "deletions_pending", name: "Deletions", unit: "", means: "in force, and their bytes are still on the disk" },
  { key: "unacknowledged_findings", name: "Findings of scrubs", unit: "", means: "nobody took note of them: ogive scrub --acknowledge" },
  { key: "retention_clock_lag_seconds", name: "Retention", unit: "s", means: "by which the clock of retention is behind the server's" },
];

/** Series that are queues of their labels. */
const LAGS: Record<string, { name: string; label: string; unit: "" | "s"; means: string }> = {
  ogive_alerts_waiting: { name: "Alerts", label: "destination", unit: "", means: "to be sent" },
  ogive_forward_lag_seconds: { name: "Forwards", label: "forward", unit: "s", means: "of data not yet forwarded" },
  ogive_broker_lag_batches: { name: "Broker", label: "destination", unit: "", means: "batches that the destination has not acknowledged" },
};

/** The work queues: those of the store, then those of what is sent on, the longest first. */
export function queuesOf(status: Readonly<Record<string, unknown>>, lags: readonly Series[]): Queue[] {
  const own = QUEUES.filter(({ key }) => key in status).map(({ key, name, unit, means }) => ({ name, label: "", value: Number(status[key]), unit, means }));
  const sent = lags.flatMap(({ metric, value }) => {
    const kind = LAGS[metric["__name__"] ?? ""];
    return kind === undefined ? [] : [{ name: kind.name, label: metric[kind.label] ?? "", value: Number(value?.[1] ?? 0), unit: kind.unit, means: kind.means }];
  });
  return [...own, ...sent.sort((a, b) => b.value - a.value || a.name.localeCompare(b.name))];
}

export interface CheckRow {
  readonly check: string;
  readonly kind: string;
  readonly target: string;
  readonly up: boolean;
  /** Seconds; null without a run that ended. */
  readonly p99: number | null;
  /** The last text of a run that failed; empty when there was none. */
  readonly error: string;
  readonly errorAt: number;
}

/** Checks, those that are down first, with the last text of each. */
export function checksOf(up: readonly Series[], slow: readonly Series[], texts: readonly Series[]): CheckRow[] {
  const p99 = new Map(slow.map(({ metric, value }) => [metric["check"] ?? "", Number(value?.[1] ?? Number.NaN)]));
  const last = new Map<string, [number, string]>();
  for (const { metric, values } of texts) {
    for (const [time, text] of values ?? []) {
      const check = metric["check"] ?? "";
      if (time >= (last.get(check)?.[0] ?? -Infinity)) last.set(check, [time, text]);
    }
  }
  return up
    .map(({ metric, value }) => {
      const check = metric["check"] ?? "";
      const quantile = p99.get(check);
      const [errorAt, error] = last.get(check) ?? [0, ""];
      return { check, kind: metric["kind"] ?? "", target: metric["target"] ?? "", up: value?.[1] === "1", p99: quantile === undefined || Number.isNaN(quantile) ? null : quantile, error, errorAt };
    })
    .sort((a, b) => Number(a.up) - Number(b.up) || a.check.localeCompare(b.check));
}
