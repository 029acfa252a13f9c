/**
 * How wide bins are drawn: by density, and where samples are few over one width on the log axis, so that a sample looks like any
 * other whatever the width of its bin. Log-linear bins are nine times wider just above a power of ten than just below it: drawn
 * as they are, ten lone samples show an edge there, and a second mode beside it, that the data do not have. Pure.
 *
 * Invariants: no bin is drawn narrower than it is; a width holds about `ENOUGH` samples or is `WIDEST`; it depends on the counts
 * around the bin, which change smoothly, and not on the bin's own, so that neighbours differ little.
 */

import type { BinTable } from "./bins.ts";

/** The widest bin of a log-linear histogram, as a difference of natural logarithms. */
export const WIDEST = Math.log(1.1);

/** 30 samples are their expectation within a fifth: fewer look like a pattern where there is none. */
const ENOUGH = 30;

/** Log widths that the bins of a table are drawn over, when they count as much as `counts` by id; `NaN` for bins at zero and open ends. */
export function drawnWidths(table: BinTable, counts: ArrayLike<number>): Float64Array {
  const widths = Float64Array.from({ length: table.size }, (_, id) => table.logWidth(id));
  for (const sign of [1, -1]) {
    const ids = [...widths.keys()].filter((id) => !Number.isNaN(widths[id]) && Math.sign((table.lo[id] as number) + (table.hi[id] as number)) === sign);
    const at = new Map(ids.map((id) => [id, Math.log(Math.abs(table.lo[id] as number) * Math.abs(table.hi[id] as number)) / 2]));
    ids.sort((a, b) => (at.get(a) as number) - (at.get(b) as number));
    const places = ids.map((id) => at.get(id) as number);
    // Samples at and below each place; a window's are a difference.
    let sum = 0;
    const below = [0, ...ids.map((id) => (sum += counts[id] ?? 0))];
    let [from, to] = [0, 0];
    ids.forEach((id, i) => {
      const place = places[i] as number;
      while ((places[from] as number) < place - WIDEST * (1 + 1e-9)) from++;
      while (to < places.length && (places[to] as number) <= place + WIDEST * (1 + 1e-9)) to++;
      // The window is two widths wide.
      const around = ((below[to] as number) - (below[from] as number)) / 2;
      const wanted = around > ENOUGH ? (WIDEST * ENOUGH) / around : WIDEST;
      widths[id] = Math.max(widths[id] as number, wanted);
    });
  }
  return widths;
}

/** The ends of a bin that is drawn `width` wide around its middle. */
export function drawnEnds(lo: number, hi: number, width: number): [number, number] {
  if (Number.isNaN(width)) return [lo, hi];
  const middle = Math.sign(lo + hi) * Math.sqrt(Math.abs(lo) * Math.abs(hi));
  const [near, far] = [middle * Math.exp(-width / 2), middle * Math.exp(width / 2)];
  return middle > 0 ? [near, far] : [far, near];
}
