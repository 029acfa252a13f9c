//! Warnings and infos that come with an answer.
//!
//! Invariants: equal annotations (level, message and position) are kept once, in the order they came.

use crate::ast::Span;

/// How serious an annotation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// The answer may be wrong.
    Warning,
    /// The answer is right, but may surprise.
    Info,
}

/// One remark about an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Annotation {
    /// How serious.
    pub level: Level,
    /// The message without prefix and position.
    pub message: String,
    /// What it is about; None when no place in the text is.
    pub span: Option<Span>,
}

impl Annotation {
    /// A warning about the expression at `span`.
    #[must_use]
    pub fn warning(span: Span, message: impl Into<String>) -> Self {
        Self { level: Level::Warning, message: message.into(), span: Some(span) }
    }

    /// An info about the expression at `span`.
    #[must_use]
    pub fn info(span: Span, message: impl Into<String>) -> Self {
        Self { level: Level::Info, message: message.into(), span: Some(span) }
    }

    /// As an API shows it: `PromQL warning: message (1:5)`.
    #[must_use]
    pub fn text(&self, query: &str) -> String {
        let prefix = match self.level {
            Level::Warning => "PromQL warning",
            Level::Info => "PromQL info",
        };
        match self.span {
            Some(span) => {
                let (line, column) = span.line_column(query);
                format!("{prefix}: {} ({line}:{column})", self.message)
            }
            None => format!("{prefix}: {}", self.message),
        }
    }
}

/// A set of annotations that keeps their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    list: Vec<Annotation>,
    seen: std::collections::HashSet<Annotation>,
}

impl Annotations {
    /// No annotations.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one unless it is there.
    pub fn add(&mut self, annotation: Annotation) {
        if self.seen.insert(annotation.clone()) {
            self.list.push(annotation);
        }
    }

    /// Adds those of `other`.
    pub fn merge(&mut self, other: Self) {
        for annotation in other.list {
            self.add(annotation);
        }
    }

    /// All, in the order they came.
    pub fn iter(&self) -> impl Iterator<Item = &Annotation> {
        self.list.iter()
    }

    /// True when there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The texts of one level.
    #[must_use]
    pub fn texts(&self, level: Level, query: &str) -> Vec<String> {
        self.list.iter().filter(|annotation| annotation.level == level).map(|a| a.text(query)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_end_with_the_position_and_come_once() {
        let query = "sum(\n  rate(x[5m]))";
        let mut set = Annotations::new();
        set.add(Annotation::warning(Span::new(12, 17), "odd"));
        set.add(Annotation::warning(Span::new(12, 17), "odd"));
        set.add(Annotation::info(Span::new(0, 3), "fine"));
        assert_eq!(set.texts(Level::Warning, query), ["PromQL warning: odd (2:8)"]);
        assert_eq!(set.texts(Level::Info, query), ["PromQL info: fine (1:1)"]);
    }
}
