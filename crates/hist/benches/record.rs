//! What does one record cost, beside reading the clock and beside the hdrhistogram and histogram crates? And merge, and
//! quantiles?
//!
//! All contenders run in turn, round after round, in one process, so that a noisy machine disturbs all alike; the time
//! is the thread's CPU time, so that waiting for a CPU does not count; each round's ratio is taken within the round.
//! Printed: nanoseconds per operation (median, least, greatest round) and the ratio to the first of its group (median).
//! `cargo bench -p ogive-hist --bench record`; `ROUNDS=n` for more rounds.

#[path = "common/streams.rs"]
mod streams;
#[path = "common/timing.rs"]
mod timing;

use std::hint::black_box;

use hdrhistogram::Histogram as Hdr;
use ogive_hist::{FLAT_BINS, FlatFloatRecorder, FlatRecorder, Histogram, NanosecondIndex};
use streams::{log_normal, mixed};
use timing::{contender, machine, time};

/// Values per round: 4 MiB of nanoseconds, more than a second-level cache holds, as a stream of values is.
const VALUES: usize = 1 << 19;

/// Rounds unless `ROUNDS` says otherwise.
const ROUNDS: usize = 11;

fn main() {
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let rounds = std::env::var("ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    println!("machine: {}", machine());
    let streams = [("log-normal", log_normal(VALUES)), ("mixed", mixed(VALUES)), ("constant", vec![123_456; VALUES])];
    for (name, values) in &streams {
        record(name, values, rounds);
        parts_of_a_batch(name, values, rounds);
    }
    merge_and_quantiles(&streams[1].1, rounds);
}

/// Recording a stream of nanoseconds.
fn record(stream: &str, values: &[u64], rounds: usize) {
    let seconds: Vec<f64> = values.iter().map(|nanoseconds| *nanoseconds as f64 / 1e9).collect();
    let mut flat = FlatRecorder::new();
    let mut timed = FlatRecorder::new();
    let mut counts: Box<[u64; FLAT_BINS]> = vec![0; FLAT_BINS].into_boxed_slice().try_into().expect("that length");
    let (mut batch, mut small) = (FlatRecorder::new(), FlatRecorder::new());
    let mut h2 = h2_histogram();
    let mut float = FlatFloatRecorder::new();
    let mut sparse = Histogram::log_linear();
    let mut hdr = hdr_histogram();
    let few = values.len() / 16;
    let mut contenders = vec![
        contender("FlatRecorder::record (u64 ns)", values.len(), || {
            values.iter().for_each(|nanoseconds| flat.record(*nanoseconds));
            black_box(&mut flat);
        }),
        contender("FlatRecorder::record_batch, whole", values.len(), || {
            batch.record_batch(values);
            black_box(&mut batch);
        }),
        contender("FlatRecorder::record_batch, by 256", values.len(), || {
            values.chunks(256).for_each(|part| small.record_batch(part));
            black_box(&mut small);
        }),
        contender("FlatFloatRecorder::record (f64 s)", values.len(), || {
            seconds.iter().for_each(|value| float.record(*value));
            black_box(&mut float);
        }),
        contender("Histogram::record (sparse, f64 s)", few, || {
            seconds[..few].iter().for_each(|value| sparse.record(*value));
            black_box(&mut sparse);
        }),
        contender("hdrhistogram, 3 digits", values.len(), || {
            values.iter().for_each(|nanoseconds| hdr.saturating_record(*nanoseconds));
            black_box(&mut hdr);
        }),
        contender("histogram (H2), grouping 6", values.len(), || {
            values.iter().for_each(|nanoseconds| h2.increment(*nanoseconds).expect("the range is that of u64"));
            black_box(&mut h2);
        }),
        contender("NanosecondIndex::bin alone", values.len(), || {
            for nanoseconds in values {
                black_box(NanosecondIndex::bin(*nanoseconds));
            }
        }),
        contender("bin and count, no sum, min or max", values.len(), || {
            values.iter().for_each(|nanoseconds| counts[NanosecondIndex::bin(*nanoseconds)] += 1);
            black_box(&mut counts);
        }),
        contender("rdtsc alone", values.len(), || {
            for _ in 0..values.len() {
                black_box(ticks());
            }
        }),
        contender("rdtsc and FlatRecorder::record", values.len(), || {
            let mut before = ticks();
            for _ in 0..values.len() {
                let now = ticks();
                timed.record(now.wrapping_sub(before));
                before = now;
            }
            black_box(&mut timed);
        }),
    ];
    time(&format!("record, {stream}"), &mut contenders, rounds);
}

/// Words of a place that is counted in: not a multiple of 4 KiB, so that one place's stores do not delay another's
/// loads.
const PLACE: usize = FLAT_BINS + 272;

/// What a batch is made of: finding the bins, and counting them. Equal bins in a row wait for each other's count to
/// come back from the store, unless they are counted in several places in turn.
fn parts_of_a_batch(stream: &str, values: &[u64], rounds: usize) {
    const BUFFER: usize = 512;
    let mut all = vec![0_u16; values.len()];
    NanosecondIndex::bins(values, &mut all);
    let mut bins = [0_u16; BUFFER];
    let (mut wide, mut one, mut two, mut four) =
        (vec![0_u64; FLAT_BINS], vec![0_u32; FLAT_BINS], [[0_u32; PLACE]; 2], [[0_u32; PLACE]; 4]);
    let mask = |bin: u16| bin as usize & (FLAT_BINS - 1);
    let one: &mut [u32; FLAT_BINS] = one.as_mut_slice().try_into().expect("that length");
    let wide: &mut [u64; FLAT_BINS] = wide.as_mut_slice().try_into().expect("that length");
    let mut contenders = vec![
        contender("NanosecondIndex::bins (512 at a time)", values.len(), || {
            for part in values.chunks(BUFFER) {
                black_box(NanosecondIndex::bins(part, &mut bins));
            }
            black_box(&mut bins);
        }),
        contender("NanosecondIndex::bin, stored", values.len(), || {
            let mut bins = [0_u16; BUFFER];
            for part in values.chunks(BUFFER) {
                part.iter().zip(&mut bins).for_each(|(value, bin)| *bin = NanosecondIndex::bin(*value) as u16);
                black_box(&mut bins);
            }
        }),
        contender("counting known bins, u64, one place", values.len(), || {
            all.iter().for_each(|bin| wide[mask(*bin)] += 1);
            black_box(&mut *wide);
        }),
        contender("counting known bins, one place", values.len(), || {
            all.iter().for_each(|bin| one[mask(*bin)] += 1);
            black_box(&mut *one);
        }),
        contender("counting known bins, two places", values.len(), || {
            for [a, b] in all.as_chunks::<2>().0 {
                two[0][mask(*a)] += 1;
                two[1][mask(*b)] += 1;
            }
            black_box(&mut two);
        }),
        contender("counting known bins, four places", values.len(), || {
            for [a, b, c, d] in all.as_chunks::<4>().0 {
                four[0][mask(*a)] += 1;
                four[1][mask(*b)] += 1;
                four[2][mask(*c)] += 1;
                four[3][mask(*d)] += 1;
            }
            black_box(&mut four);
        }),
    ];
    time(&format!("parts of a batch, {stream}"), &mut contenders, rounds);
}

/// Merging two histograms of a mixed stream, and asking for four quantiles.
fn merge_and_quantiles(values: &[u64], rounds: usize) {
    const TIMES: usize = 2000;
    const Q: [f64; 4] = [0.5, 0.9, 0.99, 0.999];
    let (first, second) = values.split_at(values.len() / 2);
    let of = |values: &[u64]| {
        let mut recorder = FlatRecorder::new();
        values.iter().for_each(|nanoseconds| recorder.record(*nanoseconds));
        recorder.take()
    };
    let hdr_of = |values: &[u64]| {
        let mut hdr = hdr_histogram();
        values.iter().for_each(|nanoseconds| hdr.saturating_record(*nanoseconds));
        hdr
    };
    let (left, right, hdr_left, hdr_right) = (of(first), of(second), hdr_of(first), hdr_of(second));
    println!("\n{} and {} bins in the histograms that are merged", left.positive.len(), right.positive.len());
    let (mut into, mut hdr_into) = (left.clone(), hdr_left.clone());
    let mut contenders = vec![
        contender("Histogram::merge", TIMES, || {
            (0..TIMES).for_each(|_| into.merge(black_box(&right)).expect("both are of one scheme"));
            black_box(&mut into);
        }),
        contender("hdrhistogram add", TIMES / 20, || {
            (0..TIMES / 20).for_each(|_| hdr_into.add(black_box(&hdr_right)).expect("both have the same bounds"));
            black_box(&mut hdr_into);
        }),
    ];
    time("merge", &mut contenders, rounds);
    let mut contenders = vec![
        contender("Histogram::quantiles, four", TIMES, || {
            for _ in 0..TIMES {
                black_box(black_box(&left).quantiles(&Q));
            }
        }),
        contender("Histogram::quantile, four times", TIMES, || {
            for _ in 0..TIMES {
                Q.iter().for_each(|q| {
                    black_box(black_box(&left).quantile(*q));
                });
            }
        }),
        contender("hdrhistogram value_at_quantile, four", TIMES / 20, || {
            for _ in 0..TIMES / 20 {
                Q.iter().for_each(|q| {
                    black_box(black_box(&hdr_left).value_at_quantile(*q));
                });
            }
        }),
    ];
    time("four quantiles", &mut contenders, rounds);
}

/// Bins of 1/64, any u64.
fn h2_histogram() -> histogram::Histogram {
    histogram::Histogram::new(6, 64).expect("the parameters are valid")
}

/// 1 ns up to an hour, 3 digits.
fn hdr_histogram() -> Hdr<u64> {
    Hdr::new_with_bounds(1, 3_600_000_000_000, 3).expect("the bounds are valid")
}

/// The time stamp counter, unordered.
#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    // SAFETY: every x86_64 CPU has the instruction, and user space may read the counter unless CR4.TSD is set, which no
    // supported kernel does by default; the instruction touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Stands in where there is no rdtsc: the operating system's clock.
#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
