/** Brokers as rows: what is shown of each, which match, in which order. Pure. */

import { formatCount, formatDuration, formatShare, formatValue } from "./format.ts";

export type State = "in_sync" | "drift" | "refusing" | "away" | "unseen" | "revoked";

/** What a broker reports of itself. */
export interface Report {
  readonly ogive: string;
  readonly version: number;
  readonly refused: { version: number; reason: string; why: string } | null;
  readonly lag_seconds: number;
  readonly spool_bytes: number;
  readonly spool_bytes_max: number;
  readonly gap_samples: number;
  readonly cpu: number;
  readonly memory_bytes: number;
  readonly checks: number;
  readonly findings: readonly string[];
  readonly destinations: readonly { name: string; lag_seconds: number; problem: string | null }[];
}

export interface BrokerRow {
  readonly name: string;
  readonly group: string;
  readonly state: State;
  readonly should_run: number;
  readonly seen_ms: number | null;
  readonly address: string | null;
  readonly clock_offset_seconds: number | null;
  readonly report: Report | null;
  readonly token_expires_ms: number;
  readonly tasks: number;
}

/** An answer of `v1/fleet/brokers`. */
export interface Brokers {
  readonly now_ms: number;
  readonly cursor: number;
  readonly total: number;
  readonly brokers: readonly BrokerRow[];
}

/** States with their words, those that want somebody first. */
export const STATES: readonly [State, string][] = [["refusing", "Refusing"], ["away", "Away"], ["drift", "Drifting"], ["unseen", "Not seen yet"], ["in_sync", "In sync"], ["revoked", "Revoked"]];

export const LEVEL: Record<State, "good" | "warn" | "bad" | ""> = { in_sync: "good", drift: "warn", refusing: "bad", away: "bad", unseen: "", revoked: "" };

export interface Column {
  readonly key: string;
  readonly title: string;
  readonly text: (row: BrokerRow, nowMs: number) => string;
  /** What rows are sorted by; numbers descend first. */
  readonly order: (row: BrokerRow) => string | number;
}

const of = (row: BrokerRow, number: (report: Report) => number): number => (row.report === null ? -1 : number(row.report));
const shown = (row: BrokerRow, text: (report: Report) => string): string => (row.report === null ? "–" : text(row.report));

/** The version, and what it should be where that is another. */
export function versionText(row: BrokerRow): string {
  const runs = row.report === null ? "–" : String(row.report.version);
  return runs === String(row.should_run) ? runs : `${runs} → ${row.should_run}`;
}

export const COLUMNS: readonly Column[] = [
  { key: "name", title: "Broker", text: (row) => row.name, order: (row) => row.name },
  { key: "group", title: "Group", text: (row) => row.group, order: (row) => row.group },
  { key: "state", title: "State", text: (row) => (STATES.find(([state]) => state === row.state) as [State, string])[1], order: (row) => STATES.length - STATES.findIndex(([state]) => state === row.state) },
  { key: "version", title: "Version", text: versionText, order: (row) => of(row, (report) => report.version) },
  { key: "lag", title: "Behind", text: (row) => shown(row, (report) => (report.lag_seconds < 0.05 ? "0 s" : formatDuration(Number(report.lag_seconds.toPrecision(2))))), order: (row) => of(row, (report) => report.lag_seconds) },
  { key: "spool", title: "Spool", text: (row) => shown(row, (report) => `${formatValue(report.spool_bytes, "By")}, ${formatShare(report.spool_bytes / Math.max(report.spool_bytes_max, 1))}`), order: (row) => of(row, (report) => report.spool_bytes) },
  { key: "gaps", title: "In gaps", text: (row) => shown(row, (report) => formatCount(report.gap_samples)), order: (row) => of(row, (report) => report.gap_samples) },
  { key: "clock", title: "Clock", text: (row) => (row.clock_offset_seconds === null ? "–" : `${row.clock_offset_seconds >= 0 ? "+" : "−"}${Math.abs(row.clock_offset_seconds).toFixed(2)} s`), order: (row) => Math.abs(row.clock_offset_seconds ?? 0) },
  { key: "cpu", title: "CPU", text: (row) => shown(row, (report) => formatShare(report.cpu)), order: (row) => of(row, (report) => report.cpu) },
  { key: "memory", title: "Memory", text: (row) => shown(row, (report) => formatValue(report.memory_bytes, "By")), order: (row) => of(row, (report) => report.memory_bytes) },
  { key: "seen", title: "Last seen", text: (row, nowMs) => (row.seen_ms === null ? "never" : `${formatDuration(Math.max(0, Math.round((nowMs - row.seen_ms) / 1000)))} ago`), order: (row) => row.seen_ms ?? 0 },
];

/** What is wrong with a broker, a sentence each. */
export function problems(row: BrokerRow): string[] {
  const { report } = row;
  if (report === null) return [];
  const refused = report.refused === null ? [] : [`It refuses version ${report.refused.version}, ${report.refused.reason}: ${report.refused.why}`];
  const behind = report.destinations.filter((one) => one.problem !== null).map((one) => `${one.name}: ${one.problem}`);
  return [...refused, ...report.findings, ...behind];
}

/** The rows with these words and this state, in the order of a column. */
export function arranged(rows: Iterable<BrokerRow>, words: string, state: State | null, by: string, reversed: boolean): BrokerRow[] {
  const each = words.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const fits = (row: BrokerRow): boolean => {
    if (state !== null && row.state !== state) return false;
    if (each.length === 0) return true;
    const text = `${row.name} ${row.group} ${row.address ?? ""} ${problems(row).join(" ")}`.toLowerCase();
    return each.every((word) => text.includes(word));
  };
  const column = COLUMNS.find((one) => one.key === by) ?? (COLUMNS[0] as Column);
  const keyed = [...rows].filter(fits).map((row) => ({ row, key: column.order(row) }));
  const way = (reversed ? -1 : 1) * (keyed.length > 0 && typeof keyed[0]?.key === "number" ? -1 : 1);
  keyed.sort((a, b) => (a.key < b.key ? -way : a.key > b.key ? way : a.row.name < b.row.name ? -1 : a.row.name > b.row.name ? 1 : 0));
  return keyed.map(({ row }) => row);
}

/** The places of the rows that are drawn: those in sight, and some on either side. */
export function inSight(top: number, height: number, rowHeight: number, total: number): [number, number] {
  const more = 8;
  const first = Math.max(0, Math.min(total, Math.floor(top / rowHeight) - more));
  return [first, Math.min(total, Math.ceil((top + height) / rowHeight) + more)];
}
