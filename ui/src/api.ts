/** Calls of the server's HTTP interface. Failure: every refusal is an `ApiError` with the server's own sentence. */

import type { Alert, Finding, Silence, Tested } from "./alertlist.ts";
import type { WireColumn } from "./bins.ts";
import { KIND, readFrame } from "./frame.ts";
import type { LogColumns, LogLines } from "./loglines.ts";
import type { Brokers } from "./fleetrows.ts";
import type { Broker } from "./spool.ts";
import type { Traces } from "./traces.ts";

export class ApiError extends Error {
  constructor(
    message: string,
    /** HTTP status; 0 when no answer came. */
    readonly status: number,
  ) {
    super(message);
  }
}

interface Envelope<T> {
  status: "success" | "error";
  data: T;
  error?: string;
  warnings?: string[];
  infos?: string[];
}

export interface Answer<T> {
  readonly data: T;
  readonly warnings: readonly string[];
  readonly infos: readonly string[];
}

export interface Heatmap {
  start: number;
  end: number;
  step: number;
  /** Seconds that almost all cells cover at most; 0 when that is not known. */
  width: number;
  unit: string;
  series: number;
  /** Whether the columns add up to the distribution. */
  additive: boolean;
  /** What `by` and `without` separate; empty unless there are several. */
  groups: { labels: Labels; series: number; count: string | null }[];
  groups_total: number;
  /** The one that is drawn. */
  group: Labels | null;
  columns: WireColumn[];
  /** Each cell of the range once; null where there is none, for the reason beside it. */
  distribution: WireColumn | null;
  no_distribution: string | null;
}

/** What stands for all groups, merged. */
export const ALL_GROUPS = "*";

function choice(group: string | null): Record<string, string> {
  return group === null ? {} : group === ALL_GROUPS ? { merge: "true" } : { group };
}

export type Labels = Record<string, string>;

export interface Series {
  metric: Labels;
  value?: [number, string];
  values?: [number, string][];
  histogram?: [number, unknown];
  histograms?: [number, unknown][];
}

export type QueryData =
  | { resultType: "matrix"; result: Series[] }
  | { resultType: "vector"; result: Series[] }
  | { resultType: "scalar"; result: [number, string] }
  | { resultType: "string"; result: [number, string] };

export interface Metadata {
  type: "histogram" | "counter" | "gauge" | "text" | string;
  help: string;
  unit: string;
}

/** Seconds that the server's clock is ahead of the browser's, to the second that the `Date` header has. */
let skew = 0;

/** The server's idea of now, seconds since the epoch. */
export function serverNow(): number {
  return Date.now() / 1000 + skew;
}

function noteClock(response: Response): void {
  const date = Date.parse(response.headers.get("date") ?? "");
  if (Number.isNaN(date)) return;
  const ahead = date / 1000 + 0.5 - Date.now() / 1000;
  // Less than two seconds is the rounding of the header and the way of the answer.
  skew = Math.abs(ahead) < 2 ? 0 : ahead;
}

/** The status of an answer that is no answer of the server's: a login page of a proxy is no refusal of the expression, whatever its status says. */
function unreadable(response: Response): number {
  return response.ok ? 0 : response.status;
}

/** Pairs where a name comes more than once. */
type Params = Record<string, string> | string[][];

/** Where the interface is: beside the page, so that a proxy may put both under a path. */
export function address(path: string, params: Params): string {
  const url = new URL(path, document.baseURI);
  url.search = new URLSearchParams(params).toString();
  return url.toString();
}

async function get<T>(path: string, params: Params, signal?: AbortSignal, more: RequestInit = {}): Promise<Envelope<T>> {
  let response: Response;
  try {
    response = await fetch(address(path, params), signal === undefined ? more : { ...more, signal });
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === "AbortError") throw cause;
    throw new ApiError("The server does not answer.", 0);
  }
  noteClock(response);
  const body = response.headers.get("content-type") === KIND ? await framed<T>(response) : await parsed<T>(response);
  if (!response.ok || body.status === "error") throw new ApiError(body.error ?? `The server answered ${response.status}.`, response.status);
  return body;
}

async function parsed<T>(response: Response): Promise<Envelope<T>> {
  const text = await response.text();
  try {
    return JSON.parse(text) as Envelope<T>;
  } catch {
    throw new ApiError(`The server answered ${response.status} with something that is not JSON: ${text.slice(0, 200)}`, unreadable(response));
  }
}

/** The envelope of a frame, with its columns in the data. */
async function framed<T>(response: Response): Promise<Envelope<T>> {
  const bytes = new Uint8Array(await response.arrayBuffer());
  try {
    const { head, columns } = readFrame(bytes, COLUMN_QUANTILES);
    const envelope = head as Envelope<object>;
    return { ...envelope, data: { ...envelope.data, columns } } as Envelope<T>;
  } catch (cause) {
    throw new ApiError(`The server answered with something that is ${cause instanceof Error ? cause.message : String(cause)}`, unreadable(response));
  }
}

async function answer<T>(path: string, params: Record<string, string>, signal?: AbortSignal, more?: RequestInit): Promise<Answer<T>> {
  const { data, warnings, infos } = await get<T>(path, params, signal, more);
  return { data, warnings: warnings ?? [], infos: infos ?? [] };
}

/** The quantiles that every column is asked for, so that turning one on needs no new request. */
const COLUMN_QUANTILES = [0.5, 0.9, 0.99, 0.999];

const AS_FRAME = { headers: { accept: `${KIND}, application/json` } };

/** `fit` lets the server raise the step to the width of the cells: the answer says which it is. */
export async function fetchHeatmap(query: string, group: string | null, start: number, end: number, step: number, fit: boolean, signal?: AbortSignal): Promise<Answer<Heatmap>> {
  const params = { query, ...choice(group), start: String(start), end: String(end), step: String(step), fit: String(fit), quantiles: COLUMN_QUANTILES.join() };
  const found = await answer<Heatmap & { distribution: unknown }>("v1/heatmap", params, signal, AS_FRAME);
  const { data } = found;
  const about = data.distribution as unknown;
  if (typeof about !== "string") return found;
  // In a frame the distribution is the last column, where there is one.
  const empty: WireColumn = { t: data.end, count: 0, sum: null, min: null, max: null, bins: [] };
  const distribution = about === "last" ? (data.columns.pop() ?? null) : about === "empty" ? empty : null;
  return { ...found, data: { ...data, distribution } };
}

/** A group and its columns. */
export interface GroupPanel {
  labels: Labels;
  series: number;
  count: string;
  /** Value and bounds of the quantile that groups are sorted by. */
  quantile?: [number, number, number];
  list: WireColumn[];
}

/** Which label values are more frequent in a box of time and value than elsewhere. */
export interface Explained {
  inside: number;
  outside: number;
  series: number;
  compared: number;
  /** Whether all values were compared. */
  complete: boolean;
  rows: { labels: Labels; series: number; inside: number; outside: number; share_inside: number; share_outside: number; difference: [number, number] }[];
}

export function fetchExplanation(query: string, view: { start: number; end: number }, area: { start: number; end: number; lo: number; hi: number }, signal?: AbortSignal): Promise<Answer<Explained>> {
  const params = { query, start: String(view.start), end: String(view.end), from: String(area.start), to: String(area.end), lo: String(area.lo), hi: String(area.hi) };
  return answer("v1/explain", params, signal);
}

/** A quantile of two ranges: value and bounds of its bin, and how it changed with the bounds of that in 95 of 100 cases. */
/** A name whose series together are distributed otherwise in the time of a box than in the rest of the view. */
export interface RelatedChange {
  readonly name: string;
  readonly query: string;
  readonly inside: number;
  readonly outside: number;
  readonly verdict: string;
  readonly sentence: string;
  readonly words: string;
}

export interface Related {
  readonly job: readonly string[];
  readonly compared: number;
  readonly complete: boolean;
  readonly rows: readonly RelatedChange[];
}

export function fetchRelated(query: string, view: { start: number; end: number }, area: { start: number; end: number }, signal?: AbortSignal): Promise<Answer<Related>> {
  return answer("v1/explain/related", { query, start: String(view.start), end: String(view.end), from: String(area.start), to: String(area.end) }, signal);
}

export interface ChangedQuantile {
  q: number;
  before: [number, number, number];
  after: [number, number, number];
  change: number | null;
  bounds: [number, number] | null;
  differs: boolean | null;
  words: string;
}

/** Two ranges of one expression. */
export interface Comparison {
  unit: string;
  before: { start: number; end: number; count: number; series: number };
  after: { start: number; end: number; count: number; series: number };
  verdict: "alike" | "undecided" | "moved" | "reshaped" | "none";
  sentence: string;
  words: string;
  times: number | null;
  quantiles: ChangedQuantile[];
}

/** The distribution of a range beside that of `offset` seconds before it, or beside that of another expression. */
export function fetchComparison(query: string, group: string | null, start: number, end: number, offset: number, other: string | null, signal?: AbortSignal): Promise<Answer<Comparison>> {
  const params = { query, ...choice(group), ...(other === null ? {} : { before_query: other }), start: String(start), end: String(end), before_start: String(start - offset), before_end: String(end - offset) };
  return answer("v1/compare", params, signal);
}

/** A part of the sorted list of groups. */
export interface GroupPart {
  start: number;
  end: number;
  step: number;
  width: number;
  unit: string;
  groups_total: number;
  /** Bounds of the values of all groups. */
  lo: number | null;
  hi: number | null;
  groups: GroupPanel[];
}

/** The heat maps of `limit` groups of a sum, from `offset` on of the list sorted by `order`. */
export async function fetchGroups(query: string, start: number, end: number, step: number, order: string, offset: number, limit: number, signal?: AbortSignal): Promise<Answer<GroupPart>> {
  const params = { query, start: String(start), end: String(end), step: String(step), order, offset: String(offset), limit: String(limit) };
  const found = await answer<Omit<GroupPart, "groups"> & { columns: WireColumn[]; groups: (GroupPanel & { columns: number })[] }>("v1/heatmap/groups", params, signal, AS_FRAME);
  let at = 0;
  // In a frame the columns of all groups stand behind each other.
  const groups = found.data.groups.map((group) => ({ ...group, list: found.data.columns.slice(at, (at += group.columns)) }));
  return { ...found, data: { ...found.data, groups } };
}

export function liveAddress(query: string, group: string | null): string {
  return address("v1/live", { query, ...choice(group), quantiles: COLUMN_QUANTILES.join() });
}

/** At most `limit` series; a warning of the server's says when there are more. */
export function fetchRange(query: string, start: number, end: number, step: number, limit: number, signal?: AbortSignal): Promise<Answer<QueryData>> {
  return answer("api/v1/query_range", { query, start: String(start), end: String(end), step: String(step), limit: String(limit) }, signal);
}

interface Cells {
  readonly series: { readonly labels: Labels }[];
  readonly samples: { readonly series: number; readonly time_ms: number; readonly text?: string }[];
}

/** The samples of text series, as a matrix whose values are the texts. */
export async function fetchTexts(selector: string, start: number, end: number, signal?: AbortSignal): Promise<Answer<QueryData>> {
  const cells = await answer<Cells>("v1/cells", { "match[]": selector, start: String(start), end: String(end) }, signal);
  const result = cells.data.series.map((series) => ({ metric: series.labels, values: [] as [number, string][] }));
  for (const { series, time_ms, text } of cells.data.samples) {
    if (text !== undefined) result[series]?.values.push([time_ms / 1000, text]);
  }
  return { ...cells, data: { resultType: "matrix", result } };
}

/** Slow traces of the series that an expression selects, of (start, end], slowest first. */
export function fetchTraces(query: string, start: number, end: number, signal?: AbortSignal): Promise<Answer<Traces>> {
  return answer("v1/traces", { query, start: String(start), end: String(end), order: "slowest", limit: "100" }, signal);
}

export function fetchTraceColumns(query: string, start: number, end: number, step: number, signal?: AbortSignal): Promise<Answer<{ columns: [number, number][] }>> {
  return answer("v1/traces/columns", { query, start: String(start), end: String(end), step: String(step) }, signal);
}

/** Something that happened: a release, a failover, a start of the server. */
export interface StoredEvent {
  time_ms: number;
  kind: string;
  text: string;
  labels: Labels;
  series: string;
}

/** Events of (start, end], the oldest first. */
export function fetchEvents(start: number, end: number, signal?: AbortSignal): Promise<Answer<{ events: StoredEvent[]; complete: boolean }>> {
  return answer("v1/events", { start: String(start), end: String(end) }, signal);
}

/** Lines that a search finds, the newest first. */
export function fetchLogs(params: Record<string, string>, signal?: AbortSignal): Promise<Answer<LogLines>> {
  return answer("v1/logs", params, signal);
}

export function fetchLogColumns(params: Record<string, string>, signal?: AbortSignal): Promise<Answer<LogColumns>> {
  return answer("v1/logs/columns", params, signal);
}

export function fetchInstant(query: string, time: number, signal?: AbortSignal): Promise<Answer<QueryData>> {
  return answer("api/v1/query", { query, time: String(time) }, signal);
}

export async function fetchMetadata(metric?: string, signal?: AbortSignal): Promise<Record<string, Metadata[]>> {
  return (await answer<Record<string, Metadata[]>>("api/v1/metadata", metric === undefined ? {} : { metric }, signal)).data;
}

/** Exemplars of one series, values as text. */
export interface ExemplarSeries {
  readonly seriesLabels: Labels;
  readonly exemplars: readonly { readonly labels: Labels; readonly value: string; readonly timestamp: number }[];
}

/** Exemplars of the series that an expression selects. */
export async function fetchExemplars(query: string, start: number, end: number, signal?: AbortSignal): Promise<ExemplarSeries[]> {
  return (await answer<ExemplarSeries[]>("api/v1/query_exemplars", { query, start: String(start), end: String(end) }, signal)).data;
}

/** Labels of the series that a selector has in a range. */
export async function fetchSeries(match: string, start: number, end: number, signal?: AbortSignal): Promise<Labels[]> {
  return (await answer<Labels[]>("api/v1/series", { "match[]": match, start: String(start), end: String(end), limit: "2000" }, signal)).data;
}

export async function fetchLabels(match: string): Promise<string[]> {
  return (await answer<string[]>("api/v1/labels", { "match[]": match })).data;
}

export async function fetchLabelValues(label: string, match?: string): Promise<string[]> {
  // What is stored is listed, not the `_bucket`, `_sum` and `_count` that stand for each histogram elsewhere.
  const params: Record<string, string> = match === undefined ? { classic_views: "false" } : { "match[]": match };
  return (await answer<string[]>(`api/v1/label/${encodeURIComponent(label)}/values`, params)).data;
}

/** The flat object of `/v1/status`, which has no envelope. */
export async function fetchStatus(): Promise<Record<string, unknown>> {
  const body = (await get<Record<string, unknown>>("v1/status", {})) as unknown as Record<string, unknown>;
  const data = body["data"];
  return typeof data === "object" && data !== null ? (data as Record<string, unknown>) : body;
}

/** The state of a broker, which has no envelope. */
export async function fetchBroker(): Promise<Broker> {
  return (await get("v1/broker", {})) as unknown as Broker;
}

/** Brokers that changed since an answer's cursor. */
export async function fetchBrokers(since: number): Promise<Brokers> {
  return (await get("v1/fleet/brokers", { since: String(since) })) as unknown as Brokers;
}

/** What comes to a broker, as a stream of events, until `signal` ends it. */
export async function openWatch(broker: string, query: string, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
  let response: Response;
  try {
    response = await fetch(address(`v1/fleet/brokers/${encodeURIComponent(broker)}/live`, { query, quantiles: "0.5,0.99" }), { signal });
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === "AbortError") throw cause;
    throw new ApiError("The server does not answer.", 0);
  }
  if (response.ok && response.body !== null) return response.body;
  throw new ApiError((await parsed<null>(response)).error ?? `The server answered ${response.status}.`, response.status);
}

/** Active alerts, those that fire first. */
export async function fetchAlerts(): Promise<readonly Alert[]> {
  return (await get<{ alerts: Alert[] }>("v1/alerts", {})).data.alerts;
}

export async function fetchSilences(): Promise<readonly Silence[]> {
  return (await get<{ silences: Silence[] }>("v1/silences", {})).data.silences;
}

/** What the detectors find now; the answer has no envelope. */
export async function fetchFindings(): Promise<readonly Finding[]> {
  return ((await get("v1/detections", {})) as unknown as { active: Finding[] }).active;
}

/** The hours up to `end` (seconds) in which alerts fired: 1 at the end of each. */
export async function fetchAlertHours(end: number, hours: number): Promise<readonly Series[]> {
  const params = { query: 'max_over_time(ALERTS{alertstate="firing"}[1h])', start: String(end - 3600 * (hours - 1)), end: String(end), step: "3600" };
  const { data } = await get<{ result: Series[] }>("api/v1/query_range", params);
  return data.result;
}

function posted(body: unknown): RequestInit {
  return { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
}

/** Keeps alerts quiet whose labels match; the reason is stored and audited. */
export async function makeSilence(match: Labels, span: string, reason: string): Promise<void> {
  await get("v1/silences", {}, undefined, posted({ match, for: span, reason }));
}

/** Keeps one alert quiet until it ceases. */
export async function acknowledge(labels: Labels, reason: string): Promise<void> {
  await get("v1/silences", {}, undefined, posted({ acknowledge: labels, reason }));
}

export async function endSilence(id: number): Promise<void> {
  await get(`v1/silences/${id}`, {}, undefined, { method: "DELETE" });
}

/** An expression and what it took since the server started; seconds. */
export interface QueryCost {
  readonly query: string;
  readonly route: string;
  readonly times: number;
  readonly refused: number;
  readonly seconds: number;
  readonly longest: number;
  readonly last_ms: number;
}

export async function fetchQueries(): Promise<readonly QueryCost[]> {
  return (await get<{ queries: QueryCost[] }>("v1/queries", {})).data.queries;
}

/** What became of the samples of one sender since the server started. */
export interface SenderAccount {
  readonly tenant: string;
  readonly protocol: string;
  /** A login, an address, a target; empty where the protocol knows none. */
  readonly sender: string;
  /** Of native batches. */
  readonly source?: string;
  readonly batches: number;
  readonly received: number;
  readonly accepted: number;
  readonly duplicate: number;
  readonly rejected: Readonly<Record<string, number>>;
  readonly refused: Readonly<Record<string, number>>;
  /** Requests. */
  readonly unreadable: Readonly<Record<string, number>>;
  readonly missing_batches: number;
  readonly first_ms: number;
  readonly last_ms: number;
}

/** What is left of senders for which there was no room any more. */
export type ForgottenSenders = Omit<SenderAccount, "tenant" | "sender" | "source">;

export async function fetchSenders(): Promise<{ senders: readonly SenderAccount[]; forgotten: readonly ForgottenSenders[] }> {
  return (await get<Awaited<ReturnType<typeof fetchSenders>>>("v1/senders", {})).data;
}

type Counted = readonly { readonly name: string; readonly value: number }[];

/** Which names, labels and values make most series. */
export async function fetchTsdb(limit: number): Promise<{ headStats: { numSeries: number; numLabelPairs: number }; seriesCountByMetricName: Counted; labelValueCountByLabelName: Counted; seriesCountByLabelValuePair: Counted }> {
  return (await get<Awaited<ReturnType<typeof fetchTsdb>>>("api/v1/status/tsdb", { limit: String(limit) })).data;
}

/** How often something is there, and was. */
export interface Growth {
  readonly name: string;
  readonly now: number;
  readonly before: number;
}

interface GrowthLists {
  readonly metrics: readonly Growth[];
  /** Numbers of values; the others are of series. */
  readonly labels: readonly Growth[];
  readonly pairs: readonly Growth[];
  readonly tenants: readonly Growth[];
}

/** What makes most series now, what did at another time, and what grew since. */
export async function fetchCardinality(ago: string, limit: number): Promise<GrowthLists & { now: { series: number }; before: { series: number }; grew: GrowthLists }> {
  return (await get<Awaited<ReturnType<typeof fetchCardinality>>>("v1/cardinality", { ago, limit: String(limit) })).data;
}

export interface Target {
  readonly labels: Labels;
  readonly scrapePool: string;
  readonly scrapeUrl: string;
  readonly health: string;
  readonly lastScrape: string;
  readonly lastScrapeDuration: number;
  readonly lastError: string;
}

export async function fetchTargets(): Promise<readonly Target[]> {
  return (await get<{ activeTargets: Target[] }>("api/v1/targets", {})).data.activeTargets;
}

/** Somebody who may log in, without what they log in with. */
export interface Login {
  readonly kind: string;
  readonly name: string;
  readonly tenant: string | null;
  readonly allow: readonly string[];
  readonly expires: string | null;
  readonly expired: boolean;
}

export async function fetchLogins(): Promise<{ open: boolean; logins: readonly Login[] }> {
  return (await get<{ open: boolean; logins: Login[] }>("v1/logins", {})).data;
}

/** Options by name with their values, without secrets. */
export async function fetchFlags(): Promise<Record<string, string>> {
  return (await get<Record<string, string>>("api/v1/status/flags", {})).data;
}

export interface StoredDisk {
  readonly path: string;
  readonly state: string;
  readonly why: string;
  readonly free_bytes: number;
  readonly size_bytes: number;
  readonly failures: number;
  readonly healed_bytes: number;
}

export async function fetchDisks(): Promise<{ disks: readonly StoredDisk[]; problems: readonly unknown[] }> {
  return (await get<{ disks: StoredDisk[]; problems: unknown[] }>("v1/disks", {})).data;
}

/** A node of a cluster that holds the samples. */
export interface RingNode {
  readonly address: string;
  readonly datacentre: string | null;
  readonly rack: string | null;
  readonly connected: boolean;
}

/** A cluster as `/v1/cluster` shows it. */
export interface Ring {
  readonly name: string;
  readonly away: boolean;
  readonly behind_records: number;
  readonly copies: Readonly<Record<string, number>>;
  readonly nodes: readonly RingNode[];
  readonly conflicts_total: number;
  readonly corrupt_rows_total: number;
  readonly repairs: readonly number[];
  readonly audit: { readonly rows_lost: number; readonly copies_missing: number; readonly copies_unknown: number; readonly minutes_open: number };
}

export async function fetchCluster(): Promise<{ readonly node: string; readonly spool_records: number; readonly spool_bytes: number; readonly clusters: readonly Ring[] }> {
  return (await get("v1/cluster", {})) as unknown as Awaited<ReturnType<typeof fetchCluster>>;
}

export interface StoredSnapshot {
  readonly name: string;
  readonly created_ms: number;
  readonly block_bytes: number;
  readonly journal_bytes: number;
}

export async function fetchSnapshots(): Promise<readonly StoredSnapshot[]> {
  return (await get<{ snapshots: StoredSnapshot[] }>("v1/snapshots", {})).data.snapshots;
}

/** A board in the list. */
export interface SavedBoard {
  readonly name: string;
  readonly title: string;
  readonly version: number;
  readonly time_ms: number;
  readonly by: string;
  readonly panels: number;
}

export async function fetchBoards(): Promise<readonly SavedBoard[]> {
  return (await get<{ boards: SavedBoard[] }>("v1/boards", {})).data.boards;
}

/** A board as it is saved, and its versions, the oldest first. */
export async function fetchBoard(name: string, version: number | null): Promise<{ version: number; board: unknown; versions: { version: number; deleted: boolean }[] }> {
  return (await get<{ version: number; board: unknown; versions: { version: number; deleted: boolean }[] }>(`v1/boards/${encodeURIComponent(name)}`, version === null ? {} : { version: String(version) })).data;
}

/** Saves a board that was made of version `base`; 0 for one that is new. */
export async function saveBoard(board: unknown, base: number): Promise<void> {
  await get("v1/boards", { base: String(base) }, undefined, posted(board));
}

export async function deleteBoard(name: string): Promise<void> {
  await get(`v1/boards/${encodeURIComponent(name)}`, {}, undefined, { method: "DELETE" });
}

/** What rules would have done over the last `stretch`, such as 1d. */
export async function backtest(rules: string, stretch: string, signal: AbortSignal): Promise<{ start: string; end: string; rules: Tested[] }> {
  const params = [["start", `-${stretch}`], ["for", "0s"], ["for", "2m"], ["for", "10m"]];
  return (await get<{ start: string; end: string; rules: Tested[] }>("v1/rules/backtest", params, signal, { method: "POST", headers: { "content-type": "application/yaml" }, body: rules })).data;
}
