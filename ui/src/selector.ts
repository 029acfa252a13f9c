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

const NAME = /^\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*/;
const MATCHER = /^\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\s*/;

/** Reads a selector that is nothing else; any other PromQL is `null`. */
export function parseSelector(text: string): Selector | null {
  const name = NAME.exec(text);
  if (name === null) return null;
  let rest = text.slice(name[0].length);
  const matchers: Matcher[] = [];
  if (rest.startsWith("{")) {
    rest = rest.slice(1);
    while (!/^\s*\}/.test(rest)) {
      const found = MATCHER.exec(rest);
      if (found === null) return null;
      matchers.push({ label: found[1] as string, op: found[2] as Matcher["op"], value: unquote(found[3] as string) });
      rest = rest.slice(found[0].length);
      if (rest.startsWith(",")) rest = rest.slice(1);
      else if (!rest.startsWith("}")) return null;
    }
    rest = rest.replace(/^\s*\}/, "");
  }
  return rest.trim() === "" ? { name: name[1] as string, matchers } : null;
}

function unquote(text: string): string {
  return text.slice(1, -1).replace(/\\(.)/g, (_, char: string) => (char === "n" ? "\n" : char === "t" ? "\t" : char));
}

export function quote(text: string): string {
  return `"${text.replace(/\\/g, "\\\\").replace(/"/g, '\\"').replace(/\n/g, "\\n")}"`;
}

export function formatSelector({ name, matchers }: Selector): string {
  if (matchers.length === 0) return name;
  return `${name}{${matchers.map(({ label, op, value }) => `${label}${op}${quote(value)}`).join(", ")}}`;
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
