//! The clock's first second, alone in its process: from the system's clock to the counter without a step back.

use ogive_probe::{Clock, Mode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[test]
fn the_counter_takes_over_without_a_step_back_in_any_thread() {
    let (last, stop) = (Mutex::new((0_u64, 0_u64)), AtomicBool::new(false));
    let falls = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    // Whoever has the lock has heard from everybody who had it before.
                    let mut last = last.lock().expect("no reader failed");
                    let now = Clock::global().now();
                    if now < last.0 {
                        falls.lock().expect("no reader failed").push((last.0, now));
                    }
                    *last = (now, last.1 + 1);
                }
            });
        }
        let start = Instant::now();
        let counter = Clock::global().status().source.is_counter();
        while counter && Clock::global().status().mode == Mode::Os && start.elapsed().as_secs() < 10 {
            std::thread::sleep(Duration::from_millis(1));
        }
        println!("the counter took over after {:?}", start.elapsed());
        // Some periods more: the rate sharpens and the phase is corrected.
        std::thread::sleep(Duration::from_millis(500));
        stop.store(true, Ordering::Relaxed);
    });
    let status = Clock::global().status();
    println!("{} readings; {status:?}", last.lock().expect("no reader failed").1);
    // A thread that is kept off the processor for long publishes late; the clock counts how often a reader may have
    // seen that.
    let falls = falls.into_inner().expect("no reader failed");
    assert!(falls.len() as u64 <= status.backsteps, "{falls:?}, and {} were reported", status.backsteps);
}
