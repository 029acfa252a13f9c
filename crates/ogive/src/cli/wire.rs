//! `ogive wire`: measures services that nobody instrumented, from what goes over the wire.

mod counters;
mod edges;
mod exchanges;
mod exemplars;
mod export;
mod live;
mod measures;
mod names;
mod rings;
mod role;
mod row;
mod screen;
mod series;
mod services;
mod sinks;
mod summary;
mod table;
mod transport;

use std::io::{self, Read, Write};
use std::process::ExitCode;

use anyhow::Context;
use ogive_wire::operation::{KEPT, Namer, Rules};
use ogive_wire::{Observer, Options, Output, Protocol, file, protocol};

use super::exit::EXIT_USAGE;
use super::terminal::Terminal;
use crate::cli::standard_output::StandardOutput;
use exchanges::Exchanges;
use measures::Measures;
pub(crate) use role::{WireOptions, WireRole, rules};
use summary::Summary;

/// Measures every request and response on the wire, to the nanosecond of its capture.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ogive wire -i eth0                                 a live table
  ogive wire -i eth0 --only 5432 --to http://127.0.0.1:6448
  ogive wire -i eth0 --exchanges --seconds 10        one JSON object per exchange
  ogive wire --pcap trace.pcap                       a table: operation, rate, percentiles, errors, findings
  ogive wire --pcap trace.pcap --exchanges           one JSON object per exchange
  tcpdump -i any -w - port 5432 | ogive wire --pcap -")]
pub(crate) struct Wire {
    /// Read a capture (pcap, pcapng; plain, gzip or zstd); - is standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "interfaces")]
    pcap: Option<String>,
    /// Capture live on this interface. Needs CAP_NET_RAW. Repeatable.
    #[arg(short = 'i', long = "interface", value_name = "INTERFACE")]
    interfaces: Vec<String>,
    /// Capture only packets of this port, filtered in the kernel. Repeatable.
    #[arg(long = "only", value_name = "PORT", requires = "interfaces")]
    only: Vec<u16>,
    /// Threads per interface; the kernel assigns each a share of the connections.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=64))]
    shards: u16,
    /// Stop a live capture after this many seconds.
    #[arg(long, value_name = "N", requires = "interfaces")]
    seconds: Option<u64>,
    /// Send one-second cells to a server or broker, such as http://127.0.0.1:6448.
    #[arg(long, value_name = "URL", requires = "interfaces")]
    to: Option<String>,
    /// Label for every series sent, such as host=web-1, to distinguish observers that send to the same server.
    /// Repeatable.
    #[arg(long = "label", value_name = "NAME=VALUE", requires = "to", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Protocol of a port, such as 6432=pgsql. Repeatable.
    #[arg(long = "port", value_name = "PORT=PROTOCOL", value_parser = role::port)]
    ports: Vec<(u16, &'static Protocol)>,
    /// Look only for this protocol. Repeatable.
    #[arg(long = "protocol", value_name = "PROTOCOL", value_parser = name)]
    protocols: Vec<&'static str>,
    /// Print each exchange as one JSON object per line; times in nanoseconds after the first frame.
    #[arg(long, conflicts_with = "summary")]
    exchanges: bool,
    /// Print totals, per connection and overall: requests = answered + unanswered + discarded + open.
    #[arg(long)]
    summary: bool,
    /// Print the summary as JSON.
    #[arg(long, requires = "summary")]
    json: bool,
    /// Keep the heads of the N slowest exchanges, with secrets masked: printed below the table, and with --to
    /// also sent every second as slow traces and exemplars.
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u16).range(..=100))]
    exemplars: u16,
    /// File with rules that name HTTP operations, one per line: GET /users/*/orders/** orders of a user.
    #[arg(long, value_name = "FILE", value_parser = rules_of)]
    operations: Option<Rules>,
}

fn rules_of(path: &str) -> Result<Rules, String> {
    rules(std::path::Path::new(path))
}

fn name(text: &str) -> Result<&'static str, String> {
    role::known(text).map(|protocol| protocol.name)
}

/// Labels of the observer's series.
const OWN_LABELS: [&str; 14] = [
    "alpn",
    "class",
    "client",
    "head",
    "kind",
    "operation",
    "protocol",
    "reason",
    "server_name",
    "service",
    "side",
    "status",
    "version",
    "why",
];

fn label(text: &str) -> Result<(String, String), String> {
    label_of(text, &OWN_LABELS)
}

/// `NAME=VALUE`, a label of every series of an observer that sets `own` itself.
pub(super) fn label_of(text: &str, own: &[&str]) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    let is_plain = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_plain {
        return Err(format!("{name:?} is no name of a label: letters, digits and _, a letter first"));
    }
    if own.contains(&name) {
        return Err(format!("{name:?} is a label that the observer sets itself"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// Runs the command.
pub(crate) fn run(options: &Wire, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let only = match &options.protocols[..] {
        [] => protocol::Set::default(),
        names => protocol::Set::from_names(names),
    };
    let keeps_heads = options.exemplars > 0;
    let reading = Options { ports: options.ports.clone(), only, keeps_heads, ..Options::default() };
    if !options.interfaces.is_empty() {
        let settings = live::Settings {
            interfaces: options.interfaces.clone(),
            filter_ports: options.only.clone(),
            shards: options.shards,
            seconds: options.seconds,
            to: options.to.clone(),
            labels: options.labels.clone(),
            options: reading,
            rules: options.operations.clone().unwrap_or_default(),
            exemplars: usize::from(options.exemplars),
            show: match (options.exchanges, options.summary) {
                (true, _) => sinks::OutputMode::Exchanges,
                (_, true) => sinks::OutputMode::Summary { as_json: options.json },
                _ => sinks::OutputMode::Table,
            },
        };
        return live::run(&settings, terminal);
    }
    let Some(path) = &options.pcap else {
        eprintln!("ogive: name an interface with -i, or a capture with --pcap FILE (- is standard input)");
        return Ok(ExitCode::from(EXIT_USAGE));
    };
    let input: Box<dyn Read + Send> = match path.as_str() {
        "-" => Box::new(io::stdin()),
        _ => Box::new(std::fs::File::open(path).with_context(|| path.clone())?),
    };
    let mut reader = file::open(input).with_context(|| path.clone())?;
    let mut observer = Observer::new(reading);
    let out = io::BufWriter::new(StandardOutput);
    let is_whole = if options.exchanges {
        let mut exchanges = Exchanges::new(out);
        let is_whole = read(&mut reader, &mut observer, &mut exchanges, Exchanges::start)?;
        exchanges.finish()?;
        is_whole
    } else if options.summary {
        let mut summary = Summary::default();
        let is_whole = read(&mut reader, &mut observer, &mut summary, |_, _| {})?;
        summary.print(out, &observer.totals(), options.json)?;
        is_whole
    } else {
        let namer = Namer::new(options.operations.clone().unwrap_or_default(), KEPT);
        let mut measures = Measures::new(namer, usize::from(options.exemplars));
        let is_whole = read(&mut reader, &mut observer, &mut measures, |_, _| {})?;
        table::print(out, &measures, &observer.totals(), terminal)?;
        is_whole
    };
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(super::exit::EXIT_FINDING) })
}

/// Reads a capture to its end; returns whether it ended properly.
fn read<O: Output>(
    reader: &mut file::Reader<impl Read>,
    observer: &mut Observer,
    output: &mut O,
    start: impl Fn(&mut O, i64),
) -> anyhow::Result<bool> {
    let mut is_first = true;
    let is_whole = loop {
        match reader.next_frame() {
            Ok(Some(frame)) => {
                if std::mem::take(&mut is_first) {
                    start(output, frame.at);
                }
                observer.frame(&frame, output);
            }
            Ok(None) => break true,
            Err(file::Error::Io(error)) => return Err(error).context("reading the capture"),
            Err(error) => {
                // What was read before is shown.
                io::stderr().write_all(format!("ogive: {error}\n").as_bytes())?;
                break false;
            }
        }
    };
    observer.finish(output);
    Ok(is_whole)
}
