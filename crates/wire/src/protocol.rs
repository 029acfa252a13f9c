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

/// What the first bytes of a side say.
#[derive(Debug, Clone, Copy)]
pub enum Guess {
    /// It is this one.
    Is(&'static Protocol),
    /// More bytes may tell.
    More,
    /// None of the table.
    None,
}

/// Finds the protocol of a connection from the first bytes of one side; `hint` is what its port says.
#[must_use]
pub fn detect(side: Side, bytes: &[u8], hint: Option<&'static Protocol>) -> Guess {
    if bytes.is_empty() {
        return Guess::More;
    }
    let mut likely = None;
    let mut more = false;
    for protocol in hint.into_iter().chain(TABLE) {
        match (protocol.detect)(side, bytes) {
            Detection::Sure => return Guess::Is(protocol),
            Detection::Likely if hint.is_some_and(|hint| hint.name == protocol.name) => return Guess::Is(protocol),
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
