import { expect, test } from "vitest";
import { resultUnit, unitOfName } from "../src/units.ts";

const units: Record<string, string> = { rpc_seconds: "s", heap_bytes: "By", plain: "" };

test.each([
  ["heap_bytes", "By"],
  ['heap_bytes{host="a"}', "By"],
  ["sum by (host) (heap_bytes)", "By"],
  ["max(heap_bytes) by (host)", "By"],
  ["topk(3, max_over_time(heap_bytes[5m]))", "By"],
  ["clamp(heap_bytes, 0, 1e9)", "By"],
  ["histogram_quantile(0.99, sum by (route) (increase(rpc_seconds[5m])))", "s"],
  ["avg(histogram_avg(rpc_seconds))", "s"],
  ["rate(rpc_seconds[5m])", ""],
  ["histogram_count(rpc_seconds)", ""],
  ["histogram_fraction(0, 0.1, rpc_seconds)", ""],
  ["heap_bytes / heap_bytes", ""],
  ["sum(heap_bytes) / sum(heap_bytes)", ""],
  ["plain", ""],
  ["unknown", ""],
  ["1 + 1", ""],
])("%s is in %s", (expression, unit) => expect(resultUnit(expression, (name) => units[name])).toBe(unit));

test("a name says its unit by custom", () => {
  expect(["rpc_seconds", "rpc_seconds_bucket", "heap_bytes", "rpc_seconds_total", "seconds"].map(unitOfName)).toEqual(["s", "s", "By", "s", ""]);
});
