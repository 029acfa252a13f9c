//! How much memory the process holds, as the system and the allocator count it.
//!
//! Invariants: the parts of [`figures`] and `memory_other_bytes` add up to `memory_anonymous_bytes`, unless the parts are more.

use std::sync::OnceLock;

use ogive_probe::ProcessMemory;

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The series of [`figures`] and what they say.
pub const HELP: [(&str, &str); 5] = [
    ("ogive_memory_anonymous_bytes", "Memory of the process that the system counts and no file backs."),
    ("ogive_memory_start_bytes", "What an empty server needs of it."),
    ("ogive_memory_other_bytes", "What neither the start nor heads, series, indexes and sequences account for."),
    ("ogive_memory_allocated_bytes", "What the program has allocated and not freed."),
    ("ogive_memory_peak_bytes", "The most memory that the process ever had resident."),
];

/// What was held when the server had opened its store, without the parts that are counted by themselves.
static START: OnceLock<u64> = OnceLock::new();

/// Remembers what is held now as what an empty server needs: relocated pages of the binary, stacks, rings, tables of traces,
/// buffers of the journal, the allocator's own state. `parts` is what [`figures`] counts by itself.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_counted_and_what_was_freed_is_not() {
        const BYTES: u64 = 64 << 20;
        let before = allocated();
        let held = std::hint::black_box(vec![1_u8; BYTES as usize]);
        let during = allocated();
        drop(held);
        let after = allocated();
        // Other tests of this process allocate meanwhile, far less than this.
        assert!(during >= before + BYTES / 2, "{before} {during}");
        assert!(after <= during - BYTES / 2, "{during} {after}");
    }
}
