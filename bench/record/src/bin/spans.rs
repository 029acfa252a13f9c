//! What does it add to eight stages of about 100 ns to trace them: as an Ogive path of eight points, and as spans of
//! `tracing` in a `Registry` alone, one a stage?

#[path = "../../../../crates/hist/benches/common/timing.rs"]
mod timing;

use std::hint::black_box;

use ogive_probe::{Clock, Threshold, TraceRecorder, trace_path};
use timing::{contender, machine, time};

const MESSAGES: usize = 2_000;

trace_path! { Unordered { p0: infra, p1: infra, p2: infra, p3: logic, p4: logic, p5: infra, p6: infra, p7: infra } }

/// Some 100 ns on a CPU of 3 GHz, in which each step waits for the one before.
fn stage(state: &mut u64) {
    for _ in 0..60 {
        *state = state.wrapping_mul(*state | 1) ^ 0x9e37_79b9;
    }
    *state = black_box(*state);
}

fn main() {
    let clock = Clock::global();
    std::thread::sleep(std::time::Duration::from_millis(100));
    println!("{}", machine());
    let recorder = TraceRecorder::<Unordered>::new(clock, Threshold::fixed_ns(u64::MAX));
    let writer = recorder.handle("bench");
    let registry = tracing::Dispatch::new(tracing_subscriber::registry());
    let mut states = [1_u64; 3];
    let [bare, traced, spans] = &mut states;
    let mut contenders = vec![
        contender("eight stages, bare", MESSAGES, || (0..MESSAGES * 8).for_each(|_| stage(bare))),
        contender("with an Ogive trace", MESSAGES, || {
            for _ in 0..MESSAGES {
                stage(traced);
                let mut message = Unordered::begin(clock);
                let points = [Unordered::p1, Unordered::p2, Unordered::p3, Unordered::p4, Unordered::p5, Unordered::p6];
                for point in points.into_iter().chain([Unordered::p7]) {
                    stage(traced);
                    message.mark(clock, point);
                }
                writer.finish(&message);
            }
        }),
        contender("with spans of tracing, Registry alone", MESSAGES, || {
            tracing::dispatcher::with_default(&registry, || {
                for _ in 0..MESSAGES * 8 {
                    let _entered = tracing::info_span!("stage").entered();
                    stage(spans);
                }
            });
        }),
    ];
    time("per message", &mut contenders, 101);
    println!("finished and counted: {}", recorder.snapshot().total.count);
}
