//! Work on a blocking thread, within the limits of queries, with a deadline that ends it.
//!
//! Threads: the work runs on a blocking thread and asks [`Cancel`] now and then whether to go on. It is told to stop
//! when its deadline passes, and when the client has gone (then this future is dropped).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::App;
use super::error::ApiError;
use super::place::Place;

/// Whether the work is still wanted, and its place among what runs.
#[derive(Clone, Default)]
pub(super) struct Cancel {
    set: Arc<AtomicBool>,
    /// Held by the work itself: what was cancelled still counts until it has ended.
    place: Option<Arc<Place>>,
}

impl Cancel {
    pub(super) fn is_set(&self) -> bool {
        // ORDERING: Relaxed; the flag guards no other memory, and a late reading only works a little longer.
        self.set.load(Ordering::Relaxed)
    }

    /// Tells how much the work reads. When that is much, it waits here for a place among the large.
    pub(super) fn fit(&self, series: usize, samples: usize) {
        if let Some(place) = &self.place {
            place.fit(series, samples, || self.is_set());
        }
    }
}

/// Tells the work to stop when it goes out of scope.
struct Stop(Cancel);

impl Drop for Stop {
    fn drop(&mut self) {
        // ORDERING: Relaxed; see `is_set`.
        self.0.set.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` and measures it. `timeout_ms` is the client's wish.
pub(super) async fn ask<T: Send + 'static>(
    app: &App,
    timeout_ms: Option<i64>,
    work: impl FnOnce(&App, &Cancel) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let longest = app.limits.query_timeout;
    let wish = timeout_ms.map_or(longest, |ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
    let timeout = wish.min(longest);
    let _asked = app
        .limits
        .queries_asked
        .try_acquire()
        .map_err(|_| ApiError::busy("too many queries wait already; try again in a second"))?;
    match tokio::time::timeout(timeout, run(app, work)).await {
        Ok(answer) => answer,
        Err(_) => {
            app.counters.queries_timed_out.add(1);
            let seconds = timeout.as_secs_f64();
            let who =
                if wish > longest || timeout_ms.is_none() { "the server's --query-timeout-s" } else { "its timeout" };
            Err(ApiError::timeout(format!("the query did not end within {seconds} s; narrow it or raise {who}")))
        }
    }
}

async fn run<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&App, &Cancel) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let cancel = Cancel { place: Some(Arc::new(app.limits.queries.take().await)), ..Cancel::default() };
    let _stop = Stop(cancel.clone());
    let shared = app.clone();
    let worker = tokio::task::spawn_blocking(move || {
        let from = shared.clock.now();
        let answer = work(&shared, &cancel);
        shared.meters.query(shared.clock.now().saturating_sub(from));
        answer
    });
    match worker.await {
        Ok(answer) => answer,
        Err(_) => Err(ApiError::internal("the query failed inside the server; its log has the reason")),
    }
}

/// Makes a batch of a body, when few enough others are being read. `what` begins the sentence if it breaks.
pub(super) async fn reading<T: Send + 'static>(
    app: &App,
    what: &str,
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let place = app.limits.reading.clone().acquire_owned().await.expect("the semaphore is never closed");
    let work = move || {
        // Held by the work itself, also when its client has gone.
        let _place = place;
        work()
    };
    blocking(what, work).await
}

/// Runs what takes long or waits for a disk, outside the limits of queries. `what` begins the sentence if it breaks.
pub(super) async fn blocking<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let broken = |_| ApiError::internal(format!("{what} failed inside the server; its log has the reason"));
    tokio::task::spawn_blocking(work).await.map_err(broken)?
}
