//! `ogive serve`: options and their checks.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;

use super::clock::kernel::Directory;
use super::disk::bytes;
use crate::server;

/// Stores and answers: HTTP API, page, self observation.
#[derive(clap::Args, Debug)]
pub(crate) struct Serve {
    /// Directory of the data; made when it is missing. Named several times, each holds everything.
    #[arg(long, value_name = "DIR", default_value = "./ogive-data", env = "OGIVE_DATA")]
    data: Vec<PathBuf>,
    /// Start although a directory that was current is missing: what only it holds is lost.
    #[arg(long, env = "OGIVE_DEGRADED")]
    degraded: bool,
    /// Once a day all stored bytes are looked at, no faster than this; 0 for never.
    #[arg(long, value_name = "BYTES/s", default_value = "10MiB/s", env = "OGIVE_SCRUB_RATE", value_parser = bytes)]
    scrub_rate: u64,
    /// Address of the HTTP server; port 0 takes a free one.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6448", env = "OGIVE_LISTEN", value_parser = address)]
    listen: SocketAddr,
    #[command(flatten)]
    kernel: Directory,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let mut found =
        text.to_socket_addrs().map_err(|error| format!("{error}; give HOST:PORT such as 127.0.0.1:6448"))?;
    found.next().ok_or_else(|| "the host has no address".into())
}

/// Runs the command.
pub(crate) fn run(options: &Serve) -> anyhow::Result<ExitCode> {
    let kernel = options.kernel.clone();
    let ask = Box::new(move || kernel.ask());
    let Serve { listen, data, degraded, scrub_rate, .. } = options;
    server::run(
        &server::Options { listen: *listen, data: data.clone(), degraded: *degraded, scrub_rate: *scrub_rate },
        ask,
    )
}
