//! The engine: three threads that hand orders on, and the faults that can be put into them.
//!
//! Gateway (receive) -> journaller (journal, replicate) -> engine (risk, match, publish). The stamps travel in the message;
//! the engine's thread finishes it.

use crate::book::{Book, Order, Trade};
use ogive_probe::{
    Clock, MarkList, MarkName, Marker, SlowTrace, Threshold, TickSource, TraceCell, TraceRecorder, TraceWriter,
    trace_path,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

trace_path! {
    /// An order's way. `taken` and `handed` are waits in the queues between threads; nothing happens in `stamped`, so that
    /// it shows what a stamp itself takes.
    pub OrderPath {
        received: infra @ordered,
        taken: infra @ordered,
        journal: infra,
        replicate: infra,
        handed: infra @ordered,
        risk: logic,
        matched: logic,
        stamped: infra,
        publish: infra @ordered,
    }
}

/// Stages in which a message waits for others, which are to blame.
pub(crate) const QUEUES: [&str; 2] = ["taken", "handed"];

/// Messages slower than this are kept whole.
pub(crate) const LIMIT: Threshold = Threshold::fixed_ns(5_000_000);

/// The mark of a trade that is published: an order makes none, one or several.
pub(crate) const TRADE: &str = "trade";

/// Orders in the queue between two threads before the gateway has to wait.
const QUEUE_MAX: usize = 1_024;

/// An order a half millisecond, and a fault each 400 orders: five a second.
const ORDER_PERIOD: Duration = Duration::from_micros(500);
const FAULT_EACH: u64 = 400;

/// How long the journal stops, and the gateway.
const STALL: Duration = Duration::from_millis(12);
const PAUSE: Duration = Duration::from_millis(120);

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// Now and then the journal's device takes 12 ms.
    Journal,
    /// Now and then the risk check looks at everything instead of a sum.
    Logic,
    /// The clock takes twenty times as long to read.
    Clock,
    /// Now and then the gateway sends nothing for 120 ms: no message is in flight.
    Pause,
}

impl Fault {
    pub(crate) const ALL: [Self; 5] = [Self::None, Self::Journal, Self::Logic, Self::Clock, Self::Pause];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Journal => "journal",
            Self::Logic => "logic",
            Self::Clock => "clock",
            Self::Pause => "pause",
        }
    }
}

/// A clock that must be read so many times for one reading, as one that is a call into the system is slower.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slowed {
    pub(crate) clock: Clock,
    pub(crate) times: u32,
}

impl TickSource for Slowed {
    fn clock(self) -> Clock {
        self.clock
    }

    fn ticks(self) -> u64 {
        (1..self.times).for_each(|_| {
            std::hint::black_box(self.clock.ticks());
        });
        self.clock.ticks()
    }

    fn ticks_ordered(self) -> u64 {
        (1..self.times).for_each(|_| {
            std::hint::black_box(self.clock.ticks_ordered());
        });
        self.clock.ticks_ordered()
    }
}

/// What travels.
struct Message {
    order: Order,
    trace: OrderPath,
}

/// What a run gave.
pub(crate) struct Outcome {
    pub(crate) sent: u64,
    pub(crate) trades: u64,
    pub(crate) cell: TraceCell,
    pub(crate) slow: Vec<SlowTrace>,
    /// What one stamp costs, as the slow traces' clock note says, or a look at the source when there is none.
    pub(crate) stamp_ns: f64,
}

/// Runs the engine for `time` with a fault; takes a snapshot and the slow traces each second, as a service would.
pub(crate) fn run(fault: Fault, time: Duration) -> Outcome {
    let (source, recorder) = recorder(fault);
    let (mut cell, mut slow) = (recorder.snapshot(), Vec::new());
    let (sent, trades) = drive(source, &recorder, fault, time, || {
        cell.merge(&recorder.snapshot());
        slow.extend(recorder.drain());
    });
    cell.merge(&recorder.snapshot());
    slow.extend(recorder.drain());
    let stamp_ns = slow.last().map_or_else(|| stamp_ns(source), |trace| trace.clock.read_ns);
    Outcome { sent, trades, cell, slow, stamp_ns }
}

/// What the stamps of a run with a fault come from, and what counts them.
pub(crate) fn recorder(fault: Fault) -> (Slowed, TraceRecorder<OrderPath, Slowed>) {
    let source = Slowed { clock: Clock::global(), times: if fault == Fault::Clock { 20 } else { 1 } };
    (source, TraceRecorder::new(source, LIMIT))
}

/// Runs the three threads for `time`; gives the numbers of orders and trades.
pub(crate) fn drive(
    source: Slowed,
    recorder: &TraceRecorder<OrderPath, Slowed>,
    fault: Fault,
    time: Duration,
    mut each_second: impl FnMut(),
) -> (u64, u64) {
    let clock = source.clock;
    let stop = AtomicBool::new(false);
    let (to_journal, from_gateway) = sync_channel(QUEUE_MAX);
    let (to_engine, from_journal) = sync_channel(QUEUE_MAX);
    std::thread::scope(|scope| {
        let stop = &stop;
        let gateway = scope.spawn(move || gateway(source, fault, stop, &to_journal));
        scope.spawn(move || journaller(source, fault, &from_gateway, &to_engine));
        let hands = (recorder.handle("engine"), recorder.marker(), recorder.mark_name(TRADE));
        let engine = scope.spawn(move || engine(source, fault, &from_journal, &hands));
        let end = clock.now() + time.as_nanos() as u64;
        while clock.now() < end {
            std::thread::sleep(Duration::from_nanos(end.saturating_sub(clock.now()).min(1_000_000_000)));
            each_second();
        }
        // ORDERING: Relaxed; the gateway sees it sooner or later, and the joins order the rest.
        stop.store(true, Ordering::Relaxed);
        let sent = gateway.join().expect("the gateway ends well");
        (sent, engine.join().expect("the engine ends well"))
    })
}

fn stamp_ns(source: Slowed) -> f64 {
    const READS: u32 = 1_000;
    let start = source.ticks_ordered();
    (1..READS).for_each(|_| {
        std::hint::black_box(source.ticks());
    });
    source.clock.ns_between(start, source.ticks_ordered()) as f64 / f64::from(READS)
}

/// Makes orders, one each half millisecond, until the stop flag is set.
fn gateway(source: Slowed, fault: Fault, stop: &AtomicBool, to: &SyncSender<Message>) -> u64 {
    let (mut sent, mut state) = (0_u64, 0x5eed_u64);
    // ORDERING: Relaxed; as where it is stored.
    while !stop.load(Ordering::Relaxed) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = (state >> 33) as u32;
        // Buyers offer 100 to 1,099 less than the middle, or cross it, and sellers the other way round.
        let away = random % 1_100;
        let buys = random & 0x1000 != 0;
        let price = if buys { 10_100 - away } else { 9_900 + away };
        let order = Order { id: sent, buys, price, quantity: 1 + random % 10 };
        if to.send(Message { order, trace: OrderPath::begin(source) }).is_err() {
            break;
        }
        sent += 1;
        let pauses = fault == Fault::Pause && sent.is_multiple_of(FAULT_EACH);
        std::thread::sleep(if pauses { PAUSE } else { ORDER_PERIOD });
    }
    sent
}

/// Writes each order to the journal and to the second machine, which are memory here.
fn journaller(source: Slowed, fault: Fault, from: &Receiver<Message>, to: &SyncSender<Message>) {
    let (mut journal, mut replica) = (Vec::with_capacity(1 << 20), Vec::with_capacity(1 << 20));
    for mut message in from {
        message.trace.mark(source, OrderPath::taken);
        append(&mut journal, &message.order);
        if fault == Fault::Journal && (message.order.id + 1).is_multiple_of(FAULT_EACH) {
            std::thread::sleep(STALL);
        }
        message.trace.mark(source, OrderPath::journal);
        append(&mut replica, &message.order);
        message.trace.mark(source, OrderPath::replicate);
        if to.send(message).is_err() {
            return;
        }
    }
}

/// A record is length, body and a sum over it; the log begins anew when it is full.
fn append(log: &mut Vec<u8>, order: &Order) {
    if log.len() + 64 > log.capacity() {
        log.clear();
    }
    let start = log.len();
    log.extend_from_slice(&20_u32.to_le_bytes());
    log.extend_from_slice(&order.id.to_le_bytes());
    log.extend_from_slice(&u32::from(order.buys).to_le_bytes());
    log.extend_from_slice(&order.price.to_le_bytes());
    log.extend_from_slice(&order.quantity.to_le_bytes());
    let sum = log[start..].iter().fold(0_u32, |sum, byte| sum.rotate_left(5) ^ u32::from(*byte));
    log.extend_from_slice(&sum.to_le_bytes());
}

type Hands = (TraceWriter<OrderPath>, Marker<OrderPath>, MarkName<OrderPath>);

fn engine(source: Slowed, fault: Fault, from: &Receiver<Message>, (writer, marker, trade): &Hands) -> u64 {
    let (mut book, mut trades, mut count, mut exposure) = (Book::default(), Vec::<Trade>::new(), 0, 0_u64);
    for Message { order, mut trace } in from {
        trace.mark(source, OrderPath::handed);
        exposure += u64::from(order.price) * u64::from(order.quantity);
        if fault == Fault::Logic && (order.id + 1).is_multiple_of(FAULT_EACH) {
            // The sum is there; somebody did not trust it, and looks at the whole book as often as it takes 12 ms.
            let start = source.clock.now();
            while source.clock.now() - start < STALL.as_nanos() as u64 {
                std::hint::black_box(book.exposure_by_scan());
            }
        }
        std::hint::black_box(exposure);
        trace.mark(source, OrderPath::risk);
        book.add(order, &mut trades);
        trace.mark(source, OrderPath::matched);
        trace.mark(source, OrderPath::stamped);
        count += trades.len() as u64;
        // An order makes 0..n trades, and each is published: the list has them all.
        let mut list = MarkList::new();
        for trade_made in trades.drain(..) {
            std::hint::black_box(trade_made);
            list.mark(source, marker, *trade);
        }
        trace.mark(source, OrderPath::publish);
        writer.finish_listed(&trace, &list);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use ogive_probe::TracePath;

    fn max_ns(cell: &TraceCell, stage: &str) -> f64 {
        let stage = cell.stages.iter().find(|known| known.name == stage).expect("a stage of that name");
        stage.times.max.unwrap_or(0.0) * 1e9
    }

    /// The machine may stop threads too, so a test asks only for what the fault must show.
    fn check(fault: Fault, shows: impl Fn(&Outcome) -> bool) {
        // A busy machine sends less: until there was room for a fault or two.
        let times = [700, 3_000, 12_000].map(Duration::from_millis);
        let mut outcomes = times.into_iter().map(|time| run(fault, time));
        let outcome = outcomes.find(|outcome| outcome.sent >= FAULT_EACH + 50);
        let outcome = outcome.expect("twelve seconds are enough for 450 orders");
        let cell = &outcome.cell;
        assert!(cell.is_conserved(), "{:?}", cell.counts);
        assert_eq!((cell.counts.finished, cell.counts.partial, cell.counts.incomplete), (outcome.sent, 0, 0));
        assert!(outcome.slow.iter().all(|trace| trace.stages.len() == OrderPath::POINTS.len() - 1));
        assert!(shows(&outcome), "{fault:?} does not show: {:?}", outcome.slow);
    }

    #[test]
    fn each_fault_shows_where_it_is() {
        let has_slow = |outcome: &Outcome, stage: &str| {
            outcome.slow.iter().any(|trace| trace.culprit().is_some_and(|culprit| culprit.name == stage))
        };
        check(Fault::None, |outcome| outcome.trades > 0 && outcome.cell.counts.listed == outcome.trades);
        check(Fault::Journal, |outcome| max_ns(&outcome.cell, "journal") >= 12e6 && has_slow(outcome, "journal"));
        check(Fault::Logic, |outcome| max_ns(&outcome.cell, "risk") >= 11.9e6 && has_slow(outcome, "risk"));
        check(Fault::Clock, |outcome| {
            let stamped = outcome.cell.stages.iter().find(|stage| stage.name == "stamped").expect("is there");
            stamped.times.quantile(0.5).is_some_and(|middle| middle.value * 1e9 > 10.0 * outcome.stamp_ns / 20.0)
        });
        check(Fault::Pause, |outcome| outcome.cell.publishers[0].gaps.max.is_some_and(|max| max >= 0.119));
    }
}
