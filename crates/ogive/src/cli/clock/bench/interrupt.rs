//! Ctrl-C while the kernel's clock source is another one: it is put back first.
//!
//! *Threads*: one, which waits for SIGINT, SIGTERM and SIGHUP while a [`Switch`] lives; it ends the process with 128
//! plus the signal's number, as a shell expects.

use std::sync::{Arc, Weak};

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

use super::super::kernel::Switch;

/// Puts the first clock source back when a signal ends the process.
pub(super) fn restore_on_signal(switch: &Arc<Switch>) -> anyhow::Result<()> {
    let switch = Arc::downgrade(switch);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().build().context("cannot wait for signals")?;
    let (ready, is_ready) = std::sync::mpsc::channel();
    let wait = move || runtime.block_on(until_signal(ready)).map(|number| end(&switch, number));
    std::thread::Builder::new().name("signals".into()).spawn(wait).context("cannot start a thread")?;
    is_ready.recv().context("cannot wait for signals")
}

/// The number of the first signal received; `None` when signals cannot be waited for.
async fn until_signal(ready: std::sync::mpsc::Sender<()>) -> Option<u8> {
    let mut interrupt = signal(SignalKind::interrupt()).ok()?;
    let mut terminate = signal(SignalKind::terminate()).ok()?;
    let mut hangup = signal(SignalKind::hangup()).ok()?;
    ready.send(()).ok()?;
    tokio::select! {
        _ = interrupt.recv() => Some(2),
        _ = terminate.recv() => Some(15),
        _ = hangup.recv() => Some(1),
    }
}

fn end(switch: &Weak<Switch>, number: u8) {
    if let Some(switch) = switch.upgrade() {
        switch.close();
    }
    std::process::exit(128 + i32::from(number));
}
