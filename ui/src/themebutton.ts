/** The theme of a page, and the button that each page has for it. */

import { byId, icon } from "./dom.ts";
import { applyTheme, onSystemTheme, toggleTheme } from "./theme.ts";

const MOON = "M13.5 9.5A5.8 5.8 0 0 1 6.5 2.5a5.8 5.8 0 1 0 7 7z";

/** Puts the theme on the page, and another when the button or the system says so; `changed` draws again what has colours of its own. */
export function useTheme(changed: () => void = () => undefined): void {
  applyTheme();
  byId("theme").append(icon(MOON));
  byId("theme").addEventListener("click", () => {
    toggleTheme();
    changed();
  });
  onSystemTheme(() => {
    applyTheme();
    changed();
  });
}
