/**
 * Colour of a count. Pure.
 *
 * The maps are made here from a few control points in Oklab (Björn Ottosson, "A perceptual color space for image
 * processing", 2020) by steps of equal distance, so equal steps of the scaled count look equal. Lightness rises
 * (dark theme) or falls (light theme) all the way, so the order survives any colour blindness and grey print.
 */

export type Scaling = "linear" | "sqrt" | "log";
export type Theme = "dark" | "light";
export type PaletteName = "ember" | "lagoon" | "mono";
export type Rgb = readonly [number, number, number];

export const PALETTE_NAMES: readonly PaletteName[] = ["ember", "lagoon", "mono"];

/** Control points: lightness 0..1, chroma, hue in degrees. Hues run along the blue-yellow axis, which the common kinds of colour blindness keep. */
type Point = readonly [number, number, number];
const POINTS: Record<PaletteName, Record<Theme, readonly Point[]>> = {
  ember: {
    dark: [[0.27, 0.07, 282], [0.38, 0.15, 300], [0.52, 0.2, 340], [0.67, 0.19, 30], [0.82, 0.16, 72], [0.97, 0.08, 102]],
    light: [[0.92, 0.05, 85], [0.8, 0.13, 65], [0.66, 0.19, 35], [0.5, 0.2, 355], [0.36, 0.16, 305], [0.22, 0.1, 285]],
  },
  lagoon: {
    dark: [[0.28, 0.08, 275], [0.42, 0.12, 258], [0.58, 0.11, 222], [0.74, 0.11, 180], [0.87, 0.13, 130], [0.97, 0.12, 108]],
    light: [[0.94, 0.06, 115], [0.82, 0.11, 150], [0.66, 0.11, 200], [0.5, 0.12, 245], [0.36, 0.13, 268], [0.24, 0.1, 278]],
  },
  mono: {
    dark: [[0.28, 0.04, 255], [0.6, 0.09, 250], [0.98, 0.02, 240]],
    light: [[0.94, 0.02, 250], [0.6, 0.11, 255], [0.22, 0.08, 262]],
  },
};

/** Entries of a map. Entry 0 is "no samples"; 1.. are counts. */
export const LEVELS = 256;

/** Least level of a bin that holds anything: one sample among a million must be seen. */
const LEVEL_MIN = 14;

type Lab = [number, number, number];

function lch([l, c, h]: Point): Lab {
  const angle = (h * Math.PI) / 180;
  return [l, c * Math.cos(angle), c * Math.sin(angle)];
}

/** Oklab to linear sRGB, by the matrices of the article. */
function toLinear([l, a, b]: Lab): [number, number, number] {
  const x = (l + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const y = (l - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const z = (l - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * x - 3.3077115913 * y + 0.2309699292 * z,
    -1.2684380046 * x + 2.6097574011 * y - 0.3413193965 * z,
    -0.0041960863 * x - 0.7034186147 * y + 1.707614701 * z,
  ];
}

function gamma(value: number): number {
  const clipped = Math.min(1, Math.max(0, value));
  return Math.round(255 * (clipped <= 0.0031308 ? 12.92 * clipped : 1.055 * clipped ** (1 / 2.4) - 0.055));
}

/** Keeps lightness and hue and gives up chroma until the colour exists on a screen. */
function toRgb(lab: Lab): Rgb {
  for (let keep = 1; keep > 0; keep -= 0.02) {
    const linear = toLinear([lab[0], lab[1] * keep, lab[2] * keep]);
    if (linear.every((value) => value >= -0.0005 && value <= 1.0005)) return linear.map(gamma) as unknown as Rgb;
  }
  return toLinear([lab[0], 0, 0]).map(gamma) as unknown as Rgb;
}

/** Lightness of Oklab of an sRGB colour; what tests compare. */
export function lightness([r, g, b]: Rgb): number {
  const [x, y, z] = [r, g, b].map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  const l = Math.cbrt(0.4122214708 * x + 0.5363325363 * y + 0.0514459929 * z);
  const m = Math.cbrt(0.2119034982 * x + 0.6806995451 * y + 0.1073969566 * z);
  const s = Math.cbrt(0.0883024619 * x + 0.2817188376 * y + 0.6299787005 * z);
  return 0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s;
}

/** Colour of "measured, and nothing there": between the ground of the page and the first level. */
const EMPTY: Record<Theme, Rgb> = { dark: [17, 20, 30], light: [250, 249, 246] };

/** The `LEVELS` colours of a map. */
export function palette(name: PaletteName, theme: Theme): Rgb[] {
  const points = POINTS[name][theme].map(lch);
  const samples = 2000;
  const path: Lab[] = [];
  for (let i = 0; i <= samples; i++) path.push(along(points, (i / samples) * (points.length - 1)));
  const length = [0];
  for (let i = 1; i < path.length; i++) length.push((length[i - 1] as number) + distance(path[i - 1] as Lab, path[i] as Lab));
  const total = length[samples] as number;
  const out: Rgb[] = [EMPTY[theme]];
  let at = 0;
  for (let level = 1; level < LEVELS; level++) {
    const wanted = ((level - 1) / (LEVELS - 2)) * total;
    while (at < samples && (length[at] as number) < wanted) at++;
    out.push(toRgb(path[at] as Lab));
  }
  return out;
}

/** Ends and middle of a map of differences: less, alike, more. Blue and orange are told apart by all common kinds of colour blindness. */
const DIFFERENCE: Record<Theme, readonly Point[]> = {
  dark: [[0.88, 0.1, 230], [0.6, 0.15, 255], [0.2, 0.02, 275], [0.65, 0.17, 45], [0.92, 0.1, 85]],
  light: [[0.34, 0.14, 262], [0.62, 0.14, 250], [0.96, 0.01, 90], [0.68, 0.16, 50], [0.4, 0.15, 35]],
};

/** Colours from "less" over "alike" to "more"; their number is odd, the middle one is alike. */
export function differencePalette(theme: Theme): Rgb[] {
  const points = DIFFERENCE[theme].map(lch);
  const out: Rgb[] = [];
  for (let i = 0; i <= LEVELS; i++) out.push(toRgb(along(points, (i / LEVELS) * (points.length - 1))));
  return out;
}

function along(points: readonly Lab[], at: number): Lab {
  const i = Math.min(points.length - 2, Math.floor(at));
  const [a, b] = [points[i] as Lab, points[i + 1] as Lab];
  const part = at - i;
  return [a[0] + (b[0] - a[0]) * part, a[1] + (b[1] - a[1]) * part, a[2] + (b[2] - a[2]) * part];
}

function distance(a: Lab, b: Lab): number {
  return Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

/** The map as pixels of an `ImageData` seen as 32-bit words (little-endian: ABGR), alpha full. */
export function paletteWords(colours: readonly Rgb[]): Uint32Array {
  return Uint32Array.from(colours, ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0);
}

/** Ratio of the greatest to the least amount that the log scaling distinguishes. */
const LOG_RANGE = 1000;

/** Place of `amount` between 0 (nothing) and 1 (`max`). */
export function scaled(amount: number, max: number, scaling: Scaling): number {
  if (!(amount > 0) || !(max > 0)) return 0;
  const part = Math.min(1, amount / max);
  if (scaling === "linear") return part;
  if (scaling === "sqrt") return Math.sqrt(part);
  return Math.log1p(part * LOG_RANGE) / Math.log1p(LOG_RANGE);
}

/** Inverse of `scaled` for the legend. */
export function unscaled(place: number, max: number, scaling: Scaling): number {
  if (scaling === "linear") return place * max;
  if (scaling === "sqrt") return place * place * max;
  return (Math.expm1(place * Math.log1p(LOG_RANGE)) / LOG_RANGE) * max;
}

/** Level of `amount`: 0 only for nothing at all. */
export function level(amount: number, max: number, scaling: Scaling): number {
  if (!(amount > 0)) return 0;
  return Math.max(LEVEL_MIN, Math.round(scaled(amount, max, scaling) * (LEVELS - 1)));
}
