/** The unit of a result, as far as the expression lets it be known. Pure. */

/** Functions and aggregations whose result has the unit of what goes in. */
const KEEP = new Set(
  ("sum avg min max quantile topk bottomk abs ceil floor round clamp clamp_min clamp_max sort sort_desc " +
    "increase delta idelta avg_over_time min_over_time max_over_time sum_over_time last_over_time quantile_over_time stddev_over_time stddev").split(" "),
);

/** Functions that read a value out of a histogram: its unit is that of the measured values. */
const READ = new Set(["histogram_quantile", "histogram_avg", "histogram_stddev"]);

/** Functions whose result is what goes in, per second. */
const RATE = new Set(["rate", "irate", "deriv"]);

/** Unit of `expression`, where `unitOf` knows the units of names; empty when it is not known. */
export function resultUnit(expression: string, unitOf: (name: string) => string | undefined): string {
  // `max(x) by (y)` is `max by (y) (x)`.
  const text = expression.trim().replace(/\)\s*(?:by|without)\s*\([^()]*\)$/, ")");
  const call = /^([a-zA-Z_:][\w:]*)\s*(?:(?:by|without)\s*\([^)]*\)\s*)?\(([\s\S]*)\)$/.exec(text);
  if (call === null) {
    const name = /^([a-zA-Z_:][\w:]*)\s*(\{[^{}]*\})?\s*(\[[^[\]]*\])?$/.exec(text);
    return name === null ? "" : (unitOf(name[1] as string) ?? "");
  }
  const [, name, inside] = call as unknown as [string, string, string];
  if (READ.has(name)) {
    const units = (inside.match(/[a-zA-Z_:][\w:]*/g) ?? []).map(unitOf).filter((unit) => unit !== undefined && unit !== "");
    return units[0] ?? "";
  }
  if (RATE.has(name)) {
    const unit = resultUnit(inside, unitOf);
    // Seconds a second are a share of the time.
    return unit === "s" ? "" : `${unit}/s`;
  }
  if (!KEEP.has(name)) return "";
  // `quantile(0.9, x)`, `topk(3, x)`: the number in front has no unit; `clamp(x, 0, 1)`: nor have those behind.
  return resultUnit(inside.replace(/^\s*[\d.e+-]+\s*,/, "").replace(/(,\s*[\d.e+-]+\s*)+$/, ""), unitOf);
}

/** The unit that a name ends in by the custom of Prometheus, whose senders seldom declare one; empty when it ends in none. */
export function unitOfName(name: string): string {
  const [, word] = /_(seconds|bytes)(?:_bucket|_total|_sum)?$/.exec(name) ?? [];
  return word === "seconds" ? "s" : word === "bytes" ? "By" : "";
}
