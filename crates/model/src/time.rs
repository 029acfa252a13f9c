//! Instants and spans, each in its unit and on its clock, so that the compiler keeps them apart.
//!
//! Invariants: the difference of two instants of one clock is a span; an instant and a span make an instant; two
//! instants do not add up, and neither do milliseconds and nanoseconds. A conversion to a coarser unit rounds down, as
//! cells do: what happened within a millisecond is of that millisecond, before 1970 too.
//! Failure: `+` and `-` overflow as integers do; times from outside go through the `saturating_` and `checked_` forms.
//!
//! The integer inside is public: stored bytes, columns of samples and inner loops hold plain integers, and convert
//! where they meet the rest (docs/decisions/time-types.md).

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Rem, Sub, SubAssign};
use std::time::Duration;

use serde::{Deserialize, Serialize};

const NS_PER_MS: i64 = 1_000_000;

/// A span of milliseconds, which may be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ms(pub i64);

/// A span of nanoseconds, which may be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ns(pub i64);

/// An instant of the wall clock: milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WallMs(pub i64);

/// An instant of the wall clock: nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WallNs(pub i64);

/// An instant of a clock that never falls: nanoseconds since an instant that only this clock knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MonoNs(pub u64);

/// What the spans have in common.
macro_rules! span {
    ($span:ident, $unit:literal, $whole:ident, $from_duration:ident) => {
        impl $span {
            /// None.
            pub const ZERO: Self = Self(0);
            /// The longest.
            pub const MAX: Self = Self(i64::MAX);

            /// The sum, or the longest span of its sign.
            #[must_use]
            pub const fn saturating_add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }

            /// The difference, or the longest span of its sign.
            #[must_use]
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }

            /// `factor` times the span, or the longest span of its sign.
            #[must_use]
            pub const fn saturating_mul(self, factor: i64) -> Self {
                Self(self.0.saturating_mul(factor))
            }

            /// Its length without its sign, or the longest.
            #[must_use]
            pub const fn saturating_abs(self) -> Self {
                Self(self.0.saturating_abs())
            }

            /// As a duration; a negative span is none.
            #[must_use]
            pub const fn to_duration(self) -> Duration {
                Duration::$from_duration(if self.0 < 0 { 0 } else { self.0.cast_unsigned() })
            }
        }

        impl From<Duration> for $span {
            /// Rounded down; the longest span where it does not fit.
            fn from(duration: Duration) -> Self {
                Self(i64::try_from(duration.$whole()).unwrap_or(i64::MAX))
            }
        }

        impl fmt::Display for $span {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, concat!("{} ", $unit), self.0)
            }
        }

        impl Add for $span {
            type Output = Self;

            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl AddAssign for $span {
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }

        impl Sub for $span {
            type Output = Self;

            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }

        impl SubAssign for $span {
            fn sub_assign(&mut self, other: Self) {
                *self = *self - other;
            }
        }

        impl Mul<i64> for $span {
            type Output = Self;

            fn mul(self, factor: i64) -> Self {
                Self(self.0 * factor)
            }
        }

        impl Div<i64> for $span {
            type Output = Self;

            fn div(self, divisor: i64) -> Self {
                Self(self.0 / divisor)
            }
        }

        impl Div for $span {
            type Output = i64;

            /// How many times `other` fits.
            fn div(self, other: Self) -> i64 {
                self.0 / other.0
            }
        }

        impl Rem for $span {
            type Output = Self;

            fn rem(self, other: Self) -> Self {
                Self(self.0 % other.0)
            }
        }

        impl Sum for $span {
            fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
                all.fold(Self::ZERO, Add::add)
            }
        }
    };
}

/// What the instants of the wall clock have in common.
macro_rules! wall {
    ($instant:ident, $span:ident, $unit:literal) => {
        impl $instant {
            /// Before every other.
            pub const MIN: Self = Self(i64::MIN);
            /// After every other.
            pub const MAX: Self = Self(i64::MAX);

            /// From `earlier` on; the longest span of its sign where it does not fit.
            #[must_use]
            pub const fn since(self, earlier: Self) -> $span {
                $span(self.0.saturating_sub(earlier.0))
            }

            /// Later by `span`, or the last instant there is (the first, when it is negative).
            #[must_use]
            pub const fn saturating_add(self, span: $span) -> Self {
                Self(self.0.saturating_add(span.0))
            }

            /// Earlier by `span`, or the first instant there is (the last, when it is negative).
            #[must_use]
            pub const fn saturating_sub(self, span: $span) -> Self {
                Self(self.0.saturating_sub(span.0))
            }

            /// Later by `span`.
            #[must_use]
            pub const fn checked_add(self, span: $span) -> Option<Self> {
                match self.0.checked_add(span.0) {
                    Some(sum) => Some(Self(sum)),
                    None => None,
                }
            }

            /// Earlier by `span`.
            #[must_use]
            pub const fn checked_sub(self, span: $span) -> Option<Self> {
                match self.0.checked_sub(span.0) {
                    Some(difference) => Some(Self(difference)),
                    None => None,
                }
            }

            /// The last multiple of `width` since the epoch that is not after it.
            ///
            /// # Panics
            /// When `width` is not above zero.
            #[must_use]
            pub const fn align_down(self, width: $span) -> Self {
                assert!(width.0 > 0, "instants are aligned to a width above zero");
                Self(self.0.div_euclid(width.0).saturating_mul(width.0))
            }

            /// The first multiple of `width` since the epoch that is not before it.
            ///
            /// # Panics
            /// When `width` is not above zero.
            #[must_use]
            pub const fn align_up(self, width: $span) -> Self {
                assert!(width.0 > 0, "instants are aligned to a width above zero");
                let further = if self.0.rem_euclid(width.0) == 0 { 0 } else { 1 };
                Self((self.0.div_euclid(width.0) + further).saturating_mul(width.0))
            }
        }

        impl fmt::Display for $instant {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, concat!("{} ", $unit, " since 1970"), self.0)
            }
        }

        impl Add<$span> for $instant {
            type Output = Self;

            fn add(self, span: $span) -> Self {
                Self(self.0 + span.0)
            }
        }

        impl AddAssign<$span> for $instant {
            fn add_assign(&mut self, span: $span) {
                *self = *self + span;
            }
        }

        impl Sub<$span> for $instant {
            type Output = Self;

            fn sub(self, span: $span) -> Self {
                Self(self.0 - span.0)
            }
        }

        impl SubAssign<$span> for $instant {
            fn sub_assign(&mut self, span: $span) {
                *self = *self - span;
            }
        }

        impl Sub for $instant {
            type Output = $span;

            fn sub(self, earlier: Self) -> $span {
                $span(self.0 - earlier.0)
            }
        }
    };
}

span!(Ms, "ms", as_millis, from_millis);
span!(Ns, "ns", as_nanos, from_nanos);
wall!(WallMs, Ms, "ms");
wall!(WallNs, Ns, "ns");

impl Ms {
    /// `seconds` whole seconds.
    #[must_use]
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000))
    }

    /// The longest span of which both are multiples, without a sign; none when both are none.
    #[must_use]
    pub const fn greatest_common(self, other: Self) -> Self {
        let (mut a, mut b) = (self.0.saturating_abs(), other.0.saturating_abs());
        while b != 0 {
            (a, b) = (b, a % b);
        }
        Self(a)
    }

    /// As nanoseconds; the longest span of its sign where it does not fit.
    #[must_use]
    pub const fn to_ns(self) -> Ns {
        Ns(self.0.saturating_mul(NS_PER_MS))
    }
}

impl From<u32> for Ms {
    /// The width of a cell, as it is stored.
    fn from(width_ms: u32) -> Self {
        Self(width_ms.into())
    }
}

impl Ns {
    /// `seconds` whole seconds.
    #[must_use]
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// As milliseconds, rounded down.
    #[must_use]
    pub const fn to_ms(self) -> Ms {
        Ms(self.0.div_euclid(NS_PER_MS))
    }
}

impl WallMs {
    /// As nanoseconds; the first or the last instant where it does not fit.
    #[must_use]
    pub const fn to_ns(self) -> WallNs {
        WallNs(self.0.saturating_mul(NS_PER_MS))
    }

    /// The second of the epoch that it is in.
    #[must_use]
    pub const fn to_secs(self) -> i64 {
        self.0.div_euclid(1_000)
    }
}

impl WallNs {
    /// The millisecond that it is in.
    #[must_use]
    pub const fn to_ms(self) -> WallMs {
        WallMs(self.0.div_euclid(NS_PER_MS))
    }
}

impl MonoNs {
    /// After every other.
    pub const MAX: Self = Self(u64::MAX);

    /// From `earlier` on; none when `earlier` is later, the longest span where it does not fit.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Ns {
        let passed = self.0.saturating_sub(earlier.0);
        Ns(if passed > i64::MAX.cast_unsigned() { i64::MAX } else { passed.cast_signed() })
    }

    /// Later by `span`, or the last instant there is (the first, when it is negative).
    #[must_use]
    pub const fn saturating_add(self, span: Ns) -> Self {
        Self(self.0.saturating_add_signed(span.0))
    }
}

impl fmt::Display for MonoNs {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ns of a clock that never falls", self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn instants_and_spans_are_consistent(at in any::<i64>(), span in any::<i64>(), other in any::<i64>()) {
            let (instant, later) = (WallMs(at), WallMs(at).saturating_add(Ms(span)));
            prop_assert_eq!(instant.checked_add(Ms(span)).is_none(), at.checked_add(span).is_none());
            if let Some(sum) = instant.checked_add(Ms(span)) {
                prop_assert_eq!(sum, later);
                prop_assert_eq!(sum, instant + Ms(span));
                prop_assert_eq!(sum.since(instant), Ms(span));
                prop_assert_eq!(sum.checked_sub(Ms(span)), Some(instant));
                prop_assert_eq!((sum - Ms(span), sum - instant), (instant, Ms(span)));
            }
            prop_assert_eq!(later >= instant, span >= 0);
            prop_assert_eq!(instant < WallMs(other), at < other);
            prop_assert_eq!(instant.since(WallMs(other)) > Ms::ZERO, at > other);
        }

        #[test]
        fn a_conversion_rounds_down(ns in any::<i64>(), ms in any::<i64>()) {
            let instant = WallNs(ns).to_ms();
            prop_assert!(instant.0 <= ns.div_euclid(1_000_000) && instant.to_ns() <= WallNs(ns).max(instant.to_ns()));
            // The first millisecond of all begins before the first nanosecond.
            if instant.0 > i64::MIN / 1_000_000 {
                prop_assert!((0..1_000_000).contains(&(WallNs(ns) - instant.to_ns()).0));
            }
            prop_assert_eq!(Ns(ns).to_ms().0, instant.0);
            if ms.checked_mul(1_000_000).is_some() {
                prop_assert_eq!((Ms(ms).to_ns().to_ms(), WallMs(ms).to_ns().to_ms()), (Ms(ms), WallMs(ms)));
            }
        }

        #[test]
        fn an_aligned_instant_is_the_last_or_the_next_multiple(at in any::<i32>(), width in 1..100_000_i64) {
            let (instant, width) = (WallMs(at.into()), Ms(width));
            let aligned = instant.align_down(width);
            prop_assert!(aligned <= instant && instant < aligned + width);
            prop_assert_eq!(Ms(aligned.0) % width, Ms::ZERO);
            let next = instant.align_up(width);
            prop_assert!(next >= instant && next - width < instant);
            prop_assert_eq!(Ms(next.0) % width, Ms::ZERO);
        }

        #[test]
        fn a_monotonic_clock_never_goes_back(at in any::<u64>(), span in 0..i64::MAX, other in any::<u64>()) {
            let later = MonoNs(at).saturating_add(Ns(span));
            prop_assert!(later >= MonoNs(at));
            prop_assert_eq!(later.since(MonoNs(at)) == Ns(span), at.checked_add(span.cast_unsigned()).is_some());
            prop_assert!(MonoNs(at).since(MonoNs(other)) >= Ns::ZERO);
        }

        #[test]
        fn durations_and_json_keep_them(span in 0..i64::MAX) {
            prop_assert_eq!(Ms::from(Ms(span).to_duration()), Ms(span));
            prop_assert_eq!(Ns::from(Ns(span).to_duration()), Ns(span));
            prop_assert_eq!(serde_json::to_string(&WallMs(-span)).unwrap(), (-span).to_string());
            prop_assert_eq!(serde_json::from_str::<WallMs>(&span.to_string()).unwrap(), WallMs(span));
        }
    }

    #[test]
    fn what_does_not_fit_is_the_longest_or_the_last() {
        assert_eq!(Ms::from(Duration::MAX), Ms::MAX);
        assert_eq!(Ms(-5).to_duration(), Duration::ZERO);
        assert_eq!(WallMs::MAX.saturating_add(Ms(1)), WallMs::MAX);
        assert_eq!(WallMs::MIN.since(WallMs::MAX), Ms(i64::MIN));
        assert_eq!(WallMs::MIN.to_ns(), WallNs::MIN);
        assert_eq!(MonoNs(5).since(MonoNs(7)), Ns::ZERO);
        assert_eq!(MonoNs::MAX.since(MonoNs(0)), Ns::MAX);
        assert_eq!(WallMs(-1).align_down(Ms(10)), WallMs(-10));
    }

    #[test]
    fn they_name_their_unit() {
        let all = [Ms(5).to_string(), Ns(-6).to_string(), WallMs(7).to_string(), WallNs(8).to_string()];
        assert_eq!(all, ["5 ms", "-6 ns", "7 ms since 1970", "8 ns since 1970"]);
        assert_eq!([Ms(1), Ms(2)].into_iter().sum::<Ms>(), Ms::from_secs(3) / 1000);
    }

    #[test]
    fn two_spans_have_a_greatest_common_one() {
        let check = |a: i64, b: i64, expected: i64| assert_eq!(Ms(a).greatest_common(Ms(b)), Ms(expected), "{a} {b}");
        check(60_000, 90_000, 30_000);
        check(60_000, -7_000, 1_000);
        check(0, -5, 5);
        check(5, 0, 5);
        check(0, 0, 0);
        check(i64::MIN, 1, 1);
    }
}
