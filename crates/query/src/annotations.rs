//! Warnings and infos that accompany an answer.
//!
//! Invariants: of annotations with equal level and message the newest position is kept, in the place of the first, as
//! in Prometheus.

use std::collections::HashMap;

use crate::ast::Span;
use ogive_model::float::general;
use ogive_text::calendar::rfc3339;

use crate::eval::general_to;

/// How serious an annotation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// The result may be wrong.
    Warning,
    /// The result is right, but may be surprising.
    Info,
}

/// One annotation of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Annotation {
    /// How serious.
    pub level: Level,
    /// The message without prefix and position.
    pub message: String,
    /// The part of the query that it is about; None when it is about no part of the text.
    pub span: Option<Span>,
    /// Totals over all annotations with the same message.
    pub tally: Option<Tally>,
}

/// What is totalled over annotations with equal messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tally {
    /// How often it happened.
    Occurrences(usize),
    /// What was repaired.
    Repairs(Repairs),
}

impl Tally {
    fn add(&mut self, other: &Self) {
        match (self, other) {
            (Self::Occurrences(count), Self::Occurrences(more)) => *count += more,
            (Self::Repairs(repairs), Self::Repairs(more)) => repairs.add(more),
            _ => {}
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Occurrences(0 | 1) => String::new(),
            Self::Occurrences(count) => format!(" ({count} occurrences)"),
            Self::Repairs(repairs) => repairs.text(),
        }
    }
}

/// Repairs of classic histograms whose counts fell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Repairs {
    /// First and last instant, milliseconds.
    pub times: (i64, i64),
    /// Lowest and highest bound with a count below that of the bound before it.
    pub bounds: (f64, f64),
    /// Greatest fall.
    pub difference_max: f64,
    /// Histograms repaired.
    pub count: usize,
}

impl Repairs {
    fn add(&mut self, other: &Self) {
        self.times = (self.times.0.min(other.times.0), self.times.1.max(other.times.1));
        self.bounds = (self.bounds.0.min(other.bounds.0), self.bounds.1.max(other.bounds.1));
        self.difference_max = self.difference_max.max(other.difference_max);
        self.count += other.count;
    }

    fn text(&self) -> String {
        let (low, high) = (general(self.bounds.0), general(self.bounds.1));
        let (from, to) = (rfc3339(self.times.0), rfc3339(self.times.1));
        let (difference, count) = (general_to(self.difference_max, 2), self.count);
        format!(
            ", from buckets {low} to {high}, with a max diff of {difference}, over {count} samples from {from} to {to}"
        )
    }
}

impl Annotation {
    /// A warning about the expression at `span`.
    #[must_use]
    pub fn warning(span: Span, message: impl Into<String>) -> Self {
        Self { level: Level::Warning, message: message.into(), span: Some(span), tally: None }
    }

    /// An info about the expression at `span`.
    #[must_use]
    pub fn info(span: Span, message: impl Into<String>) -> Self {
        Self { level: Level::Info, message: message.into(), span: Some(span), tally: None }
    }

    /// As an API reports it: `PromQL warning: message (1:5)`.
    #[must_use]
    pub fn text(&self, query: &str) -> String {
        let prefix = match self.level {
            Level::Warning => "PromQL warning",
            Level::Info => "PromQL info",
        };
        let tally = self.tally.as_ref().map(Tally::text).unwrap_or_default();
        let place = self.span.map(|span| span.line_column(query));
        let place = place.map(|(line, column)| format!(" ({line}:{column})")).unwrap_or_default();
        format!("{prefix}: {}{tally}{place}", self.message)
    }
}

/// A set of annotations that keeps their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Annotations {
    list: Vec<Annotation>,
    places: HashMap<(Level, String), usize>,
}

impl Annotations {
    /// No annotations.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one. If there is one with an equal message, its tally grows, or else its span is replaced.
    pub fn add(&mut self, annotation: Annotation) {
        let key = (annotation.level, annotation.message.clone());
        let Some(place) = self.places.get(&key) else {
            self.places.insert(key, self.list.len());
            self.list.push(annotation);
            return;
        };
        let known = &mut self.list[*place];
        match (&mut known.tally, &annotation.tally) {
            // The totals keep the position of the first.
            (Some(known), Some(more)) => known.add(more),
            _ => known.span = annotation.span,
        }
    }

    /// Adds those of `other`.
    pub fn merge(&mut self, other: Self) {
        for annotation in other.list {
            self.add(annotation);
        }
    }

    /// All, in the order they were added.
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
        set.add(Annotation::warning(Span::new(1, 2), "odd"));
        set.add(Annotation::warning(Span::new(12, 17), "odd"));
        set.add(Annotation::info(Span::new(0, 3), "fine"));
        assert_eq!(set.texts(Level::Warning, query), ["PromQL warning: odd (2:8)"]);
        assert_eq!(set.texts(Level::Info, query), ["PromQL info: fine (1:1)"]);
    }

    #[test]
    fn repairs_add_up() {
        let repairs = |time, bound, difference| Repairs {
            times: (time, time),
            bounds: (bound, bound),
            difference_max: difference,
            count: 1,
        };
        let mut set = Annotations::new();
        for repairs in [repairs(60_000, 2.5, 0.125), repairs(1_700_000_000_000, f64::INFINITY, 12.5)] {
            set.add(Annotation { tally: Some(Tally::Repairs(repairs)), ..Annotation::info(Span::new(0, 1), "fixed") });
        }
        let expected = "PromQL info: fixed, from buckets 2.5 to +Inf, with a max diff of 12, over 2 samples from \
                        1970-01-01T00:01:00Z to 2023-11-14T22:13:20Z (1:1)";
        assert_eq!(set.texts(Level::Info, "x"), [expected]);
    }

    #[test]
    fn occurrences_are_reported_from_two_on() {
        let mut set = Annotations::new();
        let once = Annotation { tally: Some(Tally::Occurrences(1)), ..Annotation::warning(Span::new(0, 1), "odd") };
        set.add(once.clone());
        assert_eq!(set.texts(Level::Warning, "x"), ["PromQL warning: odd (1:1)"]);
        set.add(once);
        assert_eq!(set.texts(Level::Warning, "x"), ["PromQL warning: odd (2 occurrences) (1:1)"]);
    }
}
