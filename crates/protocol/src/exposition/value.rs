//! A histogram or summary written as one value, as in the draft of OpenMetrics 2.0: `{count:3,sum:1.5,schema:0,...}`.

use super::line::LineResult;
use super::number::number;
use crate::remote_write::{Counts, Number, Raw};

/// 65,536 bins, spans or bounds of one histogram, as in remote write.
const LIST_MAX: usize = 1 << 16;

/// A value in braces.
#[derive(Debug, Default)]
pub(super) struct Composite {
    /// How many there are.
    pub(super) count: f64,
    /// Their sum.
    pub(super) sum: f64,
    /// Upper bounds and how many are at or below each.
    pub(super) buckets: Option<Vec<(f64, f64)>>,
    /// Quantiles and their values.
    pub(super) quantiles: Option<Vec<(f64, f64)>>,
    native: Option<Raw>,
    /// Whether all counts are whole numbers.
    has_fractions: bool,
}

impl Composite {
    /// Reads `fields`, what stands between the braces.
    pub(super) fn read(fields: &str) -> LineResult<Self> {
        let (mut out, mut is_counted) = (Self::default(), false);
        let mut rest = fields;
        while !rest.is_empty() {
            let (name, after) = rest.split_once(':').ok_or("a field of a value in braces has no colon")?;
            let end = match after.strip_prefix('[') {
                Some(_) => after.find(']').ok_or("a list in a value is not closed")? + 1,
                None => after.find(',').unwrap_or(after.len()),
            };
            let (value, more) = after.split_at(end);
            rest = match more.strip_prefix(',') {
                Some("") => return Err("a comma stands before a closing brace"),
                Some(rest) => rest,
                None if more.is_empty() => "",
                None => return Err("fields of a value are not separated by a comma"),
            };
            is_counted |= name == "count";
            out.set(name, value)?;
        }
        if is_counted { Ok(out) } else { Err("a value in braces has no count") }
    }

    fn set(&mut self, name: &str, value: &str) -> LineResult<()> {
        match name {
            "count" => self.count = self.counted(value)?,
            "sum" => self.sum = number(value).ok_or("a sum is not a number")?,
            "bucket" => self.buckets = Some(pairs(value)?),
            "quantile" => self.quantiles = Some(pairs(value)?),
            _ => return self.set_native(name, value),
        }
        Ok(())
    }

    fn set_native(&mut self, name: &str, value: &str) -> LineResult<()> {
        let mut native = self.native.take().unwrap_or_default();
        match name {
            "schema" => native.schema = value.parse().map_err(|_| "a schema is not a whole number")?,
            "zero_threshold" => native.zero_threshold = number(value).ok_or("a zero threshold is not a number")?,
            "zero_count" => native.zero = Number::Float(self.counted(value)?),
            "negative_spans" => native.negative.spans = spans(value)?,
            "positive_spans" => native.positive.spans = spans(value)?,
            "negative_buckets" => native.negative.counts = self.counts(value)?,
            "positive_buckets" => native.positive.counts = self.counts(value)?,
            "custom_values" => native.bounds = numbers(value)?,
            _ => return Err("a field of a value in braces is not known"),
        }
        self.native = Some(native);
        Ok(())
    }

    fn counted(&mut self, text: &str) -> LineResult<f64> {
        let count = number(text).ok_or("a count is not a number")?;
        self.has_fractions |= count.fract() != 0.0 || text.contains(['.', 'e', 'E']);
        Ok(count)
    }

    fn counts(&mut self, text: &str) -> LineResult<Vec<f64>> {
        items(text)?.map(|item| self.counted(item)).collect()
    }

    /// The native histogram, where there is one.
    pub(super) fn native(&mut self, is_gauge: bool) -> Option<Result<Counts, &'static str>> {
        let mut native = self.native.take()?;
        native.sum = self.sum;
        native.count = Number::Float(self.count);
        native.reset = if is_gauge { 3 } else { 0 };
        let counts = [&native.negative.counts, &native.positive.counts];
        // Doubles are exact below 2^53.
        let is_exact = |count: &f64| (0.0..9e15).contains(count);
        if !self.has_fractions && is_exact(&self.count) && counts.into_iter().flatten().all(is_exact) {
            native.count = Number::Integer(self.count as u64);
            if let Number::Float(zero) = native.zero {
                native.zero = Number::Integer(zero as u64);
            }
            native.negative.make_whole();
            native.positive.make_whole();
        }
        Some(native.histogram())
    }
}

fn items(text: &str) -> LineResult<impl Iterator<Item = &str>> {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).ok_or("a list has no brackets")?;
    if inner.bytes().filter(|byte| *byte == b',').count() >= LIST_MAX {
        return Err("a list has more than 65,536 items");
    }
    Ok(inner.split(',').filter(move |_| !inner.is_empty()))
}

fn numbers(text: &str) -> LineResult<Vec<f64>> {
    items(text)?.map(|item| number(item).ok_or("an item of a list is not a number")).collect()
}

fn pairs(text: &str) -> LineResult<Vec<(f64, f64)>> {
    let pair = |item: &str| {
        let (key, value) = item.split_once(':')?;
        Some((number(key)?, number(value)?))
    };
    items(text)?.map(|item| pair(item).ok_or("an item of a list is not two numbers with a colon between")).collect()
}

fn spans(text: &str) -> LineResult<Vec<(i64, u64)>> {
    let span = |item: &str| {
        let (offset, length) = item.split_once(':')?;
        Some((offset.parse().ok()?, length.parse().ok()?))
    };
    items(text)?.map(|item| span(item).ok_or("a span is not two whole numbers with a colon between")).collect()
}
