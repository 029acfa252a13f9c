//! Comparison of values as numbers: plain ones, and durations with a unit.

use std::cmp::Ordering;

use ogive_text::duration::DECIMAL_UNITS;

/// What an order compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Order {
    /// As written.
    pub(crate) const fn sign(self) -> &'static str {
        match self {
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }

    const fn holds(self, ordering: Ordering) -> bool {
        match self {
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

/// A number, or a duration in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Amount {
    number: f64,
    is_duration: bool,
}

impl Amount {
    /// The number that a text represents; None for anything else, including NaN.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let number = |text: &str| {
            let is_number = text.bytes().any(|b| b.is_ascii_digit()) && text.len() <= 64;
            is_number.then(|| text.parse::<f64>().ok()).flatten().filter(|number| number.is_finite())
        };
        if let Some(number) = number(text) {
            return Some(Self { number, is_duration: false });
        }
        let with_unit = |(unit, seconds): &(&str, f64)| Some(number(text.strip_suffix(unit)?)? * seconds);
        DECIMAL_UNITS.iter().find_map(with_unit).map(|number| Self { number, is_duration: true })
    }

    /// Whether `value order self` holds; a value of another kind never compares.
    pub(crate) fn compare(self, value: &str, order: Order) -> bool {
        let value = Self::parse(value).filter(|value| value.is_duration == self.is_duration);
        value.and_then(|value| value.number.partial_cmp(&self.number)).is_some_and(|ordering| order.holds(ordering))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_durations_compare_with_their_kind() {
        let check = |value: &str, order: Order, bound: &str, expected: bool| {
            let bound = Amount::parse(bound).unwrap();
            assert_eq!(bound.compare(value, order), expected, "{value} {} {bound:?}", order.sign());
        };
        check("500", Order::GreaterOrEqual, "500", true);
        check("500", Order::Greater, "500", false);
        check("-1.5e3", Order::Less, "0", true);
        check("1.2s", Order::Greater, "900ms", true);
        check("900µs", Order::LessOrEqual, "0.9ms", true);
        check("5", Order::Greater, "1ms", false);
        check("5ms", Order::Greater, "1", false);
        check("fast", Order::Less, "1", false);
        check("", Order::Less, "1", false);
    }

    #[test]
    fn what_is_no_number_is_none() {
        for text in ["", "s", "nan", "inf", "-", "1x", "1 s", "e5", "infinity", "NaN", "1e999"] {
            assert_eq!(Amount::parse(text), None, "{text}");
        }
    }
}
