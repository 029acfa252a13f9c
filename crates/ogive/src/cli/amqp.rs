//! `ogive amqp`: batches from a file or a pipe to a queue, each sent when the server has confirmed it; and how many a
//! second there may be.

mod bench;
mod target;

use std::io::{BufRead, BufReader, Read, stdin};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;

use super::exit::EXIT_FINDING;
use super::files::FILES;
use ogive_amqp::{Output, Publisher};
use ogive_protocol::batch_message::batch_from_message;
use target::{AmqpTarget, PATIENCE};

/// 10,000 batches are in memory at once,
const CHUNK: usize = 10_000;
/// or 64 MiB of them.
const CHUNK_BYTES: usize = 64 << 20;
/// 32 MiB of a line: the largest batch.
const LINE_BYTES_MAX: u64 = 32 << 20;
/// A lost server is tried again every second.
const PAUSE: Duration = Duration::from_secs(1);

/// Sends batches to an AMQP 0.9.1 server.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Amqp {
    /// Publishes batches, one JSON object per line (docs/http.md, POST /v1/batch), persistent and confirmed;
    /// waits while the server is away or blocked.
    Publish {
        #[command(flatten)]
        to: AmqpTarget,
        /// The file; standard input without one.
        file: Option<PathBuf>,
    },
    /// Publishes generated batches as fast as the server confirms them and prints the rate; with --server also
    /// the rate at which an `ogive serve` that reads the queue stores them.
    Bench(bench::Bench),
}

/// Runs the command.
pub(crate) fn run(command: &Amqp) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    match command {
        Amqp::Publish { to, file } => {
            let input: Box<dyn Read> = match file {
                Some(path) => {
                    Box::new(std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?)
                }
                None => Box::new(stdin()),
            };
            runtime.block_on(publish(to.output()?, BufReader::new(input)))
        }
        Amqp::Bench(bench) => runtime.block_on(bench.run()),
    }
}

async fn publish(output: Output, mut input: BufReader<Box<dyn Read>>) -> anyhow::Result<ExitCode> {
    let mut publisher = Publisher::new(output, FILES, PATIENCE);
    let (mut line_number, mut published) = (0, 0_u64);
    loop {
        let (mut frames, mut bytes) = (Vec::new(), 0);
        while frames.len() < CHUNK && bytes < CHUNK_BYTES {
            let mut line = Vec::new();
            if input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            line_number += 1;
            if line.trim_ascii().is_empty() {
                continue;
            }
            match batch_from_message(Some("application/json"), line) {
                Ok((batch, frame)) => {
                    if let Some(reason) = batch.left_out().next() {
                        let word = reason.as_str();
                        eprintln!(
                            "ogive: line {line_number}: a sample breaks a rule ({word}); {published} batches before it are published"
                        );
                        return Ok(ExitCode::from(EXIT_FINDING));
                    }
                    bytes += frame.len();
                    frames.push(frame);
                }
                Err(error) => {
                    eprintln!("ogive: line {line_number}: {error}; {published} batches before it are published");
                    return Ok(ExitCode::from(EXIT_FINDING));
                }
            }
        }
        if frames.is_empty() {
            break;
        }
        published += frames.len() as u64;
        all(&mut publisher, &frames).await;
    }
    println!("{published}");
    Ok(ExitCode::SUCCESS)
}

/// Publishes until all are confirmed.
async fn all(publisher: &mut Publisher, frames: &[Vec<u8>]) {
    let mut from = 0;
    while from < frames.len() {
        let (confirmed, why) = publisher.publish(frames[from..].iter(), &|_| {}).await;
        from += confirmed;
        if let Some(why) = why {
            eprintln!("ogive: {why}; again in {} s", PAUSE.as_secs());
            tokio::time::sleep(PAUSE).await;
        }
    }
}
