//! `info`: labels of info metrics, joined on `instance` and `job`.
//!
//! The info metrics are those selected by the name matchers of the second argument; all that end in `_info` if there
//! are only negative matchers; `target_info` if there are none. Of several matching series of one info metric at an
//! instant, the one with the newest sample counts.

use std::collections::{BTreeMap, HashMap};

use ogive_model::{Labels, METRIC_NAME, MatchOp, Matcher, Memory};

use super::evaluator::Evaluator;
use super::functions::with_label;
use super::matching::Steps;
use super::rows::{Grid, Row, SAME_LABELSET};
use super::selectors::PickedField;
use super::shift::Shift;
use crate::Error;
use crate::ast::{Call, Edges, Expr, ExprKind, TimeShift, VectorSelector};
use crate::value::Point;

/// The info metric that is used when none is named.
const TARGET_INFO: &str = "target_info";
/// The labels that identify the subject of an info series.
const IDENTIFYING: [&str; 2] = ["instance", "job"];

impl Evaluator<'_> {
    /// The rows of the first argument with labels of matching info series.
    pub(crate) fn info(&mut self, call: &Call, grid: Grid) -> Result<Vec<Row>, Error> {
        let choice = Choice::from_selector(call.arguments.get(1))?;
        let shift = self.info_shift(&call.arguments[0])?;
        let rows = self.vector(&call.arguments[0], grid)?;
        let selector = VectorSelector {
            name: None,
            matchers: choice.names.iter().chain(&choice.data).cloned().collect(),
            shift: TimeShift::default(),
            edges: Edges::Plain,
        };
        let infos = self.picked_at(&selector, shift, grid, PickedField::Time)?;
        let sources = Sources::from_rows(&infos);
        let mut out = Combined {
            memory: std::sync::Arc::clone(&self.memory),
            rows: Vec::new(),
            at: HashMap::new(),
            filled: Vec::new(),
            steps: grid.count,
        };
        for row in &rows {
            self.check_cancelled()?;
            // An info series does not describe itself.
            let is_info = choice.names.iter().all(|matcher| matcher.matches(row.labels.metric_name()));
            for (step, cell) in row.cells.iter().enumerate() {
                let Some(point) = cell else { continue };
                let labels =
                    if is_info { Some(row.labels.clone()) } else { enriched(&row.labels, &sources, &choice, step)? };
                if let Some(labels) = labels {
                    out.put(labels, row.drop_name, step, point)?;
                }
            }
        }
        Ok(out.rows)
    }

    /// When the info series are read: like the first selector in `expr`, through the subqueries around it.
    fn info_shift(&self, expr: &Expr) -> Result<Shift, Error> {
        Ok(self.selector_shift(expr)?.unwrap_or(Shift { offset: 0, at: None }))
    }

    fn selector_shift(&self, expr: &Expr) -> Result<Option<Shift>, Error> {
        let own = match &expr.kind {
            ExprKind::VectorSelector(selector) => return self.shift(&selector.shift).map(Some),
            ExprKind::MatrixSelector(matrix) => return self.shift(&matrix.selector.shift).map(Some),
            ExprKind::Subquery(subquery) => Some(self.shift(&subquery.shift)?),
            _ => None,
        };
        let chain = expr.chain();
        let operands = chain
            .map(|chain| std::iter::once(chain.base).chain(chain.links.iter().map(|link| &link.0.right)).collect());
        for child in operands.unwrap_or_else(|| expr.children()) {
            let Some(inner) = self.selector_shift(child)? else { continue };
            return Ok(Some(match own {
                Some(own) if inner.at.is_none() => Shift { offset: inner.offset + own.offset, at: own.at },
                _ => inner,
            }));
        }
        Ok(None)
    }
}

/// Which info series are used, and which of their labels.
struct Choice {
    names: Vec<Matcher>,
    data: Vec<Matcher>,
}

impl Choice {
    fn from_selector(selector: Option<&Expr>) -> Result<Self, Error> {
        let matchers = match selector.map(|expr| &expr.unparenthesised().kind) {
            Some(ExprKind::VectorSelector(selector)) => selector.matchers.clone(),
            _ => Vec::new(),
        };
        let (mut names, data): (Vec<Matcher>, Vec<Matcher>) =
            matchers.into_iter().partition(|matcher| matcher.name == METRIC_NAME);
        let positive = |matcher: &Matcher| matches!(matcher.op, MatchOp::Equal | MatchOp::Regex);
        if names.is_empty() {
            names.push(name_matcher(MatchOp::Equal, TARGET_INFO)?);
        } else if !names.iter().any(positive) {
            names.push(name_matcher(MatchOp::Regex, ".+_info")?);
        }
        Ok(Self { names, data })
    }

    /// Whether `label` is wanted: all are when no data label is named.
    fn wants(&self, label: &str) -> bool {
        label != METRIC_NAME && (self.data.is_empty() || self.data.iter().any(|matcher| matcher.name == label))
    }
}

fn name_matcher(op: MatchOp, value: &str) -> Result<Matcher, Error> {
    Matcher::new(METRIC_NAME, op, value).map_err(Error::evaluate)
}

fn identity(labels: &Labels) -> Labels {
    labels.filtered(|name| IDENTIFYING.contains(&name))
}

/// Info rows by the subject that they describe, then by metric name. Their cells hold the times of their samples.
struct Sources<'a> {
    by_identity: HashMap<Labels, BTreeMap<String, Vec<&'a Row>>>,
}

impl<'a> Sources<'a> {
    fn from_rows(rows: &'a [Row]) -> Self {
        let mut by_identity: HashMap<Labels, BTreeMap<String, Vec<&Row>>> = HashMap::new();
        for row in rows {
            let metrics = by_identity.entry(identity(&row.labels)).or_default();
            metrics.entry(row.labels.metric_name().to_owned()).or_default().push(row);
        }
        Self { by_identity }
    }

    /// The newest info series of each metric about `labels` at `step`.
    fn about(&self, labels: &Labels, step: usize) -> Result<Vec<&'a Row>, Error> {
        let identity = identity(labels);
        // A row without identifying labels has no info series, even if an info series has none either.
        let metrics = if identity.is_empty() { None } else { self.by_identity.get(&identity) };
        let Some(metrics) = metrics else { return Ok(Vec::new()) };
        let mut out = Vec::new();
        for rows in metrics.values() {
            let mut newest: Option<(f64, &Row)> = None;
            for row in rows {
                let Some(Point::Float(time)) = row.cells[step] else { continue };
                match newest {
                    Some((other, existing)) if other == time => {
                        return Err(Error::evaluate(format!(
                            "found duplicate series for info metric: existing {} @ {time}, new {} @ {time}",
                            existing.labels, row.labels
                        )));
                    }
                    Some((other, _)) if other > time => {}
                    _ => newest = Some((time, row)),
                }
            }
            out.extend(newest.map(|(_, row)| row));
        }
        Ok(out)
    }
}

/// The labels of a row with those of the info series about it; None when the choice excludes the row.
fn enriched(labels: &Labels, sources: &Sources<'_>, choice: &Choice, step: usize) -> Result<Option<Labels>, Error> {
    let found = sources.about(labels, step)?;
    if found.is_empty() && !choice.data.iter().all(Matcher::matches_empty) {
        return Ok(None);
    }
    let mut added: BTreeMap<&str, &str> = BTreeMap::new();
    for info in found {
        for (name, value) in info.labels.iter().filter(|(name, _)| choice.wants(name)) {
            if added.get(name).is_some_and(|other| *other != value) {
                return Err(Error::evaluate(format!("conflicting label: {name}")));
            }
            if labels.get(name).is_empty() {
                added.insert(name, value);
            }
        }
    }
    added.into_iter().try_fold(labels.clone(), |labels, (name, value)| with_label(&labels, name, value)).map(Some)
}

/// Rows by their final labels.
struct Combined {
    memory: std::sync::Arc<Memory>,
    rows: Vec<Row>,
    at: HashMap<Labels, usize>,
    filled: Vec<Steps>,
    steps: usize,
}

impl Combined {
    fn put(&mut self, labels: Labels, drop_name: bool, step: usize, point: &Point) -> Result<(), Error> {
        let index = match self.at.get(&labels) {
            Some(index) => *index,
            None => {
                self.rows.push(Row::blank(&self.memory, labels.clone(), drop_name, self.steps)?);
                self.filled.push(Steps::none(self.steps));
                self.at.insert(labels, self.rows.len() - 1);
                self.rows.len() - 1
            }
        };
        if self.filled[index].replace(step) {
            return Err(Error::evaluate(SAME_LABELSET));
        }
        self.rows[index].put(step, Some(point.clone()))
    }
}
