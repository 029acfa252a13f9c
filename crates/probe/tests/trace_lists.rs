//! Lists of marks as a user sees them: every mark of a finished message is an interval's end, or counted as what it is
//! instead.

use ogive_probe::{
    Clock, MARK_NAME_BYTES_MAX, MARK_NAMES_MAX, MARKERS_MAX, MARKS_MAX, MarkList, Marker, SLOW_MARKS_MAX, SlowTrace,
    Threshold, TraceCell, TraceRecorder, trace_path,
};

trace_path! {
    /// The path of the tests.
    Order { recv: infra @ordered, matched: logic, publish: infra @ordered }
}

const NEVER: Threshold = Threshold::fixed_ns(u64::MAX);
const ALWAYS: Threshold = Threshold::fixed_ns(0);

fn finished(clock: Clock, mut order: Order) -> Order {
    clock.advance(1);
    order.mark(clock, Order::matched);
    clock.advance(1);
    order.mark(clock, Order::publish);
    order
}

/// Count, sum and greatest of the times between the marks of a name, in nanoseconds.
fn between(cell: &TraceCell, name: &str) -> (u64, f64, f64) {
    let mark = cell.marks.iter().find(|mark| *mark.name == *name).expect("a name of marks");
    let ns = |seconds: Option<f64>| (seconds.unwrap_or(0.0) * 1e9).round();
    (mark.between.count, ns(mark.between.sum), ns(mark.between.max))
}

#[test]
fn the_time_between_publications_inside_a_message_is_measured_however_many_there_are() {
    let clock = Clock::manual(5_000, 1_000_000);
    let recorder = TraceRecorder::<Order>::new(clock, NEVER);
    let (writer, marker) = (recorder.handle("engine"), recorder.marker());
    let (publish, acknowledge) = (recorder.mark_name("publish"), recorder.mark_name("acknowledge"));
    // 0, 1, 2, .. 40 publications, 7 ns apart, and an acknowledgement after each 10th.
    let (mut publications, mut acknowledgements, mut firsts) = (0, 0, 0);
    for count in 0..=40_u64 {
        let (order, mut list) = (Order::begin(clock), MarkList::new());
        for number in 1..=count {
            clock.advance(7);
            list.mark(clock, &marker, publish);
            if number % 10 == 0 {
                list.mark(clock, &marker, acknowledge);
            }
        }
        assert_eq!(list.marks(), count + count / 10);
        publications += count;
        acknowledgements += count / 10;
        firsts += u64::from(count > 0) + u64::from(count >= 10);
        writer.finish_listed(&finished(clock, order), &list);
    }
    let cell = recorder.snapshot();
    assert!(cell.is_conserved(), "{:?}", cell.counts);
    let counts = cell.counts;
    assert_eq!((counts.finished, counts.listed), (41, publications + acknowledgements));
    assert_eq!((counts.listed_first, counts.listed_lost, counts.listed_straddled), (firsts, 0, 0));
    let intervals = publications - 40;
    assert_eq!(between(&cell, "publish"), (intervals, 7.0 * intervals as f64, 7.0));
    let intervals = acknowledgements - 31;
    assert_eq!(between(&cell, "acknowledge"), (intervals, 70.0 * intervals as f64, 70.0));
    let mut merged = cell.clone();
    merged.merge(&recorder.snapshot());
    assert_eq!((between(&merged, "publish").0, merged.is_conserved()), (between(&cell, "publish").0, true));
}

#[test]
fn a_point_that_is_stamped_again_keeps_its_stamp_and_is_counted() {
    let clock = Clock::manual(5_000, 0);
    let recorder = TraceRecorder::<Order>::new(clock, ALWAYS);
    let writer = recorder.handle("engine");
    let mut order = Order::begin(clock);
    clock.advance(10);
    for _ in 0..3 {
        order.mark(clock, Order::matched);
        clock.advance(100);
    }
    order.mark(clock, Order::publish);
    assert_eq!((order.0.repeated(), order.0.seen()), (2, 7));
    writer.finish(&order);
    (0..70_000).for_each(|_| order.mark(clock, Order::publish));
    assert_eq!((order.0.repeated(), order.0.seen()), (65_535, 7), "counted as far as there is room");
    let cell = recorder.snapshot();
    assert_eq!((cell.counts.repeated, cell.counts.partial, cell.total.count), (2, 0, 1));
    let stages: Vec<u64> = recorder.drain()[0].stages.iter().map(|stage| stage.ns).collect();
    assert_eq!(stages, [10, 300]);
}

#[test]
fn marks_that_were_overwritten_are_counted_as_lost() {
    let clock = Clock::manual(5_000, 0);
    let recorder = TraceRecorder::<Order>::new(clock, ALWAYS);
    let (writer, marker, publish) = (recorder.handle("engine"), recorder.marker(), recorder.mark_name("publish"));
    for over in [0, 1, 5_000] {
        let (order, mut list) = (Order::begin(clock), MarkList::new());
        let marks = MARKS_MAX as u64 + over;
        for _ in 0..marks {
            clock.advance(3);
            list.mark(clock, &marker, publish);
        }
        writer.finish_listed(&finished(clock, order), &list);
        let (cell, slow) = (recorder.snapshot(), recorder.drain());
        assert!(cell.is_conserved(), "{:?}", cell.counts);
        assert_eq!((cell.counts.listed, cell.counts.listed_lost, cell.counts.listed_first), (marks, over, 1));
        assert_eq!(between(&cell, "publish"), (MARKS_MAX as u64 - 1, 3.0 * (MARKS_MAX as f64 - 1.0), 3.0));
        assert_eq!((slow[0].listed, slow[0].listed_lost, slow[0].marks.len()), (marks, over, SLOW_MARKS_MAX));
        // The first of those that are there.
        assert_eq!(slow[0].marks[0].ns, 3 * (over + 1));
    }
}

#[test]
fn a_list_goes_from_thread_to_thread() {
    let clock = Clock::manual(5_000, 0);
    let recorder = TraceRecorder::<Order>::new(clock, ALWAYS);
    let (writer, publish) = (recorder.handle("engine"), recorder.mark_name("publish"));
    let (mut order, mut list) = (Order::begin(clock), MarkList::new());
    for _ in 0..20 {
        (order, list) = std::thread::scope(|scope| {
            let recorder = &recorder;
            let thread = scope.spawn(move || {
                let marker = recorder.marker();
                clock.advance(11);
                list.mark(clock, &marker, publish);
                clock.advance(4);
                list.mark(clock, &marker, publish);
                (order, list)
            });
            thread.join().expect("marks only")
        });
    }
    writer.finish_listed(&finished(clock, order), &list);
    let cell = recorder.snapshot();
    assert_eq!(
        between(&cell, "publish"),
        (39, 20.0 * 4.0 + 19.0 * 11.0, 11.0),
        "the rings of ended markers are used again"
    );
    let slow = recorder.drain();
    assert_eq!(slow[0].marks.iter().map(|mark| mark.ns).take(4).collect::<Vec<_>>(), [11, 15, 26, 30]);
}

#[test]
fn what_is_beyond_a_limit_is_counted_and_not_mixed_up() {
    let clock = Clock::manual(5_000, 0);
    let recorder = TraceRecorder::<Order>::new(clock, ALWAYS);
    let writer = recorder.handle("engine");
    // One marker more than there are rings.
    let mut markers: Vec<Marker<Order>> = (0..=MARKERS_MAX).map(|_| recorder.marker()).collect();
    let names: Vec<_> = (0..MARK_NAMES_MAX + 3).map(|number| recorder.mark_name(&format!("name {number}"))).collect();
    let (order, mut list) = (Order::begin(clock), MarkList::new());
    list.mark(clock, &markers[MARKERS_MAX - 1], names[0]);
    list.mark(clock, &markers[MARKERS_MAX], names[0]);
    for name in &names[MARK_NAMES_MAX - 2..] {
        clock.advance(2);
        list.mark(clock, &markers[0], *name);
    }
    writer.finish_listed(&finished(clock, order), &list);
    let cell = recorder.snapshot();
    assert!(cell.is_conserved(), "{:?}", cell.counts);
    assert_eq!((cell.counts.listed, cell.counts.listed_lost, cell.counts.listed_first), (7, 1, 3));
    assert_eq!((cell.marks.len(), between(&cell, "(other)")), (MARK_NAMES_MAX, (3, 6.0, 2.0)));
    // A ring that is free again serves the next marker.
    markers.remove(0);
    let marker = recorder.marker();
    let (order, mut list) = (Order::begin(clock), MarkList::new());
    list.mark(clock, &marker, names[0]);
    writer.finish_listed(&finished(clock, order), &list);
    assert_eq!(recorder.snapshot().counts.listed_lost, 0);
    let long = TraceRecorder::<Order>::new(clock, NEVER);
    let _ = long.mark_name(&"é".repeat(MARK_NAME_BYTES_MAX));
    assert_eq!(long.snapshot().marks[0].name.len(), MARK_NAME_BYTES_MAX);
}

#[test]
fn marks_on_both_sides_of_a_break_of_the_clock_make_no_interval() {
    let clock = Clock::manual(5_000, 0);
    let recorder = TraceRecorder::<Order>::new(clock, NEVER);
    let (writer, marker, publish) = (recorder.handle("engine"), recorder.marker(), recorder.mark_name("publish"));
    let (order, mut list) = (Order::begin(clock), MarkList::new());
    for step in 0..4 {
        clock.advance(9);
        if step == 2 {
            clock.break_line();
        }
        list.mark(clock, &marker, publish);
    }
    writer.finish_listed(&finished(clock, order), &list);
    let cell = recorder.snapshot();
    assert!(cell.is_conserved(), "{:?}", cell.counts);
    assert_eq!((between(&cell, "publish").0, cell.counts.listed_straddled, cell.counts.straddled), (2, 1, 1));
}

#[test]
fn a_slow_message_is_kept_with_its_marks_as_a_line() {
    let clock = Clock::manual(5_000, 0);
    let recorder = TraceRecorder::<Order>::new(clock, ALWAYS);
    let (writer, marker) = (recorder.handle("engine"), recorder.marker());
    let names = [recorder.mark_name("publish"), recorder.mark_name("to the left, then")];
    // More slow messages between two looks than the ring of lists holds: the last ones are whole, none has another's
    // marks.
    for message in 0..3_000_u64 {
        let (order, mut list) = (Order::begin(clock), MarkList::new());
        for number in 0..message % 90 {
            clock.advance(message + 1);
            list.mark(clock, &marker, names[number as usize % 2]);
        }
        writer.finish_listed(&finished(clock, order), &list);
    }
    let slow = recorder.drain();
    assert_eq!(slow.len(), 3_000);
    let mut with_marks = 0;
    for (message, trace) in slow.iter().enumerate() {
        let marks = message % 90;
        assert!(trace.marks.is_empty() || trace.marks.len() <= marks.min(SLOW_MARKS_MAX), "{message}: {trace:?}");
        let mark_ns = |(at, mark): (usize, &ogive_probe::SlowMark)| mark.ns == (at as u64 + 1) * (message as u64 + 1);
        assert!(trace.marks.iter().enumerate().all(mark_ns), "{message}: {trace:?}");
        if message > 2_500 {
            assert_eq!((trace.listed, trace.marks.len()), (marks as u64, marks.min(SLOW_MARKS_MAX)), "{message}");
        }
        with_marks += usize::from(!trace.marks.is_empty());
        let line = trace.to_string();
        assert_eq!(line.parse::<SlowTrace>().as_ref().ok(), Some(trace), "{line}");
        assert_eq!(line.contains(" listed="), trace.listed > 0);
    }
    assert!(with_marks > 600, "{with_marks}");
    let text = slow[2_999 - 2_999 % 90 + 3 - 90].waterfall();
    assert!(text.contains("  3 marks, 0 lost, 0 not shown\n  * publish"), "{text}");
    assert!(text.contains("* to the left, then"), "{text}");
}

/// Marks of many threads while snapshots are taken: nothing is counted twice, nothing is gone.
#[test]
fn the_sum_over_snapshots_is_what_was_marked() {
    const MESSAGES: u64 = 20_000;
    let clock = Clock::global();
    let recorder = TraceRecorder::<Order>::new(clock, NEVER);
    let done = std::sync::atomic::AtomicUsize::new(0);
    let mut sum = recorder.snapshot();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let (writer, marker, publish) =
                    (recorder.handle("x"), recorder.marker(), recorder.mark_name("publish"));
                for message in 0..MESSAGES {
                    let (mut order, mut list) = (Order::begin(clock), MarkList::new());
                    (0..message % 20).for_each(|_| list.mark(clock, &marker, publish));
                    order.mark(clock, Order::matched);
                    order.mark(clock, Order::publish);
                    writer.finish_listed(&order, &list);
                }
                done.fetch_add(1, std::sync::atomic::Ordering::Release);
            });
        }
        while done.load(std::sync::atomic::Ordering::Acquire) < 3 {
            let cell = recorder.snapshot();
            assert!(cell.is_conserved(), "{:?}", cell.counts);
            sum.merge(&cell);
        }
    });
    sum.merge(&recorder.snapshot());
    assert!(sum.is_conserved(), "{:?}", sum.counts);
    let marks: u64 = 3 * (0..MESSAGES).map(|message| message % 20).sum::<u64>();
    assert_eq!((sum.counts.finished, sum.counts.listed, sum.counts.listed_lost), (3 * MESSAGES, marks, 0));
    assert_eq!(sum.counts.listed_first, 3 * (MESSAGES - MESSAGES / 20));
}
