//! The names of a traced path's series: how a slow trace finds the histograms that it explains, and they it.
//!
//! *Format*: a path is measured under one metric `M`: `M{stage="total"}`, `M{stage="<point>",class="infra|logic"}`,
//! `M{stage="class:infra"}`, `M{stage="class:logic"}`, `M{stage="gap",publisher=".."}` and
//! `M{stage="between",mark=".."}`, each with the user's labels. Its slow traces are texts of the series named `M`
//! without `_seconds` and with `_slow`, with the labels of the total, at the time of the cell that counted them. So the
//! same labels and the same cell: only `__name__` differs. What was not measured, or is not there as a text, is counted
//! under the same stem, with `_unmeasured_total` and `_slow_dropped_total`.

use ogive_model::{Labels, METRIC_NAME};
use ogive_probe::Class;

/// The end of the name of a series of slow traces.
pub const SLOW: &str = "_slow";

const SECONDS: &str = "_seconds";

/// The label that names a stage.
pub const STAGE: &str = "stage";

/// The label of a stage's class.
pub const CLASS: &str = "class";

/// The label of a gap's publisher.
pub const PUBLISHER: &str = "publisher";

/// The stage of the whole path.
pub const TOTAL: &str = "total";

/// The stage between two messages.
pub const GAP: &str = "gap";

/// The stage between two marks of one name on a message's list.
pub const BETWEEN: &str = "between";

/// The label of an interval's marks.
pub const MARK: &str = "mark";

/// The stage for the sum of a class' stages.
#[must_use]
pub fn class_stage(class: Class) -> &'static str {
    match class {
        Class::Infrastructure => "class:infra",
        Class::Logic => "class:logic",
    }
}

/// The common prefix of the names of a metric's slow traces and counters.
pub(crate) fn stem(metric: &str) -> &str {
    metric.strip_suffix(SECONDS).unwrap_or(metric)
}

/// The name of the slow traces of a metric.
#[must_use]
pub fn slow_name(metric: &str) -> String {
    format!("{}{SLOW}", stem(metric))
}

/// The metrics whose slow traces may have this name, the usual one first.
#[must_use]
pub fn metric_names(slow: &str) -> Option<[String; 2]> {
    let stem = slow.strip_suffix(SLOW)?;
    Some([format!("{stem}{SECONDS}"), stem.to_owned()])
}

/// The labels of the series of slow traces for this histogram: its own, or those of the total of its path.
#[must_use]
pub fn slow_labels(histogram: &Labels) -> [Labels; 2] {
    let own = histogram.with(METRIC_NAME, &slow_name(histogram.metric_name()));
    let mut total = own.clone();
    match histogram.get(STAGE) {
        "" | TOTAL => {}
        BETWEEN => total = total.with(MARK, "").with(STAGE, TOTAL),
        GAP => total = total.with(PUBLISHER, "").with(STAGE, TOTAL),
        _ => total = total.with(CLASS, "").with(STAGE, TOTAL),
    }
    [own, total]
}

/// The labels of the histogram that a slow trace explains, under this metric.
#[must_use]
pub fn histogram_labels(slow: &Labels, metric: &str) -> Labels {
    slow.with(METRIC_NAME, metric)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        Labels::new(pairs.iter().copied()).unwrap()
    }

    #[test]
    fn every_series_of_a_path_leads_to_the_slow_traces_of_its_total() {
        let check = |own: &[(&str, &str)], expected: &[(&str, &str)]| {
            let histogram = labels(&[own, &[("__name__", "order_path_seconds"), ("host", "a")]].concat());
            let wanted = labels(&[expected, &[("__name__", "order_path_slow"), ("host", "a")]].concat());
            assert!(slow_labels(&histogram).contains(&wanted), "{histogram} to {:?}", slow_labels(&histogram));
        };
        let total: &[(&str, &str)] = &[("stage", "total")];
        check(total, total);
        check(&[("stage", "journal"), ("class", "infra")], total);
        check(&[("stage", "class:logic")], total);
        check(&[("stage", "gap"), ("publisher", "feed 1")], total);
        check(&[("stage", "between"), ("mark", "publish")], total);
        // A histogram that is not of a path is explained by texts with its own labels.
        check(&[], &[]);
        check(&[("stage", "parse")], &[("stage", "parse")]);
        // The publisher of anything but a gap is the user's own label.
        check(&[("stage", "total"), ("publisher", "x")], &[("stage", "total"), ("publisher", "x")]);
    }

    #[test]
    fn names_go_there_and_back() {
        for metric in ["order_path_seconds", "order_path"] {
            let slow = slow_name(metric);
            assert_eq!(slow, "order_path_slow");
            assert!(metric_names(&slow).unwrap().contains(&metric.to_owned()));
        }
        assert_eq!(metric_names("order_path_seconds"), None);
        let slow = labels(&[("__name__", "order_path_slow"), ("stage", "total")]);
        let histogram = histogram_labels(&slow, "order_path_seconds");
        assert_eq!(slow_labels(&histogram)[0], slow);
    }
}
