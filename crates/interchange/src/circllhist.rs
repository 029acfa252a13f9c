//! Histograms of OpenHistogram (libcircllhist) in JSON, a document a line.
//!
//! Format: what IRONdb's `/histogram/START/END/PERIOD/UUID/METRIC` answers, `[[seconds, period, {"+23e-004": 2}], ..]`;
//! one such entry; or an object with `time`, `period`, `histogram` and, when the options do not name them, `name` and
//! `labels`. A histogram is an object of bins, a text in base64, or a list of `H[1.2]=3`. A time is that of the
//! beginning.

use std::collections::BTreeMap;
use std::fmt;
use std::io::BufRead;

use ogive_hist::openhistogram::{bin_of_label, decode_base64};
use ogive_hist::{DecimalBin, Histogram};
use ogive_model::{Kind, METRIC_NAME, SeriesDef, SeriesMeta, Temporality, Value};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use twox_hash::XxHash3_128;

use crate::hdr_log::LogSettings;
use crate::{Batches, Error, lines};

/// 16 MiB for a line: an IRONdb response with a day of minutes and 200 bins each is 5 MB.
const LINE_BYTES_MAX: usize = 16 << 20;

/// Seconds, a period in seconds, bins.
type Entry = (f64, f64, Bins);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    time: f64,
    period: f64,
    histogram: Bins,
    #[serde(default)]
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// A histogram, or its error.
struct Bins(Result<Histogram, String>);

impl<'de> Deserialize<'de> for Bins {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BinsVisitor)
    }
}

struct BinsVisitor;

impl<'de> Visitor<'de> for BinsVisitor {
    type Value = Bins;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object of bins, base64, or a list of H[value]=count")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Bins, A::Error> {
        let mut out = Ok(Histogram::log_linear());
        while let Some((label, count)) = map.next_entry::<String, u64>()? {
            let bin = bin_of_label(&label).map_err(|error| error.to_string());
            out = out.and_then(|out| add(out, bin?, count));
        }
        Ok(Bins(out))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Bins, A::Error> {
        let mut out = Ok(Histogram::log_linear());
        while let Some(text) = list.next_element::<String>()? {
            let parsed = text.strip_prefix("H[").and_then(|rest| rest.split_once("]="));
            let parsed = parsed.and_then(|(value, count)| Some((value.parse().ok()?, count.parse().ok()?)));
            out = out.and_then(|out| {
                let (value, count): (f64, u64) = parsed.ok_or_else(|| format!("{text:?} is no H[value]=count"))?;
                add(out, DecimalBin::from_value(value), count)
            });
        }
        Ok(Bins(out))
    }

    fn visit_str<E>(self, text: &str) -> Result<Bins, E> {
        Ok(Bins(match decode_base64(text) {
            Ok((histogram, repairs)) if repairs.is_none() => Ok(histogram),
            Ok(_) => Err("the base64 has bins that are none of the format".into()),
            Err(error) => Err(error.to_string()),
        }))
    }
}

fn add(mut histogram: Histogram, bin: DecimalBin, count: u64) -> Result<Histogram, String> {
    if !bin.is_valid() || histogram.total().checked_add(count).is_none() {
        return Err("a bin is none of the format, or the counts are above 2^64".into());
    }
    histogram.record_bin(bin, count);
    Ok(histogram)
}

/// Reads a file.
///
/// # Errors
/// Those of the file, and [`Error::Stopped`].
pub fn read(input: &mut dyn BufRead, meaning: &LogSettings, out: &mut Batches<'_>) -> Result<(), Error> {
    lines::each(input, LINE_BYTES_MAX, out, |number, line, out| {
        let line = line.trim();
        let nested = line.strip_prefix('[').map(|rest| rest.trim_start().starts_with(['[', ']']));
        let (mut name, mut more) = (String::new(), BTreeMap::new());
        let entries = match nested {
            None if line.is_empty() => return Ok(()),
            None => serde_json::from_str::<Named>(line).map(|one| {
                (name, more) = (one.name, one.labels);
                vec![(one.time, one.period, one.histogram)]
            }),
            Some(false) => serde_json::from_str::<Entry>(line).map(|entry| vec![entry]),
            Some(true) => serde_json::from_str::<Vec<Entry>>(line),
        };
        match entries {
            Ok(entries) => entries.into_iter().try_for_each(|entry| put(number, entry, &name, &more, meaning, out)),
            Err(error) => {
                out.bad(number, "line_malformed", &error.to_string());
                Ok(())
            }
        }
    })
}

fn put(
    number: u64,
    (time, period, bins): Entry,
    name: &str,
    more: &BTreeMap<String, String>,
    meaning: &LogSettings,
    out: &mut Batches<'_>,
) -> Result<(), Error> {
    let histogram = match bins.0 {
        Ok(histogram) => histogram,
        Err(what) => {
            out.bad(number, "histogram_invalid", &what);
            return Ok(());
        }
    };
    let (from, to) = ((time * 1e3).round(), ((time + period) * 1e3).round());
    if !(from >= 0.0 && from < to && to < 9e12) {
        out.bad(number, "time_invalid", "the period is not above 0, or the time cannot be stored");
        return Ok(());
    }
    let mut labels: BTreeMap<&str, &str> = more.iter().map(|(name, value)| (&**name, &**value)).collect();
    labels.extend(meaning.labels.iter().map(|(name, value)| (&**name, &**value)));
    if !name.is_empty() {
        labels.insert(METRIC_NAME, name);
    }
    let key = labels.iter().fold(0_u128, |key, (name, value)| {
        let key = XxHash3_128::oneshot_with_seed(key as u64, name.as_bytes()) ^ key.rotate_left(1);
        XxHash3_128::oneshot_with_seed(key as u64, value.as_bytes()) ^ key.rotate_left(1)
    });
    let define = || {
        let unit = meaning.unit.clone();
        let meta = SeriesMeta { kind: Kind::Histogram, temporality: Temporality::Delta, unit, width_ms: 0 };
        SeriesDef::new(&labels, meta).map_err(|error| error.to_string())
    };
    let value = Value::Histogram(Box::new(histogram));
    out.sample(number, key, define, Some(from as i64 * 1_000_000), to as i64 * 1_000_000, value)
}
