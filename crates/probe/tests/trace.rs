//! Traces as a user sees them: every finished message is accounted for, and every slow one is kept with its stages.

use ogive_hist::Histogram;
use ogive_probe::{
    Class, Clock, Mode, SlowTrace, Threshold, TickSource, TraceCell, TracePath, TraceRecorder, TraceWriter, trace_path,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

trace_path! {
    /// The path of the tests.
    Order { recv: infra @ordered, decode: infra, journal: infra, matched: logic, publish: infra @ordered }
}

trace_path! { Shortest { first: logic, last: logic } }

trace_path! {
    /// As many points as there may be.
    Longest {
        p0: infra, p1: infra, p2: logic, p3: infra, p4: infra, p5: infra, p6: infra, p7: infra, p8: infra, p9: logic,
        p10: infra, p11: infra @ordered,
    }
}

const NEVER: Threshold = Threshold::fixed_ns(u64::MAX);

/// How many messages the big tests finish; OGIVE_TEST_MESSAGES overrides.
fn messages() -> u64 {
    std::env::var("OGIVE_TEST_MESSAGES").map_or(1_000_000, |number| number.parse().expect("a number"))
}

/// A message whose stages take these nanoseconds of a manual clock.
fn message(clock: Clock, stages: [u64; 4]) -> Order {
    let mut order = Order::begin(clock);
    for (point, ns) in [Order::decode, Order::journal, Order::matched, Order::publish].into_iter().zip(stages) {
        clock.advance(ns);
        order.mark(clock, point);
    }
    order
}

/// A message stamped at once.
fn quick<T: TickSource>(source: T) -> Order {
    let mut order = Order::begin(source);
    for point in [Order::decode, Order::journal, Order::matched, Order::publish] {
        order.mark(source, point);
    }
    order
}

fn sums(cell: &TraceCell) -> Vec<f64> {
    let histograms = [&cell.total, &cell.infrastructure, &cell.logic].into_iter();
    let all = histograms.chain(cell.stages.iter().map(|stage| &stage.times));
    all.map(|histogram| (histogram.sum.unwrap_or(0.0) * 1e9).round()).collect()
}

fn gaps<'a>(cell: &'a TraceCell, publisher: &str) -> &'a Histogram {
    &cell.publishers.iter().find(|known| *known.name == *publisher).expect("a publisher of that name").gaps
}

#[test]
fn a_path_is_what_the_documentation_says() {
    assert_eq!((size_of::<Order>(), align_of::<Order>()), (5 * 8 + 8, 8));
    assert_eq!(Order::NAME, "Order");
    let names: Vec<&str> = Order::POINTS.iter().map(|point| point.name).collect();
    assert_eq!(names, ["recv", "decode", "journal", "matched", "publish"]);
    assert_eq!(Order::POINTS.map_class(), [1, 1, 1, 0, 1].map(|infra| infra == 1));
    assert_eq!(Order::POINTS.iter().map(|point| point.ordered).collect::<Vec<_>>(), [true, false, false, false, true]);
    let clock = Clock::manual(1_000, 0);
    let order = message(clock, [1, 2, 3, 4]);
    assert_eq!((order.stamps(), order.seen(), order.epoch()), (&[1_000, 1_001, 1_003, 1_006, 1_010][..], 31, 0));
    assert_eq!((Shortest::POINTS.len(), Longest::POINTS.len()), (2, 12));
}

trait MapClass {
    fn map_class(&self) -> Vec<bool>;
}

impl MapClass for [ogive_probe::PointDef] {
    fn map_class(&self) -> Vec<bool> {
        self.iter().map(|point| point.class == Class::Infrastructure).collect()
    }
}

#[test]
fn each_stage_class_total_and_gap_has_its_time() {
    let clock = Clock::manual(5_000, 1_000_000);
    let recorder = TraceRecorder::<Order>::new(clock, NEVER);
    let writer = recorder.handle("engine");
    writer.finish(&message(clock, [100, 200, 30, 4]));
    clock.advance(1_000);
    writer.finish(&message(clock, [1, 2, 3, 4]));
    clock.advance(77);
    let cell = recorder.snapshot();
    assert!(cell.is_conserved(), "{cell:?}");
    // Total, infrastructure, logic; decode, journal, matched, publish.
    assert_eq!(sums(&cell), [344.0, 311.0, 33.0, 101.0, 202.0, 33.0, 8.0]);
    assert_eq!((cell.counts.finished, cell.total.count, cell.counts.gaps_skipped), (2, 2, 1));
    assert_eq!((gaps(&cell, "engine").count, gaps(&cell, "engine").sum), (1, Some(1.01e-6)));
    assert_eq!(cell.publishers[0].quiet_ns, Some(77));
    let empty = recorder.snapshot();
    assert_eq!((empty.counts.finished, empty.total.count, empty.publishers.len()), (0, 0, 1));
    drop(writer);
    assert_eq!((recorder.writers(), recorder.snapshot().publishers[0].quiet_ns), (0, None));
}

#[test]
fn what_cannot_be_measured_is_counted() {
    let clock = Clock::manual(5_000, 0);
    let recorder = TraceRecorder::<Order>::new(clock, Threshold::fixed_ns(0));
    let writer = recorder.handle("engine");
    writer.finish(&message(clock, [1, 1, 1, 1]));
    // Never begun.
    writer.finish(&Order::default());
    // Without its last stamp.
    writer.finish(&Order::begin(clock));
    // Without a stamp in between: the stages next to it are not known, the total is.
    let mut order = Order::begin(clock);
    clock.advance(10);
    order.mark(clock, Order::decode);
    clock.advance(20);
    order.mark(clock, Order::matched);
    clock.advance(30);
    order.mark(clock, Order::publish);
    writer.finish(&order);
    // Across a break of the clock.
    let order = message(clock, [1, 1, 1, 1]);
    clock.break_line();
    writer.finish(&order);
    writer.finish(&message(clock, [5, 5, 5, 5]));
    let cell = recorder.snapshot();
    let counts = cell.counts;
    assert!(cell.is_conserved(), "{cell:?}");
    assert_eq!((counts.finished, counts.incomplete, counts.straddled, counts.partial), (6, 2, 1, 1));
    assert_eq!((cell.total.count, counts.missing_first, counts.clamped, counts.slow), (3, 1, 0, 3));
    assert_eq!(cell.stages.iter().map(|stage| stage.missing).collect::<Vec<_>>(), [2, 3, 2, 2]);
    assert_eq!(cell.stages.iter().map(|stage| stage.times.count).collect::<Vec<_>>(), [3, 2, 2, 3]);
    // The first, the two incomplete ones, the one across the break, and the one after it have no gap.
    assert_eq!((counts.gaps_skipped, gaps(&cell, "engine").count), (5, 1));
    let slow = recorder.drain();
    let missing = |trace: &SlowTrace| trace.missing.join(",");
    assert_eq!(slow.iter().map(missing).collect::<Vec<_>>(), ["", "journal", ""]);
    assert_eq!(slow[1].stages.iter().map(|stage| stage.ns).collect::<Vec<_>>(), [10, 20, 30]);
    assert_eq!(slow.iter().map(|trace| trace.epoch).collect::<Vec<_>>(), [0, 0, 1]);
}

#[test]
fn a_stamp_before_an_earlier_one_is_clamped_and_counted() {
    let clock = Clock::manual(1_000, 0);
    let recorder = TraceRecorder::<Order>::new(clock, Threshold::fixed_ns(0));
    let writer = recorder.handle("engine");
    let mut order = Order::begin(clock);
    for (point, ticks) in
        [(Order::decode, 1_100), (Order::journal, 1_050), (Order::matched, 1_090), (Order::publish, 1_300)]
    {
        order.mark_at(point, ticks);
    }
    writer.finish(&order);
    // Published before the one before: a gap of zero.
    writer.finish(&message(clock, [1, 1, 1, 1]));
    let cell = recorder.snapshot();
    assert_eq!((cell.counts.clamped, gaps(&cell, "engine").sum), (3, Some(0.0)));
    assert_eq!(sums(&cell)[3..], [101.0, 1.0, 1.0, 201.0]);
    let slow = &recorder.drain()[0];
    assert_eq!((slow.clamped, slow.total_ns), (2, 300));
    assert_eq!(slow.stages.iter().map(|stage| stage.ns).collect::<Vec<_>>(), [100, 0, 0, 200]);
}

#[test]
fn slow_messages_are_kept_and_their_stages_add_up() {
    let clock = Clock::manual(0, 1_700_000_000_000_000_000);
    let recorder = TraceRecorder::<Order>::new(clock, Threshold::fixed_ns(1_000));
    let writer = recorder.handle("feed 1");
    writer.finish(&message(clock, [250, 250, 250, 250]));
    writer.finish(&message(clock, [250, 10_000_251, 250, 250]));
    clock.advance(5);
    let slow = recorder.drain();
    let [trace] = &slow[..] else { panic!("one is above the threshold: {slow:?}") };
    assert_eq!((trace.total_ns, trace.total_ticks, trace.gap_ns), (10_001_001, 10_001_001, Some(10_001_001)));
    assert_eq!(trace.published_ns, 1_700_000_000_000_000_000 + 1_000 + 10_001_001);
    assert_eq!((trace.path.as_str(), trace.publisher.as_str(), trace.limit_ns), ("Order", "feed 1", 1_000));
    assert_eq!(
        trace.culprit().map(|stage| (stage.name.as_str(), stage.class)),
        Some(("journal", Class::Infrastructure))
    );
    assert_eq!((trace.class_ns(Class::Logic), trace.class_ns(Class::Infrastructure)), (250, 10_000_751));
    assert_eq!((trace.clock.mode.as_str(), trace.clock.source.as_str()), ("os", "manual"));
    let line = trace.to_string();
    assert!(line.contains(" stage=journal,infra,10000251,10000251,99.99 "), "{line}");
    assert_eq!(&line.parse::<SlowTrace>().expect("reads back"), trace);
    assert!(trace.waterfall().lines().count() == 5, "{}", trace.waterfall());
    assert!(recorder.drain().is_empty(), "a trace is given once");
}

#[test]
fn the_threshold_follows_the_tail_of_the_last_cell() {
    let clock = Clock::manual(0, 0);
    let recorder = TraceRecorder::<Order>::new(clock, Threshold::Tail { times: 2.0, floor_ns: 3_000 });
    let writer = recorder.handle("engine");
    let finish = |ns: u64, times: u32| (0..times).for_each(|_| writer.finish(&message(clock, [0, 0, 0, ns])));
    finish(3_000, 10);
    finish(3_001, 1);
    finish(25_000, 990);
    assert_eq!((recorder.limit_ns(), recorder.drain().len()), (3_000, 991));
    let p999 = recorder.snapshot().total.quantile(0.999).expect("not empty").value * 1e9;
    let limit = recorder.limit_ns();
    assert!((limit as f64 - 2.0 * p999).abs() <= 1.0, "{limit} is twice {p999}");
    finish(limit, 5);
    finish(limit + 1, 2);
    assert_eq!(recorder.drain().len(), 2);
    finish(10, 2_000);
    let _ = recorder.snapshot();
    let _ = recorder.snapshot();
    let next = 2 * limit..2 * limit + limit / 10;
    assert!(next.contains(&recorder.limit_ns()), "the cell held the slow ones; an empty cell changes nothing");
    finish(10, 2_000);
    let _ = recorder.snapshot();
    assert_eq!(recorder.limit_ns(), 3_000, "the floor");
}

/// Threads finish as fast as they can while snapshots and drains are taken; some messages are odd, some slow.
#[test]
fn under_load_every_message_is_accounted_for() {
    const THREADS: u64 = 3;
    let each = messages() / THREADS;
    let clock = Clock::global();
    let recorder = TraceRecorder::<Order>::new(clock, Threshold::fixed_ns(1 << 40));
    let running = AtomicU64::new(THREADS);
    let (mut seen, mut slow, mut snapshots) = ([0_u64; 4], 0, 0);
    let mut add = |cell: &TraceCell, seen: &mut [u64; 4]| {
        assert!(cell.is_conserved(), "{:?}", cell.counts);
        let counts = cell.counts;
        for (sum, count) in seen.iter_mut().zip([counts.finished, counts.incomplete, counts.partial, counts.slow]) {
            *sum += count;
        }
        snapshots += 1;
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (recorder, running) = (recorder.clone(), &running);
            scope.spawn(move || {
                // A writer now and then is dropped and made anew.
                for part in 0..4 {
                    let writer = recorder.handle(["a", "b"][(thread % 2) as usize]);
                    (part * each / 4..(part + 1) * each / 4).for_each(|number| finish_odd(&writer, clock, number));
                }
                running.fetch_sub(1, Ordering::Release);
            });
        }
        while running.load(Ordering::Acquire) > 0 {
            add(&recorder.snapshot(), &mut seen);
            slow +=
                recorder.drain().iter().filter(|trace| trace.publisher == "a" || trace.publisher == "b").count() as u64;
            std::thread::sleep(Duration::from_micros(200));
        }
    });
    add(&recorder.snapshot(), &mut seen);
    slow += recorder.drain().len() as u64;
    let every = |nth: u64| THREADS * each.div_ceil(nth);
    assert_eq!(seen, [THREADS * each, every(100), every(1_000), every(100_000)], "{snapshots} snapshots");
    let dumps = recorder.dumps();
    assert_eq!((dumps.dumped, dumps.read, dumps.overwritten, dumps.unfinished), (slow, slow, 0, 0));
    assert_eq!((recorder.writers(), recorder.snapshot().counts.finished), (0, 0));
    println!("{} messages, {slow} slow, {snapshots} snapshots, {} deferred", THREADS * each, recorder.deferred());
}

/// Each 100th lacks its end, each 1,000th (as counted from 1) a stamp in between, each 100,000th is slow.
fn finish_odd(writer: &TraceWriter<Order>, clock: Clock, number: u64) {
    let mut order = Order::begin(clock);
    order.mark(clock, Order::decode);
    if number % 1_000 != 1 {
        order.mark(clock, Order::journal);
    }
    order.mark(clock, Order::matched);
    if number % 100_000 == 2 {
        order.mark_at(Order::publish, order.stamps()[0] + (1 << 42));
    } else if !number.is_multiple_of(100) {
        order.mark(clock, Order::publish);
    }
    writer.finish(&order);
}

/// One message of a million stops for 10 ms in one stage: it is in the gap, the total, its stage, and alone in the
/// dumps above 10 ms (the machine may stop others as long; they are slow too).
#[test]
fn a_stall_of_one_message_in_a_million_shows_everywhere() {
    const STALL: Duration = Duration::from_millis(10);
    let clock = settled();
    let recorder = TraceRecorder::<Order>::new(clock, Threshold::fixed_ns(9_900_000));
    let writer = recorder.handle("engine");
    let total = messages();
    let (mut slow, mut last, mut cells) = (Vec::new(), Instant::now(), Vec::new());
    let start = clock.wall();
    for number in 0..total {
        let mut order = Order::begin(clock);
        order.mark(clock, Order::decode);
        order.mark(clock, Order::journal);
        if number == total / 2 {
            std::thread::sleep(STALL);
        }
        order.mark(clock, Order::matched);
        order.mark(clock, Order::publish);
        writer.finish(&order);
        if last.elapsed() > Duration::from_millis(100) {
            slow.extend(recorder.drain());
            cells.push(recorder.snapshot());
            last = Instant::now();
        }
    }
    slow.extend(recorder.drain());
    cells.push(recorder.snapshot());
    assert_eq!(cells.iter().map(|cell| cell.total.count + cell.counts.straddled).sum::<u64>(), total);
    assert!(cells.iter().all(TraceCell::is_conserved));
    let stalled: Vec<&SlowTrace> = slow
        .iter()
        .filter(|trace| trace.culprit().is_some_and(|stage| stage.name == "matched" && stage.ns > 9_900_000))
        .collect();
    assert!(!stalled.is_empty(), "the slow one is dumped: {slow:?}");
    for trace in &slow {
        assert_eq!(trace.stages.iter().map(|stage| stage.ticks).sum::<u64>(), trace.total_ticks);
        assert_eq!(trace.stages.iter().map(|stage| stage.ns).sum::<u64>(), trace.total_ns);
        assert_eq!(&trace.to_string().parse::<SlowTrace>().expect("reads back"), trace);
    }
    // A minute more on either side: somebody may set the wall clock.
    let during = start - 60_000_000_000..clock.wall() + 60_000_000_000;
    assert!(stalled.iter().all(|trace| during.contains(&trace.published_ns)));
    let shows = |histogram: &Histogram| histogram.max.is_some_and(|max| max >= 0.0099);
    assert!(cells.iter().any(|cell| {
        shows(&cell.total) && shows(&cell.logic) && shows(&cell.stages[2].times) && shows(gaps(cell, "engine"))
    }));
}

/// A stall with no message in flight is in no stage and no total: only the gap and the quiet time show it.
#[test]
fn a_stall_between_messages_shows_in_the_gap_alone() {
    let clock = Clock::manual(1_000, 0);
    let recorder = TraceRecorder::<Order>::new(clock, Threshold::fixed_ns(1_000));
    let writer = recorder.handle("engine");
    writer.finish(&message(clock, [1, 1, 1, 1]));
    clock.advance(10_000_000);
    assert_eq!(recorder.snapshot().publishers[0].quiet_ns, Some(10_000_000), "before it ends");
    writer.finish(&message(clock, [1, 1, 1, 1]));
    let cell = recorder.snapshot();
    assert_eq!((cell.total.max, gaps(&cell, "engine").max), (Some(4e-9), Some(0.010_000_004)));
    assert_eq!(recorder.dumps().dumped, 0);
}

#[test]
fn a_reader_that_stops_loses_nothing_but_overwritten_dumps() {
    let (clock, extra) = (Clock::manual(0, 0), 1_000_u64);
    let recorder = TraceRecorder::<Order>::new(clock, Threshold::fixed_ns(0));
    let writer = recorder.handle("engine");
    for number in 0..4_096 + extra {
        writer.finish(&message(clock, [number, 0, 0, 1]));
    }
    let slow = recorder.drain();
    assert_eq!((slow[0].stages[0].ns, slow.len()), (extra, 4_096), "the last 4,096");
    let dumps = recorder.dumps();
    assert_eq!((dumps.dumped, dumps.read, dumps.overwritten, dumps.unfinished), (5_096, 4_096, 1_000, 0));
    let cell = recorder.snapshot();
    assert_eq!((cell.total.count, cell.counts.slow), (5_096, 5_096), "histograms lose nothing");
}

#[test]
fn publishers_have_their_own_gaps_and_a_bound() {
    let clock = Clock::manual(1_000, 0);
    let recorder = TraceRecorder::<Shortest>::new(clock, NEVER);
    let finish = |writer: &TraceWriter<Shortest>| {
        let mut message = Shortest::begin(clock);
        message.mark(clock, Shortest::last);
        writer.finish(&message);
    };
    let (one, other) = (recorder.handle("one"), recorder.handle("other"));
    for ns in [1, 10, 100] {
        clock.advance(ns);
        finish(&one);
    }
    finish(&other);
    clock.advance(7);
    finish(&other);
    drop(other);
    let cell = recorder.snapshot();
    assert_eq!((gaps(&cell, "one").sum, gaps(&cell, "other").sum), (Some(1.1e-7), Some(7e-9)));
    drop(one);
    for number in 0..ogive_probe::PUBLISHERS_MAX + 10 {
        finish(&recorder.handle(&number.to_string()));
    }
    let cell = recorder.snapshot();
    assert!(cell.is_conserved());
    assert_eq!((cell.publishers.len(), &*cell.publishers.last().expect("some").name), (1_024, "(other)"));
}

#[test]
fn cells_merge_to_what_one_cell_would_have_been() {
    let clock = Clock::manual(1_000, 0);
    let recorders = [TraceRecorder::<Order>::new(clock, NEVER), TraceRecorder::new(clock, NEVER)];
    let mut merged = None::<TraceCell>;
    let writers = recorders.each_ref().map(|recorder| recorder.handle("engine"));
    for part in 0..4_u64 {
        for number in 0..30 + part {
            let mut order = message(clock, [number, part, 7, 1]);
            if number == 3 {
                order = Order::begin(clock);
            }
            writers.iter().for_each(|writer| writer.finish(&order));
        }
        if part == 2 {
            let (one, two) = (recorders[0].handle("late"), recorders[1].handle("late"));
            [one, two].iter().for_each(|writer| writer.finish(&message(clock, [1, 1, 1, 1])));
        }
        let cell = recorders[0].snapshot();
        match &mut merged {
            Some(merged) => merged.merge(&cell),
            None => merged = Some(cell),
        }
    }
    let (merged, whole) = (merged.expect("four cells"), recorders[1].snapshot());
    assert!(merged.is_conserved());
    // Sums of seconds are rounded in each cell: compare all but them.
    let shape = |cell: &TraceCell| {
        let stages: Vec<_> =
            cell.stages.iter().map(|stage| (stage.times.count, stage.times.max, stage.missing)).collect();
        let gaps: Vec<_> = cell.publishers.iter().map(|one| (one.name.clone(), one.gaps.count, one.quiet_ns)).collect();
        (cell.counts, cell.total.positive.clone(), cell.logic.positive.clone(), stages, gaps)
    };
    assert_eq!(shape(&merged), shape(&whole));
}

#[test]
fn what_a_thread_finished_stays_when_it_ends() {
    thread_local! {
        static WRITER: std::cell::OnceCell<TraceWriter<Order>> = const { std::cell::OnceCell::new() };
    }
    let recorder = TraceRecorder::<Order>::new(Clock::global(), NEVER);
    let threads: Vec<_> = (0..8_u64)
        .map(|thread| {
            let recorder = recorder.clone();
            std::thread::spawn(move || {
                // Dropped by the end of the thread.
                WRITER.with(|writer| {
                    let writer = writer.get_or_init(|| recorder.handle("thread"));
                    (0..=thread).for_each(|_| writer.finish(&quick(Clock::global())));
                });
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("ends well"));
    let cell = recorder.snapshot();
    assert_eq!((cell.counts.finished, cell.is_conserved(), recorder.writers()), (36, true, 0));
}

/// Gives the clock time to leave the system's clock, where there is a counter. Tests hold either way.
fn settled() -> Clock {
    let clock = Clock::global();
    let start = Instant::now();
    while clock.status().mode == Mode::Os && clock.status().source.is_counter() && start.elapsed().as_secs() < 5 {
        std::thread::sleep(Duration::from_millis(5));
    }
    clock
}

/// Messages that go from thread to thread carry their stamps along, and no stage is negative where stamps are ordered.
#[test]
fn stamps_travel_through_threads() {
    trace_path! { Relay { sent: infra @ordered, received: infra @ordered, done: logic @ordered } }
    let clock = settled();
    let recorder = TraceRecorder::<Relay>::new(clock, NEVER);
    let stop = AtomicBool::new(false);
    let (sender, receiver) = std::sync::mpsc::sync_channel::<Relay>(64);
    std::thread::scope(|scope| {
        let (recorder, stop) = (&recorder, &stop);
        scope.spawn(move || {
            let writer = recorder.handle("engine");
            for mut message in receiver {
                message.mark(clock, Relay::received);
                message.mark(clock, Relay::done);
                writer.finish(&message);
            }
            stop.store(true, Ordering::Release);
        });
        (0..20_000).for_each(|_| sender.send(Relay::begin(clock)).expect("the receiver is there"));
        drop(sender);
    });
    let cell = recorder.snapshot();
    assert!(stop.into_inner());
    assert_eq!((cell.counts.finished, cell.counts.clamped, cell.is_conserved()), (20_000, 0, true));
}
