//! Where messages go.

use std::path::PathBuf;
use std::time::Duration;

use ogive_amqp::{Output, ServerAddress};

/// 30 s without an answer from a server that is not blocked: then it is connected to again.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Where messages go.
#[derive(clap::Args, Clone, Debug)]
#[group(id = "amqp_to")]
pub(crate) struct AmqpTarget {
    /// AMQP server: amqp://USER:PASSWORD@HOST:PORT/VHOST, or amqps:// for TLS.
    #[arg(long, env = "OGIVE_AMQP_URL", hide_env_values = true)]
    url: String,
    /// File with the password, so that it does not appear in the process list.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// File (PEM) with certificate authorities to trust for the server, in addition to the system's.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Exchange; by default the one that uses the queue's name as the routing key.
    #[arg(long, default_value = "")]
    exchange: String,
    /// Routing key, or the queue.
    #[arg(long)]
    queue: String,
    /// Declare the queue, durable, if it does not exist.
    #[arg(long)]
    declare: bool,
}

impl AmqpTarget {
    pub(super) fn output(&self) -> anyhow::Result<Output> {
        let AmqpTarget { url, password_file, ca_file, exchange, queue, declare } = self.clone();
        let place = ServerAddress { url, password_file, ca_file, ..ServerAddress::default() };
        place.check().map_err(anyhow::Error::msg)?;
        Ok(Output { place, exchange, routing_key: queue, declare, is_transient: false })
    }
}
