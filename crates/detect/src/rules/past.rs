//! The store of a backtest: what is stored, read ahead in ranges, with the series of the tested rules in front of it.
//!
//! Invariants: the elements of an expression are those that an instant query gives. An expression is read ahead only
//! when no series of the tested rules can be among what it selects and it does not depend on where its range begins or
//! ends.
//! Limits: [`AHEAD`] instants at once, and what the engine charges for them; [`OWN_SAMPLES_MAX`] samples of the tested
//! rules.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use ogive_model::{METRIC_NAME, Matcher, Ms, Select, WallMs};
use ogive_query::ast::{Expr, ExprKind};
use ogive_query::value::{InstantSample, MemoryCharge, Point};
use ogive_query::{Error, Value};

use super::context::{EvaluationContext, elements};
use super::storage::{MemoryStore, Sample, Storage};

/// 240 instants are read at once: one pass over four hours of minutes costs about as much as three instants.
const AHEAD: i64 = 240;

/// 5,000,000 samples of the tested rules' own series, some 500 MB: recorded series that other rules read, and `ALERTS`.
pub(super) const OWN_SAMPLES_MAX: usize = 5_000_000;

/// See the module.
pub(super) struct Past<'a> {
    behind: &'a dyn Select,
    own: MemoryStore<'a>,
    own_samples: Cell<usize>,
    /// Names of series that some tested rule reads.
    read: BTreeSet<String>,
    /// Expressions that are read ahead.
    alone: BTreeSet<String>,
    /// By expression, step and phase.
    ahead: RefCell<BTreeMap<(String, Ms, Ms), Ahead>>,
    /// Between the evaluations of the current group, and the last requested instant.
    step: Cell<Ms>,
    end: WallMs,
    /// The results for the rules of the current group, in order.
    given: RefCell<Vec<Answer>>,
}

/// The result of an expression.
type Answer = Result<Vec<InstantSample>, String>;

/// Replays the results that rules got from a [`Past`]: a rule that differs from one of them only in its state makes the
/// same queries.
pub(super) struct CachedAnswers<'p, 'a> {
    past: &'p Past<'a>,
    given: Vec<Answer>,
    at: Cell<usize>,
}

impl CachedAnswers<'_, '_> {
    /// The number of results so far.
    pub(super) fn position(&self) -> usize {
        self.at.get()
    }

    /// Returns to the position at which a rule began its queries.
    pub(super) fn rewind(&self, position: usize) {
        self.at.set(position);
    }

    /// Skips the results of a rule that is not followed: all of `count` expressions, or those up to one that failed.
    pub(super) fn skip(&self, count: usize) {
        for _ in 0..count {
            let is_bad = self.given.get(self.at.get()).is_none_or(Result::is_err);
            self.at.set(self.at.get() + 1);
            if is_bad {
                return;
            }
        }
    }
}

impl Storage for CachedAnswers<'_, '_> {
    fn select(&self) -> &dyn Select {
        self.past.select()
    }

    fn append(&self, _: Vec<Sample>) -> Result<(), String> {
        Ok(())
    }

    fn elements(&self, _: &str, _: WallMs, _: &EvaluationContext<'_>) -> Result<Vec<InstantSample>, String> {
        let at = self.at.replace(self.at.get() + 1);
        self.given.get(at).cloned().unwrap_or_else(|| Err("nothing was given".to_owned()))
    }
}

/// Elements of the next instants.
struct Ahead {
    from: WallMs,
    instants: Vec<Vec<InstantSample>>,
    /// Keeps them charged.
    _held: MemoryCharge,
}

impl<'a> Past<'a> {
    /// The contents of `behind`, without the series of the names in `own`, which rules with these expressions produce.
    /// `reads_all` is set when something else may read series by any name.
    pub(super) fn new(
        behind: &'a dyn Select,
        own: &BTreeSet<String>,
        expressions: &[String],
        reads_all: bool,
        end: WallMs,
    ) -> Self {
        let mut alone = BTreeSet::new();
        let mut read = if reads_all { own.clone() } else { BTreeSet::new() };
        for text in expressions {
            let Ok(expr) = ogive_query::parse(text) else { continue };
            let names: Vec<&String> = own.iter().filter(|name| selects(&expr, name)).collect();
            if names.is_empty() && !depends_on_range(text) {
                alone.insert(text.clone());
            }
            read.extend(names.into_iter().cloned());
        }
        Self {
            behind,
            own: MemoryStore::in_front_of(behind, own.clone()),
            own_samples: Cell::new(0),
            read,
            alone,
            ahead: RefCell::default(),
            step: Cell::new(Ms(1)),
            end,
            given: RefCell::default(),
        }
    }

    /// The next evaluation is of a group with this interval.
    pub(super) fn begin(&self, step: Ms) {
        self.step.set(step);
        self.given.borrow_mut().clear();
    }

    /// Replays the results since the group began.
    pub(super) fn again(&self) -> CachedAnswers<'_, 'a> {
        CachedAnswers { past: self, given: self.given.take(), at: Cell::new(0) }
    }

    fn found(&self, expr: &str, time: WallMs, context: &EvaluationContext<'_>) -> Result<Vec<InstantSample>, String> {
        if !self.alone.contains(expr) {
            return elements(&self.own, expr, time, context);
        }
        let step = self.step.get();
        let key = (expr.to_owned(), step, Ms(time.0.rem_euclid(step.0)));
        if let Some(found) = self.ahead.borrow_mut().get_mut(&key).and_then(|ahead| ahead.take(time, step)) {
            return Ok(found);
        }
        let last = time + step * (AHEAD - 1).min((self.end - time).max(Ms::ZERO) / step);
        let range = context.engine.range_until(self.behind, expr, time, last, step, context.cancelled);
        match range {
            Ok(result) => {
                let mut ahead = Ahead::new(result.value, result.held, time, last, step);
                let found = ahead.take(time, step).unwrap_or_default();
                self.ahead.borrow_mut().insert(key, ahead);
                Ok(found)
            }
            Err(Error::Cancelled) => Err(Error::Cancelled.to_string()),
            // Too much for a range may be little enough for an instant, and its error is the one that the rule had.
            Err(_) => elements(self.behind, expr, time, context),
        }
    }
}

impl Ahead {
    fn new(value: Value, held: MemoryCharge, from: WallMs, last: WallMs, step: Ms) -> Self {
        let count = usize::try_from((last - from) / step).unwrap_or(0) + 1;
        let mut instants: Vec<Vec<InstantSample>> = vec![Vec::new(); count];
        let series = if let Value::Matrix(series) = value { series } else { Vec::new() };
        for one in series {
            let floats = one.floats.into_iter().map(|(time, value)| (WallMs(time), Point::Float(value)));
            let histograms = one.histograms.into_iter().map(|(time, value)| (WallMs(time), Point::Histogram(value)));
            for (time, value) in floats.chain(histograms) {
                let at = usize::try_from((time - from) / step).expect("a range query begins at its start");
                instants[at].push(InstantSample { labels: one.labels.clone(), time, value });
            }
        }
        Self { from, instants, _held: held }
    }

    fn take(&mut self, time: WallMs, step: Ms) -> Option<Vec<InstantSample>> {
        let at = usize::try_from((time - self.from).0.checked_div(step.0)?).ok()?;
        self.instants.get(at).cloned()
    }
}

impl Storage for Past<'_> {
    fn select(&self) -> &dyn Select {
        &self.own
    }

    fn append(&self, mut samples: Vec<Sample>) -> Result<(), String> {
        samples.retain(|sample| self.read.contains(sample.labels.metric_name()));
        let count = self.own_samples.get() + samples.len();
        if count > OWN_SAMPLES_MAX {
            return Err(format!("the rules give more than {OWN_SAMPLES_MAX} samples; test a shorter time"));
        }
        self.own_samples.set(count);
        self.own.append(samples)
    }

    fn elements(
        &self,
        expr: &str,
        time: WallMs,
        context: &EvaluationContext<'_>,
    ) -> Result<Vec<InstantSample>, String> {
        let found = self.found(expr, time, context);
        self.given.borrow_mut().push(found.clone());
        found
    }
}

/// Whether some selector of `expr` can choose a series called `name`.
fn selects(expr: &Expr, name: &str) -> bool {
    let accepts = |matchers: &[Matcher]| matchers.iter().filter(|one| one.name == METRIC_NAME).all(|m| m.matches(name));
    let own = match &expr.kind {
        ExprKind::VectorSelector(selector) => accepts(&selector.matchers),
        ExprKind::MatrixSelector(matrix) => accepts(&matrix.selector.matchers),
        // It selects everything that ends in `_info` itself.
        ExprKind::Call(_) => expr.to_string().starts_with("info("),
        _ => false,
    };
    own || expr.children().into_iter().any(|child| selects(child, name))
}

/// Whether an expression may give something else in a range than at an instant. Words inside texts count too: then it
/// is only slower.
fn depends_on_range(text: &str) -> bool {
    ["start()", "end()", "step()", "range()"].iter().any(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_say_which_names_they_can_choose() {
        let check = |text: &str, name: &str, expected: bool| {
            assert_eq!(selects(&ogive_query::parse(text).unwrap(), name), expected, "{text} {name}");
        };
        check("up == 0", "up", true);
        check("up == 0", "down", false);
        check("sum(rate({job=\"x\"}[5m]))", "anything", true);
        check("max_over_time((a:b > 1)[1h:])", "a:b", true);
        check("{__name__=~\"a:.*\"} / on() c", "a:b", true);
        check("{__name__=~\"a:.*\"} / on() c", "ALERTS", false);
    }
}
