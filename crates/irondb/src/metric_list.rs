//! `POST /raw` in FlatBuffers: lists and batches of metrics, of both generations that are in use.
//!
//! Format: the identifier names the layout. Generation 1 (`CIML` a list, `CIMB` a batch; what gosnowth sends): a
//! check's UUID is text, a metric has one value, a bin is a table. Generation 2 (`CMLS`, `CMBS`; what reconnoiter sends
//! since December 2020): a UUID is 16 bytes, a metric has samples, a bin is 16 bytes. A lone metric is `CIMM` in both;
//! its UUID shows which.
//! Invariants: what a record names is inside the body; nothing is copied.

use std::borrow::Cow;

use crate::flat::{Buffer, Malformed, Table};
use crate::record::{Bins, CheckId, Counting, Datum, Record, Tags};

/// The content type that identifies a body.
pub const CONTENT_TYPE: &str = "application/x-circonus-metric-list-flatbuffer";

/// Called with each record; an error ends decoding.
pub type Sink<'s, E> = dyn FnMut(Record<'_>) -> Result<(), E> + 's;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Generation {
    One,
    Two,
}

/// The common properties of the records of a metric or batch.
struct Head<'b> {
    generation: Generation,
    account: i64,
    check: CheckId<'b>,
    time_ms: u64,
}

/// Passes every record of `body` to `sink`.
///
/// # Errors
/// [`Malformed`], and the errors of `sink`.
pub fn read<E: From<Malformed>>(body: &[u8], sink: &mut Sink<'_, E>) -> Result<(), E> {
    let buffer = Buffer::new(body);
    let (generation, is_list) = match buffer.identifier() {
        Some(b"CIML") => (Generation::One, true),
        Some(b"CMLS") => (Generation::Two, true),
        Some(b"CIMB") => return batch(buffer.root()?, Generation::One, sink),
        Some(b"CMBS") => return batch(buffer.root()?, Generation::Two, sink),
        Some(b"CIMM") => {
            let root = buffer.root()?;
            // 36 characters are the text of a UUID; a vector of 16 bytes cannot have that length.
            let is_text = root.vector(2, 1)?.is_some_and(|uuid| uuid.len() == 36);
            (if is_text { Generation::One } else { Generation::Two }, false)
        }
        _ => return Err(Malformed("identifier: it is none of CIML, CIMB, CIMM, CMLS, CMBS").into()),
    };
    let root = buffer.root()?;
    if !is_list {
        return metric(root, generation, sink);
    }
    if let Some(metrics) = root.vector(0, 4)? {
        for each in metrics.tables() {
            metric(each?, generation, sink)?;
        }
    }
    Ok(())
}

fn head(table: Table<'_>, generation: Generation) -> Result<Head<'_>, Malformed> {
    let check = match generation {
        Generation::One => CheckId::Text(table.text(2)?.ok_or(Malformed("check_uuid"))?),
        Generation::Two => {
            let bytes = table.vector(2, 1)?.ok_or(Malformed("check_uuid"))?.bytes();
            CheckId::Bytes(bytes.try_into().map_err(|_| Malformed("check_uuid"))?)
        }
    };
    Ok(Head { generation, account: i64::from(table.i32(3)?), check, time_ms: table.u64(0)? })
}

fn metric<E: From<Malformed>>(table: Table<'_>, generation: Generation, sink: &mut Sink<'_, E>) -> Result<(), E> {
    let head = head(table, generation)?;
    let value = table.table(4)?.ok_or(Malformed("value"))?;
    values(&head, value, sink)
}

fn batch<E: From<Malformed>>(table: Table<'_>, generation: Generation, sink: &mut Sink<'_, E>) -> Result<(), E> {
    let head = head(table, generation)?;
    if let Some(metrics) = table.vector(4, 4)? {
        for value in metrics.tables() {
            values(&head, value?, sink)?;
        }
    }
    Ok(())
}

/// The records of one `MetricValue`.
fn values<E: From<Malformed>>(head: &Head<'_>, table: Table<'_>, sink: &mut Sink<'_, E>) -> Result<(), E> {
    let name = table.text(0)?.ok_or(Malformed("name"))?;
    let (tags, one) = if head.generation == Generation::One { (5, true) } else { (1, false) };
    let tags = table.vector(tags, 4)?.filter(|tags| !tags.is_empty()).map_or(Tags::InName, Tags::Vector);
    let mut emit = |time_ms: u64, value: Datum<'_>| {
        let time_ms = i64::try_from(if time_ms == 0 { head.time_ms } else { time_ms }).unwrap_or(i64::MAX);
        let (account, check) = (head.account, head.check);
        sink(Record { account, check, name: Cow::Borrowed(name), tags: tags.clone(), time_ms, value, part: None })
    };
    if one {
        return emit(table.u64(1)?, datum(table, 2, head.generation)?);
    }
    if let Some(samples) = table.vector(2, 4)? {
        for sample in samples.tables() {
            let sample = sample?;
            emit(sample.u64(0)?, datum(sample, 1, head.generation)?)?;
        }
    }
    Ok(())
}

/// The value whose type is in the field `id`, and the value itself in the next.
fn datum(table: Table<'_>, id: usize, generation: Generation) -> Result<Datum<'_>, Malformed> {
    let kind = table.u8(id)?;
    if let 8..=10 = kind {
        return Ok(if kind == 8 { Datum::NoNumber } else { Datum::Nothing });
    }
    let value = table.table(id + 1)?.ok_or(Malformed("value"))?;
    Ok(match kind {
        1 => Datum::Number(f64::from(value.i32(0)?)),
        2 => Datum::Number(f64::from(value.u32(0)?)),
        3 => Datum::Number(value.i64(0)? as f64),
        4 => Datum::Number(value.u64(0)? as f64),
        5 => Datum::Number(value.f64(0)?),
        6 => Datum::Text(Cow::Borrowed(value.text(0)?.ok_or(Malformed("text"))?)),
        7 => {
            let counting = if value.u8(1)? == 0 { Counting::Since } else { Counting::On };
            let bins = match generation {
                Generation::One => Bins::Tables(value.vector(0, 4)?),
                Generation::Two => Bins::Structs(value.vector(0, 16)?),
            };
            Datum::Bins(bins, counting)
        }
        _ => return Err(Malformed("type of a value")),
    })
}

#[cfg(test)]
pub(crate) mod tests;
