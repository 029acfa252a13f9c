//! A hundred thousand recorders at once: what they take, and that nothing is lost as their memory comes and goes.

use ogive_probe::{Recorder, SparseWriter, snapshot_all};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Counts the bytes held.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed on to the system's allocator unchanged; counting touches only an atomic word.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // ORDERING: Relaxed; the memory test looks when no other thread runs.
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // ORDERING: Relaxed, as above.
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `memory` came from `alloc` above, so from the system's allocator, with this layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One test, so that one thread allocates.
#[test]
fn many_recorders_stay_within_the_stated_memory_and_lose_nothing() {
    conserved_while_pages_come_and_go();
    writers_that_go_leave_their_records();
    memory_of(100_000, 20);
}

/// Bytes for each recorder: idle, in use within a factor of five, and idle again. A tenth is used, since snapshots of
/// all take long in a test's build.
fn memory_of(recorders: usize, records: u64) {
    let held = || HELD.load(Ordering::Relaxed);
    let before = held();
    let new = |_| {
        let recorder = Recorder::new();
        let writer = recorder.handle_sparse();
        (recorder, writer)
    };
    let all: Vec<(Recorder, SparseWriter)> = (0..recorders).map(new).collect();
    let idle = (held() - before) / recorders;
    let used = &all[..recorders / 10];
    let extra = || idle + (held() - before).saturating_sub(idle * recorders) / used.len();
    let (mut made, mut seen, mut in_use) = (0, 0, 0);
    // Twice, so that both sides of each are used.
    for cell in 0..2 {
        for (number, (_, writer)) in used.iter().enumerate() {
            let base = 100_000 << (number % 5);
            (0..records).for_each(|record| writer.record_ns(base + base * 4 * record / records + cell));
            made += records;
        }
        in_use = extra();
        seen += count(used.iter().map(|(recorder, _)| recorder));
    }
    for _ in 0..12 {
        seen += count(used.iter().map(|(recorder, _)| recorder));
    }
    let after = extra();
    println!("bytes for each of {recorders}: idle {idle}, in use {in_use}, idle again {after}");
    assert_eq!(seen, made);
    assert!(idle <= 850, "{idle} bytes");
    assert!(in_use <= 2_000, "{in_use} bytes");
    assert!(after <= idle + 10, "{after} bytes: pages that are not used go");
}

fn count<'a>(recorders: impl Iterator<Item = &'a Recorder>) -> u64 {
    snapshot_all(recorders).iter().map(|cell| cell.count).sum()
}

/// A writer goes over all magnitudes and stays away from each for a while, while snapshots are taken as fast as can be:
/// pages come in the writer and go in the reader.
fn conserved_while_pages_come_and_go() {
    const RECORDS: u64 = 400_000;
    let (recorder, done) = (Recorder::new(), AtomicBool::new(false));
    let (mut seen, mut sum_ns, mut snapshots) = (0, 0.0, 0_u64);
    std::thread::scope(|scope| {
        let (writer, done) = (recorder.handle_sparse(), &done);
        scope.spawn(move || {
            for record in 0..RECORDS {
                writer.record_ns(1 << (record / 1_000 % 40));
                if record % 20_000 == 19_999 {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            let cell = recorder.snapshot();
            seen += cell.count;
            sum_ns += cell.sum.unwrap_or(0.0) * 1e9;
            assert!(recorder.live().count <= RECORDS);
            snapshots += 1;
        }
    });
    let cell = recorder.snapshot();
    let expected: f64 = (0..RECORDS).map(|record| (1_u64 << (record / 1_000 % 40)) as f64).sum();
    assert_eq!(seen + cell.count, RECORDS, "{snapshots} snapshots");
    assert!(((sum_ns + cell.sum.unwrap_or(0.0) * 1e9) / expected - 1.0).abs() < 1e-6);
}

/// Some writers' records are kept as they are, those of more in one table.
fn writers_that_go_leave_their_records() {
    let recorder = Recorder::new();
    for (writers, ns) in [(3, 10), (8, 100), (30, 1_000)] {
        (0..writers).for_each(|_| recorder.handle_sparse().record_ns(ns));
        recorder.record_ns(ns);
        let mixed = recorder.handle();
        mixed.record_ns(ns);
        assert_eq!(recorder.live().count, writers + 2);
        let cell = recorder.snapshot();
        assert_eq!((cell.count, recorder.writers()), (writers + 2, 1));
        assert_eq!(cell.min, cell.max);
    }
    (0..30).for_each(|_| recorder.handle_sparse().record_ns(5));
    assert_eq!((recorder.snapshot().count, recorder.snapshot().count, recorder.writers()), (30, 0, 0));
}
