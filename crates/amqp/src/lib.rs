//! AMQP 0.9.1: reads batches from queues and publishes them to an exchange, over long-lived connections.
//!
//! - `input`: a message is acknowledged only once its batch is durable.
//! - `output`: a batch counts as sent only once the server has confirmed it; `sender` does so for a broker.
//!
//! Invariants: a message that was delivered but not acknowledged is delivered again, and counts once by the (source,
//! sequence) of its batch.
//! Threads: a task for each input and one for each of its queues; the tasks of the AMQP library.
//! Belongs here: connections, queues and exchanges. Does not belong here: decoding of batches (`ogive_protocol`), and
//! any way into a store but the door.
//! Failure: a broken connection is re-established, after `PAUSE` at first and at most `PAUSE_MAX`.
#![forbid(unsafe_code)]

mod config;
mod input;
mod output;
mod place;
mod room;
mod sender;

use std::path::PathBuf;
use std::sync::Arc;

pub use config::{Config, Input};
use ogive_door::Door;
use ogive_outgoing::Files;
pub use output::{Output, Publisher};
pub use place::ServerAddress;
pub use sender::Sender;

/// The options of `ogive serve`.
#[derive(clap::Args, Clone, Debug, Default)]
#[group(id = "amqp_options")]
pub struct AmqpOptions {
    /// File with [[amqp.input]] tables (TOML): AMQP 0.9.1 queues to read batches from.
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
    use crate::config::{PREFETCH, QUEUES_MAX};

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
    fn tables_are_read_and_mistakes_reported() {
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
