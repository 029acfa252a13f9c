//! Lines that describe a series: labels, points and start times.

use ogive_model::{Labels, MatchOp};
use ogive_query::ast::ExprKind;

use super::points::{self, Point};

/// A line of `load` or of an expectation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SeriesLine {
    pub(crate) labels: Labels,
    pub(crate) points: Vec<Point>,
    /// Whether the line holds start times (`@st`) of the series, in milliseconds relative to their points.
    pub(crate) starts: Option<Vec<Option<i64>>>,
}

/// Reads `metric{l="v"} points` or `metric{l="v"}@st offsets`.
pub(crate) fn series_line(line: &str) -> Result<SeriesLine, String> {
    let end = metric_length(line)?;
    let labels = labels(line[..end].trim())?;
    let rest = &line[end..];
    if let Some(offsets) = rest.strip_prefix("@st") {
        return Ok(SeriesLine { labels, points: Vec::new(), starts: Some(start_offsets(offsets)?) });
    }
    if !rest.is_empty() && !rest.starts_with([' ', '\t']) {
        return Err(format!("{rest:?} right behind the labels"));
    }
    Ok(SeriesLine { labels, points: points::parse(rest)?, starts: None })
}

/// Bytes of the metric's name and the braces.
fn metric_length(line: &str) -> Result<usize, String> {
    let name = line.find([' ', '\t', '{', '@']).unwrap_or(line.len());
    let blanks = line[name..].len() - line[name..].trim_start().len();
    let open = &line[name + blanks..];
    if !open.starts_with('{') || open.starts_with("{{") {
        return if name == 0 { Err("no metric".to_owned()) } else { Ok(name) };
    }
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in open.char_indices() {
        match quote {
            _ if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            None if c == '"' || c == '\'' => quote = Some(c),
            None if c == '}' => return Ok(name + blanks + at + 1),
            _ => {}
        }
    }
    Err("braces without their end".to_owned())
}

/// Labels as a selector writes them.
fn labels(text: &str) -> Result<Labels, String> {
    // A matcher that must match keeps the parser content when there are no labels.
    let braces = text.ends_with('}');
    let inner = if braces { &text[..text.len() - 1] } else { text };
    let separator = if inner.ends_with('{') || inner.ends_with(',') { "" } else { "," };
    let selector = if braces { format!("{inner}{separator}____=\"x\"}}") } else { format!("{text}{{____=\"x\"}}") };
    let expr = ogive_query::parse(&selector).map_err(|error| error.to_string())?;
    let ExprKind::VectorSelector(selector) = expr.kind else { return Err("not a series".to_owned()) };
    if selector.matchers.iter().any(|matcher| matcher.op != MatchOp::Equal) {
        return Err("a series has labels, not conditions".to_owned());
    }
    let pairs = selector.matchers.into_iter().filter(|matcher| matcher.name != "____");
    Labels::new(pairs.map(|matcher| (matcher.name, matcher.value))).map_err(|error| error.to_string())
}

/// Milliseconds relative to each point, None where there is no start time.
fn start_offsets(text: &str) -> Result<Vec<Option<i64>>, String> {
    let mut out = Vec::new();
    for token in text.split_whitespace() {
        if token == "_" {
            out.push(None);
        } else if let Some(count) = token.strip_prefix("_x") {
            let count = count.parse::<usize>().map_err(|error| error.to_string())?;
            out.extend(vec![None; count]);
        } else {
            let values = points::numbers(token, |number| millis(number).map(|value| value as f64))?;
            out.extend(values.into_iter().map(|value| Some(value as i64)));
        }
    }
    Ok(out)
}

/// Milliseconds of a duration or of a number of seconds, of either sign.
pub(crate) fn millis(text: &str) -> Result<i64, String> {
    let (sign, size) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let expr = ogive_query::parse(size).map_err(|error| error.to_string())?;
    let ExprKind::Number(number) = expr.kind else { return Err(format!("{text:?} is not a duration")) };
    Ok(sign * (number.value * 1000.0).round() as i64)
}
