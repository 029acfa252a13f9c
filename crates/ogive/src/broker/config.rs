//! broker.toml: the listeners under the names of `ogive serve`'s options, the spool, the destinations.
//!
//! Invariants: a file is taken whole or not at all; a key that is not known is a mistake, reported with its line and
//! what was probably meant.
//! Limits: those of `ogive serve -c`'s file, [`DESTINATIONS_MAX`], [`ENDPOINTS_MAX`], [`CONNECTIONS_MAX`],
//! [`REQUEST_BATCHES_MAX`].

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches, Parser};
use ogive_broker::Order;
use ogive_text::mistake::Step::{self, Index, Key};
use ogive_text::mistake::{self, Mistake};
use ogive_text::{duration, size as sizes};
use serde::{Deserialize, Deserializer};

use crate::cli::config_file;
use crate::cli::{serve, web::WebOptions, wire::WireOptions};
use crate::filtering::FilterOptions;
use ogive_checks as checks;
use ogive_door::reload::Marks;
use ogive_http as http;
use ogive_listen as listen;
use ogive_scrape as scrape;

/// 16 clusters: each keeps a segment in memory while it is behind.
const DESTINATIONS_MAX: usize = 16;
/// 64 endpoints of a cluster.
const ENDPOINTS_MAX: usize = 64;
/// 64 batches in flight to a cluster, each with a thread.
const CONNECTIONS_MAX: usize = 64;
/// As many frames as a body may hold.
const REQUEST_BATCHES_MAX: usize = ogive_model::wire::FRAMES_MAX;
/// 1 MiB: 16 of the smallest segments. With less, batches that no destination received within a second would be
/// dropped.
pub(crate) const SPOOL_BYTES_MIN: u64 = 1 << 20;
/// 64 letters for a name that is both a label and a file name.
const NAME_MAX: usize = 64;
/// Tables and keys of a broker that are no options of listeners.
const OWN: [&str; 6] = ["name", "spool", "destination", "check", "filter", "fleet"];

/// The listeners: the names, meanings and environment variables of `ogive serve`.
#[derive(Parser, Clone, Debug)]
#[command(name = "broker", disable_help_flag = true)]
pub(crate) struct Listeners {
    #[arg(long, default_value = "127.0.0.1:6448", env = "OGIVE_LISTEN", value_delimiter = ',', value_parser = serve::address)]
    pub(crate) listen: Vec<SocketAddr>,
    #[arg(long, default_value_t = ogive_model::wire::SERIES_MAX, env = "OGIVE_LIMIT_BATCH_SERIES")]
    pub(crate) limit_batch_series: usize,
    #[command(flatten)]
    pub(crate) web: WebOptions,
    #[command(flatten)]
    pub(crate) otlp: http::OtlpOptions,
    #[command(flatten)]
    pub(crate) lines: listen::Options,
    #[command(flatten)]
    pub(crate) filters: FilterOptions,
    #[command(flatten)]
    pub(crate) scrape: scrape::ScrapeOptions,
    #[cfg(feature = "amqp")]
    #[command(flatten)]
    pub(crate) amqp: ogive_amqp::AmqpOptions,
    #[command(flatten)]
    pub(crate) checks: checks::CheckOptions,
    #[command(flatten)]
    pub(crate) wire: WireOptions,
    #[cfg(feature = "kernel")]
    #[command(flatten)]
    pub(crate) kernel: crate::cli::kernel::KernelOptions,
}

/// The spool.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Spool {
    /// Where it is.
    pub(crate) directory: PathBuf,
    /// Bytes on the disk.
    #[serde(default = "spool_bytes", alias = "bytes_max", deserialize_with = "size")]
    pub(crate) bytes_max: u64,
    /// How long a batch waits for a destination.
    #[serde(default, alias = "age_max", deserialize_with = "age")]
    pub(crate) age_max: Option<Duration>,
    /// Bytes of the last batches that stay in memory.
    #[serde(default = "memory_bytes", alias = "memory_max", deserialize_with = "size")]
    pub(crate) memory_max: u64,
}

/// 10 GiB.
const fn spool_bytes() -> u64 {
    10 << 30
}

/// 16 MiB: some seconds of a busy host, for destinations that are not behind.
const fn memory_bytes() -> u64 {
    16 << 20
}

/// How bodies are packed.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Packing {
    #[default]
    Zstd,
    None,
}

/// A cluster.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Destination {
    /// Its name in figures and gaps.
    pub(crate) name: String,
    /// Its addresses, each of which accepts any batch.
    pub(crate) endpoints: Vec<String>,
    #[serde(default, deserialize_with = "order")]
    pub(crate) order: Order,
    connections: Option<usize>,
    /// Batches in a request over HTTP.
    #[serde(default = "request_batches", alias = "request_batches")]
    pub(crate) request_batches: usize,
    #[serde(default, deserialize_with = "age")]
    timeout: Option<Duration>,
    #[serde(default)]
    pub(crate) packing: Packing,
    #[serde(default, alias = "token_file")]
    pub(crate) token_file: Option<PathBuf>,
    /// The certificate authority of the endpoints, in place of the usual ones.
    #[serde(default, alias = "ca_file")]
    pub(crate) ca_file: Option<PathBuf>,
    /// The broker's client certificate.
    #[serde(default, alias = "cert_file")]
    pub(crate) cert_file: Option<PathBuf>,
    #[serde(default, alias = "key_file")]
    pub(crate) key_file: Option<PathBuf>,
    /// Over AMQP: the exchange, or the default exchange, whose routing key is the queue's name.
    #[serde(default)]
    exchange: Option<String>,
    #[serde(default, alias = "routing_key")]
    routing_key: Option<String>,
    /// Declare the queue if it does not exist.
    #[serde(default)]
    declare: Option<bool>,
    #[serde(default)]
    user: Option<String>,
    #[serde(default, alias = "password_file")]
    password_file: Option<PathBuf>,
}

/// 64: more gain little, and a batch waits for the others of its request.
const fn request_batches() -> usize {
    64
}

impl Destination {
    /// Batches in flight at a time; over AMQP many over each connection.
    pub(crate) fn connections(&self) -> usize {
        // 16: a cluster that responds in 50 ms takes 320 batches a second. 2: one is filled while the other is
        // confirmed.
        self.connections.unwrap_or(if self.is_amqp() { 2 } else { 16 })
    }

    /// Whether batches are published to a queue.
    fn is_amqp(&self) -> bool {
        self.endpoints.iter().any(|endpoint| endpoint.starts_with("amqp://") || endpoint.starts_with("amqps://"))
    }

    /// Where they are, but for the address.
    #[cfg(feature = "amqp")]
    pub(crate) fn queue(&self) -> Option<ogive_amqp::Output> {
        let place = ogive_amqp::ServerAddress {
            url: self.endpoints.first()?.clone(),
            user: self.user.clone(),
            password_file: self.password_file.clone(),
            ca_file: self.ca_file.clone(),
            cert_file: self.cert_file.clone(),
            key_file: self.key_file.clone(),
        };
        self.is_amqp().then(|| ogive_amqp::Output {
            place,
            exchange: self.exchange.clone().unwrap_or_default(),
            routing_key: self.routing_key.clone().unwrap_or_default(),
            declare: self.declare.unwrap_or(false),
            is_transient: false,
        })
    }

    /// The mistakes of a destination that is a queue, or of one that is not and has the keys of one.
    fn queue_mistakes(&self) -> Vec<String> {
        let name = &self.name;
        let keys = [
            ("exchange", self.exchange.is_some()),
            ("routing-key", self.routing_key.is_some()),
            ("declare", self.declare.is_some()),
            ("user", self.user.is_some()),
            ("password-file", self.password_file.is_some()),
        ];
        if !self.is_amqp() {
            let given = keys.iter().filter(|(_, is_given)| *is_given);
            return given.map(|(key, _)| format!("{name:?}: {key} is for amqp:// endpoints")).collect();
        }
        let mut out = Vec::new();
        if !cfg!(feature = "amqp") {
            out.push(format!("{name:?}: this ogive was built without AMQP; build it with --features amqp"));
        }
        if self.routing_key.is_none() {
            out.push(format!("{name:?} needs routing-key, the name of the queue or what the exchange routes by"));
        }
        if self.token_file.is_some() {
            out.push(format!("{name:?}: token-file is for http endpoints; use user and password-file"));
        }
        #[cfg(feature = "amqp")]
        out.extend(self.endpoints.iter().filter_map(|endpoint| {
            let mut place = self.queue()?.place;
            place.url.clone_from(endpoint);
            place.check().err().map(|sentence| format!("{name:?}: {sentence}"))
        }));
        out
    }

    /// The mistakes of this destination alone: the key, the element where it is a list, and a sentence.
    fn mistakes(&self) -> Vec<(&'static str, usize, String)> {
        let Self { name, endpoints, request_batches, cert_file, key_file, .. } = self;
        let mut out = Vec::new();
        let mut wrong = |key, sentence| out.push((key, 0, sentence));
        if let Some(sentence) = no_name(name) {
            wrong("name", sentence);
        }
        if endpoints.is_empty() || endpoints.len() > ENDPOINTS_MAX {
            wrong("endpoints", format!("{name:?} has {} endpoints; give 1 to {ENDPOINTS_MAX}", endpoints.len()));
        }
        let connections = self.connections();
        if !(1..=CONNECTIONS_MAX).contains(&connections) {
            let sentence = format!("{name:?} has {connections} connections; give 1 to {CONNECTIONS_MAX}");
            wrong("connections", sentence);
        }
        if !(1..=REQUEST_BATCHES_MAX).contains(request_batches) {
            let sentence =
                format!("{name:?} has {request_batches} batches in a request; give 1 to {REQUEST_BATCHES_MAX}");
            wrong("request-batches", sentence);
        }
        if cert_file.is_some() != key_file.is_some() {
            let key = if cert_file.is_some() { "cert-file" } else { "key-file" };
            wrong(key, format!("{name:?} needs cert-file and key-file together"));
        }
        self.queue_mistakes().into_iter().for_each(|sentence| wrong("name", sentence));
        let each = endpoints.iter().enumerate();
        out.extend(each.filter_map(|(at, endpoint)| Some(("endpoints", at, self.endpoint_mistake(endpoint)?))));
        out
    }

    fn endpoint_mistake(&self, endpoint: &str) -> Option<String> {
        let (usual, secure) = if self.is_amqp() { ("amqp://", "amqps://") } else { ("http://", "https://") };
        let rest = endpoint.strip_prefix(usual).or_else(|| endpoint.strip_prefix(secure));
        if rest.is_some_and(|rest| rest.contains('@')) {
            // It would appear in the audit of this file.
            return Some(format!("{:?}: a password does not belong in an endpoint; use a file", self.name));
        }
        let is_wrong = rest.is_none_or(|rest| rest.is_empty() || rest.contains(['?', '#', ' ']));
        let like = if self.is_amqp() { "amqps://host:5671/%2f" } else { "https://host:6448" };
        is_wrong.then(|| format!("{endpoint:?} is no endpoint; write it as {like}"))
    }

    /// 30 s unless it is given: a batch of 32 MiB over 10 Mbit/s.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(Duration::from_secs(30))
    }
}

/// Under which server the broker is.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Fleet {
    /// The server, in place of the address with which the broker enrolled.
    pub(crate) url: Option<String>,
    /// Where its credential and the last good configuration are.
    directory: Option<PathBuf>,
    /// What a group's configuration may do beyond measuring, and whether people may watch what comes.
    #[serde(default)]
    pub(crate) allow: Vec<Permission>,
    /// What people may connect to through this broker; nothing when it is left out.
    #[serde(default)]
    pub(crate) connect: Vec<String>,
    /// The certificate authority of the server, in place of the usual ones.
    #[serde(default, alias = "ca_file")]
    pub(crate) ca_file: Option<PathBuf>,
    /// The broker's client certificate.
    #[serde(default, alias = "cert_file")]
    pub(crate) cert_file: Option<PathBuf>,
    #[serde(default, alias = "key_file")]
    pub(crate) key_file: Option<PathBuf>,
}

/// What a group's configuration or the people of the server may do on this machine.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Permission {
    /// Run programs: checks of the kinds `command` and `nagios`.
    Command,
    /// Read files: passwords, tokens, certificates, scripts, lists of targets.
    File,
    /// People: watch the samples that come to the broker.
    Watch,
}

impl Permission {
    /// As it is written.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::File => "file",
            Self::Watch => "watch",
        }
    }
}

impl Fleet {
    /// Where its files are.
    pub(crate) fn directory(&self, spool: &Spool) -> PathBuf {
        self.directory.clone().unwrap_or_else(|| spool.directory.join("fleet"))
    }

    /// How the server is reached.
    pub(crate) fn link(&self) -> ogive_fleet::LinkOptions {
        let identity_files = self.cert_file.clone().zip(self.key_file.clone());
        ogive_fleet::LinkOptions { url: self.url.clone(), ca_file: self.ca_file.clone(), identity_files }
    }
}

#[derive(Deserialize)]
struct File {
    name: Option<String>,
    spool: Spool,
    #[serde(default)]
    destination: Vec<Destination>,
    #[serde(default)]
    check: Vec<checks::Check>,
    fleet: Option<Fleet>,
}

/// A whole broker.toml.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// The broker's name in its own series.
    pub(crate) name: String,
    pub(crate) listeners: Listeners,
    pub(crate) spool: Spool,
    pub(crate) destinations: Vec<Destination>,
    /// The server above it, if there is one.
    pub(crate) fleet: Option<Fleet>,
    /// The checks of the file itself.
    pub(crate) checks: checks::Config,
    /// Every key with its value, to report what changed.
    pub(crate) flat: Vec<(String, String)>,
}

pub(crate) fn size<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let text = String::deserialize(from)?;
    sizes::parse(&text).map_err(serde::de::Error::custom)
}

pub(crate) fn age<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    let read = duration::parse(&text).filter(|age| !age.is_zero());
    read.map(Some).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is no time; give one such as 30s or 7d")))
}

fn order<'de, D: Deserializer<'de>>(from: D) -> Result<Order, D::Error> {
    match String::deserialize(from)?.as_str() {
        "oldest" => Ok(Order::Oldest),
        "newest" => Ok(Order::Newest),
        other => Err(serde::de::Error::custom(format!("{other:?} is no order; give oldest or newest"))),
    }
}

/// Whether the file is a broker's: it has a table that only those have.
pub(crate) fn is_broker(text: &str) -> bool {
    let tables = text.lines().map(str::trim_start);
    tables.into_iter().any(|line| line.starts_with("[spool]") || line.starts_with("[[destination]]"))
}

/// Reads the file at `path`; all its mistakes, one a line.
pub(crate) fn read(path: &Path) -> Result<Config, String> {
    read_marked(path).map(|(config, _)| config)
}

/// Also returns the fingerprints of its file.
pub(super) fn read_marked(path: &Path) -> Result<(Config, Marks), String> {
    let text = config_file::text(path)?;
    let config = parse(&text).map_err(|mistakes| {
        let lines = mistakes.iter().map(|mistake| format!("{}, {mistake}", path.display()));
        lines.collect::<Vec<_>>().join("\n")
    })?;
    let mut marks = Marks::default();
    marks.note(path, text.as_bytes());
    marks.count(config.destinations.len(), false);
    Ok((config, marks))
}

pub(crate) fn parse(text: &str) -> Result<Config, Vec<Mistake>> {
    let command = Listeners::command();
    let entries = config_file::parse_but(text, &command, &OWN)?;
    let file: File = toml::from_str(text).map_err(|error| vec![Mistake::from_toml(text, &error)])?;
    let options = entries.iter().flat_map(config_file::Entry::arguments);
    let arguments = std::iter::once("broker".to_owned()).chain(options);
    let listeners = command.try_get_matches_from(arguments).and_then(|found| Listeners::from_arg_matches(&found));
    let listeners = listeners.map_err(|error| vec![Mistake::at(text, 0, error.to_string().trim().to_owned())])?;
    let name = file.name.clone().unwrap_or_else(host_name);
    check(text, &name, &file)?;
    let File { spool, destination: destinations, check, fleet, .. } = file;
    let checks = checks::Config::new(check).map_err(|clash| vec![clash.mistake(text)])?;
    Ok(Config { name, listeners, spool, destinations, fleet, checks, flat: mistake::flat(text) })
}

fn host_name() -> String {
    let name = crate::cli::read_file(Path::new("/proc/sys/kernel/hostname")).ok();
    let name = name.and_then(|name| String::from_utf8(name).ok()).map(|name| name.trim().to_owned());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "broker".into())
}

/// Checks that serde cannot make.
fn check(text: &str, broker: &str, file: &File) -> Result<(), Vec<Mistake>> {
    let mut mistakes = Vec::new();
    let mut wrong = |path: &[Step<'_>], message: String| mistakes.push(Mistake::at_path(text, path, message));
    if file.spool.bytes_max < SPOOL_BYTES_MIN {
        let message = format!("bytes-max is {} bytes; give {SPOOL_BYTES_MIN} at least", file.spool.bytes_max);
        wrong(&[Key("spool"), Key("bytes-max")], message);
    }
    if let Some(sentence) = no_name(broker) {
        wrong(&[Key("name")], sentence);
    }
    if file.destination.is_empty() || file.destination.len() > DESTINATIONS_MAX {
        let message = format!("there are {} destinations; give 1 to {DESTINATIONS_MAX}", file.destination.len());
        wrong(&[Key("destination"), Index(DESTINATIONS_MAX)], message);
    }
    if let Some(fleet) = &file.fleet {
        if fleet.cert_file.is_some() != fleet.key_file.is_some() {
            wrong(&[Key("fleet")], "cert-file and key-file are given together".into());
        }
        let is_url = |url: &str| url.starts_with("http://") || url.starts_with("https://");
        if let Some(url) = fleet.url.as_ref().filter(|url| !is_url(url)) {
            wrong(&[Key("fleet"), Key("url")], format!("{url:?} is no address of a server; write https://host:6448"));
        }
        if let Err((index, sentence)) = ogive_fleet::Reachable::parse(&fleet.connect) {
            wrong(&[Key("fleet"), Key("connect"), Index(index)], sentence);
        }
    }
    for (index, check) in file.check.iter().enumerate() {
        if let Err(sentence) = check.runs_alone() {
            wrong(&[Key("check"), Index(index), Key("brokers")], sentence);
        }
    }
    let mut names = BTreeSet::new();
    for (index, destination) in file.destination.iter().enumerate() {
        if !names.insert(&destination.name) {
            let message = format!("two destinations are named {:?}", destination.name);
            wrong(&[Key("destination"), Index(index), Key("name")], message);
        }
        for (key, element, sentence) in destination.mistakes() {
            wrong(&[Key("destination"), Index(index), Key(key), Index(element)], sentence);
        }
    }
    if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
}

/// What is wrong with a name that is both a label and a file name.
fn no_name(name: &str) -> Option<String> {
    let letters = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let is_wrong = name.is_empty() || name.len() > NAME_MAX || !name.chars().all(letters) || name.starts_with('.');
    is_wrong.then(|| format!("{name:?} is no name; use 1 to {NAME_MAX} letters, digits and -_."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutations::mutations;

    const WHOLE: &str = r#"
name = "edge-1"
listen = ["127.0.0.1:0"]
statsd = "udp:127.0.0.1:0"

[spool]
directory = "/tmp/spool"
bytes-max = "1GiB"
age_max = "7d"

[[destination]]
name = "dc1"
endpoints = ["http://a:6448", "https://b:6448"]
order = "newest"
connections = 2
timeout = "5s"

[[destination]]
name = "dc2"
endpoints = ["http://c:6448"]
packing = "none"
"#;

    #[test]
    fn a_whole_file_is_read() {
        let config = parse(WHOLE).unwrap();
        assert_eq!((config.name.as_str(), config.spool.bytes_max), ("edge-1", 1 << 30));
        assert_eq!(config.spool.age_max, Some(Duration::from_secs(7 * 86_400)));
        let [one, two] = &config.destinations[..] else { panic!("{:?}", config.destinations) };
        assert_eq!((one.order, one.connections(), one.timeout()), (Order::Newest, 2, Duration::from_secs(5)));
        assert_eq!((two.order, two.connections(), two.packing), (Order::Oldest, 16, Packing::None));
        assert_eq!(config.listeners.lines.statsd.len(), 1);
        assert!(config.flat.contains(&("spool.bytes-max".into(), "\"1GiB\"".into())), "{:?}", config.flat);
        assert!(config.flat.contains(&("destination.dc1.order".into(), "\"newest\"".into())), "{:?}", config.flat);
        assert!(is_broker(WHOLE) && !is_broker("data = 'x'"));
    }

    #[test]
    fn mistakes_have_their_line_and_what_was_meant() {
        let check = |from: &str, to: &str, expected: &[&str]| {
            let text = WHOLE.replacen(from, to, 1);
            assert_ne!(text, WHOLE);
            let said: Vec<String> = parse(&text).unwrap_err().iter().map(Mistake::to_string).collect();
            let said = said.join("\n");
            for word in expected {
                assert!(said.contains(word), "{word:?} is not in {said:?}");
            }
        };
        check("order =", "ordre =", &["line 14", "ordre", "did you mean \"order\""]);
        check("bytes-max", "byte-max", &["line 8", "bytes-max"]);
        check("statsd =", "statd =", &["line 4", "did you mean \"statsd\""]);
        check("[spool]", "[spol]", &["line 6", "did you mean \"spool\""]);
        check("[[destination]]", "[[destnation]]", &["line 11", "did you mean \"destination\""]);
        check("\"newest\"", "\"new\"", &["line 14", "oldest or newest"]);
        check("1GiB", "much", &["line 8", "no number of bytes"]);
        check("1GiB", "1023KiB", &["line 8", "bytes-max is 1047552 bytes; give 1048576 at least"]);
        check("7d", "soon", &["line 9", "no time"]);
        check("\"dc2\"", "\"dc1\"", &["two destinations"]);
        check("\"dc2\"", "\"d/2\"", &["line 19", "no name"]);
        check("http://c:6448", "c:6448", &["line 20", "no endpoint"]);
        check("connections = 2", "connections = 0", &["connections"]);
        check("connections = 2", "request-batches = 257", &["257 batches in a request"]);
        check("directory = \"/tmp/spool\"", "", &["directory"]);
        check("timeout = \"5s\"", "cert-file = 'x'", &["key-file"]);
        check("udp:127.0.0.1:0", "127.0.0.1", &["line 4", "statsd"]);
    }

    /// Two checks of one name passed `ogive config check`, and a reload, and only the next start failed. The file is
    /// refused where it is read.
    #[test]
    fn checks_that_cannot_be_together_are_a_mistake_of_the_file() {
        let check = |name: &str| format!("[[check]]\nname = \"{name}\"\nkind = \"tcp\"\ntarget = \"h:1\"\n");
        assert!(parse(&format!("{WHOLE}{}{}", check("a"), check("b"))).is_ok());
        let said = parse(&format!("{WHOLE}{}{}", check("a"), check("a"))).unwrap_err();
        let said: Vec<String> = said.iter().map(Mistake::to_string).collect();
        assert_eq!(said, ["line 26: check \"a\" is there twice; series of both would be the same"]);
    }

    #[test]
    fn queues_are_destinations() {
        let queue =
            "[[destination]]\nname = \"q\"\nendpoints = [\"amqps://h:5671/%2f\"]\nrouting-key = \"k\"\nuser = \"u\"\n";
        let said = |queue: &str| {
            let found = parse(&format!("{WHOLE}{queue}"));
            found.map(drop).map_err(|all| all.iter().map(Mistake::to_string).collect::<Vec<_>>().join("\n"))
        };
        if !cfg!(feature = "amqp") {
            assert!(said(queue).unwrap_err().contains("line 23: \"q\": this ogive was built without AMQP"));
            return;
        }
        assert_eq!(said(queue), Ok(()));
        assert_eq!(parse(&format!("{WHOLE}{queue}")).unwrap().destinations[2].connections(), 2);
        for (from, to, words) in [
            ("routing-key = \"k\"\n", "", "needs routing-key"),
            ("amqps://h", "amqps://u:p@h", "a password does not belong in an endpoint"),
            (
                "\"amqps://h:5671/%2f\"",
                "\"amqps://h\", \"http://i\"",
                "\"http://i\" is no endpoint; write it as amqps://",
            ),
            ("\"amqps://h:5671/%2f\"", "\"http://h\"", "routing-key is for amqp:// endpoints"),
            ("user = \"u\"", "token-file = \"t\"", "use user and password-file"),
            ("amqps://h:5671/%2f\"]", "amqp://h\"]\nca-file = \"c\"", "certificates are for amqps://"),
        ] {
            let changed = queue.replacen(from, to, 1);
            assert_ne!(changed, queue);
            let found = said(&changed).unwrap_err();
            assert!(found.contains(words), "{words:?}: {found}");
        }
    }

    #[test]
    fn a_changed_file_is_read_or_refused() {
        let broker = include_bytes!("../../../../packaging/broker.toml");
        assert!(parse(std::str::from_utf8(broker).unwrap()).is_ok());
        mutations(broker, 300, 5, b" -:[]{},.'\"#&*!|>=\n\tax0e\xff", |bytes| {
            if let Ok(text) = std::str::from_utf8(bytes) {
                let _ = parse(text);
            }
        });
    }
}
