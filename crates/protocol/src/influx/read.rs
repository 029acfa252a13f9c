//! Decodes a body to a batch: each field is a series.

use std::borrow::Cow;

use ogive_model::{Batch, Kind, SeriesDef, SourceId, Tenant, Value};
use ogive_stream::Key;

use super::{Field, Line, Precision, line, numbered};
use crate::gather::untyped;
use crate::lines::{Fault, Faults, Names, Pairs};
use crate::{Error, Gather};

/// Lines whose faults are described: the first few are enough for a person.
const DETAILS_MAX: usize = 100;

/// How a body is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// Of its times.
    pub precision: Precision,
    /// When a line without a time was measured.
    pub now_ns: i64,
    /// What becomes of names.
    pub names: Names,
    /// A label that every series gets unless it has a tag of that name: the database or bucket.
    pub label: Option<(&'a str, &'a str)>,
}

/// A body that was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DecodedBody {
    /// The fields of its good lines.
    pub batch: Batch,
    /// The line of each sample.
    pub lines: Vec<usize>,
    /// Lines with texts that have no time of their own.
    pub untimed: u64,
    /// Lines that were taken.
    pub good: u64,
    /// Lines that were not.
    pub faults: Faults,
    /// The first of them: number, line and fault.
    pub details: Vec<(usize, String, Fault)>,
}

/// Reads `body` into the batch `sequence` of `source`.
///
/// # Errors
/// [`Error::TooLarge`] when what it unfolds to is.
pub fn read(
    body: &[u8],
    tenant: &Tenant,
    source: SourceId,
    sequence: u64,
    options: &Options<'_>,
) -> Result<DecodedBody, Error> {
    let (mut gather, mut out) = (Gather::new(body.len()), DecodedBody::default());
    for found in numbered(body) {
        let taken = match line(found.line) {
            Ok(line) => {
                let taken = take(&line, options, &mut gather)?;
                out.untimed += u64::from(taken.is_ok() && line.time.is_none() && line.has_text());
                taken
            }
            Err(fault) => Err(fault),
        };
        match taken {
            Ok(()) => {
                out.good += 1;
                out.lines.resize(gather.len(), found.number);
            }
            Err(fault) => {
                out.faults.count(fault);
                if out.details.len() < DETAILS_MAX {
                    out.details.push((found.number, shown(found.line), fault));
                }
            }
        }
    }
    out.batch = gather.take(source, sequence, tenant);
    Ok(out)
}

/// Takes every field of a line, or none.
fn take(line: &Line<'_>, options: &Options<'_>, gather: &mut Gather) -> Result<Result<(), Fault>, Error> {
    let time_ns = match line.time {
        None => Some(options.now_ns),
        Some(time) => time.checked_mul(options.precision.ns()),
    };
    let Some(time_ns) = time_ns else { return Ok(Err(Fault::Time)) };
    let mut numbers = Vec::with_capacity(line.fields.len());
    for (name, field) in &line.fields {
        let kind = if matches!(field, Field::Text(_)) { Kind::Text } else { Kind::Float };
        let key = Key::new(kind as u64, line.series.as_bytes()).and(name.as_bytes());
        match gather.number(key, || series(line, name, kind, options))? {
            Ok(number) => numbers.push(number),
            Err(fault) => return Ok(Err(fault)),
        }
    }
    for (number, (_, field)) in numbers.into_iter().zip(&line.fields) {
        let value = match field {
            Field::Number(number) => Value::Float(*number),
            Field::Text(text) => Value::Text(text.clone().into_owned()),
        };
        gather.push(number, time_ns, value);
    }
    Ok(Ok(()))
}

/// The series of a field: `measurement_field`, and `measurement` alone for the field `value`.
fn series(line: &Line<'_>, field: &str, kind: Kind, options: &Options<'_>) -> Result<SeriesDef, Fault> {
    let field = super::unescaped(field, b",= ");
    let name = if field == "value" { line.measurement.clone() } else { format!("{}_{field}", line.measurement).into() };
    let name = options.names.metric(&name);
    let meta = untyped(kind, &name);
    let mut pairs = Pairs::named(name);
    for (name, value) in &line.tags {
        pairs.add(options.names.label(name), Cow::Borrowed(value))?;
    }
    if let Some((name, value)) = options.label
        && !value.is_empty()
        && !line.tags.iter().any(|tag| options.names.label(&tag.0) == name)
    {
        pairs.add(name.into(), value.into())?;
    }
    pairs.series(meta)
}

/// The beginning of a line, for a message.
fn shown(line: &[u8]) -> String {
    const BYTES_MAX: usize = 200;
    let text = String::from_utf8_lossy(&line[..line.len().min(BYTES_MAX)]).into_owned();
    if line.len() > BYTES_MAX { text + "..." } else { text }
}
