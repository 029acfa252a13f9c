//! Explicit bounds: bin `i` holds `(bounds[i-1], bounds[i]]`.

/// The bin of a value that is not NaN.
#[must_use]
pub(crate) fn index(bounds: &[f64], value: f64) -> i32 {
    bounds.partition_point(|bound| *bound < value) as i32
}

/// The edges of bin `index`; minus and plus infinity outside the bounds.
#[must_use]
pub(crate) fn edges(bounds: &[f64], index: i32) -> (f64, f64) {
    let at = |i: i64| usize::try_from(i).ok().and_then(|i| bounds.get(i)).copied();
    let index = i64::from(index);
    let low = if index <= 0 { f64::NEG_INFINITY } else { at(index - 1).unwrap_or(f64::INFINITY) };
    let high = if index < 0 { f64::NEG_INFINITY } else { at(index).unwrap_or(f64::INFINITY) };
    (low, high)
}

/// The middle of a bin; its finite edge where the other is infinite.
#[must_use]
pub(crate) fn midpoint(bounds: &[f64], index: i32) -> f64 {
    match edges(bounds, index) {
        (low, high) if low.is_finite() && high.is_finite() => low + (high - low) / 2.0,
        (low, _) if low.is_finite() => low,
        (_, high) if high.is_finite() => high,
        _ => 0.0,
    }
}

/// The first bound that is not finite or not above the one before it.
#[must_use]
pub(crate) fn first_bad_bound(bounds: &[f64]) -> Option<usize> {
    (0..bounds.len()).find(|&i| !bounds[i].is_finite() || (i > 0 && bounds[i - 1] >= bounds[i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_closed_at_the_upper_bound() {
        let bounds = [0.1, 0.5, 1.0];
        for (value, expected) in
            [(f64::NEG_INFINITY, 0), (-3.0, 0), (0.1, 0), (0.2, 1), (0.5, 1), (1.0, 2), (1.1, 3), (f64::INFINITY, 3)]
        {
            assert_eq!(index(&bounds, value), expected, "{value}");
        }
        assert_eq!(index(&[], 5.0), 0);
        assert_eq!(edges(&bounds, 0), (f64::NEG_INFINITY, 0.1));
        assert_eq!(edges(&bounds, 2), (0.5, 1.0));
        assert_eq!(edges(&bounds, 3), (1.0, f64::INFINITY));
        assert_eq!(edges(&[], 0), (f64::NEG_INFINITY, f64::INFINITY));
        assert_eq!((midpoint(&bounds, 0), midpoint(&bounds, 2), midpoint(&bounds, 3)), (0.1, 0.75, 1.0));
    }

    #[test]
    fn bad_bounds_are_found() {
        assert_eq!(first_bad_bound(&[1.0, 2.0]), None);
        assert_eq!(first_bad_bound(&[1.0, 1.0]), Some(1));
        assert_eq!(first_bad_bound(&[f64::NAN]), Some(0));
        assert_eq!(first_bad_bound(&[1.0, f64::INFINITY]), Some(1));
    }
}
