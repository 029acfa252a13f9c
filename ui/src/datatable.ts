/** Tables of the operator's page. */

import { el } from "./dom.ts";
import { formatState, parseState } from "./state.ts";

export type Cell = string | Node;

/** A table whose first column names its rows, or a sentence when there are none. */
export function table(heads: readonly string[], rows: readonly (readonly Cell[])[], none: string): Node[] {
  if (rows.length === 0) return [el("p", { class: "note" }, none)];
  const head = el("tr", {}, ...heads.map((text) => el("th", { scope: "col" }, text)));
  const body = rows.map(([first, ...rest]) => el("tr", {}, el("th", { scope: "row" }, first as Cell), ...rest.map((cell) => el("td", {}, cell))));
  return [el("table", { class: "rows" }, el("thead", {}, head), el("tbody", {}, ...body))];
}

/** An expression, to be looked at. */
export function queryLink(query: string, text = query): HTMLElement {
  return el("a", { href: `./${formatState({ ...parseState(""), query })}` }, text);
}
