//! How often modes and distances are estimated right, on generated data: the figures that the documentation states.
//!
//! Every stream is seeded; a failure prints its rates.

use ogive_hist::{FlatRecorder, Histogram};

/// A small generator (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A standard normal number (Box and Muller).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.next()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.next()).cos()
    }
}

/// A log-normal part of a distribution: median in nanoseconds, sigma, share.
type Part = (f64, f64, f64);

const ONE: &[Part] = &[(2.5e5, 0.4, 1.0)];
const TWO: &[Part] = &[(2.0e5, 0.3, 0.7), (1.5e6, 0.35, 0.3)];
const THREE: &[Part] = &[(6.0e4, 0.25, 0.4), (3.5e5, 0.3, 0.35), (2.5e6, 0.3, 0.25)];

/// `count` samples of a mixture, the whole of it moved by a random factor of up to ten, so that no bin edge is special.
fn sample(random: &mut Random, parts: &[Part], count: usize, factor: f64) -> Histogram {
    let mut recorder = FlatRecorder::new();
    for _ in 0..count {
        let mut at = random.next();
        let (median, sigma, _) = parts
            .iter()
            .find(|part| {
                at -= part.2;
                at < 0.0
            })
            .unwrap_or(&parts[0]);
        recorder.record((factor * median * (sigma * random.normal()).exp()) as u64);
    }
    recorder.take()
}

/// Shares of right answers, too many and too few modes.
fn rates(parts: &[Part], count: usize, trials: usize) -> (f64, f64, f64) {
    let mut random = Random(0x5eed ^ (count as u64) << 20 ^ parts.len() as u64);
    let mut rates = [0.0; 3];
    for _ in 0..trials {
        let factor = 10_f64.powf(random.next());
        let found = sample(&mut random, parts, count, factor).modes().expect("there are enough samples").modes.len();
        rates[if found == parts.len() {
            0
        } else if found > parts.len() {
            1
        } else {
            2
        }] += 1.0 / trials as f64;
    }
    (rates[0], rates[1], rates[2])
}

#[test]
fn modes_are_counted_right_from_ten_thousand_samples_on() {
    for parts in [ONE, TWO, THREE] {
        let (right, over, _) = rates(parts, 10_000, 40);
        assert!(right > 0.999 && over == 0.0, "{} modes, 10,000 samples: right {right}, over {over}", parts.len());
    }
    let (right, over, _) = rates(THREE, 200_000, 4);
    assert!(right > 0.999 && over == 0.0, "three modes, 200,000 samples: right {right}, over {over}");
}

#[test]
fn modes_are_mostly_counted_right_at_a_thousand_samples_and_never_over_counted() {
    for parts in [ONE, TWO, THREE] {
        let (right, over, under) = rates(parts, 1000, 100);
        println!("{} modes, 1,000 samples: right {right:.2}, over {over:.2}, under {under:.2}", parts.len());
        assert!(right >= 0.93 && over == 0.0, "{}: right {right}, over {over}, under {under}", parts.len());
    }
}

#[test]
fn a_mode_stands_where_it_was_put_and_holds_what_was_put_there() {
    let mut random = Random(99);
    let found = sample(&mut random, THREE, 50_000, 1.0).modes().unwrap();
    assert_eq!(found.modes.len(), 3);
    for (mode, (median, sigma, share)) in found.modes.iter().zip(THREE) {
        // The density over ln x is highest at the median.
        assert!((mode.value * 1e9 / median).ln().abs() < sigma / 2.0, "{mode:?}");
        assert!((mode.count / 50_000.0 - share).abs() < 0.02, "{mode:?}");
    }
}

/// The distance of two samples, the second slower by `factor`.
fn distance(random: &mut Random, count: usize, factor: f64) -> ogive_hist::Distance {
    let (left, right) = (sample(random, TWO, count, 1.0), sample(random, TWO, count, factor));
    left.distance(&right).expect("both have samples")
}

#[test]
fn the_distance_reads_as_the_slowdown() {
    let mut random = Random(4);
    for factor in [1.05_f64, 1.2, 1.5, 1.0 / 1.2] {
        let log = distance(&mut random, 100_000, factor).log.unwrap();
        println!("{factor:.3}: distance {:.4}, floor {:.4}, ln {:.4}", log.emd, log.noise, factor.ln());
        let error = (log.shift - factor.ln()).abs();
        assert!(error < 2.0 * log.noise, "{factor}: {log:?}");
        assert!((log.slower() - (factor - 1.0)).abs() < 0.02 * factor, "{factor}: {}", log.slower());
        assert!((log.emd - factor.ln().abs()).abs() < 2.0 * log.noise, "{factor}: {log:?}");
        // Well above its noise: no one has to guess.
        assert!(log.emd > 5.0 * log.noise, "{factor}: {log:?}");
    }
}

#[test]
fn without_a_change_the_distance_is_its_noise_floor() {
    for count in [1000, 10_000] {
        let mut random = Random(5 + count as u64);
        let trials = 60;
        let (mut emd, mut ks, mut beyond) = (0.0, 0.0, [0, 0]);
        for _ in 0..trials {
            let found = distance(&mut random, count, 1.0);
            let log = found.log.unwrap();
            emd += log.emd / log.noise / f64::from(trials);
            ks += found.ks / found.ks_noise / f64::from(trials);
            beyond[0] += i32::from(log.emd > 2.0 * log.noise);
            beyond[1] += i32::from(log.emd > 3.0 * log.noise);
        }
        assert!((0.8..1.2).contains(&emd), "{count}: the distance is {emd} of its floor");
        // At edges only, so a little less than among samples.
        assert!((0.75..1.1).contains(&ks), "{count}: Kolmogorov-Smirnov is {ks} of its floor");
        println!(
            "{count}: distance {emd:.3} of its floor, Kolmogorov-Smirnov {ks:.3}, beyond 2 and 3 floors {beyond:?}"
        );
        assert!(
            beyond[0] <= 6 && beyond[1] == 0,
            "{count}: {beyond:?} of {trials} are beyond twice and thrice the floor"
        );
    }
}

#[test]
fn the_distance_of_bins_is_that_of_the_samples() {
    // Sorted samples of equal number: the distance is the mean difference of logarithms of equal rank.
    let mut random = Random(6);
    let mut draw = |factor: f64| {
        let mut values: Vec<f64> =
            (0..20_000).map(|_| (1e5 * factor * (0.8 * random.normal()).exp()).floor()).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let (left, right) = (draw(1.0), draw(1.2));
    let exact = left.iter().zip(&right).map(|(a, b)| (a / b).ln().abs()).sum::<f64>() / left.len() as f64;
    let of = |values: &[f64]| {
        let mut recorder = FlatRecorder::new();
        values.iter().for_each(|value| recorder.record(*value as u64));
        recorder.take()
    };
    let found = of(&left).distance(&of(&right)).unwrap();
    assert!((found.log.unwrap().emd - exact).abs() < 5e-4, "{} {exact}", found.log.unwrap().emd);
    let below = |values: &[f64], x: f64| values.partition_point(|value| *value <= x) as f64 / values.len() as f64;
    let ks = left.iter().chain(&right).map(|x| (below(&left, *x) - below(&right, *x)).abs()).fold(0.0, f64::max);
    assert!(found.ks <= ks + 1e-12 && found.ks > ks - 0.01, "{} {ks}", found.ks);
}
