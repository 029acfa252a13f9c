/** Dark and light: by the system unless chosen here; and the colours that canvases need from the style sheet. */

import type { Theme } from "./colour.ts";

const KEY = "ogive.theme";
const inks = new Map<string, string>();

function systemTheme(): Theme {
  return matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark";
}

export function currentTheme(): Theme {
  const chosen = recall(KEY);
  return chosen === "dark" || chosen === "light" ? chosen : systemTheme();
}

/** Puts the theme on the page. */
export function applyTheme(): void {
  document.documentElement.dataset["theme"] = currentTheme();
  inks.clear();
}

/** Goes to the other theme; choosing what the system has means following the system again. */
export function toggleTheme(): void {
  const next: Theme = currentTheme() === "dark" ? "light" : "dark";
  if (next === systemTheme()) forget(KEY);
  else remember(KEY, next);
  applyTheme();
}

export function onSystemTheme(changed: () => void): void {
  matchMedia("(prefers-color-scheme: light)").addEventListener("change", changed);
}

/** A custom property of the style sheet. Kept until the theme changes: a frame asks for dozens. */
export function ink(name: string): string {
  let value = inks.get(name);
  if (value === undefined) {
    value = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    inks.set(name, value);
  }
  return value;
}

/** Storage may be switched off; then nothing is kept and nothing breaks. */
export function remember(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // Private windows refuse storage.
  }
}

export function recall(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function forget(key: string): void {
  try {
    localStorage.removeItem(key);
  } catch {
    // As above.
  }
}
