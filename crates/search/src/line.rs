//! A line to be matched.

use std::cell::OnceCell;
use std::ops::ControlFlow;

use ogive_model::Labels;
use ogive_model::words::fold;

use crate::fields::each_field;

/// Fields of a line that were extracted by rules other than those of JSON and logfmt.
pub trait FieldSource: std::fmt::Debug {
    /// Passes each name with its value to `each`, until it breaks.
    fn each(&self, each: &mut dyn FnMut(&str, &str) -> ControlFlow<()>);
}

/// A line and the labels of its series. What queries need from it is computed once, on demand.
#[derive(Debug)]
pub struct Line<'l> {
    pub(crate) labels: &'l Labels,
    pub(crate) text: &'l str,
    fields: Option<&'l dyn FieldSource>,
    folded: OnceCell<String>,
}

impl<'l> Line<'l> {
    /// The line `text` of the series with `labels`.
    #[must_use]
    pub const fn new(labels: &'l Labels, text: &'l str) -> Self {
        Self { labels, text, fields: None, folded: OnceCell::new() }
    }

    /// The same with these fields instead of those of its text.
    #[must_use]
    pub fn with_fields(self, fields: &'l dyn FieldSource) -> Self {
        let Self { labels, text, folded, .. } = self;
        Self { labels, text, fields: Some(fields), folded }
    }

    pub(crate) fn each_field(&self, each: &mut dyn FnMut(&str, &str) -> ControlFlow<()>) {
        match self.fields {
            Some(fields) => fields.each(each),
            None => each_field(self.text, each),
        }
    }

    pub(crate) fn folded(&self) -> &str {
        self.folded.get_or_init(|| fold(self.text))
    }
}
