//! The odd one out among siblings, and the difference from last week, by the distance between histograms.
//!
//! The distance is the logarithmic earth mover's of `ogive-hist`: the mean factor by which samples would have to move.
//! Each sibling is compared with all others together; it is odd when its distance exceeds three times the noise of its
//! samples, three times the median distance of the siblings, and ln([`FACTOR_MIN`]).

use ogive_hist::{Histogram, SchemeMismatch};
use ogive_model::WallMs;

use super::finding::{Finding, FindingKind};
use super::quantity::Quantity;

/// With fewer siblings it is not clear what is usual.
pub const SIBLINGS_MIN: usize = 4;
/// Samples on each side, below which nothing is judged.
pub const SAMPLES_MIN: f64 = 100.0;
/// The smallest mean factor that is worth a finding.
pub const FACTOR_MIN: f64 = 1.25;
/// Multiples of the noise and of the siblings' own distances.
const MULTIPLE: f64 = 3.0;

/// One that differs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outlier {
    /// Its index in the argument.
    pub at: usize,
    /// Mean factor between its samples and the others.
    pub factor: f64,
    /// The same with its direction: above 1 is slower.
    pub slower: f64,
    /// Its 99th percentile, and that of the others.
    pub p99: [f64; 2],
    /// Median factor of all siblings.
    pub usual: f64,
}

/// Siblings that differ from the others, the most different first. Those without enough samples are not judged.
///
/// # Errors
/// Schemes that do not merge.
pub fn odd_ones(siblings: &[Histogram<f64>]) -> Result<Vec<Outlier>, SchemeMismatch> {
    let judged: Vec<usize> = (0..siblings.len()).filter(|at| siblings[*at].total() >= SAMPLES_MIN).collect();
    if judged.len() < SIBLINGS_MIN {
        return Ok(Vec::new());
    }
    let mut distances = Vec::with_capacity(judged.len());
    // Sums from the left and from the right: all but one without a merge for each pair.
    let mut rights: Vec<Histogram<f64>> = Vec::with_capacity(judged.len());
    for at in judged.iter().rev() {
        let mut sum = siblings[*at].clone();
        if let Some(before) = rights.last() {
            sum.merge(before)?;
        }
        rights.push(sum);
    }
    let mut left: Option<Histogram<f64>> = None;
    for (place, at) in judged.iter().enumerate() {
        let right = (place + 1 < judged.len()).then(|| &rights[judged.len() - 2 - place]);
        let others = match (&left, right) {
            (Some(left), Some(right)) => {
                let mut others = left.clone();
                others.merge(right)?;
                others
            }
            (Some(one), None) | (None, Some(one)) => one.clone(),
            (None, None) => unreachable!("four siblings or more"),
        };
        distances.push((*at, compare(&others, &siblings[*at])));
        match &mut left {
            Some(left) => left.merge(&siblings[*at])?,
            None => left = Some(siblings[*at].clone()),
        }
    }
    let mut usual: Vec<f64> = distances.iter().filter_map(|(_, compared)| compared.map(|one| one.0)).collect();
    if usual.is_empty() {
        return Ok(Vec::new());
    }
    usual.sort_unstable_by(f64::total_cmp);
    let usual = usual[usual.len() / 2];
    let mut odd: Vec<Outlier> = distances
        .into_iter()
        .filter_map(|(at, compared)| compared.map(|compared| (at, compared)))
        .filter(|(_, (emd, noise, ..))| *emd > (MULTIPLE * noise).max(MULTIPLE * usual).max(FACTOR_MIN.ln()))
        .map(|(at, (emd, _, shift, p99))| Outlier {
            at,
            factor: emd.exp(),
            slower: shift.exp(),
            p99,
            usual: usual.exp(),
        })
        .collect();
    odd.sort_by(|a, b| b.factor.total_cmp(&a.factor));
    Ok(odd)
}

/// Distance, its noise, its direction, and both 99th percentiles.
fn compare(others: &Histogram<f64>, one: &Histogram<f64>) -> Option<(f64, f64, f64, [f64; 2])> {
    let log = others.distance(one)?.log?;
    let p99 = [one, others].map(|side| side.quantile(0.99).map_or(f64::NAN, |quantile| quantile.value));
    Some((log.emd, log.noise, log.shift, p99))
}

impl Outlier {
    /// As a finding; `name` identifies it.
    #[must_use]
    pub fn finding(&self, at: WallMs, began: WallMs, name: &str, unit: &str) -> Finding {
        let ratio = self.p99[0] / self.p99[1];
        let sentence = format!(
            "the p99 of {name} is {} where its siblings have {} ({ratio:.1}x), its operations are {:.2}x as slow in the mean",
            Quantity(self.p99[0], unit),
            Quantity(self.p99[1], unit),
            self.slower
        );
        let evidence = vec![
            ("factor", self.factor),
            ("slower", self.slower),
            ("p99", self.p99[0]),
            ("p99_siblings", self.p99[1]),
            ("usual_factor", self.usual),
        ];
        Finding { kind: FindingKind::OddOne, at, began, is_active: true, sentence, evidence }
    }
}

/// A finding if `now` differs from `week_ago` by more than the noise of both and by [`FACTOR_MIN`] in the mean.
#[must_use]
pub fn since_last_week(
    week_ago: &Histogram<f64>,
    now: &Histogram<f64>,
    at: WallMs,
    began: WallMs,
    unit: &str,
) -> Option<Finding> {
    if week_ago.total().min(now.total()) < SAMPLES_MIN {
        return None;
    }
    let (emd, noise, shift, p99) = compare(week_ago, now)?;
    if emd <= (MULTIPLE * noise).max(FACTOR_MIN.ln()) {
        return None;
    }
    let (factor, slower) = (emd.exp(), shift.exp());
    let sentence = format!(
        "{slower:.2}x as slow in the mean as at this time a week ago, p99 {} after {}",
        Quantity(p99[0], unit),
        Quantity(p99[1], unit)
    );
    let evidence = vec![("factor", factor), ("slower", slower), ("p99", p99[0]), ("p99_week_ago", p99[1])];
    Some(Finding { kind: FindingKind::LastWeek, at, began, is_active: true, sentence, evidence })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` operations around `middle` seconds, spread over a factor of four.
    fn host(middle: f64, count: u32) -> Histogram<f64> {
        let mut histogram = Histogram::log_linear();
        for at in 0..count {
            histogram.record(middle * 2_f64.powf(f64::from(at) / f64::from(count) * 2.0 - 1.0));
        }
        histogram.to_float()
    }

    #[test]
    fn a_host_fifteen_times_as_slow_as_its_siblings_is_the_odd_one() {
        let mut hosts: Vec<_> = (0..9).map(|at| host(0.010 + 0.0002 * f64::from(at), 1_000)).collect();
        hosts.insert(4, host(0.150, 1_000));
        let odd = odd_ones(&hosts).unwrap();
        assert_eq!(odd.iter().map(|odd| odd.at).collect::<Vec<_>>(), [4], "{odd:?}");
        assert!((12.0..17.0).contains(&odd[0].slower), "{odd:?}");
        let text = odd[0].finding(WallMs(0), WallMs(0), "host e", "s").sentence;
        assert!(text.contains("p99 of host e") && text.contains("x), its"), "{text}");
    }

    #[test]
    fn siblings_that_differ_among_themselves_have_no_odd_one() {
        let hosts: Vec<_> = [0.001, 0.004, 0.02, 0.1, 0.5].map(|middle| host(middle, 1_000)).to_vec();
        assert_eq!(odd_ones(&hosts).unwrap(), []);
        assert_eq!(odd_ones(&vec![host(0.01, 1_000); 6]).unwrap(), []);
        assert_eq!(odd_ones(&[host(0.01, 1_000), host(1.0, 1_000)]).unwrap(), [], "two say nothing");
        assert_eq!(odd_ones(&vec![host(0.01, 3); 6]).unwrap(), [], "too few operations");
        assert_eq!(odd_ones(&[]).unwrap(), []);
    }

    #[test]
    fn last_week_is_compared_beyond_noise() {
        let (before, now) = (host(0.010, 1_000), host(0.020, 1_000));
        let compared =
            |before: &Histogram<f64>, now: &Histogram<f64>| since_last_week(before, now, WallMs(0), WallMs(0), "s");
        let finding = compared(&before, &now).expect("twice as slow");
        assert!(finding.sentence.starts_with("2.0"), "{}", finding.sentence);
        assert_eq!(compared(&before, &host(0.0105, 1_000)), None);
        assert_eq!(compared(&host(0.01, 5), &host(0.1, 5)), None);
    }
}
