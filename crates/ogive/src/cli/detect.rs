//! `ogive detect`: the detectors over the past, of a server or of a file.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use ogive_detect::detectors::novelty::Novelty;
use ogive_detect::detectors::rhythm::Rhythm;
use ogive_detect::detectors::saturation::{Forecast, HORIZON};
use ogive_detect::detectors::{Finding, absence::Cadence};
use ogive_model::{Labels, Ms, WallMs};
use ogive_text::calendar::instant_ms;
use serde_json::Value;

use super::client::Server;
use super::exit::EXIT_FINDING;
use super::findings;
use super::times;
use ogive_alerting::detection::board::finding_document;

/// 256 MiB: some ten million rows.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Runs the detectors over stored data or over the numbers of a file, and prints what they would have found.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Each row of a file has a time and a number, separated by a comma. Times are Unix seconds, RFC 3339, or of the form
2014-04-10 07:15:00 (UTC). The exit code is 1 when something was found.

  ogive detect --selector 'request_seconds' --start -3h
  ogive detect --selector 'request_seconds' --siblings instance
  ogive detect --selector 'request_seconds' --last-week --start -1h
  ogive detect cpu.csv
  ogive detect disk.csv --limit 100")]
pub(crate) struct Detect {
    /// File with times and numbers; `-` is standard input.
    #[arg(required_unless_present = "selector", conflicts_with = "selector")]
    file: Option<PathBuf>,
    /// Selector of the series to judge, such as up{job="a"}.
    #[arg(long, value_name = "SELECTOR")]
    selector: Option<String>,
    /// Start of the range: -3h, now-7d, Unix seconds or RFC 3339; default: three hours before its end.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = times::parse, requires = "selector")]
    start: Option<String>,
    /// End of the range; default: now.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = times::parse, requires = "selector")]
    end: Option<String>,
    /// Compare the values of this label with each other to find the odd one out.
    #[arg(long, value_name = "LABEL", requires = "selector")]
    siblings: Option<String>,
    /// Compare the range with the same range a week before.
    #[arg(long, requires = "selector")]
    last_week: bool,
    /// Limit that the numbers of the file must not reach; also forecasts when they will.
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, requires = "file")]
    limit: Option<f64>,
    #[command(flatten)]
    server: Server,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(options: &Detect) -> anyhow::Result<ExitCode> {
    let found = match (&options.selector, &options.file) {
        (Some(selector), _) => match requested(options, selector)? {
            Ok(found) => found,
            Err(failure) => return Ok(failure.report()),
        },
        (None, Some(file)) => of_file(file, options.limit)?,
        (None, None) => bail!("give a file or --selector"),
    };
    if options.json {
        println!("{}", Value::Array(found.clone()));
    } else {
        found.iter().for_each(|finding| println!("{}", findings::line(finding)));
        eprintln!("{} found", found.len());
    }
    Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FINDING) })
}

fn requested(options: &Detect, selector: &str) -> anyhow::Result<Result<Vec<Value>, super::client::Failure>> {
    let mut params = vec![("match[]", selector)];
    for (name, value) in [("start", &options.start), ("end", &options.end), ("siblings", &options.siblings)] {
        params.extend(value.as_deref().map(|value| (name, value)));
    }
    if options.last_week {
        params.push(("week", "1"));
    }
    let body = match options.server.get("/v1/detections/run", &params) {
        Ok(body) => body,
        Err(failure) => return Ok(Err(failure)),
    };
    let document: Value = serde_json::from_str(&body).context("the server's answer is not JSON")?;
    Ok(Ok(document["data"]["findings"].as_array().cloned().unwrap_or_default()))
}

/// Findings in the numbers of a file: anomalies, locked gaps, and when they reach a limit.
fn of_file(path: &Path, limit: Option<f64>) -> anyhow::Result<Vec<Value>> {
    let points = points(&read(path)?).with_context(|| format!("cannot read {}", path.display()))?;
    let found = judged(&points, limit);
    let labels = Labels::new([("file", path.display().to_string().as_str())]).unwrap_or_else(|_| Labels::empty());
    Ok(found.iter().map(|finding| finding_document(&labels, finding)).collect())
}

fn judged(points: &[(i64, f64)], limit: Option<f64>) -> Vec<Finding> {
    let Some((begin_ms, _)) = points.first() else { return Vec::new() };
    let mut steps: Vec<i64> = points.windows(2).map(|pair| pair[1].0 - pair[0].0).filter(|step| *step > 0).collect();
    steps.sort_unstable();
    let step_ms = steps.get(steps.len() / 2).copied().unwrap_or(1_000);
    let mut novelty = Novelty::new(usize::try_from(86_400_000 / step_ms.max(1)).unwrap_or(usize::MAX));
    let (mut rhythm, mut cadence) = (Rhythm::default(), Cadence::new(WallMs(*begin_ms)));
    let mut found = Vec::new();
    for (time_ms, value) in points {
        let time = WallMs(*time_ms);
        let (last, mean_ms) = (cadence.last(), cadence.mean_ms());
        let gap_ms = (time - last).0 as f64;
        if let Some(mean_ms) = mean_ms.filter(|mean_ms| gap_ms >= 1.75 * mean_ms) {
            found.extend(rhythm.gap(last + Ms(mean_ms as i64), gap_ms - mean_ms));
        }
        cadence.arrive(time);
        found.extend(rhythm.pass(time));
        found.extend(novelty.judge(time, *value, ""));
    }
    if let (Some(limit), Some((end_ms, _))) = (limit, points.last()) {
        // The forecast covers four times the observed range, and four days at most.
        let end = WallMs(*end_ms);
        let horizon = HORIZON.min((end - WallMs(*begin_ms)).saturating_mul(4));
        found.extend(Forecast::new(points, limit).and_then(|forecast| forecast.finding(end, limit, horizon, "")));
    }
    found
}

fn read(path: &Path) -> anyhow::Result<String> {
    let named = || format!("cannot read {}", path.display());
    let mut text = String::new();
    let count = if path == Path::new("-") {
        std::io::stdin().take(FILE_BYTES_MAX + 1).read_to_string(&mut text)
    } else {
        std::fs::File::open(path).with_context(named)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)
    };
    if count.with_context(named)? as u64 > FILE_BYTES_MAX {
        bail!("{} is longer than {FILE_BYTES_MAX} bytes", path.display());
    }
    Ok(text)
}

/// Times and numbers, ascending; a first row that is not numeric is a heading.
fn points(text: &str) -> anyhow::Result<Vec<(i64, f64)>> {
    let mut points = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let row = line
            .split_once(',')
            .and_then(|(time, value)| Some((time_ms(time.trim())?, value.trim().parse::<f64>().ok()?)));
        match row {
            Some(row) => points.push(row),
            None if points.is_empty() && at == 0 => {}
            None => bail!("line {}: {line:?} is no time and number with a comma between", at + 1),
        }
    }
    points.sort_by_key(|(time, _)| *time);
    Ok(points)
}

fn time_ms(text: &str) -> Option<i64> {
    instant_ms(text).or_else(|| {
        let (date, time) = text.split_once(' ')?;
        instant_ms(&format!("{date}T{time}Z"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_times_and_numbers_and_a_bad_one_is_named() {
        let text = "timestamp,value\n2014-04-10 07:15:00,1.5\n1397114160,2\n2014-04-10T07:17:00Z, 3\n\n";
        let points = points(text).unwrap();
        assert_eq!(points, [(1_397_114_100_000, 1.5), (1_397_114_160_000, 2.0), (1_397_114_220_000, 3.0)]);
        let error = super::points("1,2\nx,3\n").unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("x,3"), "{error}");
        assert!(super::points("").unwrap().is_empty());
    }

    #[test]
    fn a_file_with_a_gap_each_minute_and_a_growing_number_has_both_found() {
        let rows = (0..3_000_i64).filter(|second| !(17..19).contains(&(second % 60)));
        let points: Vec<(i64, f64)> =
            rows.map(|second| (1_795_435_200_000 + second * 1_000, second as f64 / 100.0)).collect();
        let found = judged(&points, Some(100.0));
        let kinds: Vec<&str> = found.iter().map(|finding| finding.kind.as_str()).collect();
        assert!(kinds.contains(&"instability") && kinds.contains(&"saturation"), "{kinds:?}");
        let gap = found.iter().find(|finding| finding.kind.as_str() == "instability").expect("just seen");
        assert!(gap.sentence.contains("every 60 s at :17"), "{}", gap.sentence);
        assert!(judged(&[], Some(1.0)).is_empty());
    }
}
