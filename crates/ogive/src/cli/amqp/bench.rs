//! `ogive amqp bench`: how many messages a second a queue takes with confirms, and a server that reads it stores.
//!
//! Each message is a batch of one delta sample of one of [`SERIES`] series, persistent and confirmed. The server's figure counts from
//! the first message sent to the last one stored, and is only told when exactly as many are accepted as were sent.

use std::process::ExitCode;
use std::time::Duration;

use ogive_export::{Measured, random_source};
use ogive_model::{Kind, METRIC_NAME, SeriesDef, SeriesMeta, Temporality, Tenant, Value};
use ogive_probe::Clock;
use serde_json::json;

use super::To;
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
/// 30 s without a word of a server that is not blocked.
const PATIENCE: Duration = Duration::from_secs(30);

/// See the module.
#[derive(clap::Args, Debug)]
#[group(id = "amqp_bench")]
pub(crate) struct Bench {
    #[command(flatten)]
    to: To,
    /// How many.
    #[arg(long, default_value_t = 1_000_000)]
    messages: u64,
    /// An `ogive serve --amqp` that reads the queue, and that nobody else feeds by AMQP.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// One JSON object instead of text.
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
        let mut publisher = Publisher::new(self.to.output()?, FILES, Some(PATIENCE));
        // The connection is not what is measured.
        if let (_, Some(why)) = publisher.publish(std::iter::empty::<Vec<u8>>(), &|_| {}).await {
            eprintln!("ogive: {why}");
            return Ok(ExitCode::from(EXIT_UNREACHABLE));
        }
        let (source, from) = (random_source(), clock.now());
        let wall_ns = clock.wall();
        let frames = (0..self.messages).map(|sequence| frame(source, sequence, wall_ns));
        let (confirmed, why) = publisher.publish(frames, &|sentence| eprintln!("ogive: {sentence}")).await;
        let seconds = || clock.now().saturating_sub(from) as f64 / 1e9;
        let published = seconds();
        if let Some(why) = why {
            eprintln!("ogive: {why}, after {} messages", thousands(confirmed as u64));
            return Ok(ExitCode::from(EXIT_FINDING));
        }
        self.tell("published", "confirmed", published);
        let Some(server) = server else { return Ok(ExitCode::SUCCESS) };
        let (mut last, mut idle) = (0, 0);
        while last < self.messages && idle < IDLE_TURNS_MAX {
            tokio::time::sleep(TURN).await;
            let now = match accepted(&server) {
                Ok(count) => count - before,
                Err(failure) => return Ok(failure),
            };
            idle = if now == last { idle + 1 } else { 0 };
            last = now;
        }
        let stored = seconds();
        if last != self.messages {
            eprintln!("ogive: the server has {} of {} messages", thousands(last), thousands(self.messages));
            return Ok(ExitCode::from(EXIT_FINDING));
        }
        self.tell("stored", "counted once each", stored);
        Ok(ExitCode::SUCCESS)
    }

    fn tell(&self, what: &str, how: &str, seconds: f64) {
        let rate = self.messages as f64 / seconds;
        if self.json {
            println!("{}", json!({"what": what, "messages": self.messages, "seconds": seconds, "rate": rate}));
        } else {
            let (messages, rate) = (thousands(self.messages), thousands(rate as u64));
            println!("{what}: {messages} messages in {seconds:.2} s, {rate} a second, {how}");
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

/// One message; of one series there is one sample a millisecond.
fn frame(source: ogive_model::SourceId, sequence: u64, wall_ns: i64) -> Vec<u8> {
    let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Delta, unit: String::new(), width_ms: 0 };
    let of = (sequence % SERIES).to_string();
    let series = SeriesDef::new([(METRIC_NAME, "ogive_amqp_bench"), ("series", &of)], meta).expect("these are labels");
    let time_ns = wall_ns + (sequence / SERIES) as i64 * 1_000_000;
    let value = Measured { series, time_ns, value: Value::Float(1.0) };
    Measured::batch(source, sequence, Tenant::default(), vec![value]).encode().expect("it is small")
}
