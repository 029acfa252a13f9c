/**
 * Folded stacks as a tree of calls, and where its frames are drawn: as a flame graph, or as a landscape of blocks. Pure.
 *
 * Format: a line a stack, frames from the outermost to the innermost with semicolons between, then a number; `ogive kernel flame` and the
 * programs of other makers write it.
 * Limits: `STACKS_MAX` stacks of `FRAMES_MAX` frames, as the command has them; what is beyond is refused with its line.
 */

export const STACKS_MAX = 1 << 18;
export const FRAMES_MAX = 1024;

export interface Call {
  readonly name: string;
  readonly depth: number;
  readonly parent: Call | null;
  readonly calls: Map<string, Call>;
  /** Counted in it and in all that it calls; in it alone; and the first of another recording. */
  total: number;
  self: number;
  before: number;
}

export interface Calls {
  readonly root: Call;
  readonly total: number;
  /** Counted in the other recording; 0 without one. */
  readonly before: number;
  readonly frames: number;
  readonly depth: number;
}

interface Stack {
  readonly frames: readonly string[];
  readonly count: number;
}

function stacksOf(text: string): Stack[] {
  const out: Stack[] = [];
  text.split("\n").forEach((line, at) => {
    if (line.trim() === "") return;
    const [, names, count] = /^(.*\S)\s+(\d+)\s*$/s.exec(line) ?? [];
    const wrong = (why: string): Error => new Error(`line ${at + 1}: ${why}`);
    if (names === undefined || count === undefined) throw wrong("no stack and number, such as main;work 42");
    const frames = names.trim().split(";");
    if (frames.length > FRAMES_MAX) throw wrong(`more than ${FRAMES_MAX} frames`);
    if (out.length >= STACKS_MAX) throw wrong(`more than ${STACKS_MAX} stacks`);
    if (!Number.isSafeInteger(Number(count))) throw wrong("the number is too large to be added up");
    out.push({ frames, count: Number(count) });
  });
  return out;
}

/**
 * The calls of a recording, beside those of another one when there is one. The texts of one recording are added up. Fails with the line
 * that is no stack.
 */
export function callsOf(now: string | readonly string[], before: string | readonly string[] = []): Calls {
  const root: Call = { name: "all", depth: 0, parent: null, calls: new Map(), total: 0, self: 0, before: 0 };
  let [frames, depth] = [0, 0];
  const add = (stacks: readonly Stack[], part: "total" | "before"): void => {
    for (const stack of stacks) {
      let at = root;
      at[part] += stack.count;
      for (const name of stack.frames) {
        let next = at.calls.get(name);
        if (next === undefined) {
          next = { name, depth: at.depth + 1, parent: at, calls: new Map(), total: 0, self: 0, before: 0 };
          at.calls.set(name, next);
          frames++;
          depth = Math.max(depth, next.depth);
        }
        next[part] += stack.count;
        at = next;
      }
      if (part === "total") at.self += stack.count;
    }
  };
  for (const text of [now].flat()) add(stacksOf(text), "total");
  for (const text of [before].flat()) add(stacksOf(text), "before");
  return { root, total: root.total, before: root.before, frames, depth };
}

/** Callees by their names, so that two recordings have them in the same places. */
function ordered(call: Call): Call[] {
  return [...call.calls.values()].filter(({ total }) => total > 0).sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** A frame of the flame graph: from and to are parts of the width. */
export interface Bar {
  readonly call: Call;
  readonly from: number;
  readonly to: number;
}

/** Frames below `top`, which is as wide as the picture, and those above it; narrower ones than `least` are left out. */
export function barsOf(top: Call, least: number): Bar[] {
  const bars: Bar[] = [];
  for (let at: Call | null = top.parent; at !== null; at = at.parent) bars.push({ call: at, from: 0, to: 1 });
  const waiting: Bar[] = [{ call: top, from: 0, to: 1 }];
  for (let bar = waiting.pop(); bar !== undefined; bar = waiting.pop()) {
    bars.push(bar);
    let from = bar.from;
    for (const call of ordered(bar.call)) {
      const to = from + call.total / Math.max(1, top.total);
      if (to - from >= least) waiting.push({ call, from, to });
      from = to;
    }
  }
  return bars;
}

/** A block of the landscape: its ground in parts of the whole ground, which is 1 by 1. Its height is its depth. */
export interface Block {
  readonly call: Call;
  readonly x: number;
  readonly z: number;
  readonly w: number;
  readonly d: number;
}

/** Part of a block's edge that is left free around the calls on top of it, so that each terrace is seen. */
const TERRACE = 0.03;

/**
 * Each call stands on its caller and has as much of its ground as it has of its time: the longer side is divided, by turns where they are
 * equal. The first `most` blocks by time; others would be smaller than a pixel.
 */
export function blocksOf({ root }: Calls, most: number): Block[] {
  const blocks: Block[] = [];
  let waiting: Block[] = [{ call: root, x: 0, z: 0, w: 1, d: 1 }];
  while (waiting.length > 0 && blocks.length < most) {
    waiting.sort((a, b) => b.call.total - a.call.total);
    const row = waiting.slice(0, most - blocks.length);
    waiting = [];
    for (const block of row) {
      blocks.push(block);
      const calls = ordered(block.call).sort((a, b) => b.total - a.total);
      const room = { x: block.x + block.w * TERRACE, z: block.z + block.d * TERRACE, w: block.w * (1 - 2 * TERRACE), d: block.d * (1 - 2 * TERRACE) };
      divide(calls, room, block.call.total, waiting);
    }
  }
  return blocks;
}

/** Halves the calls so that both halves have about as much time, and the ground likewise. */
function divide(calls: readonly Call[], room: Omit<Block, "call">, total: number, out: Block[]): void {
  const pending: { calls: readonly Call[]; room: Omit<Block, "call">; total: number }[] = [{ calls, room, total }];
  for (let part = pending.pop(); part !== undefined; part = pending.pop()) {
    const { x, z, w, d } = part.room;
    const [first] = part.calls;
    if (first === undefined || part.total <= 0) continue;
    const sum = part.calls.reduce((all, { total }) => all + total, 0);
    // What the caller spends itself stays free ground.
    const share = sum / part.total;
    const used = w >= d ? { x, z, w: w * share, d } : { x, z, w, d: d * share };
    if (part.calls.length === 1) {
      out.push({ call: first, ...used });
      continue;
    }
    let [at, half] = [0, 0];
    while (at < part.calls.length - 1 && (at === 0 || half + (part.calls[at] as Call).total <= sum / 2)) half += (part.calls[at++] as Call).total;
    const cut = half / sum;
    const [a, b] = used.w >= used.d
      ? [{ ...used, w: used.w * cut }, { ...used, x: used.x + used.w * cut, w: used.w * (1 - cut) }]
      : [{ ...used, d: used.d * cut }, { ...used, z: used.z + used.d * cut, d: used.d * (1 - cut) }];
    pending.push({ calls: part.calls.slice(0, at), room: a, total: half }, { calls: part.calls.slice(at), room: b, total: sum - half });
  }
}

/** The way from the outermost call, `all` left out. */
export function pathOf(call: Call): string[] {
  const path: string[] = [];
  for (let at: Call | null = call; at !== null && at.parent !== null; at = at.parent) path.unshift(at.name);
  return path;
}

/** How much larger the share of a call is than before: -1 to 1; null without another recording. */
export function differenceOf(call: Call, { total, before }: Calls): number | null {
  return before === 0 ? null : call.total / Math.max(1, total) - call.before / before;
}

/** A colour as three parts from 0 to 1: warm and by name; of a difference red for more and blue for less; violet where a search finds it. */
export function tintOf(call: Call, calls: Calls, found: boolean): [number, number, number] {
  if (found) return [0.72, 0.45, 1];
  const difference = differenceOf(call, calls);
  if (difference !== null) {
    const strength = Math.min(1, Math.sqrt(Math.abs(difference) * 4));
    return difference >= 0 ? [0.75 + 0.2 * strength, 0.72 - 0.42 * strength, 0.7 - 0.42 * strength] : [0.72 - 0.42 * strength, 0.74 - 0.22 * strength, 0.78 + 0.2 * strength];
  }
  let hash = 2166136261;
  for (let i = 0; i < call.name.length; i++) hash = Math.imul(hash ^ call.name.charCodeAt(i), 16777619);
  const part = ((hash >>> 8) & 0xffff) / 0xffff;
  return [0.86 + 0.1 * part, 0.4 + 0.38 * part, 0.18 + 0.16 * (1 - part)];
}
