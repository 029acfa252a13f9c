//! Names of operations, bounded: what was asked for with its values folded away.

mod rules;
pub(crate) mod statement;
pub(crate) mod template;
mod top;

use crate::exchange::Exchange;

pub use rules::{RuleError, Rules};
pub use top::{OTHER, Top};

/// Names operations: by rules, by folding, and rare ones beyond a limit as [`OTHER`].
#[derive(Debug)]
pub struct Namer {
    rules: Rules,
    top: Top,
}

/// The default number of operations that are kept.
pub const KEPT: usize = 1_000;

impl Default for Namer {
    fn default() -> Self {
        Self::new(Rules::default(), KEPT)
    }
}

impl Namer {
    /// Names by `rules` first, and keeps `limit` names.
    #[must_use]
    pub fn new(rules: Rules, limit: usize) -> Self {
        Self { rules, top: Top::new(limit) }
    }

    /// The operation that `exchange` counts under.
    pub fn name(&mut self, exchange: &Exchange) -> String {
        let ruled = match exchange.protocol {
            "http1" | "http2" | "grpc" => {
                exchange.op.split_once(' ').and_then(|(method, target)| self.rules.name(method, target))
            }
            _ => None,
        };
        let name = ruled.map_or_else(|| name(exchange), str::to_owned);
        if self.top.keeps(&name) { name } else { OTHER.to_owned() }
    }

    /// The names that are kept, and the counts of the others.
    #[must_use]
    pub fn top(&self) -> &Top {
        &self.top
    }
}

/// The operation under which `exchange` counts: a URL's template with its method, a statement's fingerprint, or the
/// protocol's name for the request, with its topic, table or subject where it names one. It contains no value that a
/// user entered.
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
