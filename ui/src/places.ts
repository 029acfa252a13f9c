/** The same thing measured from several places: the lines of each quantile of each place over one another. Pure. */

import type { Labels, QueryData, Series } from "./api.ts";
import { BinTable, type WireColumn } from "./bins.ts";
import { markOf, quantileLabel } from "./quantilelines.ts";
import { formatSelector, parseSelector, quote } from "./selector.ts";
import { LINES_MAX, strokeOf, type Stroke } from "./series.ts";
import type { QuantileName } from "./state.ts";

/** The label that every check and scrape of a fleet has: the broker that measured. */
export const PLACE_LABEL = "broker";

/** Labels that name a place, those first that usually do. */
const USUAL = [PLACE_LABEL, "site", "region", "zone", "datacenter", "host", "instance"];

/** Hues of lines; what is beyond them is distinguished by strokes. */
const HUES = 8;
const STROKES = LINES_MAX / HUES;

/** Groups of one answer at most. */
const GROUPS_MAX = 24;

/** How many places have lines of their own, with so many quantiles: a hue for each place, a stroke for each quantile. */
export function placesMax(quantiles: number): number {
  return Math.min(GROUPS_MAX, HUES * Math.floor(STROKES / Math.max(1, quantiles)));
}

/** The stroke of a place's quantile: places have hues, quantiles have strokes, and no two lines of `placesMax` have the same. */
export function strokeAt(place: number, quantile: number, quantiles: number): Stroke {
  return strokeOf((place % HUES) + HUES * (Math.floor(place / HUES) * quantiles + quantile));
}

/** The distributions of a selector's series by a label; null for what is no plain selector, whose series have no labels to go by. */
export function placesQuery(query: string, label: string): string | null {
  if (parseSelector(query) === null) return null;
  return `sum by (${/^[a-zA-Z_]\w*$/.test(label) ? label : quote(label)}) (${query})`;
}

/** Labels of which the series have several values, those first that usually name a place. */
export function labelsThatDiffer(all: readonly Labels[]): string[] {
  const values = new Map<string, Set<string>>();
  const names = new Set(all.flatMap((labels) => Object.keys(labels)));
  for (const name of names) values.set(name, new Set(all.map((labels) => labels[name] ?? "")));
  const rank = (name: string): number => (USUAL.includes(name) ? USUAL.indexOf(name) : USUAL.length);
  const found = [...names].filter((name) => name !== "__name__" && (values.get(name) as Set<string>).size > 1);
  return found.sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
}

/** The usual distance between neighbours in the lists, in their unit; 0 where no list has two. */
export function usualGap(lists: readonly (readonly number[])[]): number {
  const gaps = lists.flatMap((times) => times.slice(1).map((t, at) => t - (times[at] as number))).sort((a, b) => a - b);
  return gaps[Math.floor(gaps.length / 2)] ?? 0;
}

/** The step with which a column holds what comes every `gap` seconds, a multiple of `step`. */
export function stepOfGap(step: number, gap: number): number {
  return step * Math.max(1, Math.ceil(gap / step - 1e-9));
}

export interface Place {
  readonly name: string;
  readonly columns: readonly WireColumn[];
}

/** Places by name. */
export function placesOf(groups: readonly { readonly labels: Labels; readonly list: readonly WireColumn[] }[], label: string): Place[] {
  const places = groups.map(({ labels, list }) => ({ name: labels[label] ?? "", columns: list }));
  return places.map((place) => (place.name === "" ? { ...place, name: `without ${label}` } : place)).sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}

/** A line for each quantile of each place, those of a place behind each other, and their strokes. */
export function linesOf(places: readonly Place[], quantiles: readonly QuantileName[]): { series: Series[]; strokes: Stroke[] } {
  const [series, strokes]: [Series[], Stroke[]] = [[], []];
  places.slice(0, placesMax(quantiles.length)).forEach(({ name, columns }, at) => {
    const table = new BinTable();
    const read = columns.map((wire) => table.column(wire));
    quantiles.forEach((quantile, which) => {
      const marks = read.map((column) => [column.t, markOf(column, table, quantile)] as const);
      const values = marks.flatMap(([t, mark]): [number, string][] => (mark === null ? [] : [[t, String(mark.value)]]));
      series.push({ metric: { __name__: `${name} ${quantileLabel(quantile)}` }, values });
      strokes.push(strokeAt(at, which, quantiles.length));
    });
  });
  return { series, strokes };
}

/** Checks with a sample in the last minutes, and from how many brokers. */
export const CHECKS_QUERY = 'count by (check) (count by (check, broker) (ogive_check_up{broker!=""}))';

/** Checks that several brokers run, by name, of the answer to `CHECKS_QUERY`. */
export function checksOf(data: QueryData): { name: string; places: number }[] {
  const rows = data.resultType === "vector" ? data.result : [];
  const all = rows.map(({ metric, value }) => ({ name: metric["check"] ?? "", places: Number(value?.[1] ?? 0) }));
  return all.filter(({ name, places }) => name !== "" && places > 1).sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** The page with a check's answers from all places, and its lines by place; relative to the other pages. */
export function checkAddress(check: string): string {
  const query = formatSelector({ name: "ogive_check_seconds", matchers: [{ label: "check", op: "=", value: check }, { label: "phase", op: "=", value: "total" }] });
  return `./?${new URLSearchParams({ query, range: "1h", by: PLACE_LABEL }).toString()}`;
}
