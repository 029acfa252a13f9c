/** Boards that are there without anybody's doing, as soon as their series are. Pure. */

import { arranged, type Board, type Panel, type PanelKind, type Variable } from "./board.ts";

/** A panel and the series without which it shows nothing. */
interface ReadyPanel {
  readonly title: string;
  readonly query: string;
  readonly kind: PanelKind;
  /** Of these names one must be there; or selectors, where a name alone says nothing. */
  readonly needs: readonly string[];
  /** It goes with what others show, and makes no board. */
  readonly beside: boolean;
}

interface Ready {
  readonly name: string;
  readonly title: string;
  readonly about: string;
  readonly variables: readonly Variable[];
  readonly panels: readonly ReadyPanel[];
}

const panel = (title: string, kind: PanelKind, query: string, needs: readonly string[], beside = false): ReadyPanel => ({ title, kind, query, needs, beside });

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
    about: "Hosts as the node exporter, the OpenTelemetry Collector or ogive kernel sees them",
    variables: [{ name: "instance", label: "instance", match: "node_cpu_seconds_total" }],
    panels: [
      panel("CPU in use", "lines", '1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle", instance=~"$instance"}[1m]))', ["node_cpu_seconds_total"]),
      panel("Memory that is available", "lines", 'node_memory_MemAvailable_bytes{instance=~"$instance"}', ["node_memory_MemAvailable_bytes"]),
      panel("Space left on disks", "lines", 'node_filesystem_avail_bytes{instance=~"$instance", fstype!~"tmpfs|overlay"}', ["node_filesystem_avail_bytes"]),
      panel("Received", "lines", 'rate(node_network_receive_bytes_total{instance=~"$instance"}[1m])', ["node_network_receive_bytes_total"]),
      panel("Load", "lines", 'node_load1{instance=~"$instance"}', ["node_load1"]),
      panel("CPU time by state", "lines", "sum by (state) (rate(system_cpu_time_seconds_total[1m]))", ["system_cpu_time_seconds_total"]),
      panel("Memory by state", "lines", "sum by (state) (system_memory_usage_bytes)", ["system_memory_usage_bytes"]),
      panel("Space in use on disks", "lines", 'sum by (mountpoint) (system_filesystem_usage_bytes{state="used"})', ["system_filesystem_usage_bytes"]),
      panel("Network by direction", "lines", "sum by (direction) (rate(system_network_io_bytes_total[1m]))", ["system_network_io_bytes_total"]),
      panel("How long threads wait for a CPU", "heatmap", "ogive_kernel_run_queue_seconds", ["ogive_kernel_run_queue_seconds"]),
      panel("Interrupts", "heatmap", "ogive_kernel_interrupt_seconds", ["ogive_kernel_interrupt_seconds"]),
      panel("How late CPUs wake a thread", "heatmap", "ogive_hiccup_seconds", ["ogive_hiccup_seconds"], true),
      panel("Free space of Ogive's disks", "lines", "ogive_disk_free_bytes", ["ogive_disk_free_bytes"], true),
    ],
  },
  {
    name: "http",
    title: "HTTP services",
    about: "Requests as OpenTelemetry and Prometheus clients count them, as packets show them, and as checks see them",
    variables: [{ name: "job", label: "job" }],
    panels: [
      panel("Duration (OpenTelemetry)", "heatmap", 'sum(rate(http_server_request_duration_seconds{job=~"$job"}[1m]))', ["http_server_request_duration_seconds"]),
      panel("Requests a second by route", "lines", 'sum by (http_route) (histogram_count(rate(http_server_request_duration_seconds{job=~"$job"}[1m])))', ["http_server_request_duration_seconds"]),
      panel("Requests a second by status", "lines", 'sum by (http_response_status_code) (histogram_count(rate(http_server_request_duration_seconds{job=~"$job"}[1m])))', ["http_server_request_duration_seconds"]),
      panel("Duration of calls to others", "heatmap", 'sum(rate(http_client_request_duration_seconds{job=~"$job"}[1m]))', ["http_client_request_duration_seconds"]),
      panel("Requests in flight", "lines", 'sum by (job) (http_server_active_requests{job=~"$job"})', ["http_server_active_requests"]),
      panel("Duration", "heatmap", 'sum(rate(http_request_duration_seconds{job=~"$job"}[1m]))', ["http_request_duration_seconds", "http_request_duration_seconds_bucket"]),
      panel("Requests a second", "lines", 'sum by (job) (rate(http_requests_total{job=~"$job"}[1m]))', ["http_requests_total"]),
      panel("Failed requests a second", "lines", 'sum by (job) (rate(http_requests_total{job=~"$job", code=~"5.."}[1m]))', ["http_requests_total"]),
      panel("Duration on the wire", "heatmap", 'ogive_wire_total_seconds{protocol=~"http1|http2"}', ['ogive_wire_total_seconds{protocol=~"http1|http2"}']),
      panel("Duration of checks", "heatmap", 'ogive_check_seconds{kind="http", phase="total"}', ['ogive_check_seconds{kind="http"}']),
      panel("Checks that answer", "lines", 'ogive_check_up{kind="http"}', ['ogive_check_up{kind="http"}']),
    ],
  },
  {
    name: "postgresql",
    title: "PostgreSQL",
    about: "Databases as checks and the exporter see them, and statements read off the wire",
    variables: [],
    panels: [
      panel("Duration of checks", "heatmap", 'ogive_check_seconds{kind="postgres", phase="total"}', ['ogive_check_seconds{kind="postgres"}']),
      panel("p99 of each phase of a check", "lines", 'histogram_quantile(0.99, sum by (check, phase) (sum_over_time(ogive_check_seconds{kind="postgres"}[5m])))', ['ogive_check_seconds{kind="postgres"}']),
      panel("Databases that answer", "lines", 'ogive_check_up{kind="postgres"}', ['ogive_check_up{kind="postgres"}']),
      panel("Statements on the wire", "heatmap", 'ogive_wire_total_seconds{protocol="pgsql"}', ['ogive_wire_total_seconds{protocol="pgsql"}']),
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

/** Selectors that are to be looked for, of those whose names are there. */
export function readySelectors(names: ReadonlySet<string>): string[] {
  const needs = READY.flatMap(({ panels }) => panels.flatMap((one) => one.needs));
  return [...new Set(needs.filter((need) => need.includes("{") && names.has(need.slice(0, need.indexOf("{")))))];
}

/** Of `READY` those that have a panel of their own to show; `found` are names of series, and the selectors that have some. */
export function readyBoards(found: ReadonlySet<string>): ReadyBoard[] {
  const there = (one: ReadyPanel): boolean => one.needs.some((need) => found.has(need));
  return READY.flatMap(({ name, title, about, variables, panels }) => {
    const shown = panels.filter(there);
    if (shown.every((one) => one.beside)) return [];
    const placed: Panel[] = shown.map((one, at) => ({ title: one.title, kind: one.kind, queries: [one.query], x: (at % 2) * 6, y: Math.floor(at / 2) * 4, w: 6, h: 4 }));
    const used = variables.filter((one) => (one.match === undefined || found.has(one.match)) && shown.some(({ query }) => query.includes(`$${one.name}`)));
    return [{ about, board: { name, title, range: "1h", variables: used, panels: arranged(placed) } }];
  });
}
