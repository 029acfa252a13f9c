//! Stamping and finishing take no memory: not when all is well, nor for slow, partial, incomplete or clamped messages.

use ogive_probe::{Clock, MarkList, Threshold, TraceRecorder, trace_path};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

trace_path! { Order { recv: infra @ordered, decode: infra, matched: logic, publish: infra @ordered } }

struct Counting;

static CALLS: AtomicUsize = AtomicUsize::new(0);

std::thread_local! {
    /// The clock's thread may allocate; only this test's thread is looked at.
    static COUNTED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

// SAFETY: every call is handed on to the system's allocator unchanged; counting touches a flag and an atomic word.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTED.get() {
            // ORDERING: Relaxed; the counted thread reads it.
            CALLS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: `memory` came from `alloc` above, so from the system's allocator, with this layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn the_hot_path_allocates_nothing() {
    let clock = Clock::global();
    let recorder = TraceRecorder::<Order>::new(clock, Threshold::fixed_ns(500));
    let writer = recorder.handle("engine");
    let (marker, names) = (recorder.marker(), ["publish", "acknowledge"].map(|name| recorder.mark_name(name)));
    let warm = |number: u64| {
        let (mut order, mut list) = (Order::begin(clock), MarkList::new());
        (0..number % 70).for_each(|mark| list.mark(clock, &marker, names[mark as usize % 2]));
        order.mark(clock, Order::publish);
        writer.finish_listed(&order, &list);
    };
    // The first marks of a name make its table, on each of the writer's two sides.
    for _ in 0..2 {
        warm(4);
        let _ = recorder.snapshot();
    }
    COUNTED.set(true);
    for number in 0..100_000_u64 {
        let mut order = Order::begin(clock);
        order.mark(clock, Order::decode);
        if !number.is_multiple_of(7) {
            order.mark(clock, Order::matched);
        }
        match number % 11 {
            0 => {}
            1 => order.mark_at(Order::publish, 5),
            2 => order.mark_at(Order::publish, u64::MAX),
            _ => order.mark(clock, Order::publish),
        }
        writer.finish(&order);
        if number.is_multiple_of(10) {
            warm(number);
        }
    }
    COUNTED.set(false);
    assert_eq!(CALLS.load(Ordering::Relaxed), 0);
    let cell = recorder.snapshot();
    assert!(cell.is_conserved() && cell.counts.slow > 5_000 && cell.counts.clamped > 5_000, "{:?}", cell.counts);
    COUNTED.set(true);
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(CALLS.load(Ordering::Relaxed), 1, "an allocation is seen");
}
