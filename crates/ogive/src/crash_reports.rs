//! Crash reports of a role: starting their writer, and telling of what earlier starts left.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ogive_crash::catalog::Catalog;
use ogive_crash::handler;
use ogive_crash::report::Start;
use ogive_journal::RealDisk;
use ogive_text::secrets::without_secrets;

/// 3 reports of an earlier start are logged; `ogive crash list` has them all.
const LOGGED_MAX: usize = 3;

/// Options of a role.
#[derive(clap::Args, Clone, Debug)]
#[group(id = "crash")]
pub(crate) struct Options {
    /// Directory for crash reports; default: `crash` in the first data directory, or in the broker's spool.
    #[arg(long, value_name = "DIR", env = "OGIVE_CRASH_DIR")]
    crash_dir: Option<PathBuf>,
    /// URL to notify of a crash by POST, with a JSON object.
    #[arg(long, value_name = "URL", env = "OGIVE_CRASH_WEBHOOK")]
    crash_webhook: Option<String>,
    /// Write no crash reports; only what the system itself keeps of a crash remains.
    #[arg(long, env = "OGIVE_NO_CRASH_REPORTS")]
    no_crash_reports: bool,
}

/// Logs the reports that earlier starts left, and reports crashes from now on. A role without reports is better than
/// none, so a failure here is only a warning. `configuration`: options as they were given.
pub(crate) fn start(options: &Options, role: &str, home: &Path, configuration: &[(String, String)]) {
    if options.no_crash_reports {
        return;
    }
    let directory = options.crash_dir.clone().unwrap_or_else(|| home.join("crash"));
    if let Err(error) = begin(options, role, &directory, configuration) {
        tracing::warn!("crash reports are off: {error}");
    }
}

fn begin(
    options: &Options,
    role: &str,
    directory: &Path,
    configuration: &[(String, String)],
) -> Result<(), ogive_crash::Error> {
    let catalog = Catalog::new(&RealDisk, directory);
    let known = catalog.numbers()?.last().copied().unwrap_or(0).max(catalog.seen());
    let unseen = catalog.take_unseen()?;
    for number in unseen.iter().rev().take(LOGGED_MAX) {
        let show = format!("ogive crash show {number} --dir {}", directory.display());
        match catalog.read(*number) {
            Ok(report) => tracing::error!(
                number,
                signature = report.signature,
                "an earlier start crashed at {}: {}; see {show}",
                report.time,
                report.title()
            ),
            Err(error) => tracing::error!(number, "an earlier start crashed: {error}"),
        }
    }
    if unseen.len() > LOGGED_MAX {
        tracing::error!("{} crash reports in all are new; see ogive crash list", unseen.len());
    }
    let configuration = configuration.iter().map(|(name, value)| (name.clone(), without_secrets(name, value)));
    let start = Start {
        role: role.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        directory: std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned()).display().to_string(),
        webhook: options.crash_webhook.clone(),
        configuration: configuration.collect(),
    };
    handler::start(&start, &["crash", "write"].map(OsString::from), known)
}
