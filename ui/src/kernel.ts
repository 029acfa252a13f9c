/**
 * How wide bins are drawn: by density, and where samples are few over one width on the log axis, so that a sample looks like any
 * other whatever the width of its bin. Log-linear bins are nine times wider just above a power of ten than just below it: drawn
 * as they are, ten lone samples show an edge there, and a second mode beside it, that the data do not have. Pure.
 *
 * Invariants: a bin's box is blurred by a window that holds about `ENOUGH` samples or is `WIDEST`; the window depends on the counts
 * around the bin, which change smoothly, and not on the bin's width, so that what is drawn is the blurred distribution itself:
 * narrow bins spill over a power of ten as much as wide ones spill back. Samples are neither lost nor made.
 */

import type { BinTable } from "./bins.ts";

/** The widest bin of a log-linear histogram, as a difference of natural logarithms. */
export const WIDEST = Math.log(1.1);

/** 30 samples are their expectation within a fifth: fewer look like a pattern where there is none. */
const ENOUGH = 30;

/** Log widths of the windows that the bins of a table are blurred by, when they count as much as `counts` by id; `NaN` for bins at zero and open ends. */
export function windows(table: BinTable, counts: ArrayLike<number>): Float64Array {
  const widths = Float64Array.from({ length: table.size }, (_, id) => table.logWidth(id));
  for (const sign of [1, -1]) {
    const ids = [...widths.keys()].filter((id) => !Number.isNaN(widths[id]) && Math.sign((table.lo[id] as number) + (table.hi[id] as number)) === sign);
    const near = (id: number): number => Math.log(Math.min(Math.abs(table.lo[id] as number), Math.abs(table.hi[id] as number)));
    const begins = new Map(ids.map((id) => [id, near(id)]));
    ids.sort((a, b) => (begins.get(a) as number) - (begins.get(b) as number));
    const places = ids.map((id) => begins.get(id) as number);
    const own = ids.map((id) => table.logWidth(id));
    let sum = 0;
    const below = [0, ...ids.map((id) => (sum += counts[id] ?? 0))];
    // Samples up to a place, those of a bin spread evenly over it: in whole bins, windows would count two wide ones and three by turns.
    const upTo = (place: number): number => {
      let [from, to] = [0, places.length];
      while (from < to) {
        const half = (from + to) >> 1;
        if ((places[half] as number) <= place) from = half + 1;
        else to = half;
      }
      if (from === 0) return 0;
      const part = Math.min(1, (place - (places[from - 1] as number)) / (own[from - 1] as number));
      return (below[from - 1] as number) + (counts[ids[from - 1] as number] ?? 0) * part;
    };
    for (const [i, id] of ids.entries()) {
      const middle = (places[i] as number) + (own[i] as number) / 2;
      // The window is two widths wide.
      const around = (upTo(middle + WIDEST) - upTo(middle - WIDEST)) / 2;
      widths[id] = around > ENOUGH ? (WIDEST * ENOUGH) / around : WIDEST;
    }
  }
  return widths;
}

/** Share of a bin's samples that lies up to `u` from its middle, when it is `width` wide and blurred by `window`, all on the log axis. */
export function shareUpTo(u: number, width: number, window: number): number {
  // Windows that are nothing beside their bin would only cost digits.
  if (window < 1e-4 * width) return Math.min(1, Math.max(0, u / width + 0.5));
  const ramp = (x: number): number => (x > 0 ? (x * x) / 2 : 0);
  const [outer, inner] = [(width + window) / 2, (width - window) / 2];
  if (u >= outer) return 1;
  return Math.max(0, (ramp(u + outer) - ramp(u + inner) - ramp(u - inner) + ramp(u - outer)) / (width * window));
}
