//! How a slow trace finds the histograms that it explains, and they it.
//!
//! Format: a path is measured under one metric `M`: `M{stage="total"}`, `M{stage="<point>",class="infra|logic"}`,
//! `M{stage="class:infra"}`, `M{stage="class:logic"}` and `M{stage="gap",publisher=".."}`, each with the user's labels. Its
//! slow traces are texts of the series named `M` without `_seconds` and with `_slow`, with the labels of the total, at the
//! time of the cell that counted them. So the same labels and the same cell: only `__name__` differs.

use ogive_model::{Labels, METRIC_NAME};

/// The end of the name of a series of slow traces.
pub(crate) const SLOW: &str = "_slow";

const SECONDS: &str = "_seconds";
/// Names of the labels of a path.
pub(crate) const STAGE: &str = "stage";
pub(crate) const CLASS: &str = "class";
pub(crate) const PUBLISHER: &str = "publisher";

/// The stage that is the whole way.
pub(crate) const TOTAL: &str = "total";

/// The stage between two messages.
pub(crate) const GAP: &str = "gap";

/// The sums of the stages of a class.
pub(crate) const CLASS_INFRA: &str = "class:infra";
pub(crate) const CLASS_LOGIC: &str = "class:logic";

/// The name of the slow traces of a metric.
pub(crate) fn slow_name(metric: &str) -> String {
    format!("{}{SLOW}", metric.strip_suffix(SECONDS).unwrap_or(metric))
}

/// The metrics whose slow traces may have this name, the usual one first.
pub(crate) fn metric_names(slow: &str) -> Option<[String; 2]> {
    let stem = slow.strip_suffix(SLOW)?;
    Some([format!("{stem}{SECONDS}"), stem.to_owned()])
}

/// The labels that a series of slow traces of this histogram has: its own, or those of the total of its path.
pub(crate) fn slow_labels(histogram: &Labels) -> [Labels; 2] {
    let own = histogram.with(METRIC_NAME, &slow_name(histogram.metric_name()));
    let mut total = own.clone();
    match histogram.get(STAGE) {
        "" | TOTAL => {}
        GAP => total = total.with(PUBLISHER, "").with(STAGE, TOTAL),
        _ => total = total.with(CLASS, "").with(STAGE, TOTAL),
    }
    [own, total]
}

/// The labels of the histogram that a slow trace explains, under this metric.
pub(crate) fn histogram_labels(slow: &Labels, metric: &str) -> Labels {
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
