//! A backtest over data directories of a server that does not run: the same evaluation as `/v1/rules/backtest`, without
//! a server.
//!
//! Failure: directories that a server has open are refused; what cannot be read is an error of the rules that read it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use ogive_alerting::backtest_report::report;
use ogive_detect::rules::duration::parse_ms;
use ogive_detect::rules::{Backtest, EvaluationContext, GroupDefaults, RuleFile, backtest};
use ogive_model::{Ms, Tenant, WallMs};
use ogive_probe::Clock;
use ogive_query::{ClassicViews, Engine, EngineOptions};
use ogive_storage::Time;
use ogive_storage::upkeep::open_mirror;
use ogive_store::{Options, Store};
use serde_json::Value;

use super::times;

/// A minute, as `--alerting-interval` is when nobody sets it.
const INTERVAL: Ms = Ms::from_secs(60);

/// What is evaluated, as it was written on the command line.
pub(super) struct BacktestRequest<'a> {
    /// Path of the rule file, on which slots depend.
    pub(super) file: &'a str,
    pub(super) text: &'a [u8],
    pub(super) start: &'a str,
    pub(super) end: Option<&'a str>,
    pub(super) interval: Option<&'a str>,
    pub(super) holds: Vec<&'a str>,
}

/// What became of each rule over what `directories` hold of `tenant`, as the server shows it.
pub(super) fn run(directories: &[PathBuf], tenant: &Tenant, wanted: &BacktestRequest<'_>) -> anyhow::Result<Value> {
    let text = std::str::from_utf8(wanted.text).with_context(|| format!("{} is not UTF-8", wanted.file))?;
    let file = RuleFile::parse(text).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(|error| format!("{}:{error}", wanted.file)).collect();
        anyhow::anyhow!("{}", lines.join("\n"))
    })?;
    let now = times::now();
    let span = |text: &&str| parse_ms(text).map(Ms).map_err(|error| anyhow::anyhow!("for: {error}"));
    let holds = wanted.holds.iter().map(span).collect::<Result<Vec<Ms>, _>>()?;
    let interval = wanted.interval.map_or(Ok(INTERVAL), |text| span(&text))?;
    if interval <= Ms::ZERO {
        bail!("the interval must be above zero");
    }
    let end = wanted.end.map_or(Ok(now), |end| time(end, now))?.min(now);
    let test = Backtest {
        path: wanted.file,
        file: &file,
        defaults: GroupDefaults { interval, query_offset: Ms::ZERO },
        start: time(wanted.start, now)?,
        end,
        holds: &holds,
    };
    if let Some(missing) = directories.iter().find(|directory| !directory.is_dir()) {
        bail!("{} is no directory", missing.display());
    }
    let (mirror, _) = open_mirror(directories, false)?;
    // It is read: nothing is rolled up or merged.
    let options = Options { rollups: Vec::new(), compact_blocks: 0, ..Options::default() };
    let root = mirror.root().to_owned();
    let store = Store::open(Arc::new(mirror), &root, options, Arc::new(Time(Clock::global())))?;
    let reader = store.tenant(tenant);
    let (engine, labels) = (Engine::new(EngineOptions::default()), BTreeMap::new());
    let context = EvaluationContext {
        engine: &engine,
        external_url: "",
        external_labels: &labels,
        elapsed: &|| Duration::ZERO,
        cancelled: &|| false,
    };
    let found = backtest(&test, &ClassicViews::new(&reader), &context)?;
    Ok(report(&test, &found))
}

/// A time such as -30d, Unix seconds or RFC 3339.
fn time(text: &str, now: WallMs) -> anyhow::Result<WallMs> {
    let found = ogive_text::instant::parse_ms(text, now.0).map(WallMs);
    found.with_context(|| format!("{text:?} is no time; give such as -30d, Unix seconds or RFC 3339"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_ago_seconds_or_written_out() {
        let now = WallMs(1_700_000_000_000);
        let found = |text: &str| time(text, now).ok();
        assert_eq!(found("-1h"), Some(now - Ms::from_secs(3_600)));
        assert_eq!(found("1699999999.5"), Some(now - Ms(500)));
        assert_eq!(found("2023-11-14T22:13:20Z"), Some(now));
        assert_eq!((found("soon"), found(""), found("1e300"), found("nan")), (None, None, None, None));
    }
}
