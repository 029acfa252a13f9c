//! A span of cells: what they cost to send, to keep, to restart with, to roll up and to ask.
//!
//! In simulated time every window is over when its first cell comes, and each flush would make its rollup again. So
//! rollups are made after the load, once each, as they are where cells come in real time.

use crate::ask::{Answer, ask};
use crate::cells::{Cells, METRIC, Phase};
use crate::common::{form, now_ms};
use crate::guard::{End, Guard, Resource};
use crate::options::Options;
use crate::report::{CSV_HEAD, answered, csv_line, shown};
use crate::sender::{Form, send};
use crate::target::Target;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// The span ends with a day (UTC) that ended at least so long ago: its windows take no more cells but late ones.
const CLOSED_MS: i64 = HOUR_MS / 2;
/// Resolutions of questions with steps of five minutes.
const OVER_A_DAY: &[&str] = &["auto", "1m", "raw"];
/// And of a day.
const OVER_A_YEAR: &[&str] = &["auto", "1h", "1m", "raw"];
const NO_ROLLUPS: &[&str] = &["--rollups", "off"];

/// Series and the time that their cells fill.
pub(crate) struct Span {
    name: &'static str,
    series: usize,
    width_ms: u32,
    /// Cells of a series.
    steps: usize,
    begin_ms: i64,
    end_ms: i64,
}

impl Span {
    /// The `hours` up to the end of a day.
    pub(crate) fn new(name: &'static str, series: usize, width_ms: u32, hours: usize) -> Self {
        let end_ms = (now_ms() - CLOSED_MS) / DAY_MS * DAY_MS;
        let length_ms = hours as i64 * HOUR_MS;
        let steps = (length_ms / i64::from(width_ms)) as usize;
        Self { name, series, width_ms, steps, begin_ms: end_ms - length_ms, end_ms }
    }

    /// The step of queries in seconds, and the resolutions that are whole parts of it.
    fn query_steps(&self) -> (i64, &'static [&'static str]) {
        if self.end_ms - self.begin_ms > 7 * DAY_MS { (DAY_MS / 1_000, OVER_A_YEAR) } else { (300, OVER_A_DAY) }
    }

    /// Questions with their names: one series and all, from what the server chooses and in each resolution.
    fn questions(&self) -> Vec<(String, String)> {
        let (step_s, resolutions) = self.query_steps();
        let one = format!("histogram_quantile(0.99, increase({METRIC}{{number=\"0\"}}[{step_s}s]))");
        let all = format!("histogram_quantile(0.99, sum(increase({METRIC}[{step_s}s])))");
        let mut out = Vec::new();
        for (which, expr) in [("one series", one), ("all series", all)] {
            for resolution in resolutions {
                let (start, end) = (self.begin_ms / 1_000 + step_s, self.end_ms / 1_000);
                let path = format!(
                    "/api/v1/query_range?query={}&start={start}&end={end}&step={step_s}&resolution={resolution}",
                    form(&expr)
                );
                out.push((format!("p99 of {which} each {step_s} s, {resolution}"), path));
            }
        }
        out
    }
}

/// What was measured, by name, in its order.
#[derive(Default)]
struct Sheet {
    figures: Vec<(&'static str, Vec<f64>)>,
    /// Cells that were accepted.
    cells: u64,
    answers: Vec<(String, Answer)>,
    end: Option<End>,
}

impl Sheet {
    fn put(&mut self, name: &'static str, values: Vec<f64>) {
        eprintln!("{name}: {}", shown(&values));
        self.figures.push((name, values));
    }

    /// For one of all cells.
    fn put_per_cell(&mut self, name: &'static str, all: f64) {
        self.put(name, vec![all / self.cells.max(1) as f64]);
    }
}

/// Measures and prints.
pub(crate) fn run(options: &Options, span: &Span) {
    eprintln!("{} series x {} cells of {} ms", span.series, span.steps, span.width_ms);
    let mut sheet = Sheet::default();
    if let Err(end) = fill(options, span, &mut sheet) {
        sheet.end = sheet.end.or(Some(end));
    }
    println!("{} series x {} cells of {} ms, {} accepted\n", span.series, span.steps, span.width_ms, sheet.cells);
    println!("| figure | value |\n|---|---|");
    for (name, values) in &sheet.figures {
        println!("| {name} | {} |", shown(values));
    }
    println!("\n| query | CPU ms | ms | resolution of the answer, ms |\n|---|---|---|---|");
    for (name, answer) in &sheet.answers {
        let (wall, resolution) = answer.as_ref().map_or_else(
            |_| ("-".to_owned(), "-".to_owned()),
            |figures| {
                let resolution = figures.resolution_ms;
                let resolution = if resolution == 0 { "samples".to_owned() } else { resolution.to_string() };
                (shown(&[figures.wall_ms]), resolution)
            },
        );
        println!("| {name} | {} | {wall} | {resolution} |", answered(answer));
    }
    if let Some(end) = &sheet.end {
        println!("\n{end}");
    }
    print!("\n{CSV_HEAD}");
    for (name, values) in &sheet.figures {
        print!("{}", csv_line(span.name, span.series, &name.replace(',', ""), values));
    }
    for (name, answer) in &sheet.answers {
        let cpu_ms = answer.as_ref().map_or(&[] as &[f64], |figures| figures.cpu_ms.as_slice());
        print!("{}", csv_line(span.name, span.series, &format!("CPU ms of {}", name.replace(',', "")), cpu_ms));
    }
}

fn fill(options: &Options, span: &Span, sheet: &mut Sheet) -> Result<(), End> {
    let no_start = |said: String| End::no_start(&said);
    let guard = options.guard();
    let cells = Cells::new(span.series, span.width_ms, span.begin_ms);
    sheet.put("bins of a cell", vec![cells.bins()]);
    let mut target = Target::start(&options.directory, NO_ROLLUPS).map_err(no_start)?;
    load((&target, &guard), &cells, (span.steps, options.rounds), sheet)?;
    sheet.put("anonymous memory after the load, MiB", vec![target.memory_grown() / f64::from(1 << 20)]);
    sheet.put("most memory, MiB", vec![(target.server.memory_peak_kib() >> 10) as f64]);

    target.kill();
    sheet.put("start after a kill, s", vec![target.start_again(NO_ROLLUPS).map_err(no_start)?.seconds()]);
    target.settle(guard.until);
    sheet.put("stop, s", vec![target.stop()]);
    let bytes = target.disk_bytes() as f64;
    sheet.put("bytes on disk", vec![bytes]);
    sheet.put_per_cell("bytes a cell", bytes);

    let life = target.start_again(&[]).map_err(no_start)?;
    target.settle(guard.until);
    sheet.put_per_cell("start and rollups, CPU µs for a cell", target.used(&life) * 1e6);
    sheet.put("rollups", vec![target.figure("rollups_total")]);
    target.stop();
    sheet.put("bytes on disk with rollups", vec![target.disk_bytes() as f64]);
    sheet.put("start after a stop, s", vec![target.start_again(&[]).map_err(no_start)?.seconds()]);
    target.settle(guard.until);
    for (name, path) in span.questions() {
        let answer = ask(&target, &path, options.rounds);
        eprintln!("{name}: {}", answered(&answer));
        sheet.answers.push((name, answer));
    }
    Ok(())
}

/// Sends all cells, in as many parts of the time as there are rounds. A resource that ends is noted, and the rest
/// measured with what is there.
fn load(
    (target, guard): (&Target, &Guard),
    cells: &Cells,
    (steps, parts): (usize, usize),
    sheet: &mut Sheet,
) -> Result<(), End> {
    let whole = target.meter();
    // The first step declares the series.
    let mut phases = vec![Phase { number: 0, steps: 0..1, is_declared: true }];
    phases.extend((0..parts).map(|part| {
        let step = |part: usize| 1 + (steps - 1) * part / parts;
        Phase { number: part + 1, steps: step(part)..step(part + 1), is_declared: false }
    }));
    let mut cell_us = Vec::new();
    for phase in &phases {
        let meter = target.meter();
        let sent = send(target, guard, Form::Batch, &|lane, number| cells.request(phase, lane, number));
        let used = target.used(&meter);
        sheet.cells += sent.samples;
        if !phase.is_declared && sent.samples > 0 {
            cell_us.push(used * 1e6 / sent.samples as f64);
        }
        if let Some(end) = sent.end {
            if end.resource == Resource::Server {
                return Err(end);
            }
            eprintln!("{end}");
            sheet.end = Some(end);
            break;
        }
        eprintln!("{} cells after {:.0} s", sheet.cells, whole.seconds());
    }
    sheet.put("CPU µs a cell, acknowledged", cell_us);
    sheet.put("seconds of the load", vec![whole.seconds()]);
    target.settle(guard.until);
    sheet.put_per_cell("CPU µs a cell, settled", target.used(&whole) * 1e6);
    Ok(())
}
