//! Functions of one number.

use crate::eval::kernel::Moment;

/// The function of one float called `name`.
pub(crate) fn float_map(name: &str) -> Option<fn(f64) -> f64> {
    Some(match name {
        "abs" => f64::abs,
        "acos" => f64::acos,
        "acosh" => f64::acosh,
        "asin" => f64::asin,
        "asinh" => f64::asinh,
        "atan" => f64::atan,
        "atanh" => f64::atanh,
        "ceil" => f64::ceil,
        "cos" => f64::cos,
        "cosh" => f64::cosh,
        "deg" => |value| value * 180.0 / std::f64::consts::PI,
        "exp" => f64::exp,
        "floor" => f64::floor,
        "ln" => f64::ln,
        "log10" => f64::log10,
        "log2" => f64::log2,
        "rad" => |value| value * std::f64::consts::PI / 180.0,
        "sgn" => |value| {
            if value > 0.0 {
                1.0
            } else if value < 0.0 {
                -1.0
            } else {
                value
            }
        },
        "sin" => f64::sin,
        "sinh" => f64::sinh,
        "sqrt" => f64::sqrt,
        "tan" => f64::tan,
        "tanh" => f64::tanh,
        _ => return None,
    })
}

/// The part of a date called `name`.
pub(crate) fn date_part(name: &str) -> Option<fn(Moment) -> i64> {
    Some(match name {
        "day_of_month" => |moment| moment.day,
        "day_of_week" => |moment| moment.weekday,
        "day_of_year" => |moment| moment.day_of_year,
        "days_in_month" => Moment::days_in_month,
        "hour" => |moment| moment.hour,
        "minute" => |moment| moment.minute,
        "month" => |moment| moment.month,
        "year" => |moment| moment.year,
        _ => return None,
    })
}

/// The greater; +Inf when either is, then NaN when either is.
pub(crate) fn greater(a: f64, b: f64) -> f64 {
    let infinite = a == f64::INFINITY || b == f64::INFINITY;
    if !infinite && (a.is_nan() || b.is_nan()) { f64::NAN } else { a.max(b) }
}

/// The lesser; -Inf when either is, then NaN when either is.
pub(crate) fn lesser(a: f64, b: f64) -> f64 {
    let infinite = a == f64::NEG_INFINITY || b == f64::NEG_INFINITY;
    if !infinite && (a.is_nan() || b.is_nan()) { f64::NAN } else { a.min(b) }
}
