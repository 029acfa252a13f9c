//! The recorder as a user sees it: nothing is lost and nothing doubled, whatever threads do and whenever snapshots
//! come.

use ogive_hist::{FlatRecorder, Histogram};
use ogive_probe::{Recorder, Writer, snapshot_all};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Spread over all magnitudes.
    fn ns(&mut self) -> u64 {
        let shift = self.next() % 64;
        self.next() >> shift
    }
}

fn merge(into: &mut Histogram, cell: &Histogram) {
    into.merge(cell).expect("one scheme");
}

#[test]
fn a_snapshot_is_what_a_plain_recorder_gives() {
    let (recorder, mut model, mut random) = (Recorder::new(), FlatRecorder::new(), Random(0x5eed));
    let writer = recorder.handle();
    for round in 0..50 {
        for _ in 0..random.next() % 200 {
            let ns = random.ns();
            model.record(ns);
            if random.next().is_multiple_of(5) { recorder.record_ns(ns) } else { writer.record_ns(ns) }
        }
        assert_eq!(recorder.live().count, model.snapshot().count, "round {round}: live counts are all there");
        assert_eq!(recorder.snapshot(), model.take(), "round {round}");
    }
}

#[test]
fn an_empty_recorder_gives_empty_cells() {
    let recorder = Recorder::new();
    let writer = recorder.handle();
    for _ in 0..3 {
        let cell = recorder.snapshot();
        assert_eq!((cell.count, cell.sum, cell.min, cell.max), (0, None, None, None));
    }
    writer.record_ns(0);
    let cell = recorder.snapshot();
    assert_eq!((cell.count, cell.zero, cell.sum, cell.min), (1, 1, Some(0.0), Some(0.0)));
}

/// Threads record as fast as they can while snapshots are taken as fast as they can.
#[test]
fn under_load_the_snapshots_sum_to_the_records() {
    const THREADS: u64 = 6;
    const RECORDS: u64 = 300_000;
    let recorder = Recorder::new();
    let running = AtomicU64::new(THREADS);
    let (mut seen, mut snapshots) = (Histogram::log_linear(), 0_u64);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (writer, running) = (recorder.handle(), &running);
            scope.spawn(move || {
                for record in 0..RECORDS {
                    writer.record_ns(1 + (thread * RECORDS + record) % 1_000);
                }
                drop(writer);
                running.fetch_sub(1, Ordering::Release);
            });
        }
        while running.load(Ordering::Acquire) > 0 {
            let cell = recorder.snapshot();
            check_cell(&cell);
            merge(&mut seen, &cell);
            snapshots += 1;
        }
    });
    merge(&mut seen, &recorder.snapshot());
    let sum_ns: u64 = (0..THREADS * RECORDS).map(|value| 1 + value % 1_000).sum();
    assert_eq!(seen.count, THREADS * RECORDS, "over {snapshots} snapshots, {} deferred", recorder.deferred());
    assert!((seen.sum.expect("is known") * 1e9 - sum_ns as f64).abs() < 1.0);
    assert_eq!((seen.min, seen.max), (Some(1e-9), Some(1e-6)));
    assert_eq!(recorder.writers(), 0);
    assert_eq!(recorder.snapshot().count, 0);
}

/// Count, sum, least and greatest of a cell belong together: the sum lies between count times least and greatest.
fn check_cell(cell: &Histogram) {
    let (Some(sum), Some(min), Some(max)) = (cell.sum, cell.min, cell.max) else {
        assert_eq!(cell.count, 0);
        return;
    };
    let count = cell.count as f64;
    assert!(sum >= count * min * (1.0 - 1e-9) && sum <= count * max * (1.0 + 1e-9), "{count} {sum} {min} {max}");
}

/// All values of a thread are equal, so a record that lost its sum, or got another's, shows.
#[test]
fn the_sum_of_each_cell_is_that_of_its_counts() {
    const NS: u64 = 1_000;
    let (recorder, stop) = (Recorder::new(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (writer, stop) = (recorder.handle(), &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    writer.record_ns(NS);
                }
            });
        }
        for _ in 0..3_000 {
            let cell = recorder.snapshot();
            let sum_ns = (cell.sum.unwrap_or(0.0) * 1e9).round();
            assert_eq!(sum_ns, (cell.count * NS) as f64);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn threads_come_and_go_and_nothing_goes_with_them() {
    thread_local! {
        static WRITER: std::cell::OnceCell<Writer> = const { std::cell::OnceCell::new() };
    }
    let recorder = Recorder::new();
    let (mut seen, mut made) = (0, 0);
    for round in 0..60_u64 {
        let threads: Vec<_> = (0..4_u64)
            .map(|thread| {
                let recorder = recorder.clone();
                std::thread::spawn(move || {
                    // Dropped by the end of the thread.
                    WRITER.with(|writer| {
                        let writer = writer.get_or_init(|| recorder.handle());
                        (0..=round * 7 + thread).for_each(|ns| writer.record_ns(ns));
                    });
                })
            })
            .collect();
        made += (0..4).map(|thread| round * 7 + thread + 1).sum::<u64>();
        if round % 3 == 0 {
            seen += recorder.snapshot().count;
        }
        threads.into_iter().for_each(|thread| thread.join().expect("ends well"));
        if round % 2 == 0 {
            seen += recorder.snapshot().count;
        }
    }
    seen += recorder.snapshot().count;
    assert_eq!((seen, recorder.writers()), (made, 0));
}

/// Two threads take snapshots of the same recorders in opposite orders, one recorder twice in a list.
#[test]
fn snapshots_from_many_threads_share_out_the_records() {
    const RECORDS: u64 = 200_000;
    let recorders = [Recorder::new(), Recorder::new()];
    let (seen, running) = (AtomicU64::new(0), AtomicU64::new(2));
    std::thread::scope(|scope| {
        for recorder in &recorders {
            let (writer, running) = (recorder.handle(), &running);
            scope.spawn(move || {
                (0..RECORDS).for_each(|ns| writer.record_ns(ns));
                running.fetch_sub(1, Ordering::Release);
            });
        }
        for order in [[0, 1, 0], [1, 0, 1]] {
            let (recorders, seen, running) = (&recorders, &seen, &running);
            scope.spawn(move || {
                while running.load(Ordering::Acquire) > 0 {
                    let cells = snapshot_all(order.map(|at| &recorders[at]));
                    seen.fetch_add(cells.iter().map(|cell| cell.count).sum(), Ordering::Relaxed);
                }
            });
        }
    });
    let rest: u64 = snapshot_all(&recorders).iter().map(|cell| cell.count).sum();
    assert_eq!(seen.into_inner() + rest, 2 * RECORDS);
}
