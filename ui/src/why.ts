/**
 * "Why was it slow": which measurements of the kernel belong below a picture, and which of them stand out in one of its columns. Pure.
 *
 * Invariants: a lane asks for what happened within each column, `increase` over the column's width, so that it stands on the picture's own
 * time axis; what a column is compared with is the median of the others, and what is called moved is at least `SCORE` of their median
 * absolute deviations away, where a deviation counts as no less than a tenth of the median and the lane's own `floor`.
 */

import type { Labels, Series } from "./api.ts";
import { formatValue } from "./format.ts";
import { formatSelector, parseSelector, quote } from "./selector.ts";

/** Names of which a process must have one to be in the list. */
export const PROCESS_SERIES = '{__name__=~"ogive_kernel_(run_queue_seconds|state_nanoseconds_total|run_queue_nanoseconds_total|lock_wait_seconds)"}';

/** Labels that say what is measured, and not of whom. */
const NOT_WHO = new Set(["__name__", "source", "state", "cause", "kind", "call", "interrupt", "softirq", "cpu"]);

/** Columns that are needed to say what is usual. */
const USUAL_MIN = 5;
/** Deviations from the usual that are called a move: of 300 columns of noise, one in some hundreds is so far away. */
const SCORE = 4;
/** The deviation of a normal distribution is so many times its median absolute deviation. */
const MAD = 1.4826;

export interface Process {
  /** Matchers in braces; the address has it. */
  readonly selector: string;
  readonly text: string;
  readonly labels: Labels;
}

/** Whose kernel series there are, one entry each, and one for all processes of a name that several have. */
export function processesOf(series: readonly Labels[]): Process[] {
  const all = new Map<string, Process>();
  for (const one of series) {
    const labels = Object.fromEntries(Object.entries(one).filter(([name]) => !NOT_WHO.has(name)));
    if (Object.keys(labels).length === 0) continue;
    const selector = braces(labels);
    all.set(selector, { selector, labels, text: nameOf(labels) });
  }
  const each = [...all.values()].sort((a, b) => a.text.localeCompare(b.text, "en", { numeric: true }));
  const comms = new Map<string, number>();
  for (const { labels } of each) if (labels["comm"] !== undefined) comms.set(labels["comm"], (comms.get(labels["comm"]) ?? 0) + 1);
  const together = [...comms].filter(([, count]) => count > 1).map(([comm, count]) => ({ selector: braces({ comm }), labels: { comm }, text: `${comm}, ${count} together` }));
  return [...together, ...each];
}

function braces(labels: Labels): string {
  return `{${Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, value]) => `${name}=${quote(value)}`).join(", ")}}`;
}

function nameOf(labels: Labels): string {
  const { comm, pid, thread, cgroup, ...others } = labels;
  const id = pid ?? thread;
  const who = [comm ?? cgroup ?? "", id === undefined ? "" : id === "other" ? "others" : `${thread === undefined ? "" : "thread "}${id}`].filter((part) => part !== "").join(" ");
  const rest = Object.entries(others).map(([name, value]) => `${name}=${value}`).join(", ");
  return [who, rest].filter((part) => part !== "").join(" · ");
}

/** How likely a process is the one whose operations a picture shows: by equal labels, then by a name that a label has. */
function likeness(process: Labels, picture: Labels): number {
  let score = 0;
  for (const name of ["pid", "cgroup"]) if (process[name] !== undefined && process[name] === (picture[name] ?? picture[`process_${name}`])) score += 16;
  const names = ["comm", "job", "service", "service_name", "process", "program", "app"].map((name) => picture[name]);
  const comm = process["comm"];
  if (comm !== undefined && names.some((name) => name !== undefined && name.slice(0, 15) === comm)) score += 8;
  if (comm === "ogive" && picture["__name__"]?.startsWith("ogive_") === true) score += 8;
  for (const name of ["host", "instance"]) if (process[name] !== undefined && process[name] === picture[name]) score += 2;
  return score;
}

/** The process that the picture is most probably about; the first one when nothing speaks for any. */
export function likeliest(processes: readonly Process[], query: string): Process | null {
  const selector = parseSelector(query);
  const name = selector?.name ?? /[a-zA-Z_:][\w:]*_\w+/.exec(query)?.[0] ?? "";
  const picture: Record<string, string> = { __name__: name };
  for (const { label, op, value } of selector?.matchers ?? []) if (op === "=") picture[label] = value;
  let [best, score] = [null as Process | null, -1];
  for (const process of processes) {
    const now = likeness(process.labels, picture);
    if (now > score) [best, score] = [process, now];
  }
  return best;
}

/** A picture below the picture. */
export interface Lane {
  readonly id: string;
  readonly title: string;
  readonly unit: string;
  /** Parts of a whole are drawn on top of each other; others beside each other as lines. */
  readonly isStacked: boolean;
  /** A difference below this is nobody's reason for being slow. */
  readonly floor: number;
  /** Seconds of a column, shown as a share of it. */
  readonly isShare: boolean;
  query(selector: string, window: string): string;
}

const share = { unit: "", isStacked: true, isShare: true, floor: 0.01 } as const;
const line = { isStacked: false, isShare: false } as const;
const p99 = (name: string, by = "") => (selector: string, window: string): string => `histogram_quantile(0.99, sum${by === "" ? "" : ` by (${by})`} (increase(${name}${selector}[${window}])))`;
const count = (name: string, by = "") => (selector: string, window: string): string => `sum${by === "" ? "" : ` by (${by})`} (increase(${name}${selector}[${window}]))`;

/** From the top: where time went, then why it had to wait. */
export const LANES: readonly Lane[] = [
  { id: "states", title: "Microstates, threads in each", ...share, query: (selector, window) => `${count("ogive_kernel_state_nanoseconds_total", "state")(selector, window)} / 1e9` },
  { id: "waits", title: "Waits that ended, seconds by cause", ...share, unit: "s", isShare: false, query: (selector, window) => `histogram_sum(${count("ogive_kernel_off_cpu_seconds", "cause")(selector, window)})` },
  { id: "queue", title: "Run queue, p99 from ready to running", ...line, unit: "s", floor: 200e-6, query: p99("ogive_kernel_run_queue_seconds") },
  { id: "ready", title: "Run queue, time of all threads", ...share, query: (selector, window) => `${count("ogive_kernel_run_queue_nanoseconds_total")(selector, window)} / 1e9` },
  { id: "locks", title: "Lock waits, seconds by kind", ...share, unit: "s", isShare: false, query: (selector, window) => `histogram_sum(${count("ogive_kernel_lock_wait_seconds", "kind")(selector, window)})` },
  { id: "held", title: "Locks held, p99", ...line, unit: "s", floor: 200e-6, query: p99("ogive_kernel_lock_hold_seconds") },
  { id: "switches", title: "Switches", ...line, unit: "", floor: 20, query: count("ogive_kernel_switches_total", "kind") },
  { id: "migrations", title: "Migrations to another CPU", ...line, unit: "", floor: 20, query: count("ogive_kernel_migrations_total") },
  { id: "faults", title: "Page faults", ...line, unit: "", floor: 20, query: count("ogive_kernel_page_faults_total", "kind") },
  { id: "interrupts", title: "Interrupts of the machine, CPUs busy with each", ...share, query: (_, window) => `${count("ogive_kernel_interrupt_nanoseconds_total", "interrupt")("", window)} / 1e9` },
];

/** `{pid="1"}` with what a lane wants of the window: seconds as PromQL writes them. */
export function laneQuery(lane: Lane, selector: string, step: number): string {
  return lane.query(selector, `${Math.max(1, Math.round(step))}s`);
}

/** What a lane has: by column, in the order of the series. */
export interface LaneData {
  readonly lane: Lane;
  readonly names: readonly string[];
  /** Of each series the value of each column, NaN where it has none. */
  readonly rows: readonly Float64Array[];
}

/** Values of a range answer by column: slot `first + i` ends at `(first + i) * step`. Times of stacked lanes are per second of the column. */
export function laneData(lane: Lane, series: readonly Series[], first: number, last: number, step: number): LaneData {
  const per = lane.isShare ? step : 1;
  const rows = series.map((one) => {
    const row = new Float64Array(last - first + 1).fill(NaN);
    for (const [t, text] of one.values ?? []) {
      const at = Math.round(t / step) - first;
      const value = Number(text.replace("Inf", "Infinity"));
      if (at >= 0 && at < row.length && Number.isFinite(value)) row[at] = value / per;
    }
    return row;
  });
  const all = series.map(({ metric }, at) => ({ name: Object.values(metric).join(" ") || "all", row: rows[at] as Float64Array, sum: rows[at]?.reduce((sum, value) => sum + (Number.isNaN(value) ? 0 : value), 0) ?? 0 }));
  // What is nothing all the time is no part of the picture.
  const kept = all.filter(({ sum }) => sum > 0).sort((a, b) => b.sum - a.sum);
  return { lane, names: kept.map(({ name }) => name), rows: kept.map(({ row }) => row) };
}

export interface Moved {
  readonly lane: Lane;
  readonly name: string;
  readonly now: number;
  readonly usual: number;
  /** Deviations from the usual. */
  readonly score: number;
}

function median(sorted: readonly number[]): number {
  const half = sorted.length >> 1;
  return sorted.length % 2 === 1 ? (sorted[half] as number) : ((sorted[half - 1] as number) + (sorted[half] as number)) / 2;
}

/** A column beside the others of its row, of those that were reported; null where these are too few to say what is usual. */
export function movedOf(lane: Lane, name: string, row: Float64Array, at: number, isReported: (at: number) => boolean): Moved | null {
  // A part of time or of a count that was left out of a report was nothing; a quantile of nothing is none.
  const isAmount = lane.isStacked || lane.unit === "";
  const filled = [...row].map((value, i) => (isAmount && Number.isNaN(value) && isReported(i) ? 0 : value));
  const now = filled[at] ?? NaN;
  const others = filled.filter((value, i) => i !== at && !Number.isNaN(value)).sort((a, b) => a - b);
  if (Number.isNaN(now) || others.length < USUAL_MIN) return null;
  const usual = median(others);
  const away = median(others.map((value) => Math.abs(value - usual)).sort((a, b) => a - b));
  const least = Math.max(MAD * away, Math.abs(usual) * 0.1, lane.floor / SCORE);
  return { lane, name, now, usual, score: (now - usual) / least };
}

/** What stands out in a column, that which does most first. */
export function movedIn(lanes: readonly LaneData[], at: number): Moved[] {
  const all = lanes.flatMap(({ lane, names, rows }) => {
    const isReported = (column: number): boolean => rows.some((row) => !Number.isNaN(row[column]));
    return rows.flatMap((row, i) => movedOf(lane, names[i] as string, row, at, isReported) ?? []);
  });
  return all.filter(({ score }) => Math.abs(score) >= SCORE).sort((a, b) => Math.abs(b.score) - Math.abs(a.score));
}

/** `Run queue, p99 from ready to running: 12 ms, usually 0.2 ms`, as a person reads it. */
export function nameOfMoved({ lane, name }: Moved): string {
  const [title] = lane.title.split(",");
  return name === "all" ? (title as string) : `${title}: ${name}`;
}

/** A value of a lane; shares of a column in plain digits, since `50m` is read as many things. */
export function laneText({ unit, isShare }: Lane, value: number): string {
  return isShare ? String(Number(value.toPrecision(3))) : formatValue(value, unit);
}

/** The selector without what it is not about, so that an address may hold `{pid="1"}` from any hand; null for what is none. */
export function whoOf(text: string): string | null {
  const selector = parseSelector(`x${text}`);
  return selector === null || selector.matchers.length === 0 ? null : formatSelector(selector).slice(1);
}
