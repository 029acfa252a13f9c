/**
 * The slow traces of a cell: a list, and the chosen one stage by stage.
 *
 * Invariants: what is shown belongs to the last `show`; an answer to an earlier one is thrown away. The address is written by
 * whoever hears `choose`, so that a link leads to the same trace.
 */

import { ApiError, fetchTraces } from "./api.ts";
import { el } from "./dom.ts";
import { formatClock, formatCount, formatDate, formatShare } from "./format.ts";
import type { Span } from "./state.ts";
import { barsOf, chosenIndex, classesOf, clockText, doubts, formatNs, idOf, isTrace, listText, placedMarks, publishedAt, sentence, stageSelector, worstOf, type Raw, type Trace, type Traces } from "./traces.ts";

export interface PanelHandlers {
  choose(id: string): void;
  close(): void;
  /** Shows another series. */
  ask(query: string): void;
  /** True when other columns in view have slow traces. */
  marked(): boolean;
}

/** Where the mouse or the keyboard asked. */
export interface Hint {
  readonly seconds: number | null;
  readonly focus: boolean;
}

export class TracePanel {
  private shown = "";
  private turn = 0;
  private list: readonly (Trace | Raw)[] = [];
  private chosen = -1;
  private options: HTMLElement[] = [];
  private readonly title = el("h2", {});
  private readonly note = el("p", { class: "slow-note" });
  private readonly box = el("ul", { class: "slow-list", role: "listbox", tabindex: 0, "aria-label": "Slow traces, slowest first" });
  private readonly detail = el("div", { class: "slow-detail" });

  constructor(
    private readonly parent: HTMLElement,
    private readonly handlers: PanelHandlers,
  ) {
    const close = el("button", { type: "button", class: "ghost", title: "Close (Escape)", "aria-label": "Close the slow traces", click: () => handlers.close() }, "✕");
    parent.append(el("div", { class: "slow-head" }, this.title, this.note, close), el("div", { class: "slow-body" }, this.box, this.detail));
    document.addEventListener("keydown", (event) => {
      // Menus of the head close themselves.
      if (event.key === "Escape" && this.open && !(event.target instanceof Element && event.target.closest(".bar"))) handlers.close();
    });
    this.box.addEventListener("keydown", (event) => this.key(event));
  }

  get open(): boolean {
    return !this.parent.hidden;
  }

  /** Shows what the state says; asks only when it is about other series or another time. */
  show(query: string, span: Span | null, id: string | null, hint: Hint = { seconds: null, focus: false }): void {
    this.parent.hidden = span === null;
    const wanted = span === null ? "" : JSON.stringify([query, span]);
    if (wanted === this.shown) {
      if (hint.seconds !== null) return this.choose(chosenIndex(this.list, null, hint.seconds), true);
      if (id !== null && this.list[this.chosen] !== undefined && idOf(this.list[this.chosen] as Trace) !== id) this.choose(chosenIndex(this.list, id, null), false);
      return;
    }
    this.shown = wanted;
    const turn = ++this.turn;
    if (span === null) return;
    this.title.textContent = "Slow traces";
    this.say(`${formatDate(span.end)} ${formatClock(span.start)} – ${formatClock(span.end)}`);
    fetchTraces(query, span.start, span.end).then(
      ({ data }) => turn === this.turn && this.fill(data, span, id, hint),
      (cause: unknown) => turn === this.turn && this.fail(cause),
    );
  }

  private say(text: string): void {
    this.note.textContent = text;
    this.parent.classList.remove("none");
  }

  private fail(cause: unknown): void {
    this.empty(cause instanceof ApiError ? cause.message : String(cause));
    // The next one with the same time asks again.
    this.shown = "failed";
  }

  private empty(text: string): void {
    this.list = [];
    this.chosen = -1;
    this.say(text);
    this.parent.classList.add("none");
    this.box.replaceChildren();
    this.detail.replaceChildren();
  }

  private fill(data: Traces, span: Span, id: string | null, hint: Hint): void {
    const when = `${formatDate(span.end)} ${formatClock(span.start)} – ${formatClock(span.end)}`;
    if (data.traces.length === 0) {
      this.empty(
        this.handlers.marked()
          ? `None between ${formatClock(span.start)} and ${formatClock(span.end)}: columns with a mark above them have some.`
          : "None. A process sends them when it traces its messages with ogive_probe's trace_path! and exports them (docs/export.md); the server does so for its own batches: ogive_ingest_seconds.",
      );
      if (hint.focus) this.parent.querySelector<HTMLElement>("button")?.focus();
      return;
    }
    const more = data.traces.length < data.examined || !data.complete ? `, the slowest of ${formatCount(data.examined)}${data.complete ? "" : " and more"}` : "";
    this.say(`${when} · ${formatCount(data.traces.length)}${more}${data.invalid > 0 ? ` · ${formatCount(data.invalid)} texts are no slow traces` : ""}`);
    this.list = data.traces;
    this.options = data.traces.map((one, at) => this.option(one, at));
    this.box.replaceChildren(...this.options);
    this.choose(chosenIndex(data.traces, id, hint.seconds), id === null);
    if (hint.focus) this.box.focus();
  }

  private option(one: Trace | Raw, at: number): HTMLElement {
    const props = { class: "slow-item", role: "option", id: `slow-${at}`, click: () => this.choose(at, true) };
    if (!isTrace(one)) return el("li", props, el("b", {}, "?"), el("span", {}, "not a slow trace"), el("small", {}, formatClock(one.t)));
    const strip = el("span", { class: "strip", "aria-hidden": "true" });
    for (const stage of one.stages) strip.append(el("i", { class: stage.class, style: `flex-grow:${Math.max(stage.ns, one.total_ns / 500)}` }));
    return el("li", { ...props, "aria-label": sentence(one) }, el("b", {}, formatNs(one.total_ns)), el("span", {}, worstOf(one)), el("small", {}, publishedAt(one)), strip);
  }

  private choose(at: number, tell: boolean): void {
    const one = this.list[at];
    if (one === undefined) return;
    this.chosen = at;
    this.options.forEach((option, index) => option.setAttribute("aria-selected", String(index === at)));
    this.box.setAttribute("aria-activedescendant", `slow-${at}`);
    this.options[at]?.scrollIntoView({ block: "nearest" });
    this.detail.replaceChildren(...(isTrace(one) ? this.waterfall(one) : [el("p", { class: "doubt" }, one.error), el("pre", {}, one.raw)]));
    if (tell) this.handlers.choose(idOf(one));
  }

  private key(event: KeyboardEvent): void {
    const last = this.list.length - 1;
    const next = { ArrowDown: this.chosen + 1, ArrowUp: this.chosen - 1, Home: 0, End: last }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.choose(Math.min(last, Math.max(0, next)), true);
  }

  private waterfall(trace: Trace): Node[] {
    const over = `${(trace.total_ns / Math.max(1, trace.limit_ns)).toFixed(1)} × its limit of ${formatNs(trace.limit_ns)}`;
    const head = el("div", { class: "fall-head" }, el("b", {}, `${formatCount(trace.total_ns)} ns`), el("span", {}, `${trace.path} of ${trace.publisher} · ${over}`), ...this.cell(trace));
    const rows = barsOf(trace).map(({ stage, left, width }) => {
      const selector = stageSelector(trace, stage);
      const name = selector === null ? el("span", {}, stage.name) : el("button", { type: "button", class: "link", title: `Show ${selector}`, click: () => this.handlers.ask(selector) }, stage.name);
      return el(
        "li",
        { class: stage.name === trace.worst ? "worst" : "" },
        el("span", { class: "fall-name" }, name),
        el("span", { class: `class ${stage.class}` }, stage.class),
        el("span", { class: "track", "aria-hidden": "true" }, el("i", { class: stage.class, style: `left:${left}%;width:${width}%` })),
        el("span", { class: "ns" }, `${formatCount(stage.ns)} ns`),
        el("span", { class: "percent" }, `${stage.percent.toFixed(2)} %`),
      );
    });
    for (const { mark, left, since } of placedMarks(trace)) {
      rows.push(
        el(
          "li",
          { class: "mark" },
          el("span", { class: "fall-name" }, mark.name),
          el("span", { class: "class" }, "mark"),
          el("span", { class: "track", "aria-hidden": "true" }, el("i", { style: `left:min(${left}%, 100% - 2px)` })),
          el("span", { class: "ns", title: "Since the message began" }, `at ${formatCount(mark.ns)} ns`),
          el("span", { class: "percent", title: "Since the mark before of this name" }, since === null ? "" : `+${formatNs(since)}`),
        ),
      );
    }
    const facts = el("dl", { class: "fall-facts" });
    for (const { name, ns, share } of classesOf(trace)) facts.append(el("div", {}, el("dt", {}, el("i", { class: name }), name === "infra" ? "infrastructure" : name), el("dd", {}, `${formatNs(ns)}, ${formatShare(share)}`)));
    const gap = trace.gap_ns === null ? "none known" : formatNs(trace.gap_ns);
    facts.append(el("div", {}, el("dt", {}, "gap"), el("dd", { title: "From the publisher's last message to this one" }, gap)));
    facts.append(el("div", {}, el("dt", {}, "clock"), el("dd", {}, clockText(trace.clock))));
    return [head, el("ol", { class: "fall" }, ...rows), facts, ...[listText(trace), ...doubts(trace)].filter((text) => text !== null).map((text) => el("p", { class: "doubt" }, text))];
  }

  /** The histogram that it is a part of. */
  private cell(trace: Trace): Node[] {
    const selector = trace.cell?.selector;
    if (selector === undefined) return [];
    return [el("button", { type: "button", class: "link cell", title: `Show the histogram that counts it: ${selector}`, click: () => this.handlers.ask(selector) }, selector)];
  }
}
