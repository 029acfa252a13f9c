//! CSV (RFC 4180) with a header: the columns' meaning is that of [`table`].
//!
//! A row stands in one line: a quoted line end is refused, so that a quote that is never closed costs one row and not
//! the file.

use std::io::BufRead;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use ogive_model::Value;
use twox_hash::XxHash3_128;

use crate::table::{self, Options, Plan};
use crate::{Batches, Error, lines};

/// 1 MiB a row.
const LINE_BYTES_MAX: usize = 1 << 20;
/// 4,096 columns.
const COLUMNS_MAX: usize = 4_096;

/// Splits rows.
struct Row {
    reader: Reader,
    text: Vec<u8>,
    ends: Vec<usize>,
    count: usize,
}

impl Row {
    fn split(&mut self, line: &str) -> Result<(), &'static str> {
        if line.bytes().filter(|byte| *byte == b'"').count() % 2 == 1 {
            return Err("a quote is not closed");
        }
        self.reader.reset();
        self.text.resize(line.len().max(self.text.len()) + 2, 0);
        // Without a line end the reader gives the row when it gets nothing more.
        let (mut rest, mut at, mut ends) = (line.as_bytes(), 0, 0);
        loop {
            let (result, read, written, found) =
                self.reader.read_record(rest, &mut self.text[at..], &mut self.ends[ends..]);
            (rest, at, ends) = (&rest[read..], at + written, ends + found);
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::Record | ReadRecordResult::End => break,
                ReadRecordResult::OutputFull => return Err("the row is longer than its line"),
                ReadRecordResult::OutputEndsFull => return Err("the row has more than 4096 columns"),
            }
        }
        self.count = ends;
        Ok(())
    }

    fn field(&self, at: usize) -> Option<&str> {
        if at >= self.count {
            return None;
        }
        let from = if at == 0 { 0 } else { self.ends[at - 1] };
        // Fields are parts of a text between characters of ASCII.
        std::str::from_utf8(&self.text[from..self.ends[at]]).ok()
    }
}

/// Reads a file whose fields are separated by `delimiter`.
///
/// # Errors
/// Those of the file, [`Error::Unreadable`] for a header without the required columns, and [`Error::Stopped`].
pub fn read(input: &mut dyn BufRead, delimiter: u8, options: &Options, out: &mut Batches<'_>) -> Result<(), Error> {
    let reader = ReaderBuilder::new().delimiter(delimiter).build();
    let mut row = Row { reader, text: Vec::new(), ends: vec![0; COLUMNS_MAX], count: 0 };
    let mut plan: Option<(Plan, usize)> = None;
    lines::each(input, LINE_BYTES_MAX, out, |number, line, out| {
        let line = if number == 1 { line.trim_start_matches('\u{feff}') } else { line };
        if line.is_empty() {
            return Ok(());
        }
        let split = row.split(line);
        let Some((plan, columns)) = &plan else {
            split.map_err(|what| Error::Unreadable(format!("the header: {what}")))?;
            let names: Vec<&str> = (0..row.count).filter_map(|at| row.field(at)).collect();
            plan = Some((Plan::new(&names, &|_| false, options).map_err(Error::Unreadable)?, names.len()));
            return Ok(());
        };
        match split {
            Err(what) => out.bad(number, "line_malformed", what),
            Ok(()) if row.count != *columns => {
                out.bad(number, "fields", &format!("{} fields under {columns} columns", row.count));
            }
            Ok(()) => return samples(number, &row, plan, options, out),
        }
        Ok(())
    })
}

fn samples(number: u64, row: &Row, plan: &Plan, options: &Options, out: &mut Batches<'_>) -> Result<(), Error> {
    let field = |at: usize| row.field(at).unwrap_or_default();
    let Some(time_ns) = options.time_unit.parse(field(plan.time)) else {
        out.bad(number, "time_invalid", &format!("{:?} is no time", field(plan.time)));
        return Ok(());
    };
    let name = plan.name.map(field);
    let hash =
        |seed: u128, text: &str| XxHash3_128::oneshot_with_seed(seed as u64, text.as_bytes()) ^ seed.rotate_left(1);
    let labels: Vec<(&str, &str)> = plan.labels.iter().map(|(at, label)| (&**label, field(*at))).collect();
    let key = labels.iter().fold(hash(0, name.unwrap_or_default()), |key, label| hash(key, label.1));
    for (at, metric) in &plan.values {
        let text = field(*at).trim();
        if text.is_empty() {
            continue;
        }
        let Ok(value) = text.parse::<f64>() else {
            out.bad(number, "value_invalid", &format!("{text:?} is not a number; is the column a label (--labels)?"));
            continue;
        };
        let metric = name.unwrap_or(metric);
        let define = || table::series(metric, &labels, options);
        out.sample(number, hash(key, metric), define, None, time_ns, Value::Float(value))?;
    }
    Ok(())
}
