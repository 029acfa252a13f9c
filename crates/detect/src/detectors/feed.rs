//! Stored or just closed samples into a [`Monitor`], in the order of time, with a step of the watermark each second.
//!
//! Invariants: the same samples give the same findings, whether they come as one stretch or as many.

use ogive_model::{HistogramValue, Ms, SeriesData, SeriesId, Temporality, Tenant, TimeRange, WallMs};

use super::monitor::{Content, Monitor, Reported, SeriesProfile};

/// A step of the watermark.
pub const STEP: Ms = Ms::from_secs(1);

/// Hands the samples in `range` of `series` to the monitor and steps it up to the end of that.
pub fn feed(monitor: &mut Monitor, tenant: &Tenant, series: &[SeriesData], range: TimeRange) -> Vec<Reported> {
    let ids: Vec<SeriesId> =
        series.iter().map(|one| SeriesId::from_labels(tenant, one.meta.kind, &one.labels)).collect();
    let mut order: Vec<(i64, usize, usize)> = Vec::new();
    for (at, one) in series.iter().enumerate() {
        let times = one.floats.times.iter().chain(&one.histograms.times).enumerate();
        let inside = times.filter(|(_, time)| range.contains_ms(**time));
        order.extend(inside.map(|(place, time)| (*time, at, place)));
    }
    order.sort_unstable();
    let mut found = Vec::new();
    let mut next = range.start.align_down(STEP) + STEP;
    for (time_ms, at, place) in order {
        let time = WallMs(time_ms);
        while next < time {
            found.extend(monitor.advance(next));
            next += STEP;
        }
        let one = &series[at];
        let (content, width_ms) =
            match place.checked_sub(one.floats.times.len()).map(|place| &one.histograms.values[place]) {
                Some(value) if one.meta.temporality == Temporality::Delta => match value {
                    HistogramValue::Integer(cell) => (Content::Cell(cell), one.meta.width_ms.max(1)),
                    HistogramValue::Float(cell) => (Content::FloatCell(cell), one.meta.width_ms.max(1)),
                },
                _ => (Content::Arrival, 0),
            };
        monitor.sample(ids[at], SeriesProfile { labels: &one.labels, unit: &one.meta.unit, width_ms }, time, content);
    }
    while next <= range.end {
        found.extend(monitor.advance(next));
        next += STEP;
    }
    found
}
