/** Series of numbers: their names, colours and strokes, and how many are drawn. Pure. */

import type { Labels } from "./api.ts";
import { quote } from "./selector.ts";

/** More lines than this look alike; the rest is named in a notice and not fetched. */
export const LINES_MAX = 40;

/** Eight hues that the common kinds of colour blindness keep apart (Okabe and Ito, "Color Universal Design", 2008, lightened). */
const HUES = ["#56b4e9", "#e69f00", "#00b887", "#cc79a7", "#d55e00", "#9d8cff", "#c9b400", "#7f8ea3"];

/** Strokes that distinguish lines of one hue: five times eight is `LINES_MAX`. */
const DASHES: readonly (readonly number[])[] = [[], [8, 4], [2, 3], [12, 3, 2, 3], [5, 2, 5, 8]];

/** How a line is drawn. */
export interface Stroke {
  readonly colour: string;
  readonly dash: readonly number[];
}

/** The stroke of the line at a place: no two of `LINES_MAX` have the same. */
export function strokeOf(place: number): Stroke {
  return { colour: HUES[place % HUES.length] as string, dash: DASHES[Math.floor(place / HUES.length) % DASHES.length] as readonly number[] };
}

export function seriesName(metric: Labels): string {
  const labels = Object.entries(metric).filter(([name]) => name !== "__name__");
  const inner = labels.map(([name, value]) => `${name}=${quote(value)}`).join(", ");
  const name = metric["__name__"] ?? "";
  return inner === "" ? name || "value" : `${name}{${inner}}`;
}

/** Least seconds that a rate looks back: counters are scraped once a minute by many. */
const RATE_SECONDS_MIN = 60;

/** The rate of a counter that is drawn each `step` seconds. */
export function rateOf(selector: string, step: number): string {
  return `rate(${selector}[${Math.max(RATE_SECONDS_MIN, Math.ceil(4 * step))}s])`;
}

const TRUNCATED = "results truncated due to limit";

/** The server's remarks, with its remark that the limit left series out in the words of the page. */
export function limitNotice(warnings: readonly string[], infos: readonly string[]): { warnings: string[]; infos: string[] } {
  const counted = infos.map((info) => /^the first (\d+) of (\d+) series$/.exec(info)).find((found) => found !== null);
  if (!warnings.includes(TRUNCATED) || counted === undefined || counted === null) return { warnings: [...warnings], infos: [...infos] };
  const text = `The first ${counted[1]} of ${counted[2]} series are drawn. Aggregate, for example with sum by (...), to see all.`;
  return { warnings: [...warnings.filter((warning) => warning !== TRUNCATED), text], infos: infos.filter((info) => info !== counted[0]) };
}
