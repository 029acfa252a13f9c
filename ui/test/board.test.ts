import { expect, test } from "vitest";
import { ALL, arranged, boardOf, boardOfHash, boardToHash, clamped, filled, formatBoardState, nameOf, parseBoardState, rowsOf, type Board, type Place } from "../src/board.ts";
import { expression, isGrafana, ofGrafana } from "../src/grafana.ts";
import { readyBoards, readySelectors } from "../src/readyboards.ts";

const place = (x: number, y: number, w: number, h: number): Place => ({ x, y, w, h });

test("panels never lie over each other, and what is moved stays where it was put", () => {
  let seed = 7;
  const random = (below: number): number => (seed = (seed * 16807) % 2147483647) % below;
  for (let round = 0; round < 300; round++) {
    const panels = Array.from({ length: 1 + random(9) }, () => place(random(14), random(9), 1 + random(14), 1 + random(5)));
    const kept = random(panels.length);
    const out = arranged(panels, kept);
    expect(out[kept]).toEqual(clamped(panels[kept] as Place));
    for (const [i, a] of out.entries()) {
      expect(a.x >= 0 && a.x + a.w <= 12 && a.y >= 0 && a.w >= 2).toBe(true);
      for (const b of out.slice(i + 1)) expect(a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h).toBe(false);
    }
    expect(arranged(arranged(out))).toEqual(arranged(out));
  }
  expect(arranged([place(0, 5, 6, 2), place(0, 9, 6, 2)])).toEqual([place(0, 0, 6, 2), place(0, 2, 6, 2)]);
  expect(rowsOf([place(0, 0, 6, 2), place(6, 3, 6, 4)])).toBe(7);
});

test("variables stand for values, as patterns", () => {
  expect(filled('x{host=~"$host", job=~"${job}"}', { host: "a.b", job: ALL })).toBe('x{host=~"a\\\\.b", job=~".*"}');
  expect(filled("$unknown ${other:csv}", {})).toBe("$unknown ${other:csv}");
  expect(filled('x{h=~"$h"}', { h: 'a"b' })).toBe('x{h=~"a\\"b"}');
});

test("the address holds a board, its range and its variables", async () => {
  const address = "?name=shop&version=3&range=1d&var-host=a&tv=1";
  expect(formatBoardState(parseBoardState(address))).toBe(address);
  expect(parseBoardState("?start=1700000000&end=1700000100").range).toEqual({ start: 1_700_000_000, end: 1_700_000_100 });
  expect(parseBoardState("")).toEqual({ name: null, version: null, ready: null, range: null, values: {}, tv: false, edit: false });
  const board: Board = { name: "shop", title: "Läden", variables: [{ name: "host", label: "host" }], panels: [{ title: "Ü", queries: ["up"], kind: "lines", ...place(0, 0, 6, 4) }] };
  const hash = await boardToHash(board);
  expect(hash).toMatch(/^b=[\w-]+$/);
  expect(await boardOfHash(`#${hash}`)).toEqual(board);
  for (const bad of ["", "#b=", "#b=AAAA", "#c=x", `#${hash.slice(0, -9)}`]) expect(await boardOfHash(bad)).toBeNull();
  expect(nameOf("Checkout (EU)")).toBe("checkout-eu");
  expect(nameOf("   ")).toBe("board");
});

test("what is no board is none, and what is senseless in one is left out", () => {
  for (const bad of [null, 1, "x", {}, { panels: 1 }]) expect(boardOf(bad)).toBeNull();
  const board = boardOf({ panels: [null, { kind: "pie", queries: [1, "up"], x: 99, w: "wide" }], variables: [{ name: "x" }] });
  expect(board?.panels).toHaveLength(2);
  expect(board?.panels[1]).toMatchObject({ kind: "auto", queries: ["up"], w: 6 });
  expect(board?.variables).toEqual([]);
});

test("dashboards of Grafana's become boards, with a report of what had no counterpart", () => {
  const panel = (type: string, expr: string, more: object = {}): object => ({ type, title: type, gridPos: { x: 0, y: 0, w: 12, h: 8 }, targets: [{ expr }], ...more });
  const imported = ofGrafana({
    title: "Node Exporter",
    schemaVersion: 39,
    time: { from: "now-6h", to: "now" },
    templating: { list: [{ type: "query", name: "host", query: { query: "label_values(up{job=\"$job\"}, instance)" } }, { type: "custom", name: "size", query: "1,2" }] },
    annotations: { list: [{ builtIn: 1 }, { name: "deploys" }] },
    panels: [
      panel("timeseries", 'rate(x{instance=~"$host"}[$__rate_interval])', { gridPos: { x: 12, y: 0, w: 12, h: 8 } }),
      panel("stat", "up"),
      panel("geomap", "up"),
      panel("table", ""),
      { type: "row", panels: [panel("heatmap", "sum by (le) (rate(x_bucket[1m]))", { transformations: [{}] })] },
      { type: "text", title: "About", options: { content: "words" }, gridPos: { x: 0, y: 30, w: 24, h: 3 } },
      panel("graph", "a", { targets: [{ expr: "a" }, { expr: "b", hide: true }, { rawSql: "select 1" }] }),
    ],
  });
  expect(imported?.board).toMatchObject({ name: "node-exporter", title: "Node Exporter", range: "6h", variables: [{ name: "host", label: "instance", match: 'up{job=".*"}' }] });
  expect(imported?.board.panels.map(({ kind, queries }) => [kind, ...queries])).toEqual([["lines", 'rate(x{instance=~"$host"}[1m])'], ["number", "up"], ["heatmap", "sum by (le) (rate(x_bucket[1m]))"], ["text"], ["lines", "a"]]);
  expect(imported?.board.panels[0]).toMatchObject({ x: 6, w: 6 });
  expect(imported?.panels).toEqual({ taken: 5, left: 2 });
  const report = imported?.report.join("\n") ?? "";
  for (const part of ['"geomap" of type "geomap" has no counterpart', '"table" of type "table" has no expression', 'variable "size"', "1 annotations", "fixed windows", "transformations", "1 of its queries are not PromQL"]) expect(report).toContain(part);
  expect(isGrafana({ name: "x", title: "x", panels: [] })).toBe(false);
  expect(ofGrafana({ rows: [{ panels: [{ type: "singlestat", span: 6, targets: [{ expr: "up" }] }] }] })?.board.panels[0]).toMatchObject({ kind: "number", w: 6 });
  expect(expression("x[[[host]]]").query).toBe("x[${host}]");
});

test("ready-made boards are there when their series are", () => {
  expect(readyBoards(new Set())).toEqual([]);
  expect(readyBoards(new Set(["ogive_hiccup_seconds"])).map(({ board }) => board.name)).toEqual(["ogive"]);
  const found = readyBoards(new Set(["node_load1", "ogive_hiccup_seconds", "pg_stat_activity_count"]));
  expect(found.map(({ board }) => board.name)).toEqual(["ogive", "host", "postgresql"]);
  expect(found[1]?.board.panels.map(({ title }) => title)).toEqual(["Load", "How late CPUs wake a thread"]);
  // A variable whose series are not there would be an empty list.
  expect(found[1]?.board.variables).toEqual([]);
});

test("a panel of a check is there when there is one of its kind", () => {
  const names = new Set(["ogive_check_seconds", "ogive_check_up"]);
  expect(readySelectors(new Set(["ogive_check_up"]))).toEqual(['ogive_check_up{kind="http"}', 'ogive_check_up{kind="postgres"}']);
  expect(readyBoards(names)).toEqual([]);
  const [postgres, ...rest] = readyBoards(new Set([...names, 'ogive_check_up{kind="postgres"}']));
  expect([postgres?.board.name, postgres?.board.panels.map(({ title }) => title), rest]).toEqual(["postgresql", ["Databases that answer"], []]);
});
