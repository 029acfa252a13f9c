//! What several tests share: a sink that keeps everything, conversations, truth, and real servers.

#![allow(dead_code, reason = "each test uses a part")]

pub(crate) mod conversations;
pub(crate) mod cql;
pub(crate) mod jars;
pub(crate) mod live;
pub(crate) mod packets;
pub(crate) mod postgres;
pub(crate) mod truth;

use ogive_wire::{Connection, Exchange, Reason, Side, Sink, Unanswered, protocol};

/// Keeps what becomes of exchanges.
#[derive(Debug, Default)]
pub(crate) struct ExchangeLog {
    pub(crate) answered: Vec<Exchange>,
    pub(crate) unanswered: Vec<(Exchange, Unanswered)>,
    pub(crate) discarded: Vec<(Exchange, Reason)>,
}

impl Sink for ExchangeLog {
    fn answered(&mut self, exchange: &Exchange) {
        self.answered.push(exchange.clone());
    }

    fn unanswered(&mut self, exchange: &Exchange, why: Unanswered) {
        self.unanswered.push((exchange.clone(), why));
    }

    fn discarded(&mut self, exchange: &Exchange, reason: Reason) {
        self.discarded.push((exchange.clone(), reason));
    }
}

/// A new connection of a protocol of the table.
pub(crate) fn connection(name: &str) -> Connection {
    let protocol = protocol::by_name(name).expect("the protocol is in the table");
    Connection::new(protocol.name, (protocol.new)())
}

/// Feeds pieces in turn, one a nanosecond from 1 on, each acknowledging everything before it.
pub(crate) fn feed(connection: &mut Connection, pieces: &[(Side, &[u8])]) -> ExchangeLog {
    let mut kept = ExchangeLog::default();
    for (index, (side, bytes)) in pieces.iter().enumerate() {
        let acked = connection.received(side.other());
        connection.data(*side, bytes, index as i64 + 1, Some(acked), &mut kept);
    }
    kept
}
