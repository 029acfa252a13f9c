//! OpenMetrics with times, as `promtool tsdb create-blocks-from openmetrics` reads and `promtool tsdb dump-openmetrics`
//! writes it.

use std::io::BufRead;

use ogive_model::{SeriesDef, Value};
use ogive_protocol::exposition::backfill::Backfill;

use crate::{Batches, Error, lines};

/// 1 MiB a line: a label set of the largest labels that are stored is longer than it by nothing that a person writes.
const LINE_BYTES_MAX: usize = 1 << 20;

/// Reads a file.
///
/// # Errors
/// Those of the file, and [`Error::Stopped`].
pub fn read(input: &mut dyn BufRead, out: &mut Batches<'_>) -> Result<(), Error> {
    let mut reader = Backfill::default();
    lines::each(input, LINE_BYTES_MAX, out, |number, line, out| match reader.line(line) {
        Ok(None) => Ok(()),
        Err(what) => {
            out.bad(number, "line_malformed", what);
            Ok(())
        }
        Ok(Some(one)) => {
            let Some(time_ns) = one.time_ms.checked_mul(1_000_000) else {
                out.bad(number, "time_invalid", "the time is beyond what can be stored");
                return Ok(());
            };
            if one.has_exemplars {
                out.bad(number, "exemplar_left_out", "the sample was taken, its exemplar was not");
            }
            let define = || SeriesDef::new(one.series.labels(), one.meta.clone()).map_err(|error| error.to_string());
            // The key is made of the bytes that name the series, and of what a type changes.
            let key = one.series.key() ^ one.meta.temporality as u128;
            out.sample(number, key, define, None, time_ns, Value::Float(one.value))
        }
    })
}
