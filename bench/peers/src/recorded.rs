//! Samples that a running Ogive measured of itself, kept as frames in a file, and sent again to every server.
//!
//! Format: after each other, a length as four bytes, low first, and a batch frame as `GET /v1/cells` answers it.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, bail};
use ogive_hist::{Histogram, Scheme};
use ogive_model::{Batch, Kind, SeriesMeta, Value};

use crate::data::Sample;
use crate::requests::{Form, LANES, Out};
use crate::send::Request;
use crate::server;

/// Time that is asked for at once: an answer holds at most a million samples.
const SLICE_MS: i64 = 60_000;
/// Servers that the recording stands for: each sends the same, under an `instance` of its own. One server's hour alone
/// is over in a few clock ticks.
const SERVERS: usize = 20;
/// Samples of a series that follow each other in a request: a sender that collects for ten seconds.
const RUN_MS: i64 = 10_000;

/// Asks the server at `address` for what it measured in the hour before `end_ms` and writes it to `file`.
pub fn record(address: &str, end_ms: i64, file: &Path) -> anyhow::Result<()> {
    let mut out = fs::File::create(file).with_context(|| file.display().to_string())?;
    let mut bytes = 0;
    for begin in (end_ms - 3_600_000..end_ms).step_by(SLICE_MS as usize) {
        // Both ends are inside.
        let (start, end) = (begin + 1, begin + SLICE_MS);
        let seconds = |ms: i64| format!("{}.{:03}", ms / 1000, ms % 1000);
        let path = format!(
            "/v1/cells?match[]=%7B__name__%3D~%22.%2B%22%7D&resolution=raw&start={}&end={}",
            seconds(start),
            seconds(end)
        );
        let frame = server::frame(address, &path)?;
        bytes += frame.len();
        out.write_all(&(frame.len() as u32).to_le_bytes())?;
        out.write_all(&frame)?;
    }
    println!("{bytes} bytes of frames in {}", file.display());
    Ok(())
}

/// One series of a recording.
struct Series {
    /// With the name's and without `instance`.
    labels: Vec<(String, String)>,
    meta: SeriesMeta,
    /// In the order of time.
    samples: Vec<(i64, Value)>,
}

impl Series {
    fn labels_at(&self, server: usize) -> Vec<(String, String)> {
        let mut labels = self.labels.clone();
        labels.push(("instance".into(), format!("node-{server:05}.example.org:6448")));
        labels.sort_unstable();
        labels
    }
}

/// A series on its way.
struct Sender<'a> {
    labels: Vec<(String, String)>,
    of: &'a Series,
    left: &'a [(i64, Value)],
    /// Everything that was sent.
    total: Histogram,
}

/// Its numbers, or its histograms.
pub struct Recording {
    pub histograms: bool,
    series: Vec<Series>,
}

impl Recording {
    /// Reads `file`: the float series and the histogram series that have samples.
    pub fn load(file: &Path) -> anyhow::Result<[Self; 2]> {
        let mut bytes = &*fs::read(file).with_context(|| file.display().to_string())?;
        let mut at = std::collections::HashMap::new();
        let mut series: Vec<Series> = Vec::new();
        while let Some((length, rest)) = bytes.split_first_chunk() {
            let length = u32::from_le_bytes(*length) as usize;
            let frame = rest.get(..length).context("the file ends within a frame")?;
            bytes = &rest[length..];
            let batch = Batch::decode(frame)?;
            let mut numbers = Vec::with_capacity(batch.series.len());
            for declared in batch.series {
                let declared = declared?;
                numbers.push(*at.entry((declared.labels.clone(), declared.meta.kind)).or_insert_with(|| {
                    let renamed = |name: &str, value: &str| match name {
                        "__name__" => (name.to_owned(), format!("bench_{value}")),
                        _ => (name.to_owned(), value.to_owned()),
                    };
                    let labels = declared.labels.iter().map(|(name, value)| renamed(name, value)).collect();
                    series.push(Series { labels, meta: declared.meta.clone(), samples: Vec::new() });
                    series.len() - 1
                }));
            }
            for sample in batch.samples {
                let Ok(sample) = sample else { bail!("a stored sample is not one") };
                let number = numbers[sample.series as usize];
                series[number].samples.push((sample.time_ms(), sample.value));
            }
        }
        let (floats, rest): (Vec<_>, Vec<_>) = series.into_iter().partition(|one| one.meta.kind == Kind::Float);
        let histograms = rest.into_iter().filter(|one| one.meta.kind == Kind::Histogram).collect();
        Ok([Self { histograms: false, series: floats }, Self { histograms: true, series: histograms }])
    }

    pub fn series(&self) -> usize {
        SERVERS * self.series.len()
    }

    pub fn samples(&self) -> usize {
        SERVERS * self.series.iter().map(|one| one.samples.len()).sum::<usize>()
    }

    /// The names of its metrics, each once.
    pub fn metrics(&self) -> Vec<String> {
        let labels = self.series.iter().flat_map(|one| &one.labels);
        let mut names: Vec<_> = labels.filter(|label| label.0 == "__name__").map(|label| label.1.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The requests of each lane, moved in time so that the last sample is of `now_ms`.
    pub fn requests(&self, form: Form, now_ms: i64) -> Vec<Vec<Request>> {
        (0..LANES).map(|lane| self.lane(form, now_ms, lane)).collect()
    }

    fn lane(&self, form: Form, now_ms: i64, lane: usize) -> Vec<Request> {
        let times = || self.series.iter().flat_map(|one| one.samples.iter().map(|sample| sample.0));
        let (Some(first), Some(last)) = (times().min(), times().max()) else { return Vec::new() };
        let later = now_ms - last;
        let empty = || Histogram::new(Scheme::exp2(3).expect("a scale of Prometheus"));
        let mut series: Vec<Sender<'_>> = (lane..SERVERS)
            .step_by(LANES)
            .flat_map(|server| self.series.iter().map(move |one| (server, one)))
            .map(|(server, one)| Sender { labels: one.labels_at(server), of: one, left: &one.samples, total: empty() })
            .collect();
        let mut out = Out::new(form, lane, series.len());
        for until in (first..=last).step_by(RUN_MS as usize) {
            for (at, Sender { labels, of, left, total }) in series.iter_mut().enumerate() {
                let run;
                (run, *left) = left.split_at(left.partition_point(|sample| sample.0 < until + RUN_MS));
                if self.histograms {
                    for (time_ms, value) in run {
                        let Value::Histogram(cell) = value else { continue };
                        total.merge(&cell.convert(&total.scheme).0).expect("one scheme");
                        out.histogram(at, labels, &of.meta, total, cell, time_ms + later);
                    }
                } else {
                    let floats = run.iter().filter_map(|(time_ms, value)| match value {
                        Value::Float(value) => Some(Sample { time_ms: time_ms + later, value: *value }),
                        _ => None,
                    });
                    let floats: Vec<Sample> = floats.collect();
                    if !floats.is_empty() {
                        out.floats(at, labels, &of.meta, &floats);
                    }
                }
            }
        }
        out.close();
        out.requests
    }
}
