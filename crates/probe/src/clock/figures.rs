//! What the calibration reports about itself: figures that one thread writes and everybody may read.
//!
//! *Threads*: one writer, the calibration's; any number of readers, who never wait. Each figure is whole in itself; a
//! name is guarded by a version, and a reader that finds it being written again and again takes none. *Invariants*:
//! nothing here is a lock, so a child of fork that was made in the middle of a write reads on, and its own calibration
//! repairs the name.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Words of a kernel clock source's name: 32 bytes, the kernel's limit (`CS_NAME_LEN`).
pub(super) const NAME_WORDS: usize = 4;
/// Words of the list of the kernel's clock sources: six names of ten bytes.
pub(super) const NAMES_WORDS: usize = 8;
/// Attempts of a reader while the text is being written; the writer writes once a second.
const TEXT_TURNS: usize = 16;

/// A figure: a number that is written by one thread.
#[derive(Debug, Default)]
pub(super) struct Figure(AtomicU64);

impl Figure {
    pub(super) const fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    #[inline(always)]
    pub(super) fn get(&self) -> u64 {
        // ORDERING: Relaxed; a figure for people, whole in itself.
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, value: u64) {
        // ORDERING: Relaxed; as in `get`.
        self.0.store(value, Ordering::Relaxed);
    }

    /// One more; for the one writer.
    pub(super) fn count(&self) {
        self.set(self.get().wrapping_add(1));
    }

    pub(super) fn get_f64(&self) -> f64 {
        f64::from_bits(self.get())
    }

    pub(super) fn set_f64(&self, value: f64) {
        self.set(value.to_bits());
    }
}

/// A short text of one writer.
#[derive(Debug)]
pub(super) struct Text<const WORDS: usize> {
    /// Odd while the words are written.
    version: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl<const WORDS: usize> Text<WORDS> {
    pub(super) const fn new() -> Self {
        Self { version: AtomicU64::new(0), words: [const { AtomicU64::new(0) }; WORDS] }
    }

    /// Writes `text`, cut to what fits. Only the writer calls this.
    pub(super) fn set(&self, text: &str) {
        let mut bytes = text.as_bytes().iter().copied().chain(std::iter::repeat(0));
        // ORDERING: Relaxed; this thread alone writes the version.
        let writing = self.version.load(Ordering::Relaxed) | 1;
        // ORDERING: Relaxed, and the Release fence pairs with the Acquire fence in `get`: who sees a word of this text
        // then sees the odd version, or a later one.
        self.version.store(writing, Ordering::Relaxed);
        fence(Ordering::Release);
        for word in &self.words {
            let chunk = std::array::from_fn(|_| bytes.next().unwrap_or(0));
            // ORDERING: Relaxed; between the fence above and the Release below.
            word.store(u64::from_le_bytes(chunk), Ordering::Relaxed);
        }
        // ORDERING: Release; pairs with the Acquire in `get`; publishes the words.
        self.version.store(writing.wrapping_add(1), Ordering::Release);
    }

    /// The text; empty when none was written, or when every attempt was disturbed.
    pub(super) fn get(&self) -> String {
        for _ in 0..TEXT_TURNS {
            // ORDERING: Acquire; pairs with the Release in `set`.
            let version = self.version.load(Ordering::Acquire);
            // ORDERING: Relaxed; checked by the second look at the version.
            let words: [u64; WORDS] = std::array::from_fn(|at| self.words[at].load(Ordering::Relaxed));
            // ORDERING: Acquire; pairs with the Release fence in `set`.
            fence(Ordering::Acquire);
            // ORDERING: Relaxed; the fence orders it after the words.
            if version & 1 == 0 && self.version.load(Ordering::Relaxed) == version {
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).take_while(|b| *b != 0).collect();
                return String::from_utf8_lossy(&bytes).into_owned();
            }
            std::hint::spin_loop();
        }
        String::new()
    }
}

/// Everything that [`super::Status`] shows and the latch does not hold.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) quantum_ticks: Figure,
    /// Megahertz, the bits of an f64; 0 before it is known.
    pub(super) frequency_mhz: Figure,
    pub(super) drift_ppb: Figure,
    pub(super) calibrations: Figure,
    pub(super) fallbacks: Figure,
    pub(super) backsteps: Figure,
    pub(super) rejected: Figure,
    pub(super) interruptions: Figure,
    /// CLOCK_MONOTONIC of the last sample that was used; 0 before the first.
    pub(super) calibrated_at_ns: Figure,
    /// [`super::OsReason`] as a number.
    pub(super) os_reason: Figure,
    /// How many CPUs were compared, and the largest offset between two of them; 0 CPUs before the first comparison.
    pub(super) cpus_compared: Figure,
    pub(super) cpu_offset_ns: Figure,
    /// Nanoseconds a reading costs, bits of f64.
    pub(super) cost_ticks: Figure,
    pub(super) cost_ticks_ordered: Figure,
    pub(super) cost_now_unordered: Figure,
    pub(super) cost_now: Figure,
    pub(super) cost_os: Figure,
    /// 1 when the machine has a vmclock device.
    pub(super) vm_clock: Figure,
    pub(super) os_clock_source: Text<NAME_WORDS>,
    pub(super) os_clock_sources: Text<NAMES_WORDS>,
    pub(super) os_clock_source_changes: Figure,
}

impl Figures {
    pub(super) const fn new() -> Self {
        Self {
            quantum_ticks: Figure::new(1),
            frequency_mhz: Figure::new(0),
            drift_ppb: Figure::new(0),
            calibrations: Figure::new(0),
            fallbacks: Figure::new(0),
            backsteps: Figure::new(0),
            rejected: Figure::new(0),
            interruptions: Figure::new(0),
            calibrated_at_ns: Figure::new(0),
            os_reason: Figure::new(0),
            cpus_compared: Figure::new(0),
            cpu_offset_ns: Figure::new(0),
            cost_ticks: Figure::new(0),
            cost_ticks_ordered: Figure::new(0),
            cost_now_unordered: Figure::new(0),
            cost_now: Figure::new(0),
            cost_os: Figure::new(0),
            vm_clock: Figure::new(0),
            os_clock_source: Text::new(),
            os_clock_sources: Text::new(),
            os_clock_source_changes: Figure::new(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_reads_back_whole_or_cut() {
        let text = Text::<2>::new();
        assert_eq!(text.get(), "");
        for (written, read) in [
            ("tsc", "tsc"),
            ("0123456789abcdef", "0123456789abcdef"),
            ("0123456789abcdefg", "0123456789abcdef"),
            ("", ""),
        ] {
            text.set(written);
            assert_eq!(text.get(), read);
        }
    }

    #[test]
    fn a_writer_that_died_in_the_middle_leaves_no_text_and_no_wait() {
        let text = Text::<1>::new();
        text.set("tsc");
        text.version.fetch_or(1, Ordering::Relaxed);
        assert_eq!(text.get(), "");
        text.set("hpet");
        assert_eq!(text.get(), "hpet");
    }

    #[test]
    fn no_reader_sees_half_of_a_text() {
        let text = Text::<4>::new();
        let names = ["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"];
        text.set(names[0]);
        std::thread::scope(|scope| {
            scope.spawn(|| (0..20_000).for_each(|turn| text.set(names[turn % 2])));
            for _ in 0..20_000 {
                let read = text.get();
                assert!(read.is_empty() || names.contains(&read.as_str()), "{read}");
            }
        });
    }
}
