/** What a picture is compared with: the same range some time ago, or from another instant on; or another expression over the same range. Pure. */

import { formatClock, formatDate, formatDuration, parseDuration } from "./format.ts";

/**
 * So many seconds before, which moves along with a live range; the range of the same length that begins at an instant; or another
 * expression, which is empty until it is chosen.
 */
export type Compared = { readonly ago: number } | { readonly from: number } | { readonly over: string };

/** What stands before an expression in the address. */
const OVER = "over:";

/** What is offered by a click. */
export const USUAL: readonly [number, string][] = [
  [3600, "an hour ago"],
  [86400, "a day ago"],
  [7 * 86400, "a week ago"],
];

/** `1h`, `@1700000000`, or `over:` and an expression; null for anything else. */
export function parseCompared(text: string | null): Compared | null {
  if (text === null || text === "") return null;
  if (text.startsWith(OVER)) return { over: text.slice(OVER.length) };
  const instant = /^@(\d{1,11}(?:\.\d+)?)$/.exec(text);
  if (instant !== null) return { from: Number(instant[1]) };
  const ago = parseDuration(text);
  return ago !== null && ago > 0 ? { ago } : null;
}

export function formatCompared(compared: Compared): string {
  if ("over" in compared) return OVER + compared.over;
  return "from" in compared ? `@${compared.from}` : formatDuration(compared.ago);
}

/** Seconds between the picture from `start` on and what it is compared with: whole columns, at least one, so that they stand one over the other; 0 for another expression. */
export function offsetOf(compared: Compared, start: number, step: number): number {
  if ("over" in compared) return 0;
  const seconds = "from" in compared ? start - compared.from : compared.ago;
  const columns = Math.round(seconds / step);
  return (columns === 0 ? 1 : columns) * step;
}

/** `a day ago`, `3h ago`, an expression, `from 2026-11-22 10:00:00 on`. */
export function comparedText(compared: Compared): string {
  if ("over" in compared) return compared.over;
  if ("from" in compared) return `from ${formatDate(compared.from)} ${formatClock(compared.from)} on`;
  return USUAL.find(([seconds]) => seconds === compared.ago)?.[1] ?? `${formatDuration(compared.ago)} ago`;
}
