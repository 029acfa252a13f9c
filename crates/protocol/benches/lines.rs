//! How many lines of each line protocol does a CPU take in a second, from bytes to cells or batches? Each kind of lines
//! in turn, the rounds interleaved, on one thread: `cargo bench -p ogive-protocol --bench lines`.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

use ogive_model::{SourceId, Tenant, WallNs};
use ogive_protocol::lines::{Faults, Names};
use ogive_protocol::{Gather, graphite, influx, statsd};
use ogive_stream::Quantizer;

/// Different series of each kind.
const SERIES: usize = 1_000;
/// Lines of a round: 36 datagrams' worth at the size that clients send.
const LINES: usize = 20_000;
const ROUNDS: usize = 60;
/// What fits a datagram of an Ethernet frame.
const DATAGRAM: usize = 1_432;

type Taker = Box<dyn FnMut(i64)>;

fn main() {
    let mut kinds: Vec<(&str, Taker)> = vec![
        ("statsd gauges", statsd(|at, out| writeln!(out, "app.gauge.{}:{}|g", at % SERIES, at).unwrap())),
        ("statsd counters", statsd(|at, out| writeln!(out, "app.counter.{}:1|c", at % SERIES).unwrap())),
        (
            "statsd timers",
            statsd(|at, out| writeln!(out, "app.timer.{}:{}.{}|ms", at % SERIES, at % 977, at % 10).unwrap()),
        ),
        (
            "dogstatsd timers, 3 tags",
            statsd(|at, out| {
                writeln!(out, "app.q:{}.{}|d|#route:/a/{},env:prod,host:web-17", at % 977, at % 10, at % SERIES)
                    .unwrap();
            }),
        ),
        ("statsd sets", statsd(|at, out| writeln!(out, "app.set.{}:user-{}|s", at % SERIES, at).unwrap())),
        ("graphite", graphite()),
        ("influx, 2 tags, 2 fields", influx()),
    ];
    let mut seconds = vec![Vec::new(); kinds.len()];
    for round in 0..ROUNDS {
        for ((_, take), seconds) in kinds.iter_mut().zip(&mut seconds) {
            let from = Instant::now();
            take(1_700_000_000_000_000_000 + round as i64 * 1_000_000_000);
            seconds.push(from.elapsed().as_secs_f64());
        }
    }
    println!(
        "{SERIES} series, {LINES} lines a cell, one thread; million lines a second: median (p10 to p90 of {ROUNDS} rounds)"
    );
    for ((name, _), mut seconds) in kinds.into_iter().zip(seconds) {
        seconds.sort_by(f64::total_cmp);
        let rate = |of: usize| LINES as f64 / seconds[of * (ROUNDS - 1) / 100] / 1e6;
        println!("{name:26} {:6.2} ({:.2} to {:.2})", rate(50), rate(90), rate(10));
    }
}

/// Lines as datagrams.
fn datagrams(line: impl Fn(usize, &mut String)) -> Vec<Vec<u8>> {
    let (mut out, mut datagram) = (Vec::new(), String::new());
    for at in 0..LINES {
        let before = datagram.len();
        line(at, &mut datagram);
        if datagram.len() > DATAGRAM {
            let rest = datagram.split_off(before);
            out.push(std::mem::replace(&mut datagram, rest).into_bytes());
        }
    }
    out.push(datagram.into_bytes());
    out
}

/// Decodes, merges into cells, and takes the cells of each second.
fn statsd(line: impl Fn(usize, &mut String)) -> Taker {
    let (datagrams, options) = (datagrams(line), statsd::Options::default());
    let (mut quantizer, mut tally) = (Quantizer::default(), statsd::Tally::default());
    Box::new(move |now| {
        for datagram in &datagrams {
            statsd::feed(datagram, now, &options, &mut quantizer, &mut tally);
        }
        assert_eq!(quantizer.take(WallNs(now + 1)).len(), SERIES);
        assert_eq!(tally.faults.total(), 0);
    })
}

fn graphite() -> Taker {
    let datagrams = datagrams(|at, out| writeln!(out, "servers.web.cpu.{} {at}.5 1700000000", at % SERIES).unwrap());
    Box::new(move |now| {
        let (mut gather, mut faults) = (Gather::default(), Faults::default());
        for datagram in &datagrams {
            graphite::feed(datagram, now, Names::Underscore, &mut gather, &mut faults);
        }
        let batch = gather.take(SourceId(1), 1, &Tenant::default());
        assert_eq!((batch.samples.len(), faults.total()), (LINES, 0));
        black_box(batch);
    })
}

fn influx() -> Taker {
    let line = |at: usize, out: &mut String| {
        writeln!(out, "cpu,host=web{},region=eu user={at}.5,system={at}i 1700000000000000000", at % (SERIES / 2))
            .unwrap();
    };
    let body = datagrams(line).concat();
    Box::new(move |_| {
        let options = influx::Options::default();
        let read = influx::read(&body, &Tenant::default(), SourceId(1), 1, &options).unwrap();
        assert_eq!((read.batch.samples.len(), read.good), (2 * LINES, LINES as u64));
        black_box(read);
    })
}
