import { expect, test } from "vitest";
import { pointsOf, pointText, traceOf } from "../src/exemplars.ts";
import { setZone } from "../src/format.ts";

test("points are the largest first, and what is no number is none", () => {
  const one = (value: string, timestamp: number, labels = {}) => ({ value, timestamp, labels });
  const found = pointsOf([{ seriesLabels: {}, exemplars: [one("0.1", 10), one("NaN", 11), one("0.5", 12)] }, { seriesLabels: {}, exemplars: [one("0.2", 13, { trace_id: "ab" })] }]);
  expect(found.map(({ value }) => value)).toEqual([0.5, 0.2, 0.1]);
  expect(found.map(({ labels }) => traceOf(labels))).toEqual(["", "ab", ""]);
});

test("a point says its time, its value and its labels", () => {
  setZone("utc");
  expect(pointText({ t: 60, value: 0.05, labels: { trace_id: "ab" } }, "s")).toBe("00:01:00  50 ms  trace_id=ab");
  expect(pointText({ t: 60, value: 5, labels: {} }, "")).toBe("00:01:00  5");
});
