//! Options of the line protocols.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ogive_irondb::httptrap::{TrapCheck, TrapChecks};
use ogive_model::Tenant;
use ogive_protocol::lines::Names;

use super::address::Address;
use super::shared_key::SharedKey;

/// Who else may send: StatsD, Graphite, InfluxDB and HTTPTrap clients.
#[derive(clap::Args, Clone, Debug)]
#[group(id = "lines")]
pub struct Options {
    /// Accept StatsD and DogStatsD here: HOST:PORT (UDP and TCP), udp:HOST:PORT, tcp:HOST:PORT, unix:PATH
    /// (datagrams) or unix-stream:PATH.
    #[arg(long, value_name = "ADDRESS", env = "OGIVE_STATSD", value_delimiter = ',')]
    pub statsd: Vec<Address>,
    /// Accept Graphite's plaintext protocol here; addresses as for --statsd.
    #[arg(long, value_name = "ADDRESS", env = "OGIVE_GRAPHITE", value_delimiter = ',')]
    pub graphite: Vec<Address>,
    /// Accept syslog here (RFC 5424 and 3164) and store it as lines; addresses as for --statsd, and tls:HOST:PORT
    /// with the certificate from --web-config.
    #[arg(long, value_name = "ADDRESS", env = "OGIVE_SYSLOG", value_delimiter = ',')]
    pub syslog: Vec<Address>,
    /// Accept GELF here (UDP with chunks and compression, TCP) and store it as lines; addresses as for --syslog.
    #[arg(long, value_name = "ADDRESS", env = "OGIVE_GELF", value_delimiter = ',')]
    pub gelf: Vec<Address>,
    /// Accept Beats and Logstash's lumberjack output here and store events as lines, acknowledged when they are
    /// durable: HOST:PORT (TCP), tls:HOST:PORT with the certificate from --web-config, or unix-stream:PATH.
    #[arg(long, value_name = "ADDRESS", env = "OGIVE_BEATS", value_delimiter = ',')]
    pub beats: Vec<Address>,
    /// Accept Fluentd's and Fluent Bit's Forward protocol here (also Docker's fluentd log driver) and store entries as
    /// lines, acknowledged when they are durable; addresses as for --beats.
    #[arg(long, value_name = "ADDRESS", env = "OGIVE_FLUENT", value_delimiter = ',')]
    pub fluent: Vec<Address>,
    /// Key that clients of --fluent have to know (shared_key of Fluentd, Shared_Key of Fluent Bit).
    #[arg(long, value_name = "KEY", env = "OGIVE_FLUENT_SHARED_KEY", hide_env_values = true)]
    pub fluent_shared_key: Option<SharedKey>,
    /// Accept SNMP notifications here (traps of v1, v2c and v3, informs of v2c and v3) and store them as lines; informs
    /// are answered when they are durable: HOST:PORT (UDP; the usual port is 162).
    #[arg(long, value_name = "ADDRESS", env = "OGIVE_SNMP_TRAPS", value_delimiter = ',')]
    pub snmp_traps: Vec<Address>,
    /// TOML file with the communities and users that --snmp-traps takes; without it every community and no user.
    #[arg(long, value_name = "FILE", env = "OGIVE_SNMP_TRAPS_LOGINS")]
    pub snmp_traps_logins: Option<PathBuf>,
    /// Names from StatsD, Graphite and InfluxDB: underscore turns a.b-c into a_b_c; utf8 keeps it (PromQL then
    /// needs quotes: {"a.b-c"}).
    #[arg(long, value_name = "RULE", default_value = "underscore", env = "OGIVE_LINE_NAMES", value_parser = names)]
    pub line_names: Names,
    /// Tenant for data received by StatsD, Graphite, syslog, GELF, Beats, Fluent Forward and SNMP notifications.
    #[arg(long, value_name = "NAME", default_value = Tenant::DEFAULT_NAME, env = "OGIVE_LINE_TENANT", value_parser = tenant)]
    pub line_tenant: Tenant,
    /// Accept comma-separated StatsD values (1,2|h), which hot-shots sends for arrays.
    #[arg(long, env = "OGIVE_STATSD_COMMA_LISTS")]
    pub statsd_comma_lists: bool,
    /// Read -5|g as the value -5, as DogStatsD does, instead of "5 less".
    #[arg(long, env = "OGIVE_STATSD_SIGNED_GAUGES")]
    pub statsd_signed_gauges: bool,
    /// Live StatsD series; further ones fold into ogive_overflow.
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, env = "OGIVE_STATSD_SERIES")]
    pub statsd_series: usize,
    /// Open connections per StatsD, Graphite, syslog, GELF, Beats or Fluent Forward address.
    #[arg(long, value_name = "COUNT", default_value_t = 1_024, env = "OGIVE_LINE_CONNECTIONS")]
    pub line_connections: usize,
    /// Seconds after which an idle connection is closed.
    #[arg(long, value_name = "SECONDS", default_value_t = 600, env = "OGIVE_LINE_IDLE_S", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub line_idle_s: u64,
    /// Receive buffer of a datagram socket; the kernel limits it to net.core.rmem_max.
    #[arg(long, value_name = "BYTES", default_value = "8MiB", env = "OGIVE_LINE_RECEIVE_BUFFER", value_parser = ogive_text::size::parse)]
    pub line_receive_buffer: u64,
    /// Label for the database (version 1) or bucket (version 2) that InfluxDB clients write to; empty for none.
    #[arg(long, value_name = "NAME", default_value = "db", env = "OGIVE_INFLUX_DB_LABEL")]
    pub influx_db_label: String,
    /// Serve IRONdb's HTTP API at this address (its usual port is 8112). Repeatable.
    #[arg(long, value_name = "ADDRESS", env = "OGIVE_IRONDB", value_delimiter = ',')]
    pub irondb: Vec<SocketAddr>,
    /// Accept HTTPTrap metrics of this check with this secret; a tenant before the slash owns them.
    /// Repeatable.
    #[arg(
        long,
        value_name = "[TENANT/]UUID:SECRET",
        env = "OGIVE_HTTPTRAP",
        value_delimiter = ',',
        hide_env_values = true
    )]
    pub httptrap: Vec<TrapCheck>,
    /// Accept HTTPTrap metrics of every other check, with any secret.
    #[arg(long, env = "OGIVE_HTTPTRAP_ANY")]
    pub httptrap_any: bool,
    /// Metrics of one HTTPTrap check; further ones are refused and counted.
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, env = "OGIVE_HTTPTRAP_NAMES")]
    pub httptrap_names: usize,
}

impl Options {
    /// The checks of HTTPTrap.
    #[must_use]
    pub fn trap_checks(&self) -> TrapChecks {
        TrapChecks::new(self.httptrap.clone(), self.httptrap_any, self.httptrap_names)
    }

    pub(super) fn idle(&self) -> Duration {
        Duration::from_secs(self.line_idle_s)
    }
}

fn names(text: &str) -> Result<Names, String> {
    match text {
        "underscore" => Ok(Names::Underscore),
        "utf8" => Ok(Names::Utf8),
        _ => Err("give underscore or utf8".into()),
    }
}

fn tenant(text: &str) -> Result<Tenant, String> {
    Tenant::new(text).map_err(|error| error.to_string())
}
