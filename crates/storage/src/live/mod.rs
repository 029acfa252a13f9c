//! Live cells of what somebody watches: the store's shards feed the quantizer of `ogive_stream`, and streams read
//! seconds as they close.
//!
//! ```text
//! shard of the store --Tap, ring--> worker (cells) --Teller--> Board --> /v1/live
//! ```
//!
//! Invariants: what a watch is given is what the store would answer: it is fed with what the store has made durable and
//! did not know before, and where a cell is not certain the store is asked. Nothing of this is state that a restart
//! could lose.
//! Threads: while somebody watches, `--stream-shards` workers and one that reports the seconds; nobody else ever waits
//! for them. While nobody does there are none, and ingest pays nothing (docs/decisions/live.md has the figures).
//! Limits: [`Options`]. Failure: a full ring skips and counts, and the cells that it concerns are read from the store.

mod board;
mod changes;
mod counts;
mod heard;
mod recent;
mod tap;
mod window;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use ogive_model::{Matcher, Ms, Ns, Tenant, WallMs, WallNs};
use ogive_probe::Clock;
use ogive_store::ingest::TIME_AHEAD_MAX;
use ogive_store::{Audience, Store, Watch};
use ogive_stream::cells::{self, Wait, stream};

use board::Board;
pub use board::{Answer, COLUMN_BINS_MAX, SECONDS};
pub use changes::{Changes, Changing};
pub use counts::{Count, Counted, Counts};
pub use heard::{SecondState, StreamSeries};
pub use recent::{Recent, RecentLease, RecentReader};
use tap::{BoardWriter, Tap};

/// 8,192 slots of 48 bytes: 384 KiB for each pair of a shard and a worker, and with a part of 1.5 KiB in each of them
/// 12 MiB. A shard fills them in a few milliseconds at most, and a sleeping worker wakes within one.
const RING_PLACES: usize = 8_192;

/// How live cells are kept.
#[derive(clap::Args, Clone, Copy, Debug, PartialEq, Eq)]
#[group(id = "live")]
pub struct Options {
    /// Histogram series that live streams may follow together, about 2 KiB each while somebody watches; streams
    /// of more read each second from the store, and with 0 all do.
    #[arg(long, value_name = "COUNT", default_value_t = SERIES_MAX, env = "OGIVE_LIVE_SERIES", value_parser = clap::value_parser!(u32).range(0..=2_000_000))]
    pub live_series: u32,
    /// Milliseconds after its end at which a second closes for live streams; later samples appear in later
    /// answers.
    #[arg(long, value_name = "MS", default_value_t = LATENESS_MS, env = "OGIVE_LIVE_LATENESS_MS", value_parser = clap::value_parser!(u32).range(1..=30_000))]
    pub live_lateness_ms: u32,
    /// Threads that own the live cells; `ogive tune` recommends how many.
    #[arg(long, value_name = "N", default_value_t = 1, env = "OGIVE_STREAM_SHARDS", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub stream_shards: u16,
    /// What those threads do while idle: park, `hybrid[:SPINS:YIELDS:PARK_US]`, yield or spin (docs/stream.md
    /// compares their costs).
    #[arg(long, value_name = "WAY", default_value_t = Wait::Park, env = "OGIVE_STREAM_WAIT")]
    pub stream_wait: Wait,
}

/// 50,000 series: a slot of up to 171 bytes, the state of watches (some 130), and the open histograms of two seconds of
/// 40 bins (some 700 each) are 2 KiB, 100 MiB together.
const SERIES_MAX: u32 = 50_000;

/// 250 ms: own cells arrive within some 20 ms of their end; a sender on the same network within a few more.
pub const LATENESS_MS: u32 = 250;

impl Default for Options {
    fn default() -> Self {
        Self { live_series: SERIES_MAX, live_lateness_ms: LATENESS_MS, stream_shards: 1, stream_wait: Wait::Park }
    }
}

/// See the module.
pub struct Live {
    store: Weak<Store>,
    clock: Clock,
    options: Options,
    counts: Counts,
    changes: Arc<Changes>,
    recent: Arc<Recent>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    /// By tenant and query: the watch and its number of readers.
    watches: HashMap<(Tenant, String), (u64, usize)>,
    /// Made with the first watch, dropped with the last one.
    board: Option<Arc<Board>>,
    /// The server ends.
    has_ended: bool,
}

/// A watch with a reader.
pub struct Reading {
    live: Arc<Live>,
    board: Arc<Board>,
    id: u64,
    key: (Tenant, String),
}

impl Live {
    /// Live cells of `store`; nothing runs before the first watch.
    pub fn new(store: &Arc<Store>, clock: Clock, options: Options) -> Arc<Self> {
        let (store, state) = (Arc::downgrade(store), Mutex::default());
        let changes = Changes::new(store.clone(), options.live_series as usize);
        let recent = Recent::new(Arc::clone(&changes), clock);
        Arc::new(Self { store, clock, options, counts: Counts::default(), changes, recent, state })
    }

    /// Changes to the data that continuous queries read.
    pub const fn changes(&self) -> &Arc<Changes> {
        &self.changes
    }

    /// The recent data that continuous queries read.
    pub const fn recent(&self) -> &Arc<Recent> {
        &self.recent
    }

    /// Its statistics.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How long after its end a second closes.
    pub fn lateness(&self) -> Ms {
        self.options.live_lateness_ms.into()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches the series that `matchers` accept, identified by `query`; None when disabled or when the store has
    /// ended. Waits for the store's shards.
    pub fn watch(self: &Arc<Self>, tenant: &Tenant, query: &str, matchers: &[Matcher]) -> Option<Reading> {
        let store = self.store.upgrade().filter(|_| self.options.live_series > 0)?;
        let key = (tenant.clone(), query.to_owned());
        // Held until the shards are notified: otherwise a second might pass that they did not receive completely.
        let mut state = self.state();
        if state.has_ended {
            return None;
        }
        let board = match &state.board {
            Some(board) => Arc::clone(board),
            None => Arc::clone(state.board.insert(self.begin(&store))),
        };
        if let Some((id, readers)) = state.watches.get_mut(&key) {
            *readers += 1;
            let id = *id;
            drop(state);
            return Some(Reading { live: Arc::clone(self), board, id, key });
        }
        state.next += 1;
        let id = state.next;
        board.add(id);
        state.watches.insert(key.clone(), (id, 1));
        store.watch(Audience::Streams, Watch { id, tenant: Some(tenant.clone()), matchers: matchers.to_vec() });
        drop(state);
        Some(Reading { live: Arc::clone(self), board, id, key })
    }

    /// Starts workers, followers, and the thread that reports the seconds.
    fn begin(self: &Arc<Self>, store: &Store) -> Arc<Board> {
        let workers = usize::from(self.options.stream_shards);
        let series_max = self.options.live_series as usize;
        let board = Arc::new(Board::new(workers, series_max, self.counts.clone()));
        board.pass(self.closed_second());
        let options = cells::Options {
            lateness: Ns::from_secs(board::SECONDS),
            // The clock closes cells, see `tell`.
            patience: None,
            // Series of ended watches are included until they are displaced.
            series_max: 2 * series_max.max(1_024),
            cells_max: 2 * series_max.max(1_024),
            idle_seconds: 60,
            ..cells::Options::default()
        };
        let sinks = (0..workers).map(|worker| BoardWriter::new(Arc::clone(&board), worker));
        let (feeders, workers) = stream(options, self.options.stream_wait, store.shards(), RING_PLACES, sinks);
        for (at, worker) in workers.into_iter().enumerate() {
            start(&format!("cells-{at}"), move || _ = worker.run());
        }
        let mut taps = feeders.into_iter().map(|feeder| Box::new(Tap::new(Arc::clone(&board), feeder)));
        store.follow(Audience::Streams, || taps.next().expect("one for each shard"));
        let (live, of) = (Arc::clone(self), Arc::clone(&board));
        start("seconds", move || live.tell(&of));
        board
    }

    /// The last second that is complete, with the lateness allowed.
    fn closed_second(&self) -> i64 {
        (WallNs(self.clock.wall()).to_ms() - self.lateness()).to_secs()
    }

    /// Notifies the shards of each second that has passed, until `board` has no readers.
    fn tell(&self, board: &Arc<Board>) {
        loop {
            {
                let state = self.state();
                if !state.board.as_ref().is_some_and(|current| Arc::ptr_eq(current, board)) {
                    return;
                }
                let Some(store) = self.store.upgrade() else { return };
                let second = self.closed_second();
                board.pass(second);
                // A cell includes what ends at this very instant.
                store.pass(Audience::Streams, WallNs(second * 1_000_000_000 + 1));
            }
            let next = WallMs((self.closed_second() + 1) * 1_000) + self.lateness();
            let wait = next.to_ns().since(WallNs(self.clock.wall())).to_duration();
            std::thread::sleep(wait.min(Duration::from_secs(1)));
        }
    }

    /// The server stops: afterwards the store has no followers, and only its owners hold it.
    pub fn end(&self) {
        self.changes.end();
        let mut state = self.state();
        state.has_ended = true;
        if state.board.take().is_some()
            && let Some(store) = self.store.upgrade()
        {
            store.unfollow(Audience::Streams);
        }
    }

    /// Stored data was dropped: the data here is no longer certain.
    pub fn doubt_all(&self) {
        if let Some(board) = &self.state().board {
            // Including data ahead of its time, and data that is not late yet.
            board.doubt_for(TIME_AHEAD_MAX / Ns::from_secs(1) + self.lateness() / Ms::from_secs(1) + 2);
        }
    }

    fn unwatch(&self, id: u64, key: &(Tenant, String)) {
        let mut state = self.state();
        let Some((_, readers)) = state.watches.get_mut(key) else { return };
        *readers -= 1;
        if *readers > 0 {
            return;
        }
        state.watches.remove(key);
        if let Some(board) = &state.board {
            board.remove(id);
        }
        let is_over = state.watches.is_empty();
        if is_over {
            state.board = None;
        }
        if state.has_ended {
            return;
        }
        if let Some(store) = self.store.upgrade() {
            // Without followers the rings end, and the workers with them.
            if is_over { store.unfollow(Audience::Streams) } else { store.unwatch(Audience::Streams, id) }
        }
    }
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().name(name.into()).spawn(run).expect("a thread can be started");
}

impl Reading {
    /// What is known of a second, by its end; waits up to `patience` for it to close.
    pub async fn second(&self, second: i64, patience: Duration) -> Answer {
        let mut closed = self.board.closed();
        let _ = tokio::time::timeout(patience, closed.wait_for(|closed| *closed >= second)).await;
        self.board.answer(self.id, second)
    }
}

impl Reading {
    /// The first and last closed second that changed since the reader's `seen`-th change, and the number of the last
    /// one.
    pub fn changes(&self, seen: u64) -> (Option<(i64, i64)>, u64) {
        self.board.changes(self.id, seen)
    }

    /// What is known of a closed second.
    pub fn known(&self, second: i64, has_samples: bool) -> SecondState {
        self.board.known(self.id, second, has_samples)
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let (live, id, key) = (Arc::clone(&self.live), self.id, self.key.clone());
        // Shards may be busy: not on a thread that serves others.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => _ = runtime.spawn_blocking(move || live.unwatch(id, &key)),
            Err(_) => live.unwatch(id, &key),
        }
    }
}

#[cfg(test)]
mod tests;
