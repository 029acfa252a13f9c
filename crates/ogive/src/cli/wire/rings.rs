//! The rings of live packets and the threads that read them.
//!
//! Threads: each ring has one, which alone has its observer; they add to one [`Sinks`] under a lock taken once a block.
//! Failure: an interface that goes away ends its thread with a line on standard error, the others go on.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::Context;
use ogive_capture::{Counts, Fanout, Filter, Frame as RawFrame, Hardware, Ring};
use ogive_wire::frame::Link;
use ogive_wire::{Observer, Options, Totals, file};

use super::export::Export;
use super::sinks::Sinks;

/// The longest single wait for a ring: the most that a stop is delayed.
const WAIT_MS: u16 = 100;

/// State shared by the threads.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) sinks: Mutex<Sinks>,
    stop: AtomicBool,
    pub(super) drops: Arc<AtomicU64>,
    pub(super) freezes: Arc<AtomicU64>,
    pub(super) packets: Arc<AtomicU64>,
    evicted: Arc<AtomicU64>,
}

impl Shared {
    pub(super) fn new(sinks: Mutex<Sinks>) -> Self {
        let (drops, freezes, packets, evicted) = Default::default();
        Self { sinks, stop: AtomicBool::new(false), drops, freezes, packets, evicted }
    }

    /// Sends the kernel's packet counters.
    pub(super) fn send(&self, export: &Export) {
        let counters = [
            ("ogive_wire_kernel_drops_total", &self.drops),
            ("ogive_wire_ring_freezes_total", &self.freezes),
            ("ogive_wire_packets_total", &self.packets),
            ("ogive_wire_evicted_connections_total", &self.evicted),
        ];
        for (name, counter) in counters {
            export.note(export.counter(name, &[], counter));
        }
    }
}

/// The filter for the kernel: packets of these ports, or all.
pub(super) fn filter(ports: &[u16]) -> anyhow::Result<Option<Filter>> {
    if ports.is_empty() {
        return Ok(None);
    }
    let filter = Filter::from_ports(ports);
    filter.map(Some).with_context(|| format!("at most {} ports can be filtered", ogive_capture::MAX_PORTS))
}

/// The rings of an interface: one a shard.
pub(super) fn open(interface: &str, filter: Option<&Filter>, shards: u16) -> anyhow::Result<Vec<Ring>> {
    /// Fanout groups of this process; together with its number they are unique.
    static GROUPS: AtomicU16 = AtomicU16::new(0);
    // ORDERING: Relaxed; each call gets another number.
    let number = GROUPS.fetch_add(1, Ordering::Relaxed);
    #[allow(clippy::cast_possible_truncation, reason = "any 16 bits do")]
    let group = (std::process::id() as u16).wrapping_add(number);
    let fanout = (shards > 1).then_some(Fanout { group });
    (0..shards).map(|_| Ring::open(interface, filter, fanout).map_err(anyhow::Error::from)).collect()
}

/// Starts a thread for each ring.
pub(super) fn start(
    rings: Vec<Ring>,
    options: &Options,
    shared: &Arc<Shared>,
) -> std::io::Result<Vec<JoinHandle<Totals>>> {
    let spawn = |ring: Ring| {
        let (shared, options) = (shared.clone(), options.clone());
        std::thread::Builder::new().name("ogive-wire".into()).spawn(move || observe(ring, options, &shared))
    };
    rings.into_iter().map(spawn).collect()
}

/// Stops the threads once every open block has been read; returns their totals.
pub(super) fn stop(threads: Vec<JoinHandle<Totals>>, shared: &Shared) -> anyhow::Result<Totals> {
    // ORDERING: Release; pairs with the Acquire in `observe`; nothing but the flag itself is published.
    shared.stop.store(true, Ordering::Release);
    let mut totals = Totals::default();
    for thread in threads {
        let seen = thread.join().map_err(|_| anyhow::anyhow!("a thread of the observer panicked"))?;
        add(&mut totals, &seen);
    }
    Ok(totals)
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One ring's thread.
fn observe(mut ring: Ring, options: Options, shared: &Shared) -> Totals {
    let mut observer = Observer::new(options);
    let link = match ring.hardware() {
        Hardware::Ethernet => Link::Ethernet,
        Hardware::Ip => Link::Raw,
    };
    let (mut last, mut before, mut evicted) = (0, Counts::default(), 0);
    let (mut is_stopping, mut drained) = (false, 0_u32);
    loop {
        let is_ready = match ring.wait(WAIT_MS) {
            Ok(is_ready) => is_ready,
            Err(error) => {
                eprintln!("ogive: {error}");
                break;
            }
        };
        if is_ready {
            let mut sinks = lock(&shared.sinks);
            ring.read_block(|raw: RawFrame<'_>| {
                last = raw.at;
                sinks.frame(last);
                let frame = file::Frame { at: raw.at, link, bytes: raw.bytes, length: raw.length };
                observer.frame(&frame, &mut *sinks);
            });
        } else {
            // Nothing arrived for a while, so that much time has passed.
            last += i64::from(WAIT_MS) * 1_000_000;
            observer.tick(last, &mut *lock(&shared.sinks));
            // Every block that was open at the stop has been handed over by now.
            if is_stopping {
                break;
            }
        }
        let counts = ring.counts();
        // ORDERING: Relaxed throughout; counters that are only read for show and export.
        shared.drops.fetch_add(counts.drops - before.drops, Ordering::Relaxed);
        shared.freezes.fetch_add(counts.freezes - before.freezes, Ordering::Relaxed);
        shared.packets.fetch_add(counts.packets - before.packets, Ordering::Relaxed);
        let total = observer.totals().evicted;
        shared.evicted.fetch_add(total - evicted, Ordering::Relaxed);
        (before, evicted) = (counts, total);
        // ORDERING: Acquire; pairs with the Release in `stop`.
        is_stopping = shared.stop.load(Ordering::Acquire);
        drained += u32::from(is_stopping);
        if drained > ring.shape().blocks {
            // Packets arrive faster than they are read, or without end.
            break;
        }
    }
    observer.finish(&mut *lock(&shared.sinks));
    observer.totals()
}

fn add(sum: &mut Totals, one: &Totals) {
    sum.frames += one.frames;
    sum.bytes += one.bytes;
    sum.connections += one.connections;
    sum.evicted += one.evicted;
    sum.fragments_dropped += one.fragments_dropped;
    sum.ignored.iter_mut().zip(one.ignored).for_each(|(sum, one)| *sum += one);
    sum.first = [sum.first, one.first].into_iter().flatten().min();
    sum.last = [sum.last, one.last].into_iter().flatten().max();
}
