//! What `/fetch` asks for.
//!
//! Format: JSON (`start` and `period` in seconds, `count`, `streams`, `reduce`), or a FlatBuffer of the same in
//! milliseconds. Each stream is transformed by itself, then the reductions follow one another, each of what the one
//! before made.
//! Limits: [`COUNT_MAX`] slots, [`STREAMS_MAX`] streams.

use serde::Deserialize;

use crate::flat::{Buffer, Malformed, Table};
use crate::frame::Grid;
use crate::record::CheckId;

/// The content type of a request in FlatBuffers.
pub const CONTENT_TYPE: &str = "x-irondb-fetch-flatbuffer";
/// 11,000 slots, as many as a query of a range has steps.
pub const COUNT_MAX: usize = 11_000;
/// 1,024 streams, each of which is read separately.
pub const STREAMS_MAX: usize = 1_024;

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The slots of the response.
    pub grid: Grid,
    /// The streams to read.
    pub streams: Vec<Stream>,
    /// The reductions over them.
    pub reductions: Vec<Reduction>,
}

/// A stream and its transform.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Stream {
    /// The check.
    pub uuid: String,
    /// The metric, with its tags.
    pub name: String,
    /// `numeric`, `histogram`, `histogram_cumulative` or `text`.
    pub kind: String,
    /// The label of its column; the name by default.
    pub label: String,
    /// The transform.
    pub transform: String,
    /// The parameters of the transform.
    #[serde(rename = "transform_params")]
    pub params: Vec<String>,
}

/// A reduction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Reduction {
    /// The label of its columns.
    pub label: String,
    /// The method.
    pub method: String,
    /// The parameters of the method.
    #[serde(rename = "method_params")]
    pub params: Vec<String>,
}

#[derive(Deserialize)]
struct Document {
    start: f64,
    period: f64,
    count: f64,
    #[serde(default)]
    streams: Vec<Stream>,
    #[serde(default)]
    reduce: Option<Vec<Reduction>>,
}

impl Request {
    /// Of JSON.
    ///
    /// # Errors
    /// A sentence.
    pub fn from_json(body: &[u8]) -> Result<Self, String> {
        let document: Document =
            serde_json::from_slice(body).map_err(|error| format!("the body is not a request of /fetch: {error}"))?;
        let ms = |seconds: f64, what: &str| {
            let ms = (seconds * 1_000.0).round();
            if ms.abs() < 9e15 { Ok(ms as i64) } else { Err(format!("the {what} {seconds} is out of range")) }
        };
        let grid = grid(ms(document.start, "start")?, ms(document.period, "period")?, document.count)?;
        Self::new(grid, document.streams, document.reduce.unwrap_or_default())
    }

    /// Of a FlatBuffer.
    ///
    /// # Errors
    /// A sentence.
    pub fn from_flatbuffer(body: &[u8]) -> Result<Self, String> {
        let buffer = Buffer::new(body);
        let request = buffer.root().and_then(Self::fields).map_err(|malformed| malformed.to_string())?;
        let (start_ms, period_ms, count, streams, reductions) = request;
        let start_ms = i64::try_from(start_ms).map_err(|_| format!("the start {start_ms} is out of range"))?;
        Self::new(grid(start_ms, i64::from(period_ms), f64::from(count))?, streams, reductions)
    }

    #[expect(clippy::type_complexity, reason = "the fields of one table, named where they are taken")]
    fn fields(root: Table<'_>) -> Result<(u64, u32, u32, Vec<Stream>, Vec<Reduction>), Malformed> {
        let mut streams = Vec::new();
        if let Some(tables) = root.vector(3, 4)? {
            for table in tables.tables() {
                streams.push(stream(table?)?);
            }
        }
        let mut reductions = Vec::new();
        if let Some(tables) = root.vector(4, 4)? {
            for table in tables.tables() {
                let table = table?;
                reductions.push(Reduction {
                    label: text(table, 0)?,
                    method: text(table, 1)?,
                    params: texts(table, 2)?,
                });
            }
        }
        Ok((root.u64(0)?, root.u32(1)?, root.u32(2)?, streams, reductions))
    }

    fn new(grid: Grid, streams: Vec<Stream>, reductions: Vec<Reduction>) -> Result<Self, String> {
        if streams.len() > STREAMS_MAX {
            return Err(format!("{} streams, more than {STREAMS_MAX}; ask several times", streams.len()));
        }
        for stream in &streams {
            if !matches!(&*stream.kind, "" | "numeric" | "histogram" | "histogram_cumulative" | "text") {
                return Err(format!("the kind {:?} is none of numeric, histogram and text", stream.kind));
            }
        }
        Ok(Self { grid, streams, reductions })
    }
}

fn grid(start_ms: i64, period_ms: i64, count: f64) -> Result<Grid, String> {
    if period_ms <= 0 {
        return Err("the period is not above 0".into());
    }
    if !(1.0..=COUNT_MAX as f64).contains(&count) {
        return Err(format!("the count {count} is not from 1 to {COUNT_MAX}"));
    }
    let grid = Grid { start_ms, period_ms, count: count as usize };
    let fits = period_ms.checked_mul(count as i64).and_then(|span| start_ms.checked_add(span)).is_some();
    if fits { Ok(grid) } else { Err("the range is too long".into()) }
}

fn text(table: Table<'_>, id: usize) -> Result<String, Malformed> {
    Ok(table.text(id)?.unwrap_or_default().to_owned())
}

fn texts(table: Table<'_>, id: usize) -> Result<Vec<String>, Malformed> {
    let Some(texts) = table.vector(id, 4)? else { return Ok(Vec::new()) };
    texts.texts().map(|text| text.map(str::to_owned)).collect()
}

fn stream(table: Table<'_>) -> Result<Stream, Malformed> {
    let bytes = table.vector(0, 1)?.ok_or(Malformed("check_uuid"))?.bytes();
    let mut uuid = String::new();
    let check = match bytes.try_into() {
        Ok(bytes) => CheckId::Bytes(bytes),
        Err(_) => CheckId::Text(std::str::from_utf8(bytes).map_err(|_| Malformed("check_uuid"))?),
    };
    check.write(&mut uuid).map_err(|_| Malformed("check_uuid"))?;
    let kind = match table.i8(2)? {
        1 => "numeric",
        2 => "histogram",
        3 => "histogram_cumulative",
        4 => "text",
        _ => "",
    };
    let (name, label, transform, params) = (text(table, 1)?, text(table, 5)?, text(table, 3)?, texts(table, 4)?);
    Ok(Stream { uuid, name, kind: kind.into(), label, transform, params })
}

#[cfg(test)]
mod tests;
