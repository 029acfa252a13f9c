/** The choices above the picture: quantiles, colour of the count, and the legend. */

import { formatCompact, formatShare } from "./format.ts";
import { USUAL } from "./compared.ts";
import { el } from "./dom.ts";
import { LEVELS, PALETTE_NAMES, unscaled, type Rgb, type Scaling } from "./colour.ts";
import { PLACE_LABEL } from "./places.ts";
import { cssName, quantileLabel } from "./quantilelines.ts";
import { ALL_GROUPS, type Labels } from "./api.ts";
import { formatSelector } from "./selector.ts";
import { QUANTILES, type State } from "./state.ts";

/** What an expression separates with `by` and `without`. */
export interface GroupList {
  readonly all: readonly { readonly labels: Labels; readonly count: string | null }[];
  readonly total: number;
  /** Labels of the one that is drawn; null when all are. */
  readonly drawn: Labels | null;
  /** All are drawn side by side. */
  readonly together: boolean;
}

/** The labels of a group as the server takes them: `{route="/a"}`. Pure. */
export function groupName(labels: Labels): string {
  const matchers = Object.entries(labels).map(([label, value]) => ({ label, op: "=" as const, value }));
  return matchers.length === 0 ? "{}" : formatSelector({ name: "", matchers });
}

const SCALINGS: readonly Scaling[] = ["linear", "sqrt", "log"];

/** What the box of a drag is for. */
export type Marking = "explain" | "zoom" | null;

export class Controls {
  private readonly ramp = el("canvas", { width: LEVELS, height: 1, role: "img", "aria-label": "Colours, from few samples to many" });
  private readonly from = el("span", {}, "0");
  private readonly to = el("span", {});
  private readonly middle = el("small", {});

  constructor(
    private readonly parent: HTMLElement,
    legend: HTMLElement,
    private readonly change: (part: Partial<State>) => void,
    /** What the box of the next drag is for, and a switch of it. */
    private readonly marking: { is(): Marking; set(on: Exclude<Marking, null>): void },
  ) {
    legend.append(this.from, this.ramp, this.to, this.middle);
  }

  show(state: State, groups: GroupList | null): void {
    const focused = (document.activeElement as HTMLElement | null)?.dataset["control"];
    const quantiles = QUANTILES.map((name) => {
      const on = state.quantiles.includes(name);
      const next = QUANTILES.filter((one) => (one === name ? !on : state.quantiles.includes(one)));
      return segment(`q-${name}`, quantileLabel(name), on, () => this.change({ quantiles: next }), `q q-${cssName(name)}`);
    });
    const scalings = SCALINGS.map((scaling) => segment(`scale-${scaling}`, scaling, state.scaling === scaling, () => this.change({ scaling })));
    const amounts = [
      segment("amount-count", "count", !state.density, () => this.change({ density: false }), "", "Colour is the count of each bin"),
      segment("amount-density", "density", state.density, () => this.change({ density: true }), "", "Colour is the count per 1 % of value: bins of unequal width compare fairly"),
    ];
    const palettes = PALETTE_NAMES.map((palette) => segment(`colours-${palette}`, palette, state.palette === palette, () => this.change({ palette })));
    this.parent.replaceChildren(
      ...(groups === null ? [] : [this.chooser(groups)]),
      group("Quantiles", quantiles),
      group("Colour", scalings),
      group("", amounts),
      group("", palettes),
      // Those that need one picture.
      ...(groups?.together === true ? [] : this.single(state)),
    );
    if (focused !== undefined) this.parent.querySelector<HTMLElement>(`[data-control="${focused}"]`)?.focus();
  }

  /** What is done with one picture: compare it, mark a box in it, look below it. */
  private single(state: State): HTMLElement[] {
    return [
      group("Compare", [
        ...USUAL.map(([ago, text]) => {
          const on = state.compare !== null && "ago" in state.compare && state.compare.ago === ago;
          return segment(`compare-${ago}`, text, on, () => this.change(on ? { compare: null, difference: false } : { compare: { ago } }), "", `Beside the same range ${text}`);
        }),
        segment("over", "same route", state.compare !== null && "over" in state.compare, () => this.change(state.compare !== null && "over" in state.compare ? { compare: null, difference: false } : { compare: { over: "" } }), "", "Lay another distribution over this one: what a browser waited for over what the server took"),
        ...(state.compare === null || ("over" in state.compare && state.compare.over === "") ? [] : [segment("difference", "difference map", state.difference, () => this.change({ difference: !state.difference }), "", "Cells show where there are more samples than before, and where less")]),
      ]),
      group("", [
        segment("explain", "explain a box", this.marking.is() === "explain", () => this.marking.set("explain"), "", "Drag a box over time and value: which labels are more frequent in it? Alt and a drag does the same"),
        segment("zoom", "zoom into a box", this.marking.is() === "zoom", () => this.marking.set("zoom"), "", "Drag a box over time and value: only that part is shown"),
        segment("why", "why was it slow", state.why !== null, () => this.change(state.why === null ? { why: "" } : { why: null, column: null }), "", "What the kernel measured of the process, on the same time axis; a click on a column says what was unusual in it"),
        segment("places", "by place", state.by !== null, () => this.change({ by: state.by === null ? PLACE_LABEL : null }), "", "The quantile lines of each place that measured, over one another: of each broker, or by another label"),
        ...(state.values === null ? [] : [segment("all-values", "all values", false, () => this.change({ values: null }), "", "Show all values again")]),
      ]),
    ];
  }

  /** Groups are drawn one at a time: merged only where somebody says so. */
  private chooser(groups: GroupList): HTMLElement {
    const drawn = groups.together ? "" : groups.drawn === null ? ALL_GROUPS : groupName(groups.drawn);
    const option = (value: string, text: string): HTMLElement => {
      const one = el("option", { value }, text);
      one.selected = value === drawn;
      return one;
    };
    const each = groups.all.map(({ labels, count }) => option(groupName(labels), count === null ? groupName(labels) : `${groupName(labels)} · ${formatCompact(Number(count))}`));
    const select = el("select", { "data-control": "group", "aria-label": "Group" }, option("", "side by side"), ...each, option(ALL_GROUPS, `all ${groups.total}, merged`));
    select.addEventListener("change", () => this.change({ group: select.value === "" ? null : select.value }));
    return el("label", { class: "group-of" }, `${groups.total} groups`, select);
  }

  /** What the colours of differences mean. */
  showDifferences(colours: readonly Rgb[], max: number): void {
    const context = this.ramp.getContext("2d");
    if (context === null) return;
    const image = context.createImageData(LEVELS, 1);
    for (let i = 0; i < LEVELS; i++) image.data.set([...(colours[Math.round((i * (colours.length - 1)) / (LEVELS - 1))] as Rgb), 255], i * 4);
    context.putImageData(image, 0, 0);
    const most = formatShare(max);
    [this.from.textContent, this.to.textContent] = [`−${most}`, `+${most}`];
    this.middle.textContent = "share of samples now, less before";
  }

  /** What the colours mean: nothing at the left, `max` at the right. */
  showLegend(colours: readonly Rgb[], max: number, state: State): void {
    const context = this.ramp.getContext("2d");
    if (context === null) return;
    const image = context.createImageData(LEVELS, 1);
    colours.forEach(([r, g, b], i) => image.data.set([r, g, b, 255], i * 4));
    context.putImageData(image, 0, 0);
    [this.from.textContent, this.to.textContent] = ["0", formatCompact(max)];
    const half = formatCompact(Number(unscaled(0.5, max, state.scaling).toPrecision(2)));
    this.middle.textContent = state.density ? `samples per 1 % of value, middle ${half}` : `samples per bin, middle ${half}`;
  }
}

function group(title: string, buttons: readonly Node[]): HTMLElement {
  return el("div", { class: "group-of" }, title, el("div", { class: "segments", role: "group", "aria-label": title || "Colour" }, ...buttons));
}

function segment(key: string, text: string, on: boolean, click: () => void, extra = "", title = ""): HTMLElement {
  return el("button", { type: "button", class: extra, title, "aria-pressed": String(on), "data-control": key, click }, text);
}
