import { expect, test } from "vitest";
import { blocks, condition, follow, outlook, type Course, type Destination, type Segment } from "../src/spool.ts";

function segment(bytes: number, done: Record<string, number>): Segment {
  return { first: 0, end: 1, bytes, arrival_first_ms: 0, arrival_last_ms: 1, done };
}

function destination(lag: number, failures: number[]): Destination {
  const endpoints = failures.map((count) => ({ url: "", weight: 1, in_flight: 0, latency_seconds: 0, sent_total: 0, busy_total: 0, failures: count, pause_seconds: 0 }));
  const totals = { lag_bytes: 0, lag_batches: 0, acknowledged_per_second: 0, acknowledged_bytes_per_second: 0, acknowledged_batches_total: 0, failures_total: 0, busy_total: 0, refused_batches_total: 0 };
  return { name: "dc1", lag_seconds: lag, ...totals, problem: null, gaps: { made_total: 0, batches_total: 0, samples_total: 0, waiting: [], told: [] }, endpoints };
}

test("blocks fill the width in the order of the spool, by bytes", () => {
  const found = blocks([segment(100, { a: 1 }), segment(0, {}), segment(299, { a: 0.5 })], "a");
  expect(found.map(({ from, width, done }) => [from, width, done])).toEqual([[0, 25, 1], [25, 0.25, 0], [25.25, 74.75, 0.5]]);
  expect(blocks([], "a")).toEqual([]);
});

test("a destination is behind only when it lags, and gone only when no endpoint answers", () => {
  expect(condition(destination(0.3, [4]))).toEqual({ level: "good", text: "up to date" });
  expect(condition(destination(10, [0, 3]))).toEqual({ level: "warn", text: "behind" });
  expect(condition(destination(61, [1, 3]))).toEqual({ level: "bad", text: "does not answer" });
  // One that has no endpoint by now does not lack an answer.
  expect(condition(destination(61, []))).toEqual({ level: "bad", text: "behind" });
});

test("the course of a lag shows where it goes, once it is long enough", () => {
  const course = (...points: [number, number][]): Course => points.reduce<Course>((before, [time, bytes]) => follow(before, time, bytes), []);
  expect(outlook([])).toBe("");
  expect(outlook(course([0, 900], [4, 800]))).toBe("");
  expect(outlook(course([0, 900], [10, 800]))).toBe("caught up in about 1m20s");
  expect(outlook(course([0, 800], [10, 900]))).toBe("growing");
  expect(outlook(course([0, 800], [10, 800]))).toBe("standing still");
  expect(outlook(course([0, 800], [10, 0]))).toBe("");
  // What is older than a minute, or of a clock that was set back since, shows nothing.
  expect(course([0, 5], [50, 4], [100, 3])).toEqual([[50, 4], [100, 3]]);
  expect(course([50, 5], [10, 4])).toEqual([[10, 4]]);
});
