/** Slow traces as the server answers them, and what the panel shows of them. Pure. */

import type { Labels } from "./api.ts";
import { formatClock, formatCount, formatShare, formatValue } from "./format.ts";
import { formatSelector } from "./selector.ts";

export interface Stage {
  readonly name: string;
  readonly class: "infra" | "logic";
  readonly start_ns: number;
  readonly ns: number;
  readonly percent: number;
}

export interface Mark {
  readonly name: string;
  /** Since the message's first stamp. */
  readonly ns: number;
}

export interface ClockNote {
  readonly mode: string;
  readonly source: string;
  readonly frequency_hz: number;
  readonly err_ns: number;
  readonly read_ns: number;
  readonly epoch: number;
}

interface Found {
  /** End of the cell that counted it, seconds since the epoch. */
  readonly t: number;
  readonly labels: Labels;
  readonly cell: { readonly labels: Labels; readonly selector: string; readonly t: number } | null;
}

export interface Trace extends Found {
  readonly path: string;
  readonly publisher: string;
  /** More digits than a number carries. */
  readonly published_ns: string;
  readonly total_ns: number;
  readonly limit_ns: number;
  readonly gap_ns: number | null;
  readonly epoch: number;
  readonly clamped: number;
  readonly missing: readonly string[];
  readonly worst: string | null;
  readonly stages: readonly Stage[];
  /** Marks made on the message's list, those of them that were lost, and the first of the others. */
  readonly listed: number;
  readonly listed_lost: number;
  readonly marks: readonly Mark[];
  readonly clock: ClockNote;
}

/** A text that should be a slow trace and is none. */
export interface Raw extends Found {
  readonly raw: string;
  readonly error: string;
}

export interface Traces {
  readonly series: number;
  readonly examined: number;
  readonly invalid: number;
  readonly complete: boolean;
  readonly traces: readonly (Trace | Raw)[];
}

export function isTrace(one: Trace | Raw): one is Trace {
  return "stages" in one;
}

/** What a stored line says in short, and the id of its trace; null for any other text. */
export function lineSummary(text: string): { text: string; id: string } | null {
  const head = /^ogive-trace=[12] path=(\S+) publisher=(\S+) published_ns=(-?\d+) total_ns=(\d+) /.exec(text);
  if (head === null) return null;
  const stages = [...text.matchAll(/ stage=([^, ]+),\w+,(\d+),\d+,([\d.]+)/g)];
  const worst = stages.reduce((a, b) => (Number(b[2]) > Number(a[2]) ? b : a), stages[0] as RegExpExecArray);
  const [, path, publisher, id, total] = head as unknown as [string, string, string, string, string];
  try {
    const names = `${decodeURIComponent(path)} of ${decodeURIComponent(publisher)}`;
    const where = worst === undefined ? "" : `, ${decodeURIComponent(worst[1] as string)} ${worst[3]} %`;
    return { text: `${names}: ${formatNs(Number(total))}${where}`, id };
  } catch {
    // An escape that is none.
    return null;
  }
}

/** What names a trace in an address: nanoseconds since 1970 hardly ever meet. */
export function idOf(one: Trace | Raw): string {
  return isTrace(one) ? one.published_ns : `raw-${one.t}`;
}

/** The one with this id; else the one nearest to the value that was clicked, by ratio; else the first. Its index, or -1. */
export function chosenIndex(traces: readonly (Trace | Raw)[], id: string | null, seconds: number | null): number {
  const known = traces.findIndex((one) => idOf(one) === id);
  if (known >= 0 || traces.length === 0) return known;
  if (seconds === null || !(seconds > 0)) return 0;
  const far = (one: Trace | Raw): number => (isTrace(one) && one.total_ns > 0 ? Math.abs(Math.log(one.total_ns / 1e9 / seconds)) : Infinity);
  return traces.reduce((best, one, at) => (far(one) < far(traces[best] as Trace | Raw) ? at : best), 0);
}

export interface Bar {
  readonly stage: Stage;
  /** Percent of the width. */
  readonly left: number;
  readonly width: number;
}

/** A part of the whole that can still be seen. */
const WIDTH_LEAST = 0.35;

/** Where each stage lies in the total. One too short to be seen is drawn as the least width, and never over the edge. */
export function barsOf(trace: Trace): Bar[] {
  const total = Math.max(1, trace.total_ns);
  return trace.stages.map((stage) => {
    const width = Math.max(WIDTH_LEAST, (stage.ns / total) * 100);
    return { stage, left: Math.min((stage.start_ns / total) * 100, 100 - width), width };
  });
}

/** A mark of the list as it is drawn: where, and how long after the one before of its name. */
export interface Placed {
  readonly mark: Mark;
  readonly left: number;
  readonly since: number | null;
}

export function placedMarks(trace: Trace): Placed[] {
  const before = new Map<string, number>();
  return trace.marks.map((mark) => {
    const last = before.get(mark.name);
    before.set(mark.name, mark.ns);
    const left = Math.min(100, (mark.ns / Math.max(1, trace.total_ns)) * 100);
    return { mark, left, since: last === undefined ? null : Math.max(0, mark.ns - last) };
  });
}

/** What the list has beyond the marks that are shown. */
export function listText(trace: Trace): string | null {
  if (trace.listed === trace.marks.length) return null;
  const lost = trace.listed_lost > 0 ? `, the first ${formatCount(trace.listed_lost)} overwritten before it was finished` : "";
  return `${formatCount(trace.listed)} marks on its list, ${formatCount(trace.marks.length)} shown${lost}.`;
}

/** Nanoseconds and share of each class. */
export function classesOf(trace: Trace): { name: Stage["class"]; ns: number; share: number }[] {
  return (["infra", "logic"] as const).map((name) => {
    const ns = trace.stages.filter((stage) => stage.class === name).reduce((sum, stage) => sum + stage.ns, 0);
    return { name, ns, share: ns / Math.max(1, trace.total_ns) };
  });
}

export function formatNs(ns: number): string {
  return formatValue(ns / 1e9, "s", 3);
}

/** When it was published, to the millisecond, on the local wall clock. */
export function publishedAt(trace: Trace): string {
  const ms = Number(BigInt(trace.published_ns) / 1_000_000n);
  return `${formatClock(ms / 1000)}.${String(((ms % 1000) + 1000) % 1000).padStart(3, "0")}`;
}

/** `journal 99.93 %`. */
export function worstOf(trace: Trace): string {
  const stage = trace.stages.find((one) => one.name === trace.worst);
  return stage === undefined ? "" : `${stage.name} ${stage.percent.toFixed(2)} %`;
}

/** The clock in words. */
export function clockText(clock: ClockNote): string {
  const rate = clock.frequency_hz > 0 ? ` at ${formatValue(clock.frequency_hz, "Hz", 5)}` : "";
  return `${clock.mode}, ${clock.source}${rate}; error at most ${formatCount(clock.err_ns)} ns; a stamp costs ${clock.read_ns} ns; epoch ${clock.epoch}`;
}

/** A stamp that costs more than this is a call into the kernel or a trap; counters take 10 to 40 ns. */
const READ_NS_MAX = 100;

/** What a reader must know before believing the picture. */
export function doubts(trace: Trace): string[] {
  const out: string[] = [];
  if (trace.missing.length > 0) out.push(`Not stamped: ${trace.missing.join(", ")}. The stage behind holds their time.`);
  if (trace.clamped > 0) out.push(`${trace.clamped} stamps were before an earlier one, and were taken for that one.`);
  if (trace.clock.epoch !== trace.epoch) out.push("The clock broke between the message and its report: its time of day may be wrong, its stages are not.");
  if (trace.clock.mode !== "counter") out.push(`The clock was read through the ${trace.clock.mode}: each stage holds the cost of a slower reading.`);
  else if (trace.clock.read_ns > READ_NS_MAX) out.push(`A stamp cost ${trace.clock.read_ns} ns: each stage holds that much of its own measurement.`);
  return out;
}

/** The histogram of a stage of the same path. */
export function stageSelector(trace: Trace, stage: Stage): string | null {
  if (trace.cell === null) return null;
  const labels: Labels = { ...trace.cell.labels, stage: stage.name, class: stage.class };
  const name = labels["__name__"] ?? "";
  delete labels["__name__"];
  return formatSelector({ name, matchers: Object.entries(labels).map(([label, value]) => ({ label, op: "=", value })) });
}

/** What a screen reader says of a trace. */
export function sentence(trace: Trace): string {
  return `${formatNs(trace.total_ns)} in ${trace.path}, ${worstOf(trace)}; ${classesOf(trace).map(({ name, share }) => `${name} ${formatShare(share)}`).join(", ")}`;
}
