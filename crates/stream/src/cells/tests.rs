//! Live cells compared with a slow model, and each limit at its value and one above.

use std::collections::BTreeMap;

use ogive_hist::{Bins, Histogram, Scheme};
use ogive_model::SourceId;
use proptest::prelude::*;

use super::*;

const S: i64 = WIDTH_NS;
/// Some second of 2023.
const T: i64 = 1_700_000_000 * S;

/// What was emitted, fragments merged: the numbers as bits, the values as their histogram.
#[derive(Debug, Default, PartialEq)]
struct Emitted {
    numbers: BTreeMap<(u128, i64), Bits>,
    values: BTreeMap<(u128, i64), Histogram>,
}

/// Count, time of the last, and sum, least, greatest and last bit by bit.
type Bits = (u32, i64, [u64; 4]);

/// Collects cells, checks their order, and merges fragments.
#[derive(Debug, Default)]
struct Collect {
    numbers: BTreeMap<(u128, i64), FloatCell>,
    values: BTreeMap<(u128, i64), Histogram>,
    closed: WallNs,
    last: WallNs,
    late: u64,
}

impl Sink for Collect {
    fn cell(&mut self, closed: &Closed<'_>) {
        assert_eq!(closed.is_late, closed.end <= self.closed, "{closed:?} after {}", self.closed);
        assert!(self.last <= closed.end, "{closed:?} after one that ended at {}", self.last);
        self.last = closed.end;
        self.late += u64::from(closed.is_late);
        let key = (closed.series.0, closed.end.0);
        match closed.content {
            Content::Numbers(cell) => {
                let held = self.numbers.entry(key).or_default();
                assert!(closed.is_late || held.count == 0, "{closed:?} is reported twice");
                held.merge(cell);
            }
            Content::Values(cell) => {
                let reported = cell.histogram();
                assert_eq!(reported.count, cell.count());
                let held = self.values.entry(key).or_insert_with(|| Histogram::new(reported.scheme.clone()));
                held.merge(&reported).unwrap();
            }
        }
    }

    fn closed(&mut self, end: WallNs) {
        assert!(self.closed <= end);
        (self.closed, self.last) = (end, WallNs(0));
    }
}

impl Collect {
    fn reported(self) -> Emitted {
        let cell = |(key, cell): ((u128, i64), FloatCell)| {
            let bits = [cell.sum, cell.min, cell.max, cell.last].map(f64::to_bits);
            (key, (cell.count, cell.last_at(WallNs(key.1)).0, bits))
        };
        Emitted { numbers: self.numbers.into_iter().map(cell).collect(), values: self.values }
    }
}

/// The same, in the simplest way.
fn model(items: &[Item]) -> Emitted {
    let mut all: BTreeMap<(u128, i64), Vec<(i64, &ItemValue)>> = BTreeMap::new();
    for item in items {
        let end_ns = crate::cell_end(WallNs(item.time_ns)).0;
        all.entry((item.series.0, end_ns)).or_default().push((item.time_ns, &item.what));
    }
    let mut out = Emitted::default();
    for (key, whats) in all {
        let numbers: Vec<(i64, f64)> = whats
            .iter()
            .filter_map(|(at, what)| if let ItemValue::Number(n) = what { Some((*at, *n)) } else { None })
            .collect();
        if !numbers.is_empty() {
            let sum: f64 = numbers.iter().map(|n| n.1).sum();
            let least = numbers.iter().map(|n| n.1).fold(f64::INFINITY, f64::min);
            let greatest = numbers.iter().map(|n| n.1).fold(f64::NEG_INFINITY, f64::max);
            let last = numbers.iter().max_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))).unwrap();
            let bits = [sum, least, greatest, last.1].map(f64::to_bits);
            out.numbers.insert(key, (numbers.len() as u32, last.0, bits));
            continue;
        }
        let mut histogram = Histogram::log_linear();
        for (_, what) in whats {
            match what {
                ItemValue::Value(value) => histogram.record(*value),
                ItemValue::Part(part) => histogram.merge(part).unwrap(),
                ItemValue::Number(_) => unreachable!(),
            }
        }
        out.values.insert(key, histogram);
    }
    out
}

fn number(series: u128, time_ns: i64, value: f64) -> Item {
    Item { series: SeriesId(series), time_ns, what: ItemValue::Number(value) }
}

fn value(series: u128, time_ns: i64, value: f64) -> Item {
    Item { series: SeriesId(series), time_ns, what: ItemValue::Value(value) }
}

fn wide() -> Options {
    Options { lateness: Ns(1_000 * S), patience: None, ..Options::default() }
}

/// Identities as they are, hashes, but few.
fn identity(of: u8) -> u128 {
    u128::from(of).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835) | 1
}

/// Items of some twenty series over some seconds. Values are eighths, so that sums are exact in any order.
fn items() -> impl Strategy<Value = Vec<Item>> {
    let eighths = (-4_000..4_000_i32).prop_map(|n| f64::from(n) / 8.0);
    let what = (0..20_u8, eighths, 0..3_u8).prop_map(|(series, n, part)| {
        let what = match (series % 2, part) {
            (0, _) => ItemValue::Number(n),
            (_, 0) => {
                let mut part = Histogram::log_linear();
                [n, n * 3.0, 0.0].into_iter().for_each(|n| part.record(n));
                ItemValue::Part(Box::new(part))
            }
            _ => ItemValue::Value(n),
        };
        (series, what)
    });
    let item = (what, 0..6_000_000_000_i64).prop_map(|((series, what), at)| Item {
        series: SeriesId(identity(series)),
        time_ns: T + at,
        what,
    });
    prop::collection::vec(item, 0..400)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_order_sharding_and_advance_give_the_cells_of_the_model(
        items in items(),
        feeders in 1..4_usize,
        shards in 1..4_usize,
        lookahead in 1..=Options::LOOKAHEAD_MAX,
        turns in prop::collection::vec((any::<prop::sample::Index>(), 0..40_usize, any::<bool>()), 1..60),
    ) {
        let options = Options { lookahead, ..wide() };
        let expected = model(&items);
        let sinks = (0..shards).map(|_| Collect::default());
        let (mut feeders, mut workers) = stream(options, Wait::Yield, feeders, 1_024, sinks);
        let (mut rest, mut now) = (&items[..], T);
        let mut turns = turns.iter().cycle();
        while !rest.is_empty() {
            let (feeder, count, works) = turns.next().unwrap();
            let (some, others) = rest.split_at(rest.len().min(*count + 1));
            rest = others;
            let at = feeder.index(feeders.len());
            // The clock may run past cells that are still fed: what comes for them then is late.
            now += S / 7;
            let fed = feeders[at].offer(SourceId(at as u128), some.iter().cloned(), WallNs(now + 10 * S));
            prop_assert_eq!(fed.fed, some.len() as u64);
            if *works {
                workers.iter_mut().for_each(|worker| { worker.turn(); });
            }
        }
        for feeder in feeders {
            feeder.finish();
        }
        let (mut reported, mut counts) = (Emitted::default(), Counts::default());
        for worker in workers {
            let (counted, sink) = worker.run();
            counts.add(&counted);
            let Emitted { numbers, values } = sink.reported();
            reported.numbers.extend(numbers);
            reported.values.extend(values);
        }
        prop_assert_eq!(counts.taken, items.len() as u64);
        prop_assert_eq!(counts.refused_total(), 0);
        prop_assert_eq!(reported, expected);
    }

    /// Small limits refuse some: what was measured is in cells or was counted as refused.
    #[test]
    fn nothing_is_lost_in_silence(
        items in items(), series_max in 1..12_usize, cells_max in 0..20_usize, late in 0..4_i64, every in 1..50_usize,
    ) {
        let only_numbers = |item: &Item| !matches!(item.what, ItemValue::Part(_));
        let items: Vec<Item> = items.into_iter().filter(only_numbers).collect();
        let options = Options { series_max, cells_max, lateness: Ns(late * S), ..wide() };
        let (mut shard, mut sink) = (Shard::new(options), Collect::default());
        for (at, items) in items.chunks(every).enumerate() {
            shard.put(&mut items.to_vec());
            shard.advance(WallNs(T + at as i64 * S / 3), &mut sink);
        }
        shard.advance(WallNs::MAX, &mut sink);
        let in_cells = sink.numbers.values().map(|cell| u64::from(cell.count)).sum::<u64>()
            + sink.values.values().map(|cell| cell.count).sum::<u64>();
        prop_assert_eq!(in_cells, shard.counts().taken);
        prop_assert_eq!(in_cells + shard.counts().refused_total(), items.len() as u64);
    }

    #[test]
    fn a_distribution_is_the_histogram_of_its_values(
        values in prop::collection::vec(prop_oneof![
            (-500..500_i32).prop_map(|n| f64::from(n) / 4.0),
            prop::sample::select(vec![0.0, -0.0, f64::NAN, f64::INFINITY, 1e-200, 1e200, 1e127, -3e-127]),
        ], 0..300),
    ) {
        let (mut shard, mut expected) = (Shard::new(wide()), Histogram::log_linear());
        let mut sink = Collect::default();
        for part in values.chunks(64) {
            shard.put(&mut part.iter().map(|n| value(7, T, *n)).collect());
        }
        values.iter().for_each(|n| expected.record(*n));
        shard.advance(WallNs(T + S), &mut sink);
        let reported = sink.values.remove(&(7, T)).unwrap_or_else(Histogram::log_linear);
        prop_assert_eq!(reported, expected);
    }
}

#[test]
fn a_bin_may_count_more_than_its_packed_count_holds() {
    let (mut shard, mut sink) = (Shard::new(wide()), Collect::default());
    let mut expected = Histogram::log_linear();
    [2.5, 40.0].into_iter().for_each(|n| expected.record_n(n, 50_000));
    for round in 0..3 {
        for n in [2.5, 40.0] {
            shard.put(&mut (0..50_000).map(|_| value(7, T + round * S, n)).collect());
        }
        shard.advance(WallNs(T + round * S + 1), &mut sink);
    }
    let reported: Vec<&Histogram> = sink.values.values().collect();
    assert_eq!(reported, [&expected; 3], "also when the same place is used again");
}

/// Shows what a dashboard sees of a gauge: the last value by its time, not by its arrival.
#[test]
fn the_last_value_is_the_latest_whichever_came_first() {
    let (mut shard, mut sink) = (Shard::new(wide()), Collect::default());
    shard.put(&mut vec![number(1, T - 5, 7.0), number(1, T - 9, 3.0), number(1, T - 5, 5.0), number(1, T, -1.0)]);
    shard.advance(WallNs(T + 1), &mut sink);
    let cell = sink.numbers[&(1, T)];
    assert_eq!((cell.count, cell.sum, cell.min, cell.max, cell.last), (4, 14.0, -1.0, 7.0, -1.0));
    assert_eq!(cell.last_at(WallNs(T)), WallNs(T));
}

#[test]
fn a_cell_closes_when_the_watermark_is_past_its_end_and_late_items_are_a_fragment() {
    let options = Options { lateness: Ns(2 * S), patience: None, ..Options::default() };
    let (mut shard, mut sink) = (Shard::new(options), Collect::default());
    shard.put(&mut vec![number(1, T - 1, 1.0)]);
    shard.advance(WallNs(T), &mut sink);
    assert!(sink.numbers.is_empty(), "more of the very end may come");
    shard.advance(WallNs(T + 1), &mut sink);
    assert_eq!((sink.numbers[&(1, T)].count, sink.late), (1, 0));
    shard.put(&mut vec![number(1, T, 2.0), number(2, T - S, 2.0), number(2, T - S - 1, 5.0)]);
    shard.advance(WallNs(T + 2), &mut sink);
    assert_eq!((sink.numbers[&(1, T)].count, sink.numbers[&(2, T - S)].count, sink.late), (2, 2, 2));
    shard.put(&mut vec![number(2, T - 2 * S, 9.0)]);
    let counts = shard.counts();
    assert_eq!((counts.taken, counts.late, counts.refused(Refused::TooLate)), (4, 3, 1));
}

#[test]
fn what_breaks_a_rule_is_refused_with_its_reason() {
    let options = Options { series_max: 2, cells_max: 1, idle_seconds: 10, ..wide() };
    let (mut shard, mut sink) = (Shard::new(options), Collect::default());
    let mut exp2 = Histogram::new(Scheme::Exp2 { scale: 2 });
    (exp2.positive, exp2.count) = (Bins::from_columns(vec![3], vec![1]), 1);
    let part = |series| Item { series: SeriesId(series), time_ns: T, what: ItemValue::Part(Box::new(exp2.clone())) };
    let refused = |shard: &mut Shard, item: Item, reason: Option<Refused>| {
        let before = shard.counts();
        shard.put(&mut vec![item.clone()]);
        let after = shard.counts();
        for other in Refused::ALL {
            let more = after.refused(other) - before.refused(other);
            assert_eq!(more, u64::from(Some(other) == reason), "{item:?}: {}", other.as_str());
        }
        assert_eq!(after.taken - before.taken, u64::from(reason.is_none()), "{item:?}");
    };
    refused(&mut shard, number(1, 0, 1.0), Some(Refused::Time));
    refused(&mut shard, number(1, i64::MAX, 1.0), Some(Refused::Time));
    refused(&mut shard, number(1, T, f64::NAN), Some(Refused::NotANumber));
    refused(&mut shard, number(1, T, 1.0), None);
    refused(&mut shard, number(2, T, 1.0), None);
    refused(&mut shard, number(3, T, 1.0), Some(Refused::Series));
    refused(&mut shard, number(1, T + S, 1.0), None);
    refused(&mut shard, number(2, T + S, 1.0), Some(Refused::Cells));
    refused(&mut shard, value(4, T, 1.0), None);
    refused(&mut shard, part(4), Some(Refused::Scheme));
    refused(&mut shard, part(5), None);
    refused(&mut shard, part(5), None);
    refused(&mut shard, value(5, T, 1.0), None);
    shard.advance(WallNs(T + 70 * S), &mut sink);
    assert_eq!(sink.values[&(5, T)].count, 3);
    refused(&mut shard, number(3, T + 71 * S, 1.0), Some(Refused::Series));
    assert_eq!(shard.series(), 4, "a table that has room is not searched for idle series");
}

#[test]
fn idle_series_make_room_when_the_table_is_full() {
    let options = Options { idle_seconds: 10, ..wide() };
    let (mut shard, mut sink) = (Shard::new(options), |_: &Closed<'_>| {});
    let many = |from: u128, time_ns| (from..from + 1_000).map(|n| number(n << 32 | n << 60, time_ns, 1.0)).collect();
    for round in 0..20 {
        let time_ns = T + round * 11 * S;
        shard.put(&mut many(1 + 1_000 * round as u128, time_ns));
        shard.advance(WallNs(time_ns + 1), &mut sink);
    }
    assert_eq!((shard.counts().taken, shard.counts().reported), (20_000, 20_000));
    assert!(shard.series() <= 3_000, "{} series", shard.series());
}

#[test]
fn a_full_ring_makes_feed_wait_and_offer_skip() {
    let options = wide();
    let (mut feeders, mut workers) = stream(options, Wait::Park, 1, 4, [Collect::default()]);
    let (mut feeder, worker) = (feeders.remove(0), workers.remove(0));
    let items = || (0..10).map(|n| number(n, T, 1.0));
    let fed = feeder.offer(SourceId(1), items(), WallNs(T));
    assert_eq!((fed.fed, fed.skipped), (4, 6));
    let ahead = feeder.offer(SourceId(1), [number(1, T + options.ahead.0 + 1, 1.0)], WallNs(T));
    assert_eq!((ahead.fed, ahead.ahead), (0, 1));
    let thread = std::thread::spawn(move || worker.run());
    let fed = feeder.feed(SourceId(1), items(), WallNs(T));
    assert_eq!((fed.fed, fed.skipped), (10, 0));
    assert_eq!(feeder.finish(), Fed { fed: 14, skipped: 6, ahead: 1 });
    let (counts, sink) = thread.join().unwrap();
    assert_eq!((counts.taken, sink.numbers.len()), (14, 10));
}

/// Whose cells lack something is reported, by who was refused; who does not fit into a ring hears so.
#[test]
fn who_offers_without_an_order_and_who_is_refused_are_reported() {
    #[derive(Default)]
    struct Refusals(Vec<(SeriesId, WallNs)>, WallNs);
    impl Sink for Refusals {
        fn cell(&mut self, _: &Closed<'_>) {}

        fn closed(&mut self, end: WallNs) {
            self.1 = end;
        }

        fn refused(&mut self, series: SeriesId, time: WallNs) {
            self.0.push((series, time));
        }
    }
    let options = Options { series_max: 1, ..wide() };
    let (mut feeders, mut workers) = stream(options, Wait::Park, 1, 4, [Refusals::default()]);
    let (mut feeder, worker) = (feeders.remove(0), &mut workers[0]);
    let far = feeder.offer_unordered([number(1, T + 3_600 * S, 1.0)]);
    assert_eq!((far.fed, feeder.sources()), (1, 0), "nobody's time is known by it");
    let fed = feeder.offer_unordered([number(1, T, 1.0), number(2, T, 1.0), number(1, T, f64::NAN), number(3, T, 1.0)]);
    assert_eq!((fed.fed, fed.skipped), (3, 1));
    assert!(!feeder.offer_until(WallNs(T + 1)), "a full ring");
    worker.turn();
    assert_eq!(worker.sink().0, [(SeriesId(2), WallNs(T)), (SeriesId(1), WallNs(T))]);
    assert_eq!(worker.sink().1, WallNs(0));
    assert!(feeder.offer_until(WallNs(T + 1)));
    worker.turn();
    assert_eq!((worker.sink().0.len(), worker.sink().1), (2, WallNs(T)), "reported once");
}

#[test]
fn every_way_to_wait_loses_nothing() {
    for wait in [Wait::Spin, Wait::Yield, Wait::Park, Wait::Hybrid(Hybrid { spins: 5, yields: 5, park_us: 100 })] {
        let (feeders, workers) = stream(wide(), wait, 2, 8, [Collect::default(), Collect::default()]);
        let workers: Vec<_> = workers.into_iter().map(|worker| std::thread::spawn(move || worker.run())).collect();
        let feeders: Vec<_> = feeders
            .into_iter()
            .enumerate()
            .map(|(at, mut feeder)| {
                std::thread::spawn(move || {
                    let item = |n: u128| number(identity(n as u8), T + n as i64 * S / 100, 1.0);
                    feeder.feed(SourceId(at as u128), (0..400).map(item), WallNs(T + 4 * S));
                    feeder.finish()
                })
            })
            .collect();
        let fed: Vec<Fed> = feeders.into_iter().map(|feeder| feeder.join().unwrap()).collect();
        assert_eq!(fed, [Fed { fed: 400, skipped: 0, ahead: 0 }; 2], "{wait:?}");
        let taken = workers.into_iter().map(|worker| worker.join().unwrap().0.taken).sum::<u64>();
        assert_eq!(taken, 800, "{wait:?}");
    }
}

#[test]
fn a_bare_worker_finds_every_place_and_tells_nothing() {
    let (mut feeders, workers) = stream(wide(), Wait::Yield, 1, 1_024, [Collect::default()]);
    let mut feeder = feeders.remove(0);
    feeder.feed(SourceId(1), (0..600).map(|n| number(n % 300, T + (n as i64) * S / 100, 1.0)), WallNs(T + 9 * S));
    feeder.finish();
    let mut worker = workers.into_iter().next().unwrap().bare();
    while worker.turn() > 0 {}
    assert_eq!((worker.shard().series(), worker.shard().counts().taken), (300, 600));
    assert!(worker.sink().numbers.is_empty());
}

#[test]
fn the_clock_closes_cells_of_sources_that_fell_silent() {
    let options = Options { patience: Some(Ns(S / 4)), ..wide() };
    let (mut feeders, mut workers) = stream(options, Wait::Spin, 2, 64, [Collect::default()]);
    let [fast, slow] = &mut feeders[..] else { unreachable!() };
    fast.feed(SourceId(1), [number(1, T, 1.0)], WallNs(T + 1));
    slow.feed(SourceId(2), [number(2, T, 1.0)], WallNs(T + 2));
    workers[0].turn();
    assert_eq!(workers[0].sink().numbers.len(), 0);
    for now in [T + S / 4, T + S / 4 + 1] {
        fast.tick(WallNs(now));
        slow.tick(WallNs(now));
        workers[0].turn();
        assert_eq!(workers[0].sink().numbers.len(), if now == T + S / 4 { 0 } else { 2 });
    }
}

#[test]
fn series_spread_over_shards() {
    let counts = (0..10_000_u128).fold([0; 3], |mut counts, n| {
        counts[shard_of(SeriesId(n.wrapping_mul(u128::MAX / 10_000)), 3)] += 1;
        counts
    });
    assert!(counts.iter().all(|count| (3_300..3_400).contains(count)), "{counts:?}");
    assert_eq!(shard_of(SeriesId(u128::MAX), 2), 1);
}

/// A table that was neither full enough to grow nor had room for everything that was looked up together refused the
/// rest of it as beyond the limit of series, far below that: 20 series and then 32 others lost 4.
#[test]
fn a_batch_of_new_series_always_finds_room() {
    for (before, lookahead) in (0..=64_u128).flat_map(|before| [(before, 32), (before, Options::LOOKAHEAD_MAX)]) {
        let mut shard = Shard::new(Options { lookahead, ..wide() });
        let key = |n: u128| n.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835) | 1 << 64;
        shard.put(&mut (0..before).map(|n| number(key(n), T, 1.0)).collect());
        shard.put(&mut (before..before + 200).map(|n| number(key(n), T, 1.0)).collect());
        let counts = shard.counts();
        assert_eq!((counts.refused_total(), counts.taken), (0, before as u64 + 200), "{before} before, {lookahead}");
    }
}
