//! Interval logs of HdrHistogram: their histograms, merged.
//!
//! Invariants: quantiles come from HdrHistogram's own bins as long as all intervals have the same; the picture and the
//! base64 are of decimal bins, and how far those may be off is said.

use std::io::{BufRead, BufReader, Read};

use ogive_hist::hdr::{Entry, Log};

use super::tally::Tally;

/// Reads a log.
pub(super) fn read(input: &mut dyn Read, tally: &mut Tally, mut progress: impl FnMut(usize)) -> std::io::Result<()> {
    let mut log = Log::new(tally.logs.unit);
    for (at, line) in BufReader::new(input).lines().enumerate() {
        let line = line?;
        progress(line.len() + 1);
        match log.line(&line) {
            Ok(Entry::Interval(interval)) => tally.logs.take(*interval),
            Ok(Entry::Comment(_) | Entry::Nothing) => {}
            Err(error) => {
                if !tally.complain(at as u64 + 1, line.as_bytes(), &error) {
                    break;
                }
            }
        }
    }
    Ok(())
}
