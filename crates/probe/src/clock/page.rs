//! The clock page: what a process that calibrates publishes for other processes and languages.
//!
//! *Format*: docs/formats/clock-page.md; the words below are in its order. Little-endian, 4,096 bytes, 64-byte lines:
//! identity, the latch (index and shift, two slots), figures. *Invariants*: the first line never changes; the latch is
//! written by one process alone; a page belongs to one publisher, and another one makes a page of its own. *Failure*:
//! bytes that are no page are refused; bytes that are, are a clock, whatever else they say.

use super::latch::Latch;
use super::segment::Segment;
use crate::Error;
use crate::counter::Source;
use crate::memory::Machine;
use std::sync::atomic::{AtomicU64, Ordering};

/// `OGIVECLK`.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"OGIVECLK");
/// Version of the format.
pub(super) const VERSION: u32 = 1;
/// One page of memory on every machine that has smaller ones; more than the format takes.
pub(super) const PAGE_BYTES: usize = 4_096;
/// Words that are used.
const WORDS: usize = 40;

/// The page in memory.
#[repr(C, align(64))]
pub(crate) struct Page {
    /// Magic; version and size; source and process; when it was made.
    pub(super) identity: [AtomicU64; 8],
    pub(super) latch: Latch<Machine>,
    pub(super) figures: [AtomicU64; 8],
}

const _: () = assert!(size_of::<Page>() == WORDS * 8 && WORDS * 8 <= PAGE_BYTES);
const _: () = assert!(cfg!(target_endian = "little"), "the clock page is little-endian");

/// Places in [`Page::figures`].
pub(super) mod figure {
    pub(crate) const TICK_RATE: usize = 0;
    pub(crate) const FREQUENCY_HZ: usize = 1;
    pub(crate) const QUANTUM_TICKS: usize = 2;
    pub(crate) const CALIBRATIONS: usize = 3;
    pub(crate) const FALLBACKS: usize = 4;
    pub(crate) const BACKSTEPS: usize = 5;
    pub(crate) const CPU_OFFSET_NS: usize = 6;
    pub(crate) const CALIBRATED_AT_NS: usize = 7;
}

/// The first line of a page: who publishes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) source: Source,
    pub(super) process: u32,
    pub(super) made_at_ns: u64,
}

impl Identity {
    pub(super) fn to_words(self) -> [u64; 4] {
        [
            MAGIC,
            u64::from(VERSION) | (PAGE_BYTES as u64) << 32,
            self.source as u64 | u64::from(self.process) << 32,
            self.made_at_ns,
        ]
    }

    pub(super) fn from_words(words: [u64; 4]) -> Result<Self, Error> {
        let [magic, form, who, made_at_ns] = words;
        if magic != MAGIC {
            return Err(Error::Page { what: "magic", found: magic });
        }
        if form as u32 != VERSION {
            return Err(Error::Page { what: "version", found: u64::from(form as u32) });
        }
        if form >> 32 < (WORDS * 8) as u64 {
            return Err(Error::Page { what: "size", found: form >> 32 });
        }
        let source = Source::from_u8(u8::try_from(who as u32).unwrap_or(u8::MAX));
        Ok(Self { source, process: (who >> 32) as u32, made_at_ns })
    }
}

impl Page {
    /// The identity, checked.
    pub(super) fn identity(&self) -> Result<Identity, Error> {
        // ORDERING: Relaxed; the first line was written before anybody could open the page.
        Identity::from_words(std::array::from_fn(|at| self.identity[at].load(Ordering::Relaxed)))
    }

    pub(super) fn figure(&self, at: usize) -> u64 {
        // ORDERING: Relaxed; figures, each whole in itself.
        self.figures[at].load(Ordering::Relaxed)
    }

    pub(super) fn set_figure(&self, at: usize, value: u64) {
        // ORDERING: Relaxed; as above.
        self.figures[at].store(value, Ordering::Relaxed);
    }
}

/// A copy of a clock page, to convert stamps with: those of a process that has ended, of a dump, or of another machine.
///
/// For reading the time use [`crate::SharedClock`]; a copy ends with the segment that was in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockPage {
    identity: Identity,
    segment: Segment,
    shift: u32,
    tick_rate: u64,
}

impl ClockPage {
    /// Reads the bytes of a page.
    ///
    /// # Errors
    /// [`Error::Page`] when they are not one.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() < WORDS * 8 {
            return Err(Error::Page { what: "size", found: bytes.len() as u64 });
        }
        let mut words = [0; WORDS];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(chunk.try_into().expect("chunks are of eight bytes"));
        }
        let identity = Identity::from_words(std::array::from_fn(|at| words[at]))?;
        let shift = words[9];
        if shift >= u64::from(Segment::SHIFT_MAX) {
            return Err(Error::Page { what: "shift", found: shift });
        }
        let slot = 16 + 8 * (words[8] & 1) as usize;
        Ok(Self {
            identity,
            segment: Segment::from_words(std::array::from_fn(|at| words[slot + at])),
            shift: shift as u32,
            tick_rate: words[32],
        })
    }

    /// The process that published it.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.identity.process
    }

    /// The source of its ticks.
    #[must_use]
    pub fn source(&self) -> Source {
        self.identity.source
    }

    /// The epoch in which the copy was made.
    #[must_use]
    pub fn epoch(&self) -> u16 {
        self.segment.epoch
    }

    /// Nanoseconds on the CLOCK_MONOTONIC line at `ticks`; `None` outside the segment that was in force.
    #[must_use]
    pub fn ns_at(&self, ticks: u64) -> Option<u64> {
        self.segment.line(ticks, self.shift)
    }

    /// The same since the Unix epoch.
    #[must_use]
    pub fn wall_at(&self, ticks: u64) -> Option<i64> {
        self.ns_at(ticks).map(|ns| (ns as i64).wrapping_add(self.segment.wall_offset_ns))
    }

    /// Nanoseconds from one stamp to a later one; 0 when it is earlier.
    #[must_use]
    pub fn ns_between(&self, from: u64, to: u64) -> u64 {
        super::tick::TickRate(self.tick_rate).ns(to.saturating_sub(from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Mode;

    /// The page of docs/formats/clock-page.md: 2.5 GHz, half way through a life.
    fn example() -> [u64; WORDS] {
        let segment = Segment {
            base_ticks: 5_000_000_000_000,
            base_ns: 2_000_000_000_000,
            rate: 7_378_697_629_483_820_646,
            rate_slewed: 7_378_734_522_971_968_065,
            slew_ticks: 281_250_000,
            max_age: 5_000_000_000,
            wall_offset_ns: 1_700_000_000_000_000_000,
            err_ns: 21,
            drift_ppb: 4,
            epoch: 3,
            mode: Mode::Counter,
        };
        let identity = Identity { source: Source::TscLfence, process: 4_242, made_at_ns: 1_990_000_000_000 };
        let mut words = [0; WORDS];
        words[..4].copy_from_slice(&identity.to_words());
        words[8] = 101; // The index: slot 1 is in force.
        words[16..24].copy_from_slice(&Segment { base_ns: 1_999_900_000_000, ..segment }.to_words());
        words[24..32].copy_from_slice(&segment.to_words());
        words[32..].copy_from_slice(&[1_717_986_918, 2_500_000_000, 2, 1_000, 1, 0, 5, 1_999_999_990_000]);
        words
    }

    fn bytes_of(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn the_vector_is_the_example() {
        let mut hex = String::new();
        for line in bytes_of(&example()).chunks(32) {
            hex.extend(line.iter().map(|byte| format!("{byte:02x}")));
            hex.push('\n');
        }
        let stored = include_str!("../../../../vectors/clock/page.hex");
        assert_eq!(stored, hex, "write this to vectors/clock/page.hex:\n{hex}");
    }

    #[test]
    fn a_page_is_read() {
        let page = ClockPage::parse(&bytes_of(&example())).expect("a page");
        assert_eq!((page.process(), page.source(), page.epoch()), (4_242, Source::TscLfence, 3));
        assert_eq!(page.ns_at(5_000_000_000_000), Some(2_000_000_000_000), "the start of the segment in force");
        assert_eq!(page.ns_at(4_999_999_999_999), None);
        assert_eq!(page.ns_at(5_005_000_000_000), None, "its end");
        assert_eq!(page.wall_at(5_000_000_000_000), Some(1_700_002_000_000_000_000));
        assert_eq!((page.ns_between(0, 2_500_000_000), page.ns_between(5, 3)), (999_999_999, 0));
    }

    #[test]
    fn a_changed_or_cut_page_is_refused() {
        let bytes = bytes_of(&example());
        for length in 0..bytes.len() {
            assert!(matches!(ClockPage::parse(&bytes[..length]), Err(Error::Page { what: "size", .. })), "{length}");
        }
        for (at, what) in [(0, "magic"), (7, "magic"), (8, "version"), (11, "version"), (12, "size"), (72, "shift")] {
            let mut bytes = bytes.clone();
            bytes[at] = if what == "size" { 1 } else { 77 };
            if what == "size" {
                bytes[13] = 0;
            }
            assert!(matches!(ClockPage::parse(&bytes), Err(Error::Page { what: found, .. }) if found == what), "{at}");
        }
    }

    /// Whatever stands in a page that another process wrote, reading it gives a number or nothing.
    #[test]
    fn mutated_pages_do_no_harm() {
        let mut state = 0x5eed_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 16
        };
        for _ in 0..50_000 {
            let mut bytes = bytes_of(&example());
            for _ in 0..4 {
                let at = next() as usize % bytes.len();
                bytes[at] = next() as u8;
            }
            if let Ok(page) = ClockPage::parse(&bytes) {
                for ticks in [0, 5_000_000_000_000 + next() % 5_000_000_000, u64::MAX] {
                    let _ = (page.ns_at(ticks), page.wall_at(ticks), page.ns_between(next(), ticks), page.epoch());
                }
            }
        }
    }
}
