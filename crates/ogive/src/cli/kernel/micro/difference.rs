//! What threads did between two readings.

use std::collections::HashMap;

use ogive_kernel::micro::Thread;

/// What happened between two readings.
pub(super) fn since(before: &[Thread], now: &[Thread]) -> Vec<Thread> {
    let known: HashMap<u32, &Thread> = before.iter().map(|thread| (thread.tid, thread)).collect();
    // A reused number belongs to a younger thread.
    let earlier = |thread: &Thread| known.get(&thread.tid).filter(|known| known.wall_ns <= thread.wall_ns).copied();
    now.iter().map(|thread| earlier(thread).map_or_else(|| thread.clone(), |known| thread.since(known))).collect()
}
