import { expect, test } from "vitest";
import { barsOf, blocksOf, callsOf, differenceOf, FRAMES_MAX, pathOf, type Block, type Call } from "../src/folded.ts";
import { entry } from "../src/landscape.ts";

test("stacks add up to calls, the same stack twice too", () => {
  const calls = callsOf("a;b 3\na;c 2\r\n\na;b 1\na 4\n");
  expect([calls.total, calls.frames, calls.depth]).toEqual([10, 3, 2]);
  const a = calls.root.calls.get("a") as Call;
  expect([a.total, a.self, a.calls.get("b")?.total]).toEqual([10, 4, 4]);
  expect(pathOf(a.calls.get("b") as Call)).toEqual(["a", "b"]);
  // Names have spaces, and numbers are the last word.
  expect([...callsOf("operator new (int) 7").root.calls.keys()]).toEqual(["operator new (int)"]);
  // A task names itself: only a line feed ends a line here.
  expect([...callsOf("a\u2028b 7").root.calls.keys()]).toEqual(["a\u2028b"]);
});

test("the texts of a recording are one", () => {
  const calls = callsOf(["a;b 3\na 1\n", "a;b 2\n"], ["a 5\n", "c 5\n"]);
  expect([calls.total, calls.before, calls.root.calls.get("a")?.calls.get("b")?.total]).toEqual([6, 10, 5]);
});

test("what is no stack is refused with its line", () => {
  expect(() => callsOf("a 1\nb")).toThrow("line 2: no stack and number");
  expect(() => callsOf("a -1")).toThrow("line 1");
  expect(() => callsOf("a 99999999999999999")).toThrow("too large");
  const deep = (frames: number): string => `${Array.from({ length: frames }, (_, i) => `f${i}`).join(";")} 1`;
  expect(callsOf(deep(FRAMES_MAX)).depth).toBe(FRAMES_MAX);
  expect(() => callsOf(deep(FRAMES_MAX + 1))).toThrow(`more than ${FRAMES_MAX} frames`);
});

test("bars of a row are as wide as their part, and beside each other", () => {
  const { root } = callsOf("a;b 3\na;c 1\nd 4\n");
  const at = (name: string): number[] => barsOf(root, 0).filter(({ call }) => call.name === name).flatMap(({ from, to }) => [from, to]);
  expect([at("a"), at("b"), at("c"), at("d")]).toEqual([[0, 0.5], [0, 0.375], [0.375, 0.5], [0.5, 1]]);
  const a = root.calls.get("a") as Call;
  expect(barsOf(a, 0).map(({ call, to }) => [call.name, to])).toEqual([["all", 1], ["a", 1], ["c", 1], ["b", 0.75]]);
  expect(barsOf(root, 0.2).some(({ call }) => call.name === "c")).toBe(false);
});

test("a difference is one of shares", () => {
  const calls = callsOf("a 3\nb 1\n", "a 10\nc 10\n");
  expect(differenceOf(calls.root.calls.get("a") as Call, calls)).toBe(0.25);
  expect(differenceOf(calls.root.calls.get("c") as Call, calls)).toBe(-0.5);
  expect(differenceOf(calls.root, callsOf("a 1"))).toBe(null);
});

test("blocks stand on their caller, apart from each other, with grounds like their times", () => {
  const lines = Array.from({ length: 300 }, (_, i) => `m;${i % 7};${i % 31};${i} ${1 + ((i * 37) % 50)}`).join("\n");
  const calls = callsOf(lines);
  const blocks = blocksOf(calls, 1e6);
  expect(blocks.length).toBe(calls.frames + 1);
  const of = new Map(blocks.map((block) => [block.call, block]));
  const within = (a: Block, b: Block): boolean => a.x >= b.x && a.z >= b.z && a.x + a.w <= b.x + b.w + 1e-9 && a.z + a.d <= b.z + b.d + 1e-9;
  for (const block of blocks) if (block.call.parent !== null) expect(within(block, of.get(block.call.parent) as Block)).toBe(true);
  for (const { call } of blocks) {
    const calls = [...call.calls.values()].map((one) => of.get(one) as Block);
    for (const [i, a] of calls.entries()) {
      for (const b of calls.slice(i + 1)) expect(a.x + a.w <= b.x + 1e-9 || b.x + b.w <= a.x + 1e-9 || a.z + a.d <= b.z + 1e-9 || b.z + b.d <= a.z + 1e-9).toBe(true);
      expect((a.w * a.d) / a.call.total).toBeCloseTo(((calls[0] as Block).w * (calls[0] as Block).d) / (calls[0] as Block).call.total, 9);
    }
  }
  expect(blocksOf(calls, 10)).toHaveLength(10);
});

test("a ray enters a box where it does", () => {
  expect(entry([0, 0, 5], [0, 0, -1], [-1, -1, -1], [2, 2, 2])).toBe(4);
  expect(entry([3, 0, 5], [0, 0, -1], [-1, -1, -1], [2, 2, 2])).toBe(null);
  expect(entry([0, 0, 0], [0, 0, -1], [-1, -1, -1], [2, 2, 2])).toBe(0);
});
