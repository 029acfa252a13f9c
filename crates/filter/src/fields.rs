//! The fields of one line, in two buffers that the next line uses again.
//!
//! Limits: [`FIELDS_MAX`] fields of a line, [`FIELDS_BYTES_MAX`] of their names and values; what is beyond is left out.

use std::ops::{ControlFlow, Range};

use ogive_model::Labels;
use ogive_search::{FieldSource, Line};

/// 256: crowded JSON records have a hundred.
pub const FIELDS_MAX: usize = 256;

/// 1 MiB: four times the longest line that is parsed, because the names of nested members repeat those of their
/// parents.
pub const FIELDS_BYTES_MAX: usize = 1 << 20;

/// Names and values, in the order of the line.
#[derive(Debug, Default)]
pub struct Fields {
    text: String,
    list: Vec<(Range<usize>, Range<usize>)>,
}

impl Fields {
    /// Forgets all.
    pub fn clear(&mut self) {
        self.text.clear();
        self.list.clear();
    }

    /// Number of fields.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds one, if there is room.
    pub fn push(&mut self, name: &str, value: &str) {
        if self.list.len() >= FIELDS_MAX || self.text.len() + name.len() + value.len() > FIELDS_BYTES_MAX {
            return;
        }
        let begin = self.text.len();
        self.text.push_str(name);
        let middle = self.text.len();
        self.text.push_str(value);
        self.list.push((begin..middle, middle..self.text.len()));
    }

    /// Leaves the first `count`.
    pub fn truncate(&mut self, count: usize) {
        self.list.truncate(count);
    }

    /// Each name with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> + '_ {
        self.list.iter().map(|(name, value)| (&self.text[name.clone()], &self.text[value.clone()]))
    }

    /// The value of the first field of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(found, _)| *found == name).map(|(_, value)| value)
    }
}

impl FieldSource for Fields {
    fn each(&self, each: &mut dyn FnMut(&str, &str) -> ControlFlow<()>) {
        for (name, value) in self.iter() {
            if each(name, value).is_break() {
                return;
            }
        }
    }
}

/// A line with these fields, or with those of its text where there are none.
pub(crate) fn line_with<'l>(labels: &'l Labels, text: &'l str, fields: &'l Fields) -> Line<'l> {
    let line = Line::new(labels, text);
    if fields.is_empty() { line } else { line.with_fields(fields) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_the_limits_is_left_out() {
        let mut fields = Fields::default();
        (0..=FIELDS_MAX).for_each(|at| fields.push("n", &at.to_string()));
        assert_eq!((fields.len(), fields.get("n")), (FIELDS_MAX, Some("0")));
        fields.clear();
        assert!(fields.is_empty() && fields.get("n").is_none());
        fields.push("large", &"x".repeat(FIELDS_BYTES_MAX - 5));
        fields.push("a", "");
        assert_eq!(fields.len(), 1);
    }
}
