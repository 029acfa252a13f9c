//! IRONdb's records as lines: what `/raw` takes, and what brokers write.

use std::io::BufRead;

use ogive_irondb::intake::Intake;
use ogive_irondb::tsv::{self, Line};
use ogive_model::{BatchId, Tenant};

use crate::{Batches, Error, batches, lines};

/// 1 MiB for a line: a histogram of all possible bins is 300 KB in base64.
const LINE_BYTES_MAX: usize = 1 << 20;

/// Lines that are not a batch yet.
struct Open {
    intake: Intake,
    places: Vec<u64>,
    bytes: usize,
}

impl Open {
    fn new() -> Self {
        Self { intake: Intake::new(batches::BYTES_MAX), places: Vec::new(), bytes: 0 }
    }

    fn close(&mut self, out: &mut Batches<'_>) -> Result<(), Error> {
        let Self { intake, places, .. } = std::mem::replace(self, Self::new());
        let taken = intake.finish(&Tenant::default(), BatchId::default());
        if places.is_empty() { Ok(()) } else { out.batch(taken.batch, places) }
    }
}

/// Reads a file.
///
/// # Errors
/// Those of the file, and [`Error::Stopped`].
pub fn read(input: &mut dyn BufRead, out: &mut Batches<'_>) -> Result<(), Error> {
    let mut open = Open::new();
    lines::each(input, LINE_BYTES_MAX, out, |number, line, out| {
        let record = match tsv::read(line.as_bytes()).next() {
            None | Some(Ok(Line::Other)) => return Ok(()),
            Some(Ok(Line::Record(record))) => record,
            Some(Err((fault, _))) => {
                out.bad(number, fault.as_str(), &fault.to_string());
                return Ok(());
            }
        };
        if open.bytes + line.len() > batches::BYTES_MAX / 2 || open.places.len() == batches::SAMPLES_MAX {
            open.close(out)?;
        }
        let before = open.intake.samples();
        match open.intake.put(&record) {
            Ok(Ok(())) => {}
            Ok(Err(fault)) => out.bad(number, fault.as_str(), &fault.to_string()),
            Err(refused) => out.bad(number, "record_too_large", &refused.to_string()),
        }
        if open.intake.samples() > before {
            open.places.push(number);
        }
        open.bytes += line.len();
        Ok(())
    })?;
    open.close(out)
}
