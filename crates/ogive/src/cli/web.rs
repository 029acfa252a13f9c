//! The web configuration of a command: where it is, and how its files are read.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// 2 MiB: more than the configuration's limit for a file, so that a longer one is refused and not truncated.
const READ_MAX: u64 = 2 << 20;

/// Who may connect and ask.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct WebOptions {
    /// TLS, users and tokens for every HTTP and gRPC listener, in the format of Prometheus's web.config
    /// (docs/web.md); reread when it changes.
    #[arg(long, value_name = "FILE", env = "OGIVE_WEB_CONFIG")]
    pub(crate) web_config: Option<PathBuf>,
    /// Origins of other sites whose pages may read answers (CORS): a regular expression that matches the whole
    /// origin, such as 'https?://(a|b)\.example\.com', or '.*' for all; default: none (docs/web.md).
    #[arg(long, alias = "web.cors.origin", value_name = "REGEX", env = "OGIVE_WEB_CORS_ORIGIN", value_parser = ogive_http::Cors::parse)]
    pub(crate) web_cors_origin: Option<ogive_http::Cors>,
    #[command(flatten)]
    pub(crate) hosts: ogive_http::web::HostOptions,
}

/// The bytes of a file, not many more than a configuration may have.
pub(crate) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(READ_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}
