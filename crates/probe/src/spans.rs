//! Spans of the `tracing` crate, every one of them measured: a layer beside whatever else a subscriber does.
//!
//! Each place in the program that makes spans has two histograms: `total`, from a span's making to its closing, and
//! `busy`, the part of it in which the span was entered. For a path whose stages matter, stamps in the message
//! ([`trace_path!`](crate::trace_path)) say more and cost less.
//!
//! *Invariants*: spans closed = total.count + straddled, in any sum of snapshots; busy.count = total.count.
//!
//! *Threads*: a span may be entered and closed in any; each thread counts into tables of its own.
//!
//! *Limits*: one such layer in a subscriber. Two sparse writers (1.2 KB and what they see) for each place and thread;
//! as many places as the program has. A span costs what `tracing_subscriber::Registry` takes for it, an ordered reading
//! of the clock at each of its making, entering, leaving and closing, and a look-up in a thread's own hash table.
//!
//! *Failure*: a span that closes in a thread whose own storage is gone already is counted under the recorder's lock.

use crate::{Clock, Recorder, SparseWriter, snapshot_all};
use ogive_hist::Histogram;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tracing::span::{Attributes, Id};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::recorder::lock;

/// Layers are distinguished by a number, since a thread's tables outlive them.
static LAYERS: AtomicU64 = AtomicU64::new(0);

std::thread_local! {
    static WRITERS: RefCell<HashMap<(u64, usize), Writers>> = RefCell::default();
}

/// Measures every span. Clones are the same layer: keep one to take snapshots from.
#[derive(Clone, Debug)]
pub struct SpanLayer {
    shared: Arc<Shared>,
}

/// The spans of one place in the program.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SpanCell {
    /// The span's name.
    pub name: &'static str,
    /// Its target, mostly the module.
    pub target: &'static str,
    /// From making to closing, in seconds.
    pub total: Histogram,
    /// The part of that in which it was entered.
    pub busy: Histogram,
}

#[derive(Debug)]
struct Shared {
    number: u64,
    clock: Clock,
    places: Mutex<Vec<SpanRecorders>>,
    straddled: AtomicU64,
}

#[derive(Clone, Debug)]
struct SpanRecorders {
    metadata: &'static Metadata<'static>,
    total: Recorder,
    busy: Recorder,
}

struct Writers {
    total: SparseWriter,
    busy: SparseWriter,
}

/// The timing data of a span.
struct Timing {
    made: u64,
    epoch: u16,
    /// When it was entered last, and how often it is entered now.
    entered: u64,
    depth: u32,
    busy: u64,
}

impl SpanLayer {
    /// A layer that measures by `clock`.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        // ORDERING: Relaxed; a number stands for itself.
        let number = LAYERS.fetch_add(1, Ordering::Relaxed);
        let shared = Shared { number, clock, places: Mutex::default(), straddled: AtomicU64::new(0) };
        Self { shared: Arc::new(shared) }
    }

    /// The spans closed since the last snapshot, by place, in the order of their first.
    #[must_use]
    pub fn snapshot(&self) -> Vec<SpanCell> {
        let places = lock(&self.shared.places).clone();
        let mut cells = snapshot_all(places.iter().flat_map(|place| [&place.total, &place.busy])).into_iter();
        let cell = |place: &SpanRecorders| {
            let (total, busy) = (cells.next()?, cells.next()?);
            Some(SpanCell { name: place.metadata.name(), target: place.metadata.target(), total, busy })
        };
        places.iter().filter_map(cell).collect()
    }

    /// Spans that were closed in another epoch of the clock than they were made in: they are counted only here.
    #[must_use]
    pub fn straddled(&self) -> u64 {
        // ORDERING: Relaxed; a figure for people.
        self.shared.straddled.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn record(&self, metadata: &'static Metadata<'static>, total_ns: u64, busy_ns: u64) {
        let key = (self.number, std::ptr::from_ref(metadata) as usize);
        let recorded = WRITERS.try_with(|writers| {
            let Ok(mut writers) = writers.try_borrow_mut() else { return false };
            let writers = writers.entry(key).or_insert_with(|| {
                let place = self.place(metadata);
                Writers { total: place.total.handle_sparse(), busy: place.busy.handle_sparse() }
            });
            writers.total.record_ns(total_ns);
            writers.busy.record_ns(busy_ns);
            true
        });
        if recorded != Ok(true) {
            let place = self.place(metadata);
            place.total.record_ns(total_ns);
            place.busy.record_ns(busy_ns);
        }
    }

    fn place(&self, metadata: &'static Metadata<'static>) -> SpanRecorders {
        let mut places = lock(&self.places);
        if let Some(place) = places.iter().find(|place| std::ptr::eq(place.metadata, metadata)) {
            return place.clone();
        }
        let place = SpanRecorders { metadata, total: Recorder::new(), busy: Recorder::new() };
        places.push(place.clone());
        place
    }

    fn close(&self, metadata: &'static Metadata<'static>, timing: &Timing) {
        if timing.epoch != self.clock.epoch() {
            // ORDERING: Relaxed; a figure for people.
            self.straddled.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let rate = self.clock.tick_rate();
        let total = self.clock.ticks_ordered().saturating_sub(timing.made);
        self.record(metadata, rate.ns(total), rate.ns(timing.busy));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SpanLayer {
    fn on_new_span(&self, _attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let clock = self.shared.clock;
            let epoch = clock.epoch();
            let timing = Timing { made: clock.ticks_ordered(), epoch, entered: 0, depth: 0, busy: 0 };
            span.extensions_mut().replace(timing);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(timing) = span.extensions_mut().get_mut::<Timing>()
        {
            timing.depth += 1;
            if timing.depth == 1 {
                timing.entered = self.shared.clock.ticks_ordered();
            }
        }
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(timing) = span.extensions_mut().get_mut::<Timing>()
        {
            timing.depth = timing.depth.saturating_sub(1);
            if timing.depth == 0 {
                timing.busy += self.shared.clock.ticks_ordered().saturating_sub(timing.entered);
            }
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        if let Some(span) = context.span(&id)
            && let Some(timing) = span.extensions_mut().remove::<Timing>()
        {
            self.shared.close(span.metadata(), &timing);
        }
    }
}
