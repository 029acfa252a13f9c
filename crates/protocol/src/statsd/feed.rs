//! Feeds lines to the quantizer.
//!
//! Invariants: each measurement of a message is accepted or counted as a fault: `measurements` + faults = all. A
//! measurement that represents several is also counted in the series [`SAMPLED`] of its metric, so that an estimate can
//! be distinguished from a count.

use std::borrow::Cow;

use ogive_model::{Kind as SeriesKind, SeriesDef, SeriesMeta, Temporality, Value, WallNs};
use ogive_stream::{Cell, Key, Measured, Quantizer, Refused, Shape, cell_end};

use super::{Check, Event, Kind, Line, Metric, Options, Tags, line};
use crate::lines::{Fault, Faults, Names, Pairs, lines, number};

/// Measurements that stand for several, by metric: a delta float.
pub const SAMPLED: &str = "ogive_sampled_measurements";
/// Texts of events.
const EVENT: &str = "dogstatsd_event";
/// States of service checks, and their messages as texts.
const CHECK: &str = "dogstatsd_service_check";
/// Tells the key of a metric's [`SAMPLED`] from those of the kinds.
const SAMPLED_SALT: u64 = 100;
/// The same for checks.
const CHECK_SALT: u64 = 101;

/// What became of messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Measurements, events and checks that were taken.
    pub measurements: u64,
    /// Of those, measurements that stand for several.
    pub sampled: u64,
    /// What was not taken, and why.
    pub faults: Faults,
    /// Texts of events and checks, which do not merge.
    pub texts: Vec<Cell>,
}

/// Takes the lines of `message`, which arrived at `now_ns`.
pub fn feed(message: &[u8], now_ns: i64, options: &Options, quantizer: &mut Quantizer, tally: &mut Tally) {
    quantizer.advance(WallNs(now_ns));
    for bytes in lines(message) {
        let taken = line(bytes).and_then(|line| match line {
            Line::Metric(metric) => measure(&metric, now_ns, options, quantizer, tally),
            Line::Event(event) => happen(&event, now_ns, options, tally),
            Line::Check(check) => look(&check, now_ns, options, quantizer, tally),
        });
        if let Err(fault) = taken {
            tally.faults.count(fault);
        }
    }
}

fn measure(
    metric: &Metric<'_>,
    now_ns: i64,
    options: &Options,
    quantizer: &mut Quantizer,
    tally: &mut Tally,
) -> Result<(), Fault> {
    let (shape, time) = (metric.kind.shape(), WallNs(metric.time_ns.unwrap_or(now_ns)));
    let values = metric.split(options)?;
    let slot = quantizer.slot(metric.key(), shape, || define(metric, options.names))?;
    let mut taken = 0;
    for value in values {
        let put = measured(metric, value, options)
            .and_then(|measured| quantizer.put(slot, time, measured).map_err(|Refused::Cells| Fault::Cells));
        match put {
            Ok(()) => taken += 1,
            Err(fault) => tally.faults.count(fault),
        }
    }
    tally.measurements += taken;
    // A rate says nothing about a state.
    if metric.weight > 1.0 && taken > 0 && !matches!(metric.kind, Kind::Gauge | Kind::Set) {
        tally.sampled += taken;
        let key = Key::new(SAMPLED_SALT, metric.name.as_bytes());
        let slot = quantizer.slot(key, Shape::Count, || sampled_series(metric, options.names))?;
        // Cells are the only thing that can be missing; then the measurements were refused before.
        let _ = quantizer.put(slot, time, Measured::Add(taken as f64));
    }
    Ok(())
}

/// The measurement that `value` is.
fn measured<'a>(metric: &Metric<'_>, value: &'a str, options: &Options) -> Result<Measured<'a>, Fault> {
    Ok(match metric.kind {
        Kind::Set if value.is_empty() => return Err(Fault::Value),
        Kind::Set => Measured::Member(value.as_bytes()),
        Kind::Counter => Measured::Add(number(value, 0)? * metric.weight),
        Kind::Gauge if !options.signed_gauges && value.starts_with(['+', '-']) => Measured::Shift(number(value, 0)?),
        Kind::Gauge => Measured::Set(number(value, 0)?),
        // Milliseconds; the unit of a series is a base unit.
        Kind::Timer => Measured::Observe { value: number(value, -3)?, weight: metric.weight },
        Kind::Distribution => Measured::Observe { value: number(value, 0)?, weight: metric.weight },
    })
}

fn define(metric: &Metric<'_>, names: Names) -> Result<SeriesDef, Fault> {
    let mut pairs = Pairs::named(names.metric(metric.name));
    tags(&mut pairs, metric.tags, names)?;
    pairs.series(metric.kind.shape().meta(metric.kind.unit()))
}

fn sampled_series(metric: &Metric<'_>, names: Names) -> Result<SeriesDef, Fault> {
    let mut pairs = Pairs::named(SAMPLED.into());
    pairs.add("metric".into(), names.metric(metric.name))?;
    pairs.series(Shape::Count.meta(""))
}

fn tags<'a>(pairs: &mut Pairs<'a>, tags: Tags<'a>, names: Names) -> Result<(), Fault> {
    tags.iter().try_for_each(|(name, value)| pairs.add(names.label(name), value.into()))
}

fn happen(event: &Event<'_>, now_ns: i64, options: &Options, tally: &mut Tally) -> Result<(), Fault> {
    let mut pairs = Pairs::named(EVENT.into());
    for (name, value) in event.about.iter().filter(|(_, value)| !value.is_empty()) {
        pairs.add((*name).into(), (*value).into())?;
    }
    tags(&mut pairs, event.tags, options.names)?;
    let (title, text) = (unescaped(event.title), unescaped(event.text));
    let words = if text.is_empty() { title.into_owned() } else { format!("{title}\n{text}") };
    tally.texts.push(text_cell(pairs, WallNs(event.time_ns.unwrap_or(now_ns)), words)?);
    tally.measurements += 1;
    Ok(())
}

fn look(
    check: &Check<'_>,
    now_ns: i64,
    options: &Options,
    quantizer: &mut Quantizer,
    tally: &mut Tally,
) -> Result<(), Fault> {
    let time = WallNs(check.time_ns.unwrap_or(now_ns));
    let pairs = || {
        let mut pairs = Pairs::named(CHECK.into());
        pairs.add("check".into(), check.name.into())?;
        if !check.host.is_empty() {
            pairs.add("host".into(), check.host.into())?;
        }
        tags(&mut pairs, check.tags, options.names).map(|()| pairs)
    };
    let key = Key::new(CHECK_SALT, check.name.as_bytes()).and(check.host.as_bytes());
    let key = check.tags.sections().fold(key, |key, section| key.and(section.as_bytes()));
    let slot = quantizer.slot(key, Shape::Gauge, || pairs()?.series(Shape::Gauge.meta("")))?;
    quantizer.put(slot, time, Measured::Set(f64::from(check.status))).map_err(|Refused::Cells| Fault::Cells)?;
    if !check.message.is_empty() {
        tally.texts.push(text_cell(pairs()?, time, unescaped(check.message).into_owned())?);
    }
    tally.measurements += 1;
    Ok(())
}

/// A text beside the cells: at the end of the cell of its time.
fn text_cell(pairs: Pairs<'_>, time: WallNs, words: String) -> Result<Cell, Fault> {
    let meta = SeriesMeta { kind: SeriesKind::Text, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    Ok(Cell { series: pairs.series(meta)?, time: cell_end(time), value: Value::Text(words) })
}

fn unescaped(text: &str) -> Cow<'_, str> {
    if text.contains("\\n") { Cow::Owned(text.replace("\\n", "\n")) } else { Cow::Borrowed(text) }
}
