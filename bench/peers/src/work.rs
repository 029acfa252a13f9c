//! The workloads, as requests that are ready to go.

use ogive_hist::{Histogram, Scheme};
use ogive_model::{Kind, SeriesMeta, Temporality};

use crate::data::{Random, Sample, Series, latencies};
use crate::recorded::Recording;
use crate::requests::{Form, LANES, Out};
use crate::send::Request;

/// Measurements of a cell of a histogram.
const CELL_COUNT: usize = 200;

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub name: &'static str,
    pub what: &'static str,
    pub series: usize,
    pub steps: usize,
    pub step_ms: i64,
    /// Samples that follow each other in one series of a request.
    pub run_length: usize,
    pub histograms: bool,
}

/// Something to send.
pub enum Load {
    Generated(Work),
    /// With what it is called.
    Recorded(&'static str, String, Recording),
}

pub const WORKS: [Work; 5] = [
    Work {
        name: "settled",
        what: "20,000 series x 120, a sample of each every 10 s",
        series: 20_000,
        steps: 120,
        step_ms: 10_000,
        run_length: 1,
        histograms: false,
    },
    Work {
        name: "wide",
        what: "100,000 series x 20, a sample of each every 10 s",
        series: 100_000,
        steps: 20,
        step_ms: 10_000,
        run_length: 1,
        histograms: false,
    },
    Work {
        name: "new",
        what: "200,000 new series, one sample each",
        series: 200_000,
        steps: 1,
        step_ms: 10_000,
        run_length: 1,
        histograms: false,
    },
    Work {
        name: "bytes",
        what: "1,000 series x 4,000 of 1 s, 20 at a time",
        series: 1_000,
        steps: 4_000,
        step_ms: 1_000,
        run_length: 20,
        histograms: false,
    },
    Work {
        name: "histograms",
        what: "300 series x 240 of 10 s, 200 measurements a cell",
        series: 300,
        steps: 240,
        step_ms: 10_000,
        run_length: 1,
        histograms: true,
    },
];

impl Load {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Generated(work) => work.name,
            Self::Recorded(name, ..) => name,
        }
    }

    pub fn what(&self) -> &str {
        match self {
            Self::Generated(work) => work.what,
            Self::Recorded(_, what, _) => what,
        }
    }

    pub fn histograms(&self) -> bool {
        match self {
            Self::Generated(work) => work.histograms,
            Self::Recorded(.., recording) => recording.histograms,
        }
    }

    pub fn series(&self) -> usize {
        match self {
            Self::Generated(work) => work.series,
            Self::Recorded(.., recording) => recording.series(),
        }
    }

    pub fn samples(&self) -> usize {
        match self {
            Self::Generated(work) => work.series * work.steps,
            Self::Recorded(.., recording) => recording.samples(),
        }
    }

    /// Selectors of what is sent, each of series whose labels differ without their names.
    pub fn metrics(&self) -> Vec<String> {
        match self {
            Self::Generated(_) => vec!["{__name__=~\"bench_.+\"}".into()],
            Self::Recorded(.., recording) => recording.metrics(),
        }
    }

    /// The requests of each lane. The last sample is of `now_ms`.
    pub fn requests(&self, form: Form, run: &str, now_ms: i64) -> Vec<Vec<Request>> {
        match self {
            Self::Generated(work) => (0..LANES).map(|lane| work.lane(form, run, now_ms, lane)).collect(),
            Self::Recorded(.., recording) => recording.requests(form, now_ms),
        }
    }
}

impl Work {
    pub fn scaled(self, scale: f64) -> Self {
        let series = ((self.series as f64 * scale) as usize).max(10);
        Self { series, ..self }
    }

    fn lane(&self, form: Form, run: &str, now_ms: i64, lane: usize) -> Vec<Request> {
        let mut series: Vec<(Series, Histogram)> = (lane..self.series)
            .step_by(LANES)
            .map(|index| (Series::new(run, index), Histogram::new(Scheme::exp2(3).expect("a scale of Prometheus"))))
            .collect();
        let mut order: Vec<usize> = (0..series.len()).collect();
        let mut random = Random::new(7 + lane as u64);
        let mut out = Out::new(form, lane, series.len());
        let meta = |kind, temporality, width_ms| SeriesMeta { kind, temporality, unit: String::new(), width_ms };
        let float = meta(Kind::Float, Temporality::Gauge, 0);
        let cells = meta(Kind::Histogram, Temporality::Delta, self.step_ms as u32);
        let begin = now_ms - (self.steps as i64 - 1) * self.step_ms;
        for step in (0..self.steps).step_by(self.run_length) {
            random.shuffle(&mut order);
            for at in &order {
                let (one, total) = &mut series[*at];
                let time = |step: usize| begin + step as i64 * self.step_ms;
                if self.histograms {
                    let mut cell = Histogram::log_linear();
                    for value in latencies(&mut random, CELL_COUNT) {
                        cell.record(value);
                        total.record(value);
                    }
                    out.histogram(*at, &one.labels, &cells, total, &cell, time(step));
                } else {
                    let steps = step..(step + self.run_length).min(self.steps);
                    let samples: Vec<Sample> =
                        steps.map(|step| Sample { time_ms: time(step), value: one.next() }).collect();
                    out.floats(*at, &one.labels, &float, &samples);
                }
            }
        }
        out.close();
        out.requests
    }
}
