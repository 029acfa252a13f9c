//! Small pure functions on numbers and texts.

mod natural;
mod numbers;
mod statistics;

pub(crate) use natural::natural_less;
pub(crate) use numbers::{general_to, parse_float};
pub(crate) use statistics::{FloatMean, FloatSum, Regression, kahan_add, quantile, variance};
