/** Names that somebody may have meant. Pure. */

/** Letters that must change, come or go, or two neighbours change places, to make `b` of `a`. */
export function distance(a: string, b: string): number {
  let [before, row] = [[] as number[], Array.from({ length: b.length + 1 }, (_, i) => i)];
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const swap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? (before[j - 2] as number) + 1 : Infinity;
      next.push(Math.min((row[j] as number) + 1, (next[j - 1] as number) + 1, (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1), swap));
    }
    [before, row] = [row, next];
  }
  return row[b.length] as number;
}

/** The name nearest to `name`, if it is near: one change in three letters, three at most. */
export function nearest(name: string, names: Iterable<string>): string | null {
  let [found, least] = [null as string | null, Math.min(3, Math.floor(name.length / 3)) + 1];
  for (const one of names) {
    if (one === name || Math.abs(one.length - name.length) >= least) continue;
    const away = distance(name.toLowerCase(), one.toLowerCase());
    if (away < least) [found, least] = [one, away];
  }
  return found;
}
