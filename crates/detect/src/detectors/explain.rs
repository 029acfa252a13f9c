//! Which label explains a change: the values of one label that carry most of it and were not expected to.
//!
//! After Adtributor (Bhagwan and others, NSDI 2014): for each label the values are taken by their surprise, the part of
//! the Jensen-Shannon divergence between expected and actual shares, as long as each explains at least [`SHARE_EACH`]
//! of the change, until together they explain [`SHARE_ALL`] of it. Labels are ordered by the surprise of what was
//! taken: few values that carry all of it come first.

/// A value that explains less of the change is left out.
pub const SHARE_EACH: f64 = 0.1;
/// Values are added until they explain this much.
pub const SHARE_ALL: f64 = 0.67;

/// One value of a label: its expected count (slow operations before, scaled to the whole) and the actual one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Expected amount, of the same unit as the actual one.
    pub expected: f64,
    /// Actual amount.
    pub actual: f64,
}

/// A label that explains the change.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Index of the label in the argument.
    pub label: usize,
    /// Indexes of its values, the most surprising first.
    pub values: Vec<usize>,
    /// The share of the change that they explain; above 1 when others changed in the opposite direction.
    pub share: f64,
    /// Sum of their surprise, nats.
    pub surprise: f64,
}

/// Labels that explain the change, the best first; empty when the total did not change.
#[must_use]
pub fn explanations(labels: &[Vec<Part>]) -> Vec<Explanation> {
    let mut found: Vec<Explanation> =
        labels.iter().enumerate().filter_map(|(label, parts)| explain(label, parts)).collect();
    found.sort_by(|a, b| {
        b.surprise.total_cmp(&a.surprise).then(a.values.len().cmp(&b.values.len())).then(a.label.cmp(&b.label))
    });
    found
}

fn explain(label: usize, parts: &[Part]) -> Option<Explanation> {
    let (expected, actual) = parts.iter().fold((0.0, 0.0), |(e, a), part| (e + part.expected, a + part.actual));
    let change = actual - expected;
    if !change.is_normal() || parts.len() < 2 {
        return None;
    }
    let mut ranked: Vec<(usize, f64, f64)> = Vec::with_capacity(parts.len());
    for (at, part) in parts.iter().enumerate() {
        let share = (part.actual - part.expected) / change;
        let (p, q) = (ratio(part.expected, expected), ratio(part.actual, actual));
        ranked.push((at, share, surprise(p, q)));
    }
    ranked.sort_by(|a, b| b.2.total_cmp(&a.2));
    let mut explanation = Explanation { label, values: Vec::new(), share: 0.0, surprise: 0.0 };
    for (at, share, surprise) in ranked {
        if share < SHARE_EACH {
            continue;
        }
        explanation.values.push(at);
        explanation.share += share;
        explanation.surprise += surprise;
        if explanation.share >= SHARE_ALL {
            return Some(explanation);
        }
    }
    None
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).max(0.0) } else { 0.0 }
}

/// The term of the Jensen-Shannon divergence, nats.
fn surprise(p: f64, q: f64) -> f64 {
    let term = |x: f64| if x > 0.0 { x * (2.0 * x / (p + q)).ln() } else { 0.0 };
    0.5 * (term(p) + term(q))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(pairs: &[(f64, f64)]) -> Vec<Part> {
        pairs.iter().map(|(expected, actual)| Part { expected: *expected, actual: *actual }).collect()
    }

    #[test]
    fn the_label_whose_one_value_carries_the_change_comes_first() {
        // 30 slow operations became 130: those of host c; each method and each region rose alike.
        let hosts = parts(&[(10.0, 10.0), (10.0, 11.0), (10.0, 109.0)]);
        let methods = parts(&[(15.0, 65.0), (15.0, 65.0)]);
        let regions = parts(&[(20.0, 80.0), (10.0, 50.0)]);
        let found = explanations(&[methods, hosts, regions]);
        assert_eq!((found[0].label, found[0].values.as_slice()), (1, &[2][..]), "{found:?}");
        assert!(found[0].share > 0.95 && found[0].surprise > 10.0 * found[1].surprise, "{found:?}");
    }

    #[test]
    fn nothing_changed_or_one_value_alone_explains_nothing() {
        assert_eq!(explanations(&[parts(&[(5.0, 5.0), (3.0, 3.0)])]), []);
        assert_eq!(explanations(&[parts(&[(5.0, 50.0)])]), []);
        assert_eq!(explanations(&[parts(&[(f64::NAN, 50.0), (1.0, 2.0)])]), []);
        assert_eq!(explanations(&[]), []);
    }

    #[test]
    fn a_change_spread_over_many_values_is_not_explained_by_them() {
        let spread: Vec<(f64, f64)> = (0..50).map(|_| (10.0, 12.0)).collect();
        assert_eq!(explanations(&[parts(&spread)]), []);
    }
}
