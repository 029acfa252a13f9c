//! Work on a blocking thread, within the limits of queries, with a deadline that ends it.
//!
//! Threads: the work runs on a blocking thread and asks [`Cancel`] now and then whether to go on. It is asked to stop
//! when its deadline passes, and when the client has gone (then this future is dropped).

use ogive_crash::activity::Work;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ogive_model::{Charge, Matcher, Memory, Ms, Opening, Partial, Select, Selection, SeriesData, SeriesDef, TimeRange};
use ogive_query::{Engine, EngineOptions, series_bytes};

use super::App;
use super::client::Client;
use super::error::ApiError;
use super::place::{Admission, QueryPlace};

/// Whether the work is still wanted, and its slot among the running work.
#[derive(Clone)]
pub(super) struct Cancel {
    set: Arc<AtomicBool>,
    /// The budget to which the memory of the work is charged.
    memory: Arc<Memory>,
    /// Held by the work itself: cancelled work still counts until it has ended.
    place: Option<Arc<QueryPlace>>,
}

/// Work without limits.
impl Default for Cancel {
    fn default() -> Self {
        Self { set: Arc::default(), memory: Memory::unbounded(), place: None }
    }
}

impl Cancel {
    /// The budget of the work.
    pub(super) const fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Leaves `bytes` charged for as long as the work and its response live.
    pub(super) fn hold(&self, bytes: usize) -> Result<(), ApiError> {
        self.charge(bytes).map(Charge::keep)
    }

    /// Charges `bytes` until the charge is dropped.
    pub(super) fn charge(&self, bytes: usize) -> Result<Charge, ApiError> {
        Ok(self.memory.charge(bytes)?)
    }

    /// Passes the series of a selection to `each`, one after the other, each charged while it is in use. Returns
    /// warnings about what is missing from them, one sentence each.
    pub(super) fn each_series(
        &self,
        store: &dyn Select,
        selection: &Selection,
        mut each: impl FnMut(SeriesData) -> Result<(), ApiError>,
    ) -> Result<Vec<String>, ApiError> {
        let set = self.opening(|opening| store.open(selection, opening))?;
        self.fit(set.count(), set.samples_about());
        for number in 0..set.count() {
            self.check()?;
            for series in set.take(number)? {
                let _held = self.charge(series_bytes(&series))?;
                each(series)?;
            }
        }
        Ok(set.warnings())
    }

    /// What `map` makes of each series of a selection, in their order and on `threads` threads, each series charged
    /// while it is in use; and warnings about what is missing from them, one sentence each.
    pub(super) fn map_series<T: Send>(
        &self,
        store: &dyn Select,
        selection: &Selection,
        threads: usize,
        map: &(dyn Fn(SeriesData) -> T + Sync),
    ) -> Result<(Vec<T>, Vec<String>), ApiError> {
        let set = self.opening(|opening| store.open(selection, opening))?;
        self.fit(set.count(), set.samples_about());
        let part = |numbers: Range<usize>| {
            let mut out = Vec::with_capacity(numbers.len());
            for number in numbers {
                self.check()?;
                for series in set.take(number)? {
                    let _held = self.charge(series_bytes(&series))?;
                    out.push(map(series));
                }
            }
            Ok::<_, ApiError>(out)
        };
        let parts = ogive_query::on_threads(0..set.count(), threads, &part);
        let mapped = parts.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok((mapped.into_iter().flatten().collect(), set.warnings()))
    }

    /// The complete selection, charged until the charge is dropped.
    pub(super) fn read(&self, store: &dyn Select, selection: &Selection) -> Result<(Partial, Charge), ApiError> {
        let (mut series, mut held) = (Vec::new(), self.memory.empty());
        let warnings = self.each_series(store, selection, |one| {
            held.grow(series_bytes(&one))?;
            series.push(one);
            Ok(())
        })?;
        Ok((Partial { series, warnings }, held))
    }

    /// The definitions of the series that `matchers` accept and that have samples in `range`, one after the other.
    pub(super) fn each_definition(
        &self,
        store: &dyn Select,
        matchers: &[Matcher],
        range: TimeRange,
        mut each: impl FnMut(SeriesDef) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        let selection = Selection { labels_only: true, ..Selection::new(matchers.to_vec(), range) };
        let set = self.opening(|opening| store.open(&selection, opening))?;
        self.fit(set.count(), 0);
        for number in 0..set.count() {
            self.check()?;
            set.describe(number)?.into_iter().try_for_each(&mut each)?;
        }
        whole(set.warnings())
    }

    /// The engine, within the budget of the work.
    pub(super) fn engine(&self, app: &App) -> Engine {
        Engine::new(EngineOptions { memory: Arc::clone(&self.memory), ..app.engine.options().clone() })
    }

    /// Opens or lists something of a store: it ends when the work does, waits for a place when it is much, and is
    /// charged to the work.
    pub(super) fn opening<T>(&self, open: impl FnOnce(&Opening<'_>) -> T) -> T {
        let gone = || self.is_set();
        let counted = |series| self.fit(series, 0);
        open(&Opening { cancelled: &gone, counted: &counted, memory: Some(&self.memory), ..Opening::UNBOUNDED })
    }

    /// Fails when the work is not wanted any more.
    pub(super) fn check(&self) -> Result<(), ApiError> {
        if self.is_set() { Err(ApiError::timeout("the query was cancelled")) } else { Ok(()) }
    }

    pub(super) fn is_set(&self) -> bool {
        // ORDERING: Relaxed; the flag guards no other memory, and a late reading only works a little longer.
        self.set.load(Ordering::Relaxed)
    }

    /// Declares how much the work reads. If it is large, it waits here for a slot for large queries.
    pub(super) fn fit(&self, series: usize, samples: usize) {
        if let Some(place) = &self.place {
            place.fit(series, samples, || self.is_set());
        }
    }
}

/// Fails if something is missing from what was read.
pub(super) fn whole(warnings: Vec<String>) -> Result<(), ApiError> {
    warnings.into_iter().next().map_or(Ok(()), |missing| Err(ApiError::unavailable(missing)))
}

/// Stops the work when it goes out of scope.
struct Stop(Cancel);

impl Drop for Stop {
    fn drop(&mut self) {
        // ORDERING: Relaxed; see `is_set`.
        self.0.set.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` and measures it. `timeout` is the client's wish.
pub(super) async fn ask<T: Send + 'static>(
    app: &App,
    timeout: Option<Ms>,
    work: impl FnOnce(&App, &Cancel) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let longest = app.limits.query_timeout;
    let wish = timeout.map_or(longest, Ms::to_duration);
    let allowed = wish.min(longest);
    let requested = app.limits.queries.ask(Client::current());
    let requested = requested.ok_or_else(|| ApiError::busy("too many queries wait already; try again in a second"))?;
    match tokio::time::timeout(allowed, run(app, &requested, work)).await {
        Ok(answer) => answer,
        Err(_) => {
            app.counters.queries_timed_out.add(1);
            let seconds = allowed.as_secs_f64();
            let who =
                if wish > longest || timeout.is_none() { "the server's --query-timeout-s" } else { "its timeout" };
            Err(ApiError::timeout(format!("the query did not end within {seconds} s; narrow it or raise {who}")))
        }
    }
}

async fn run<T: Send + 'static>(
    app: &App,
    requested: &Admission,
    work: impl FnOnce(&App, &Cancel) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let place = Some(Arc::new(app.limits.queries.take(requested).await));
    let memory = app.engine.options().memory.within(app.limits.query_memory_bytes);
    let cancel = Cancel { set: Arc::default(), memory, place };
    let _stop = Stop(cancel.clone());
    let shared = app.clone();
    let activity = Work::current();
    let worker = tokio::task::spawn_blocking(move || {
        let _activity = activity.enter();
        let from = shared.clock.now();
        let answer = match &cancel.place {
            Some(place) => place.run(|| work(&shared, &cancel)),
            None => work(&shared, &cancel),
        };
        shared.meters.query(shared.clock.now().saturating_sub(from));
        answer
    });
    match worker.await {
        Ok(answer) => answer,
        Err(_) => Err(ApiError::internal("the query failed inside the server; its log has the reason")),
    }
}

/// Decodes a body to a batch, once few enough others are being decoded and freed pages were returned. `what` begins the
/// error sentence.
pub(super) async fn reading<T: Send + 'static>(
    app: &App,
    what: &str,
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let place = app.limits.reading.clone().acquire_owned().await.expect("the semaphore is never closed");
    let work = move || {
        // Held by the work itself, even after its client has disconnected.
        let _place = place;
        // Otherwise the memory that earlier bodies freed would stay resident in addition.
        ogive_observe::memory::give_back_freed();
        work()
    };
    blocking(what, work).await
}

/// Runs work that takes long or waits for a disk, outside the limits of queries. `what` begins the sentence if it
/// panics.
pub(super) async fn blocking<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let broken = |_| ApiError::internal(format!("{what} failed inside the server; its log has the reason"));
    let activity = Work::current();
    let within = move || {
        let _activity = activity.enter();
        work()
    };
    tokio::task::spawn_blocking(within).await.map_err(broken)?
}
