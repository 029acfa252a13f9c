//! Stacks as a series: what was counted in each ten seconds is sent once.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};

use super::super::export::{LAST_CELLS, Sent, StackSeries, builder, report};
use super::{Flame, kind};

/// Counts and sends until the time of the options has passed, or Ctrl-C.
pub(super) fn run(options: &Flame, url: &str) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let exporter = builder(url, &options.labels).start().context("sending to a server")?;
    let filter = options.tasks.filter()?;
    let mut series = StackSeries::new(&Sent::new(exporter.cells().clone()), &filter, kind(options));
    series.start()?;
    eprintln!("counting");
    let outcome = runtime.block_on(async {
        let mut end = std::pin::pin!(tokio::time::sleep(Duration::from_secs(options.seconds)));
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        loop {
            tokio::select! {
                _ = interrupt.recv() => return Ok(()),
                _ = terminate.recv() => return Ok(()),
                () = &mut end => return Ok::<_, anyhow::Error>(()),
                _ = ticks.tick() => series.turn()?,
            }
        }
    });
    // Whatever ended it: what was counted is sent.
    let last = series.put();
    let code = report(&exporter.shutdown(LAST_CELLS));
    outcome?;
    last?;
    Ok(code)
}
