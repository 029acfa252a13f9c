/** Text for values, counts and instants. Pure; the locale is fixed so that a screenshot means one thing. */

interface Step {
  readonly factor: number;
  readonly name: string;
}

const TIME: readonly Step[] = [
  { factor: 1e-9, name: "ns" },
  { factor: 1e-6, name: "µs" },
  { factor: 1e-3, name: "ms" },
  { factor: 1, name: "s" },
  { factor: 60, name: "min" },
  { factor: 3600, name: "h" },
  { factor: 86400, name: "d" },
];

// Decimal multiples: the bins of log-linear histograms have decimal edges, so the ticks fall on them.
const BYTES: readonly Step[] = [
  { factor: 1, name: "B" },
  { factor: 1e3, name: "kB" },
  { factor: 1e6, name: "MB" },
  { factor: 1e9, name: "GB" },
  { factor: 1e12, name: "TB" },
  { factor: 1e15, name: "PB" },
];

// Nothing below one: "500m" of nothing in particular is read as many things, and `ogive hist` writes 0.5 as well.
const PLAIN: readonly Step[] = [
  { factor: 1, name: "" },
  { factor: 1e3, name: "k" },
  { factor: 1e6, name: "M" },
  { factor: 1e9, name: "G" },
  { factor: 1e12, name: "T" },
];

/** A unit as the server names it, as one of the families that are scaled. */
function family(unit: string): { steps: readonly Step[]; suffix: string } {
  switch (unit.toLowerCase()) {
    case "s":
    case "second":
    case "seconds":
      return { steps: TIME, suffix: "" };
    case "b":
    case "by":
    case "byte":
    case "bytes":
      return { steps: BYTES, suffix: "" };
    case "":
    case "1":
    case "ratio":
      return { steps: PLAIN, suffix: "" };
    default:
      return { steps: PLAIN, suffix: unit };
  }
}

/** Below this zeros are no longer counted at a glance: 1e-5. */
const PLAIN_MIN = 1e-4;

/** Removes the zeros that `toPrecision` leaves behind, and the exponent form where plain digits are short. */
function trim(value: number, digits: number): string {
  const rounded = Number(value.toPrecision(digits));
  return rounded !== 0 && Math.abs(rounded) < PLAIN_MIN ? rounded.toExponential() : String(rounded);
}

/** `0.00012` with unit `s` is `120 µs`. `digits` is the number of significant digits. */
export function formatValue(value: number, unit: string, digits = 3): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "+∞" : "−∞";
  if (unit.endsWith("/s")) return `${formatValue(value, unit.slice(0, -2), digits)}/s`;
  const { steps, suffix } = family(unit);
  if (value === 0) return withUnit("0", zeroName(steps), suffix);
  const size = Math.abs(value);
  let step = steps[0] as Step;
  // The margin keeps 0.9999999999 s, which prints as 1, from being written as 1000 ms.
  for (const next of steps) if (size >= next.factor * (1 - 1e-9)) step = next;
  // Numbers below one have no digits before the point, and what does not fit the least unit has them behind it.
  const digitsBefore = Math.max(0, Math.floor(Math.log10(size / step.factor)) + 1);
  return withUnit(trim(value / step.factor, Math.max(digits, Math.min(digitsBefore, 6))), step.name, suffix);
}

function zeroName(steps: readonly Step[]): string {
  return steps.find((step) => step.factor === 1)?.name ?? "";
}

function withUnit(text: string, name: string, suffix: string): string {
  const number = text.replace(/-/g, "−");
  if (suffix === "" && (name === "" || name.length === 0)) return number;
  // SI prefixes without a unit cling to the number (1.2k); units stand apart (1.2 ms).
  if (PLAIN.some((step) => step.name === name) && suffix === "") return number + name;
  return `${number} ${name}${suffix}`;
}

/** Bounds that agree in so many digits are one value to whoever reads them: bins of a fine exponential histogram differ in the seventh. */
const BOUND_DIGITS_MAX = 5;

/** Two bounds that share a unit name it once, with as many digits as distinguish them: `66 – 67 µs`, `1.898 – 1.903 s`; those that hardly differ are one value. */
export function formatBounds(lo: number, hi: number, unit: string, digits = 3): string {
  const [from, to] = [formatValue(lo, unit, digits), formatValue(hi, unit, digits)];
  if (from === to) return lo === hi || digits >= BOUND_DIGITS_MAX ? formatValue(hi, unit, Math.min(digits, 4)) : formatBounds(lo, hi, unit, digits + 1);
  const split = (text: string): [string, string] => {
    const at = text.indexOf(" ");
    return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at)];
  };
  return split(from)[1] === split(to)[1] ? `${split(from)[0]} – ${to}` : `${from} – ${to}`;
}

/** A count in full: `12,345`. Counts above 2^53 arrive as text and are grouped as text. */
export function formatCount(count: number | string): string {
  if (typeof count === "string") {
    return /^\d+$/.test(count) ? count.replace(/\B(?=(\d{3})+$)/g, ",") : formatCount(Number(count));
  }
  if (!Number.isInteger(count)) return trim(count, 6);
  return String(count).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** A count in few characters: `12.3k`. */
export function formatCompact(count: number): string {
  return Math.abs(count) < 1e4 && Number.isInteger(count) ? formatCount(count) : formatValue(count, "", 3);
}

/** Events per second: `0.9/s`, `1.5k/s`. */
export function formatRate(perSecond: number): string {
  return `${formatCompact(Number(perSecond.toPrecision(3)))}/s`;
}

/** A share of a whole. Never rounds a part to the whole or to nothing: 0.999999 is `99.9999 %`, not `100 %`. */
export function formatShare(share: number): string {
  if (Number.isNaN(share)) return "–";
  if (share <= 0) return "0 %";
  if (share >= 1) return "100 %";
  const percent = share * 100;
  for (let decimals = percent < 10 || percent > 90 ? 2 : 1; decimals <= 8; decimals++) {
    const text = percent.toFixed(decimals);
    const seen = Number(text);
    if (seen > 0 && seen < 100) return `${text} %`;
  }
  return percent > 50 ? "> 99.99999999 %" : "< 0.00000001 %";
}

function two(value: number): string {
  return String(Math.floor(value)).padStart(2, "0");
}

export type Zone = "local" | "utc";

let chosen: Zone = "local";

/** The zone in which instants are written and read. */
export function zone(): Zone {
  return chosen;
}

export function setZone(next: Zone): void {
  chosen = next;
}

/** Seconds by which clocks of the chosen zone are ahead of UTC. */
export function zoneOffset(seconds: number): number {
  return chosen === "utc" ? 0 : -new Date(seconds * 1000).getTimezoneOffset() * 60;
}

/** A date whose UTC fields are those of the chosen zone. */
export function zoned(seconds: number): Date {
  return new Date((seconds + zoneOffset(seconds)) * 1000);
}

/** Wall clock of `seconds` since the epoch, `HH:MM:SS`. */
export function formatClock(seconds: number): string {
  const date = zoned(seconds);
  return `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}:${two(date.getUTCSeconds())}`;
}

/** Date, `YYYY-MM-DD`. */
export function formatDate(seconds: number): string {
  const date = zoned(seconds);
  return `${date.getUTCFullYear()}-${two(date.getUTCMonth() + 1)}-${two(date.getUTCDate())}`;
}

/** A length of time in words that fit a button: `90 s` is `1m30s`. */
export function formatDuration(seconds: number): string {
  if (seconds < 1) return formatValue(seconds, "s");
  let rest = Math.round(seconds);
  let text = "";
  for (const [size, name] of [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]] as const) {
    const whole = Math.floor(rest / size);
    if (whole > 0) text += `${whole}${name}`;
    rest -= whole * size;
  }
  return text === "" ? "0s" : text;
}

/** Reads `90`, `15m`, `1h30m` as seconds; `null` when it is none of these. */
export function parseDuration(text: string): number | null {
  const trimmed = text.trim();
  if (/^\d+(\.\d+)?$/.test(trimmed)) return Number(trimmed);
  if (!/^(\d+(\.\d+)?(ms|s|m|h|d|w|y))+$/.test(trimmed)) return null;
  const size: Record<string, number> = { ms: 1e-3, s: 1, m: 60, h: 3600, d: 86400, w: 604800, y: 365 * 86400 };
  let seconds = 0;
  for (const [, number, , name] of trimmed.matchAll(/(\d+(\.\d+)?)(ms|s|m|h|d|w|y)/g)) {
    seconds += Number(number) * (size[name as string] as number);
  }
  return seconds;
}
