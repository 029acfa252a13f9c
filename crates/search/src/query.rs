//! A query, ready to be asked about lines.

use std::fmt;
use std::str::FromStr;

use ogive_model::{Matcher, Words};

use crate::error::Error;
use crate::expr::Expr;
use crate::line::Line;
use crate::parser;

/// A query for lines. The empty query matches every line.
#[derive(Clone, Debug)]
pub struct Query {
    expr: Expr,
}

impl Query {
    /// The query that `text` is.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        parser::parse(text).map(|expr| Self { expr })
    }

    /// Whether the line matches.
    #[must_use]
    pub fn matches(&self, line: &Line<'_>) -> bool {
        self.expr.matches(line)
    }

    /// The words that every line has that matches.
    #[must_use]
    pub fn words(&self) -> Words {
        self.expr.words()
    }

    /// The conditions that the labels of every line fulfil that matches.
    #[must_use]
    pub fn matchers(&self) -> Vec<Matcher> {
        self.expr.matchers()
    }

    /// Whether every line matches.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(&self.expr, Expr::All(parts) if parts.is_empty())
    }
}

impl FromStr for Query {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

/// In the query language.
impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.expr)
    }
}
