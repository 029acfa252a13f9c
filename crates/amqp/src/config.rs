//! Where messages come from: the tables of a file.

use std::path::PathBuf;

use ogive_outgoing::Files;
use ogive_text::mistake::{self, Mistake};
use serde::Deserialize;

use super::place::ServerAddress;

/// 1 MiB of a file.
const FILE_BYTES_MAX: usize = 1 << 20;
/// 64 queues over one connection: each has a channel, and half a MiB of the 32 in flight.
pub(crate) const QUEUES_MAX: usize = 64;
/// 10,000 messages that are not acknowledged: a tenth of a second at 100,000 a second, ten times what an fsync takes.
pub(crate) const PREFETCH: u16 = 10_000;

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
    /// See [`ServerAddress`], also for the others.
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
    pub fn place(&self) -> ServerAddress {
        ServerAddress {
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
