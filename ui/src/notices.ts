/** Warnings and remarks that come with an answer. */

import { el } from "./dom.ts";

export function drawNotices(parent: HTMLElement, warnings: readonly string[], infos: readonly string[]): void {
  parent.replaceChildren(
    ...[...new Set(warnings)].map((text) => el("div", { class: "notice" }, text)),
    ...[...new Set(infos)].map((text) => el("div", { class: "notice info" }, text)),
  );
}
