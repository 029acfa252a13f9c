//! Lines of a file, with their numbers, in bounded memory.

use std::io::BufRead;

use crate::{Batches, Error};

/// 64 MiB: VictoriaMetrics exports a series in one line, a million samples in some 25 MB.
pub const LINE_BYTES_MAX: usize = 64 << 20;

/// Passes each line, without its end and with its number from 1, to `each`. A line that is longer than `bytes_max` or
/// not UTF-8 is bad.
///
/// # Errors
/// Those of the file and of `each`.
pub fn each(
    input: &mut dyn BufRead,
    bytes_max: usize,
    out: &mut Batches<'_>,
    mut each: impl FnMut(u64, &str, &mut Batches<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut line = Vec::new();
    let mut number = 0;
    loop {
        line.clear();
        let Some(is_whole) = read(input, bytes_max, &mut line)? else { return Ok(()) };
        number += 1;
        if !is_whole {
            out.bad(number, "line_too_long", &format!("the line is longer than {bytes_max} bytes"));
            continue;
        }
        match std::str::from_utf8(&line) {
            Ok(text) => each(number, text, out)?,
            Err(_) => out.bad(number, "not_utf8", "the line is not UTF-8"),
        }
        if line.capacity() > 1 << 20 {
            line = Vec::new();
        }
    }
}

/// Reads a line without its end; returns whether it is complete, and None at the end of the file.
fn read(input: &mut dyn BufRead, bytes_max: usize, line: &mut Vec<u8>) -> Result<Option<bool>, Error> {
    let (mut any, mut is_whole) = (false, true);
    loop {
        let bytes = input.fill_buf()?;
        if bytes.is_empty() {
            return Ok(any.then_some(is_whole));
        }
        any = true;
        let end = memchr::memchr(b'\n', bytes);
        let part = &bytes[..end.unwrap_or(bytes.len())];
        is_whole &= line.len() + part.len() <= bytes_max;
        if is_whole {
            line.extend_from_slice(part);
        }
        let taken = part.len() + usize::from(end.is_some());
        input.consume(taken);
        if end.is_some() {
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            return Ok(Some(is_whole));
        }
    }
}
