import { expect, test } from "vitest";
import { level, LEVELS, lightness, palette, PALETTE_NAMES, paletteWords, scaled, unscaled, type Rgb } from "../src/colour.ts";

const both = PALETTE_NAMES.flatMap((name) => [[name, "dark"], [name, "light"]] as const);

test.each(both)("%s %s: more samples are always lighter on dark and darker on light", (name, theme) => {
  const colours = palette(name, theme);
  expect(colours).toHaveLength(LEVELS);
  const way = theme === "dark" ? 1 : -1;
  // Rounding to bytes can hold lightness still for one step; over eight steps it must move.
  for (let i = 9; i < LEVELS; i++) expect(way * (lightness(colours[i] as Rgb) - lightness(colours[i - 8] as Rgb))).toBeGreaterThan(0);
  expect(Math.abs(lightness(colours[LEVELS - 1] as Rgb) - lightness(colours[1] as Rgb))).toBeGreaterThan(0.6);
});

/** Red-blind and green-blind sight (Viénot, Brettel and Mollon, "Digital video colourmaps for checking the legibility of displays by dichromats", 1999). */
function dichromat([r, g, b]: Rgb, red: boolean): Rgb {
  const linear = [r, g, b].map((value) => (value / 255) ** 2.2) as [number, number, number];
  const mixed = red ? 0.1124 * linear[0] + 0.8876 * linear[1] : 0.2927 * linear[0] + 0.7073 * linear[1];
  const blue = red ? 0.004 * linear[0] - 0.004 * linear[1] + linear[2] : -0.0223 * linear[0] + 0.0223 * linear[1] + linear[2];
  return [mixed, mixed, Math.max(0, blue)].map((value) => Math.round(255 * Math.min(1, value) ** (1 / 2.2))) as unknown as Rgb;
}

test.each(both)("%s %s keeps its order for red-blind and green-blind eyes", (name, theme) => {
  const way = theme === "dark" ? 1 : -1;
  for (const red of [true, false]) {
    const seen = palette(name, theme).map((colour) => lightness(dichromat(colour, red)));
    for (let i = 33; i < LEVELS; i += 16) expect(way * ((seen[i] as number) - (seen[i - 16] as number))).toBeGreaterThan(0);
  }
});

test("words are the pixels of an image, red first", () => {
  const bytes = new Uint8Array(paletteWords([[1, 2, 3]]).buffer);
  expect([...bytes]).toEqual([1, 2, 3, 255]);
});

test.each(["linear", "sqrt", "log"] as const)("%s goes from nothing to all, rises, and can be undone", (scaling) => {
  expect(scaled(0, 100, scaling)).toBe(0);
  expect(scaled(100, 100, scaling)).toBeCloseTo(1, 12);
  expect(scaled(1e9, 100, scaling)).toBeCloseTo(1, 12);
  let last = 0;
  for (let amount = 1; amount <= 100; amount++) {
    expect(scaled(amount, 100, scaling)).toBeGreaterThan(last);
    last = scaled(amount, 100, scaling);
    expect(unscaled(last, 100, scaling)).toBeCloseTo(amount, 9);
  }
});

test("one sample among a million is not painted as none", () => {
  expect(level(0, 1e6, "linear")).toBe(0);
  expect(level(1, 1e6, "linear")).toBeGreaterThan(8);
  expect(level(1e6, 1e6, "linear")).toBe(LEVELS - 1);
});
