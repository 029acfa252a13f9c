//! A broker's way to the servers of a destination: many batches at once, each done when it is confirmed.
//!
//! Threads: the destination's senders block in [`Sender::send`]; the library's tasks have a thread of their own.
//! Limits: as many connections to a server as senders publish to it at once.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use tokio::runtime::Runtime;

use super::output::{Output, Publisher};
use ogive_outgoing::Files;

/// See the module.
pub struct Sender {
    /// But for the address.
    output: Output,
    files: Files,
    patience: Duration,
    /// None only while it is dropped.
    runtime: Option<Runtime>,
    /// Connections that nobody uses now, by their address.
    free: Mutex<Vec<(String, Publisher)>>,
}

impl Sender {
    /// Connects at the first batch.
    pub fn new(output: Output, files: Files, patience: Duration) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .thread_name("amqp")
            .build()
            .context("cannot start a thread")?;
        Ok(Self { output, files, patience, runtime: Some(runtime), free: Mutex::default() })
    }

    /// Publishes frames to the server at `url`. How many from the first on it has confirmed, and why not all.
    pub fn send(&self, url: &str, frames: &[Arc<[u8]>], tell: &(dyn Fn(&str) + Sync)) -> (usize, Option<String>) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let found = free.iter().position(|(of, _)| of == url).map(|at| free.swap_remove(at).1);
        drop(free);
        let mut publisher = found.unwrap_or_else(|| {
            let mut output = self.output.clone();
            url.clone_into(&mut output.place.url);
            Publisher::new(output, self.files, self.patience)
        });
        let runtime = self.runtime.as_ref().expect("it is there until this is dropped");
        let ended = runtime.block_on(publisher.publish(frames.iter(), tell));
        if ended.1.is_none() {
            self.free.lock().unwrap_or_else(PoisonError::into_inner).push((url.to_owned(), publisher));
        } else {
            let _in_the_runtime = runtime.enter();
            drop(publisher);
        }
        ended
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            let in_the_runtime = runtime.enter();
            self.free.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
            drop(in_the_runtime);
            runtime.shutdown_background();
        }
    }
}
