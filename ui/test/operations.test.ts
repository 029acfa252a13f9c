import { expect, test } from "vitest";
import type { Series } from "../src/api.ts";
import { growthOf, ledgerOf } from "../src/operations.ts";

const one = (metric: Record<string, string>, value: number): Series => ({ metric, value: [1, String(value)] });

test("the ledger has what became of each sample, the protocol that lost most first", () => {
  const rows = ledgerOf([
    one({ protocol: "batch", outcome: "accepted", reason: "" }, 100),
    one({ protocol: "batch", outcome: "duplicate", reason: "" }, 10),
    one({ protocol: "statsd", outcome: "accepted", reason: "" }, 5),
    one({ protocol: "statsd", outcome: "rejected", reason: "too_old" }, 2),
    one({ protocol: "statsd", outcome: "refused", reason: "busy" }, 3),
    one({ protocol: "influx", outcome: "rejected", reason: "x" }, 0),
  ]);
  expect(rows).toEqual([
    { protocol: "statsd", accepted: 5, duplicate: 0, rejected: 2, refused: 3, reasons: [["busy", 3], ["too_old", 2]] },
    { protocol: "batch", accepted: 100, duplicate: 10, rejected: 0, refused: 0, reasons: [] },
  ]);
});

test("names that have another number of series are named, what grew most first", () => {
  const now = [one({ __name__: "a" }, 10), one({ __name__: "b" }, 5), one({ __name__: "new" }, 7)];
  const before = [one({ __name__: "a" }, 4), one({ __name__: "b" }, 5), one({ __name__: "gone" }, 3)];
  expect(growthOf(now, before).map(({ name }) => name)).toEqual(["new", "a", "gone"]);
  expect(growthOf(now, before, 1)).toEqual([{ name: "new", now: 7, before: 0 }]);
});
