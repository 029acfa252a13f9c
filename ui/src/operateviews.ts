/** Parts of the operator's page: gaps, queues, what one thing costs of another, checks, logins and configuration. */

import { fetchCluster, fetchFlags, fetchInstant, fetchLogins, fetchStatus, fetchTexts, serverNow, type QueryData, type Series } from "./api.ts";
import { queryLink, table, type Cell } from "./datatable.ts";
import { byId, el } from "./dom.ts";
import { formatClock, formatCompact, formatCount, formatDate, formatDuration, formatValue } from "./format.ts";
import { checksOf, queuesOf } from "./operations.ts";
import { countersOf, countOf, countQuery, OWN, OWN_PER, perUnit, type Counter, type PerUnit } from "./perunit.ts";

const DAY = 86_400;
const WEEK = 7 * DAY;

/** Two seconds: what is stored each second is there by then. */
const SETTLED = 2;

function now(): number {
  return Math.floor(serverNow()) - SETTLED;
}

export function vector(data: QueryData): readonly Series[] {
  return data.resultType === "vector" ? (data.result as Series[]) : [];
}

async function series(query: string): Promise<readonly Series[]> {
  return vector((await fetchInstant(query, now())).data);
}

/** The server's figures, asked for once for all parts. */
type Asked = ReturnType<typeof fetchStatus>;

/** What brokers had to drop in the last day. */
export async function gaps(): Promise<Node[]> {
  const found = await series("sum by (broker, destination, reason) (increase(ogive_gap_samples[1d])) > 0");
  const rows = found
    .map(({ metric, value }) => ({ metric, count: Number(value?.[1] ?? 0) }))
    .sort((a, b) => b.count - a.count)
    .map(({ metric, count }): Cell[] => [metric["broker"] ?? "", metric["destination"] ?? "", metric["reason"] ?? "", formatCount(count)]);
  return [el("h3", {}, "Dropped by brokers in the last day"), ...table(["Broker", "Destination", "Why", "Samples"], rows, "Nothing.")];
}

/** What waits to be done. */
export async function queues(asked: Asked): Promise<Node[]> {
  const lag = '{__name__=~"ogive_alerts_waiting|ogive_forward_lag_seconds|ogive_broker_lag_batches"}';
  const [status, lags] = await Promise.all([asked, series(lag)]);
  const rows = queuesOf(status, lags).map(({ name, label, value, unit, means }): Cell[] => [label === "" ? name : `${name} (${label})`, unit === "s" ? formatDuration(value) : formatCount(value), means]);
  return table(["Queue", "Now", "What waits"], rows, "No queue is known.");
}

/** Checks with their state and the last sentence that explains a failure. */
export async function checks(): Promise<Node[]> {
  const at = now();
  const [up, slow, answers] = await Promise.all([
    series("last_over_time(ogive_check_up[1d])"),
    series('histogram_quantile(0.99, sum by (check) (sum_over_time(ogive_check_seconds{phase="total"}[1h])))'),
    fetchTexts('{__name__=~"ogive_check_no_answer|ogive_check_wrong_answer"}', at - DAY, at + SETTLED),
  ]);
  const rows = checksOf(up, slow, answers.data.result as Series[]).map(({ check, kind, target, up, p99, error, errorAt }): Cell[] => [
    check,
    kind,
    target,
    el("span", { class: `condition ${up ? "good" : "bad"}` }, up ? "up" : "down"),
    p99 === null ? "–" : formatValue(p99, "s", 3),
    error === "" ? "–" : `${error} (${formatDate(errorAt)} ${formatClock(errorAt)})`,
  ]);
  return table(["Check", "Kind", "Target", "State", "p99 of an hour", "Last error of a day"], rows, "Nothing is checked: ogive serve --checks checks.toml.");
}

/** The clusters that hold the samples, and their nodes; nothing of a server that keeps them itself. */
export async function cluster(asked: Asked): Promise<Node[]> {
  const status = await asked;
  byId("cluster").hidden = status["cassandra_clusters"] === undefined;
  if (status["cassandra_clusters"] === undefined) return [];
  const { node, spool_records, spool_bytes, clusters } = await fetchCluster();
  const condition = (isGood: boolean, good: string, bad: string): Cell => el("span", { class: `condition ${isGood ? "good" : "bad"}` }, isGood ? good : bad);
  const rows = clusters.map((one): Cell[] => [
    one.name,
    condition(!one.away, "answers", "away"),
    Object.entries(one.copies).map(([name, count]) => `${count} in ${name}`).join(", ") || "–",
    formatCount(one.behind_records),
    condition(one.audit.rows_lost === 0, "0", formatCount(one.audit.rows_lost)),
    formatCount(one.audit.copies_missing),
    formatCount(one.audit.copies_unknown),
    condition(one.repairs.length === 0, "0", formatCount(one.repairs.length)),
    formatCount(one.conflicts_total),
    formatCount(one.corrupt_rows_total),
  ]);
  const nodes = clusters.flatMap((one) => one.nodes.map((each): Cell[] => [each.address, one.name, each.datacentre ?? "–", each.rack ?? "–", condition(each.connected, "connected", "not connected")]));
  return [
    el("h2", {}, "Cluster"),
    el("p", { class: "note" }, `This is node ${node}; ${spool_records === 1 ? "1 record waits" : `${formatCount(spool_records)} records wait`} in its spool of ${formatValue(spool_bytes, "By", 3)}.`),
    ...table(["Cluster", "State", "Copies", "Records behind", "Rows lost", "Copies missing", "Copies unknown", "Minutes to repair", "Conflicts", "Damaged rows read"], rows, "No cluster is known."),
    ...table(["Node", "Cluster", "Data centre", "Rack", "State"], nodes, "No cluster was reached yet."),
  ];
}

/** Users and tokens: names and rights, never secrets. */
export async function logins(): Promise<Node[]> {
  const { logins } = await fetchLogins();
  const rows = logins.map(({ kind, name, tenant, allow, expires, expired }): Cell[] => [
    name,
    kind,
    allow.join(", "),
    tenant ?? "any",
    expires === null ? "never" : el("span", { class: expired ? "condition bad" : "" }, expired ? `expired ${expires}` : expires),
  ]);
  return table(["Name", "Kind", "May", "Tenant", "Ends"], rows, "Nobody has to log in: ogive serve --web-config web.yml.");
}

let allOptions = false;

/** The options with which the server runs. */
export async function configuration(asked: Asked): Promise<Node[]> {
  const [flags, status] = await Promise.all([fetchFlags(), asked]);
  const entries = Object.entries(flags).sort(([a], [b]) => a.localeCompare(b));
  const set = entries.filter(([, value]) => value !== "" && value !== "false");
  const refused = status["web_config_refused"];
  const rows = (allOptions ? entries : set).map(([name, value]): Cell[] => [`--${name}`, value === "" ? "–" : value]);
  const more = el("button", { type: "button", id: "all-options", click: () => {
    allOptions = !allOptions;
    void configuration(fetchStatus()).then((nodes) => byId("configuration").replaceChildren(...nodes));
  } }, allOptions ? "Those that are set" : `All ${entries.length} options`);
  return [
    ...(typeof refused === "string" ? [el("p", { class: "problem" }, `The web configuration on the disk is not in force: ${refused}`)] : []),
    ...table(["Option", "Value"], rows, "This server names no options."),
    el("div", {}, more),
  ];
}

/** A row for each counter, and how many units there were. */
async function counted(per: Counter, of: readonly Counter[], range: string): Promise<{ head: PerUnit; rows: PerUnit[] }> {
  const at = now();
  const both = async (counter: Counter): Promise<[number | null, number | null]> => {
    const query = countQuery(counter.expr, range);
    const [is, was] = await Promise.all([fetchInstant(query, at), fetchInstant(query, at - WEEK)]);
    return [countOf(is.data), countOf(was.data)];
  };
  const units = await both(per);
  const rows = await Promise.all(of.map(async (counter) => perUnit(counter.name, await both(counter), units)));
  return { head: perUnit(per.name, units, units), rows };
}

function change({ change, noise }: PerUnit): Cell {
  if (change === null) return "–";
  if (noise) return "the same";
  const percent = Math.abs(change) * 100;
  return el("span", { class: change > 0 ? "bad" : "" }, `${change > 0 ? "+" : "−"}${percent.toFixed(percent < 10 ? 1 : 0)} %`);
}

/** What the form asks for: how much of one thing happens for each of another. */
export async function ops(): Promise<Node[]> {
  const [perText, ofText, range] = [byId<HTMLInputElement>("ops-per").value.trim(), byId<HTMLTextAreaElement>("ops-of").value, byId<HTMLSelectElement>("ops-range").value];
  const per = perText === "" ? OWN_PER : { name: perText, expr: perText };
  const of = countersOf(ofText);
  const { head, rows } = await counted(per, of.length === 0 ? OWN : of, range);
  if (!(head.counts[0] !== null && head.counts[0] > 0)) return [el("p", { class: "note" }, `Nothing to divide by: ${head.name} counted nothing in this time.`)];
  const number = (value: number | null): string => (value === null ? "–" : Math.abs(value) < 1 ? String(Number(value.toPrecision(3))) : formatCompact(value));
  const exprs = new Map([...OWN, ...of].map(({ name, expr }) => [name, expr]));
  const body = rows.map((row): Cell[] => [queryLink(exprs.get(row.name) ?? row.name, row.name), el("span", { title: row.counts[0] === null ? "no data" : `${formatCount(row.counts[0])} in all` }, number(row.each[0])), number(row.each[1]), change(row)]);
  return [el("p", { class: "note" }, `One ${head.name} (${formatCount(head.counts[0])} of them) is:`), ...table(["What", "Now", "A week ago", "Change"], body, "Nothing is counted.")];
}
