//! A question running in the kernel: its programs are loaded and attached, and its counts read.
//!
//! Invariants: every event that matches the filter counts once, under its key or as other; events that could not be
//! read or paired are counted in [`Losses`]. Histograms use the bins of `ogive-hist`.

use libbpf_rs::{MapCore as _, MapFlags, ProgramMut, TracepointCategory, UprobeOpts};
use ogive_hist::{DecimalBin, FLAT_BINS, Histogram};
use ogive_text::near::suggestion;

use super::btf::KernelTypes;
use super::code::KEY_BYTES;
use super::compiler::{Compiled, KeyKind, compile};
use super::mistake::Mistake;
use super::programs::found;
use super::syntax::{Probe, Question, Verb};
use crate::fields::{Bins, Fields, histogram};
use crate::filter::Config;
use crate::machine::Source;
use crate::object::{Loaded, Pace, Plan, failed, value};
use crate::run_time::RunTime;
use crate::syscalls::name_of;
use crate::{Error, Filter, Grouping};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OGIVE_BPF_OBJECTS"), "/ask.bpf.o"));

/// Programs of the object.
const PROGRAMS: [&str; 10] = [
    "on_mark",
    "on_point",
    "on_function",
    "on_function_call",
    "on_function_return",
    "on_call",
    "on_call_return",
    "on_tick",
    "on_interval",
    "on_record",
];

/// How a question is answered.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whose events count.
    pub filter: Filter,
    /// Keys with a place of their own: 16 KiB of the kernel's memory each for a histogram, below 200 bytes else.
    pub groups: u32,
    /// CPUs on which a clock ticks.
    pub cpus: Vec<usize>,
}

/// The value of one key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A number.
    Number(i64),
    /// A text, or the name of a system call.
    Text(String),
}

/// What was counted under one key since the last time.
#[derive(Clone, Debug)]
pub struct Group {
    /// The values of the keys; nothing for what found no place.
    pub key: Option<Vec<Key>>,
    /// Events.
    pub count: u64,
    /// The sum of their values, modulo 2^64; nanoseconds of a duration.
    pub sum: i64,
    /// Their distribution, in seconds for a duration, of a question for a histogram.
    pub values: Option<Histogram>,
}

/// Events that are not counted, since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Memory that the question needs was not there, or it divided by zero.
    pub unreadable: u64,
    /// Calls without their return and returns without their call, as of those that went on when the question began.
    pub unmatched: u64,
    /// Calls that are too many within each other, or of a task without room.
    pub untracked: u64,
    /// Events for which the kernel did not run the program.
    pub missed: u64,
}

/// Answers a question while it lives.
pub struct Observer {
    loaded: Loaded,
    question: Compiled,
    groups: u32,
    before: Vec<Before>,
}

#[derive(Clone, Default)]
struct Before {
    count: u64,
    sum: u64,
    bins: Option<[Bins; 2]>,
}

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observer").field("question", &self.question).finish_non_exhaustive()
    }
}

/// Compiles a question by the types of the running kernel; `files` are those of its tracefs.
///
/// # Errors
/// When the kernel shows no types. The inner one is a mistake in the question.
pub fn compile_here(question: &Question, files: &dyn Source) -> Result<Result<Compiled, Mistake>, Error> {
    Ok(compile(question, &KernelTypes::open(files)?))
}

impl Observer {
    /// Counts from now on.
    ///
    /// # Errors
    /// When the kernel refuses the programs or the probe.
    pub fn start(question: Compiled, options: &Options) -> Result<Self, Error> {
        options.filter.check()?;
        let config =
            Config { filter: &options.filter, grouping: Grouping::Process, herd_min: 0, shard_mask: 0, parts: 0 };
        let constants = question.constants();
        let wanted = programs(&question);
        let without: Vec<&str> = PROGRAMS.into_iter().filter(|name| !wanted.contains(name)).collect();
        let histograms = if question.verb == Verb::Histogram { (options.groups + 1) * 2 } else { 1 };
        let sizes = [
            ("slots", options.groups),
            ("free_slots", options.groups),
            ("totals", options.groups + 1),
            ("histograms", histograms),
        ];
        let plan = Plan { object: OBJECT, config: config.bytes(), without: &without, sizes: &sizes };
        let point = match &question.probe {
            Probe::Point(name) => Some(("on_point", name.as_str())),
            _ => None,
        };
        let places = question.places();
        let loaded = Loaded::load_with(&plan, &[(".question", &constants), (".places", &places)], point)?;
        for slot in 1..=options.groups {
            loaded.offer("free_slots", slot)?;
        }
        attach(&loaded, &question, &wanted, options)?;
        let begun = loaded.map("is_attached").update(&0_u32.to_ne_bytes(), &1_u64.to_ne_bytes(), MapFlags::ANY);
        begun.map_err(failed("the beginning"))?;
        let before = vec![Before::default(); options.groups as usize + 1];
        Ok(Self { loaded, question, groups: options.groups, before })
    }

    /// The question.
    #[must_use]
    pub fn question(&self) -> &Compiled {
        &self.question
    }

    /// Keys that have a place of their own, at most.
    #[must_use]
    pub fn groups_max(&self) -> u32 {
        self.groups
    }

    /// Counts nothing more; what was counted can still be read.
    pub fn stop(&mut self) {
        self.loaded.detach(&PROGRAMS);
    }

    /// What the programs cost, by name.
    #[must_use]
    pub fn run_times(&self) -> Vec<(String, RunTime)> {
        self.loaded.run_times()
    }

    /// What was counted since the last time; most events first, what found no place last.
    ///
    /// # Errors
    /// When the kernel's maps cannot be read.
    pub fn drain(&mut self) -> Result<Vec<Group>, Error> {
        let mut places = vec![(0, None)];
        let map = self.loaded.map("slots");
        for key in map.keys() {
            let slot = map.lookup(&key, MapFlags::ANY).map_err(failed("keys"))?;
            places.extend(slot.map(|slot| (Fields(&slot).u32(), Some(self.key(&key)))));
        }
        drop(map);
        let mut groups = Vec::new();
        for (slot, key) in places {
            groups.extend(self.drain_one(slot, key)?);
        }
        groups.sort_by(|a, b| {
            a.key.is_none().cmp(&b.key.is_none()).then(b.count.cmp(&a.count)).then_with(|| a.key.cmp(&b.key))
        });
        Ok(groups)
    }

    fn drain_one(&mut self, slot: u32, key: Option<Vec<Key>>) -> Result<Option<Group>, Error> {
        let bytes = value(&self.loaded.map("totals"), slot, "counts")?;
        let mut fields = Fields(&bytes);
        let (count, sum) = (fields.u64(), fields.u64());
        let before = &mut self.before[slot as usize];
        if count == before.count {
            return Ok(None);
        }
        let more = sum.wrapping_sub(before.sum).cast_signed();
        let values = if self.question.verb == Verb::Histogram {
            let map = self.loaded.map("histograms");
            let [positive, negative] = before.bins.get_or_insert_with(|| [Bins::new(), Bins::new()]);
            let positive = positive.since_last(&value(&map, slot * 2, "histograms")?);
            let negative = negative.since_last(&value(&map, slot * 2 + 1, "histograms")?);
            Some(distribution(positive, &negative, more, self.question.is_duration))
        } else {
            None
        };
        let group = Group { key, count: count - before.count, sum: more, values };
        (before.count, before.sum) = (count, sum);
        Ok(Some(group))
    }

    fn key(&self, bytes: &[u8]) -> Vec<Key> {
        let parts = self.question.keys.iter().zip(bytes.chunks_exact(KEY_BYTES));
        let part = |((_, kind), bytes): (&(String, KeyKind), &[u8])| {
            let number = Fields(bytes).u64().cast_signed();
            match kind {
                KeyKind::Number | KeyKind::Duration | KeyKind::Address => Key::Number(number),
                KeyKind::Call => Key::Text(u32::try_from(number).map_or_else(|_| number.to_string(), name_of)),
                KeyKind::Text => {
                    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
                    Key::Text(String::from_utf8_lossy(&bytes[..end]).into_owned())
                }
            }
        };
        parts.map(part).collect()
    }

    /// What was lost since the beginning.
    ///
    /// # Errors
    /// When the kernel's maps cannot be read.
    pub fn losses(&self) -> Result<Losses, Error> {
        let map = self.loaded.map("losses");
        let one = |index| Ok::<_, Error>(Fields(&value(&map, index, "losses")?).u64());
        let missed = RunTime::sum(&self.run_times()).missed;
        Ok(Losses { unreadable: one(0)?, unmatched: one(1)?, untracked: one(2)?, missed })
    }
}

/// The programs that a question needs, in the order in which they are attached: a call is noted before its return is
/// seen.
fn programs(question: &Compiled) -> Vec<&'static str> {
    match &question.probe {
        Probe::Point(_) => vec!["on_point"],
        Probe::Function { at_return: false, .. } => vec!["on_function"],
        Probe::Function { .. } if question.needs_call => vec!["on_function_call", "on_function_return"],
        Probe::Function { .. } => vec!["on_function_return"],
        Probe::Usdt { .. } => vec!["on_mark"],
        Probe::Call(_) => vec!["on_call", "on_call_return"],
        Probe::Profile(_) => vec!["on_tick"],
        Probe::Interval(_) => vec!["on_interval"],
        Probe::Record { .. } => vec!["on_record"],
    }
}

fn attach(loaded: &Loaded, question: &Compiled, wanted: &[&str], options: &Options) -> Result<(), Error> {
    match &question.probe {
        Probe::Point(_) | Probe::Call(_) => loaded.attach(&[]),
        Probe::Function { path, symbol, .. } => {
            for name in wanted {
                let uprobe = UprobeOpts {
                    func_name: Some(symbol.clone()),
                    retprobe: *name == "on_function_return",
                    ..UprobeOpts::default()
                };
                let attached = |program: &ProgramMut<'_>| program.attach_uprobe_with_opts(-1, path, 0, uprobe);
                let what = format!("a probe of {symbol} in {path}");
                loaded.attach_by(name, &what, attached).map_err(|error| explained(error, path, symbol))?;
            }
            Ok(())
        }
        Probe::Usdt { path, provider, name } => {
            let what = format!("the probe {provider}:{name} of {path}");
            let file = found(path).ok_or_else(|| Error::Input(format!("{what}: there is no such file")))?;
            for site in &question.usdt.sites {
                let uprobe = UprobeOpts {
                    ref_ctr_offset: site.semaphore as usize,
                    cookie: site.layout as u64,
                    ..UprobeOpts::default()
                };
                let (file, offset) = (&file, site.offset as usize);
                let attached = |program: &ProgramMut<'_>| program.attach_uprobe_with_opts(-1, file, offset, uprobe);
                loaded.attach_by("on_mark", &what, attached)?;
            }
            Ok(())
        }
        Probe::Profile(rate) => {
            let pace = Pace::PerSecond(*rate);
            options.cpus.iter().try_for_each(|cpu| loaded.attach_tick("on_tick", *cpu, pace))
        }
        Probe::Interval(ns) => match options.cpus.first() {
            Some(cpu) => loaded.attach_tick("on_interval", *cpu, Pace::EveryNs(*ns)),
            None => Err(Error::Input("an interval needs a CPU on which it ticks".to_owned())),
        },
        Probe::Record { category, name } => {
            let what = format!("the tracepoint {category}:{name}");
            let category = TracepointCategory::Custom(category.clone());
            loaded.attach_by("on_record", &what, |program| program.attach_tracepoint(category, name))
        }
    }
}

/// With the functions that are there, when this one is not.
fn explained(error: Error, path: &str, symbol: &str) -> Error {
    let Error::Refused { what, errno: Some(2), .. } = &error else { return error };
    let Some(file) = found(path) else {
        return Error::Input(format!("{what}: there is no such file"));
    };
    let names = crate::symbols::functions_of(&file);
    let meant = suggestion(names.iter().map(String::as_str), symbol);
    Error::Input(format!("{what}: {} has no such function among {}{meant}", file.display(), names.len()))
}

/// Counts of flat bins as a histogram: durations in seconds, and anything else in its own unit.
fn distribution(positive: Vec<u64>, negative: &[u64], sum: i64, is_duration: bool) -> Histogram {
    let is_all_positive = negative.iter().all(|count| *count == 0);
    if is_duration && is_all_positive && sum >= 0 {
        return histogram(positive, sum.unsigned_abs());
    }
    let mut histogram = Histogram::log_linear();
    let exponent_min = if is_duration { -9 } else { 0 };
    for (counts, sign) in [(positive.as_slice(), 1), (negative, -1)] {
        for (flat, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            assert!(flat < FLAT_BINS, "the programs mask it");
            histogram.record_bin(bin(flat, sign, exponent_min), *count);
        }
    }
    histogram.sum = Some(if is_duration { sum as f64 / 1e9 } else { sum as f64 });
    histogram
}

/// The decimal bin of a flat one: as `ogive_hist::flat` has it, with numbers in place of nanoseconds.
fn bin(flat: usize, sign: i8, exponent_min: i8) -> DecimalBin {
    if flat == 0 {
        return DecimalBin::ZERO;
    }
    let (decade, digits) = ((flat - 1) / 90, (flat - 1) % 90);
    DecimalBin { val: sign * (digits as i8 + 10), exp: exponent_min + decade as i8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flat_bins_of_plain_numbers_are_those_of_the_histogram() {
        for number in [0_i64, 1, 9, 10, 11, 99, 100, 101, 123_456, 4096, i64::MAX, -1, -10, -4095] {
            let flat = ogive_hist::NanosecondIndex::bin(number.unsigned_abs());
            let sign = if number < 0 { -1 } else { 1 };
            assert_eq!(bin(flat, sign, 0), DecimalBin::from_integer(number, 0), "{number}");
            assert_eq!(bin(flat, sign, -9), DecimalBin::from_integer(number, -9), "{number} ns");
        }
    }
}
