//! A record of the journal from a batch of floats.

use ogive_model::{SeriesId, SourceId, Tenant};

use super::{MAGIC, MS_NS, TIMES_EQUAL, TIMES_MS, TIMES_NS, VERSION, values};
use crate::bytes::{put_signed, put_tenant, put_varint};

/// Samples for which there is room between records, some 8 MiB: enough for usual batches, little to keep.
const SAMPLES_KEPT: usize = 1 << 17;

/// Makes records; what it allocates serves the next one.
#[derive(Default)]
pub(crate) struct RecordEncoder {
    out: Vec<u8>,
    /// Numbers that are named in full.
    bindings: Vec<(u32, SeriesId)>,
    /// First numbers of runs, and how many follow each other.
    runs: Vec<(u32, u32)>,
    times: Vec<i64>,
    controls: Vec<u8>,
    bytes: Vec<u8>,
}

/// Whose record it is.
pub(crate) struct RecordHead<'a> {
    pub(crate) tenant: &'a Tenant,
    pub(crate) source: SourceId,
    pub(crate) sequence: u64,
    /// In which part of the journal its numbers mean something.
    pub(crate) part: u32,
}

impl RecordEncoder {
    /// Forgets the record before, and gives back what only a giant one needs.
    pub(crate) fn clear(&mut self) {
        self.out.clear();
        self.bindings.clear();
        self.runs.clear();
        self.times.clear();
        self.controls.clear();
        self.bytes.clear();
        self.out.shrink_to(8 * SAMPLES_KEPT);
        self.bindings.shrink_to(SAMPLES_KEPT);
        self.runs.shrink_to(SAMPLES_KEPT);
        self.times.shrink_to(SAMPLES_KEPT);
        self.controls.shrink_to(SAMPLES_KEPT);
        self.bytes.shrink_to(8 * SAMPLES_KEPT);
    }

    /// Says which series a number is; in the order of the numbers, each once.
    pub(crate) fn bind(&mut self, number: u32, id: SeriesId) {
        debug_assert!(self.bindings.last().is_none_or(|last| last.0 < number), "{number} is out of order");
        self.bindings.push((number, id));
    }

    /// Adds a sample.
    #[inline]
    pub(crate) fn push(&mut self, number: u32, time_ns: i64, value: f64) {
        match self.runs.last_mut() {
            Some((first, count)) if first.checked_add(*count) == Some(number) => *count += 1,
            _ => self.runs.push((number, 1)),
        }
        self.times.push(time_ns);
        values::put(&mut self.controls, &mut self.bytes, value);
    }

    /// The record of what was added.
    pub(crate) fn finish(&mut self, head: &RecordHead<'_>) -> &[u8] {
        let out = &mut self.out;
        out.extend_from_slice(&MAGIC);
        out.push(VERSION);
        out.extend_from_slice(&head.part.to_le_bytes());
        put_tenant(out, head.tenant);
        out.extend_from_slice(&head.source.0.to_le_bytes());
        put_varint(out, head.sequence);
        put_varint(out, self.controls.len() as u64);
        put_varint(out, self.bindings.len() as u64);
        let mut next = 0;
        for (number, id) in &self.bindings {
            put_signed(out, i64::from(*number) - next);
            out.extend_from_slice(&id.0.to_le_bytes());
            next = i64::from(*number) + 1;
        }
        let mut next = 0;
        for (first, count) in &self.runs {
            put_signed(out, i64::from(*first) - next);
            put_varint(out, u64::from(*count));
            next = i64::from(*first) + i64::from(*count);
        }
        put_times(out, &self.times);
        out.extend_from_slice(&self.controls);
        out.extend_from_slice(&self.bytes);
        out
    }
}

/// One for all, or each as its distance from the one before.
fn put_times(out: &mut Vec<u8>, times: &[i64]) {
    let Some((first, rest)) = times.split_first() else { return };
    if rest.iter().all(|time| time == first) {
        out.push(TIMES_EQUAL);
        return put_signed(out, *first);
    }
    let is_ms = times.iter().all(|time| time % MS_NS == 0);
    out.push(if is_ms { TIMES_MS } else { TIMES_NS });
    let unit = if is_ms { MS_NS } else { 1 };
    let mut before = 0;
    for time in times {
        let time = time / unit;
        put_signed(out, time.wrapping_sub(before));
        before = time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a batch of a million samples needed stayed with the journal's writer for good.
    #[test]
    fn a_giant_record_leaves_little_room_behind() {
        let mut encoder = RecordEncoder::default();
        for number in 0..1_000_000 {
            encoder.bind(number, SeriesId(number.into()));
            // Each a run of its own, with all its bits.
            encoder.push(2 * number, number.into(), f64::from(number) / 7.0);
        }
        let head = RecordHead { tenant: &Tenant::default(), source: SourceId(1), sequence: 1, part: 1 };
        assert!(encoder.finish(&head).len() > 24 << 20);
        encoder.clear();
        let RecordEncoder { out, bindings, runs, times, controls, bytes } = &encoder;
        let held = [out.capacity(), 32 * bindings.capacity(), 8 * runs.capacity(), 8 * times.capacity()];
        assert!(held.iter().sum::<usize>() + controls.capacity() + bytes.capacity() <= 9 << 20, "{held:?}");
    }
}
