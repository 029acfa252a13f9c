import { expect, test } from "vitest";
import { laneData, laneQuery, LANES, laneText, likeliest, movedIn, processesOf, whoOf, type Lane } from "../src/why.ts";

const lane = (id: string): Lane => LANES.find((one) => one.id === id) as Lane;

test("processes are listed once, those of a name also together", () => {
  const run = "ogive_kernel_run_queue_seconds";
  const found = processesOf([
    { __name__: run, pid: "10", comm: "nginx", source: "bpf" },
    { __name__: "ogive_kernel_state_nanoseconds_total", pid: "10", comm: "nginx", source: "bpf", state: "user" },
    { __name__: run, pid: "9", comm: "nginx", source: "bpf" },
    { __name__: run, pid: "other", source: "bpf" },
    { __name__: run, source: "bpf" },
  ]);
  expect(found.map(({ text }) => text)).toEqual(["nginx, 2 together", "nginx 9", "nginx 10", "others"]);
  expect(found[2]?.selector).toBe('{comm="nginx", pid="10"}');
});

test("the process of a picture is known by its labels and names", () => {
  const all = processesOf([{ comm: "redis", pid: "1" }, { comm: "checkout", pid: "2" }, { comm: "ogive", pid: "3" }]);
  expect(likeliest(all, 'http_seconds{job="checkout"}')?.labels["pid"]).toBe("2");
  expect(likeliest(all, "sum(rate(ogive_ingest_seconds[1m]))")?.labels["pid"]).toBe("3");
  expect(likeliest(all, 'x{pid="1", job="checkout"}')?.labels["pid"]).toBe("1");
  expect(likeliest([], "x")).toBe(null);
});

test("a selector of an address is taken when it is one", () => {
  expect(whoOf('{pid="1"}')).toBe('{pid="1"}');
  for (const text of ["", "{}", "1", '{pid="1"} or y', '{pid="1"}[5m]']) expect(whoOf(text)).toBe(null);
});

test("lanes ask for what happened within a column", () => {
  expect(laneQuery(lane("states"), '{pid="1"}', 15)).toBe('sum by (state) (increase(ogive_kernel_state_nanoseconds_total{pid="1"}[15s])) / 1e9');
  const data = laneData(lane("states"), [{ metric: { state: "user" }, values: [[150, "3"], [165, "NaN"], [180, "+Inf"]] }, { metric: { state: "stop" }, values: [[150, "0"]] }], 10, 12, 15);
  expect(data.names).toEqual(["user"]);
  expect([...(data.rows[0] as Float64Array)]).toEqual([0.2, NaN, NaN]);
  expect(laneText(lane("states"), 0.0502)).toBe("0.0502");
  expect(laneText(lane("queue"), 0.012)).toBe("12 ms");
});

test("what is unusual in a column is found, and noise is not", () => {
  const noise = Float64Array.from({ length: 20 }, (_, i) => 1 + 0.05 * Math.sin(i * 7));
  const slow = noise.slice();
  slow[12] = 3;
  const states = { lane: lane("states"), names: ["ready", "user"], rows: [slow, noise] };
  const found = movedIn([states], 12);
  expect(found.map(({ name, now }) => [name, now])).toEqual([["ready", 3]]);
  expect(found[0]?.usual).toBeCloseTo(1, 1);
  expect(movedIn([states], 3)).toEqual([]);
});

test("columns before the first report are not what is usual, and too few say nothing", () => {
  const row = new Float64Array(60).fill(NaN);
  row.fill(0.03, 45);
  expect(movedIn([{ lane: lane("interrupts"), names: ["timer"], rows: [row] }], 50)).toEqual([]);
  const few = new Float64Array(60).fill(NaN);
  few.fill(0.03, 55, 60);
  few[59] = 9;
  expect(movedIn([{ lane: lane("interrupts"), names: ["timer"], rows: [few] }], 59)).toEqual([]);
  // A state that a report leaves out was nothing.
  const stop = new Float64Array(60).fill(NaN);
  stop[50] = 9;
  expect(movedIn([{ lane: lane("states"), names: ["lock", "stop"], rows: [row, stop] }], 50).map(({ name }) => name)).toEqual(["stop"]);
});
