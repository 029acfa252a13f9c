//! Where messages go.

use std::path::PathBuf;

use ogive_amqp::{Output, ServerAddress};

/// Where messages go.
#[derive(clap::Args, Clone, Debug)]
#[group(id = "amqp_to")]
pub(crate) struct To {
    /// Where: amqp://USER:PASSWORD@HOST:PORT/VHOST, or amqps:// for TLS.
    #[arg(long, env = "OGIVE_AMQP_URL", hide_env_values = true)]
    url: String,
    /// A file with the password, so that it stands in no list of processes.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// A file (PEM) with who vouches for the server, beside those whom the machine believes.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// The exchange; without it the one that takes a queue's name as the key.
    #[arg(long, default_value = "")]
    exchange: String,
    /// The routing key, or the queue.
    #[arg(long)]
    queue: String,
    /// Make the queue, durable, when it is not there.
    #[arg(long)]
    declare: bool,
}

impl To {
    pub(super) fn output(&self) -> anyhow::Result<Output> {
        let To { url, password_file, ca_file, exchange, queue, declare } = self.clone();
        let place = ServerAddress { url, password_file, ca_file, ..ServerAddress::default() };
        place.check().map_err(anyhow::Error::msg)?;
        Ok(Output { place, exchange, routing_key: queue, declare, is_transient: false })
    }
}
