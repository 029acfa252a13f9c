import { expect, test } from "vitest";
import type { StoredEvent } from "../src/api.ts";
import { clusters, words, type Plot } from "../src/events.ts";

const event = (time_ms: number, text: string, labels: Record<string, string> = {}): StoredEvent => ({ time_ms, kind: "deploy", text, labels, series: "ogive_event" });

test("events near each other share a line, and those outside the plot have none", () => {
  const plot: Plot = { left: 10, top: 0, width: 100, height: 50, x: (t) => 10 + t };
  const found = clusters([event(104_000, "d"), event(-1_000, "before"), event(7_000, "b"), event(4_000, "a"), event(50_000, "c"), event(101_000, "after")], plot);
  expect(found.map(({ x, events }) => [x, events.map((one) => one.text)])).toEqual([
    [14, ["a", "b"]],
    [60, ["c"]],
  ]);
});

test("an event says its first line and its labels", () => {
  expect(words(event(1_700_000_000_000, "\ndeploy v42\nmore", { service: "checkout" }))).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d {2}deploy: deploy v42 \(service=checkout\)$/);
});
