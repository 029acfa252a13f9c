//! How many samples does a core merge into live cells in a second: from remote write bodies with labels and times, and
//! from identities; how much of it is arithmetic; what does looking ahead gain; what do percentiles for each key cost
//! in time and bytes; how do two shards compare with one; and what does waiting cost?
//!
//! Each group runs its variants in turn, in one process, and counts the CPU time of the working thread (Linux' own
//! account of it), so that a busy machine hurts all alike. A million series in an order that is shuffled anew for each
//! second.
//!
//! `cargo bench -p ogive-protocol --bench stream [-- GROUP]`, GROUP one of `single`, `values`, `shards`, `wait`;
//! `OGIVE_BENCH_SERIES` (default 1,000,000), `OGIVE_BENCH_ROUNDS` (default 5).

mod work;

use std::time::Instant;

use ogive_model::{SourceId, WallNs};
use ogive_stream::cells::{Closed, Content, Hybrid, Item, ItemValue, Options, Shard, Wait, Worker, stream};

use work::{Cpu, Numbers, SECOND, TIME, body, identities, items, print, read_body, rounds, series_count, shuffled};

fn main() {
    let group = std::env::args().nth(1).filter(|name| !name.starts_with('-'));
    let groups: [(&str, fn()); 4] = [("single", single), ("values", values), ("shards", shards), ("wait", wait)];
    println!("{}; {} series, {} rounds", work::machine(), series_count(), rounds());
    for (name, run) in groups {
        if group.as_deref().is_none_or(|group| group == name) {
            run();
        }
    }
}

/// What a consumer of cells does at the least: it looks at each.
fn sum_up(total: &mut f64) -> impl FnMut(&Closed<'_>) + '_ {
    |closed| match closed.content {
        Content::Numbers(cell) => *total += cell.sum + f64::from(cell.count),
        Content::Values(cell) => *total += cell.count() as f64,
    }
}

/// One thread, a second a round: the bodies or items of a second, and its cells emitted.
fn single() {
    let ids = identities();
    let mut table = work::Bare::new(ids.len());
    let new = |lookahead| Shard::new(Options { lookahead, ..Options::default() });
    let (mut by_body, mut by_id, mut alone) = (new(32), new(32), new(1));
    let mut seconds = vec![Numbers::default(); 4];
    let (mut reader, mut total) = (ogive_protocol::remote_write::ItemReader::default(), 0.0);
    // One more round at first: it makes the tables.
    for round in 0..=rounds() as i64 {
        let order = shuffled(round as u64);
        let time_ns = TIME + round * SECOND;
        let counts = round > 0;
        let bodies: Vec<Vec<u8>> = order.chunks(work::BODY_SERIES).map(|series| body(series, time_ns)).collect();
        let mut read = Vec::new();
        let cpu = Cpu::now();
        for body in &bodies {
            read_body(&mut reader, body, &mut read);
            by_body.put(&mut read);
        }
        by_body.advance(WallNs(time_ns + 1), &mut sum_up(&mut total));
        seconds[0].add(cpu.elapsed(), counts);
        drop(bodies);
        for (shard, of) in [(&mut by_id, 1), (&mut alone, 2)] {
            let mut items = items(&ids, &order, time_ns);
            let cpu = Cpu::now();
            shard.put(&mut items);
            shard.advance(WallNs(time_ns + 1), &mut sum_up(&mut total));
            seconds[of].add(cpu.elapsed(), counts);
        }
        let items = items(&ids, &order, time_ns);
        let cpu = Cpu::now();
        table.touch(&items);
        seconds[3].add(cpu.elapsed(), counts);
    }
    assert_eq!(by_body.counts().taken, by_id.counts().taken);
    assert_eq!((by_body.counts().refused_total(), by_body.series()), (0, ids.len()));
    println!("table of {} MiB; checksum {total:e}", by_id.table_bytes() >> 20);
    let million = ids.len() as f64 / 1e6;
    print("remote write bodies, 9 labels, snappy", "M samples/s/core", &seconds[0], million, None);
    print("identities", "M samples/s/core", &seconds[1], million, Some(&seconds[0]));
    print("identities, each looked up alone", "M samples/s/core", &seconds[2], million, Some(&seconds[1]));
    print("one line of memory each, no arithmetic", "M samples/s/core", &seconds[3], million, Some(&seconds[1]));
}

/// Percentiles for each key: 300,000 keys with five values a second each, and as many with a hundred.
fn values() {
    let keys = (series_count() / 3).max(1);
    let ids = &identities()[..keys];
    for (values, parts) in [(5_u64, 1), (100, 10)] {
        let keys = keys / parts;
        let mut shard = Shard::new(Options::default());
        let (mut seconds, mut random, mut total, mut bytes) =
            (Numbers::default(), work::Random(fastrand::Rng::with_seed(7)), 0.0, 0);
        for round in 0..=rounds() as i64 {
            let time_ns = TIME + round * SECOND;
            let mut items = Vec::with_capacity(keys * values as usize);
            for _ in 0..values {
                for _ in 0..keys {
                    let series = ids[random.below(keys as u64) as usize];
                    items.push(Item { series, time_ns, what: ItemValue::Value(random.latency()) });
                }
            }
            let cpu = Cpu::now();
            shard.put(&mut items);
            let merged = cpu.elapsed();
            bytes = bytes.max(shard.values_bytes());
            let cpu = Cpu::now();
            shard.advance(WallNs(time_ns + 1), &mut sum_up(&mut total));
            seconds.add(merged + cpu.elapsed(), round > 0);
        }
        assert_eq!(shard.counts().refused_total(), 0);
        let million = (keys as u64 * values) as f64 / 1e6;
        print(&format!("{keys} keys, {values} values each"), "M values/s/core", &seconds, million, None);
        println!("    {:.0} bytes a key, its place in the table with them", bytes as f64 / keys as f64 + 64.0 / 0.6);
    }
}

/// The same items through rings into one shard and into two, each on its own thread, tables made before.
fn shards() {
    let ids = identities();
    let options = Options { patience: None, ..Options::default() };
    let mut streams: Vec<_> = [1, 2]
        .into_iter()
        .map(|shards| {
            let sinks = (0..shards).map(|_| |_: &Closed<'_>| {});
            // Rings that hold a second, so that the feeder's time is apart from the shards'.
            let (mut feeders, workers) = stream(options, Wait::Yield, 1, ids.len() + 64, sinks);
            (feeders.remove(0), workers)
        })
        .collect();
    let (mut cpu, mut wall) = ([Numbers::default(), Numbers::default()], [Numbers::default(), Numbers::default()]);
    // Two rounds more at first: they make the tables, and touch the rings.
    for round in 0..rounds() as i64 + 2 {
        let order = shuffled(round as u64);
        let time_ns = TIME + round * SECOND;
        for (at, (feeder, workers)) in streams.iter_mut().enumerate() {
            feeder.feed(SourceId(1), items(&ids, &order, time_ns), WallNs(time_ns));
            let from = Instant::now();
            let ran: Vec<f64> = std::thread::scope(|scope| {
                let mut threads = Vec::new();
                for worker in workers.iter_mut() {
                    threads.push(scope.spawn(move || {
                        let cpu = Cpu::now();
                        while worker.turn() > 0 {}
                        cpu.elapsed()
                    }));
                }
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            wall[at].add(from.elapsed().as_secs_f64(), round > 1);
            // With a core each, the slower one says how long it takes.
            cpu[at].add(ran.into_iter().fold(0.0, f64::max), round > 1);
        }
    }
    let taken =
        |workers: &mut Vec<Worker<_>>| workers.iter_mut().map(|worker| worker.shard().counts().taken).sum::<u64>();
    assert_eq!(taken(&mut streams[0].1), taken(&mut streams[1].1));
    let million = ids.len() as f64 / 1e6;
    print("one shard behind its ring", "M samples/s", &cpu[0], million, None);
    print("two shards", "M samples/s", &cpu[1], million, Some(&cpu[0]));
    print("two shards, wall clock on the cores there are", "M samples/s", &wall[1], million, Some(&wall[0]));
}

/// What waiting for a hundredth of a second between bursts costs and delays.
fn wait() {
    for wait in [Wait::Spin, Wait::Yield, Wait::Park, Wait::Hybrid(Hybrid::default())] {
        let options = Options { patience: None, ..Options::default() };
        let began = Instant::now();
        let mut delays = Vec::new();
        // The time of an item says when it was fed, so that its cell closes as the next one comes.
        let sink = move |closed: &Closed<'_>| {
            let Content::Numbers(cell) = closed.content else { return };
            delays.push(began.elapsed().as_secs_f64() - cell.last);
            if delays.len() == 100 {
                delays.sort_by(f64::total_cmp);
                println!("    closed to reported: p50 {:.0} us, p99 {:.0} us", delays[50] * 1e6, delays[98] * 1e6);
            }
        };
        let (mut feeders, mut workers) = stream(options, wait, 1, 64, [sink]);
        let worker = workers.remove(0);
        let thread = std::thread::spawn(move || {
            let cpu = Cpu::now();
            let _ = worker.run();
            cpu.elapsed()
        });
        let mut feeder = feeders.remove(0);
        for at in 0..102 {
            std::thread::sleep(std::time::Duration::from_millis(10));
            let time_ns = TIME + at * SECOND;
            // The cell before this one closes now: its number is the instant of now.
            let now = began.elapsed().as_secs_f64();
            let series = ogive_model::SeriesId(1);
            let item = |time_ns, value| Item { series, time_ns, what: ItemValue::Number(value) };
            feeder.feed(SourceId(1), [item(time_ns, now), item(time_ns + 1, 0.0)], WallNs(time_ns));
        }
        feeder.finish();
        let wall = began.elapsed().as_secs_f64();
        println!("{wait:?}: {:.1} % of a core while 2 items came each 10 ms", thread.join().unwrap() / wall * 100.0);
    }
}
