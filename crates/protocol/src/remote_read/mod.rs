//! Prometheus remote read: the messages `prometheus.ReadRequest`, `prometheus.ReadResponse` and
//! `prometheus.ChunkedReadResponse`.
//!
//! Format: `prompb/{remote,types}.proto` of github.com/prometheus/prometheus; a response holds samples, or is a stream
//! of frames of chunks, as the request demands.
//! Limits: [`QUERIES_MAX`] per request, [`MATCHERS_MAX`] per query, [`FRAME_BYTES_MAX`] per frame.

mod bits;
mod chunks;
pub(crate) mod native;
mod samples;

pub use chunks::{FRAME_BYTES_MAX, frames};
pub use samples::Answer;

use ogive_model::{MatchOp, Matcher, TimeRange};

use crate::Error;
use crate::protobuf::{Field, Fields, varint, within};

/// 64 queries: Prometheus sends one.
pub const QUERIES_MAX: usize = 64;
/// 128 matchers: as many as a series has labels.
pub const MATCHERS_MAX: usize = 128;

/// One question of a request.
#[derive(Clone, Debug)]
pub struct Query {
    /// All must hold.
    pub matchers: Vec<Matcher>,
    /// When; both ends of the request are inside.
    pub range: TimeRange,
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its questions.
    pub queries: Vec<Query>,
    /// Whether the client would have a stream of chunks rather than samples.
    pub chunks: bool,
}

/// Codes of `ReadRequest.ResponseType`.
const SAMPLES: u64 = 0;
const CHUNKS: u64 = 1;

/// The request in `message`.
///
/// # Errors
/// When the message is broken, a matcher is wrong, no form of answer is known that the client takes, or a limit is
/// passed.
pub fn request(message: &[u8]) -> Result<Request, Error> {
    const FORM: &str = "a form of answer is not a number";
    let (mut queries, mut forms) = (Vec::new(), Vec::new());
    for field in Fields::new(message) {
        match field? {
            (1, query) => {
                within("the number of queries", queries.len() + 1, QUERIES_MAX)?;
                queries.push(query_of(query.bytes("a query is not a message")?)?);
            }
            (2, Field::Bytes(mut packed)) => {
                while !packed.is_empty() {
                    forms.push(varint(&mut packed, FORM)?);
                }
            }
            (2, form) => forms.push(form.varint(FORM)?),
            _ => {}
        }
    }
    // The first that is known; who says nothing takes samples.
    let form = forms.iter().find(|form| [SAMPLES, CHUNKS].contains(form));
    match form {
        None if !forms.is_empty() => Err(Error::Malformed { what: "no form of answer that the client takes is known" }),
        form => Ok(Request { queries, chunks: form == Some(&CHUNKS) }),
    }
}

fn query_of(message: &[u8]) -> Result<Query, Error> {
    let (mut start, mut end, mut matchers) = (0, 0, Vec::new());
    for field in Fields::new(message) {
        match field? {
            (1, time) => start = time.varint("a query's start is not a number")? as i64,
            (2, time) => end = time.varint("a query's end is not a number")? as i64,
            (3, matcher) => {
                within("the number of matchers", matchers.len() + 1, MATCHERS_MAX)?;
                matchers.push(matcher_of(matcher.bytes("a matcher is not a message")?)?);
            }
            _ => {}
        }
    }
    Ok(Query { matchers, range: TimeRange::from_ms(start.saturating_sub(1), end) })
}

fn matcher_of(message: &[u8]) -> Result<Matcher, Error> {
    let (mut op, mut name, mut value) = (MatchOp::Equal, "", "");
    for field in Fields::new(message) {
        match field? {
            (1, code) => {
                op = match code.varint("a matcher's type is not a number")? {
                    0 => MatchOp::Equal,
                    1 => MatchOp::NotEqual,
                    2 => MatchOp::Regex,
                    3 => MatchOp::NotRegex,
                    _ => return Err(Error::Malformed { what: "a matcher's type is not known" }),
                }
            }
            (2, text) => name = text.text("a matcher's name is not UTF-8")?,
            (3, text) => value = text.text("a matcher's value is not UTF-8")?,
            _ => {}
        }
    }
    Matcher::new(name, op, value).map_err(|_| Error::Malformed { what: "a matcher's regular expression is wrong" })
}

#[cfg(test)]
mod chunk_tests;
#[cfg(test)]
mod tests;
