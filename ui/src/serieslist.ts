/** What the list of series shows: its rows under their heads, which of them are in view, and the courses beside them. Pure. */

import type { Metadata, Series } from "./api.ts";

export interface Entry {
  readonly name: string;
  readonly meta: Metadata | undefined;
  /** The jobs that send it, where they were asked for. */
  readonly jobs?: readonly string[];
}

/** What stands together. */
export const GROUPINGS = ["type", "prefix", "job"] as const;
export type Grouping = (typeof GROUPINGS)[number];

const TYPES: readonly (readonly [string, string])[] = [
  ["histogram", "Histograms"],
  ["counter", "Counters"],
  ["gauge", "Gauges"],
  ["text", "Texts"],
  ["", "Others"],
];

export type Row = { readonly kind: "group"; readonly title: string; readonly count: number } | { readonly kind: "item"; readonly entry: Entry } | { readonly kind: "labels" };

export const ROW_HEIGHT = { group: 30, item: 32 } as const;

function typeOf(entry: Entry): number {
  const at = TYPES.findIndex(([type]) => type === (entry.meta?.type ?? ""));
  return at < 0 ? TYPES.length - 1 : at;
}

/** The head of what no job sends. */
export const NO_JOB = "Without a job";

/** The jobs of each name, of an answer to `count by (__name__, job)`. */
export function jobsOf(series: readonly Series[]): Map<string, string[]> {
  const out = new Map<string, string[]>();
  for (const { metric } of series) {
    const [name, job] = [metric["__name__"] ?? "", metric["job"] ?? ""];
    if (job === "") continue;
    const list = out.get(name);
    if (list === undefined) out.set(name, [job]);
    else list.push(job);
  }
  return out;
}

/** The first word of a name: who gave it. */
export function prefixOf(name: string): string {
  return /^[a-zA-Z0-9]+(?=[_:.])/.exec(name)?.[0] ?? "";
}

/** Rows of sorted entries under their heads; the labels of the chosen one stand behind it. */
export function rowsOf(entries: readonly Entry[], grouping: Grouping, chosen: string | null): Row[] {
  const groups = new Map<string, Entry[]>();
  const put = (title: string, entry: Entry): void => void (groups.get(title)?.push(entry) ?? groups.set(title, [entry]));
  if (grouping === "type") {
    for (const [at, [, title]] of TYPES.entries()) for (const entry of entries) if (typeOf(entry) === at) put(title, entry);
  } else if (grouping === "job") {
    const jobs = [...new Set(entries.flatMap(({ jobs }) => jobs ?? []))].sort();
    const of = new Map(jobs.map((job) => [job, [] as Entry[]]));
    for (const entry of entries) for (const job of entry.jobs ?? []) of.get(job)?.push(entry);
    for (const [job, list] of of) groups.set(job, list);
    for (const entry of entries) if ((entry.jobs ?? []).length === 0) put(NO_JOB, entry);
  } else {
    const counts = new Map<string, number>();
    for (const { name } of entries) counts.set(prefixOf(name), (counts.get(prefixOf(name)) ?? 0) + 1);
    const alone = (name: string): boolean => prefixOf(name) === "" || (counts.get(prefixOf(name)) ?? 0) < 2;
    // What has no company stands together at the end.
    for (const entry of entries) if (!alone(entry.name)) put(`${prefixOf(entry.name)}_`, entry);
    for (const entry of entries) if (alone(entry.name)) put("Others", entry);
    for (const list of groups.values()) list.sort((a, b) => typeOf(a) - typeOf(b) || (a.name < b.name ? -1 : 1));
  }
  // A name that several jobs send stands under each, and its labels under the first.
  let opened = false;
  const labels = (entry: Entry): Row[] => {
    const here = !opened && entry.name === chosen;
    opened ||= here;
    return here ? [{ kind: "labels" }] : [];
  };
  return [...groups].flatMap(([title, list]): Row[] => [{ kind: "group", title, count: list.length }, ...list.flatMap((entry): Row[] => [{ kind: "item", entry }, ...labels(entry)])]);
}

/** Where each row begins, and behind the last one the height of all. */
export function topsOf(rows: readonly Row[], labels: number): Float64Array {
  const tops = new Float64Array(rows.length + 1);
  rows.forEach((row, at) => (tops[at + 1] = (tops[at] as number) + (row.kind === "labels" ? labels : ROW_HEIGHT[row.kind])));
  return tops;
}

/** The first and the last row that are in view, with some around them. */
export function inView(tops: Float64Array, top: number, height: number, around = 8): [number, number] {
  const rows = tops.length - 1;
  let [low, high] = [0, rows];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((tops[middle + 1] as number) <= top) low = middle + 1;
    else high = middle;
  }
  let last = low;
  while (last < rows - 1 && (tops[last + 1] as number) < top + height) last++;
  return [Math.max(0, low - around), Math.min(rows - 1, last + around)];
}

/** The course of numbers that came as lines by the label `series`; of a counter what it grew by, where it did not begin anew. */
export function coursesOf(series: readonly Series[], isCounter: (name: string) => boolean): Map<string, number[]> {
  const out = new Map<string, number[]>();
  for (const { metric, values } of series) {
    const name = metric["series"];
    const numbers = (values ?? []).map(([, text]) => Number(text)).filter((value) => Number.isFinite(value));
    if (name === undefined) continue;
    const grown = numbers.slice(1).map((value, at) => value - (numbers[at] as number));
    out.set(name, isCounter(name) ? grown.map((by) => Math.max(0, by)) : numbers);
  }
  return out;
}
