/**
 * What the first page runs first: its frame is painted, then the program is loaded and run.
 *
 * Failure: where no frame comes (a page in the background, a busy machine) the program runs without one. Where a policy of the server
 * (Content-Security-Policy) forbids the style sheet inside of the page, it is fetched.
 */

import "./style.css";

/** Nobody waits longer for a frame: it would be late, and so would the picture. */
const FRAME_MS = 250;

let begun = false;

function begin(): void {
  if (begun) return;
  begun = true;
  void import("./main.ts");
}

/** The style sheet as a file, where the one inside of the page is not in force. */
function restyle(inside: HTMLStyleElement | null): void {
  const href = inside?.dataset["href"];
  if (href === undefined || (inside?.sheet?.cssRules.length ?? 0) > 0) return;
  document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href }));
}

restyle(document.querySelector<HTMLStyleElement>("style[data-href]"));
// The callback of a frame runs before it is painted, a timer that it sets runs behind that.
if (document.hidden) begin();
else requestAnimationFrame(() => setTimeout(begin));
setTimeout(begin, FRAME_MS);
