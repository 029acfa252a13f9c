//! The text of a histogram, as used by `count_values`: `{count:3, sum:4, [-1,-0.5):1, (0.5,1]:2}`.

use std::fmt::Write;

use ogive_model::float::general;

use super::{Bucket, Hist, buckets, is_custom};

/// The text of `histogram`.
pub(crate) fn text(histogram: &Hist) -> String {
    let mut out = format!("{{count:{}, sum:{}", general(histogram.count), general(histogram.sum_or_estimate()));
    let mut write = |open: char, bucket: Bucket, close: char| {
        let Bucket { lower, upper, count, .. } = bucket;
        let _ = write!(out, ", {open}{},{}{close}:{}", general(lower), general(upper), general(count));
    };
    for bucket in buckets::negative(histogram).rev().filter(|bucket| bucket.count != 0.0) {
        write('[', bucket, ')');
    }
    if histogram.zero != 0.0 {
        let threshold = histogram.zero_threshold;
        write('[', Bucket { lower: -threshold, upper: threshold, count: histogram.zero, linear: true }, ']');
    }
    for bucket in buckets::positive(histogram).filter(|bucket| bucket.count != 0.0) {
        let first = is_custom(histogram) && bucket.lower == f64::NEG_INFINITY;
        write(if first { '[' } else { '(' }, bucket, ']');
    }
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    use ogive_hist::Scheme;

    use super::*;

    #[test]
    fn bins_are_listed_in_order() {
        let mut histogram = Hist::new(Scheme::Exp2 { scale: 0 });
        (histogram.count, histogram.sum, histogram.zero, histogram.zero_threshold) = (20.0, Some(10.0), 2.0, 0.001);
        histogram.positive = [(0, 1.0), (1, 2.0)].into_iter().collect();
        histogram.negative = [(0, 1.0), (1, 2.0)].into_iter().collect();
        let expected = "{count:20, sum:10, [-2,-1):2, [-1,-0.5):1, [-0.001,0.001]:2, (0.5,1]:1, (1,2]:2}";
        assert_eq!(text(&histogram), expected);
    }
}
