/**
 * Who talks to whom on the wire, from the series of `ogive wire`: edges, findings, and where a map has them. Pure.
 *
 * Invariants: an edge that several observers see is one, measured by the one that saw most of it; what goes over a loopback address
 * is its own observer's, so that hosts are not mixed. Hosts stand right of those that ask them, as far as there is no circle.
 */

import type { Labels, Series } from "./api.ts";
import { formatRate, formatValue } from "./format.ts";
import { quote } from "./selector.ts";
import { DEFAULTS, formatState, type Range } from "./state.ts";

const EDGE_LABELS = ["__name__", "client", "service", "protocol"];

export interface Edge {
  readonly key: string;
  readonly client: string;
  readonly service: string;
  readonly protocol: string;
  /** The other labels: whose measurement it is. */
  readonly observer: Labels;
  /** Exchanges a second. */
  readonly rate: number;
  readonly p50: number;
  readonly p99: number;
  /** Errors and missing answers a second. */
  readonly errors: number;
}

export interface FindingCount {
  readonly service: string;
  readonly protocol: string;
  readonly kind: string;
  readonly count: number;
}

/** The answers of `QUERIES`. */
export interface Measured {
  readonly rates: readonly Series[];
  readonly medians: readonly Series[];
  readonly highs: readonly Series[];
  readonly errors: readonly Series[];
}

/** What is asked for, over the last `seconds`. */
export function queries(seconds: number): Record<keyof Measured | "findings" | "drops", string> {
  const edges = `rate(ogive_wire_edge_seconds[${seconds}s])`;
  return {
    rates: `histogram_count(${edges})`,
    medians: `histogram_quantile(0.5, ${edges})`,
    highs: `histogram_quantile(0.99, ${edges})`,
    errors: `rate(ogive_wire_edge_errors_total[${seconds}s])`,
    findings: `sum by (service, protocol, kind) (increase(ogive_wire_finding[${seconds}s]))`,
    drops: `sum(increase(ogive_wire_kernel_drops_total[${seconds}s]))`,
  };
}

function observerOf(labels: Labels): Labels {
  return Object.fromEntries(Object.entries(labels).filter(([name]) => !EDGE_LABELS.includes(name)).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

function valueOf(series: Series | undefined): number {
  return Number(series?.value?.[1] ?? NaN);
}

/** The host of `host:port`, with `[…]` of IPv6 taken off; `other` is itself. */
export function hostOf(service: string): string {
  const at = service.lastIndexOf(":");
  return at < 0 ? service : service.slice(0, at).replace(/^\[(.*)\]$/, "$1");
}

function isLoopback(host: string): boolean {
  return host.startsWith("127.") || host === "::1";
}

/** Edges with traffic or errors, the busiest first. */
export function edgesOf(measured: Measured): Edge[] {
  const whole = (labels: Labels): string => JSON.stringify([labels["client"], labels["service"], labels["protocol"], observerOf(labels)]);
  const find = (all: readonly Series[]): Map<string, Series> => new Map(all.map((one) => [whole(one.metric), one]));
  const [rates, medians, highs, errors] = [find(measured.rates), find(measured.medians), find(measured.highs), find(measured.errors)];
  const best = new Map<string, Edge>();
  for (const id of new Set([...rates.keys(), ...errors.keys()])) {
    const labels = (rates.get(id) ?? errors.get(id))?.metric ?? {};
    const number = (all: Map<string, Series>): number => valueOf(all.get(id));
    const [rate, failed] = [number(rates) || 0, number(errors) || 0];
    if (rate + failed === 0) continue;
    const { client = "", service = "", protocol = "" } = labels;
    const observer = observerOf(labels);
    const key = JSON.stringify([client, service, protocol, isLoopback(hostOf(service)) ? observer : null]);
    const edge = { key, client, service, protocol, observer, rate, p50: number(medians), p99: number(highs), errors: failed };
    const seen = best.get(key);
    if (seen === undefined || seen.rate + seen.errors < rate + failed) best.set(key, edge);
  }
  return [...best.values()].toSorted((a, b) => b.rate - a.rate || b.errors - a.errors || (a.key < b.key ? -1 : 1));
}

/** Findings that were counted, the most frequent first. */
export function findingsOf(series: readonly Series[]): FindingCount[] {
  const all = series.map((one) => {
    const { service = "", protocol = "", kind = "" } = one.metric;
    // An increase is extrapolated to whole windows; a finding is one or none.
    return { service, protocol, kind, count: Math.ceil(valueOf(one) - 1e-9) };
  });
  return all.filter(({ count }) => count > 0).toSorted((a, b) => b.count - a.count || (a.kind + a.service < b.kind + b.service ? -1 : 1));
}

/** Errors as a share of what had an answer or should have had one. */
export function errorShare({ rate, errors }: Edge): number {
  return errors === 0 ? 0 : Math.min(1, errors / Math.max(rate, errors));
}

/** The page of an edge's heat map. */
export function heatmapAddress(edge: Edge, range: Range): string {
  const labels = { client: edge.client, service: edge.service, protocol: edge.protocol, ...edge.observer };
  const inner = Object.entries(labels).map(([name, value]) => `${name}=${quote(value)}`).join(", ");
  return `./${formatState({ ...DEFAULTS, query: `ogive_wire_edge_seconds{${inner}}`, range })}`;
}

export function edgeText(edge: Edge): string {
  const share = errorShare(edge);
  const failed = share === 0 ? "" : ` · ${formatValue(share * 100, "", 2)} % errors`;
  return `${formatRate(edge.rate)} · p99 ${Number.isFinite(edge.p99) ? formatValue(edge.p99, "s") : "–"}${failed}`;
}

export interface Place {
  readonly id: string;
  readonly title: string;
  readonly x: number;
  readonly y: number;
  readonly height: number;
  /** Its services, from above. */
  readonly services: readonly { readonly name: string; readonly text: string }[];
}

export interface Link {
  readonly edge: Edge;
  readonly path: string;
  readonly width: number;
  readonly x: number;
  readonly y: number;
}

export interface WireMap {
  readonly places: readonly Place[];
  readonly links: readonly Link[];
  readonly width: number;
  readonly height: number;
  /** Edges that are not drawn. */
  readonly hidden: number;
}

export const BOX = { width: 210, head: 26, row: 24, gap: 18, between: 260 } as const;

/** Edges that are drawn; more are a tangle. The table has all. */
export const DRAWN_MAX = 60;

interface Host {
  readonly id: string;
  readonly title: string;
  readonly services: Map<string, Set<string>>;
  readonly asks: Set<string>;
  layer: number;
}

/** Which box asks and which answers. A host that asks itself has a box of its own for asking. */
function ends(edge: Edge): { from: string; to: string } {
  const server = hostOf(edge.service);
  const mark = isLoopback(server) ? JSON.stringify(edge.observer) : "";
  return { from: edge.client === server ? `local ${server}${mark}` : `${edge.client}${isLoopback(edge.client) ? mark : ""}`, to: `${server}${mark}` };
}

function titleOf(host: string, observer: Labels, isAlone: boolean): string {
  const names = Object.values(observer).join(" ");
  return isAlone || names === "" || !isLoopback(host) ? host : `${host} of ${names}`;
}

function hostsOf(edges: readonly Edge[]): Map<string, Host> {
  const hosts = new Map<string, Host>();
  const isAlone = new Set(edges.map(({ observer }) => JSON.stringify(observer))).size < 2;
  const host = (id: string, title: string): Host => {
    const made = hosts.get(id) ?? { id, title, services: new Map<string, Set<string>>(), asks: new Set<string>(), layer: 0 };
    hosts.set(id, made);
    return made;
  };
  for (const edge of edges) {
    const { from, to } = ends(edge);
    host(from, titleOf(edge.client, edge.observer, isAlone)).asks.add(to);
    const server = host(to, titleOf(hostOf(edge.service), edge.observer, isAlone));
    server.services.set(edge.service, (server.services.get(edge.service) ?? new Set()).add(edge.protocol));
  }
  return hosts;
}

/** Puts each host right of those that ask it; an edge that would close a circle counts for nothing. */
function layer(hosts: Map<string, Host>): void {
  const path = new Set<string>();
  const visit = (host: Host, at: number): void => {
    if (path.has(host.id) || (at > 0 && at <= host.layer)) return;
    host.layer = Math.max(host.layer, at);
    path.add(host.id);
    for (const id of host.asks) visit(hosts.get(id) as Host, at + 1);
    path.delete(host.id);
  };
  const asked = new Set([...hosts.values()].flatMap(({ asks }) => [...asks]));
  const first = [...hosts.values()].filter(({ id }) => !asked.has(id));
  for (const host of first.length > 0 ? first : [...hosts.values()].slice(0, 1)) visit(host, 0);
  // What only a circle reaches.
  for (const host of hosts.values()) if (host.layer === 0 && asked.has(host.id)) visit(host, 1);
}

function heightOf(host: Host): number {
  return BOX.head + Math.max(host.services.size, 1) * BOX.row + 6;
}

function portOf(service: string): string {
  const at = service.lastIndexOf(":");
  return at < 0 ? "" : service.slice(at + 1);
}

function placesOf(hosts: Map<string, Host>): Map<string, Place> {
  const places = new Map<string, Place>();
  const columns: Host[][] = [];
  for (const host of hosts.values()) (columns[host.layer] ??= []).push(host);
  for (const [at, column] of columns.entries()) {
    if (column === undefined) continue;
    // Near those that ask it.
    const wish = (host: Host): number => {
      const askers = [...hosts.values()].filter(({ asks, id }) => asks.has(host.id) && places.has(id)).map(({ id }) => (places.get(id) as Place).y);
      return askers.length === 0 ? 0 : askers.reduce((a, b) => a + b, 0) / askers.length;
    };
    let y = BOX.gap;
    for (const host of column.toSorted((a, b) => wish(a) - wish(b) || (a.id < b.id ? -1 : 1))) {
      const services = [...host.services].map(([name, protocols]) => ({ name, text: `${portOf(name)} ${[...protocols].join(", ")}`.trim() }));
      const sorted = services.toSorted((a, b) => Number(portOf(a.name)) - Number(portOf(b.name)));
      places.set(host.id, { id: host.id, title: host.title, x: BOX.gap + at * (BOX.width + BOX.between), y, height: heightOf(host), services: sorted });
      y += heightOf(host) + BOX.gap;
    }
  }
  return places;
}

/** Moves texts down that would lie on another one. */
function spread(links: Link[]): Link[] {
  const done: Link[] = [];
  for (const link of links.toSorted((a, b) => a.y - b.y)) {
    let { y } = link;
    for (const other of done) if (Math.abs(other.x - link.x) < BOX.between && Math.abs(other.y - y) < 16) y = other.y + 16;
    done.push({ ...link, y });
  }
  return done;
}

/** Where everything is; what exceeds `DRAWN_MAX` edges is left out, the least busy first. */
export function layout(all: readonly Edge[]): WireMap {
  const edges = all.slice(0, DRAWN_MAX);
  const hosts = hostsOf(edges);
  layer(hosts);
  const places = placesOf(hosts);
  const busiest = Math.max(...edges.map(({ rate }) => rate), 1e-9);
  const links = edges.map((edge) => {
    const { from, to } = ends(edge);
    const [left, right] = [places.get(from) as Place, places.get(to) as Place];
    const row = right.services.findIndex(({ name }) => name === edge.service);
    const [x1, y1] = [left.x + BOX.width, left.y + left.height / 2];
    const [x2, y2] = [right.x, right.y + BOX.head + (row + 0.5) * BOX.row];
    // Backwards it goes around.
    const bend = Math.max(90, Math.abs(x2 - x1) / 2);
    const path = `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
    const width = 1.5 + 4.5 * Math.max(0, 1 + Math.log10(Math.max(edge.rate, 1e-12) / busiest) / 4);
    return { edge, path, width, x: (x1 + x2) / 2, y: (y1 + y2) / 2 - 9 };
  });
  const boxes = [...places.values()];
  return {
    places: boxes,
    links: spread(links),
    width: Math.max(...boxes.map(({ x }) => x + BOX.width), 0) + BOX.gap,
    height: Math.max(...boxes.map(({ y, height }) => y + height), 0) + BOX.gap,
    hidden: all.length - edges.length,
  };
}
