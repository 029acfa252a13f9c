/** Numbers about all that is in view, from the merged bins: exact counts, and quantiles as the bin that holds them. */

import { quantileBin, shareBelow, type BinTable, type Merged } from "./bins.ts";
import { intervalOf } from "./confidence.ts";
import { el } from "./dom.ts";
import { formatBounds, formatCount, formatRate, formatShare, formatValue } from "./format.ts";
import { confidenceText, cssName, isFaint, quantileLabel } from "./quantilelines.ts";
import type { Bins } from "./quantile.ts";
import type { QuantileName } from "./state.ts";

const SHOWN: readonly QuantileName[] = ["0.5", "0.9", "0.99", "0.999"];

export interface View {
  readonly table: BinTable;
  /** Each cell in view once; null when the expression has no such thing. */
  readonly merged: Merged | null;
  /** Why it has none. */
  readonly why: string;
  readonly unit: string;
  /** Seconds of the view. */
  readonly seconds: number;
  readonly series: number;
  readonly threshold: number | null;
}

export function drawFacts(parent: HTMLElement, view: View, dropThreshold: () => void): void {
  const { table, merged, unit } = view;
  if (merged === null) {
    const box = fact("Samples in view", "–", `no exact distribution for this expression: ${view.why}`, "total");
    box.classList.add("why");
    parent.replaceChildren(box);
    return;
  }
  const facts: Node[] = [];
  const rate = view.seconds > 0 ? merged.total / view.seconds : 0;
  facts.push(fact("Samples in view", formatCount(merged.total), `${formatRate(rate)} · ${view.series} series`, "total"));
  for (const name of SHOWN) {
    const bin = quantileBin(table, merged, Number(name));
    if (bin === null) continue;
    const interval = intervalOf(binsOf(table, merged), Number(name));
    const note = [...(interval === null ? [] : [confidenceText(interval, name, unit)]), errorNote(bin.lo, bin.hi)];
    const box = fact(quantileLabel(name), formatBounds(bin.lo, bin.hi, unit), note, cssName(name), `q-${cssName(name)}`);
    box.classList.toggle("faint", isFaint(interval));
    facts.push(box);
  }
  if (merged.max !== null && merged.min !== null) {
    facts.push(fact("max", formatValue(merged.max, unit, 4), `exact · min ${formatValue(merged.min, unit, 4)}`, "max", "q-max"));
  }
  if (view.threshold !== null) facts.push(thresholdFact(view, merged, view.threshold, dropThreshold));
  parent.replaceChildren(...facts);
}

function binsOf(table: BinTable, { ids, counts, min, max }: Merged): Bins {
  return { lo: ids.map((id) => table.lo[id] as number), hi: ids.map((id) => table.hi[id] as number), counts, min, max, float: false };
}

/** A figure, what it is called, and what is to be said of it, a line each. */
function fact(name: string, value: string, note: string | readonly string[], key: string, mark = ""): HTMLElement {
  const swatch = mark === "" ? [] : [el("span", { class: `q ${mark}` })];
  return el(
    "div",
    { class: "fact", "data-fact": key },
    el("div", { class: "name" }, ...swatch, name),
    el("div", { class: "value", title: value }, value),
    el("div", { class: "note" }, ...[note].flat().map((line) => el("span", {}, line))),
  );
}

/** Half the width of the bin over its middle: how far off the middle can be. */
function errorNote(lo: number, hi: number): string {
  const error = Math.abs((hi - lo) / (hi + lo));
  return Number.isFinite(error) && hi + lo !== 0 ? `the bin, ± ${formatShare(error)}` : "the bin that holds it";
}

/** How much is at or below the threshold. Inside of a bin only bounds are known, and both are shown. */
function thresholdFact({ table, unit }: View, merged: Merged, threshold: number, drop: () => void): HTMLElement {
  const share = shareBelow(table, merged, threshold);
  const exact = share.hi - share.lo < 1e-12;
  const below = exact ? formatShare(share.lo) : `${formatShare(share.lo)} – ${formatShare(share.hi)}`;
  const above = Math.round((1 - share.hi) * merged.total);
  const box = fact(`Below ${formatValue(threshold, unit, 3)}`, below, `${formatCount(above)} samples above (${formatShare(1 - share.hi)})`, "threshold");
  box.classList.add("threshold");
  box.querySelector(".name")?.append(el("button", { type: "button", title: "Remove the threshold (Escape)", "aria-label": "Remove the threshold", click: drop }, "✕"));
  return box;
}
