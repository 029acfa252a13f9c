/**
 * Boards: panels on a grid, variables in their expressions, and a whole board as a part of an address. Pure.
 *
 * Invariants: panels never lie over each other after `arranged`, and none leaves the grid; what is moved stays where it was put, and what is
 * in its way goes down.
 */

import { quote } from "./selector.ts";
import { formatDuration } from "./format.ts";
import { isLive, parseRange, type Range } from "./state.ts";

export const COLUMNS = 12;
export const KINDS = ["auto", "heatmap", "lines", "number", "table", "text"] as const;
export type PanelKind = (typeof KINDS)[number];

export interface Place {
  readonly x: number;
  readonly y: number;
  readonly w: number;
  readonly h: number;
}

export interface Panel extends Place {
  readonly title: string;
  readonly queries: readonly string[];
  readonly kind: PanelKind;
  readonly text?: string;
}

export interface Variable {
  readonly name: string;
  readonly label: string;
  readonly match?: string;
  readonly value?: string;
}

export interface Board {
  readonly name: string;
  readonly title: string;
  readonly range?: string;
  readonly variables: readonly Variable[];
  readonly panels: readonly Panel[];
}

export const NEW_BOARD: Board = { name: "", title: "New board", variables: [], panels: [] };

/** What stands for every value of a variable. */
export const ALL = "*";

/** Rows of the lowest panel's end. */
export function rowsOf(panels: readonly Place[]): number {
  return panels.reduce((most, { y, h }) => Math.max(most, y + h), 0);
}

export function clamped({ x, y, w, h }: Place): Place {
  const wide = Math.min(COLUMNS, Math.max(2, Math.round(w)));
  return { x: Math.min(COLUMNS - wide, Math.max(0, Math.round(x))), y: Math.max(0, Math.round(y)), w: wide, h: Math.min(40, Math.max(1, Math.round(h))) };
}

function overlap(a: Place, b: Place): boolean {
  return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
}

/** Panels with none over another: the one at `kept` stays, what is in its way goes down, and what has room above goes up. */
export function arranged<T extends Place>(panels: readonly T[], kept: number | null = null): T[] {
  const order = panels.map((_, i) => i).sort((a, b) => (a === kept ? -1 : b === kept ? 1 : (panels[a] as T).y - (panels[b] as T).y || (panels[a] as T).x - (panels[b] as T).x));
  const placed: { at: number; place: Place }[] = [];
  for (const at of order) {
    let place = clamped(panels[at] as T);
    const free = (y: number): boolean => placed.every((one) => !overlap(one.place, { ...place, y }));
    let y = place.y;
    while (!free(y)) y++;
    if (at !== kept) while (y > 0 && free(y - 1)) y--;
    place = { ...place, y };
    placed.push({ at, place });
  }
  return panels.map((panel, at) => ({ ...panel, ...(placed.find((one) => one.at === at) as { place: Place }).place }));
}

/** Room for another panel: behind the last row. */
export function added(board: Board, panel: Omit<Panel, keyof Place>, w = 6, h = 4): Board {
  return { ...board, panels: [...board.panels, { ...panel, x: 0, y: rowsOf(board.panels), w, h }] };
}

/** An expression with the values of variables in place of `$name` and `${name}`. All values are a pattern that takes any. */
export function filled(query: string, values: Readonly<Record<string, string>>): string {
  return query.replace(/\$(?:\{(\w+)(?::\w+)?\}|(\w+))/g, (whole, braced: string | undefined, plain: string | undefined) => {
    const value = values[braced ?? plain ?? ""];
    if (value === undefined) return whole;
    // In an expression the value stands inside of quotes: what would end them is escaped.
    return value === ALL ? ".*" : quote(escaped(value)).slice(1, -1);
  });
}

/** Signs that a pattern would read as its own: variables stand behind `=~`. */
function escaped(value: string): string {
  return value.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
}

/** What a board's address says. */
export interface BoardState {
  /** Of a saved board. */
  readonly name: string | null;
  readonly version: number | null;
  /** Of a ready-made one. */
  readonly ready: string | null;
  readonly range: Range | null;
  readonly values: Readonly<Record<string, string>>;
  readonly tv: boolean;
  readonly edit: boolean;
}

export function parseBoardState(search: string): BoardState {
  const params = new URLSearchParams(search);
  const version = Number(params.get("version") ?? NaN);
  const named = params.has("range") || params.has("start");
  const values = [...params].filter(([key]) => key.startsWith("var-")).map(([key, value]) => [key.slice(4), value]);
  return {
    name: params.get("name"),
    version: Number.isInteger(version) ? version : null,
    ready: params.get("ready"),
    range: named ? parseRange(params, { last: 3600 }) : null,
    values: Object.fromEntries(values) as Record<string, string>,
    tv: params.get("tv") === "1",
    edit: params.get("edit") === "1",
  };
}

export function formatBoardState(state: BoardState): string {
  const params = new URLSearchParams();
  if (state.name !== null) params.set("name", state.name);
  if (state.version !== null) params.set("version", String(state.version));
  if (state.ready !== null) params.set("ready", state.ready);
  if (state.range !== null) {
    if (isLive(state.range)) params.set("range", formatDuration(state.range.last));
    else for (const end of ["start", "end"] as const) params.set(end, String(state.range[end]));
  }
  for (const [name, value] of Object.entries(state.values)) params.set(`var-${name}`, value);
  if (state.tv) params.set("tv", "1");
  if (state.edit) params.set("edit", "1");
  const text = params.toString();
  return text === "" ? "" : `?${text}`;
}

/** The range of a board that its address does not say. */
export function usualRange(board: Board): Range {
  return parseRange(new URLSearchParams({ range: board.range ?? "1h" }), { last: 3600 });
}

async function through(bytes: Uint8Array<ArrayBuffer>, stream: CompressionStream | DecompressionStream): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}

/** A board as the part of an address behind `#`: compressed, in letters that need no escapes. */
export async function boardToHash(board: Board): Promise<string> {
  const bytes = await through(new TextEncoder().encode(JSON.stringify(board)), new CompressionStream("deflate-raw"));
  return `b=${btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "")}`;
}

/** The board of an address; null where there is none, or what is there is none. */
export async function boardOfHash(hash: string): Promise<Board | null> {
  const text = /^#?b=([\w-]+)$/.exec(hash)?.[1];
  if (text === undefined) return null;
  try {
    const bytes = Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (sign) => sign.charCodeAt(0));
    return boardOf(JSON.parse(new TextDecoder().decode(await through(bytes, new DecompressionStream("deflate-raw")))));
  } catch {
    return null;
  }
}

/** A board out of JSON, as far as it is one; what is senseless is left out. */
export function boardOf(value: unknown): Board | null {
  if (typeof value !== "object" || value === null) return null;
  const { name, title, range, variables, panels } = value as Record<string, unknown>;
  if (!Array.isArray(panels)) return null;
  const text = (one: unknown): string => (typeof one === "string" ? one : "");
  const number = (one: unknown, usual: number): number => (typeof one === "number" && Number.isFinite(one) ? one : usual);
  const panel = (one: unknown): Panel => {
    const of = (typeof one === "object" && one !== null ? one : {}) as Record<string, unknown>;
    const queries = Array.isArray(of["queries"]) ? of["queries"].map(text).filter((query) => query !== "") : [];
    const kind = KINDS.find((kind) => kind === of["kind"]) ?? "auto";
    const words = text(of["text"]);
    return { title: text(of["title"]), queries, kind, ...clamped({ x: number(of["x"], 0), y: number(of["y"], 0), w: number(of["w"], 6), h: number(of["h"], 4) }), ...(words === "" ? {} : { text: words }) };
  };
  const variable = (one: unknown): Variable[] => {
    const of = (typeof one === "object" && one !== null ? one : {}) as Record<string, unknown>;
    if (text(of["name"]) === "" || text(of["label"]) === "") return [];
    return [{ name: text(of["name"]), label: text(of["label"]), ...(text(of["match"]) === "" ? {} : { match: text(of["match"]) }), ...(text(of["value"]) === "" ? {} : { value: text(of["value"]) }) }];
  };
  return {
    name: text(name),
    title: text(title),
    ...(text(range) === "" ? {} : { range: text(range) }),
    variables: Array.isArray(variables) ? variables.flatMap(variable) : [],
    panels: arranged(panels.map(panel)),
  };
}

/** A name out of a title: `Checkout (EU)` becomes `checkout-eu`. */
export function nameOf(title: string): string {
  return title.toLowerCase().replace(/[^a-z0-9._]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 64) || "board";
}
