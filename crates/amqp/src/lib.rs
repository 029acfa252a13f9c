//! AMQP 0.9.1: batches come from a queue, and go to an exchange, over connections that stay.
//!
//! - `input`: a message is acknowledged when its batch is durable, and not before.
//! - `output`: a batch is sent when the server has confirmed it, and not before; `sender` does so for a broker.
//!
//! Invariants: what the queue gave out and was not acknowledged comes again, and counts once by the (source, sequence) of its batch.
//! Threads: a task for each input and one for each of its queues; the tasks of the AMQP library.
//! What may be in it: connections, queues and exchanges. What may not: how a batch is read (`ogive_protocol`), and any way into a store but
//! the door.
//! Failure: a connection that breaks is made again, after `PAUSE` first and at most `PAUSE_MAX`.
#![forbid(unsafe_code)]

mod input;
mod output;
mod place;
mod room;
mod sender;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ogive_text::mistake::{self, Mistake};
use serde::Deserialize;

use ogive_door::Door;
use ogive_outgoing::Files;
pub use output::{Output, Publisher};
pub use place::Place;
pub use sender::Sender;

/// A broken connection is made again after this, and after twice as long each time.
const PAUSE: Duration = Duration::from_millis(100);
/// 5 s: a server that was restarted is found soon.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// 1 MiB of a file.
const FILE_BYTES_MAX: usize = 1 << 20;
/// 64 queues over one connection: each has a channel, and half a MiB of the 32 in flight.
const QUEUES_MAX: usize = 64;
/// 10,000 messages that are not acknowledged: a tenth of a second at 100,000 a second, ten times what an fsync takes.
const PREFETCH: u16 = 10_000;

/// Where messages come from: the table `[amqp]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Queues that are read.
    #[serde(default)]
    pub input: Vec<Input>,
}

/// Queues that are read over one connection.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// See [`Place`], also for the others.
    url: String,
    user: Option<String>,
    password_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    cert_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    queue: Option<String>,
    /// Several, over one connection.
    #[serde(default)]
    queues: Vec<String>,
    /// Make the queues when they are not there; durable.
    #[serde(default)]
    pub declare: bool,
    /// Messages of each queue that are in flight at once.
    #[serde(default = "prefetch")]
    pub prefetch: u16,
}

const fn prefetch() -> u16 {
    PREFETCH
}

impl Input {
    /// The queues' names, one at least.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.queue.iter().chain(&self.queues).map(String::as_str)
    }

    /// What it is called in messages.
    pub(crate) fn title(&self) -> String {
        let names: Vec<String> = self.names().map(|name| format!("{name:?}")).collect();
        format!("queue {}", names.join(", "))
    }

    fn check(&self) -> Result<(), String> {
        let names: Vec<&str> = self.names().collect();
        let distinct: std::collections::BTreeSet<&str> = names.iter().copied().collect();
        if self.queue.is_some() != self.queues.is_empty() {
            return Err("an input has `queue` with one name, or `queues` with several".into());
        }
        if names.len() > QUEUES_MAX {
            return Err(format!("{} queues in one input; the most is {QUEUES_MAX}", names.len()));
        }
        if distinct.len() < names.len() {
            return Err(format!("{}: a queue is named twice", self.title()));
        }
        if self.prefetch == 0 {
            return Err(format!("{}: prefetch 0 takes no message", self.title()));
        }
        self.place().check().map_err(|sentence| format!("{}: {sentence}", self.title()))
    }

    /// Where it is.
    pub fn place(&self) -> Place {
        Place {
            url: self.url.clone(),
            user: self.user.clone(),
            password_file: self.password_file.clone(),
            ca_file: self.ca_file.clone(),
            cert_file: self.cert_file.clone(),
            key_file: self.key_file.clone(),
        }
    }
}

impl std::fmt::Debug for Input {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The address has a password in it.
        write!(out, "Input({})", self.title())
    }
}

/// A file with the table.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    amqp: Config,
}

impl Config {
    /// Reads a file.
    pub fn read(path: &std::path::Path, files: Files) -> Result<Self, String> {
        let text = mistake::file_text(files.read, path, FILE_BYTES_MAX)?;
        Self::parse(&text).map_err(|error| format!("{}, {error}", path.display()))
    }

    /// Reads the tables of a file.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| Mistake::from_toml(text, &error).to_string())?;
        for input in &file.amqp.input {
            input.check()?;
        }
        Ok(file.amqp)
    }
}

/// The options of `ogive serve`.
#[derive(clap::Args, Clone, Debug, Default)]
#[group(id = "amqp_options")]
pub struct AmqpOptions {
    /// File with [[amqp.input]] tables (TOML): queues of AMQP 0.9.1 from which batches come.
    #[arg(long, value_name = "FILE", env = "OGIVE_AMQP")]
    pub amqp: Option<PathBuf>,
}

/// Queues that can be read.
pub struct Inputs(Vec<Input>, Files);

impl Inputs {
    /// What the options name.
    pub fn open(options: &AmqpOptions, files: Files) -> anyhow::Result<Self> {
        let config = match &options.amqp {
            Some(path) => Config::read(path, files).map_err(anyhow::Error::msg)?,
            None => Config::default(),
        };
        Ok(Self(config.input, files))
    }

    /// Reads them until the server ends.
    pub async fn run(self, door: Arc<Door>) {
        let tasks: Vec<_> =
            self.0.into_iter().map(|config| tokio::spawn(input::run(door.clone(), config, self.1))).collect();
        for task in tasks {
            let _ = task.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_connection_reads_several_queues_and_not_too_many() {
        let of = |count: usize| {
            let names: Vec<String> = (0..count).map(|name| format!("'q{name}'")).collect();
            Config::parse(&format!("[[amqp.input]]\nurl = 'amqp://h'\nqueues = [{}]", names.join(", ")))
        };
        assert_eq!(of(3).unwrap().input[0].names().collect::<Vec<_>>(), ["q0", "q1", "q2"]);
        assert!(of(QUEUES_MAX).is_ok());
        assert!(of(QUEUES_MAX + 1).unwrap_err().contains("the most is 64"));
    }

    #[test]
    fn tables_are_read_and_mistakes_told() {
        let text = "[[amqp.input]]\nurl = 'amqp://u:secret@h:5672/x'\nqueue = 'q'\n\
                    [[amqp.input]]\nurl = 'amqps://h'\nqueue = 'r'\ndeclare = true\nca_file = 'ca.pem'\nprefetch = 7";
        let config = Config::parse(text).unwrap();
        assert_eq!((config.input[0].prefetch, config.input[1].prefetch, config.input[1].declare), (PREFETCH, 7, true));
        assert!(!format!("{config:?}").contains("secret"));
        for (from, to, sentence) in [
            ("queue =", "quueue =", "line 3: unknown field `quueue`"),
            ("amqp://u", "http://u", "queue \"q\": an address is no amqp address"),
            ("amqps://h", "amqp://h", "queue \"r\": certificates are for amqps://"),
            ("ca_file", "key_file", "queue \"r\": a certificate and its key"),
            ("amqp.input", "amqp.output", "line 1: unknown field `output`"),
            ("queue = 'q'", "queue = 'q'\nprefetch = 0", "prefetch 0 takes no message"),
            ("queue = 'q'", "queues = ['a', 'a']", "queue \"a\", \"a\": a queue is named twice"),
            ("queue = 'q'", "queue = 'q'\nqueues = ['a']", "has `queue` with one name, or `queues`"),
            ("queue = 'q'", "declare = true", "has `queue` with one name, or `queues`"),
        ] {
            let found = Config::parse(&text.replacen(from, to, 1)).unwrap_err();
            assert!(found.starts_with(sentence) || found.contains(sentence), "{found}");
        }
    }
}
