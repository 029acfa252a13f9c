//! A body of any way to write.

use ogive_model::{BatchId, Tenant};

use crate::graphite::lines as graphite;
use crate::intake::{Intake, ParsedBody, Refused};
use crate::legacy::{self, Form};
use crate::tsv::Line;
use crate::{metric_list, nntbs, tsv};

/// How a body is encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Lines of `/raw`.
    Lines,
    /// FlatBuffers of `/raw`.
    MetricList,
    /// JSON.
    Json(Form),
    /// Rollups in FlatBuffers.
    Rollups,
    /// Graphite lines, whose sender is given in the address.
    Graphite(graphite::Sender),
}

/// Decodes `body` into the batch `sequence` of `source`.
///
/// # Errors
/// [`Refused`]; then nothing of the body is accepted.
pub fn read(encoding: &Encoding, body: &[u8], tenant: &Tenant, number: BatchId) -> Result<ParsedBody, Refused> {
    let mut intake = Intake::new(body.len());
    let mut metrics = None;
    match encoding {
        Encoding::MetricList => metric_list::read::<Refused>(body, &mut |record| intake.take(&record))?,
        Encoding::Json(form) => legacy::read(*form, body, &mut intake)?,
        Encoding::Rollups => metrics = Some(nntbs::read(body, &mut intake)?),
        Encoding::Graphite(sender) => {
            for line in graphite::read(sender, body) {
                match line {
                    Ok(record) => intake.take(&record)?,
                    Err((fault, start)) => intake.fault(fault, &start),
                }
            }
        }
        Encoding::Lines => {
            for line in tsv::read(body) {
                match line {
                    Ok(Line::Record(record)) => intake.take(&record)?,
                    Ok(Line::Other) => {}
                    Err((fault, start)) => intake.fault(fault, &start),
                }
            }
        }
    }
    let mut taken = intake.finish(tenant, number);
    taken.records = metrics.unwrap_or(taken.records);
    Ok(taken)
}

#[cfg(test)]
mod tests;
