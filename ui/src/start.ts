/**
 * What the first page runs first: its frame is painted, then the program is loaded and run.
 *
 * Invariants: a button that is pressed before the program runs is pressed for the program once it does; until then the
 * document has `data-starting`.
 * Failure: where no frame comes (a page in the background, a busy machine) the program runs without one. Where a policy of the server
 * (Content-Security-Policy) forbids the style sheet inside of the page, it is fetched.
 */

import "./style.css";

/** Nobody waits longer for a frame: it would be late, and so would the picture. */
const FRAME_MS = 250;

let begun = false;

/** Buttons that were pressed before the program runs, in turn. */
const pressed: HTMLElement[] = [];

function press({ target }: Event): void {
  const button = target instanceof Element ? target.closest("button") : null;
  if (button !== null) pressed.push(button);
}

async function begin(): Promise<void> {
  if (begun) return;
  begun = true;
  await import("./main.ts");
  document.removeEventListener("click", press, true);
  delete document.documentElement.dataset["starting"];
  for (const button of pressed) button.click();
}

/** The style sheet as a file, where the one inside of the page is not in force. */
function restyle(inside: HTMLStyleElement | null): void {
  const href = inside?.dataset["href"];
  if (href === undefined || (inside?.sheet?.cssRules.length ?? 0) > 0) return;
  document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href }));
}

document.documentElement.dataset["starting"] = "";
document.addEventListener("click", press, true);
restyle(document.querySelector<HTMLStyleElement>("style[data-href]"));
// The callback of a frame runs before it is painted, a timer that it sets runs behind that.
if (document.hidden) void begin();
else requestAnimationFrame(() => setTimeout(begin));
setTimeout(begin, FRAME_MS);
