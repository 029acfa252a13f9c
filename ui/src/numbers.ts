/** Whether an expression gives numbers whatever is stored, so that nobody asks for its heat map and is refused. Pure. */

import { parseSelector } from "./selector.ts";

/** Functions and aggregations whose result is never a histogram. */
const NUMBERS = new Set(
  ("histogram_quantile histogram_count histogram_sum histogram_avg histogram_fraction histogram_stddev histogram_stdvar histogram_modes " +
    "count count_values group quantile stddev stdvar topk bottomk min max absent scalar vector time timestamp " +
    "min_over_time max_over_time quantile_over_time stddev_over_time changes resets deriv predict_linear").split(" "),
);

/** What is called outermost, over all the rest; empty where it is no one call. */
function outermost(text: string): { name: string; inside: string } | null {
  const call = /^\s*([a-zA-Z_]\w*)\s*(?:(?:by|without)\s*\([^()]*\)\s*)?\(/.exec(text);
  if (call === null) return null;
  let depth = 1;
  let at = call[0].length;
  for (let quote = ""; at < text.length && depth > 0; at++) {
    const char = text[at] as string;
    if (quote !== "") {
      if (char === "\\") at++;
      else if (char === quote) quote = "";
    } else if (`"'\``.includes(char)) quote = char;
    else depth += char === "(" ? 1 : char === ")" ? -1 : 0;
  }
  const rest = text.slice(at);
  if (depth > 0 || !/^\s*(?:(?:by|without)\s*\([^()]*\)\s*)?$/.test(rest)) return null;
  return { name: call[1] as string, inside: text.slice(call[0].length, at - 1) };
}

/** True when `query` gives numbers, as far as it says so itself or the types of its names do; `typeOf` is undefined where nobody knows. */
export function isNumbers(query: string, typeOf: (name: string) => string | undefined): boolean {
  const call = outermost(query);
  if (call !== null) return NUMBERS.has(call.name) || isNumbers(call.inside, typeOf);
  const selector = parseSelector(query.trim().replace(/\s*\[[\w:]+\]$/, ""));
  if (selector === null) return /^\s*[\d.]+(?:\s*[-+*/]\s*[\d.]+)*\s*$/.test(query);
  return ["gauge", "counter"].includes(typeOf(selector.name) ?? "");
}
