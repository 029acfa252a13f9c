//! How much memory the process holds, as the system and the allocator count it.
//!
//! Invariants: the parts of [`figures`] and `memory_other_bytes` add up to `memory_anonymous_bytes`, unless the parts
//! are more.

use std::sync::OnceLock;

use ogive_probe::ProcessMemory;

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The series of [`figures`] and what they say.
pub const HELP: [(&str, &str); 5] = [
    ("ogive_memory_anonymous_bytes", "Memory of the process that the system counts and no file backs."),
    ("ogive_memory_start_bytes", "What an empty server needs of it."),
    (
        "ogive_memory_other_bytes",
        "What neither the start nor heads, series, indexes, the query cache and sequences account for.",
    ),
    ("ogive_memory_allocated_bytes", "What the program has allocated and not freed."),
    ("ogive_memory_peak_bytes", "The most memory that the process ever had resident."),
];

/// What was held when the server had opened its store, without the parts that are counted by themselves.
static START: OnceLock<u64> = OnceLock::new();

/// Remembers what is held now as what an empty server needs: relocated pages of the binary, stacks, rings, tables of
/// traces, buffers of the journal, the allocator's own state. `parts` is what [`figures`] counts by itself.
pub fn started(parts: u64) {
    let _ = START.set(anonymous().saturating_sub(parts));
}

/// Bytes of the process' memory by name; `parts` are those of the store, counted where they are held.
pub fn figures(parts: u64) -> Vec<(&'static str, u64)> {
    let memory = ProcessMemory::now();
    let anonymous = memory.map_or(0, |memory| memory.anonymous_bytes);
    let start = START.get().copied().unwrap_or(0);
    vec![
        ("memory_anonymous_bytes", anonymous),
        ("memory_start_bytes", start),
        ("memory_other_bytes", anonymous.saturating_sub(start + parts)),
        ("memory_allocated_bytes", allocated()),
        ("memory_peak_bytes", memory.map_or(0, |memory| memory.peak_bytes)),
    ]
}

/// Bytes of memory that the system counts for the process and that no file backs; 0 where it does not say.
fn anonymous() -> u64 {
    ProcessMemory::now().map_or(0, |memory| memory.anonymous_bytes)
}

/// Bytes that the program has allocated and not freed; 0 where another allocator is in use.
fn allocated() -> u64 {
    // The statistics are a copy that is renewed by this call.
    let _ = tikv_jemalloc_ctl::epoch::advance();
    tikv_jemalloc_ctl::stats::allocated::read().map_or(0, |bytes| bytes as u64)
}

/// 64 MiB of freed pages that the allocator may keep before they are given back at once: as much as all bodies
/// together. The background thread gives the rest back within ten seconds.
const FREED_BYTES_MAX: usize = 64 << 20;

/// Gives freed pages back to the system when the allocator keeps more than 64 MiB of them, and returns how many bytes
/// that was. It keeps them for each arena apart: what a large request has freed on one thread, the next one on another
/// thread would take from the system again, so that a row of them holds many times what is in use. Looking costs some
/// microseconds.
pub fn give_back_freed() -> usize {
    let freed = freed();
    if freed <= FREED_BYTES_MAX {
        return 0;
    }
    crate::purge::all_arenas();
    freed.saturating_sub(self::freed())
}

/// Bytes of pages that were freed and are resident; 0 where another allocator is in use.
fn freed() -> usize {
    use tikv_jemalloc_ctl::stats::{active, metadata, resident};
    // The statistics are a copy that is renewed by this call.
    let _ = tikv_jemalloc_ctl::epoch::advance();
    let in_use = active::read().unwrap_or(0) + metadata::read().unwrap_or(0);
    resident::read().unwrap_or(0).saturating_sub(in_use)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Both look at what the whole process has.
    static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn what_is_held_is_counted_and_what_was_freed_is_not() {
        const BYTES: u64 = 64 << 20;
        let _alone = ALONE.lock();
        let before = allocated();
        let held = std::hint::black_box(vec![1_u8; BYTES as usize]);
        let during = allocated();
        drop(held);
        let after = allocated();
        // Other tests of this process allocate meanwhile, far less than this.
        assert!(during >= before + BYTES / 2, "{before} {during}");
        assert!(after <= during - BYTES / 2, "{during} {after}");
    }

    /// Forty batches of 50,000 histograms were read on threads of as many arenas as there are: 160 MiB were in use, and
    /// up to 409 were resident, since each arena kept what it had freed for ten seconds.
    #[test]
    fn freed_pages_of_all_arenas_are_given_back() {
        let _alone = ALONE.lock();
        // As small as what a histogram takes, on as many threads at once as there may be arenas.
        let held = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let each: Vec<_> = (0..80_000).map(|_| std::hint::black_box(Box::new([1_u8; 256]))).collect();
                    held.wait();
                    drop(each);
                });
            }
        });
        let before = freed();
        assert!(before > FREED_BYTES_MAX, "{before}");
        assert!(give_back_freed() > 0);
        assert!(freed() < FREED_BYTES_MAX, "{}", freed());
        assert_eq!(give_back_freed(), 0, "it is done once");
    }
}
