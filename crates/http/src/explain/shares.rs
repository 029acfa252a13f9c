//! Which labels are more frequent among some samples than among the others. Pure.
//!
//! A row is a label's value, or the values of two labels. With a of A samples inside and b of B outside it stands for
//! the shares p = a/A and q = b/B; their difference is p - q, give or take z * sqrt(p(1-p)/A + q(1-q)/B) (the normal
//! approximation to the difference of two binomial shares). Rows are ranked by the lower end: large and sure before
//! large and doubtful.
//! Invariants: a label that all series share explains nothing and is no row; a pair is a row only where it says more
//! than each of its two values. Limits: [`VALUES_MAX`] rows are compared, [`PAIRED_MAX`] of them in pairs.

use std::collections::HashMap;

use ogive_model::{Labels, METRIC_NAME};

/// z = 4: chance reaches it once in 16,000 rows, so that hundreds of them may be compared.
const Z: f64 = 4.0;

/// 100,000 values: an id for each of 10,000 series in ten labels. Further ones are left out, and the response says so.
pub(super) const VALUES_MAX: usize = 100_000;

/// The 24 best values make 276 pairs.
const PAIRED_MAX: usize = 24;

/// What a series counted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SeriesShare {
    pub(super) labels: Labels,
    pub(super) inside: f64,
    pub(super) outside: f64,
}

/// One label's value, or two.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// Names and values.
    pub(super) labels: Vec<(String, String)>,
    pub(super) inside: f64,
    pub(super) outside: f64,
    pub(super) series: usize,
    /// The difference of the shares: at least and at most.
    pub(super) difference: (f64, f64),
}

/// All rows that are surely over-represented inside, the best first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ranking {
    pub(super) inside: f64,
    pub(super) outside: f64,
    pub(super) rows: Vec<Row>,
    /// Rows that were compared.
    pub(super) compared: usize,
    /// Whether some were left out.
    pub(super) is_cut: bool,
}

/// Ranks the labels of `series`.
pub(super) fn rank(series: &[SeriesShare]) -> Ranking {
    let inside = series.iter().map(|one| one.inside).sum();
    let outside = series.iter().map(|one| one.outside).sum();
    let mut ranking = Ranking { inside, outside, ..Ranking::default() };
    if inside <= 0.0 || outside <= 0.0 {
        return ranking;
    }
    let mut values: HashMap<(&str, &str), Sum> = HashMap::new();
    for one in series {
        for label in one.labels.iter().filter(|label| label.0 != METRIC_NAME) {
            if values.len() >= VALUES_MAX && !values.contains_key(&label) {
                ranking.is_cut = true;
                continue;
            }
            values.entry(label).or_default().add(one);
        }
    }
    ranking.compared = values.len();
    let rows = values.into_iter().filter(|(_, sum)| sum.series < series.len());
    let singles = rows.map(|((name, value), sum)| ranking.row(vec![(name.into(), value.into())], sum));
    let mut singles: Vec<Row> = singles.filter(Row::is_sure).collect();
    sort(&mut singles);
    let pairs = pairs(&mut ranking, &singles, series);
    ranking.rows = singles;
    ranking.rows.extend(pairs);
    sort(&mut ranking.rows);
    ranking
}

/// Of some series.
#[derive(Clone, Copy, Default)]
struct Sum {
    inside: f64,
    outside: f64,
    series: usize,
}

impl Sum {
    fn add(&mut self, one: &SeriesShare) {
        self.inside += one.inside;
        self.outside += one.outside;
        self.series += 1;
    }
}

/// Pairs of the best values that explain more than either value.
fn pairs(ranking: &mut Ranking, singles: &[Row], series: &[SeriesShare]) -> Vec<Row> {
    let best = &singles[..singles.len().min(PAIRED_MAX)];
    let mut out = Vec::new();
    for (at, first) in best.iter().enumerate() {
        for second in &best[at + 1..] {
            let [(a, av), (b, bv)] = [&first.labels[0], &second.labels[0]];
            if a == b {
                continue;
            }
            ranking.compared += 1;
            let both = |one: &&SeriesShare| one.labels.get(a) == av && one.labels.get(b) == bv;
            let mut sum = Sum::default();
            series.iter().filter(both).for_each(|one| sum.add(one));
            let mut labels = vec![(a.clone(), av.clone()), (b.clone(), bv.clone())];
            labels.sort();
            let row = ranking.row(labels, sum);
            // If one part of a pair always occurs with the other, the pair has the counts of a single value.
            if row.is_sure() && row.difference.0 > first.difference.0.max(second.difference.0) {
                out.push(row);
            }
        }
    }
    out
}

fn sort(rows: &mut [Row]) {
    rows.sort_by(|a, b| b.difference.0.total_cmp(&a.difference.0).then_with(|| a.labels.cmp(&b.labels)));
}

impl Ranking {
    fn row(&self, labels: Vec<(String, String)>, Sum { inside, outside, series }: Sum) -> Row {
        let (p, q) = (inside / self.inside, outside / self.outside);
        let error = Z * (p * (1.0 - p) / self.inside + q * (1.0 - q) / self.outside).max(0.0).sqrt();
        Row { labels, inside, outside, series, difference: (p - q - error, p - q + error) }
    }
}

impl Row {
    fn is_sure(&self) -> bool {
        self.difference.0 > 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(labels: &[(&str, &str)], inside: f64, outside: f64) -> SeriesShare {
        SeriesShare { labels: Labels::new(labels.iter().copied()).unwrap(), inside, outside }
    }

    fn names(ranking: &Ranking) -> Vec<String> {
        let text = |row: &Row| row.labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
        ranking.rows.iter().map(|row| text(row).join(" ")).collect()
    }

    /// Hosts a and b, routes x and y: only b with y is slow.
    fn one_pair() -> Vec<SeriesShare> {
        let mut out = Vec::new();
        for host in ["a", "b", "c"] {
            for route in ["x", "y", "z"] {
                let inside = if (host, route) == ("b", "y") { 900.0 } else { 10.0 };
                out.push(counted(
                    &[("__name__", "m"), ("host", host), ("job", "j"), ("route", route)],
                    inside,
                    10_000.0,
                ));
            }
        }
        out
    }

    #[test]
    fn the_pair_that_is_slow_comes_before_its_parts() {
        let ranking = rank(&one_pair());
        assert_eq!(names(&ranking), ["host=b route=y", "host=b", "route=y"]);
        let row = &ranking.rows[0];
        assert_eq!((row.inside, row.outside, row.series), (900.0, 10_000.0, 1));
        let expected = 900.0 / 980.0 - 1.0 / 9.0;
        assert!(row.difference.0 < expected && expected < row.difference.1, "{row:?}");
        // The label that all share is compared and no row.
        assert!(ranking.compared >= 7 && !ranking.is_cut);
    }

    #[test]
    fn a_label_that_always_comes_with_another_makes_no_pair() {
        let series = [
            counted(&[("host", "a"), ("rack", "1")], 500.0, 1_000.0),
            counted(&[("host", "b"), ("rack", "2")], 10.0, 1_000.0),
            counted(&[("host", "c"), ("rack", "2")], 10.0, 1_000.0),
        ];
        assert_eq!(names(&rank(&series)), ["host=a", "rack=1"]);
    }

    #[test]
    fn what_chance_explains_is_no_row() {
        let few = [counted(&[("h", "a")], 2.0, 50.0), counted(&[("h", "b")], 1.0, 50.0)];
        assert_eq!(rank(&few).rows, []);
        let alike = [counted(&[("h", "a")], 1e6, 1e7), counted(&[("h", "b")], 1e6, 1e7)];
        assert_eq!(rank(&alike).rows, []);
        for none in [vec![], vec![counted(&[("h", "a")], 0.0, 5.0)], vec![counted(&[("h", "a")], 5.0, 0.0)]] {
            assert_eq!(rank(&none).rows, []);
        }
    }

    /// Of 400 values that do not differ, none is found, whatever the draw.
    #[test]
    fn no_value_is_found_where_none_differs() {
        let mut seed = 9_u64;
        let mut random = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as f64 / f64::from(1_u32 << 31)
        };
        for _ in 0..20 {
            let series: Vec<SeriesShare> = (0..400)
                .map(|at| {
                    let name = at.to_string();
                    let inside = (0..50).filter(|_| random() < 0.1).count() as f64;
                    counted(&[("id", &name)], inside, 450.0)
                })
                .collect();
            assert_eq!(names(&rank(&series)), [""; 0]);
        }
    }
}
