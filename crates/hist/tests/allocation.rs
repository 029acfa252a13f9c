//! How much memory reading bytes may take: at most 16 times the input, and a little.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use ogive_hist::openhistogram::{decode, decode_base64, encode};
use ogive_hist::{BINS_PER_SIGN, Histogram};

/// Counts the bytes held, and the most that were held.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed on to the system's allocator unchanged; counting touches only atomics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // ORDERING: Relaxed; the test reads the counters in the one thread that allocates.
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
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

/// The most that was held while `work` ran, beyond what was held before.
fn most_during<T>(work: impl FnOnce() -> T) -> usize {
    // ORDERING: Relaxed; this file has one test, so one thread allocates.
    let before = HELD.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let result = work();
    let most = MOST.load(Ordering::Relaxed) - before;
    drop(result);
    most
}

/// Room for the smallest vectors, whatever the input.
const LITTLE: usize = 1024;

#[test]
fn reading_takes_at_most_sixteen_times_the_input() {
    let check = |name: &str, bytes: &[u8]| {
        let most = most_during(|| decode(bytes));
        assert!(most <= 16 * bytes.len() + LITTLE, "{name}: {most} bytes for {}", bytes.len());
    };
    for (name, sides) in [("positive", [false, true]), ("negative", [true, false]), ("both", [true, true])] {
        let mut histogram = Histogram::log_linear();
        for index in 0..BINS_PER_SIGN {
            if sides[0] {
                histogram.negative.push(index, 1);
            }
            if sides[1] {
                histogram.positive.push(index, 1);
            }
        }
        histogram.recount();
        let mut bytes = encode(&histogram).unwrap();
        check(name, &bytes);
        let text = base64(&bytes);
        let most = most_during(|| decode_base64(&text));
        assert!(most <= 16 * text.len() + LITTLE, "{name}: {most} bytes for {} of base64", text.len());
        // Bins in the wrong order, as 4-byte chunks turned round.
        let reversed: Vec<u8> = bytes[2..].chunks(4).rev().flatten().copied().collect();
        bytes.truncate(2);
        bytes.extend(reversed);
        check(name, &bytes);
    }
    // A large claim without bins behind it.
    check("claim", &[0xb4, 0x02]);
    check("claim", &[0xff, 0xff]);
    check("claim", &[0xb4, 0x02, 10, 0, 0, 1]);
}

/// Standard base64, for input only.
fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
