/**
 * Which other distributions belong over the one in view: those of the same route, such as what browsers measured of a page and what the
 * server measured of its requests. Pure.
 */

import type { Labels } from "./api.ts";
import { formatSelector, parseSelector, type Matcher, type Selector } from "./selector.ts";

/** Labels that hold a route: the SDKs' own, OpenTelemetry's, and what Prometheus clients call it. */
export const ROUTE_LABELS: readonly string[] = ["route", "http_route", "handler", "path", "endpoint"];
/** Labels that tell apart what one route has several distributions of. */
const KINDS: readonly string[] = ["timing", "event"];
/** Names that a selector holds without quotation marks. */
const PLAIN = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
/** 24 choices stand on two lines. */
const CHOICES_MAX = 24;

/** The route that an expression selects; null for one that selects none, or several. */
export function routeOf(query: string): string | null {
  return parseSelector(query)?.matchers.find(({ label, op }) => op === "=" && ROUTE_LABELS.includes(label))?.value ?? null;
}

/** What finds every series of a route, whatever its label is called. */
export function routeSelectors(route: string): string[] {
  return ROUTE_LABELS.map((label) => formatSelector({ name: "", matchers: [{ label, op: "=", value: route }] }));
}

/** The distributions of a route apart from the one of `query`, each once, by name. `isDistribution` knows what a name holds. */
export function counterparts(query: string, route: string, series: readonly Labels[], isDistribution: (name: string) => boolean): string[] {
  const own = parseSelector(query);
  const found = new Set<string>();
  for (const labels of series) {
    const name = labels["__name__"] ?? "";
    const at = ROUTE_LABELS.find((label) => labels[label] === route);
    if (at === undefined || !PLAIN.test(name) || !isDistribution(name)) continue;
    const kinds = KINDS.filter((label) => labels[label] !== undefined).map((label): Matcher => ({ label, op: "=", value: labels[label] as string }));
    const selector: Selector = { name, matchers: [{ label: at, op: "=", value: route }, ...kinds] };
    if (own === null || own.name !== name || kinds.some((kind) => !own.matchers.some((one) => one.label === kind.label && one.value === kind.value))) found.add(formatSelector(selector));
  }
  return [...found].sort().slice(0, CHOICES_MAX);
}
