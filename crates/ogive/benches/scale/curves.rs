//! One number of series: what they cost to declare, to feed, to keep, to restart with and to ask.

use crate::ask::{Answer, ask};
use crate::common::{form, now_ms};
use crate::floats::{Floats, METRIC, STEP_MS, host_name};
use crate::guard::{End, Guard, Resource};
use crate::options::Options;
use crate::sender::{Form, Sent, send};
use crate::target::Target;

/// Beyond the limits of a tenant and of a query, so that memory decides.
const LIMIT_SERIES: &str = "100000000";
/// Up to so many series the server has its usual memory for ingest, which is enough for them.
const USUAL_SERIES_MAX: usize = 1_000_000;
/// MiB, the usual one.
const INGEST_MIB: u64 = 1536;

/// Where the answers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Memory, once the server has done what the samples began in the background.
    Heads,
    /// Blocks, after a restart.
    Blocks,
}

impl Place {
    pub(crate) const ALL: [Self; 2] = [Self::Heads, Self::Blocks];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Heads => "heads",
            Self::Blocks => "blocks",
        }
    }
}

/// Names of the questions.
pub(crate) const QUESTIONS: [&str; 3] = ["one_host", "sum_by_service", "values_of_host"];

/// An answer, and the question.
pub(crate) struct QuestionResult {
    pub(crate) place: Place,
    pub(crate) question: &'static str,
    pub(crate) answer: Answer,
}

/// What was measured with one number of series. A figure that was not reached is empty, or not a number.
pub(crate) struct Row {
    pub(crate) wanted: usize,
    /// That the server took.
    pub(crate) series: usize,
    pub(crate) samples: u64,
    /// CPU microseconds, by part of the series.
    pub(crate) new_us: Vec<f64>,
    /// CPU microseconds of a sample of a known series, by round.
    pub(crate) identity_us: Vec<f64>,
    pub(crate) remote_us: Vec<f64>,
    /// Anonymous, of all series.
    pub(crate) memory_bytes: f64,
    pub(crate) memory_peak_bytes: f64,
    pub(crate) disk_bytes: f64,
    /// From the start after a kill until it is ready.
    pub(crate) start_after_kill_s: f64,
    pub(crate) stop_s: f64,
    pub(crate) start_s: f64,
    pub(crate) asked: Vec<QuestionResult>,
    pub(crate) end: Option<End>,
}

impl Row {
    fn new(wanted: usize) -> Self {
        Self {
            wanted,
            series: 0,
            samples: 0,
            new_us: Vec::new(),
            identity_us: Vec::new(),
            remote_us: Vec::new(),
            memory_bytes: f64::NAN,
            memory_peak_bytes: f64::NAN,
            disk_bytes: f64::NAN,
            start_after_kill_s: f64::NAN,
            stop_s: f64::NAN,
            start_s: f64::NAN,
            asked: Vec::new(),
            end: None,
        }
    }
}

/// Measures `count` series, or as many as the server takes.
pub(crate) fn measure(options: &Options, count: usize) -> Row {
    let mut row = Row::new(count);
    if let Err(end) = fill(options, &mut row) {
        row.end = row.end.or(Some(end));
    }
    row
}

fn fill(options: &Options, row: &mut Row) -> Result<(), End> {
    // Three quarters of what the server may have; series take half of them.
    let mib = if row.wanted > USUAL_SERIES_MAX { (options.memory_bytes_max / 4 * 3) >> 20 } else { 0 };
    let ingest_mib = INGEST_MIB.max(mib).to_string();
    let flags = ["--limit-series", LIMIT_SERIES, "--query-series", LIMIT_SERIES, "--ingest-memory-mib", &ingest_mib];
    let guard = options.guard();
    let mut target = Target::start(&options.directory, &flags).map_err(|said| End::no_start(&said))?;
    let at_ms = load(&target, &guard, options.rounds, row)?;
    row.memory_bytes = target.memory_grown();
    row.memory_peak_bytes = (target.server.memory_peak_kib() << 10) as f64;
    // A flush that the load began is not the work of a question.
    target.settle(guard.until);
    question(&target, Place::Heads, at_ms, options.rounds, row);

    target.kill();
    let life = target.start_again(&flags).map_err(|said| End::no_start(&said))?;
    row.start_after_kill_s = life.seconds();
    row.stop_s = target.stop();
    let life = target.start_again(&flags).map_err(|said| End::no_start(&said))?;
    row.start_s = life.seconds();
    target.settle(guard.until);
    question(&target, Place::Blocks, at_ms, options.rounds, row);
    target.stop();
    row.disk_bytes = target.disk_bytes() as f64;
    Ok(())
}

/// Sends everything; the time of the last step, milliseconds. A resource that ends is noted, and the rest measured with
/// what is there.
fn load(target: &Target, guard: &Guard, rounds: usize, row: &mut Row) -> Result<i64, End> {
    let now_ms = now_ms() / STEP_MS * STEP_MS;
    let mut floats = Floats::new(row.wanted, now_ms);
    let steps = floats.round_steps();
    // The first step, and each round by both ways.
    floats.time_ms -= (2 * rounds * steps) as i64 * STEP_MS;
    for part in 0..rounds {
        let meter = target.meter();
        let sent = send(target, guard, Form::Batch, &floats.new_series(part, rounds));
        per_sample(&mut row.new_us, target.used(&meter), &sent);
        floats.declare(&sent.requests);
        note(target, row, sent)?;
        if row.end.is_some() {
            break;
        }
    }
    row.series = floats.series();
    floats.advance(1);
    // After the identities ended, those that were declared get samples all the same.
    for _ in 0..rounds {
        for form in [Form::Batch, Form::RemoteWrite] {
            let meter = target.meter();
            let sent = send(target, guard, form, &floats.known_series(form, steps));
            let figures = if form == Form::Batch { &mut row.identity_us } else { &mut row.remote_us };
            per_sample(figures, target.used(&meter), &sent);
            let is_whole = sent.end.is_none();
            note(target, row, sent)?;
            if !is_whole {
                return Ok(floats.time_ms);
            }
            floats.advance(steps);
        }
    }
    Ok(floats.time_ms - STEP_MS)
}

/// Adds the figure of a round, which may have sent nothing.
fn per_sample(figures: &mut Vec<f64>, cpu_s: f64, sent: &Sent) {
    if sent.samples > 0 {
        figures.push(cpu_s * 1e6 / sent.samples as f64);
    }
}

/// Counts what was sent, and notes the first resource that ended. Without a server nothing can go on.
fn note(target: &Target, row: &mut Row, sent: Sent) -> Result<(), End> {
    row.samples += sent.samples;
    let Some(mut end) = sent.end else { return Ok(()) };
    if end.resource == Resource::Server {
        return Err(end);
    }
    if end.resource == Resource::Identities {
        end.evidence += &format!(
            "; it has {:.0} series in {:.0} MiB, of at most {:.0} MiB, half of --ingest-memory-mib",
            target.figure("series"),
            target.figure("series_bytes") / f64::from(1 << 20),
            target.figure("ingest_memory_bytes_max") / f64::from(1 << 21),
        );
    }
    row.end = row.end.take().or(Some(end));
    Ok(())
}

/// Asks each question about the step at `at_ms`.
fn question(target: &Target, place: Place, at_ms: i64, rounds: usize, row: &mut Row) {
    let instant = |expr: &str| format!("/api/v1/query?query={}&time={}", form(expr), at_ms / 1_000);
    let paths = [
        instant(&format!("{METRIC}{{host=\"{}\"}}", host_name(0))),
        instant(&format!("sum by (service) ({METRIC})")),
        "/api/v1/label/host/values".to_owned(),
    ];
    for (question, path) in QUESTIONS.into_iter().zip(paths) {
        row.asked.push(QuestionResult { place, question, answer: ask(target, &path, rounds) });
    }
}
