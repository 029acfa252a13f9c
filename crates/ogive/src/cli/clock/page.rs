//! Publishing the server's clock to other processes and languages: docs/formats/clock-page.md.

use std::path::PathBuf;

use anyhow::Context;
use ogive_probe::Clock;

/// Where the clock is published.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ClockPage {
    /// Publish the calibrated clock in a file, such as /dev/shm/ogive-clock, that programs in C, Go, Java and Rust
    /// map (docs/clock.md).
    #[arg(long, value_name = "FILE", env = "OGIVE_CLOCK_PAGE")]
    clock_page: Option<PathBuf>,
}

impl ClockPage {
    /// Publishes the global clock for the life of the process, if a file is named.
    pub(crate) fn publish(&self) -> anyhow::Result<()> {
        let Some(path) = &self.clock_page else { return Ok(()) };
        Clock::share(path).context("cannot publish the clock (--clock-page)")
    }
}
