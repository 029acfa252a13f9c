/** The choice of the time range: the last so long, or two instants. */

import { byId, el, icon } from "./dom.ts";
import { formatClock, formatDate, formatDuration, parseDuration, setZone, zone, zoneOffset, type Zone } from "./format.ts";
import { parseInstant, type Range } from "./state.ts";
import { recall, remember } from "./theme.ts";

export const PRESETS = [60, 300, 900, 3600, 21600, 86400, 7 * 86400, 30 * 86400, 365 * 86400];

const ZONE_KEY = "ogive.zone";

/** What the button says. Pure. */
export function rangeText(range: Range): string {
  if ("last" in range) return `Last ${formatDuration(range.last)}`;
  const [from, to] = [formatDate(range.start), formatDate(range.end)];
  const name = zone() === "utc" ? " UTC" : "";
  const end = from === to ? formatClock(range.end) : `${to} ${formatClock(range.end)}`;
  return `${from} ${formatClock(range.start)} – ${end}${name}`;
}

function offsetText(seconds: number): string {
  const minutes = Math.round(zoneOffset(seconds) / 60);
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  return `UTC${minutes < 0 ? "−" : "+"}${String(hours).padStart(2, "0")}:${String(rest).padStart(2, "0")}`;
}

/** In which zone times are written, and where clocks change between two instants, both of its offsets. */
export function zoneText(start: number, end: number): string {
  if (zone() === "utc") return "Times are UTC";
  const [from, to] = [offsetText(start), offsetText(end)];
  return `Times are local, ${from === to ? from : `${from}, then ${to}`}`;
}

export class RangeBox {
  private readonly button = byId<HTMLButtonElement>("range-button");
  private readonly menu = byId("range-menu");
  private readonly from = el("input", { type: "text", "aria-label": "From", spellcheck: false });
  private readonly to = el("input", { type: "text", "aria-label": "To", spellcheck: false });
  private readonly why = el("div", { class: "why", role: "alert" });
  private range: Range = { last: 300 };

  constructor(
    private readonly choose: (range: Range) => void,
    private readonly shown: () => { start: number; end: number },
    private readonly zoneChanged: () => void = () => undefined,
  ) {
    setZone(recall(ZONE_KEY) === "utc" ? "utc" : "local");
    this.button.addEventListener("click", () => this.open(this.menu.hidden === true));
    document.addEventListener("pointerdown", (event) => {
      if (!this.menu.contains(event.target as Node) && !this.button.contains(event.target as Node)) this.open(false);
    });
    this.menu.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      this.open(false);
      this.button.focus();
    });
  }

  show(range: Range): void {
    this.range = range;
    this.button.title = zoneText("last" in range ? Date.now() / 1000 : range.start, "last" in range ? Date.now() / 1000 : range.end);
    this.button.replaceChildren(rangeText(range), " ", icon("M4.5 6.5 8 10l3.5-3.5"));
  }

  private open(open: boolean): void {
    this.menu.hidden = !open;
    this.button.setAttribute("aria-expanded", String(open));
    if (!open) return;
    const presets = PRESETS.map((last) => {
      const on = "last" in this.range && this.range.last === last;
      return el("button", { type: "button", "aria-pressed": String(on), click: () => this.take({ last }) }, `Last ${formatDuration(last)}`);
    });
    const { start, end } = this.shown();
    this.from.value = `${formatDate(start)} ${formatClock(start)}`;
    this.to.value = `${formatDate(end)} ${formatClock(end)}`;
    this.why.textContent = "";
    const form = el(
      "form",
      { class: "custom", submit: (event: Event) => this.custom(event) },
      el("label", {}, "From", this.from),
      el("label", {}, "To", this.to),
      this.why,
      el("button", { type: "submit" }, "Show this range"),
    );
    const zones = (["local", "utc"] as const).map((one) => el("button", { type: "button", "data-zone": one, "aria-pressed": String(zone() === one), click: () => this.takeZone(one) }, one === "utc" ? "UTC" : "local time"));
    this.menu.replaceChildren(el("div", { class: "presets" }, ...presets), form, el("div", { class: "zones", role: "group", "aria-label": "Time zone" }, ...zones));
    presets[0]?.focus();
  }

  private custom(event: Event): void {
    event.preventDefault();
    const last = parseDuration(this.from.value);
    const ago = /^now\s*-\s*(\w+)$/.exec(this.from.value.trim())?.[1];
    const live = ago === undefined || this.to.value.trim() !== "now" ? null : parseDuration(ago);
    if (live !== null && live > 0) return this.take({ last: live });
    const start = parseInstant(this.from.value);
    const end = parseInstant(this.to.value);
    if (start === null && last !== null && last > 0) return this.take({ last });
    if (start === null || end === null) this.why.textContent = "Write a time as 2026-03-01 14:05:00, now-7d or -1h, or a length such as 45m.";
    else if (end <= start) this.why.textContent = "The end must come after the beginning.";
    else this.take({ start, end });
  }

  private takeZone(next: Zone): void {
    setZone(next);
    remember(ZONE_KEY, next);
    this.open(false);
    this.show(this.range);
    this.zoneChanged();
  }

  private take(range: Range): void {
    this.open(false);
    this.choose(range);
  }
}
