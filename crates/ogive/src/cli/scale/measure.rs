//! What a run of a workload did.

use clap::ValueEnum;

/// What one run of the command did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Measure {
    /// One unit of work, whatever the number of workers.
    Run,
    /// One unit of work per worker.
    Worker,
    /// The last number on standard output; copies are added up.
    Count,
    /// The last number on standard output, per second; copies are added up.
    Rate,
}

impl Measure {
    /// The unit in pictures.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Run => "runs",
            Self::Worker => "workers' runs",
            Self::Count | Self::Rate => "operations",
        }
    }
}
