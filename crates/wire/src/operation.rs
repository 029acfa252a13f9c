//! Names of operations, bounded: what was asked for with its values folded away.

pub(crate) mod statement;
pub(crate) mod template;

use crate::exchange::Exchange;

/// The operation that `exchange` counts under: a URL's template with its method, a statement's fingerprint, or what the protocol calls the
/// request, with its topic, table or subject where it names one. It holds no value that a user typed.
#[must_use]
pub fn name(exchange: &Exchange) -> String {
    let op = exchange.op.as_str();
    match (exchange.protocol, exchange.detail.as_str()) {
        ("http1" | "http2" | "grpc", _) => match op.split_once(' ') {
            Some((method, target)) => format!("{method} {}", template::template(target)),
            None => op.to_owned(),
        },
        (_, "") => op.to_owned(),
        ("pgsql" | "mysql" | "cql", statement) => statement.to_owned(),
        (_, detail) => format!("{op} {detail}"),
    }
}
