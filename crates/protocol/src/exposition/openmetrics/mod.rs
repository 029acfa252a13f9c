//! OpenMetrics, as strict as its specification: an exposition that breaks a rule is refused as a whole.
//!
//! Invariants: the body ends with `# EOF`; the lines of a metric are contiguous, and so are those of one label set
//! within it; times of one label set ascend; each type has its own suffixes and values.
//! From the draft of 2.0: counters without `_total`, `st@` start times, several exemplars, and histograms and summaries
//! as one value. These are accepted under version 1 too where they are unambiguous.

mod group;

use std::borrow::Cow;
use std::collections::HashSet;

use ogive_model::{METRIC_NAME, MetricKind, Temporality};
use twox_hash::{XxHash3_64, XxHash3_128};

use super::line::{Cursor, LineResult, unescape};
use super::number::{milliseconds, number};
use super::point::{Exemplar, Exposition, Family, Meter, Point, Value, temporality};
use super::series::{Labels, Series};
use super::value::Composite;
use crate::Error;
use group::{Group, Part};

/// 128 characters of an exemplar's labels, by the specification.
const EXEMPLAR_CHARACTERS_MAX: usize = 128;

/// Names of one series among which a repeated one is looked for: a label set has at most as many.
const NAMES_MAX: usize = ogive_model::Labels::COUNT_MAX;

pub(super) fn decode(body: &str, version: u8) -> Result<Exposition<'_>, Error> {
    let mut reader = Reader { version, ..Reader::default() };
    let mut meter = Meter::new(body);
    let mut lines = body.split_inclusive('\n').enumerate();
    for (at, line) in lines.by_ref() {
        let error = |what| Error::Line { line: at + 1, what };
        if matches!(line, "# EOF" | "# EOF\n") {
            reader.close().map_err(error)?;
            return match lines.next() {
                None => Ok(reader.out),
                Some(_) => Err(Error::Line { line: at + 2, what: "something stands behind # EOF" }),
            };
        }
        let ended = line.strip_suffix('\n').ok_or("a line has no end: the answer is cut off");
        ended.and_then(|line| reader.line(line)).map_err(error)?;
        meter.pay(&reader.out)?;
    }
    Err(Error::Malformed { what: "there is no # EOF at the end: the answer is cut off" })
}

#[derive(Default)]
struct Reader<'a> {
    version: u8,
    out: Exposition<'a>,
    /// Names of the families so far.
    seen: HashSet<Cow<'a, str>>,
    open: Option<Open<'a>>,
}

/// The family whose lines are being read.
#[derive(Default)]
struct Open<'a> {
    name: Cow<'a, str>,
    kind: Option<MetricKind>,
    help: Option<Cow<'a, str>>,
    unit: Option<&'a str>,
    /// Label sets so far, the one being read among them.
    groups: HashSet<u128>,
    group: Option<Group>,
}

/// Name and labels of a line, as far as the rules ask for them.
#[derive(Default)]
struct Head<'a> {
    raw: &'a str,
    name: Cow<'a, str>,
    le: Option<Cow<'a, str>>,
    quantile: Option<Cow<'a, str>>,
    names: Vec<Cow<'a, str>>,
    /// Sum of the hashes of all labels, whatever their order; the second without `le` and `quantile`.
    all: u128,
    base: u128,
}

impl<'a> Reader<'a> {
    fn line(&mut self, line: &'a str) -> LineResult<()> {
        if line.is_empty() {
            return Err("a line is empty");
        }
        match line.strip_prefix("# ") {
            Some(descriptor) => self.descriptor(descriptor),
            None if line.starts_with('#') => Err("a comment is neither TYPE, HELP, UNIT nor EOF"),
            None => self.sample(line),
        }
    }

    fn descriptor(&mut self, line: &'a str) -> LineResult<()> {
        let (word, rest) = line.split_once(' ').ok_or("a comment is neither TYPE, HELP, UNIT nor EOF")?;
        let mut cursor = Cursor::strict(rest);
        if !matches!(word, "TYPE" | "HELP" | "UNIT") {
            return Err("a comment is neither TYPE, HELP, UNIT nor EOF");
        }
        let name = cursor.described()?;
        if !cursor.take(" ") {
            return Err("a metric's name is followed by something else than a space");
        }
        let text = cursor.rest;
        if self.open.as_ref().is_none_or(|open| open.name != name) {
            self.begin(name)?;
        }
        let open = self.open.as_mut().expect("it was begun");
        if !open.groups.is_empty() {
            return Err("a metric is described behind its samples");
        }
        let is_repeated = match word {
            "TYPE" => {
                let kind = MetricKind::parse(text)
                    .filter(|kind| kind.as_str() == text)
                    .ok_or("the type of a metric is not known")?;
                open.kind.replace(kind).is_some()
            }
            "UNIT" => open.unit.replace(text).is_some(),
            _ => open.help.replace(unescape(text, true)).is_some(),
        };
        if is_repeated { Err("a metric is described twice") } else { Ok(()) }
    }

    /// Begins the family `name`, and ends the one before.
    fn begin(&mut self, name: Cow<'a, str>) -> LineResult<()> {
        self.close()?;
        if !self.seen.insert(name.clone()) {
            return Err("a metric comes again behind others; its lines stand together");
        }
        self.open = Some(Open { name, ..Open::default() });
        Ok(())
    }

    /// Ends the family that is being read.
    fn close(&mut self) -> LineResult<()> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        if let Some(group) = open.group.take() {
            group.end(&mut self.out.points)?;
        }
        let (kind, unit) = (open.kind.unwrap_or(MetricKind::Unknown), open.unit.unwrap_or(""));
        if !unit.is_empty() {
            if !open.name.strip_suffix(unit).is_some_and(|name| name.ends_with('_')) {
                return Err("a metric's name does not end in its unit");
            }
            if matches!(kind, MetricKind::Info | MetricKind::StateSet) {
                return Err("a metric of this type has no unit");
            }
        }
        let help = open.help.unwrap_or_default();
        self.out.families.push(Family { name: open.name, kind, help, unit: unit.into() });
        Ok(())
    }

    fn sample(&mut self, line: &'a str) -> LineResult<()> {
        let mut cursor = Cursor::strict(line);
        let head = Head::read(&mut cursor)?;
        if !cursor.take(" ") {
            return Err("a series has no value, or no space before it");
        }
        let suffix = match self.suffix(&head.name) {
            Some(suffix) => suffix,
            None => {
                self.begin(head.name.clone())?;
                ""
            }
        };
        let open = self.open.as_ref().expect("a family was found or begun");
        let kind = open.kind.unwrap_or(MetricKind::Unknown);
        if kind == MetricKind::StateSet && !head.names.contains(&open.name) {
            return Err("a state set has no label of its own name");
        }
        let composite = match cursor.take("{") {
            false => None,
            true => {
                let (fields, rest) = cursor.rest.split_once('}').ok_or("a value in braces is not closed")?;
                cursor.rest = rest;
                Some(Composite::read(fields)?)
            }
        };
        let number_of = |cursor: &mut Cursor<'a>| number(cursor.word()).ok_or("a value is not a number");
        let value = if composite.is_some() { 0.0 } else { number_of(&mut cursor)? };
        let tail = Tail::read(&mut cursor)?;
        let part = Part::from_suffix(kind, suffix, composite.is_some())?;
        part.check(value, head.le.as_deref(), head.quantile.as_deref(), tail.exemplars.len(), self.version)?;
        let base = match kind {
            MetricKind::Histogram | MetricKind::GaugeHistogram | MetricKind::Summary => head.base,
            MetricKind::StateSet => head.all.wrapping_sub(head.hash_of(&open.name)),
            _ => head.all,
        };
        let group = self.group(base)?;
        group.add(part, head.all, head.le.as_deref(), value, tail.time)?;
        if part == Part::Created {
            return group.created(value);
        }
        self.points(&head, kind, value, composite, tail)
    }

    /// What stands behind the name of the open family in `name`, when it belongs to it.
    fn suffix(&self, name: &str) -> Option<&'static str> {
        let open = self.open.as_ref()?;
        let rest = name.strip_prefix(&*open.name)?;
        let suffixes: &[&'static str] = match open.kind.unwrap_or(MetricKind::Unknown) {
            MetricKind::Counter if self.version == 1 => &["_total", "_created"],
            MetricKind::Counter => &["_total", "_created", ""],
            MetricKind::Histogram => &["_bucket", "_count", "_sum", "_created", ""],
            MetricKind::GaugeHistogram => &["_bucket", "_gcount", "_gsum", ""],
            MetricKind::Summary => &["", "_count", "_sum", "_created"],
            MetricKind::Info => &["_info"],
            MetricKind::Gauge | MetricKind::StateSet | MetricKind::Unknown => &[""],
        };
        suffixes.iter().find(|suffix| **suffix == rest).copied()
    }

    /// The label set `base` of the open family; one that ended does not come again.
    fn group(&mut self, base: u128) -> LineResult<&mut Group> {
        let open = self.open.as_mut().expect("a sample has a family");
        if open.group.as_ref().is_none_or(|group| group.base() != base) {
            if let Some(group) = open.group.take() {
                group.end(&mut self.out.points)?;
            }
            if !open.groups.insert(base) {
                return Err("a label set comes again behind others of its metric; its lines stand together");
            }
            open.group = Some(Group::new(base, open.kind.unwrap_or(MetricKind::Unknown), self.out.points.len()));
        }
        Ok(open.group.as_mut().expect("it was begun"))
    }

    fn points(
        &mut self,
        head: &Head<'a>,
        kind: MetricKind,
        value: f64,
        composite: Option<Composite>,
        tail: Tail<'a>,
    ) -> LineResult<()> {
        let bound = match kind {
            MetricKind::Histogram | MetricKind::GaugeHistogram => Some("le"),
            MetricKind::Summary => Some("quantile"),
            _ => None,
        };
        let series = Series::from_text(head.raw, bound);
        let Tail { time, start, exemplars } = tail;
        let ms = |seconds: Option<f64>| match seconds {
            Some(seconds) => milliseconds(seconds).map(Some).ok_or("a time is beyond what can be stored"),
            None => Ok(None),
        };
        let (time_ms, start_ms) = (ms(time)?, ms(start)?);
        let point = |series, temporality, value, exemplars, has_native| Point {
            series,
            temporality,
            time_ms,
            start_ms,
            value,
            exemplars,
            has_native,
        };
        let Some(mut composite) = composite else {
            let temporality = temporality(kind, &head.name);
            self.out.points.push(point(series, temporality, Value::Float(value), exemplars, false));
            return Ok(());
        };
        let is_gauge = kind == MetricKind::GaugeHistogram;
        let grows = if is_gauge { Temporality::Gauge } else { Temporality::Cumulative };
        let native = composite.native(is_gauge);
        let has_native = native.is_some();
        let out = &mut self.out.points;
        let mut events = Some(exemplars);
        if let Some(native) = native {
            out.push(point(series.clone(), grows, Value::Histogram(native), events.take().unwrap_or_default(), false));
        }
        if let Some(buckets) = &composite.buckets {
            for (bound, count) in buckets {
                let series = series.part("_bucket", Some(("le", *bound)));
                out.push(point(series, grows, Value::Float(*count), events.take().unwrap_or_default(), has_native));
            }
        }
        for (quantile, value) in composite.quantiles.iter().flatten() {
            let series = series.part("", Some(("quantile", *quantile)));
            out.push(point(series, Temporality::Gauge, Value::Float(*value), Vec::new(), false));
        }
        if composite.buckets.is_some() || !has_native {
            let names = if is_gauge { ["_gsum", "_gcount"] } else { ["_sum", "_count"] };
            for (suffix, value) in names.into_iter().zip([composite.sum, composite.count]) {
                out.push(point(series.part(suffix, None), grows, Value::Float(value), Vec::new(), has_native));
            }
        }
        Ok(())
    }
}

impl<'a> Head<'a> {
    fn read(cursor: &mut Cursor<'a>) -> LineResult<Self> {
        let mut out = Self::default();
        out.raw = cursor.series(|name, value| {
            if name == METRIC_NAME {
                if !out.name.is_empty() {
                    return Err("a label is named __name__");
                }
                out.name = value.text();
                return Ok(());
            }
            let value = value.text();
            let hash = label_hash(&name, &value);
            out.all = out.all.wrapping_add(hash);
            match &*name {
                "le" => out.le = Some(value),
                "quantile" => out.quantile = Some(value),
                _ => out.base = out.base.wrapping_add(hash),
            }
            if out.names.contains(&name) {
                return Err("a label is given twice");
            }
            if out.names.len() < NAMES_MAX {
                out.names.push(name);
            }
            Ok(())
        })?;
        Ok(out)
    }

    /// The hash of the label `name`.
    fn hash_of(&self, name: &str) -> u128 {
        let mut found = 0;
        let read = Cursor::strict(self.raw).series(|label, value| {
            if label == name && label != METRIC_NAME {
                found = label_hash(&label, &value.text());
            }
            Ok(())
        });
        read.expect("it was read before");
        found
    }
}

fn label_hash(name: &str, value: &str) -> u128 {
    XxHash3_128::oneshot_with_seed(XxHash3_64::oneshot(name.as_bytes()), value.as_bytes())
}

/// What stands behind a value.
struct Tail<'a> {
    time: Option<f64>,
    start: Option<f64>,
    exemplars: Vec<Exemplar<'a>>,
}

impl<'a> Tail<'a> {
    fn read(cursor: &mut Cursor<'a>) -> LineResult<Self> {
        let (mut time, mut start, mut exemplars) = (None, None, Vec::new());
        while !cursor.rest.is_empty() {
            if cursor.take(" # ") {
                exemplars.push(exemplar(cursor)?);
            } else if !exemplars.is_empty() || !cursor.take(" ") {
                return Err("something stands behind a sample");
            } else if cursor.take("st@") {
                let is_second = start.replace(seconds(cursor)?).is_some();
                if is_second {
                    return Err("a sample has two start times");
                }
            } else if time.is_none() && start.is_none() {
                time = Some(seconds(cursor)?);
            } else {
                return Err("something stands behind the time of a sample");
            }
        }
        Ok(Self { time, start, exemplars })
    }
}

fn seconds(cursor: &mut Cursor<'_>) -> LineResult<f64> {
    number(cursor.word()).filter(|seconds| seconds.is_finite()).ok_or("a time is not a number of seconds")
}

fn exemplar<'a>(cursor: &mut Cursor<'a>) -> LineResult<Exemplar<'a>> {
    let mut labels = Labels::new();
    cursor.event(|name, value| {
        labels.push((name, value.text()));
        Ok(())
    })?;
    let characters: usize = labels.iter().map(|(name, value)| name.chars().count() + value.chars().count()).sum();
    if characters > EXEMPLAR_CHARACTERS_MAX {
        return Err("the labels of an exemplar have more than 128 characters");
    }
    if !cursor.take(" ") {
        return Err("an exemplar has no value");
    }
    let value = number(cursor.word()).ok_or("the value of an exemplar is not a number")?;
    let is_timed = cursor.rest.starts_with(' ') && !cursor.rest.starts_with(" #");
    if !is_timed {
        return Ok(Exemplar { labels, value, time_ms: None });
    }
    cursor.take(" ");
    let time_ms = milliseconds(seconds(cursor)?).ok_or("the time of an exemplar is beyond what can be stored")?;
    Ok(Exemplar { labels, value, time_ms: Some(time_ms) })
}
