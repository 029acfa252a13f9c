/**
 * The page of services: who talks to whom as `ogive wire` measured it, and what is wrong on the wire.
 *
 * Invariants: what is shown belongs to the last question (`turn`); a range that moves with the clock is asked for again.
 * Failure: that a server does not answer is shown above the data from before, and the request is retried.
 */

import "./style.css";
import { ApiError, fetchInstant, serverNow, type Series } from "./api.ts";
import { byId, el } from "./dom.ts";
import { formatCount, formatDuration, formatRate, formatShare, formatValue } from "./format.ts";
import { drawNotices } from "./notices.ts";
import { RangeBox } from "./rangebox.ts";
import { DEFAULTS, formatState, isLive, parseRange, type Range } from "./state.ts";
import { useTheme } from "./themebutton.ts";
import { BOX, edgeText, edgesOf, errorShare, findingsOf, heatmapAddress, layout, queries, type Edge, type FindingCount, type Place } from "./wiremap.ts";

const AGAIN_MS = 5_000;
const SVG = "http://www.w3.org/2000/svg";
/** An edge with a larger share of errors is drawn as bad. */
const BAD_SHARE = 0.01;
/** Rows of the table of edges. */
const ROWS_MAX = 500;

/** Kinds of findings in the words of `ogive wire`. */
const KINDS: Record<string, string> = {
  dead_keepalive: "Reused a dead keep-alive connection",
  refused: "Connection refused",
  syn_unanswered: "Nobody answers the SYN",
  retransmission_storm: "Retransmission storm",
  zero_window: "Receiver has no room (zero window)",
  half_open: "Half-open: the peer never answers",
  dns_retry: "DNS query sent again",
  early_response: "Response began before the request ended",
  head_of_line: "Head-of-line blocking in a pipeline",
  connection_per_request: "The client opens a connection a request",
};

class ServicesPage {
  private range: Range = parseRange(new URLSearchParams(location.search), DEFAULTS.range);
  private turn = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly ranges = new RangeBox((range) => this.choose(range), () => this.span());

  constructor() {
    useTheme();
    window.addEventListener("popstate", () => {
      this.range = parseRange(new URLSearchParams(location.search), DEFAULTS.range);
      this.load();
    });
    document.addEventListener("visibilitychange", () => document.hidden || this.again(0));
    this.load();
  }

  private choose(range: Range): void {
    this.range = range;
    history.pushState(null, "", location.pathname + formatState({ ...DEFAULTS, range }));
    this.load();
  }

  private span(): { start: number; end: number } {
    if (!isLive(this.range)) return this.range;
    const end = Math.ceil(serverNow());
    return { start: end - this.range.last, end };
  }

  private load(): void {
    this.ranges.show(this.range);
    void this.ask();
  }

  private again(after = AGAIN_MS): void {
    clearTimeout(this.timer);
    if (!isLive(this.range)) return;
    this.timer = setTimeout(() => (document.hidden ? this.again() : void this.ask()), after);
  }

  private async ask(): Promise<void> {
    const turn = ++this.turn;
    clearTimeout(this.timer);
    const { start, end } = this.span();
    const asked = queries(Math.max(1, Math.round(end - start)));
    const warnings = new Set<string>();
    const series = async (query: string): Promise<readonly Series[]> => {
      const { data, warnings: more } = await fetchInstant(query, end);
      for (const warning of more) warnings.add(warning);
      return data.resultType === "vector" ? data.result : [];
    };
    try {
      const [rates, medians, highs, errors, findings, drops] = await Promise.all(
        [asked.rates, asked.medians, asked.highs, asked.errors, asked.findings, asked.drops].map(series),
      ) as [readonly Series[], readonly Series[], readonly Series[], readonly Series[], readonly Series[], readonly Series[]];
      if (turn !== this.turn) return;
      byId("lost").hidden = true;
      drawNotices(byId("notices"), [...warnings], []);
      this.draw(edgesOf({ rates, medians, highs, errors }), findingsOf(findings), Number(drops[0]?.value?.[1] ?? 0));
    } catch (cause) {
      if (turn !== this.turn) return;
      byId("lost").hidden = false;
      byId("lost").textContent = cause instanceof ApiError ? cause.message : String(cause);
    }
    this.again();
  }

  private draw(edges: readonly Edge[], findings: readonly FindingCount[], drops: number): void {
    const isEmpty = edges.length === 0 && findings.length === 0;
    byId("none").hidden = !isEmpty;
    if (isEmpty) byId("none").replaceChildren(...this.start());
    for (const id of ["summary", "map", "findings", "edges"]) byId(id).hidden = isEmpty;
    byId("summary").replaceChildren(...summary(edges, findings, drops));
    byId("map").replaceChildren(...(edges.length === 0 ? [] : drawMap(edges, this.range)));
    byId("findings").replaceChildren(...(findings.length === 0 ? [] : drawFindings(findings)));
    byId("edges").replaceChildren(...(edges.length === 0 ? [] : drawEdges(edges, this.range)));
  }

  private start(): Node[] {
    const { start, end } = this.span();
    const address = new URL(".", document.baseURI).origin;
    return [
      el("h2", {}, `Nothing was measured on the wire in ${isLive(this.range) ? "the last " : ""}${formatDuration(end - start)}`),
      el("p", {}, "The wire observer measures services that nobody instrumented, from their packets. On a host whose services are to be seen, with CAP_NET_RAW:"),
      el("pre", { tabindex: "0" }, `ogive wire -i eth0 --to ${address}`),
      el("p", {}, "Or within this server, in ogive.toml:"),
      el("pre", { tabindex: "0" }, '[wire]\ninterface = ["eth0", "lo"]'),
      el("p", {}, "What it measures, and which protocols: ", el("a", { href: "docs/wire.html" }, "the wire observer"), "."),
    ];
  }
}

function fact(name: string, value: string, note: string): HTMLElement {
  return el("div", { class: "fact" }, el("div", { class: "name" }, name), el("div", { class: "value" }, value), el("div", { class: "note" }, note));
}

function summary(edges: readonly Edge[], findings: readonly FindingCount[], drops: number): HTMLElement[] {
  const [rate, errors] = [edges.reduce((sum, edge) => sum + edge.rate, 0), edges.reduce((sum, edge) => sum + edge.errors, 0)];
  const services = new Set(edges.map(({ service }) => service)).size;
  return [
    fact("Services", formatCount(services), `${formatCount(edges.length)} edges`),
    fact("Exchanges", formatRate(rate), "answered"),
    fact("Errors", formatRate(errors), rate + errors === 0 ? "" : `${formatShare(Math.min(1, errors / Math.max(rate, errors)))} of them, missing answers among them`),
    fact("Findings", formatCount(findings.reduce((sum, { count }) => sum + count, 0)), findings.length === 0 ? "nothing is wrong" : "listed below"),
    fact("Dropped", formatCount(Math.round(drops)), "packets that the kernel could not keep"),
  ];
}

function svg(name: string, props: Record<string, string | number>, ...children: (Node | string)[]): SVGElement {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(props)) element.setAttribute(key, String(value));
  element.append(...children);
  return element;
}

function drawMap(edges: readonly Edge[], range: Range): Node[] {
  const map = layout(edges);
  const links = map.links.map(({ edge, path, width, x, y }) => {
    const text = edgeText(edge);
    const bad = errorShare(edge) > BAD_SHARE ? " bad" : "";
    return svg("a", { href: heatmapAddress(edge, range), class: `wire-edge${bad}`, "data-client": edge.client, "data-service": edge.service, "data-protocol": edge.protocol },
      svg("title", {}, `${edge.client} > ${edge.service} ${edge.protocol}: ${text}. Opens the heat map`),
      svg("path", { d: path, class: "hit" }),
      svg("path", { d: path, "stroke-width": width.toFixed(1) }),
      svg("text", { x, y }, text),
    );
  });
  const picture = svg("svg", { viewBox: `0 0 ${map.width} ${map.height}`, width: map.width, height: map.height, role: "group" }, ...links, ...map.places.map(drawPlace));
  const rest = map.hidden === 0 ? [] : [el("p", { class: "rest" }, `The ${formatCount(map.hidden)} least busy edges are only in the table below.`)];
  return [picture, ...rest];
}

function drawPlace({ title, x, y, height, services }: Place): Node {
  const rows = services.map(({ name, text }, at) => svg("text", { x: x + 12, y: y + BOX.head + at * BOX.row + 16, class: "service", "data-service": name }, text));
  return svg("g", { class: "wire-place" }, svg("rect", { x, y, width: BOX.width, height, rx: 8 }), svg("text", { x: x + 12, y: y + 18, class: "host" }, title), ...rows);
}

function drawFindings(findings: readonly FindingCount[]): Node[] {
  const rows = findings.map(({ service, protocol, kind, count }) =>
    el("tr", { "data-kind": kind },
      el("td", {}, el("a", { href: `docs/wire.html#${encodeURIComponent(kind)}`, title: "What it means and what to do" }, KINDS[kind] ?? kind)),
      el("td", {}, service), el("td", {}, protocol), el("td", { class: "number" }, formatCount(count)),
    ));
  return [el("h2", {}, "Findings"), table(["What", "Service", "Protocol", "Times"], rows)];
}

function drawEdges(edges: readonly Edge[], range: Range): Node[] {
  const time = (seconds: number): string => (Number.isFinite(seconds) ? formatValue(seconds, "s") : "–");
  const rows = edges.slice(0, ROWS_MAX).map((edge) =>
    el("tr", {},
      el("td", {}, edge.client), el("td", {}, el("a", { href: heatmapAddress(edge, range), title: "Opens the heat map" }, edge.service)), el("td", {}, edge.protocol),
      el("td", { class: "number" }, formatRate(edge.rate)), el("td", { class: "number" }, time(edge.p50)), el("td", { class: "number" }, time(edge.p99)),
      el("td", { class: errorShare(edge) > BAD_SHARE ? "number bad" : "number" }, edge.errors === 0 ? "–" : formatShare(errorShare(edge))),
    ));
  return [el("h2", {}, "Edges"), table(["Client", "Service", "Protocol", "Rate", "p50", "p99", "Errors"], rows)];
}

function table(names: readonly string[], rows: readonly HTMLElement[]): HTMLElement {
  return el("table", { class: "rows" }, el("thead", {}, el("tr", {}, ...names.map((name) => el("th", {}, name)))), el("tbody", {}, ...rows));
}

new ServicesPage();
