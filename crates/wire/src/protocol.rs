//! The protocols that are read, and which of them a connection speaks.

mod amqp;
mod cql;
pub(crate) mod dns;
mod framed;
mod http1;
mod http2;
mod kafka;
mod line;
mod memcached;
mod mongodb;
mod mysql;
mod nats;
mod postgres;
mod redis;

use crate::decoder::{Detection, Protocol, Side};

/// All protocols over TCP, the surest detections first.
pub const TABLE: &[Protocol] = &[
    http1::PROTOCOL,
    http2::PROTOCOL,
    redis::PROTOCOL,
    postgres::PROTOCOL,
    mysql::PROTOCOL,
    mongodb::PROTOCOL,
    nats::PROTOCOL,
    memcached::PROTOCOL,
    kafka::PROTOCOL,
    cql::PROTOCOL,
    amqp::PROTOCOL,
    dns::PROTOCOL,
];

/// The protocol of this name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Protocol> {
    TABLE.iter().find(|protocol| protocol.name == name)
}

/// The protocol that usually listens on this port.
#[must_use]
pub fn by_port(port: u16) -> Option<&'static Protocol> {
    TABLE.iter().find(|protocol| protocol.ports.contains(&port))
}

/// The result of a guess from the first bytes of a side.
#[derive(Debug, Clone, Copy)]
pub enum Guess {
    /// It is this one.
    Is(&'static Protocol),
    /// More bytes may decide.
    More,
    /// None of the table.
    None,
}

/// A set of protocols of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Set(u32);

const _: () = assert!(TABLE.len() <= 32);

impl Default for Set {
    fn default() -> Self {
        Self(u32::MAX)
    }
}

impl Set {
    /// Those of these names that are in the table.
    #[must_use]
    pub fn from_names(names: &[&str]) -> Self {
        let rows = TABLE.iter().enumerate().filter(|(_, row)| names.contains(&row.name));
        Self(rows.fold(0, |bits, (place, _)| bits | 1 << place))
    }

    /// Whether this one is looked for.
    #[must_use]
    pub fn contains(self, protocol: &Protocol) -> bool {
        self.rows().any(|row| row.name == protocol.name)
    }

    fn rows(self) -> impl Iterator<Item = &'static Protocol> {
        TABLE.iter().enumerate().filter(move |(place, _)| self.0 & 1 << place != 0).map(|(_, row)| row)
    }
}

/// What is known of a connection before its first byte.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hint {
    /// The protocol of its port.
    pub port: Option<&'static Protocol>,
    /// The protocols that are looked for.
    pub only: Set,
    /// Keep the heads of requests.
    pub keeps_heads: bool,
}

/// Finds the protocol of a connection from the first bytes of one side.
#[must_use]
pub fn detect(side: Side, bytes: &[u8], hint: Hint) -> Guess {
    if bytes.is_empty() {
        return Guess::More;
    }
    let mut likely = None;
    let mut more = false;
    let port = hint.port.filter(|protocol| hint.only.contains(protocol));
    for protocol in port.into_iter().chain(hint.only.rows()) {
        match (protocol.detect)(side, bytes) {
            Detection::Sure => return Guess::Is(protocol),
            Detection::Likely if port.is_some_and(|port| port.name == protocol.name) => return Guess::Is(protocol),
            Detection::Likely => likely = likely.or(Some(protocol)),
            Detection::More => more = true,
            Detection::No => {}
        }
    }
    match (likely, more) {
        (_, true) => Guess::More,
        (Some(protocol), false) => Guess::Is(protocol),
        (None, false) => Guess::None,
    }
}
