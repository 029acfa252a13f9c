//! A line to be matched.

use std::cell::OnceCell;

use ogive_model::Labels;
use ogive_model::words::fold;

/// A line and the labels of its series. What queries need of it is made once, when they do.
#[derive(Debug)]
pub struct Line<'l> {
    pub(crate) labels: &'l Labels,
    pub(crate) text: &'l str,
    folded: OnceCell<String>,
}

impl<'l> Line<'l> {
    /// The line `text` of the series with `labels`.
    #[must_use]
    pub const fn new(labels: &'l Labels, text: &'l str) -> Self {
        Self { labels, text, folded: OnceCell::new() }
    }

    pub(crate) fn folded(&self) -> &str {
        self.folded.get_or_init(|| fold(self.text))
    }
}
