/**
 * The operator's page: who sends and what was lost, queues, what one thing costs of another, which expressions cost most, where the
 * series come from, targets, checks, disks, snapshots, logins and configuration.
 *
 * Invariants: each part is the last answer of the server; a part that has none keeps its last one and says why.
 */

import "./style.css";
import { ApiError, fetchCardinality, fetchDisks, fetchInstant, fetchQueries, fetchSenders, fetchSnapshots, fetchStatus, fetchTargets, fetchTsdb, serverNow, type Growth } from "./api.ts";
import { queryLink as link, table } from "./datatable.ts";
import { byId, el } from "./dom.ts";
import { formatClock, formatCompact, formatCount, formatDate, formatDuration, formatShare, formatValue } from "./format.ts";
import { changeOf, ledgerOf, pairSelector, sendersOf } from "./operations.ts";
import { checks, cluster, configuration, gaps, logins, ops, queues, vector } from "./operateviews.ts";
import { poll } from "./poll.ts";
import { formatState, parseState } from "./state.ts";
import { useTheme } from "./themebutton.ts";

const EVERY_MS = 5_000;

useTheme();
byId("grew-button").addEventListener("click", () => void part("grew", grew));
byId("logins-button").addEventListener("click", () => void part("logins", logins));
byId("ops-form").addEventListener("submit", (event) => {
  event.preventDefault();
  void part("ops", ops);
});
void part("ops", ops);
poll(all, EVERY_MS);

async function all(): Promise<void> {
  // Four parts are of one answer.
  const status = fetchStatus();
  await Promise.all([part("summary", () => summary(status)), part("senders", protocols), part("each-sender", senders), part("queries", queries), part("cardinality", cardinality), part("targets", targets), part("cluster", () => cluster(status)), part("disks", disks), part("snapshots", snapshots), part("gaps", gaps), part("queues", () => queues(status)), part("checks", checks), part("configuration", () => configuration(status))]);
}

/** Draws one part; what fails leaves the others alone. */
async function part(id: string, make: () => Promise<Node[]>): Promise<void> {
  const box = byId(id);
  try {
    const nodes = await make();
    box.replaceChildren(...nodes);
  } catch (cause) {
    const text = cause instanceof ApiError ? cause.message : String(cause);
    // What this server does not have is no problem of it.
    if (cause instanceof ApiError && cause.status === 404) return box.replaceChildren(el("p", { class: "note" }, `${text.charAt(0).toUpperCase()}${text.slice(1)}.`));
    const why = box.querySelector(".panel-why") ?? el("p", { class: "panel-why problem" });
    why.textContent = text;
    box.append(why);
  }
}

function when(ms: number): string {
  return `${formatDate(ms / 1000)} ${formatClock(ms / 1000)}`;
}

async function summary(asked: ReturnType<typeof fetchStatus>): Promise<Node[]> {
  const status = await asked;
  const number = (name: string): number => Number(status[name] ?? 0);
  const fact = (key: string, name: string, value: string, note: string): Node => el("div", { class: "fact", "data-fact": key }, el("div", { class: "name" }, name), el("div", { class: "value" }, value), el("div", { class: "note" }, note));
  const lost = number("rejected_total") + number("refused_total");
  const received = number("received_total");
  return [
    fact("received", "Samples received", formatCompact(received), `${formatCount(number("accepted_total"))} accepted, ${formatCount(number("duplicate_total"))} again`),
    fact("lost", "Not taken", formatCompact(lost), received > 0 ? formatShare(lost / received) : "nothing came in yet"),
    fact("series", "Series", formatCompact(number("series")), `${formatValue(number("series_bytes"), "By", 3)} of memory`),
    fact("memory", "Memory", formatValue(number("memory_anonymous_bytes"), "By", 3), `at most ${formatValue(number("memory_peak_bytes"), "By", 3)}`),
    fact("stored", "Blocks", formatValue(number("block_bytes"), "By", 3), `${formatCount(number("blocks"))} blocks, journal ${formatValue(number("journal_bytes"), "By", 3)}`),
    fact("up", "Up", formatDuration(number("uptime_seconds")), `${formatCount(number("queries_timed_out_total"))} queries ran out of time`),
  ];
}

async function protocols(): Promise<Node[]> {
  const { data } = await fetchInstant("sum by (protocol, outcome, reason) (ogive_ingest_samples_total)", Math.floor(serverNow()) - 2);
  const rows = ledgerOf(vector(data)).map((row) => [
    row.protocol,
    formatCount(row.accepted + row.duplicate + row.rejected + row.refused),
    formatCount(row.accepted),
    formatCount(row.duplicate),
    formatCount(row.rejected),
    formatCount(row.refused),
    row.reasons.map(([reason, count]) => `${reason} ${formatCount(count)}`).join(", ") || "–",
  ]);
  return table(["Protocol", "Received", "Accepted", "Again", "Rejected", "Refused", "Why"], rows, "Nobody has sent anything yet.");
}

/** Rows of senders; the rest is at `/v1/senders`. */
const SENDERS = 50;

async function senders(): Promise<Node[]> {
  const { senders, forgotten } = await fetchSenders();
  const all = sendersOf(senders, forgotten);
  const rows = all.slice(0, SENDERS).map((row) => [
    row.name,
    row.protocol,
    row.tenant,
    formatCount(row.received),
    formatCount(row.accepted),
    formatCount(row.duplicate),
    formatCount(row.lost),
    row.reasons.map(([reason, count]) => `${reason} ${formatCount(count)}`).join(", ") || "–",
    formatCount(row.missing),
    when(row.last),
  ]);
  const rest = all.length > SENDERS ? [el("p", { class: "note" }, `${formatCount(all.length - SENDERS)} more are at v1/senders.`)] : [];
  return [el("h3", {}, "By sender, since the server started"), ...table(["Sender", "Protocol", "Tenant", "Received", "Accepted", "Again", "Lost", "Why", "Missing batches", "Last"], rows, "Nobody has sent anything yet."), ...rest];
}

async function queries(): Promise<Node[]> {
  const rows = (await fetchQueries()).map((one) => [link(one.query), one.route, formatCount(one.times), formatValue(one.seconds, "s", 3), formatValue(one.seconds / one.times, "s", 3), formatValue(one.longest, "s", 3), formatCount(one.refused), when(one.last_ms)]);
  return table(["Expression", "Route", "Times", "In all", "Mean", "Slowest", "Refused", "Last"], rows, "Nothing was asked yet.");
}

async function cardinality(): Promise<Node[]> {
  const data = await fetchTsdb(15);
  const list = (title: string, of: readonly { name: string; value: number }[], query: (name: string) => string | null): Node => {
    const rows = of.map(({ name, value }) => [query(name) === null ? name : el("a", { href: `./${formatState({ ...parseState(""), query: query(name) as string })}` }, name), formatCount(value)]);
    return el("div", {}, el("h3", {}, title), ...table(["Name", "Number"], rows, "None."));
  };
  return [
    el("p", { class: "note" }, `${formatCount(data.headStats.numSeries)} series of the last two hours, ${formatCount(data.headStats.numLabelPairs)} pairs of label and value.`),
    el("div", { class: "three" }, list("Series by name", data.seriesCountByMetricName, (name) => name), list("Values by label", data.labelValueCountByLabelName, () => null), list("Series by value", data.seriesCountByLabelValuePair, pairSelector)),
  ];
}

async function grew(): Promise<Node[]> {
  const { now, before, grew, tenants } = await fetchCardinality("1d", 10);
  const list = (title: string, of: readonly Growth[], name: (one: Growth) => string | Node, none: string): Node => {
    const rows = of.map((one) => [name(one), formatCount(one.before), formatCount(one.now), changeOf(one)]);
    return el("div", {}, el("h3", {}, title), ...table(["Name", "A day ago", "Now", "Change"], rows, none));
  };
  return [
    el("p", { class: "note" }, `${formatCount(now.series)} series with samples in the last two hours; a day ago ${formatCount(before.series)}.`),
    el(
      "div",
      { class: "two" },
      list("Series by name", grew.metrics, ({ name }) => link(name), "No name has more series than a day ago."),
      list("Values by label", grew.labels, ({ name }) => name, "No label has more values than a day ago."),
      list("Series by value", grew.pairs, ({ name }) => link(pairSelector(name), name), "No value has more series than a day ago."),
      list("Series by tenant", tenants, ({ name }) => name, "No tenant has series."),
    ),
  ];
}

async function targets(): Promise<Node[]> {
  const rows = (await fetchTargets()).map((one) => [one.labels["job"] ?? one.scrapePool, one.scrapeUrl, el("span", { class: `condition ${one.health === "up" ? "good" : one.health === "down" ? "bad" : "warn"}` }, one.health), formatValue(one.lastScrapeDuration, "s", 3), one.lastScrape.slice(0, 19).replace("T", " "), one.lastError || "–"]);
  return table(["Job", "Address", "State", "Took", "Last", "Error"], rows, "Nothing is scraped: ogive serve --scrape-config prometheus.yml.");
}

async function disks(): Promise<Node[]> {
  const { disks, problems } = await fetchDisks();
  const rows = disks.map((one) => [one.path, el("span", { class: `condition ${one.state === "live" ? "good" : "bad"}` }, one.why === "" ? one.state : `${one.state}: ${one.why}`), formatValue(one.free_bytes, "By", 3), formatValue(one.size_bytes, "By", 3), formatShare(one.size_bytes > 0 ? 1 - one.free_bytes / one.size_bytes : 0), formatCount(one.failures), formatValue(one.healed_bytes, "By", 3)]);
  return [...table(["Directory", "State", "Free", "Size", "In use", "Failures", "Healed"], rows, "This server has no disks of its own."), ...problems.map((text) => el("p", { class: "problem" }, typeof text === "string" ? text : JSON.stringify(text)))];
}

async function snapshots(): Promise<Node[]> {
  const rows = (await fetchSnapshots()).map((one) => [one.name, when(one.created_ms), formatValue(one.block_bytes + one.journal_bytes, "By", 3)]);
  return table(["Name", "Made", "Size"], rows, "None: ogive snapshot create NAME.");
}
