//! Work of long duration: begun by one request, looked at by others.
//!
//! Invariants: one of a kind goes on at a time. Threads: one for each kind, while it goes on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, bail};

/// How far a work is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkState {
    /// It is running.
    pub running: bool,
    /// What it does.
    pub what: String,
    /// Bytes.
    pub done: u64,
    /// Bytes, as far as known.
    pub total: u64,
    /// Why it ended early.
    pub error: Option<String>,
    /// How often it ended well.
    pub completed: u64,
}

/// A kind of work.
#[derive(Default)]
pub struct Work {
    state: Mutex<WorkState>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Work {
    fn lock(&self) -> MutexGuard<'_, WorkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far it is.
    pub fn state(&self) -> WorkState {
        self.lock().clone()
    }

    pub(crate) fn describe(&self, what: &str) {
        self.lock().what = what.to_owned();
    }

    pub(crate) fn progress(&self, done: u64, total: u64) {
        let mut state = self.lock();
        (state.done, state.total) = (done, total);
    }

    /// Starts it on a separate thread.
    pub fn start(
        self: &Arc<Self>,
        name: &str,
        run: impl FnOnce(&Self) -> anyhow::Result<()> + Send + 'static,
    ) -> anyhow::Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut state = self.lock();
            if state.running {
                bail!("this goes on already ({}); wait until it is done", state.what);
            }
            *state = WorkState { running: true, completed: state.completed, ..WorkState::default() };
        }
        let own = Arc::clone(self);
        let body = move || {
            let outcome = run(&own);
            let mut state = own.lock();
            state.running = false;
            match outcome {
                Ok(()) => state.completed += 1,
                Err(error) => state.error = Some(format!("{error:#}")),
            }
        };
        let started = std::thread::Builder::new().name(name.into()).spawn(body).context("cannot start a thread");
        match started {
            Ok(started) => *thread = Some(started),
            Err(error) => {
                self.lock().running = false;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Waits for its end.
    pub fn join(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}
