/** What to do when there is nothing to draw. */

import { el } from "./dom.ts";
import { formatClock, formatDate, formatDuration } from "./format.ts";

export type Empty =
  | { kind: "refused" }
  | { kind: "none" | "unknown"; name: string; meant: string | null; take: (name: string) => void; widen: () => void; first: () => void };

export function drawEmpty(parent: HTMLElement, empty: Empty): void {
  if (empty.kind === "refused") {
    parent.replaceChildren(el("h2", {}, "Nothing to draw yet"), el("p", {}, "The server did not take the expression; the message above says where. Correct it and press Enter."));
    return;
  }
  if (empty.kind === "none") {
    parent.replaceChildren(
      el("h2", {}, "No samples in this range"),
      el("p", {}, "The expression is right and there is nothing here at this time. Look at a longer range, or see what Ogive measures by itself."),
      el("div", { class: "does" }, el("button", { type: "button", click: empty.widen }, "Last 1d"), el("button", { type: "button", click: empty.first }, "ogive_hiccup_seconds")),
    );
    return;
  }
  const address = new URL("v1/batch", document.baseURI).toString();
  const name = empty.name.replace(/[^\w:]/g, "");
  const command = `curl ${address} -H 'content-type: application/json' -d '{
  "source": "'$(uuidgen)'", "sequence": 1,
  "series": [{"labels": {"__name__": "${name}"}, "kind": "histogram",
              "temporality": "delta", "unit": "s", "width_ms": 1000}],
  "samples": [{"series": 0, "time_ms": '$(date +%s)000',
               "histogram": {"bins": {"1.2e-3": 4, "3.5e-2": 1}}}]}'`;
  parent.replaceChildren(
    el("h2", {}, `No series is called ${empty.name}`),
    ...(empty.meant === null ? [] : [el("p", {}, "Did you mean ", el("button", { type: "button", class: "link", click: () => empty.take(empty.meant as string) }, empty.meant), "?")]),
    el("p", {}, "Choose one from the list at the left, or send the first measurements of this one:"),
    el("pre", { tabindex: "0" }, command),
    el("div", { class: "does" }, el("button", { type: "button", click: empty.first }, "ogive_hiccup_seconds")),
  );
}

/** Says when a series that has nothing in view had its last sample, with a way there. */
export function sayLast(parent: HTMLElement, t: number, now: number, show: () => void): void {
  const ago = now - t < 1 ? "just now" : `${formatDuration(Math.round(now - t))} ago`;
  parent.querySelector("p")?.after(el("p", { "data-last": t }, `Its last sample is of ${formatDate(t)} ${formatClock(t)}, ${ago}. `, el("button", { type: "button", class: "link", click: show }, "Show that time")));
}
