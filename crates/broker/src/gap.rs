//! A gap: the record that a destination gets in place of dropped data.
//!
//! Format: docs/formats/gap.md. A gap is a text sample of [`GAP_METRIC`] and a delta of [`GAP_SAMPLES_METRIC`], in the
//! tenant of the missing samples, at the time of the newest of them.
//! Invariants: every sample that a destination does not get is in exactly one of its gaps; samples that may have
//! arrived are included and also counted separately.
//! Limits: the [`GAP_SERIES_MAX`] series with the most samples are listed; [`BUILDER_SERIES_MAX`] are examined.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ogive_model::{
    Batch, Kind, Ms, Sample, SeriesDef, SeriesId, SeriesMeta, SourceId, Temporality, Tenant, Value, WallMs,
};

use crate::bytes::{Fields, put_i64, put_text, put_u32, put_u64};

/// The metric of the texts.
pub const GAP_METRIC: &str = "ogive_gap";
/// The metric of the counts.
pub const GAP_SAMPLES_METRIC: &str = "ogive_gap_samples";
/// 500 series of some 200 bytes: a text of 100 KiB, a tenth of the limit for a text.
pub const GAP_SERIES_MAX: usize = 500;
/// 50,000 series are distinguished while a segment is counted: 20 MB. Samples of further ones are counted under other
/// series.
const BUILDER_SERIES_MAX: usize = 50_000;
/// 1 KiB of a series' labels: longer ones are truncated.
const LABELS_BYTES_MAX: usize = 1 << 10;

/// Why samples were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum GapReason {
    /// The spool may not be larger.
    SpoolBytes = 0,
    /// They exceed the maximum age of the spool.
    SpoolAge = 1,
    /// Their bytes in the spool are bad.
    Corrupt = 2,
    /// The spool no longer has them: something else removed its files, or the destination was not configured at the
    /// time.
    Missing = 3,
    /// The destination refused the batch for good.
    Refused = 4,
}

impl GapReason {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::SpoolBytes, Self::SpoolAge, Self::Corrupt, Self::Missing, Self::Refused];

    /// The value of the label `reason`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SpoolBytes => "spool_bytes",
            Self::SpoolAge => "spool_age",
            Self::Corrupt => "corrupt",
            Self::Missing => "missing",
            Self::Refused => "refused",
        }
    }
}

/// The missing samples of one series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesGap {
    /// Its labels, as a query writes them.
    pub series: String,
    /// How many samples.
    pub samples: u64,
    /// The oldest of them.
    pub from: WallMs,
    /// The newest.
    pub to: WallMs,
}

/// The labels that identify who lost something, for the report of a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// Of the broker.
    pub broker: String,
    /// Of its destination.
    pub destination: String,
}

impl Names {
    /// A broker and one of its destinations.
    #[must_use]
    pub fn new(broker: &str, destination: &str) -> Self {
        Self { broker: broker.to_owned(), destination: destination.to_owned() }
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Whose samples.
    pub tenant: Tenant,
    /// Why.
    pub why: GapReason,
    /// When they were dropped.
    pub made: WallMs,
    /// Records of the spool. Unreadable ones count only here.
    pub records: u64,
    /// Samples that are missing.
    pub samples: u64,
    /// How many of those were in flight and may have arrived.
    pub in_doubt: u64,
    /// The oldest sample; after `to` when there is none.
    pub from: WallMs,
    /// The newest.
    pub to: WallMs,
    /// The series with the most samples.
    pub series: Vec<SeriesGap>,
    /// How many series are not listed one by one.
    pub others: u64,
}

impl Gap {
    /// A gap of records whose contents are unknown.
    #[must_use]
    pub fn unread(why: GapReason, made: WallMs, records: u64) -> Self {
        Self {
            tenant: Tenant::default(),
            why,
            made,
            records,
            samples: 0,
            in_doubt: 0,
            from: WallMs::MAX,
            to: WallMs::MIN,
            series: Vec::new(),
            others: 0,
        }
    }

    /// Merges `other`, if it is of the same tenant and reason.
    pub(crate) fn merge(&mut self, other: Self) -> Result<(), Self> {
        if (&self.tenant, self.why) != (&other.tenant, other.why) {
            return Err(other);
        }
        self.made = self.made.max(other.made);
        self.records += other.records;
        self.samples += other.samples;
        self.in_doubt += other.in_doubt;
        (self.from, self.to) = (self.from.min(other.from), self.to.max(other.to));
        self.others += other.others;
        let mut all: BTreeMap<String, SeriesGap> =
            std::mem::take(&mut self.series).into_iter().map(|gap| (gap.series.clone(), gap)).collect();
        for gap in other.series {
            match all.get_mut(&gap.series) {
                Some(have) => {
                    have.samples += gap.samples;
                    (have.from, have.to) = (have.from.min(gap.from), have.to.max(gap.to));
                }
                None => drop(all.insert(gap.series.clone(), gap)),
            }
        }
        self.keep_largest(all.into_values().collect());
        Ok(())
    }

    /// Lists the series no longer one by one; gives the bytes that this saves where it is stored.
    pub(crate) fn forget_series(&mut self) -> usize {
        let series = std::mem::take(&mut self.series);
        self.others += series.len() as u64;
        // A length and three numbers for each text.
        series.iter().map(|gap| 4 + gap.series.len() + 3 * 8).sum()
    }

    fn keep_largest(&mut self, mut all: Vec<SeriesGap>) {
        all.sort_by(|one, other| other.samples.cmp(&one.samples).then_with(|| one.series.cmp(&other.series)));
        self.others += all.len().saturating_sub(GAP_SERIES_MAX) as u64;
        all.truncate(GAP_SERIES_MAX);
        self.series = all;
    }

    /// The time of its samples: that of the newest missing sample, but not after the drop itself.
    #[must_use]
    pub fn time(&self) -> WallMs {
        let time = if self.from <= self.to { self.to.min(self.made) } else { self.made };
        time.max(WallMs(1))
    }

    /// The text, as docs/formats/gap.md has it.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { why, made, records, samples, in_doubt, others, series, .. } = self;
        let mut out = format!(
            "why={} records={records} samples={samples} in_doubt={in_doubt} given_up_ms={}",
            why.as_str(),
            made.0
        );
        if self.from <= self.to {
            write!(out, " from_ms={} to_ms={}", self.from.0, self.to.0).expect("writes to memory");
        }
        write!(out, " series={} other_series={others}", series.len()).expect("writes to memory");
        for SeriesGap { series, samples, from: WallMs(from_ms), to: WallMs(to_ms) } in series {
            write!(out, "\n{samples} {from_ms} {to_ms} {series}").expect("writes to memory");
        }
        out
    }

    /// The batch that reports it to `destination`, under this number, its samples at `time`.
    #[must_use]
    pub fn batch(&self, source: SourceId, sequence: u64, time: WallMs, names: &Names) -> Batch {
        let Names { broker, destination } = names;
        let labels = |metric| {
            [
                ("__name__", metric),
                ("broker", &**broker),
                ("destination", &**destination),
                ("reason", self.why.as_str()),
            ]
        };
        let def = |metric, kind, temporality| {
            let meta = SeriesMeta { kind, temporality, unit: String::new(), width_ms: 0 };
            SeriesDef::new(labels(metric), meta)
        };
        let time_ns = time.to_ns().0;
        // A point with a start counts once, whatever else is at its time.
        let start = self.from.min(time - Ms(1)).max(WallMs(0));
        let start_ns = Some(start.to_ns().0).filter(|start_ns| *start_ns < time_ns);
        Batch {
            source,
            sequence,
            tenant: self.tenant.clone(),
            series: vec![
                def(GAP_SAMPLES_METRIC, Kind::Float, Temporality::Delta),
                def(GAP_METRIC, Kind::Text, Temporality::Gauge),
            ],
            known: Vec::new(),
            samples: vec![
                Ok(Sample { series: 0, time_ns, start_ns, value: Value::Float(self.samples as f64) }),
                Ok(Sample { series: 1, time_ns, start_ns: None, value: Value::Text(self.text()) }),
            ],
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        assert!(self.series.len() <= GAP_SERIES_MAX, "the reader refuses {} series", self.series.len());
        put_text(out, if self.tenant.is_default() { "" } else { self.tenant.as_str() });
        out.push(self.why as u8);
        put_i64(out, self.made.0);
        [self.records, self.samples, self.in_doubt, self.others].into_iter().for_each(|count| put_u64(out, count));
        put_i64(out, self.from.0);
        put_i64(out, self.to.0);
        put_u32(out, self.series.len());
        for SeriesGap { series, samples, from, to } in &self.series {
            put_text(out, series);
            put_u64(out, *samples);
            put_i64(out, from.0);
            put_i64(out, to.0);
        }
    }

    pub(crate) fn take(fields: &mut Fields<'_>) -> Option<Self> {
        let name = fields.text()?;
        let tenant = if name.is_empty() { Tenant::default() } else { Tenant::new(name).ok()? };
        let why = fields.u8()?;
        let why = GapReason::ALL.into_iter().find(|known| *known as u8 == why)?;
        let made = WallMs(fields.i64()?);
        let (records, samples, in_doubt, others) = (fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?);
        let (from, to) = (WallMs(fields.i64()?), WallMs(fields.i64()?));
        let count = fields.u32()?;
        if count > GAP_SERIES_MAX {
            return None;
        }
        let mut series = Vec::new();
        for _ in 0..count {
            let name = fields.text()?.to_owned();
            series.push(SeriesGap {
                series: name,
                samples: fields.u64()?,
                from: WallMs(fields.i64()?),
                to: WallMs(fields.i64()?),
            });
        }
        Some(Self { tenant, why, made, records, samples, in_doubt, from, to, series, others })
    }
}

/// Counts what is dropped.
#[derive(Debug)]
pub struct GapBuilder {
    why: GapReason,
    made: WallMs,
    tenants: BTreeMap<Tenant, (Gap, BTreeMap<SeriesId, SeriesGap>)>,
    unread: u64,
    series: usize,
}

impl GapBuilder {
    /// Counts nothing yet.
    #[must_use]
    pub fn new(why: GapReason, made: WallMs) -> Self {
        Self { why, made, tenants: BTreeMap::new(), unread: 0, series: 0 }
    }

    /// Records that could not be read.
    pub fn unread(&mut self, records: u64) {
        self.unread += records;
    }

    /// A batch. `in_doubt`: it may have arrived.
    pub fn batch(&mut self, frame: &[u8], in_doubt: bool) {
        let Ok(batch) = Batch::decode(frame) else { return self.unread(1) };
        let Batch { tenant, series, samples, .. } = batch;
        let (why, made) = (self.why, self.made);
        let place = self.tenants.entry(tenant.clone());
        let (gap, counts) =
            place.or_insert_with(|| (Gap { tenant: tenant.clone(), ..Gap::unread(why, made, 0) }, BTreeMap::new()));
        gap.records += 1;
        for sample in samples.into_iter().flatten() {
            let time = WallMs(sample.time_ms());
            gap.samples += 1;
            gap.in_doubt += u64::from(in_doubt);
            (gap.from, gap.to) = (gap.from.min(time), gap.to.max(time));
            let Some(Ok(def)) = series.get(sample.series as usize) else { continue };
            let id = def.id(&tenant);
            if let Some(count) = counts.get_mut(&id) {
                count.samples += 1;
                (count.from, count.to) = (count.from.min(time), count.to.max(time));
            } else if self.series < BUILDER_SERIES_MAX {
                self.series += 1;
                let name = cut(def.labels.to_string());
                counts.insert(id, SeriesGap { series: name, samples: 1, from: time, to: time });
            }
        }
        assert!(gap.in_doubt <= gap.samples, "what may have arrived is among what is missing");
        assert!(counts.len() <= self.series && self.series <= BUILDER_SERIES_MAX, "series are counted once");
    }

    /// The gaps, one for each tenant.
    #[must_use]
    pub fn build(self) -> Vec<Gap> {
        let mut out: Vec<Gap> = Vec::new();
        for (mut gap, counts) in self.tenants.into_values() {
            let listed: u64 = counts.values().map(|series| series.samples).sum();
            assert!(listed <= gap.samples, "{listed} samples of series among {} in all", gap.samples);
            gap.keep_largest(counts.into_values().collect());
            out.push(gap);
        }
        if self.unread > 0 {
            let unread = Gap::unread(self.why, self.made, self.unread);
            match out.iter_mut().find(|gap| gap.tenant == unread.tenant) {
                Some(gap) => gap.records += self.unread,
                None => out.push(unread),
            }
        }
        out
    }
}

fn cut(mut text: String) -> String {
    if text.len() > LABELS_BYTES_MAX {
        text.truncate(text.floor_char_boundary(LABELS_BYTES_MAX));
        text.push('…');
    }
    assert!(text.len() <= LABELS_BYTES_MAX + '…'.len_utf8(), "labels of {} bytes", text.len());
    text.replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn def(name: &str) -> SeriesDef {
        let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
        SeriesDef::new([("__name__", name)], meta).unwrap()
    }

    fn frame(tenant: &str, name: &str, times_ms: &[i64]) -> Vec<u8> {
        let sample =
            |ms: &i64| Ok(Sample { series: 0, time_ns: ms * 1_000_000, start_ns: None, value: Value::Float(1.0) });
        let samples = times_ms.iter().map(sample).collect();
        let tenant = Tenant::new(tenant).unwrap();
        Batch { tenant, series: vec![Ok(def(name))], samples, ..Batch::default() }.encode().unwrap()
    }

    #[test]
    fn a_gap_counts_by_tenant_and_series_and_comes_back() {
        let mut builder = GapBuilder::new(GapReason::SpoolBytes, WallMs(9_000));
        builder.batch(&frame("default", "a", &[5, 3]), false);
        builder.batch(&frame("default", "b", &[4]), true);
        builder.batch(&frame("default", "a", &[8]), false);
        builder.batch(&frame("team", "a", &[1]), false);
        builder.batch(b"no batch", false);
        let gaps = builder.build();
        assert_eq!(gaps.len(), 2);
        let gap = &gaps[0];
        assert_eq!((gap.records, gap.samples, gap.in_doubt, gap.from, gap.to), (4, 4, 1, WallMs(3), WallMs(8)));
        assert_eq!(
            gap.text(),
            "why=spool_bytes records=4 samples=4 in_doubt=1 given_up_ms=9000 from_ms=3 to_ms=8 series=2 other_series=0\n\
             3 3 8 a\n1 4 4 b"
        );
        for gap in &gaps {
            let mut bytes = Vec::new();
            gap.put(&mut bytes);
            assert_eq!(Gap::take(&mut Fields(&bytes)).as_ref(), Some(gap));
            (0..bytes.len()).for_each(|cut| assert_eq!(Gap::take(&mut Fields(&bytes[..cut])), None));
        }
        let batch = gaps[1].batch(SourceId(1), 2, gaps[1].time(), &Names::new("edge", "dc1"));
        let read = Batch::decode(&batch.encode().unwrap()).unwrap();
        assert_eq!((read.tenant.as_str(), read.samples.len()), ("team", 2));
        assert!(read.samples.iter().all(Result::is_ok) && read.series.iter().all(Result::is_ok));
    }

    #[test]
    fn gaps_of_one_reason_become_one_and_the_largest_series_stay() {
        let mut builder = GapBuilder::new(GapReason::SpoolAge, WallMs(1));
        for at in 0..GAP_SERIES_MAX + 3 {
            builder.batch(&frame("default", &format!("m{at}"), &[1]), false);
        }
        builder.batch(&frame("default", "m1", &[7]), false);
        let mut one = builder.build().remove(0);
        assert_eq!((one.series.len(), one.others, one.series[0].samples), (GAP_SERIES_MAX, 3, 2));
        let mut other = GapBuilder::new(GapReason::SpoolAge, WallMs(2));
        other.batch(&frame("default", "m1", &[9]), false);
        one.merge(other.build().remove(0)).unwrap();
        assert_eq!((one.series[0].samples, one.series[0].to, one.samples), (3, WallMs(9), GAP_SERIES_MAX as u64 + 5));
        let kept = one.clone();
        assert!(one.merge(Gap::unread(GapReason::Corrupt, WallMs(3), 1)).is_err());
        assert_eq!(one, kept);
    }

    #[test]
    fn a_gap_of_what_nobody_could_read_has_the_time_of_its_making() {
        let gap = Gap::unread(GapReason::Missing, WallMs(5_000), 3);
        assert_eq!(gap.time(), WallMs(5_000));
        assert!(!gap.text().contains("from_ms"), "{}", gap.text());
        let batch = gap.batch(SourceId(1), 1, WallMs(5_000), &Names::new("edge", "dc1"));
        assert!(Batch::decode(&batch.encode().unwrap()).unwrap().samples.iter().all(Result::is_ok));
    }
}
