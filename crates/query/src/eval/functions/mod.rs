//! Kernels of functions: their effect on one window, one number or one row.

mod counter;
mod exact;
mod extended;
mod histogram;
mod labels;
mod over_time;
mod rate;
mod rolled;
mod scalars;
mod shape;
mod site;

pub(crate) use counter::Kind as RateKind;
pub(crate) use extended::extended_floats;
pub(crate) use labels::{anchored_regex, by_labels, by_value, joined, replaced, with_label};
pub(crate) use rate::{Coverage, Trace, traced_rate};
pub(crate) use scalars::{date_part, float_map, greater, lesser};
pub(crate) use site::{RangeKernel, Site};

/// The kernel of a range function over floats of a rollup, where it differs from that over samples.
pub(crate) fn rolled_kernel(name: &str) -> Option<RangeKernel> {
    Some(match name {
        "avg_over_time" => rolled::avg,
        "count_over_time" => rolled::count,
        "delta" => rolled::delta,
        "first_over_time" => rolled::first,
        "increase" => rolled::increase,
        "max_over_time" => rolled::max,
        "min_over_time" => rolled::min,
        "rate" => rolled::rate,
        "sum_over_time" => rolled::sum,
        "ts_of_first_over_time" => rolled::time_of_first,
        _ => return None,
    })
}

/// The kernel of the range function called `name`.
pub(crate) fn range_kernel(name: &str) -> Option<RangeKernel> {
    Some(match name {
        "avg_over_time" => over_time::avg,
        "changes" => over_time::changes,
        "count_over_time" => over_time::count,
        "delta" => rate::delta,
        "deriv" => over_time::deriv,
        "double_exponential_smoothing" => over_time::double_exponential_smoothing,
        "first_over_time" => over_time::first,
        "idelta" => rate::idelta,
        "increase" => rate::increase,
        "irate" => rate::irate,
        "last_over_time" => over_time::last,
        "mad_over_time" => over_time::mad,
        "max_over_time" => over_time::max,
        "min_over_time" => over_time::min,
        "predict_linear" => over_time::predict_linear,
        "presence" => exact::presence,
        "present_over_time" => over_time::present,
        "quantile_over_time" => over_time::quantile,
        "rate" => rate::rate,
        "resets" => over_time::resets,
        "stddev_over_time" => over_time::stddev,
        "stdvar_over_time" => over_time::stdvar,
        "sum_over_time" => over_time::sum,
        "ts_of_first_over_time" => over_time::time_of_first,
        "ts_of_last_over_time" => over_time::time_of_last,
        "ts_of_max_over_time" => over_time::time_of_max,
        "ts_of_min_over_time" => over_time::time_of_min,
        _ => return None,
    })
}
