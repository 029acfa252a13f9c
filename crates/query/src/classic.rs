//! Classic views: for a stored histogram `M`, the series `M_bucket{le}`, `M_sum` and `M_count` that Prometheus would
//! have had, computed on request, so that dashboards written for them work unchanged.
//!
//! Invariants:
//! - A view is made only when it is selected by its name (`=`, or a regular expression of plain alternatives) and no
//!   stored series has that name in the range. Nothing else sees it: `{job="a"}` selects stored series only.
//! - All histograms of one selection get the same bounds, so that sums over them stay cumulative. Where `le` is
//!   selected by value, that value is the bound: any threshold has an answer.
//! - Views have the temporality of their histograms: those of delta cells are delta, and `rate` is exact.
//!
//! Limits: the samples of views count against [`Selection::samples_max`]; [`BOUNDS_MAX`] bounds.

mod bounds;

use std::collections::BTreeSet;

use ogive_model::{
    Charge, FloatColumn, HistogramColumn, HistogramValue, Kind, Labels, METRIC_NAME, MatchOp, Matcher, Opening,
    Partial, ReadSeries, STALE, Select, SelectError, Selection, SeriesData, SeriesMeta, SeriesSet, TextColumn,
    TimeRange,
};

use crate::eval::histogram::{is_stale_histogram, to_float};
use crate::eval::series_bytes;
pub use bounds::BOUNDS_MAX;
use bounds::Bounds;

/// The label of a bucket's bound.
const BOUND: &str = "le";

/// Bins that are read to find the bounds of a listing: some 50,000 cells, a few milliseconds. With more, the listing
/// gets the bounds from microseconds to hours.
const LISTED_SAMPLES_MAX: usize = 1_000_000;

/// Which part of a histogram a view shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Bucket,
    Sum,
    Count,
}

const PARTS: [(&str, Part); 3] = [("_bucket", Part::Bucket), ("_sum", Part::Sum), ("_count", Part::Count)];

/// A view that a selection names.
#[derive(Clone, Debug, PartialEq, Eq)]
struct View {
    name: String,
    base: String,
    part: Part,
}

/// A store with classic views of its histograms.
pub struct ClassicViews<'a> {
    store: &'a dyn Select,
}

/// How the underlying store is read: completely or not at all, or as far as it can be.
type ReadStore<'r> = dyn FnMut(&Selection) -> Result<Partial, SelectError> + 'r;

impl<'a> ClassicViews<'a> {
    /// Views over the contents of `store`.
    #[must_use]
    pub const fn new(store: &'a dyn Select) -> Self {
        Self { store }
    }

    /// As [`Select::open`], borrowing the underlying store. Views are made whole: all bounds of a histogram come from
    /// its bins.
    ///
    /// # Errors
    /// See [`SelectError`].
    pub fn opened(&self, selection: &Selection, opening: &Opening<'_>) -> Result<Box<dyn SeriesSet + 'a>, SelectError> {
        if self.views(&selection.matchers, selection.range)?.is_empty() {
            return self.store.open(selection, opening);
        }
        let mut held = Charge::default();
        let mut read = |selection: &Selection| read_all(self.store, selection, opening);
        let made = self.with_views(selection, &mut read, opening, &mut held)?;
        let made = ReadSeries::from(made);
        opening.check(made.count())?;
        Ok(Box::new(made.holding(held)))
    }

    /// The values of label `name` that views add for series that `matchers` accept. If `matchers` do not name a metric,
    /// the metric names of the views of all histograms.
    ///
    /// # Errors
    /// See [`SelectError`].
    pub fn label_values(
        &self,
        name: &str,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> Result<BTreeSet<String>, SelectError> {
        let mut out = BTreeSet::new();
        if name == METRIC_NAME && literal_names(matchers).is_none() {
            return self.names(matchers, range);
        }
        if name == BOUND {
            let found = self.select(&listing(matchers.to_vec(), range))?;
            let bounds = found.iter().map(|one| one.labels.get(BOUND)).filter(|bound| !bound.is_empty());
            out.extend(bounds.map(str::to_owned));
            return Ok(out);
        }
        for (view, series) in self.listed(matchers, range)? {
            let value =
                |one: &SeriesData| if name == METRIC_NAME { &*view.name } else { one.labels.get(name) }.to_owned();
            out.extend(series.iter().map(value).filter(|value| !value.is_empty()));
        }
        Ok(out)
    }

    /// The label names that views add for series that `matchers` accept.
    ///
    /// # Errors
    /// See [`SelectError`].
    pub fn label_names(&self, matchers: &[Matcher], range: TimeRange) -> Result<BTreeSet<String>, SelectError> {
        let mut out = BTreeSet::new();
        if literal_names(matchers).is_none() {
            // Without a metric's name, the only label that views add is reported.
            let is_bucket = |name: &String| name.ends_with("_bucket");
            out.extend(self.names(matchers, range)?.iter().any(is_bucket).then(|| BOUND.to_owned()));
            return Ok(out);
        }
        for (view, series) in self.listed(matchers, range)? {
            out.extend(series.iter().flat_map(|one| one.labels.iter().map(|(name, _)| name.to_owned())));
            if view.part == Part::Bucket && !series.is_empty() {
                out.insert(BOUND.to_owned());
            }
        }
        Ok(out)
    }

    /// The names of the views of all histograms, when `matchers` do not say which.
    fn names(&self, matchers: &[Matcher], range: TimeRange) -> Result<BTreeSet<String>, SelectError> {
        let others = not_name(matchers);
        let bases = if others.is_empty() {
            self.store.histogram_names(range)?
        } else {
            let histograms = self.histograms(listing(others, range))?;
            histograms.iter().map(|one| one.labels.metric_name().to_owned()).collect()
        };
        let names = bases.iter().flat_map(|base| PARTS.map(|(ending, _)| format!("{base}{ending}")));
        Ok(names.filter(|name| on_name(matchers).all(|matcher| matcher.matches(name))).collect())
    }

    /// The histograms, without samples, of each view that `matchers` name.
    fn listed(&self, matchers: &[Matcher], range: TimeRange) -> Result<Vec<(View, Vec<SeriesData>)>, SelectError> {
        let mut out = Vec::new();
        for view in self.views(matchers, range)? {
            let series = self.histograms(listing(of_base(matchers, &view.base), range))?;
            out.push((view, series));
        }
        Ok(out)
    }

    fn histograms(&self, selection: Selection) -> Result<Vec<SeriesData>, SelectError> {
        let mut series = self.store.select(&selection)?;
        series.retain(|one| one.meta.kind == Kind::Histogram);
        Ok(series)
    }

    /// The views that `matchers` name and that no stored series of the same name hides.
    fn views(&self, matchers: &[Matcher], range: TimeRange) -> Result<Vec<View>, SelectError> {
        let mut out = Vec::new();
        for name in literal_names(matchers).unwrap_or_default() {
            let part = PARTS.iter().find_map(|(ending, part)| Some((name.strip_suffix(ending)?, *part)));
            let Some((base, part)) = part.filter(|(base, _)| !base.is_empty()) else { continue };
            if !on_name(matchers).all(|matcher| matcher.matches(&name)) {
                continue;
            }
            let same = Matcher::new(METRIC_NAME, MatchOp::Equal, name.as_str()).map_err(SelectError::Unavailable)?;
            if self.store.label_sets(&[same], range, 1, &Opening::UNBOUNDED)?.is_empty() {
                out.push(View { base: base.to_owned(), name, part });
            }
        }
        Ok(out)
    }

    /// What is stored, and the views.
    fn with_views(
        &self,
        selection: &Selection,
        read: &mut ReadStore<'_>,
        opening: &Opening<'_>,
        held: &mut Charge,
    ) -> Result<Partial, SelectError> {
        let mut found = read(selection)?;
        let stored = found.series.len();
        held.absorb(opening.charge(found.series.iter().map(series_bytes).sum())?);
        let mut left = selection.samples_max;
        for view in self.views(&selection.matchers, selection.range)? {
            let requested = ViewRequest { view: &view, selection, left };
            let made = requested.series(read, &mut found.warnings, opening, held)?;
            left -= made.iter().map(|one| one.floats.times.len()).sum::<usize>();
            found.series.extend(made);
        }
        if found.series.len() > stored {
            found.series.sort_by(|a, b| a.labels.cmp(&b.labels));
        }
        Ok(found)
    }
}

impl Select for ClassicViews<'_> {
    fn select(&self, selection: &Selection) -> Result<Vec<SeriesData>, SelectError> {
        let mut read =
            |selection: &Selection| Ok(Partial { series: self.store.select(selection)?, warnings: Vec::new() });
        Ok(self.with_views(selection, &mut read, &Opening::UNBOUNDED, &mut Charge::default())?.series)
    }

    fn select_partial(&self, selection: &Selection) -> Result<Partial, SelectError> {
        let mut read = |selection: &Selection| self.store.select_partial(selection);
        self.with_views(selection, &mut read, &Opening::UNBOUNDED, &mut Charge::default())
    }

    fn open<'s>(
        &'s self,
        selection: &Selection,
        opening: &Opening<'_>,
    ) -> Result<Box<dyn SeriesSet + 's>, SelectError> {
        self.opened(selection, opening)
    }

    fn label_sets(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        limit: usize,
        opening: &Opening<'_>,
    ) -> Result<BTreeSet<Labels>, SelectError> {
        let mut found = self.store.label_sets(matchers, range, limit, opening)?;
        let selection = listing(matchers.to_vec(), range);
        let mut held = Charge::default();
        let mut read = |selection: &Selection| read_all(self.store, selection, opening);
        for view in self.views(matchers, range)? {
            let requested = ViewRequest { view: &view, selection: &selection, left: usize::MAX };
            let made = requested.series(&mut read, &mut Vec::new(), opening, &mut held)?;
            found.extend(made.into_iter().map(|one| one.labels));
        }
        // For as long as the budget lives, and the list with it.
        held.keep();
        while found.len() > limit {
            found.pop_last();
        }
        Ok(found)
    }
}

/// Reads everything of a selection; opened first, so that one that is too large is refused before it is read.
fn read_all(store: &dyn Select, selection: &Selection, opening: &Opening<'_>) -> Result<Partial, SelectError> {
    let set = store.open(selection, opening)?;
    let mut reading = opening.charge(0)?;
    let mut series = Vec::new();
    for number in 0..set.count() {
        if (opening.cancelled)() {
            return Err(SelectError::Cancelled);
        }
        for one in set.take(number)? {
            reading.grow(series_bytes(&one))?;
            series.push(one);
        }
    }
    Ok(Partial { series, warnings: set.warnings() })
}

/// A view that is being made.
struct ViewRequest<'a> {
    view: &'a View,
    selection: &'a Selection,
    /// Samples that it may have.
    left: usize,
}

impl ViewRequest<'_> {
    fn series(
        &self,
        read: &mut ReadStore<'_>,
        warnings: &mut Vec<String>,
        opening: &Opening<'_>,
        held: &mut Charge,
    ) -> Result<Vec<SeriesData>, SelectError> {
        let matchers = of_base(&self.selection.matchers, &self.view.base);
        let listing = self.selection.labels_only;
        let wanted = literals(&self.selection.matchers, BOUND).map(|texts| Bounds::from_texts(&texts));
        let is_bucket = self.view.part == Part::Bucket;
        // The bounds of a histogram are not known before its bins are.
        let needs_bins = is_bucket && wanted.is_none();
        let mut base = Selection { matchers, ..self.selection.clone() };
        if listing && needs_bins {
            (base.labels_only, base.samples_max) = (false, LISTED_SAMPLES_MAX);
        }
        let outcome = read(&base);
        let too_much = listing && needs_bins && matches!(outcome, Err(SelectError::TooManySamples { .. }));
        let mut found = if too_much { read(&Selection { labels_only: true, ..base })? } else { outcome? };
        warnings.append(&mut found.warnings);
        found.series.retain(|one| one.meta.kind == Kind::Histogram);
        let bounds = match wanted {
            _ if !is_bucket => Bounds::none(),
            Some(wanted) => wanted,
            None if too_much => Bounds::common(),
            None => Bounds::over(&found.series),
        };
        let samples: usize = found.series.iter().map(|one| one.histograms.times.len()).sum();
        let rows = bounds.len().max(1);
        if !listing && samples.saturating_mul(rows) > self.left {
            return Err(SelectError::TooManySamples { limit: self.selection.samples_max });
        }
        let _base = opening.charge(found.series.iter().map(series_bytes).sum())?;
        let labels: usize =
            found.series.iter().map(|one| size_of::<SeriesData>() + 64 + one.labels.memory_bytes()).sum();
        let columns = if listing { 0 } else { samples.saturating_mul(3 * size_of::<i64>()) };
        held.absorb(opening.charge(labels.saturating_add(columns).saturating_mul(rows))?);
        let made = found.series.iter().flat_map(|one| self.view_series(one, &bounds));
        let fits = |one: &SeriesData| self.selection.matchers.iter().all(|m| m.matches(one.labels.get(&m.name)));
        Ok(made.filter(fits).collect())
    }

    /// The series of the view that stand for one histogram.
    fn view_series(&self, histogram: &SeriesData, bounds: &Bounds) -> Vec<SeriesData> {
        let name = &*self.view.name;
        let column = &histogram.histograms;
        let samples = if self.selection.labels_only { &[][..] } else { &column.values };
        if self.view.part == Part::Bucket {
            let labels = bounds.texts().map(|text| histogram.labels.with(METRIC_NAME, name).with(BOUND, text));
            let mut values: Vec<Vec<f64>> = vec![Vec::with_capacity(samples.len()); bounds.len()];
            for sample in samples {
                let counts = if is_stale_histogram(sample) {
                    vec![f64::from_bits(STALE); bounds.len()]
                } else {
                    bounds.cumulative(&to_float(sample))
                };
                values.iter_mut().zip(counts).for_each(|(column, count)| column.push(count));
            }
            return labels.zip(values).map(|(labels, values)| float_series(histogram, labels, "", values)).collect();
        }
        let part = self.view.part;
        let value = |sample: &HistogramValue| match (part, sample) {
            _ if is_stale_histogram(sample) => f64::from_bits(STALE),
            (Part::Count, HistogramValue::Integer(one)) => one.count as f64,
            (Part::Count, HistogramValue::Float(one)) => one.count,
            (_, HistogramValue::Integer(one)) => one.sum_or_estimate(),
            (_, HistogramValue::Float(one)) => one.sum_or_estimate(),
        };
        let unit = if part == Part::Sum { &histogram.meta.unit } else { "" };
        let values = samples.iter().map(value).collect();
        vec![float_series(histogram, histogram.labels.with(METRIC_NAME, name), unit, values)]
    }
}

fn float_series(histogram: &SeriesData, labels: Labels, unit: &str, values: Vec<f64>) -> SeriesData {
    let (times, starts) = match values.len() {
        0 => (Vec::new(), Vec::new()),
        _ => (histogram.histograms.times.clone(), histogram.histograms.starts.clone()),
    };
    SeriesData {
        labels,
        meta: SeriesMeta { kind: Kind::Float, unit: unit.to_owned(), ..histogram.meta.clone() },
        floats: FloatColumn { times, values, starts, aggregates: Vec::new() },
        histograms: HistogramColumn::default(),
        texts: TextColumn::default(),
        rollup_ms: histogram.rollup_ms,
    }
}

fn listing(matchers: Vec<Matcher>, range: TimeRange) -> Selection {
    Selection { labels_only: true, ..Selection::new(matchers, range) }
}

fn on_name(matchers: &[Matcher]) -> impl Iterator<Item = &Matcher> {
    matchers.iter().filter(|matcher| matcher.name == METRIC_NAME)
}

fn not_name(matchers: &[Matcher]) -> Vec<Matcher> {
    matchers.iter().filter(|matcher| matcher.name != METRIC_NAME && matcher.name != BOUND).cloned().collect()
}

/// The matchers of a view's histogram.
fn of_base(matchers: &[Matcher], base: &str) -> Vec<Matcher> {
    let name = Matcher::new(METRIC_NAME, MatchOp::Equal, base).expect("only regular expressions can be wrong");
    std::iter::once(name).chain(not_name(matchers)).collect()
}

fn literal_names(matchers: &[Matcher]) -> Option<Vec<String>> {
    literals(matchers, METRIC_NAME)
}

/// The list of values to which `matchers` restrict a label; None when they do not.
fn literals(matchers: &[Matcher], label: &str) -> Option<Vec<String>> {
    let is_plain =
        |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_:".contains(&b));
    // In a pattern, a dot in a bound matches any byte; users always mean a literal dot.
    let is_number =
        |text: &str| label == BOUND && !text.is_empty() && text.bytes().all(|b| b"0123456789.e-".contains(&b));
    matchers.iter().filter(|matcher| matcher.name == label).find_map(|matcher| match matcher.op {
        MatchOp::Equal if !matcher.value.is_empty() => Some(vec![matcher.value.clone()]),
        MatchOp::Regex => {
            let inner =
                matcher.value.strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or(&matcher.value);
            let texts: Vec<String> = inner.split('|').map(|text| text.replace("\\.", ".")).collect();
            texts.iter().all(|text| is_plain(text) || is_number(text)).then_some(texts)
        }
        _ => None,
    })
}
