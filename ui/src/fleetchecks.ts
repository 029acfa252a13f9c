/**
 * The checks that several brokers run, on the fleet's page: each leads to its answers from all places.
 *
 * Failure: while the server has no answer the list stays as it was.
 */

import { fetchInstant, serverNow } from "./api.ts";
import { el } from "./dom.ts";
import { formatCount } from "./format.ts";
import { checkAddress, CHECKS_QUERY, checksOf } from "./places.ts";
import { poll } from "./poll.ts";

/** Checks come and go with configurations. */
const EVERY_MS = 60_000;
/** More than anybody looks through; all of them are in the list of series. */
const ROWS_MAX = 200;

export function showChecks(box: HTMLElement): void {
  poll(async () => {
    const answer = await fetchInstant(CHECKS_QUERY, Math.ceil(serverNow())).catch(() => null);
    if (answer === null) return;
    const all = checksOf(answer.data);
    box.hidden = all.length === 0;
    const focused = document.activeElement instanceof HTMLElement ? document.activeElement.dataset["check"] : undefined;
    const rows = all.slice(0, ROWS_MAX).map(({ name, places }) => el("li", {}, el("a", { href: checkAddress(name), "data-check": name, title: "Its answers from all places, and the quantiles of each" }, name), ` from ${formatCount(places)} places`));
    const more = all.length > ROWS_MAX ? [el("li", {}, `and ${formatCount(all.length - ROWS_MAX)} more`)] : [];
    box.replaceChildren(el("h2", {}, "Checks from several places"), el("ul", {}, ...rows, ...more));
    if (focused !== undefined) box.querySelector<HTMLElement>(`a[data-check="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }, EVERY_MS);
}
