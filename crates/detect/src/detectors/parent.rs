//! One finding for a lost parent: which label do the series that went silent have in common?
//!
//! Among N series K are silent. Of the n series with a label pair, k are: the pair is a parent when k >= .9 n, k >= .9
//! K and k >= [`CHILDREN_MIN`]. Of several the one with the greatest likelihood ratio of two silence rates, inside and
//! outside of the pair, against one rate wins. What it does not explain is judged again, for at most [`PARENTS_MAX`]
//! parents.

use std::collections::HashMap;
use std::hash::Hash;

/// Fewer silent series are reported one by one.
pub const CHILDREN_MIN: u32 = 5;
/// Parents at one moment; a flood of further ones is reported series by series.
pub const PARENTS_MAX: usize = 16;
/// Share of a parent's series, and of the silent ones, that must be covered.
const SHARE_MIN: f64 = 0.9;

/// A label pair that explains silent series.
#[derive(Clone, Debug, PartialEq)]
pub struct Parent<P> {
    /// The pair.
    pub pair: P,
    /// Series that have it and are silent.
    pub silent: u32,
    /// Series that have it.
    pub series: u32,
    /// ln of the likelihood ratio, its evidence.
    pub evidence: f64,
}

/// The parents of `silent` series, given by the pairs of each; `series` is the number of all series, `with` counts
/// those that have a pair.
///
/// Costs `silent` times pairs, for each parent found and once more. On equal evidence the order of `P` decides.
#[must_use]
pub fn parents<'a, P, L>(silent: &'a [L], series: u32, with: impl Fn(&P) -> u32) -> Vec<Parent<P>>
where
    P: Copy + Eq + Hash + Ord + 'a,
    L: AsRef<[P]>,
{
    let mut rest: Vec<&[P]> = silent.iter().map(AsRef::as_ref).collect();
    let mut found: Vec<Parent<P>> = Vec::new();
    while rest.len() >= CHILDREN_MIN as usize && found.len() < PARENTS_MAX {
        let mut counts: HashMap<P, u32> = HashMap::new();
        for pair in rest.iter().flat_map(|pairs| pairs.iter()) {
            *counts.entry(*pair).or_default() += 1;
        }
        let all = u32::try_from(rest.len()).unwrap_or(u32::MAX);
        let candidate = |(pair, silent): (P, u32)| {
            let series_with = with(&pair).max(silent);
            let (k, n) = (f64::from(silent), f64::from(series_with));
            // Only series that no parent explains yet: several parents may be lost at once.
            let covers = k >= SHARE_MIN * n && silent >= CHILDREN_MIN;
            covers.then(|| Parent {
                pair,
                silent,
                series: series_with,
                evidence: evidence(silent, series_with, all, series),
            })
        };
        let best = counts
            .into_iter()
            .filter_map(candidate)
            .max_by(|a, b| a.evidence.total_cmp(&b.evidence).then_with(|| b.pair.cmp(&a.pair)));
        let Some(best) = best else { break };
        rest.retain(|pairs| !pairs.contains(&best.pair));
        found.push(best);
    }
    found
}

/// ln of the likelihood of one rate of silence inside of the pair and one outside, over that of one rate for all.
fn evidence(inside: u32, inside_all: u32, silent: u32, series: u32) -> f64 {
    let series = series.max(inside_all).max(silent);
    let (k, n) = (f64::from(inside), f64::from(inside_all));
    let (outside, outside_all) = (f64::from(silent - inside), f64::from(series - inside_all));
    likelihood_ln(k, n) + likelihood_ln(outside.min(outside_all), outside_all)
        - likelihood_ln(f64::from(silent), f64::from(series))
}

/// ln of the greatest likelihood of k in n.
fn likelihood_ln(k: f64, n: f64) -> f64 {
    let part = |count: f64| if count > 0.0 { count * (count / n).ln() } else { 0.0 };
    part(k) + part(n - k)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Pair = (u8, u32);

    /// Series with a broker of 4, a host of 100 and a metric of 50.
    fn series(at: u32) -> [Pair; 3] {
        [(0, at % 4), (1, at % 100), (2, at / 100 % 50)]
    }

    fn judge(is_silent: impl Fn(u32) -> bool) -> Vec<(Pair, u32)> {
        let all: Vec<[Pair; 3]> = (0..10_000).map(series).collect();
        let silent: Vec<[Pair; 3]> = (0..10_000).filter(|at| is_silent(*at)).map(series).collect();
        let with = |pair: &Pair| u32::try_from(all.iter().filter(|pairs| pairs.contains(pair)).count()).unwrap();
        parents(&silent, 10_000, with).into_iter().map(|parent| (parent.pair, parent.silent)).collect()
    }

    #[test]
    fn a_lost_broker_is_named_and_not_its_hosts_or_metrics() {
        assert_eq!(judge(|at| at % 4 == 2), [((0, 2), 2_500)]);
    }

    #[test]
    fn a_lost_host_is_named_though_its_broker_lives() {
        assert_eq!(judge(|at| at % 100 == 7), [((1, 7), 100)]);
        // And beside it series that have nothing in common: those stay alone.
        assert_eq!(judge(|at| at % 100 == 7 || at == 5_012 || at == 812), [((1, 7), 100)]);
    }

    #[test]
    fn two_parents_of_one_moment_are_two() {
        assert_eq!(judge(|at| at % 4 == 2 || at % 100 == 7), [((0, 2), 2_500), ((1, 7), 100)]);
    }

    #[test]
    fn few_or_scattered_silent_series_have_no_parent() {
        assert_eq!(judge(|at| at % 100 == 7 && at < 300), []);
        assert_eq!(judge(|at| at % 101 == 3), []);
        assert_eq!(judge(|_| false), []);
    }
}
