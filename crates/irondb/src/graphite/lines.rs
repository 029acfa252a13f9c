//! Lines of `POST /graphite/ACCOUNT/UUID/NAME`: `path value time`, tags behind the path as `;name=value`.
//!
//! Invariants: the time is required, as there is no arrival time that a repeated request would have again.

use std::borrow::Cow;

use ogive_protocol::graphite;
use ogive_protocol::lines::{Fault, lines};

use crate::identity::tag_text;
use crate::record::{CheckId, Datum, Record, Tags};

/// What the address states about every line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The account; 0 means none.
    pub account: i64,
    /// The check's UUID.
    pub check: String,
    /// The check's name, a part of each metric's name.
    pub name: String,
}

/// Each line of `body`, or its error and beginning.
pub fn read<'b>(sender: &'b Sender, body: &'b [u8]) -> impl Iterator<Item = Result<Record<'b>, (Fault, String)>> {
    lines(body).map(|line| {
        let start = || String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
        record(sender, line).map_err(|fault| (fault, start()))
    })
}

fn record<'b>(sender: &'b Sender, line: &[u8]) -> Result<Record<'b>, Fault> {
    let point = graphite::line(line)?;
    let mut parts = point.path.split(';');
    let path = parts.next().filter(|path| !path.is_empty()).ok_or(Fault::Name)?;
    let mut tags = Vec::new();
    for tag in parts.filter(|tag| !tag.is_empty()) {
        let (name, value) = tag.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or(Fault::Tags)?;
        tags.push((name.to_owned(), value.to_owned()));
    }
    let mut name = format!("graphite.{}.{path}", sender.name);
    if !tags.is_empty() {
        tags.sort_unstable();
        name.push_str("|ST[");
        name.push_str(&tag_text(&tags));
        name.push(']');
    }
    Ok(Record {
        account: sender.account,
        check: CheckId::Text(&sender.check),
        name: Cow::Owned(name),
        tags: Tags::InName,
        time_ms: point.time_ns.ok_or(Fault::Time)?.div_euclid(1_000_000),
        value: Datum::Number(point.value),
        part: None,
    })
}
