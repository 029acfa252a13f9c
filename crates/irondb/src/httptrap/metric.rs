//! One metric of a body, before it becomes samples.

use std::borrow::Cow;

use ogive_protocol::lines::Fault;

/// 32 levels of objects and lists, as the reference receiver has it for objects.
pub const DEPTH_MAX: usize = 32;

/// One metric, as the tree has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Metric<'a> {
    /// `_type`, if present.
    pub(super) kind: Option<Cow<'a, str>>,
    /// `_ts`, milliseconds.
    pub(super) time_ms: Option<Result<i64, Fault>>,
    /// `_fl`.
    pub(super) flags: Cow<'a, str>,
    /// Its values: one, or as many as the list of `_value` has.
    pub(super) values: Vec<Scalar<'a>>,
}

/// A JSON value that is neither an object nor a list.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar<'a> {
    Null,
    Number(f64),
    Text(Cow<'a, str>),
}

/// A number in a text.
pub(super) fn number(text: &str) -> Result<f64, Fault> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    match text.parse::<f64>() {
        Ok(number) if is_plain && number.is_finite() => Ok(number),
        _ => Err(Fault::Value),
    }
}
