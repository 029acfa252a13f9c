//! The seconds of series that came with batches, as a watch shows them. Pure.
//!
//! Invariants: each sample of a selected series is in a cell or counted as left out; the sum has every delta of a
//! distribution, also of series beyond the limits, or counts it as left out. A column has what came since the one
//! before.
//! Limits: [`WATCH_SERIES_MAX`] and [`WATCH_CELLS_MAX`], [`HELD_BINS_MAX`], [`HELD_LABEL_BYTES_MAX`],
//! [`WATCH_SUM_BINS_MAX`] and those of one distribution, [`WATCH_BYTES_MAX`] of a column.

use std::collections::HashMap;

use ogive_fleet::{
    LeftOut, WATCH_BYTES_MAX, WATCH_CELLS_MAX, WATCH_SERIES_MAX, WATCH_SUM_BINS_MAX, WatchCell, WatchColumn,
    WatchDistribution,
};
use ogive_hist::Histogram;
use ogive_model::{Batch, Matcher, Ms, Sample, SeriesDef, SeriesId, Temporality, Tenant, Value, WallMs, WallNs, float};

/// 200,000 bins of cells, 12 bytes each: 2.4 MB; 400 in each of 500 cells.
const HELD_BINS_MAX: usize = 200_000;
/// 256 KiB of labels of the series, and as many of the cells: more do not fit into a column. A series may have 2 MiB of
/// them, and 500 cells of it would take a gigabyte.
const HELD_LABEL_BYTES_MAX: usize = WATCH_BYTES_MAX;
/// 60 columns without a sample: then a series gives its place to another one.
const SILENT_MAX: u64 = 60;
/// The width of a cell.
const SECOND: Ms = Ms::from_secs(1);

/// See the module.
pub(super) struct Cells {
    tenant: Tenant,
    matchers: Vec<Matcher>,
    quantiles: Vec<f64>,
    /// Those that are shown.
    series: HashMap<SeriesId, ShownSeries>,
    /// By series and the end of their second.
    cells: HashMap<(SeriesId, i64), Cell>,
    /// Bins in the cells.
    bins: usize,
    /// Bytes of the labels of the cells, as often as they are in one.
    label_bytes: usize,
    sum: Option<Histogram<f64>>,
    left_out: LeftOut,
    /// How many columns there were.
    columns: u64,
}

/// A series that is shown.
struct ShownSeries {
    def: SeriesDef,
    label_bytes: usize,
    /// The column in which it last had a sample.
    column: u64,
}

struct Cell {
    content: Content,
    /// Of the newest sample.
    time: WallNs,
    samples: u64,
}

enum Content {
    Number(f64),
    Distribution(Box<Histogram<f64>>),
}

impl Content {
    /// What a sample has; none for a text.
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Float(number) => Some(Self::Number(number)),
            Value::Histogram(value) => Some(Self::Distribution(Box::new((*value).into_float()))),
            Value::FloatHistogram(value) => Some(Self::Distribution(value)),
            Value::Text(_) => None,
        }
    }

    fn bins(&self) -> usize {
        match self {
            Self::Number(_) => 0,
            Self::Distribution(value) => bins_of(value),
        }
    }
}

impl Cell {
    /// Adds a sample of the same series and second; false when distributions do not merge.
    fn add(&mut self, content: Content, time: WallNs, is_delta: bool) -> bool {
        match (&mut self.content, content) {
            (Content::Number(sum), Content::Number(more)) if is_delta => *sum += more,
            (Content::Distribution(sum), Content::Distribution(more)) if is_delta => {
                let Ok(()) = sum.merge(&more) else { return false };
            }
            (known, newest) if time >= self.time => *known = newest,
            _ => {}
        }
        self.time = self.time.max(time);
        self.samples += 1;
        true
    }

    fn shown(self, def: &SeriesDef, second: i64, quantiles: &[f64]) -> WatchCell {
        let (value, distribution) = match &self.content {
            Content::Number(value) => (Some(float::plain(*value)), WatchDistribution::default()),
            Content::Distribution(value) => (None, shown(value, quantiles)),
        };
        WatchCell {
            t: second,
            labels: def.labels.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            unit: def.meta.unit.clone(),
            temporality: def.meta.temporality.as_str().into(),
            samples: self.samples,
            value,
            distribution,
        }
    }
}

impl Cells {
    pub(super) fn new(tenant: Tenant, matchers: Vec<Matcher>, quantiles: Vec<f64>) -> Self {
        Self {
            tenant,
            matchers,
            quantiles,
            series: HashMap::new(),
            cells: HashMap::new(),
            bins: 0,
            label_bytes: 0,
            sum: None,
            left_out: LeftOut::default(),
            columns: 0,
        }
    }

    /// Adds what of a batch is selected.
    pub(super) fn add(&mut self, batch: Batch) {
        if batch.tenant != self.tenant {
            return;
        }
        let Batch { tenant, series, samples, .. } = batch;
        let chosen = series.iter().map(|def| {
            let def = def.as_ref().ok().filter(|def| def.labels.match_all(&self.matchers))?;
            Some((def.id(&tenant), def))
        });
        let chosen: Vec<Option<(SeriesId, &SeriesDef)>> = chosen.collect();
        for sample in samples.into_iter().flatten() {
            if let Some(Some((id, def))) = chosen.get(sample.series as usize) {
                self.take(*id, def, sample);
            }
        }
    }

    /// Counts batches that could not be read.
    pub(super) fn skip(&mut self, batches: u64) {
        self.left_out.batches += batches;
    }

    fn take(&mut self, id: SeriesId, def: &SeriesDef, sample: Sample) {
        let is_delta = def.meta.temporality == Temporality::Delta;
        let (second, time) = (end_of_second(WallMs(sample.time_ms())), WallNs(sample.time_ns));
        let Some(content) = Content::from_value(sample.value) else {
            self.left_out.texts += 1;
            return;
        };
        if is_delta && let Content::Distribution(value) = &content {
            self.add_to_sum(value);
        }
        let label_bytes = self.place(id, def).filter(|_| self.bins + content.bins() <= HELD_BINS_MAX);
        let Some(label_bytes) = label_bytes else {
            self.left_out.samples += 1;
            return;
        };
        let is_full = self.cells.len() >= WATCH_CELLS_MAX || self.label_bytes + label_bytes > HELD_LABEL_BYTES_MAX;
        match self.cells.get_mut(&(id, second)) {
            Some(cell) => {
                let before = cell.content.bins();
                self.left_out.schemes += u64::from(!cell.add(content, time, is_delta));
                self.bins = self.bins - before + cell.content.bins();
            }
            None if is_full => self.left_out.samples += 1,
            None => {
                self.bins += content.bins();
                self.label_bytes += label_bytes;
                self.cells.insert((id, second), Cell { content, time, samples: 1 });
            }
        }
    }

    fn add_to_sum(&mut self, value: &Histogram<f64>) {
        match &mut self.sum {
            // What the merged bins will be is known only afterwards: the last one may exceed it.
            Some(sum) if bins_of(sum) > WATCH_SUM_BINS_MAX => self.left_out.deltas += 1,
            Some(sum) => self.left_out.schemes += u64::from(sum.merge(value).is_err()),
            None => self.sum = Some(value.clone()),
        }
    }

    /// The bytes of a series' labels; none when it has no place among those that are shown.
    fn place(&mut self, id: SeriesId, def: &SeriesDef) -> Option<usize> {
        let column = self.columns;
        if let Some(shown) = self.series.get_mut(&id) {
            shown.column = column;
            return Some(shown.label_bytes);
        }
        if self.series.len() >= WATCH_SERIES_MAX {
            return None;
        }
        let label_bytes = def.labels.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        let held = self.series.values().map(|shown| shown.label_bytes).sum::<usize>();
        if held + label_bytes > HELD_LABEL_BYTES_MAX {
            return None;
        }
        self.series.insert(id, ShownSeries { def: def.clone(), label_bytes, column });
        Some(label_bytes)
    }

    /// What came since the column before, as a line of JSON; `t`: the broker's clock, seconds since 1970.
    pub(super) fn line(&mut self, t: i64) -> Vec<u8> {
        let column = self.column(t);
        line_of(column, WATCH_BYTES_MAX)
    }

    fn column(&mut self, t: i64) -> WatchColumn {
        let cells = std::mem::take(&mut self.cells).into_iter();
        let cells = cells.map(|((id, second), cell)| cell.shown(&self.series[&id].def, second, &self.quantiles));
        let mut cells: Vec<WatchCell> = cells.collect();
        cells.sort_by(|one, next| (&one.labels, one.t).cmp(&(&next.labels, next.t)));
        let sum = self.sum.take();
        let bins = sum.iter().flat_map(|sum| sum.buckets());
        // The zero bin begins at -0, which is confusing to read.
        let bins = bins.map(|bin| [finite(bin.lo + 0.0), finite(bin.hi), finite(bin.count)]).collect();
        let none = || WatchDistribution { count: Some("0".into()), ..WatchDistribution::default() };
        (self.bins, self.label_bytes) = (0, 0);
        self.columns += 1;
        let now = self.columns;
        self.series.retain(|_, shown| now - shown.column <= SILENT_MAX);
        WatchColumn {
            t,
            sum: sum.as_ref().map_or_else(none, |sum| shown(sum, &self.quantiles)),
            bins,
            cells,
            left_out: std::mem::take(&mut self.left_out),
        }
    }
}

/// Half of its cells are left out until it is short enough, and then its bins; bins that take more than half of the
/// bytes go first, since they would cost all cells.
fn line_of(mut column: WatchColumn, bytes_max: usize) -> Vec<u8> {
    loop {
        let line = serde_json::to_vec(&column).expect("numbers and texts are JSON");
        if line.len() <= bytes_max {
            return line;
        }
        assert!(!column.cells.is_empty() || !column.bins.is_empty(), "{} bytes of nothing", line.len());
        if column.cells.is_empty() || bytes_of(&column.bins) > bytes_max / 2 {
            column.left_out.bins += column.bins.len() as u64;
            column.bins.clear();
        } else {
            let gone = column.cells.split_off(column.cells.len() / 2);
            column.left_out.samples += gone.iter().map(|cell| cell.samples).sum::<u64>();
        }
    }
}

fn bytes_of(bins: &[[Option<f64>; 3]]) -> usize {
    serde_json::to_vec(bins).expect("numbers are JSON").len()
}

fn bins_of(value: &Histogram<f64>) -> usize {
    value.negative.len() + value.positive.len()
}

/// The end of an instant's second, seconds since 1970.
const fn end_of_second(time: WallMs) -> i64 {
    time.align_up(SECOND).0 / SECOND.0
}

fn shown(value: &Histogram<f64>, quantiles: &[f64]) -> WatchDistribution {
    let found = value.quantiles(quantiles).into_iter().zip(quantiles);
    let found = found.filter_map(|(found, q)| {
        let found = found?;
        Some([Some(*q), finite(found.value), finite(found.lo), finite(found.hi)])
    });
    WatchDistribution {
        count: Some(float::plain(value.count)),
        sum: value.sum.and_then(finite),
        min: value.min.and_then(finite),
        max: value.max.and_then(finite),
        quantiles: found.collect(),
    }
}

/// A number that JSON has.
fn finite(value: f64) -> Option<f64> {
    Some(value).filter(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use ogive_hist::Scheme;
    use ogive_model::{Kind, MatchOp, SeriesMeta};

    use super::*;

    fn def(name: &str, host: &str, kind: Kind, temporality: Temporality) -> SeriesDef {
        let meta = SeriesMeta { kind, temporality, unit: "s".into(), width_ms: 1_000 };
        SeriesDef::new([("__name__", name), ("host", host)], meta).unwrap()
    }

    fn batch(series: Vec<SeriesDef>, samples: Vec<(u32, i64, Value)>) -> Batch {
        let samples = samples
            .into_iter()
            .map(|(series, time_ms, value)| Ok(Sample { series, time_ns: time_ms * 1_000_000, start_ns: None, value }));
        Batch { series: series.into_iter().map(Ok).collect(), samples: samples.collect(), ..Batch::default() }
    }

    fn histogram(values: &[f64]) -> Value {
        let mut out = Histogram::log_linear();
        values.iter().for_each(|value| out.record(*value));
        Value::Histogram(Box::new(out))
    }

    fn cells(pattern: &str) -> Cells {
        let matcher = Matcher::new("__name__", MatchOp::Regex, pattern).unwrap();
        Cells::new(Tenant::default(), vec![matcher], vec![0.5])
    }

    #[test]
    fn fragments_of_a_second_add_up_and_a_column_begins_at_nothing() {
        let mut cells = cells("rpc|ticks|temperature");
        let series = || {
            vec![
                def("rpc", "a", Kind::Histogram, Temporality::Delta),
                def("ticks", "a", Kind::Float, Temporality::Delta),
                def("temperature", "a", Kind::Float, Temporality::Gauge),
                def("other", "a", Kind::Float, Temporality::Gauge),
            ]
        };
        let samples = vec![
            (0, 2_000, histogram(&[1.0, 2.0])),
            (0, 1_001, histogram(&[3.0])),
            (0, 2_001, histogram(&[9.0])),
            (1, 2_000, Value::Float(2.0)),
            (1, 1_500, Value::Float(3.0)),
            (2, 2_000, Value::Float(21.0)),
            (2, 1_500, Value::Float(20.0)),
            (3, 2_000, Value::Float(1.0)),
        ];
        cells.add(batch(series(), samples));
        let column = cells.column(7);
        assert_eq!((column.t, column.sum.count.as_deref(), column.left_out), (7, Some("4"), LeftOut::default()));
        let of = |cell: &WatchCell| {
            let count = cell.distribution.count.clone().or(cell.value.clone()).unwrap();
            format!("{} {} {count} {}", cell.labels["__name__"], cell.t, cell.samples)
        };
        let found: Vec<String> = column.cells.iter().map(of).collect();
        assert_eq!(found, ["rpc 2 3 2", "rpc 3 1 1", "temperature 2 21 2", "ticks 2 5 2"]);
        assert_eq!((column.cells[0].distribution.max, column.cells[0].distribution.sum), (Some(3.0), Some(6.0)));
        let bins: f64 = column.bins.iter().map(|bin| bin[2].unwrap()).sum();
        assert_eq!(bins, 4.0);
        let column = cells.column(8);
        assert_eq!((column.sum.count.as_deref(), column.cells.len(), column.bins.len()), (Some("0"), 0, 0));
        // Another tenant's are not there.
        let sample = vec![(1, 2_000, Value::Float(2.0))];
        cells.add(Batch { tenant: Tenant::new("b").unwrap(), ..batch(series(), sample) });
        assert!(cells.column(9).cells.is_empty());
    }

    #[test]
    fn what_is_left_out_is_counted_and_in_the_sum() {
        let mut cells = cells("rpc");
        let hosts = (0..WATCH_SERIES_MAX + 2).map(|at| format!("h{at:03}"));
        let series: Vec<SeriesDef> = hosts.map(|host| def("rpc", &host, Kind::Histogram, Temporality::Delta)).collect();
        let samples = (0..series.len() as u32).map(|at| (at, 1_000, histogram(&[1.0])));
        cells.add(batch(series.clone(), samples.collect()));
        let column = cells.column(1);
        assert_eq!((column.cells.len(), column.left_out.samples), (WATCH_SERIES_MAX, 2));
        assert_eq!(column.sum.count, Some(series.len().to_string()));
        // So are seconds beyond the limit, texts, and schemes that do not merge.
        let times = (1..=WATCH_CELLS_MAX as i64 + 1).map(|second| (0, second * 1_000, histogram(&[1.0])));
        cells.add(batch(series[..1].to_vec(), times.collect()));
        let text = vec![(0, 1_000, Value::Text("x".into()))];
        cells.add(batch(vec![def("rpc", "text", Kind::Text, Temporality::Gauge)], text));
        let mut other = Histogram::<u64>::new(Scheme::Custom { bounds: vec![1.0].into() });
        other.record(0.5);
        cells.add(batch(series[..1].to_vec(), vec![(0, 1_000, Value::Histogram(Box::new(other)))]));
        let left_out = cells.column(2).left_out;
        assert_eq!((left_out.samples, left_out.texts, left_out.schemes), (1, 1, 2));
        // The places of series that were silent are free again.
        (0..=SILENT_MAX as i64).for_each(|t| drop(cells.column(t)));
        cells.add(batch(series[WATCH_SERIES_MAX..].to_vec(), vec![(1, 1_000, histogram(&[1.0]))]));
        assert_eq!(cells.column(3).left_out, LeftOut::default());
    }

    /// Histograms of a fine scheme that have no bin in common made a sum without a bound.
    #[test]
    fn a_sum_has_a_bound_and_counts_what_it_lacks() {
        let mut cells = cells("rpc");
        let series = vec![def("rpc", "a", Kind::Histogram, Temporality::Delta)];
        // Each has bins of its own, the first two together as many as may be.
        let fine = |bins: std::ops::Range<usize>| {
            let mut out = Histogram::<u64>::new(Scheme::Exp2 { scale: 20 });
            bins.for_each(|bin| out.record(((bin as f64 - 0.5) / f64::from(1 << 20)).exp2()));
            Value::Histogram(Box::new(out))
        };
        let half = WATCH_SUM_BINS_MAX / 2;
        let parts = [1..half + 1, half + 1..2 * half + 1, 2 * half + 1..2 * half + 2, 1..4, 4..9];
        let of_parts = |count: usize| -> Vec<(u32, i64, Value)> {
            parts[..count].iter().map(|bins| (0, 1_000, fine(bins.clone()))).collect()
        };
        for (count, expected) in [(2, [2 * half, 0]), (3, [2 * half + 1, 0]), (5, [2 * half + 1, 2])] {
            cells.add(batch(series.clone(), of_parts(count)));
            let column = cells.column(1);
            assert_eq!([column.bins.len(), column.left_out.deltas as usize], expected, "{count}");
            // The cell has them all.
            let all: usize = parts[..count].iter().map(|bins| bins.len()).sum();
            assert_eq!(column.cells[0].distribution.count, Some(all.to_string()));
        }
    }

    #[test]
    fn a_column_fits_into_its_bytes() {
        let mut cells = cells("rpc");
        let series: Vec<SeriesDef> =
            (0..8).map(|at| def("rpc", &format!("h{at}"), Kind::Histogram, Temporality::Delta)).collect();
        let samples = (0..8).map(|at| (at, 1_000, histogram(&[1.0, 2.0, 3.0])));
        cells.add(batch(series, samples.collect()));
        let column = cells.column(1);
        let whole = serde_json::to_vec(&column).unwrap().len();
        let read = |bytes: usize| -> WatchColumn {
            let line = line_of(column.clone(), bytes);
            assert!(line.len() <= bytes, "{} bytes", line.len());
            serde_json::from_slice(&line).unwrap()
        };
        assert_eq!(read(whole), column);
        let less = read(whole - 1);
        assert_eq!((less.cells.len(), less.left_out.samples, less.bins.len()), (4, 4, 3));
        let mut bare = WatchColumn { cells: Vec::new(), ..column.clone() };
        bare.left_out.samples = 8;
        let least = read(serde_json::to_vec(&bare).unwrap().len() - 1);
        assert_eq!((least.cells.len(), least.left_out.samples, least.left_out.bins), (0, 8, 3));
        // Many bins go before any cell.
        let fine = WatchColumn { bins: vec![[Some(1.0); 3]; 1_000], ..column.clone() };
        let found: WatchColumn = serde_json::from_slice(&line_of(fine, whole)).unwrap();
        assert_eq!((found.cells.len(), found.left_out.samples, found.left_out.bins), (8, 0, 1_000));
    }

    #[test]
    fn long_labels_leave_room_for_fewer_series_and_cells() {
        let mut cells = cells("rpc");
        let long = "x".repeat(16_000);
        let hosts = (0..20).map(|at| format!("{long}{at:02}"));
        let series: Vec<SeriesDef> = hosts.map(|host| def("rpc", &host, Kind::Float, Temporality::Delta)).collect();
        let fit = HELD_LABEL_BYTES_MAX / ("__name__rpchost".len() + long.len() + 2);
        let samples = (0..20).map(|at| (at, 1_000, Value::Float(1.0)));
        cells.add(batch(series.clone(), samples.collect()));
        let column = cells.column(1);
        assert_eq!((column.cells.len(), column.left_out.samples), (fit, 20 - fit as u64));
        // The seconds of one series have them again and again.
        let times = (1..=20).map(|second| (0, second * 1_000, Value::Float(1.0)));
        cells.add(batch(series[..1].to_vec(), times.collect()));
        let column = cells.column(2);
        assert_eq!((column.cells.len(), column.left_out.samples), (fit, 20 - fit as u64));
    }
}
