//! `POST /nntbs`: rollups in FlatBuffers.
//!
//! Format: the identifier `CINN`; a list of operations, each a metric and its rollups of several periods: blocks of
//! data, the first at the block's floor (seconds since 1970), each further one a period later. Of several periods the
//! shortest is taken.

use std::borrow::Cow;

use crate::flat::{Buffer, Malformed, Table};
use crate::intake::{Intake, Refused};
use crate::legacy::parts;
use crate::record::{CheckId, Datum, Record, Tags};

/// The content type that identifies a body.
pub const CONTENT_TYPE: &str = "application/snowth-nntbs";

/// Decodes `body` into `intake`; returns the number of metrics.
///
/// # Errors
/// [`Refused`]; then nothing of the body is accepted.
pub fn read(body: &[u8], intake: &mut Intake) -> Result<u64, Refused> {
    let buffer = Buffer::new(body);
    if buffer.identifier() != Some(b"CINN") {
        return Err(Malformed("identifier: it is not CINN").into());
    }
    let mut metrics = 0;
    if let Some(operations) = buffer.root()?.vector(0, 4)? {
        for each in operations.tables() {
            operation(each?, intake)?;
            metrics += 1;
        }
    }
    Ok(metrics)
}

fn operation(table: Table<'_>, intake: &mut Intake) -> Result<(), Refused> {
    let metric = table.table(0)?.ok_or(Malformed("metric"))?;
    let locator = metric.table(0)?.ok_or(Malformed("metric_locator"))?;
    let check = locator.vector(0, 1)?.ok_or(Malformed("check_uuid"))?.bytes();
    let check = match check.try_into() {
        Ok(bytes) => CheckId::Bytes(bytes),
        // A client packs the text.
        Err(_) => CheckId::Text(std::str::from_utf8(check).map_err(|_| Malformed("check_uuid"))?),
    };
    let name = Cow::Borrowed(locator.text(1)?.ok_or(Malformed("metric_name"))?);
    let tags = locator.vector(2, 4)?.filter(|tags| !tags.is_empty()).map_or(Tags::InName, Tags::Vector);
    let account = i64::from(metric.i32(1)?);
    let mut finest: Option<(u32, Table<'_>)> = None;
    if let Some(rollups) = table.vector(1, 4)? {
        for rollup in rollups.tables() {
            let rollup = rollup?;
            let period = rollup.u32(2)?;
            if period > 0 && finest.is_none_or(|(finest, _)| period < finest) {
                finest = Some((period, rollup));
            }
        }
    }
    let Some((period, rollup)) = finest else { return Ok(()) };
    let record = Record { account, check, name, tags, time_ms: 0, value: Datum::NoNumber, part: None };
    if let Some(blocks) = rollup.vector(3, 4)? {
        for each in blocks.tables() {
            block(each?, period, &record, intake)?;
        }
    }
    Ok(())
}

fn block(table: Table<'_>, period: u32, record: &Record<'_>, intake: &mut Intake) -> Result<(), Refused> {
    let floor = i64::try_from(table.u64(3)?).unwrap_or(i64::MAX);
    let Some(data) = table.vector(5, 4)? else { return Ok(()) };
    for (number, datum) in data.tables().enumerate() {
        let datum = datum?;
        let count = f64::from(datum.u32(1)?);
        let Some(value) = value(datum)?.filter(|_| count > 0.0 && datum.u8(0).is_ok_and(|zero| zero == 0)) else {
            continue;
        };
        let time_ms = floor.saturating_add(i64::from(period) * number as i64).saturating_mul(1_000);
        intake.take(&Record { time_ms, value: Datum::Number(value), ..record.clone() })?;
        let others = [datum.f32(2)?, datum.f32(5)?, datum.f32(6)?, datum.f32(7)?, datum.f32(8)?].map(f64::from);
        for (part, value) in parts(count, others) {
            intake.take(&Record { time_ms, value: Datum::Number(value), part: Some(part), ..record.clone() })?;
        }
    }
    Ok(())
}

fn value(datum: Table<'_>) -> Result<Option<f64>, Malformed> {
    let Some(value) = datum.table(4)? else { return Ok(None) };
    Ok(match datum.u8(3)? {
        1 => Some(f64::from(value.i32(0)?)),
        2 => Some(f64::from(value.u32(0)?)),
        3 => Some(value.i64(0)? as f64),
        4 => Some(value.u64(0)? as f64),
        5 => Some(value.f64(0)?),
        _ => None,
    })
}
