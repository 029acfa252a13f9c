//! Which expressions took the server most time: counted by text, for whoever looks for what to make cheaper.
//!
//! Limits: [`ENTRIES_MAX`] expressions, the one of least time goes for a new one; [`TEXT_BYTES_MAX`] of a text.
//! Threads: requests note what they took, one after the other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ogive_model::{Ns, WallNs};

/// 300 expressions: with their texts below half a MiB.
const ENTRIES_MAX: usize = 300;
/// 1 KiB of an expression; the rest is left out.
const TEXT_BYTES_MAX: usize = 1 << 10;

tokio::task_local! {
    /// The expression that the request of this task evaluates.
    static EXPRESSION: Arc<Mutex<Option<String>>>;
}

/// An expression and its tenant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Expression {
    /// The tenant that it was evaluated for.
    pub(super) tenant: String,
    /// Where it was sent.
    pub(super) route: &'static str,
    /// The expression.
    pub(super) text: String,
}

/// The cost of an expression.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cost {
    /// How often it was evaluated.
    pub(super) times: u64,
    /// Evaluations that were refused.
    pub(super) refused: u64,
    /// The sum over all evaluations.
    pub(super) total: Ns,
    /// The slowest.
    pub(super) longest: Ns,
    /// When the last one ended.
    pub(super) last: WallNs,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Slowest(Mutex<HashMap<Expression, Cost>>);

impl Slowest {
    /// Counts one evaluation.
    pub(super) fn note(&self, of: Expression, took: Ns, is_refused: bool, now: WallNs) {
        let mut costs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if costs.len() >= ENTRIES_MAX && !costs.contains_key(&of) {
            let least = costs.iter().min_by_key(|(_, cost)| cost.total).map(|(of, _)| of.clone());
            // One that is cheaper than all that are known would be removed at once.
            let Some(least) = least.filter(|least| costs[least].total <= took) else { return };
            costs.remove(&least);
        }
        let cost = costs.entry(of).or_default();
        cost.times += 1;
        cost.refused += u64::from(is_refused);
        cost.total = cost.total.saturating_add(took);
        cost.longest = cost.longest.max(took);
        cost.last = now;
        assert!(costs.len() <= ENTRIES_MAX, "{} expressions", costs.len());
    }

    /// Those of a tenant, the most expensive first.
    pub(super) fn of(&self, tenant: &str) -> Vec<(Expression, Cost)> {
        let costs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out: Vec<(Expression, Cost)> =
            costs.iter().filter(|(of, _)| of.tenant == tenant).map(|(of, cost)| (of.clone(), *cost)).collect();
        out.sort_by(|a, b| b.1.total.cmp(&a.1.total).then_with(|| a.0.text.cmp(&b.0.text)));
        out
    }
}

/// The request of this task wants `text` evaluated.
pub(super) fn wants(text: &str) {
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    let _ = EXPRESSION.try_with(|cell| {
        *cell.lock().unwrap_or_else(PoisonError::into_inner) = Some(text[..end].to_owned());
    });
}

/// Runs `work`; returns the expression that it evaluated along with its result.
pub(super) async fn observed<T>(work: impl Future<Output = T>) -> (T, Option<String>) {
    let cell = Arc::new(Mutex::new(None));
    let out = EXPRESSION.scope(Arc::clone(&cell), work).await;
    let text = cell.lock().unwrap_or_else(PoisonError::into_inner).take();
    (out, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expression(tenant: &str, text: &str) -> Expression {
        Expression { tenant: tenant.into(), route: "/api/v1/query", text: text.into() }
    }

    #[test]
    fn what_took_most_stays() {
        let slowest = Slowest::default();
        for at in 0..ENTRIES_MAX as i64 {
            slowest.note(expression("a", &format!("q{at}")), Ns(100 + at), at == 7, WallNs(1));
        }
        slowest.note(expression("a", "cheap"), Ns(1), false, WallNs(2));
        slowest.note(expression("a", "dear"), Ns(10_000), false, WallNs(3));
        slowest.note(expression("a", "q1"), Ns(20_000), true, WallNs(4));
        slowest.note(expression("b", "other"), Ns(50_000), false, WallNs(5));
        let found = slowest.of("a");
        let texts: Vec<&str> = found.iter().take(2).map(|(of, _)| &*of.text).collect();
        assert_eq!(texts, ["q1", "dear"]);
        let expected = Cost { times: 2, refused: 1, total: Ns(20_101), longest: Ns(20_000), last: WallNs(4) };
        assert_eq!(found[0].1, expected);
        assert_eq!((found.len(), slowest.of("b").len()), (ENTRIES_MAX - 1, 1));
        assert!(found.iter().all(|(of, _)| of.text != "cheap" && of.text != "q0"));
    }

    #[tokio::test]
    async fn a_long_text_is_cut_between_letters() {
        let ((), text) = observed(async { wants(&"ä".repeat(TEXT_BYTES_MAX)) }).await;
        assert_eq!(text.map(|text| text.len()), Some(TEXT_BYTES_MAX));
        wants("outside of a request");
        assert_eq!(observed(async {}).await.1, None);
    }
}
