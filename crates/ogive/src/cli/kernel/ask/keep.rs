//! The answer as series: what was counted in each second is sent once.

use std::process::ExitCode;
use std::time::Duration;

use ogive_export::Exporter;
use ogive_kernel::ask::Observer;

use super::super::export::{QuestionSeries, Sent};
use crate::cli::observed::end_export;

/// Sends what is counted until `end`.
pub(super) fn run(
    observer: &mut Observer,
    name: &str,
    exporter: Exporter,
    runtime: &tokio::runtime::Runtime,
    end: impl Future<Output = ()>,
) -> anyhow::Result<ExitCode> {
    let sent = Sent::new(exporter.cells().clone());
    let mut series = QuestionSeries::new(&sent, name, observer.question());
    runtime.block_on(async {
        let mut end = std::pin::pin!(end);
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        loop {
            tokio::select! {
                () = &mut end => return Ok::<_, anyhow::Error>(()),
                _ = ticks.tick() => series.put(observer)?,
            }
        }
    })?;
    observer.stop();
    series.put(observer)?;
    Ok(end_export(exporter))
}
