/** Expressions around an expression, a click each. Pure. */

import { parseSelector } from "./selector.ts";

/** `rate` of a selector, back to the selector where it is one already; null for what has no rate. */
export function withRate(query: string): string | null {
  const inside = /^rate\((.*)\[\w+\]\)$/s.exec(query.trim())?.[1];
  if (inside !== undefined && parseSelector(inside) !== null) return inside;
  return parseSelector(query) === null ? null : `rate(${query.trim()}[5m])`;
}

/** The 99th percentile of what the series measured together, back where it is that already. */
export function withP99(query: string): string {
  const inside = /^histogram_quantile\(0\.99, sum(?: by \([^()]*\))? \((.*)\)\)$/s.exec(query.trim())?.[1];
  if (inside !== undefined) return inside;
  const sum = /^sum\b/.test(query.trim()) ? query.trim() : `sum (${query.trim()})`;
  return `histogram_quantile(0.99, ${sum})`;
}

/** The sum of each value of a label; another label takes the place of the one before, the same one goes. */
export function withBy(query: string, label: string): string {
  const quantile = /^histogram_quantile\(([\d.]+), (.*)\)$/s.exec(query.trim());
  if (quantile !== null) return `histogram_quantile(${quantile[1]}, ${withBy(quantile[2] as string, label)})`;
  const sum = /^sum(?: by \(([^()]*)\))? \((.*)\)$/s.exec(query.trim());
  if (sum !== null && sum[1]?.trim() === label) return sum[2] as string;
  return `sum by (${label}) (${sum === null ? query.trim() : sum[2]})`;
}
