//! What commands share that observe until a signal or the end of a time, and send what they measure to a server.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use ogive_export::Exporter;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::exit::EXIT_FINDING;

/// 5 s that the server may take at the end to accept the last cells.
const LAST_CELLS: Duration = Duration::from_secs(5);

/// The signals that end an observation.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Handled from now on; and the runtime of the thread, which they need.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn new() -> io::Result<(Runtime, Self)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let signals = {
            let _inside = runtime.enter();
            Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? }
        };
        Ok((runtime, signals))
    }

    /// Waits for a signal, and no longer than `length`.
    pub(super) async fn end(&mut self, length: Option<Duration>) {
        let time = async {
            match length {
                Some(length) => tokio::time::sleep(length).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = time => {}
        }
    }
}

/// What sends series with `labels` to a server.
///
/// # Errors
/// The address is none, or the system refuses a thread.
pub(super) fn start_export(url: &str, labels: &[(String, String)]) -> anyhow::Result<Exporter> {
    let builder = labels.iter().fold(Exporter::builder(url), |builder, (name, value)| builder.label(name, value));
    builder.start().context("sending to a server")
}

/// Sends the last cells and reports how much was sent; the code says whether all of it arrived.
pub(super) fn end_export(exporter: Exporter) -> ExitCode {
    let status = exporter.shutdown(LAST_CELLS);
    let lost = status.taken.samples - status.acknowledged.samples;
    eprintln!("sent: {} of {} samples, {lost} not acknowledged", status.acknowledged.samples, status.taken.samples);
    if lost == 0 { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FINDING) }
}
