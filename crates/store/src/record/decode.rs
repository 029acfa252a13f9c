//! A record of the journal as columns, trusting nothing in it.
//!
//! Limits: what it holds in memory is at most 16 times the record.

use ogive_model::{SeriesId, SourceId, Tenant};

use super::{MAGIC, MS_NS, NUMBER_MAX, TIMES_EQUAL, TIMES_MS, TIMES_NS, VERSION, values};
use crate::bytes::{Broken, Cursor, get_tenant};

/// A number and an identity.
const BINDING_BYTES_MIN: usize = 17;

/// A record, checked: reading its samples cannot fail.
pub(crate) struct FloatRecord<'a> {
    pub(crate) tenant: Tenant,
    pub(crate) source: SourceId,
    pub(crate) sequence: u64,
    /// In which part of the journal its numbers mean something.
    pub(crate) part: u32,
    /// Numbers that are named in full.
    pub(crate) bindings: Vec<(u32, SeriesId)>,
    /// First numbers of runs, and how many follow each other; none passes the last number.
    runs: Vec<(u32, u32)>,
    /// One for all, or one each.
    times: Vec<i64>,
    controls: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> FloatRecord<'a> {
    /// The record in `payload`; nothing when it is another kind.
    pub(crate) fn read(payload: &'a [u8]) -> Result<Option<Self>, Broken> {
        let mut cursor = Cursor::new(payload);
        if !payload.starts_with(&MAGIC) {
            return Ok(None);
        }
        cursor.take(MAGIC.len())?;
        match cursor.byte()? {
            VERSION => {}
            version => return Err(cursor.broken(format!("version {version} of a record; {VERSION} is known"))),
        }
        let part = cursor.u32()?;
        let tenant = get_tenant(&mut cursor)?;
        let source = SourceId(u128::from_le_bytes(cursor.take(16)?.try_into().expect("16 bytes")));
        let sequence = cursor.varint()?;
        let count = cursor.count(payload.len(), "samples")?;
        let bindings = get_bindings(&mut cursor)?;
        let runs = get_runs(&mut cursor, count)?;
        let times = if count == 0 { Vec::new() } else { get_times(&mut cursor, count)? };
        let (controls, bytes) = (cursor.take(count)?, cursor.rest());
        values::check(controls, bytes)?;
        Ok(Some(Self { tenant, source, sequence, part, bindings, runs, times, controls, bytes }))
    }

    /// How many samples it has.
    pub(crate) const fn len(&self) -> usize {
        self.controls.len()
    }

    /// The first and the last time of its samples, nanoseconds.
    pub(crate) fn span_ns(&self) -> Option<(i64, i64)> {
        self.times.iter().copied().min().zip(self.times.iter().copied().max())
    }

    /// Passes number, time in nanoseconds and value of each sample on.
    #[inline]
    pub(crate) fn each(&self, mut visit: impl FnMut(u32, i64, f64)) {
        let mut numbers = self.runs.iter().flat_map(|(first, count)| (0..*count).map(move |at| first + at));
        let (constant, times) = match &self.times[..] {
            [time] => (*time, &[][..]),
            times => (0, times),
        };
        let mut times = times.iter();
        values::each(self.controls, self.bytes, |value| {
            let number = numbers.next().expect("the runs are as many as the samples");
            visit(number, times.next().copied().unwrap_or(constant), value);
        });
        debug_assert!(numbers.next().is_none() && times.next().is_none(), "each number and each time has its value");
    }
}

fn number_of(cursor: &Cursor<'_>, next: i64, distance: i64) -> Result<u32, Broken> {
    let number = next.checked_add(distance).and_then(|number| u32::try_from(number).ok());
    number.filter(|number| *number < NUMBER_MAX).ok_or_else(|| cursor.broken("a number of a series is none"))
}

fn get_bindings(cursor: &mut Cursor<'_>) -> Result<Vec<(u32, SeriesId)>, Broken> {
    let count = cursor.count(cursor.rest().len() / BINDING_BYTES_MIN, "bindings")?;
    let mut bindings = Vec::with_capacity(count);
    let mut next = 0;
    for _ in 0..count {
        let distance = cursor.signed()?;
        let number = number_of(cursor, next, distance)?;
        let id = SeriesId(u128::from_le_bytes(cursor.take(16)?.try_into().expect("16 bytes")));
        bindings.push((number, id));
        next = i64::from(number) + 1;
    }
    Ok(bindings)
}

fn get_runs(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<(u32, u32)>, Broken> {
    let mut runs = Vec::new();
    let (mut left, mut next) = (count, 0);
    while left > 0 {
        let distance = cursor.signed()?;
        let first = number_of(cursor, next, distance)?;
        let length = cursor.count(left, "samples of a run")?;
        if length == 0 {
            return Err(cursor.broken("a run of no samples"));
        }
        let end = i64::from(first) + length as i64;
        number_of(cursor, end, -1)?;
        runs.push((first, length as u32));
        (left, next) = (left - length, end);
    }
    Ok(runs)
}

fn get_times(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<i64>, Broken> {
    let unit = match cursor.byte()? {
        TIMES_EQUAL => return Ok(vec![cursor.signed()?]),
        TIMES_MS => MS_NS,
        TIMES_NS => 1,
        form => return Err(cursor.broken(format!("{form} is no form of times"))),
    };
    let mut times = Vec::with_capacity(count.min(cursor.rest().len()));
    let mut before = 0_i64;
    for _ in 0..count {
        before = before.wrapping_add(cursor.signed()?);
        times.push(before.wrapping_mul(unit));
    }
    debug_assert!(times.len() == count, "one time that is not for all is of one sample");
    Ok(times)
}
