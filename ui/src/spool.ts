/** What a broker reports of itself at `/v1/broker`, and what follows from it. Pure. */

import { formatDuration } from "./format.ts";

export interface Segment {
  readonly first: number;
  readonly end: number;
  readonly bytes: number;
  readonly arrival_first_ms: number;
  readonly arrival_last_ms: number;
  /** Destination to the share of its records that the destination has, 0 to 1. */
  readonly done: Readonly<Record<string, number>>;
}

export interface Gap {
  readonly reason: string;
  readonly batches: number;
  readonly samples: number;
  /** How many series lack something, and those that lack most. */
  readonly series: number;
  readonly largest: readonly { readonly series: string; readonly samples: number }[];
  readonly from_ms: number | null;
  readonly to_ms: number | null;
}

export interface Endpoint {
  readonly url: string;
  readonly weight: number;
  readonly in_flight: number;
  readonly latency_seconds: number;
  readonly sent_total: number;
  readonly busy_total: number;
  readonly failures: number;
  readonly pause_seconds: number;
}

export interface Destination {
  readonly name: string;
  readonly lag_seconds: number;
  readonly lag_bytes: number;
  readonly lag_batches: number;
  readonly acknowledged_per_second: number;
  readonly acknowledged_bytes_per_second: number;
  readonly acknowledged_batches_total: number;
  readonly failures_total: number;
  readonly busy_total: number;
  readonly refused_batches_total: number;
  readonly problem: { readonly time_ms: number; readonly text: string } | null;
  readonly gaps: { readonly made_total: number; readonly batches_total: number; readonly samples_total: number; readonly waiting: readonly Gap[]; readonly told: readonly Gap[] };
  readonly endpoints: readonly Endpoint[];
}

export interface Broker {
  readonly name: string;
  readonly now_ms: number;
  readonly spool: { readonly bytes: number; readonly bytes_max: number; readonly age_max_seconds: number | null; readonly segments: readonly Segment[] };
  readonly destinations: readonly Destination[];
}

/** Below it a destination counts as up to date: what is in flight is a second old at most. */
const CURRENT_SECONDS = 2;
/** As `ogive broker status`: a destination that restarts is not yet worth a word. */
const BEHIND_SECONDS = 60;

export type Level = "good" | "warn" | "bad";

/** How a destination does, in two words. */
export function condition(one: Destination): { level: Level; text: string } {
  if (one.lag_seconds <= CURRENT_SECONDS) return { level: "good", text: "up to date" };
  const gone = one.endpoints.length > 0 && one.endpoints.every((endpoint) => endpoint.failures > 0);
  if (gone) return { level: one.lag_seconds > BEHIND_SECONDS ? "bad" : "warn", text: "does not answer" };
  return { level: one.lag_seconds > BEHIND_SECONDS ? "bad" : "warn", text: "behind" };
}

/** A stretch of a picture of the spool, in per cent of its width, and how much of it a destination has. */
export interface Block {
  readonly from: number;
  readonly width: number;
  readonly done: number;
  readonly segment: Segment;
}

/** The spool from its oldest to its newest byte, as a destination sees it. */
export function blocks(segments: readonly Segment[], name: string): Block[] {
  // A segment without a byte is seen too.
  const size = (segment: Segment): number => Math.max(segment.bytes, 1);
  const total = segments.reduce((sum, segment) => sum + size(segment), 0);
  let before = 0;
  return segments.map((segment) => {
    const from = (before / total) * 100;
    before += size(segment);
    return { from, width: (size(segment) / total) * 100, done: segment.done[name] ?? 0, segment };
  });
}

/** Lag in bytes at some times, seconds, oldest first. */
export type Course = readonly (readonly [number, number])[];

/** So much of a course shows where it goes. */
const COURSE_SECONDS = 60;

/** A course with one more point, without what is too old to count. */
export function follow(course: Course, now: number, bytes: number): Course {
  return [...course.filter(([time]) => time > now - COURSE_SECONDS && time < now), [now, bytes]];
}

/** Where a lag goes, when that is known: grows, or will be gone in so long. */
export function outlook(course: Course): string {
  const [first, last] = [course[0], course.at(-1)];
  if (first === undefined || last === undefined || last[0] - first[0] < 5 || last[1] === 0) return "";
  const slope = (last[1] - first[1]) / (last[0] - first[0]);
  if (slope > 0) return "growing";
  return slope === 0 ? "standing still" : `caught up in about ${formatDuration(Math.max(Math.ceil(-last[1] / slope), 1))}`;
}
