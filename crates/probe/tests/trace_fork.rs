//! Traces in a child of fork. Alone in its process: a fork while another test holds a lock would leave it held for
//! ever.
#![cfg(all(target_os = "linux", not(miri)))]

use ogive_probe::{Clock, Threshold, TraceRecorder, trace_path};

trace_path! { Order { recv: infra @ordered, matched: logic, publish: infra @ordered } }

const NEVER: Threshold = Threshold::fixed_ns(u64::MAX);

fn quick(clock: Clock) -> Order {
    let mut order = Order::begin(clock);
    order.mark(clock, Order::matched);
    order.mark(clock, Order::publish);
    order
}

/// In a child of fork, the forking thread's recorder goes on, with what the parent had not taken; new ones work too.
#[test]
fn a_child_of_fork_goes_on() {
    let clock = Clock::global();
    let recorder = TraceRecorder::<Order>::new(clock, NEVER);
    let writer = recorder.handle("engine");
    (0..10).for_each(|_| writer.finish(&quick(clock)));
    let child = |recorder: &TraceRecorder<Order>, inherited: u64| {
        let writer = recorder.handle("child");
        (0..1_000).for_each(|_| writer.finish(&quick(clock)));
        let cell = recorder.snapshot();
        cell.is_conserved() && cell.counts.finished == 1_000 + inherited && cell.total.count > 990
    };
    // SAFETY: the child calls nothing but this crate, the allocator (whose locks glibc makes usable) and `_exit`.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let well = child(&recorder, 10) && child(&TraceRecorder::new(clock, NEVER), 0);
        // SAFETY: `_exit` ends the child without its parent's handlers.
        unsafe { libc::_exit(i32::from(!well)) };
    }
    let mut status = -1;
    // SAFETY: `status` is valid for the call.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert_eq!((status, recorder.snapshot().counts.finished), (0, 10), "the child found what it should");
}
