//! Stacks as a series: what was counted in each ten seconds is sent once.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use ogive_export::Builder;
use ogive_kernel::Filter;
use ogive_kernel::stacks::Kind;
use tokio::signal::unix::{SignalKind, signal};

use super::super::export::{LAST_CELLS, Sent, StackSeries, report};

/// Counts and sends for `length`, or until Ctrl-C.
pub(super) fn run(filter: &Filter, kind: Kind, builder: Builder, length: Duration) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let exporter = builder.start().context("sending to a server")?;
    let mut series = StackSeries::new(&Sent::new(exporter.cells().clone()), filter, kind);
    series.start()?;
    eprintln!("counting");
    let outcome = runtime.block_on(async {
        let mut end = std::pin::pin!(tokio::time::sleep(length));
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
