/**
 * What a picture looks like while its data are asked for: the one before is dim, and how long it has been stands over it.
 *
 * Invariants: nothing shows in the first moment, in which most answers come, nor for what is in the picture already.
 */

import { el } from "./dom.ts";

/** Answers that come sooner are no wait to anybody. */
const SHOWN_AFTER_MS = 400;

export class Waiting {
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** What the picture shows. */
  private drawn = "";
  private readonly note = el("div", { class: "asking", role: "status", hidden: true });

  constructor(
    private readonly page: HTMLElement,
    stage: HTMLElement,
  ) {
    stage.append(this.note);
  }

  /** Whether there is a picture, of whatever. */
  get hasPicture(): boolean {
    return this.drawn !== "";
  }

  /** Something is asked for; `wanted` says what, so that a picture of the same is left alone. */
  begin(wanted: string): void {
    this.end();
    if (wanted === this.drawn) return;
    const since = performance.now();
    const show = (): void => {
      const seconds = Math.floor((performance.now() - since) / 1000);
      this.page.classList.add("waits");
      this.page.setAttribute("aria-busy", "true");
      this.note.hidden = false;
      this.note.textContent = `Asking the server…${seconds > 1 ? ` ${seconds} s` : ""}`;
      this.timer = setTimeout(show, 1000);
    };
    this.timer = setTimeout(show, SHOWN_AFTER_MS);
  }

  /** Nothing is asked for any more; `drawn` is what the picture now shows, when there is a new one. */
  end(drawn?: string): void {
    clearTimeout(this.timer);
    this.drawn = drawn ?? this.drawn;
    this.page.classList.remove("waits");
    this.page.removeAttribute("aria-busy");
    this.note.hidden = true;
  }
}
