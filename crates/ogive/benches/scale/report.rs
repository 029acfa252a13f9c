//! What was measured: tables for documents, lines of CSV, and the curves.

use std::fmt::Write as _;

use crate::ask::Answer;
use crate::curves::{Place, QUESTIONS, QuestionResult, Row};
use crate::guard::disk_free_bytes;
use crate::options::{Options, memory_bytes};
use crate::picture::{Line, Panel, Point, svg};
use crate::process::spread;

/// Between two samples of a series where figures are extended to a day.
const SCRAPE_S: f64 = 10.0;
const DAY_S: f64 = 86_400.0;

/// The machine in a line.
pub(crate) fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("a processor", |(_, name)| name.trim()).to_owned();
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let load = read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned();
    format!("{model}, {count} CPUs, {} MiB of memory, load {load}", memory_bytes("MemTotal") >> 20)
}

/// Median and spread; nothing when it was not reached.
pub(crate) fn shown(values: &[f64]) -> String {
    match values {
        [] => "-".to_owned(),
        [one] if !one.is_finite() => "-".to_owned(),
        [one] => spread(vec![*one]).split(' ').next().unwrap_or_default().to_owned(),
        _ => spread(values.to_vec()),
    }
}

/// A line of CSV: what, with how many series, the figure, and its median, least and greatest; none of them when it was
/// not reached.
pub(crate) fn csv_line(what: &str, series: usize, name: &str, values: &[f64]) -> String {
    let numbers = summary(values)
        .map_or_else(|| ",,".to_owned(), |[median, least, greatest]| format!("{median},{least},{greatest}"));
    format!("{what},{series},{name},{numbers}\n")
}

/// Median, least and greatest of what was reached.
fn summary(values: &[f64]) -> Option<[f64; 3]> {
    let mut sorted = values.to_vec();
    sorted.retain(|value| value.is_finite());
    sorted.sort_by(f64::total_cmp);
    Some([*sorted.get(sorted.len() / 2)?, *sorted.first()?, *sorted.last()?])
}

pub(crate) const CSV_HEAD: &str = "what,series,figure,median,least,greatest\n";

impl Row {
    fn memory_per_series(&self) -> f64 {
        self.memory_bytes / self.series as f64
    }

    fn disk_per_sample(&self) -> f64 {
        self.disk_bytes / self.samples as f64
    }

    /// Every figure, by name.
    fn figures(&self) -> Vec<(String, Vec<f64>)> {
        let one = |name: &str, value: f64| (name.to_owned(), vec![value]);
        let mut all = vec![
            ("new_series_us".to_owned(), self.new_us.clone()),
            ("identity_sample_us".to_owned(), self.identity_us.clone()),
            ("remote_write_sample_us".to_owned(), self.remote_us.clone()),
            one("memory_series_bytes", self.memory_per_series()),
            one("memory_peak_bytes", self.memory_peak_bytes),
            one("disk_sample_bytes", self.disk_per_sample()),
            one("disk_bytes", self.disk_bytes),
            one("samples", self.samples as f64),
            one("start_after_kill_s", self.start_after_kill_s),
            one("stop_s", self.stop_s),
            one("start_s", self.start_s),
        ];
        for QuestionResult { place, question, answer } in &self.asked {
            let cpu_ms = answer.as_ref().map_or_else(|_| Vec::new(), |figures| figures.cpu_ms.clone());
            all.push((format!("{question}_{}_ms", place.as_str()), cpu_ms));
        }
        all
    }
}

/// What series and samples cost.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut out = String::from(
        "| series | a new series, CPU µs | a sample by identity, CPU µs | by remote write, CPU µs \
         | memory of a series, B | most memory, MiB | disk of a sample, B | samples of a series \
         | start after a kill, s | stop, s | start, s |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let cells = [
            row.series.to_string(),
            shown(&row.new_us),
            shown(&row.identity_us),
            shown(&row.remote_us),
            shown(&[row.memory_per_series()]),
            shown(&[row.memory_peak_bytes / f64::from(1 << 20)]),
            shown(&[row.disk_per_sample()]),
            shown(&[row.samples as f64 / row.series as f64]),
            shown(&[row.start_after_kill_s]),
            shown(&[row.stop_s]),
            shown(&[row.start_s]),
        ];
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out
}

/// An answer for a cell of a table.
pub(crate) fn answered(answer: &Answer) -> String {
    match answer {
        Ok(figures) => format!("{} ({} rows)", shown(&figures.cpu_ms), figures.rows),
        Err(said) => said.replace('|', "/"),
    }
}

/// What questions cost, in CPU milliseconds.
pub(crate) fn questions(rows: &[Row]) -> String {
    let mut out = String::from(
        "| series | from | one host (100 series), CPU ms | sum by service over all | values of the label host |\n\
         |---|---|---|---|---|\n",
    );
    for row in rows {
        for place in Place::ALL {
            let of = |question: &str| {
                let found = row.asked.iter().find(|asked| asked.place == place && asked.question == question);
                found.map_or_else(|| "-".to_owned(), |asked| answered(&asked.answer))
            };
            let cells: Vec<String> = QUESTIONS.iter().map(|question| of(question)).collect();
            let _ = writeln!(out, "| {} | {} | {} |", row.series, place.as_str(), cells.join(" | "));
        }
    }
    out
}

/// The resources that ended, and where the others would by the figures of the most series.
pub(crate) fn ends(rows: &[Row], options: &Options) -> String {
    let mut out = String::from("Where each resource ends:\n\n");
    for row in rows {
        if let Some(end) = &row.end {
            let _ = writeln!(out, "- {} series of {}: {end}", row.series, row.wanted);
        }
    }
    out += "- identities: a tenant has --limit-series, and all may take half of --ingest-memory-mib\n";
    let measured = |row: &&Row| row.series > 0 && row.memory_bytes.is_finite();
    let Some(row) = rows.iter().filter(measured).max_by_key(|row| row.series) else { return out };
    let total = memory_bytes("MemTotal") as f64;
    let _ = writeln!(
        out,
        "- memory: all of it at {:.0} series, by those of {}",
        total / row.memory_per_series(),
        row.series
    );
    for (name, figures) in [("identity", &row.identity_us), ("remote write", &row.remote_us)] {
        if let Some([us, ..]) = summary(figures) {
            let series = SCRAPE_S * 1e6 / us;
            let _ = writeln!(out, "- CPU: one processor at {series:.0} series each {SCRAPE_S} s by {name}");
        }
    }
    let daily = row.disk_per_sample() * row.series as f64 * DAY_S / SCRAPE_S;
    if daily.is_finite() && daily > 0.0 {
        let days = disk_free_bytes(&options.directory) as f64 / daily;
        let _ = writeln!(
            out,
            "- disk: full after {days:.1} days of {} series each {SCRAPE_S} s, at the bytes of a sample above",
            row.series
        );
    }
    out
}

/// Every figure as CSV.
pub(crate) fn csv(rows: &[Row]) -> String {
    let lines = rows
        .iter()
        .flat_map(|row| row.figures().into_iter().map(|(name, values)| csv_line("series", row.series, &name, &values)));
    CSV_HEAD.to_owned() + &lines.collect::<String>()
}

/// The curves.
pub(crate) fn picture(rows: &[Row]) -> String {
    let panel = |title: &'static str, lines: &[(&'static str, &str)]| {
        let line = |&(name, figure): &(&'static str, &str)| Line { name, points: points(rows, figure) };
        Panel { title, lines: lines.iter().map(line).collect() }
    };
    let asked = "values_of_host_heads_ms";
    let panels = [
        panel("a new series, CPU µs", &[("", "new_series_us")]),
        panel(
            "a sample of a known series, CPU µs",
            &[("identity", "identity_sample_us"), ("remote write", "remote_write_sample_us")],
        ),
        panel("memory of a series, bytes", &[("", "memory_series_bytes")]),
        panel("disk of a sample, bytes", &[("", "disk_sample_bytes")]),
        panel("start until ready, s", &[("after a kill", "start_after_kill_s"), ("after a stop", "start_s")]),
        panel(
            "a query, CPU ms",
            &[("one host", "one_host_heads_ms"), ("sum by", "sum_by_service_heads_ms"), ("label values", asked)],
        ),
    ];
    let ended = rows.iter().filter_map(|row| Some(format!("{} series: {}", row.series, row.end.as_ref()?)));
    let mut notes: Vec<String> = ended.collect();
    notes.push(machine());
    svg("Cost by number of series", &panels, &notes)
}

/// A figure by number of series.
fn points(rows: &[Row], figure: &str) -> Vec<Point> {
    let point = |row: &Row| {
        let (_, values) = row.figures().into_iter().find(|(name, _)| name == figure)?;
        let [median, least, greatest] = summary(&values)?;
        Some(Point { series: row.series as f64, least, median, greatest })
    };
    rows.iter().filter(|row| row.series > 0).filter_map(point).collect()
}
