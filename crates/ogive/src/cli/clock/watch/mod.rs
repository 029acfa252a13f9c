//! `ogive clock watch`: follows the kernel's clock source and our clock, and shows what a change does to the numbers.
//!
//! *Invariants*: each [`PERIOD`] the kernel is asked and the clocks are compared with the counter, so that a change is
//! reported within a second, a step beside it. One line an event; a line of figures alone only when they left their
//! noise for three seconds. *Limits*: each look takes about 60 us, 0.06 % of a CPU. *Failure*: a reader that closes the
//! pipe ends the command without an error.

mod event;
mod figures;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use ogive_model::WallNs;
use ogive_probe::{Clock, Mode, SystemClock};

use super::kernel::Directory;
use super::point::{Point, Steps};
use super::settled::settled;
use event::Event;
use figures::{Costs, Noise};
use ogive_observe::clock::cost::{Effort, measure, median_of};
use ogive_observe::clock::read::TimeSource;
use ogive_observe::clock::{Figures, Kernel};

/// Ten looks a second: a change is reported within 0.1 s, well inside the promised second.
const PERIOD: Duration = Duration::from_millis(100);
/// The longest watch: a year.
const FOR_SECONDS_MAX: f64 = 31_622_400.0;

const READS: [TimeSource; 2] = [TimeSource::Now, TimeSource::System(SystemClock::Monotonic)];

/// Follows the clock: one line per change of its source or mode, with the effect on the numbers.
#[derive(clap::Args, Debug)]
pub(crate) struct Watch {
    /// Stop after this time, such as 10s, 500ms, 5m or 2h.
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    length: Option<Duration>,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    directory: Directory,
}

fn duration(text: &str) -> Result<Duration, String> {
    let found = ogive_text::duration::parse_decimal(text, FOR_SECONDS_MAX);
    found.ok_or_else(|| "give a time such as 500ms, 10s, 5m, 2h or 1d, a year at most".into())
}

/// Runs the command.
pub(crate) fn run(options: &Watch) -> anyhow::Result<ExitCode> {
    let clock = settled(&options.directory);
    let end = options.length.map(|length| clock.now().saturating_add(length.as_nanos() as u64));
    let mut watcher = Watcher::new(clock, options.directory.ask());
    let mut out = std::io::stdout().lock();
    let mut events = vec![watcher.start()];
    let mut changes = 0_u64;
    loop {
        for event in events.drain(..) {
            changes += u64::from(event.is_change());
            let now = WallNs(clock.wall());
            let line = if options.json { event.json(now) } else { event.text(now) };
            if writeln!(out, "{line}").is_err() {
                return Ok(ExitCode::SUCCESS);
            }
        }
        let left = end.map_or(u64::MAX, |end| end.saturating_sub(clock.now()));
        if left == 0 {
            return Ok(if changes > 0 { ExitCode::from(crate::cli::exit::EXIT_FINDING) } else { ExitCode::SUCCESS });
        }
        std::thread::sleep(PERIOD.min(Duration::from_nanos(left)));
        events = watcher.look(options.directory.ask());
    }
}

/// What was observed at the last look.
struct Watcher {
    clock: Clock,
    seen: ClockObservation,
    point: Option<Point>,
    noise: Noise,
    /// The two points around the last look, for the step of a change that the kernel reports slightly later.
    steps: Option<Steps>,
}

#[derive(Clone, Debug)]
struct ClockObservation {
    kernel: String,
    mode: Mode,
    reason: String,
    epoch: u16,
    fallbacks: u64,
    backsteps: u64,
}

impl ClockObservation {
    fn from_figures(figures: &Figures) -> Self {
        Self {
            kernel: figures.kernel.name().to_owned(),
            mode: figures.mode,
            reason: figures.reason.map_or(String::new(), |reason| reason.words().to_owned()),
            epoch: figures.epoch,
            fallbacks: figures.fallbacks,
            backsteps: figures.backsteps,
        }
    }
}

impl Watcher {
    fn new(clock: Clock, kernel: Kernel) -> Self {
        let figures = Figures::now(clock, kernel);
        let noise = Noise::new(costs(clock, Effort::FULL), &figures);
        Self { clock, seen: ClockObservation::from_figures(&figures), point: Point::now(clock), noise, steps: None }
    }

    fn start(&self) -> Event {
        Event::Start { kernel: self.seen.kernel.clone(), mode: self.seen.mode, figures: self.noise.reported() }
    }

    fn look(&mut self, kernel: Kernel) -> Vec<Event> {
        let figures = Figures::now(self.clock, kernel);
        let point = Point::now(self.clock);
        let steps = self.point.zip(point).map(|(before, after)| after.since(before, self.clock));
        let seen = ClockObservation::from_figures(&figures);
        let before = std::mem::replace(&mut self.seen, seen.clone());
        let mut events = Vec::new();
        if before.kernel != seen.kernel {
            let costs_before = self.noise.usual();
            let costs_after = costs(self.clock, Effort::FULL);
            self.noise = Noise::new(costs_after, &figures);
            let step = sum(self.steps, steps);
            let epochs = (before.epoch, seen.epoch);
            let modes = (before.mode, seen.mode);
            let names = (before.kernel.clone(), seen.kernel.clone());
            events.push(Event::Source { names, modes, epochs, step, costs: (costs_before, costs_after) });
        }
        events.extend(Self::changes(&before, &seen));
        let costs = costs(self.clock, Effort::GLANCE);
        if let Some(reported) = self.noise.look(costs, &figures) {
            events.push(Event::Figures(reported));
        }
        (self.point, self.steps) = (point, steps);
        events
    }

    /// Changes other than the kernel's clock source.
    fn changes(before: &ClockObservation, seen: &ClockObservation) -> Vec<Event> {
        let mut events = Vec::new();
        if before.mode != seen.mode {
            events.push(Event::Mode { modes: (before.mode, seen.mode), reason: seen.reason.clone() });
        }
        if before.epoch != seen.epoch {
            events.push(Event::Epoch { epochs: (before.epoch, seen.epoch) });
        }
        if before.fallbacks < seen.fallbacks {
            events.push(Event::Fallback { total: seen.fallbacks });
        }
        if before.backsteps < seen.backsteps {
            events.push(Event::Backstep { total: seen.backsteps });
        }
        events
    }
}

/// The kernel's file may report a switch slightly after the clocks stepped, so that the step is in the previous look.
fn sum(before: Option<Steps>, now: Option<Steps>) -> Option<Steps> {
    let now = now?;
    let before = before.unwrap_or(Steps { system_ns: 0.0, own_ns: 0.0 });
    Some(Steps { system_ns: before.system_ns + now.system_ns, own_ns: before.own_ns + now.own_ns })
}

fn costs(clock: Clock, effort: Effort) -> Costs {
    let found = measure(clock, &READS, effort);
    let median = |read| median_of(&found, read).unwrap_or(f64::NAN);
    Costs { now_ns: median(READS[0]), system_ns: median(READS[1]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_read_with_its_unit() {
        let check = |text: &str, expected: Option<u64>| {
            let found = duration(text).ok().map(|found| found.as_millis() as u64);
            assert_eq!(found, expected, "{text:?}");
        };
        check("10s", Some(10_000));
        check("500ms", Some(500));
        check("1.5", Some(1_500));
        check("2h", Some(7_200_000));
        check("0s", Some(0));
        for wrong in ["", "s", "-1s", "10x", "1e99s", "nan", "infs"] {
            check(wrong, None);
        }
    }

    #[test]
    fn every_change_is_an_event_of_its_own() {
        let seen = ClockObservation {
            kernel: "tsc".into(),
            mode: Mode::Counter,
            reason: String::new(),
            epoch: 0,
            fallbacks: 0,
            backsteps: 0,
        };
        assert!(Watcher::changes(&seen, &seen).is_empty());
        let after = ClockObservation {
            mode: Mode::Os,
            reason: "it was given up".into(),
            epoch: 1,
            fallbacks: 2,
            backsteps: 3,
            ..seen.clone()
        };
        let events = Watcher::changes(&seen, &after);
        let names: Vec<&str> = events.iter().map(Event::name).collect();
        assert_eq!(names, ["mode", "epoch", "fallback", "backstep"]);
    }

    #[test]
    fn a_switch_is_told_once_with_the_costs_around_it() {
        let kernel = |name: &str| Kernel { current: Some(name.into()), ..Kernel::default() };
        let mut watcher = Watcher::new(Clock::global(), kernel("tsc"));
        let reported =
            |events: Vec<Event>| events.into_iter().filter(|event| matches!(event, Event::Source { .. })).count();
        assert_eq!(reported(watcher.look(kernel("tsc"))), 0);
        let events = watcher.look(kernel("hpet"));
        let Some(Event::Source { names, costs, .. }) = events.into_iter().next() else { panic!("it was not reported") };
        assert_eq!(names, ("tsc".to_owned(), "hpet".to_owned()));
        assert!(costs.0.now_ns > 0.0 && costs.1.system_ns > 0.0, "{costs:?}");
        assert_eq!(reported(watcher.look(kernel("hpet"))), 0);
    }
}
