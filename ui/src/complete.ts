/** Completion of names in the query box: what could come at the caret, and the text after one is taken. Pure. */

import { selectorOf } from "./selector.ts";

/** What is offered at once: more would hide the picture. */
const OFFERED_MAX = 8;

/** Functions and aggregations that people write most over histograms and counters, with what they are for. */
export const FUNCTIONS: readonly (readonly [string, string])[] = [
  ["avg", "mean of the series"],
  ["avg_over_time", "mean of the samples in a range"],
  ["count", "number of series"],
  ["histogram_avg", "mean of a histogram"],
  ["histogram_count", "samples in a histogram"],
  ["histogram_distance", "how far two histograms are apart"],
  ["histogram_fraction", "share between two values"],
  ["histogram_modes", "number of peaks of a histogram"],
  ["histogram_quantile", "quantile of a histogram"],
  ["histogram_stddev", "standard deviation of a histogram"],
  ["histogram_sum", "sum of a histogram"],
  ["increase", "growth over a range"],
  ["max", "greatest of the series"],
  ["max_over_time", "greatest in a range"],
  ["min", "least of the series"],
  ["min_over_time", "least in a range"],
  ["rate", "growth per second"],
  ["sum", "sum of the series; histograms merge"],
  ["sum_over_time", "sum over a range; cells merge"],
];

export interface Offer {
  readonly name: string;
  readonly help: string;
  readonly call: boolean;
}

/** The word that ends at the caret; empty inside of a string, where names mean nothing. */
export function wordAt(text: string, caret: number): string {
  const before = text.slice(0, caret);
  const quotes = before.replace(/\\./g, "").match(/["'`]/g)?.length ?? 0;
  if (quotes % 2 === 1) return "";
  return /[a-zA-Z_:][\w:]*$/.exec(before)?.[0] ?? "";
}

/** Names that begin with the word first, then names that contain it; nothing for a word that is complete. */
export function offers(text: string, caret: number, names: readonly Offer[]): Offer[] {
  const word = wordAt(text, caret).toLowerCase();
  if (word.length < 2) return [];
  const functions = FUNCTIONS.map(([name, help]): Offer => ({ name, help, call: true }));
  const all = [...names, ...functions].filter((offer) => offer.name.toLowerCase().includes(word));
  if (all.some((offer) => offer.name.toLowerCase() === word)) return [];
  const starts = (offer: Offer): number => (offer.name.toLowerCase().startsWith(word) ? 0 : 1);
  return all.sort((a, b) => starts(a) - starts(b) || a.name.localeCompare(b.name)).slice(0, OFFERED_MAX);
}

/** Text and caret after the offer has replaced the word at the caret. */
export function take(text: string, caret: number, offer: Offer): { text: string; caret: number } {
  const from = caret - wordAt(text, caret).length;
  const rest = text.slice(caret).replace(/^[\w:]+/, "");
  const added = offer.call ? `${offer.name}${rest.startsWith("(") ? "" : "("}` : selectorOf(offer.name);
  return { text: text.slice(0, from) + added + rest, caret: from + added.length };
}
