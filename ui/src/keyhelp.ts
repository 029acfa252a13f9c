/** The keys of the page, under `?`. */

import { el } from "./dom.ts";

const KEYS: readonly (readonly [string, string])[] = [
  ["?", "this list"],
  ["/", "the query box"],
  ["e", "the editor, with completion from the server"],
  ["Tab", "in the query box: take the completion"],
  ["Ctrl+Enter", "in the editor: run"],
  ["← → ↑ ↓", "on the heat map: move the cursor; Shift: ten columns"],
  ["Enter", "on the heat map: the slow traces of the column"],
  ["Alt and a drag", "on the heat map: a box of time and value; what is different about it?"],
  ["Shift and a drag", "on the heat map: the lines of that time"],
  ["T", "on the heat map: the threshold"],
  ["L", "on the heat map: the lines of the column"],
  ["Space", "live or paused"],
  ["Backspace", "the view before; Shift: the one after it"],
  ["Escape", "close, or remove the threshold"],
];

let dialog: HTMLDialogElement | null = null;

export function showKeys(): void {
  if (dialog === null) {
    const rows = KEYS.flatMap(([key, what]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, what)]);
    dialog = el("dialog", { class: "keys", "aria-label": "Keys" }, el("h2", {}, "Keys"), el("dl", {}, ...rows), el("form", { method: "dialog" }, el("button", {}, "Close")));
    document.body.append(dialog);
  }
  if (!dialog.open) dialog.showModal();
}
