/** Boards that are there without anybody's doing, as soon as their series are. Pure. */

import { arranged, type Board, type Panel, type PanelKind, type Variable } from "./board.ts";

/** A panel and the series without which it shows nothing. */
interface ReadyPanel {
  readonly title: string;
  readonly query: string;
  readonly kind: PanelKind;
  /** Names of which one must be there. */
  readonly needs: readonly string[];
  readonly w?: number;
}

interface Ready {
  readonly name: string;
  readonly title: string;
  readonly about: string;
  readonly variables: readonly Variable[];
  readonly panels: readonly ReadyPanel[];
}

const panel = (title: string, kind: PanelKind, query: string, needs: readonly string[], w = 6): ReadyPanel => ({ title, kind, query, needs, w });

const READY: readonly Ready[] = [
  {
    name: "ogive",
    title: "Ogive itself",
    about: "What the server measures of itself",
    variables: [],
    panels: [
      panel("HTTP requests", "heatmap", "ogive_http_request_seconds", ["ogive_http_request_seconds"]),
      panel("Ingest, from arrival to durable", "heatmap", "ogive_ingest_seconds", ["ogive_ingest_seconds"]),
      panel("fsync of the journal", "heatmap", "ogive_journal_fsync_seconds", ["ogive_journal_fsync_seconds"]),
      panel("How late CPUs wake a thread", "heatmap", "ogive_hiccup_seconds", ["ogive_hiccup_seconds"]),
      panel("Samples a second, by what became of them", "lines", "sum by (reason) (rate(ogive_ingest_samples_total[1m]))", ["ogive_ingest_samples_total"]),
      panel("Memory", "lines", "process_resident_memory_bytes", ["process_resident_memory_bytes"]),
    ],
  },
  {
    name: "host",
    title: "Host",
    about: "Hosts as the node exporter or the OpenTelemetry Collector sees them",
    variables: [{ name: "instance", label: "instance", match: "node_cpu_seconds_total" }],
    panels: [
      panel("CPU in use", "lines", '1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle", instance=~"$instance"}[1m]))', ["node_cpu_seconds_total"]),
      panel("Memory that is available", "lines", 'node_memory_MemAvailable_bytes{instance=~"$instance"}', ["node_memory_MemAvailable_bytes"]),
      panel("Space left on disks", "lines", 'node_filesystem_avail_bytes{instance=~"$instance", fstype!~"tmpfs|overlay"}', ["node_filesystem_avail_bytes"]),
      panel("Received", "lines", 'rate(node_network_receive_bytes_total{instance=~"$instance"}[1m])', ["node_network_receive_bytes_total"]),
      panel("Load", "lines", 'node_load1{instance=~"$instance"}', ["node_load1"]),
      panel("CPU time by state", "lines", "sum by (state) (rate(system_cpu_time_seconds_total[1m]))", ["system_cpu_time_seconds_total"]),
      panel("How late CPUs wake a thread", "heatmap", "ogive_hiccup_seconds", ["ogive_hiccup_seconds"]),
    ],
  },
  {
    name: "http",
    title: "HTTP services",
    about: "Durations and rates of requests, as Prometheus clients and OpenTelemetry name them",
    variables: [{ name: "job", label: "job" }],
    panels: [
      panel("Duration (OpenTelemetry)", "heatmap", 'sum(rate(http_server_request_duration_seconds{job=~"$job"}[1m]))', ["http_server_request_duration_seconds"]),
      panel("Duration", "heatmap", 'sum(rate(http_request_duration_seconds{job=~"$job"}[1m]))', ["http_request_duration_seconds", "http_request_duration_seconds_bucket"]),
      panel("Requests a second", "lines", 'sum by (job) (rate(http_requests_total{job=~"$job"}[1m]))', ["http_requests_total"]),
      panel("Failed requests a second", "lines", 'sum by (job) (rate(http_requests_total{job=~"$job", code=~"5.."}[1m]))', ["http_requests_total"]),
    ],
  },
  {
    name: "postgresql",
    title: "PostgreSQL",
    about: "Databases as the exporter sees them, and statements read off the wire",
    variables: [],
    panels: [
      panel("Commits a second", "lines", "sum by (datname) (rate(pg_stat_database_xact_commit[1m]))", ["pg_stat_database_xact_commit"]),
      panel("Connections by state", "lines", "sum by (state) (pg_stat_activity_count)", ["pg_stat_activity_count"]),
      panel("Rows fetched a second", "lines", "sum by (datname) (rate(pg_stat_database_tup_fetched[1m]))", ["pg_stat_database_tup_fetched"]),
      panel("Size", "lines", "pg_database_size_bytes", ["pg_database_size_bytes"]),
    ],
  },
  {
    name: "prometheus",
    title: "Prometheus",
    about: "A Prometheus server that is scraped",
    variables: [],
    panels: [
      panel("HTTP requests", "heatmap", "sum(rate(prometheus_http_request_duration_seconds[1m]))", ["prometheus_http_request_duration_seconds", "prometheus_http_request_duration_seconds_bucket"]),
      panel("Series", "lines", "prometheus_tsdb_head_series", ["prometheus_tsdb_head_series"]),
      panel("Samples a second", "lines", "rate(prometheus_tsdb_head_samples_appended_total[1m])", ["prometheus_tsdb_head_samples_appended_total"]),
      panel("Duration of queries", "lines", "prometheus_engine_query_duration_seconds", ["prometheus_engine_query_duration_seconds"]),
    ],
  },
  {
    name: "otel",
    title: "OpenTelemetry Collector",
    about: "What a collector takes, sends and loses",
    variables: [],
    panels: [
      panel("Taken a second", "lines", "sum by (receiver) (rate(otelcol_receiver_accepted_metric_points_total[1m]))", ["otelcol_receiver_accepted_metric_points_total"]),
      panel("Refused a second", "lines", "sum by (receiver) (rate(otelcol_receiver_refused_metric_points_total[1m]))", ["otelcol_receiver_refused_metric_points_total"]),
      panel("Sent a second", "lines", "sum by (exporter) (rate(otelcol_exporter_sent_metric_points_total[1m]))", ["otelcol_exporter_sent_metric_points_total"]),
      panel("Queue", "lines", "otelcol_exporter_queue_size", ["otelcol_exporter_queue_size"]),
    ],
  },
];

/** A ready-made board with the panels whose series are there. */
export interface ReadyBoard {
  readonly about: string;
  readonly board: Board;
}

/** Of `READY` those that have a panel of their own to show: a series that two boards share makes none of them. */
export function readyBoards(names: ReadonlySet<string>): ReadyBoard[] {
  const there = (one: ReadyPanel): boolean => one.needs.some((name) => names.has(name));
  return READY.flatMap(({ name, title, about, variables, panels }) => {
    const shown = panels.filter(there);
    const own = shown.filter((one) => name === "ogive" || !one.needs.some((need) => need.startsWith("ogive_")));
    if (own.length === 0) return [];
    const placed: Panel[] = shown.map((one, at) => ({ title: one.title, kind: one.kind, queries: [one.query], x: (at % 2) * 6, y: Math.floor(at / 2) * 4, w: one.w ?? 6, h: 4 }));
    return [{ about, board: { name, title, range: "1h", variables: variables.filter(({ match }) => match === undefined || names.has(match)), panels: arranged(placed) } }];
  });
}
