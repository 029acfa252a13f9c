import { expect, test } from "vitest";
import { groupName } from "../src/controls.ts";
import { expressionFor } from "../src/picker.ts";

// Once, a click on a classic histogram wrote an expression that gives one line for each bound, or nothing.
test("a click on buckets asks for their distribution, on a counter for its rate", () => {
  const entry = (name: string, type: string) => ({ name, meta: { type, help: "", unit: "" } });
  expect(expressionFor(entry("rpc_seconds_bucket", "counter"))).toBe("rpc_seconds_bucket");
  expect(expressionFor(entry("rpc_seconds", "histogram"))).toBe("rpc_seconds");
  expect(expressionFor(entry("rpc_total", "counter"))).toBe("rate(rpc_total[1m])");
});

test("a group is named by its labels, as the server takes it", () => {
  expect(groupName({ route: '/a"b', code: "500" })).toBe('{route="/a\\"b", code="500"}');
  expect(groupName({})).toBe("{}");
});
