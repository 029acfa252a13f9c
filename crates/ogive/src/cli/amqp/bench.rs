//! `ogive amqp bench`: how many messages a second a queue takes with confirms, and a server that reads it stores.
//!
//! Each message is a batch of delta samples of [`SERIES`] series, persistent and confirmed unless they are transient;
//! several publishers share one connection, each with a channel and a source of its own. The server's figure counts
//! from the first message sent to the last one stored, and is only printed when exactly as many samples are accepted as
//! were sent.

use std::process::ExitCode;
use std::time::Duration;

use ogive_export::{Measured, random_source};
use ogive_model::{Kind, METRIC_NAME, MonoNs, Ms, SeriesDef, SeriesMeta, Temporality, Tenant, Value, WallNs};
use ogive_probe::Clock;
use serde_json::json;

use super::target::{AmqpTarget, PATIENCE};
use crate::cli::client::{EXIT_UNREACHABLE, Server};
use crate::cli::exit::EXIT_FINDING;
use crate::cli::files::FILES;
use crate::cli::format::thousands;
use ogive_amqp::Publisher;

/// 1,000 series, as of a host's services.
const SERIES: u64 = 1_000;
/// Between two questions to the server.
const TURN: Duration = Duration::from_millis(100);
/// A server that stored nothing more for this long will not.
const IDLE_TURNS_MAX: u32 = 300;

/// Measures how fast batches pass through an AMQP server.
#[derive(clap::Args, Debug)]
#[group(id = "amqp_bench")]
pub(crate) struct Bench {
    #[command(flatten)]
    to: AmqpTarget,
    /// Number of batches.
    #[arg(long, default_value_t = 1_000_000)]
    messages: u64,
    /// Samples per batch.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    samples: u64,
    /// Number of queues, named QUEUE-1, QUEUE-2 and so on when there are several.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=64))]
    queues: u64,
    /// Publishers sharing the one connection, assigned to the queues in turn; by default one per queue.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=64))]
    publishers: Option<u64>,
    /// Publish without persistence and confirmation.
    #[arg(long)]
    transient: bool,
    /// URL of an `ogive serve` that reads the queue and receives nothing else by AMQP.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

impl Bench {
    pub(super) async fn run(&self) -> anyhow::Result<ExitCode> {
        let clock = Clock::global();
        let server = self.server.as_deref().map(Server::at);
        let before = match &server {
            Some(server) => match accepted(server) {
                Ok(count) => count,
                Err(failure) => return Ok(failure),
            },
            None => 0,
        };
        let mut publishers = match self.connect().await {
            Ok(publishers) => publishers,
            Err(why) => {
                eprintln!("ogive: {why}");
                return Ok(ExitCode::from(EXIT_UNREACHABLE));
            }
        };
        let (from, wall) = (MonoNs(clock.now()), WallNs(clock.wall()));
        let seconds = || MonoNs(clock.now()).since(from).0 as f64 / 1e9;
        let mut tasks = tokio::task::JoinSet::new();
        for (number, mut publisher) in publishers.drain(..).enumerate() {
            let frames = self.frames(number as u64, wall);
            tasks.spawn(async move { publisher.publish(frames, &|sentence| eprintln!("ogive: {sentence}")).await });
        }
        let (mut confirmed, mut failed) = (0, None);
        while let Some(ended) = tasks.join_next().await {
            let (count, why) = ended?;
            confirmed += count as u64;
            failed = failed.or(why);
        }
        let published = seconds();
        if let Some(why) = failed {
            eprintln!("ogive: {why}, after {} messages", thousands(confirmed));
            return Ok(ExitCode::from(EXIT_FINDING));
        }
        self.print("published", if self.transient { "not confirmed" } else { "confirmed" }, published);
        let Some(server) = server else { return Ok(ExitCode::SUCCESS) };
        let (mut last, mut idle) = (0, 0);
        while last < self.messages * self.samples && idle < IDLE_TURNS_MAX {
            tokio::time::sleep(TURN).await;
            let now = match accepted(&server) {
                Ok(count) => count - before,
                Err(failure) => return Ok(failure),
            };
            idle = if now == last { idle + 1 } else { 0 };
            last = now;
        }
        let stored = seconds();
        if last != self.messages * self.samples {
            let all = thousands(self.messages * self.samples);
            eprintln!("ogive: the server has {} of {all} samples", thousands(last));
            return Ok(ExitCode::from(EXIT_FINDING));
        }
        self.print("stored", "counted once each", stored);
        Ok(ExitCode::SUCCESS)
    }

    fn publishers(&self) -> u64 {
        self.publishers.unwrap_or(self.queues)
    }

    /// Connects the publishers: connecting is not measured.
    async fn connect(&self) -> Result<Vec<Publisher>, String> {
        let mut output = self.to.output().map_err(|error| format!("{error:#}"))?;
        let base = output.routing_key.clone();
        let queue = |number: u64| match self.queues {
            1 => base.clone(),
            queues => format!("{base}-{}", number % queues + 1),
        };
        (output.routing_key, output.is_transient) = (queue(0), self.transient);
        let mut first = Publisher::new(output, FILES, PATIENCE);
        if let (_, Some(why)) = first.publish(std::iter::empty::<Vec<u8>>(), &|_| {}).await {
            return Err(why);
        }
        let mut publishers = Vec::new();
        for number in 1..self.publishers() {
            publishers.push(first.beside(queue(number)).await?);
        }
        publishers.push(first);
        publishers.rotate_right(1);
        Ok(publishers)
    }

    /// The messages of one publisher; if they do not divide evenly, the first publishers have one more.
    fn frames(&self, publisher: u64, first: WallNs) -> impl Iterator<Item = Vec<u8>> + Send + use<> {
        let (publishers, samples, source) = (self.publishers(), self.samples, random_source());
        let count = self.messages / publishers + u64::from(publisher < self.messages % publishers);
        (0..count).map(move |sequence| {
            let of = |at: u64| (sequence * samples + at) * publishers + publisher;
            let values = (0..samples).map(|at| measured(of(at), first)).collect();
            Measured::batch(source, sequence, Tenant::default(), values)
                .encode()
                .expect("it is below the largest batch")
        })
    }

    fn print(&self, what: &str, how: &str, seconds: f64) {
        let rate = self.messages as f64 / seconds;
        let samples = rate * self.samples as f64;
        if self.json {
            println!(
                "{}",
                json!({"what": what, "messages": self.messages, "seconds": seconds, "rate": rate, "samples_rate": samples})
            );
        } else {
            let (messages, rate) = (thousands(self.messages), thousands(rate as u64));
            let samples =
                if self.samples > 1 { format!(" ({} samples)", thousands(samples as u64)) } else { String::new() };
            println!("{what}: {messages} messages in {seconds:.2} s, {rate} a second{samples}, {how}");
        }
    }
}

/// How many samples the server has accepted by AMQP.
fn accepted(server: &Server) -> Result<u64, ExitCode> {
    let body = server.get("/v1/status", &[]).map_err(|failure| failure.report())?;
    let status: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
    // A protocol that was not used yet has no figures.
    Ok(status["amqp_accepted_total"].as_u64().unwrap_or(0))
}

/// A sample; each series has one in a millisecond.
fn measured(number: u64, first: WallNs) -> Measured {
    let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Delta, unit: String::new(), width_ms: 0 };
    let of = (number % SERIES).to_string();
    let series = SeriesDef::new([(METRIC_NAME, "ogive_amqp_bench"), ("series", &of)], meta).expect("these are labels");
    let time = first + Ms((number / SERIES) as i64).to_ns();
    Measured { series, time, value: Value::Float(1.0) }
}
