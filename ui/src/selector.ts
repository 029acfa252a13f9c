/** Plain series selectors, such as `name{cpu="0"}`: read, changed by a click in the series list, and written. Pure. */

export interface Matcher {
  readonly label: string;
  readonly op: "=" | "!=" | "=~" | "!~";
  readonly value: string;
}

export interface Selector {
  readonly name: string;
  readonly matchers: readonly Matcher[];
}

const STRING = String.raw`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'`;
const NAME = /^\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*/;
/** A label, in quotes where it has characters that PromQL takes for others; or in quotes and alone, the name of the series. */
const MATCHER = new RegExp(String.raw`^\s*(?:([a-zA-Z_][a-zA-Z0-9_]*|${STRING})\s*(=~|!~|!=|=)\s*(${STRING})|(${STRING}))\s*`, "u");

/** Names that PromQL reads without quotes. */
const PLAIN_NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const PLAIN_LABEL = /^[a-zA-Z_][a-zA-Z0-9_]*$/;

/** Reads a selector that is nothing else; any other PromQL is `null`. */
export function parseSelector(text: string): Selector | null {
  const found = NAME.exec(text);
  let name = found?.[1] ?? "";
  let rest = found === null ? text.trimStart() : text.slice(found[0].length);
  const matchers: Matcher[] = [];
  if (rest.startsWith("{")) {
    rest = rest.slice(1);
    while (!/^\s*\}/.test(rest)) {
      const one = MATCHER.exec(rest);
      if (one === null) return null;
      const [all, label, op, value, alone] = one;
      if (alone === undefined) matchers.push({ label: /^["']/.test(label as string) ? unquote(label as string) : (label as string), op: op as Matcher["op"], value: unquote(value as string) });
      else if (name === "") name = unquote(alone);
      else return null;
      rest = rest.slice(all.length);
      if (rest.startsWith(",")) rest = rest.slice(1);
      else if (!rest.startsWith("}")) return null;
    }
    rest = rest.replace(/^\s*\}/, "");
  }
  return name !== "" && rest.trim() === "" ? { name, matchers } : null;
}

function unquote(text: string): string {
  return text.slice(1, -1).replace(/\\(.)/g, (_, char: string) => (char === "n" ? "\n" : char === "t" ? "\t" : char));
}

export function quote(text: string): string {
  return `"${text.replace(/\\/g, "\\\\").replace(/"/g, '\\"').replace(/\n/g, "\\n")}"`;
}

export function formatSelector({ name, matchers }: Selector): string {
  const labels = matchers.map(({ label, op, value }) => `${PLAIN_LABEL.test(label) ? label : quote(label)}${op}${quote(value)}`);
  if (name !== "" && !PLAIN_NAME.test(name)) return `{${[quote(name), ...labels].join(", ")}}`;
  return labels.length === 0 ? name : `${name}{${labels.join(", ")}}`;
}

/** The expression of all series of a name, whatever its characters. */
export function selectorOf(name: string): string {
  return formatSelector({ name, matchers: [] });
}

/** True when the selector asks for exactly this value of the label, alone or among others. */
export function isChosen(selector: Selector, label: string, value: string): boolean {
  return chosen(selector, label).includes(value);
}

const SPECIAL = /[.*+?^${}()|[\]\\]/g;

/** Values that a selector lists for a label, by `=` or by an alternation of literals. */
function chosen(selector: Selector, label: string): string[] {
  const found = selector.matchers.find((matcher) => matcher.label === label);
  if (found === undefined) return [];
  if (found.op === "=") return [found.value];
  if (found.op !== "=~") return [];
  const parts = found.value.split("|");
  const plain = parts.map((part) => part.replace(/\\(.)/g, "$1"));
  return plain.every((part, i) => part.replace(SPECIAL, "\\$&") === parts[i]) ? plain : [];
}

/** Adds the value to what the selector lists for the label, or takes it away. */
export function toggle(selector: Selector, label: string, value: string): Selector {
  const now = chosen(selector, label);
  const next = now.includes(value) ? now.filter((one) => one !== value) : [...now, value];
  const others = selector.matchers.filter((matcher) => matcher.label !== label);
  if (next.length === 0) return { ...selector, matchers: others };
  const added: Matcher =
    next.length === 1
      ? { label, op: "=", value: next[0] as string }
      : { label, op: "=~", value: next.map((one) => one.replace(SPECIAL, "\\$&")).join("|") };
  return { ...selector, matchers: [...others, added] };
}
