/**
 * The page of a broker: what it holds, and how far each destination is behind.
 *
 * Invariants: what is shown is the last answer of the broker; one request is in flight at a time.
 * Failure: that a broker does not answer is shown above the last picture, and the request is retried.
 */

import "./style.css";
import { ApiError, fetchBroker, fetchStatus } from "./api.ts";
import { byId, el } from "./dom.ts";
import { formatClock, formatCompact, formatCount, formatDate, formatDuration, formatShare, formatValue } from "./format.ts";
import { poll } from "./poll.ts";
import { blocks, condition, follow, outlook, type Broker, type Course, type Destination, type Gap, type Segment } from "./spool.ts";
import { useTheme } from "./themebutton.ts";

const EVERY_MS = 2_000;

/** Lags by destination. */
let courses = new Map<string, Course>();

useTheme();
poll(ask, EVERY_MS);

async function ask(): Promise<void> {
  const lost = byId("lost");
  try {
    const [broker, status] = await Promise.all([fetchBroker(), fetchStatus()]);
    lost.hidden = true;
    draw(broker, status);
  } catch (cause) {
    lost.hidden = false;
    const why = cause instanceof ApiError ? cause.message : String(cause);
    lost.textContent = `${why.replace("The server", "The broker")} What is shown is from before; it is asked again every ${EVERY_MS / 1000} s.`;
  }
}

function draw(broker: Broker, status: Record<string, unknown>): void {
  const now = broker.now_ms / 1000;
  const before = courses;
  courses = new Map(broker.destinations.map((one) => [one.name, follow(before.get(one.name) ?? [], now, one.lag_bytes)]));
  document.title = `${broker.name} · Ogive broker`;
  byId("title").textContent = `Broker ${broker.name}`;
  byId("spool").replaceChildren(...spoolFacts(broker, now));
  byId("destinations").replaceChildren(...broker.destinations.map((one) => card(broker, one)));
  byId("status").replaceChildren(...foot(status));
}

function fact(name: string, value: string, note: string): HTMLElement {
  return el("div", { class: "fact" }, el("div", { class: "name" }, name), el("div", { class: "value" }, value), el("div", { class: "note" }, note));
}

function spoolFacts({ spool, destinations }: Broker, now: number): HTMLElement[] {
  const oldest = spool.segments[0];
  const age = oldest === undefined ? 0 : Math.max(now - oldest.arrival_first_ms / 1000, 0);
  const behind = destinations.filter((one) => condition(one).level !== "good").length;
  const given = destinations.reduce((sum, one) => sum + one.gaps.samples_total, 0);
  return [
    fact("Spool", formatValue(spool.bytes, "By"), `${formatShare(spool.bytes / Math.max(spool.bytes_max, 1))} of its limit, ${formatValue(spool.bytes_max, "By")}`),
    fact("Oldest batch kept", oldest === undefined ? "none" : formatDuration(Math.round(age)), spool.age_max_seconds === null ? "no limit of age" : `kept up to ${formatDuration(spool.age_max_seconds)}`),
    fact("Destinations", formatCount(destinations.length), behind === 0 ? "all up to date" : `${behind} behind`),
    fact("Samples given up", formatCompact(given), given === 0 ? "no gap so far" : "each is in a gap that its destination shows"),
  ];
}

function card(broker: Broker, one: Destination): HTMLElement {
  const { level, text } = condition(one);
  const { gaps } = one;
  const out = el("article", { class: "destination", "data-name": one.name },
    el("h2", {}, one.name, el("span", { class: `condition ${level}` }, text)),
    el("div", { class: "facts" },
      fact("Behind", one.lag_seconds === 0 ? "0 s" : formatDuration(Number(one.lag_seconds.toPrecision(3))), outlook(courses.get(one.name) ?? [])),
      fact("Not there yet", formatValue(one.lag_bytes, "By"), `${formatCompact(one.lag_batches)} batches`),
      fact("Acknowledged", `${rate(one.acknowledged_per_second)} batches/s`, `${formatValue(one.acknowledged_bytes_per_second, "By")}/s, ${formatCompact(one.acknowledged_batches_total)} in all`),
      fact("Given up", formatCompact(gaps.samples_total), gaps.made_total === 0 ? "no gap" : `samples of ${formatCompact(gaps.batches_total)} batches in ${formatCount(gaps.made_total)} gaps`),
    ),
    picture(broker.spool.segments, one.name),
  );
  if (level !== "good" && one.problem !== null) {
    out.append(el("p", { class: "doubt" }, `${formatClock(one.problem.time_ms / 1000)} ${one.problem.text}`));
  }
  if (gaps.waiting.length + gaps.told.length > 0) out.append(gapTable(one));
  out.append(endpointTable(one));
  return out;
}

function rate(perSecond: number): string {
  return perSecond < 10 ? perSecond.toFixed(1) : formatCompact(Math.round(perSecond));
}

function instant(ms: number): string {
  return `${formatDate(ms / 1000)} ${formatClock(ms / 1000)}`;
}

/** The spool from old to new: bright what the destination has. */
function picture(segments: readonly Segment[], name: string): HTMLElement {
  const parts = blocks(segments, name).map(({ from, width, done, segment }) => {
    const style = `left:${from}%;width:${width}%;--done:${done * 100}%`;
    const title = `${instant(segment.arrival_first_ms)} to ${instant(segment.arrival_last_ms)}: ${formatValue(segment.bytes, "By")}, ${formatShare(done)} of it is at ${name}`;
    return el("i", { style, title, "data-done": done });
  });
  const mean = blocks(segments, name).reduce((sum, block) => sum + (block.done * block.width) / 100, 0);
  const label = `The spool from old to new; ${name} has ${formatShare(segments.length === 0 ? 1 : mean)} of it`;
  const first = segments[0];
  return el("figure", { class: "spool-picture" },
    el("div", { class: "track", role: "img", "aria-label": label }, ...parts),
    el("figcaption", {},
      el("span", {}, first === undefined ? "The spool is empty" : instant(first.arrival_first_ms)),
      el("span", {}, el("i", { class: "has" }), `at ${name}`, el("i", { class: "lacks" }), "not there yet"),
      el("span", {}, "now"),
    ),
  );
}

function table(caption: string, head: string[], rows: string[][]): HTMLElement {
  const line = (cells: string[], tag: "th" | "td"): HTMLElement => el("tr", {}, ...cells.map((cell) => el(tag, {}, cell)));
  return el("table", {}, el("caption", {}, caption), el("thead", {}, line(head, "th")), el("tbody", {}, ...rows.map((row) => line(row, "td"))));
}

function gapTable({ name, gaps }: Destination): HTMLElement {
  const time = (gap: Gap): string => (gap.from_ms === null || gap.to_ms === null ? "–" : `${instant(gap.from_ms)} to ${instant(gap.to_ms)}`);
  const series = ({ series, largest }: Gap): string => {
    const names = largest.map((one) => one.series).join(", ");
    return largest.length < series ? `${names} and ${formatCount(series - largest.length)} more` : names;
  };
  const row = (known: string) => (gap: Gap): string[] => [gap.reason, formatCount(gap.samples), formatCount(gap.batches), time(gap), series(gap), known];
  const rows = [...gaps.waiting.map(row("not yet")), ...gaps.told.map(row("yes"))];
  return table("Gaps", ["reason", "samples", "batches", "of the time", "series", `${name} knows`], rows);
}

function endpointTable(one: Destination): HTMLElement {
  const whole = one.endpoints.reduce((sum, endpoint) => sum + endpoint.weight, 0);
  const rows = one.endpoints.map((endpoint) => [
    endpoint.url,
    formatShare(whole === 0 ? 0 : endpoint.weight / whole),
    formatCount(endpoint.in_flight),
    formatValue(endpoint.latency_seconds, "s"),
    formatCompact(endpoint.sent_total),
    formatCompact(endpoint.busy_total),
    endpoint.failures === 0 ? "answers" : `${formatCount(endpoint.failures)} failures in a row, ${endpoint.pause_seconds > 0 ? `next try in ${formatDuration(Math.ceil(endpoint.pause_seconds))}` : "tried now"}`,
  ]);
  return table("Endpoints", ["address", "share of the load", "in flight", "takes", "sent", "busy (429)", "state"], rows);
}

function foot(status: Record<string, unknown>): HTMLElement[] {
  const pair = (name: string, value: string): HTMLElement => el("span", {}, `${name} `, el("b", {}, value));
  const parts = [el("span", { class: "link" }, `asked every ${EVERY_MS / 1000} s`)];
  if (typeof status["accepted_total"] === "number") parts.push(pair("samples accepted", formatCompact(status["accepted_total"])));
  if (typeof status["rejected_total"] === "number") parts.push(pair("rejected", formatCompact(status["rejected_total"])));
  if (typeof status["uptime_seconds"] === "number") parts.push(pair("up", formatDuration(status["uptime_seconds"])));
  if (typeof status["version"] === "string") parts.push(el("span", { class: "right" }, "Ogive ", el("b", {}, status["version"])));
  return parts;
}
