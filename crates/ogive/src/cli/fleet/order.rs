//! What a broker is asked over its own connection.

use super::super::client::Server;

/// What a broker is asked.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Order {
    /// Run a check of its group now.
    Check {
        /// The check.
        name: String,
        #[command(flatten)]
        server: Server,
    },
    /// Show its state, as `ogive broker status --json` does there.
    Status {
        #[command(flatten)]
        server: Server,
    },
    /// Show the last lines of its log.
    Logs {
        /// How many, up to 1,000.
        #[arg(long, default_value_t = 50)]
        lines: u32,
        #[command(flatten)]
        server: Server,
    },
    /// Show the requests that it was asked, and their outcomes.
    History {
        #[command(flatten)]
        server: Server,
    },
}
