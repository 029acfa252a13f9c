import { expect, test } from "vitest";
import { coursesOf, inView, jobsOf, NO_JOB, prefixOf, rowsOf, topsOf, type Entry } from "../src/serieslist.ts";

const entry = (name: string, type = "gauge"): Entry => ({ name, meta: { type, help: "", unit: "" } });
const shown = (rows: ReturnType<typeof rowsOf>): string[] => rows.map((row) => (row.kind === "group" ? `# ${row.title} ${row.count}` : row.kind === "item" ? row.entry.name : "labels"));

test("names stand by their prefix or by their type, and the labels of the chosen one behind it", () => {
  const entries = [entry("go_gc", "histogram"), entry("go_threads"), entry("up"), entry("node_load1"), entry("zed_one")];
  expect(shown(rowsOf(entries, "prefix", "go_threads"))).toEqual(["# go_ 2", "go_gc", "go_threads", "labels", "# Others 3", "node_load1", "up", "zed_one"]);
  expect(shown(rowsOf(entries, "type", null))).toEqual(["# Histograms 1", "go_gc", "# Gauges 4", "go_threads", "up", "node_load1", "zed_one"]);
  expect([prefixOf("http_requests"), prefixOf("job:x"), prefixOf("up"), prefixOf("a.b")]).toEqual(["http", "job", "", "a"]);
});

test("only what is in view is drawn, of however many", () => {
  const rows = rowsOf(Array.from({ length: 5_000 }, (_, i) => entry(`m_${i}`)), "prefix", "m_7");
  const tops = topsOf(rows, 100);
  expect(rows).toHaveLength(5_002);
  expect(tops[rows.length]).toBe(30 + 5_000 * 32 + 100);
  for (const top of [0, 1, 50_000, 160_130]) {
    const [first, last] = inView(tops, top, 800);
    expect(last - first).toBeLessThan(50);
    // Every pixel that is seen belongs to a row that is drawn.
    expect(tops[first] as number).toBeLessThanOrEqual(top);
    expect(tops[last + 1] as number).toBeGreaterThanOrEqual(Math.min(top + 800, tops[rows.length] as number));
  }
  expect(inView(topsOf([], 0), 0, 800)).toEqual([0, -1]);
});

test("the course of a counter is what it grew by", () => {
  const of = (series: string, ...values: number[]): Parameters<typeof coursesOf>[0][number] => ({ metric: { series }, values: values.map((value, at) => [at, String(value)]) });
  const found = coursesOf([of("c", 1, 4, 9, 2, 3), of("g", 1, 4, NaN, 2), { metric: {}, values: [] }], (name) => name === "c");
  expect([...found]).toEqual([["c", [3, 5, 0, 1]], ["g", [1, 4, 2]]]);
});

test("names stand by the jobs that send them, and the labels of the chosen one once", () => {
  const jobs = jobsOf([{ metric: { __name__: "up", job: "b" } }, { metric: { __name__: "up", job: "a" } }, { metric: { __name__: "rpc", job: "b" } }, { metric: { __name__: "own" } }]);
  const entries = [entry("own"), entry("rpc"), entry("up")].map((one) => ({ ...one, jobs: jobs.get(one.name) ?? [] }));
  expect(shown(rowsOf(entries, "job", "up"))).toEqual(["# a 1", "up", "labels", "# b 2", "rpc", "up", `# ${NO_JOB} 1`, "own"]);
});
