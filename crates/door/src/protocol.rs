//! The protocols by which samples arrive, each with its own ledger.

/// How samples arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// `POST /v1/batch`.
    Batch,
    /// Prometheus remote write, 1.0 and 2.0.
    RemoteWrite,
    /// OpenTelemetry metrics, over HTTP or gRPC.
    Otlp,
    /// OpenTelemetry logs.
    OtlpLogs,
    /// OpenTelemetry traces.
    OtlpTraces,
    /// StatsD and DogStatsD.
    Statsd,
    /// Graphite's plain text.
    Graphite,
    /// Syslog.
    Syslog,
    /// Graylog's extended log format.
    Gelf,
    /// Beats and Logstash's lumberjack.
    Beats,
    /// The Forward protocol of Fluentd and Fluent Bit.
    Fluent,
    /// Notifications of SNMP.
    SnmpTraps,
    /// Journals of systemd.
    Journald,
    /// InfluxDB's line protocol.
    Influx,
    /// HTTPTrap, of Circonus' clients.
    Httptrap,
    /// Writers of IRONdb.
    Irondb,
    /// Scraped by the server.
    Scrape,
    /// Results of scheduled checks.
    Check,
    /// Messages of AMQP queues.
    Amqp,
    /// Cells that the server itself computes from samples.
    Quantizer,
    /// Findings of the detectors.
    Detect,
    /// Results of rules: recorded series and the states of alerts.
    Rules,
}

impl Protocol {
    /// Every one, in the order of the ledgers.
    pub const ALL: [Self; 22] = [
        Self::Batch,
        Self::RemoteWrite,
        Self::Otlp,
        Self::OtlpLogs,
        Self::OtlpTraces,
        Self::Statsd,
        Self::Graphite,
        Self::Syslog,
        Self::Gelf,
        Self::Beats,
        Self::Fluent,
        Self::SnmpTraps,
        Self::Journald,
        Self::Influx,
        Self::Httptrap,
        Self::Irondb,
        Self::Scrape,
        Self::Check,
        Self::Amqp,
        Self::Quantizer,
        Self::Detect,
        Self::Rules,
    ];

    /// The value of the label `protocol`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::RemoteWrite => "remote_write",
            Self::Otlp => "otlp",
            Self::OtlpLogs => "otlp_logs",
            Self::OtlpTraces => "otlp_traces",
            Self::Statsd => "statsd",
            Self::Graphite => "graphite",
            Self::Syslog => "syslog",
            Self::Gelf => "gelf",
            Self::Beats => "beats",
            Self::Fluent => "fluent",
            Self::SnmpTraps => "snmp_traps",
            Self::Journald => "journald",
            Self::Influx => "influx",
            Self::Httptrap => "httptrap",
            Self::Irondb => "irondb",
            Self::Scrape => "scrape",
            Self::Check => "check",
            Self::Amqp => "amqp",
            Self::Quantizer => "quantizer",
            Self::Detect => "detect",
            Self::Rules => "rules",
        }
    }
}
