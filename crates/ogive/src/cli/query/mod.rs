//! `ogive query`: a PromQL expression to a table, sparklines, pictures of distributions, a chart, CSV or an Arrow file.

mod absent;
mod answer;
mod arrow;
mod bounds;
mod csv;
mod unit;

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use ogive_hist::Histogram;
use std::collections::BTreeMap;

use self::answer::{Answer, Data, Series, go_float};
use self::bounds::Bounds;
use self::csv::csv;
use self::unit::Measure;
use super::client::{Failure, Server};
use super::format::human;
use super::hist::{Style, draw};
use super::plot::{Heat, Line, heat_map, lines};
use super::terminal::Terminal;
use super::times;
use crate::cli::standard_output::StandardOutput;

/// Pictures are small here, because several may follow each other.
const PICTURE_ROWS: usize = 12;

/// More series than this are not drawn but counted; `--json` has them all.
const SERIES_SHOWN_MAX: usize = 200;

/// Evaluates a PromQL expression on a server.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Without --start the expression is evaluated once; with it, over a range of time.

  ogive query 'histogram_quantile(0.99, sum(increase(ogive_hiccup_seconds[5m])))'
  ogive query 'sum(increase(ogive_http_request_seconds[1m]))'
  ogive query 'rate(ogive_ingest_samples_total[1m])' --start -1h --step 1m
  ogive query 'sum(increase(ogive_hiccup_seconds[10s]))' --plot --watch
  ogive query 'sum by (job) (up)' --start -1h --format csv > up.csv
  ogive query 'sum(increase(ogive_hiccup_seconds[10s]))' --start -1h --format arrow -o hiccups.arrow")]
pub(crate) struct Query {
    /// Expression to evaluate.
    #[arg(allow_hyphen_values = true)]
    expr: String,
    /// Evaluate at this instant: -1h, now-7d, Unix seconds or RFC 3339; default: now.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with_all = ["start", "end", "step"])]
    time: Option<String>,
    /// Start of a range, in the same forms as --time.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    start: Option<String>,
    /// End of the range; default: now.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, requires = "start")]
    end: Option<String>,
    /// Step of the range: seconds, or a duration such as 5m; default: 15s, and 30s when only --plot is given.
    #[arg(long)]
    step: Option<String>,
    /// Draw a line chart, or a heat map of distributions; of the last hour when --start is not given.
    #[arg(long, conflicts_with_all = ["json", "time"])]
    plot: bool,
    /// Ask again at this interval in seconds, until interrupted.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2")]
    watch: Option<f64>,
    /// Number of rounds with --watch; unlimited by default.
    #[arg(long, value_name = "COUNT", requires = "watch")]
    repeats: Option<u64>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text, conflicts_with_all = ["json", "plot"])]
    format: Format,
    /// Write to this file instead of standard output; it is replaced once the output is complete.
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["watch", "plot"])]
    output: Option<PathBuf>,
    /// Resolution of the data: auto, 1s for data as received, or a rollup's width such as 1m.
    #[arg(long, default_value = "auto")]
    resolution: String,
    #[command(flatten)]
    server: Server,
    /// Print the server's JSON.
    #[arg(long)]
    json: bool,
}

/// What is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Tables and small pictures.
    Text,
    /// The server's JSON.
    Json,
    /// One line per point: time, labels, value; count and sum of a distribution.
    Csv,
    /// An Arrow IPC file with every bin (docs/formats/arrow.md); needs --output or a redirection.
    Arrow,
}

/// Seconds that `--plot` shows when no start is given.
const PLOT_SECONDS: f64 = 3600.0;

/// Shortest time between two questions of `--watch`: more often than people see would only be load.
const WATCH_SECONDS_MIN: f64 = 0.1;

/// Runs the command.
pub(crate) fn run(options: &Query, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    if let Err(sentence) = check(options) {
        return Ok(Failure::Usage(sentence).report());
    }
    let Some(seconds) = options.watch else { return once(options, terminal) };
    let mut left = options.repeats.unwrap_or(u64::MAX);
    while left > 0 {
        left -= 1;
        if std::io::stdout().is_terminal() {
            // To the upper left corner of an empty screen.
            print!("\x1b[H\x1b[2J");
        }
        let code = once(options, terminal)?;
        StandardOutput.flush()?;
        if code != ExitCode::SUCCESS || left == 0 {
            return Ok(code);
        }
        std::thread::sleep(Duration::from_secs_f64(seconds));
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses options that cannot be combined.
fn check(options: &Query) -> Result<(), String> {
    if options.step.is_some() && options.start.is_none() && !options.plot {
        return Err("--step is the step of a range: give --start, or --plot for the last hour".into());
    }
    if let Some(seconds) = options.watch
        && !(WATCH_SECONDS_MIN..=86_400.0).contains(&seconds)
    {
        return Err(format!("--watch {seconds}: give from {WATCH_SECONDS_MIN} to 86400 seconds"));
    }
    if options.format == Format::Arrow && options.watch.is_some() {
        return Err("--watch is for people: an Arrow file has one answer".into());
    }
    if options.format == Format::Arrow && options.output.is_none() && std::io::stdout().is_terminal() {
        return Err("an Arrow file is not for the terminal: give --output FILE, or redirect".into());
    }
    Ok(())
}

/// Queries once and prints.
fn once(options: &Query, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let now = ogive_probe::Clock::global().wall() as f64 / 1e9;
    let hour_ago = options.plot.then(|| format!("{:.3}", now - PLOT_SECONDS));
    let now = format!("{now:.3}");
    // Resolved in each round of --watch: they may be relative to now.
    let [time, start, end] = [&options.time, &options.start, &options.end].map(|at| at.as_deref().map(times::absolute));
    let time = time.as_deref();
    let mut params = vec![("query", &*options.expr), ("resolution", &*options.resolution)];
    let path = match start.as_ref().or(hour_ago.as_ref()) {
        None => {
            params.extend(time.map(|time| ("time", time)));
            "/api/v1/query"
        }
        Some(start) => {
            let end = end.as_deref().unwrap_or(&now);
            let usual = if options.start.is_none() { "30s" } else { "15s" };
            params.extend([("start", &**start), ("end", end), ("step", options.step.as_deref().unwrap_or(usual))]);
            "/api/v1/query_range"
        }
    };
    let body = match options.server.get(path, &params) {
        Ok(body) => body,
        Err(failure) => return Ok(failure.report()),
    };
    if options.json || options.format == Format::Json {
        return put(options, body.as_bytes());
    }
    let answer: Answer = serde_json::from_str(&body).context("the server's answer is not as documented")?;
    for note in answer.warnings.iter().chain(&answer.infos) {
        eprintln!("ogive: {note}");
    }
    // Derived from the naming conventions: the response itself carries no unit.
    let measure = Measure::from_expression(&options.expr);
    let unit = Measure::distribution_unit(&options.expr);
    if answer.data.is_empty() {
        let last = time.or(end.as_deref());
        absent::reasons(&options.expr, last, &options.server).iter().for_each(|why| eprintln!("ogive: {why}"));
    }
    let bytes = match options.format {
        Format::Arrow => arrow::file(&answer, &options.expr)?,
        Format::Csv => csv(&answer.data).into_bytes(),
        _ if options.plot => plot(&answer.data, unit, terminal)?.into_bytes(),
        _ => show(&answer.data, &Reading { bounds: bounds(options, time)?, unit, measure }, terminal)?.into_bytes(),
    };
    put(options, &bytes)
}

/// The bounds of an instant's quantiles or shares, which need a second query.
fn bounds(options: &Query, time: Option<&str>) -> anyhow::Result<Bounds> {
    let expr = if options.start.is_none() { Bounds::expression(&options.expr) } else { None };
    let Some(expr) = expr else { return Ok(Bounds::default()) };
    let mut params = vec![("query", &*expr), ("resolution", &*options.resolution)];
    params.extend(time.map(|time| ("time", time)));
    // A server that does not support them, such as Prometheus, has still returned the values.
    let Ok(body) = options.server.get("/api/v1/query", &params) else { return Ok(Bounds::default()) };
    Ok(Bounds::from_answer(serde_json::from_str(&body).context("the server's answer is not as documented")?))
}

/// To the file that was named, or to standard output.
fn put(options: &Query, bytes: &[u8]) -> anyhow::Result<ExitCode> {
    let Some(path) = &options.output else {
        StandardOutput.write_all(bytes)?;
        return Ok(ExitCode::SUCCESS);
    };
    // So that a reader of the file never sees half of it.
    let mut made = path.clone().into_os_string();
    made.push(".made");
    let written = std::fs::write(&made, bytes).and_then(|()| std::fs::rename(&made, path));
    if let Err(error) = written {
        let _ = std::fs::remove_file(&made);
        return Ok(Failure::Usage(format!("cannot write {}: {error}", path.display())).report());
    }
    Ok(ExitCode::SUCCESS)
}

/// One chart for all numbers, and a heat map for each series of distributions.
fn plot(data: &Data, unit: &'static str, terminal: &Terminal) -> anyhow::Result<String> {
    let Data::Matrix(series) = data else { return show(data, &Reading { unit, ..Reading::default() }, terminal) };
    let mut numbers = Vec::new();
    let mut out = String::new();
    for one in series.iter().take(SERIES_SHOWN_MAX) {
        let name = name(&one.metric);
        if !one.values.is_empty() {
            let point = |pair: &(f64, String)| Ok((pair.0, go_float(&pair.1)?));
            numbers.push(Line {
                name: name.clone(),
                points: one.values.iter().map(point).collect::<anyhow::Result<_>>()?,
            });
        }
        let mut heat = Vec::new();
        for (time, distribution) in &one.histograms {
            // A moment without samples still has its column.
            heat.push(Heat { time: *time, lo: 0.0, hi: 0.0, count: 0.0 });
            for (_, lo, hi, count) in &distribution.buckets {
                heat.push(Heat { time: *time, lo: go_float(lo)?, hi: go_float(hi)?, count: go_float(count)? });
            }
        }
        if !heat.is_empty() {
            out += &heat_map(&name, &heat, unit, terminal);
        }
    }
    if !numbers.is_empty() {
        out += &lines(&numbers, unit, terminal);
    }
    if series.len() > SERIES_SHOWN_MAX {
        out += &format!("{} more series; narrow the expression or see --json\n", series.len() - SERIES_SHOWN_MAX);
    }
    Ok(if out.is_empty() { "no data\n".into() } else { out })
}

/// Labels as PromQL writes them.
pub(super) fn name(metric: &BTreeMap<String, String>) -> String {
    let labels: Vec<String> = metric
        .iter()
        .filter(|(label, _)| *label != "__name__")
        .map(|(label, value)| format!("{label}={value:?}"))
        .collect();
    let name = metric.get("__name__").map_or("", String::as_str);
    if labels.is_empty() && !name.is_empty() { name.to_owned() } else { format!("{name}{{{}}}", labels.join(", ")) }
}

/// How a result is displayed.
#[derive(Default)]
struct Reading {
    bounds: Bounds,
    /// The unit of the distributions' values.
    unit: &'static str,
    /// What the numbers measure.
    measure: Measure,
}

impl Reading {
    /// A number unchanged, or with its unit and the precision of a bin.
    fn value(&self, value: &str) -> String {
        match go_float(value) {
            Ok(number) if self.measure.is_of_bins => human(number, self.measure.unit),
            _ => value.to_owned(),
        }
    }
}

fn show(data: &Data, reading: &Reading, terminal: &Terminal) -> anyhow::Result<String> {
    match data {
        Data::Scalar((_, value)) | Data::String((_, value)) => Ok(format!("{value}\n")),
        Data::Vector(series) | Data::Matrix(series) if series.is_empty() => Ok("no data\n".into()),
        Data::Vector(series) => vector(series, reading, terminal),
        Data::Matrix(series) => matrix(series, reading, terminal),
    }
}

fn vector(series: &[Series], reading: &Reading, terminal: &Terminal) -> anyhow::Result<String> {
    let mut out = String::new();
    let names: Vec<String> = series.iter().map(|series| name(&series.metric)).collect();
    let floats = || series.iter().zip(&names).filter_map(|(one, name)| Some((one, name, &one.value.as_ref()?.1)));
    let width = floats().map(|(_, name, _)| name.chars().count()).max().unwrap_or(0);
    floats().for_each(|(one, name, value)| {
        let bounds = reading.bounds.text(&one.metric, terminal.unicode, |value| reading.value(value));
        out += &format!("{name:width$}  {}{bounds}\n", reading.value(value));
    });
    let distributions =
        series.iter().zip(&names).filter_map(|(series, name)| Some((name, &series.histogram.as_ref()?.1)));
    for (at, (name, distribution)) in distributions.enumerate() {
        if at == SERIES_SHOWN_MAX {
            out += "more distributions follow; narrow the expression or see --json\n";
            break;
        }
        out += &picture(name, &distribution.histogram()?, reading.unit, terminal);
    }
    Ok(out)
}

fn matrix(series: &[Series], reading: &Reading, terminal: &Terminal) -> anyhow::Result<String> {
    let mut out = String::new();
    for series in series.iter().take(SERIES_SHOWN_MAX) {
        let name = name(&series.metric);
        if !series.values.is_empty() {
            let values: Vec<f64> = series.values.iter().map(|pair| go_float(&pair.1)).collect::<Result<_, _>>()?;
            out += &sparkline(&name, &values, reading.measure.unit, terminal);
        }
        if let Some(((_, first), rest)) = series.histograms.split_first() {
            let mut sum = first.histogram()?;
            for (_, more) in rest {
                if sum.merge(&more.histogram()?).is_err() {
                    bail!("histograms of one answer do not merge");
                }
            }
            out += &picture(
                &format!("{name} ({} points together)", series.histograms.len()),
                &sum,
                reading.unit,
                terminal,
            );
        }
    }
    if series.len() > SERIES_SHOWN_MAX {
        out += &format!("{} more series; narrow the expression or see --json\n", series.len() - SERIES_SHOWN_MAX);
    }
    Ok(out)
}

fn picture(name: &str, histogram: &Histogram<f64>, unit: &str, terminal: &Terminal) -> String {
    let style = Style {
        width: terminal.width,
        rows_max: PICTURE_ROWS,
        ascii: !terminal.unicode,
        color: terminal.color,
        unit: unit.into(),
    };
    let found: Vec<(&str, ogive_hist::Quantile)> = [("p50", 0.5), ("p99", 0.99)]
        .into_iter()
        .filter_map(|(name, q)| Some((name, histogram.quantile(q)?)))
        .collect();
    let marks: Vec<(String, f64)> = found.iter().map(|(name, found)| ((*name).to_owned(), found.value)).collect();
    let dots = if terminal.unicode { "…" } else { ".." };
    let figure = |(name, found): &(&str, ogive_hist::Quantile)| {
        let [value, lo, hi] = [found.value, found.lo, found.hi].map(|value| human(value, &style.unit));
        format!("{name} {value} ({lo} {dots} {hi})")
    };
    let figures: Vec<String> = found.iter().map(figure).collect();
    let mean = histogram.mean().map_or(String::new(), |mean| format!("  mean {}", human(mean, &style.unit)));
    format!(
        "{name}  count {}{mean}  {}\n{}\n",
        human(histogram.count, ""),
        figures.join("  "),
        draw(histogram, &marks, &style)
    )
}

/// One line for a series over time, at most as wide as the terminal.
fn sparkline(name: &str, values: &[f64], unit: &str, terminal: &Terminal) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const ASCII: [char; 8] = ['_', '.', '-', '~', '=', '+', '*', '#'];
    let levels = if terminal.unicode { LEVELS } else { ASCII };
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let (min, max) = finite().fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), v| (min.min(v), max.max(v)));
    let columns = values.len().min(terminal.width.saturating_sub(2).max(10));
    let line: String = (0..columns)
        .map(|at| {
            let piece = &values
                [at * values.len() / columns..((at + 1) * values.len() / columns).max(at * values.len() / columns + 1)];
            let top = piece.iter().copied().filter(|value| value.is_finite()).fold(f64::NEG_INFINITY, f64::max);
            if !top.is_finite() {
                return ' ';
            }
            let share = if max > min { (top - min) / (max - min) } else { 0.0 };
            levels[(share * 7.0).round() as usize]
        })
        .collect();
    let last = values.last().copied().unwrap_or(f64::NAN);
    format!("{name}  last {}  min {}  max {}\n{line}\n", human(last, unit), human(min, unit), human(max, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terminal() -> Terminal {
        Terminal { width: 80, height: 40, unicode: true, color: false }
    }

    fn shown(body: &str) -> String {
        let answer: Answer = serde_json::from_str(body).unwrap();
        show(&answer.data, &Reading { unit: "s", ..Reading::default() }, &terminal()).unwrap()
    }

    #[test]
    fn vectors_are_tables() {
        let body = r#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"__name__":"up","a":"b"},"value":[1,"1.5"]},{"metric":{},"value":[1,"NaN"]}]}}"#;
        assert_eq!(shown(body), "up{a=\"b\"}  1.5\n{}         NaN\n");
    }

    #[test]
    fn decimal_distributions_come_back_exactly() {
        let body = r#"{"data":{"resultType":"vector","result":[{"metric":{"__name__":"x_seconds"},"histogram":[1,
            {"count":"4","sum":"1","buckets":[[0,"-0.51","-0.5","1"],[3,"0","0","1"],[1,"0.0012","0.0013","2"]]}]}]}}"#;
        let answer: Answer = serde_json::from_str(body).unwrap();
        let Data::Vector(series) = &answer.data else { panic!() };
        let histogram = series[0].histogram.as_ref().unwrap().1.histogram().unwrap();
        let bins: Vec<(f64, f64, f64)> = histogram.buckets().map(|b| (b.lo, b.hi, b.count)).collect();
        assert_eq!(bins, [(-0.51, -0.5, 1.0), (0.0, 0.0, 1.0), (0.0012, 0.0013, 2.0)]);
        let text = shown(body);
        assert!(text.contains("1.2ms") && text.contains("p50"), "{text}");
    }

    #[test]
    fn ranges_are_sparklines() {
        let body = r#"{"data":{"resultType":"matrix","result":[{"metric":{"__name__":"m"},"values":[[1,"0"],[2,"5"],[3,"10"],[4,"NaN"]]}]}}"#;
        assert_eq!(shown(body), "m  last NaN  min 0  max 10\n▁▅█ \n");
    }

    #[test]
    fn nothing_is_said_to_be_nothing() {
        assert_eq!(shown(r#"{"data":{"resultType":"vector","result":[]}}"#), "no data\n");
        assert_eq!(shown(r#"{"data":{"resultType":"scalar","result":[1,"2"]}}"#), "2\n");
    }

    #[test]
    fn plots_have_lines_for_numbers_and_heat_for_distributions() {
        let body = r#"{"data":{"resultType":"matrix","result":[
            {"metric":{"__name__":"m"},"values":[[1,"1"],[2,"3"]]},
            {"metric":{"__name__":"h"},"histograms":[[1,{"count":"4","sum":"1","buckets":[[1,"0.1","0.11","4"]]}],[2,{"count":"0","sum":"0"}]]}]}}"#;
        let answer: Answer = serde_json::from_str(body).unwrap();
        let text = plot(&answer.data, "s", &terminal()).unwrap();
        assert!(text.starts_with("h\n") && text.contains('█') && text.contains("m  last 3s"), "{text}");
        let empty: Answer = serde_json::from_str(r#"{"data":{"resultType":"matrix","result":[]}}"#).unwrap();
        assert_eq!(plot(&empty.data, "", &terminal()).unwrap(), "no data\n");
    }
}
