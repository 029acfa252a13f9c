//! Stacks as a series: what was counted in each ten seconds is sent once.

use std::process::ExitCode;
use std::time::Duration;

use ogive_export::Exporter;
use ogive_kernel::Filter;
use ogive_kernel::stacks::Kind;

use super::super::export::{Sent, StackSeries};
use super::super::tasks::has_ended;
use crate::cli::observed::{Signals, end_export};

/// Counts and sends for `length`, until Ctrl-C, or until the process has ended that is observed.
pub(super) fn run(filter: &Filter, kind: Kind, exporter: Exporter, length: Duration) -> anyhow::Result<ExitCode> {
    let (runtime, mut signals) = Signals::new()?;
    let mut series = StackSeries::new(&Sent::new(exporter.cells().clone()), filter, kind);
    series.start()?;
    eprintln!("counting");
    let outcome = runtime.block_on(async {
        let mut end = std::pin::pin!(signals.end(Some(length)));
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        loop {
            tokio::select! {
                () = &mut end => return Ok::<_, anyhow::Error>(()),
                _ = ticks.tick() => series.turn()?,
            }
            if let Filter::Process(pid) = filter
                && has_ended(*pid)
            {
                eprintln!("ogive: process {pid} has ended");
                return Ok(());
            }
        }
    });
    // Whatever ended it: what was counted is sent.
    let last = series.put();
    let code = end_export(exporter);
    outcome?;
    last?;
    Ok(code)
}
