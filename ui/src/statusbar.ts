/** The strip at the bottom: is the server there, what is it, and how does it measure time. */

import { fetchStatus } from "./api.ts";
import { el } from "./dom.ts";
import { formatClock, formatCompact, formatDuration } from "./format.ts";
import type { Link } from "./live.ts";

/** The figures change slowly; this is for the eye. */
const EVERY_MS = 5_000;

/** `asking`: the result has no stream, so it is asked for again in turn. */
type Shown = Link | "paused" | "asking";

export class StatusBar {
  private status: Record<string, unknown> = {};
  private reached = true;
  private link: Shown = "connecting";
  private last: number | null = null;

  constructor(private readonly parent: HTMLElement) {
    void this.ask();
    setInterval(() => void this.ask(), EVERY_MS);
  }

  setLink(link: Shown): void {
    this.link = link;
    this.draw();
  }

  setLast(t: number | null): void {
    this.last = t;
    this.draw();
  }

  private async ask(): Promise<void> {
    if (document.hidden) return;
    try {
      this.status = await fetchStatus();
      this.reached = true;
    } catch {
      this.reached = false;
    }
    this.draw();
  }

  private draw(): void {
    const lost = !this.reached || this.link === "lost";
    const words: Record<Shown, string> = { connecting: "connecting", open: "live", lost: "connection lost", paused: "paused", asking: "live by polling" };
    const parts: Node[] = [el("span", { class: `link ${lost ? "lost" : this.link}` }, lost ? words.lost : words[this.link])];
    if (this.last !== null) parts.push(pair("last column", formatClock(this.last)));
    const number = (key: string): number | null => (typeof this.status[key] === "number" ? (this.status[key] as number) : null);
    const series = number("series");
    const stored = number("stored_total");
    const rejected = number("rejected_total");
    const uptime = number("uptime_seconds");
    if (series !== null) parts.push(pair("series", formatCompact(series)));
    if (stored !== null) parts.push(pair("samples stored", formatCompact(stored)));
    if (rejected !== null) parts.push(pair("rejected", formatCompact(rejected)));
    if (typeof this.status["clock_mode"] === "string") parts.push(pair("clock", this.status["clock_mode"]));
    if (uptime !== null) parts.push(pair("up", formatDuration(uptime)));
    if (typeof this.status["version"] === "string") parts.push(el("span", { class: "right" }, "Ogive ", el("b", {}, this.status["version"])));
    this.parent.replaceChildren(...parts);
  }
}

function pair(name: string, value: string): HTMLElement {
  return el("span", {}, `${name} `, el("b", {}, value));
}
