//! One line a figure.

/// Prints a figure and the bar beside it.
pub(crate) fn row(name: &str, value: f64, bar: &str) {
    let value = if value.is_infinite() {
        "not found".to_owned()
    } else if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.3}")
    };
    println!("{name:<78} {value:>12}  {bar}");
}

/// The value at `q`, by rank; infinite when there is none.
pub(crate) fn quantile(values: &mut [f64], q: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let at = (values.len() as f64 * q).ceil() as usize;
    values.get(at.saturating_sub(1)).copied().unwrap_or(f64::INFINITY)
}
