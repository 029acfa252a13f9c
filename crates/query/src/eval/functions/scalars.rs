//! Functions of one number.

use ogive_text::calendar::Moment;

/// The function of one float called `name`.
pub(crate) fn float_map(name: &str) -> Option<fn(f64) -> f64> {
    Some(match name {
        "abs" => f64::abs,
        "acos" => f64::acos,
        "acosh" => inverse_cosh,
        "asin" => f64::asin,
        "asinh" => inverse_sinh,
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

/// From here on, 1 is too small to change the square of an argument: 2^28.
const LARGE: f64 = 268_435_456.0;

/// The standard library squares or doubles its argument, which overflows long before the result does.
fn inverse_cosh(value: f64) -> f64 {
    if value > LARGE { value.ln() + std::f64::consts::LN_2 } else { value.acosh() }
}

/// As [`inverse_cosh`].
fn inverse_sinh(value: f64) -> f64 {
    if value.abs() > LARGE { (value.abs().ln() + std::f64::consts::LN_2).copysign(value) } else { value.asinh() }
}

/// The part of a date called `name`.
pub(crate) fn date_part(name: &str) -> Option<fn(Moment) -> i64> {
    Some(match name {
        "day_of_month" => |moment| moment.day,
        "day_of_week" => |moment| moment.weekday,
        "day_of_year" => |moment| moment.day_of_year,
        "days_in_month" => |moment| moment.days_in_month,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverse_hyperbolic_functions_have_values_wherever_their_answer_is_finite() {
        let check = |name: &str, value: f64, expected: f64| {
            let found = float_map(name).unwrap()(value);
            assert!((found - expected).abs() <= 1e-14 * expected.abs(), "{name}({value}) is {found}, not {expected}");
        };
        // ln(2 x), to all digits.
        for value in [3e8, 1e155, 1e308, f64::MAX] {
            let expected = value.ln() + std::f64::consts::LN_2;
            check("asinh", value, expected);
            check("asinh", -value, -expected);
            check("acosh", value, expected);
        }
        check("asinh", 1.0, 0.881_373_587_019_543);
        check("acosh", 2.0, 1.316_957_896_924_816_6);
        check("asinh", 1e-300, 1e-300);
        // The two formulas agree.
        let step = |name: &str| float_map(name).unwrap()(LARGE * 1.000_001) - float_map(name).unwrap()(LARGE);
        assert!((step("asinh") - 1e-6).abs() < 1e-9 && (step("acosh") - 1e-6).abs() < 1e-9);
        for name in ["asinh", "acosh"] {
            let map = float_map(name).unwrap();
            assert_eq!(map(f64::INFINITY), f64::INFINITY);
            assert!(map(f64::NAN).is_nan());
        }
        assert!(float_map("acosh").unwrap()(0.5).is_nan());
        assert_eq!(float_map("asinh").unwrap()(f64::NEG_INFINITY), f64::NEG_INFINITY);
        assert!(float_map("asinh").unwrap()(-0.0).is_sign_negative());
    }
}
