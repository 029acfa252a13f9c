//! The Numenta Anomaly Benchmark: its scorer, written from its description (Lavin and Ahmad 2015), and the novelty
//! detector under it.
//!
//! A detection inside of a window is worth 2/(1+exp(5y))-1 at its place y in -1..0, scaled so that the first row is
//! worth 1; only the first of a window counts. One outside costs the same function of its distance behind the last
//! window, in widths of that window, or 1 before any; times 0.11. A missed window costs 1. The first 15 % of a file (at
//! most 750 rows) do not count. One threshold is chosen for all files; 0 is who detects nothing and 100 who detects
//! each window at once.
//!
//! Data: the directory that OGIVE_NAB_DIR names, with `data/*/*.csv` or `.csv.gz` and `labels/combined_windows.json`.

use std::io::Read;
use std::path::{Path, PathBuf};

use ogive_detect::detectors::novelty::Novelty;

use crate::report::row;

const FALSE_WEIGHT: f64 = 0.11;

struct File {
    name: String,
    times: Vec<i64>,
    values: Vec<f64>,
    windows: Vec<(usize, usize)>,
}

/// Prints the score, or that there is no data.
pub(crate) fn score() {
    let Some(root) = std::env::var_os("OGIVE_NAB_DIR").map(PathBuf::from) else {
        println!("skipped: NAB, because OGIVE_NAB_DIR does not name its directory");
        return;
    };
    let files = read(&root);
    let count: usize = files.iter().map(|file| file.windows.len()).sum();
    println!("NAB: {} files, {count} windows", files.len());
    let mut detections = Vec::new();
    let mut begin = 0.0;
    for (at, file) in files.iter().enumerate() {
        let scores = scores(file);
        begin += count_of(&mut detections, at, file, &scores);
    }
    let (best, threshold) = sweep(&files, &mut detections);
    row("NAB standard profile, score of the novelty detector", 100.0 * (best + begin) / (2.0 * count as f64), ">= 60");
    row("NAB threshold", threshold, "");
    if std::env::var_os("OGIVE_NAB_FILES").is_some() {
        for (at, file) in files.iter().enumerate() {
            let of: Vec<&Detection> =
                detections.iter().filter(|one| one.file == at && one.score >= threshold).collect();
            let mut hit = vec![false; file.windows.len()];
            let mut wrong = 0;
            for one in of {
                match one.place {
                    Place::Inside(window, _) => hit[window] = true,
                    Place::Outside(_) => wrong += 1,
                }
            }
            println!(
                "  {:<60} {}/{} windows, {wrong} false",
                file.name,
                hit.iter().filter(|hit| **hit).count(),
                hit.len()
            );
        }
    }
}

fn scores(file: &File) -> Vec<f64> {
    let mut steps: Vec<i64> = file.times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    steps.sort_unstable();
    let step = steps[steps.len() / 2].max(1);
    let mut novelty = Novelty::new((86_400 / step) as usize);
    file.values.iter().map(|value| novelty.push(*value)).collect()
}

enum Place {
    /// Which window, and what a detection there is worth.
    Inside(usize, f64),
    /// What it costs.
    Outside(f64),
}

struct Detection {
    file: usize,
    row: usize,
    score: f64,
    place: Place,
}

fn sigmoid(y: f64) -> f64 {
    if y > 3.0 { -1.0 } else { 2.0 / (1.0 + (5.0 * y).exp()) - 1.0 }
}

/// The rows of a file that may be detected; what none of them is worth, above the worst.
fn count_of(out: &mut Vec<Detection>, at: usize, file: &File, scores: &[f64]) -> f64 {
    let probation = (scores.len() * 15 / 100).min(750);
    for (row, score) in scores.iter().enumerate().skip(probation) {
        if *score <= 0.0 {
            continue;
        }
        let inside = file.windows.iter().position(|(begin, end)| (*begin..=*end).contains(&row));
        let place = match inside {
            Some(window) => {
                let (begin, end) = file.windows[window];
                let width = (end - begin + 1) as f64;
                Place::Inside(window, sigmoid(-((end - row + 1) as f64) / width) / sigmoid(-1.0))
            }
            None => {
                let before = file.windows.iter().rev().find(|(_, end)| *end < row);
                let cost =
                    before.map_or(-1.0, |(begin, end)| sigmoid((row - end) as f64 / ((end - begin) as f64).max(1.0)));
                Place::Outside(cost * FALSE_WEIGHT)
            }
        };
        out.push(Detection { file: at, row, score: *score, place });
    }
    0.0
}

/// The best sum of all windows (each at least 0 above being missed) over all thresholds, and that threshold.
fn sweep(files: &[File], detections: &mut [Detection]) -> (f64, f64) {
    detections.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.row.cmp(&b.row)));
    let mut worth: Vec<Vec<Option<(usize, f64)>>> = files.iter().map(|file| vec![None; file.windows.len()]).collect();
    let (mut sum, mut best) = (0.0, (0.0, f64::INFINITY));
    for (at, one) in detections.iter().enumerate() {
        match one.place {
            Place::Inside(window, value) => {
                let known = &mut worth[one.file][window];
                match known {
                    // The first row of a window is the one that counts.
                    Some((row, before)) if one.row < *row => {
                        sum += value - *before;
                        *known = Some((one.row, value));
                    }
                    Some(_) => {}
                    None => {
                        sum += 1.0 + value;
                        *known = Some((one.row, value));
                    }
                }
            }
            Place::Outside(cost) => sum += cost,
        }
        let is_last = detections.get(at + 1).is_none_or(|next| next.score < one.score);
        if is_last && sum > best.0 {
            best = (sum, one.score);
        }
    }
    best
}

fn read(root: &Path) -> Vec<File> {
    let labels = std::fs::read_to_string(root.join("labels/combined_windows.json")).expect("labels are readable");
    let mut files = Vec::new();
    for (name, windows) in windows(&labels) {
        let path = root.join("data").join(&name);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|_| {
            let packed =
                std::fs::File::open(path.with_extension("csv.gz")).unwrap_or_else(|error| panic!("{name}: {error}"));
            let mut text = String::new();
            flate2::read::GzDecoder::new(packed).read_to_string(&mut text).expect("gzip");
            text
        });
        let rows = text.lines().skip(1).filter_map(|line| line.split_once(','));
        let (times, values): (Vec<i64>, Vec<f64>) =
            rows.map(|(time, value)| (seconds(time), value.trim().parse::<f64>().expect("a number"))).unzip();
        let place = |time: i64| times.partition_point(|other| *other < time);
        let windows = windows.iter().map(|(begin, end)| (place(*begin), place(*end + 1) - 1)).collect();
        files.push(File { name, times, values, windows });
    }
    files
}

/// The names and windows of the labels: a JSON object of lists of pairs of times, read without a library.
fn windows(text: &str) -> Vec<(String, Vec<(i64, i64)>)> {
    let mut out: Vec<(String, Vec<(i64, i64)>)> = Vec::new();
    let mut begin = None;
    for word in text.split('"').skip(1).step_by(2) {
        if word.ends_with(".csv") {
            out.push((word.to_owned(), Vec::new()));
            continue;
        }
        match begin.take() {
            None => begin = Some(seconds(word)),
            Some(begin) => out.last_mut().expect("a name comes first").1.push((begin, seconds(word))),
        }
    }
    out
}

/// `2014-04-10 07:15:00.000000` as seconds of a calendar (Hinnant's days from civil).
fn seconds(text: &str) -> i64 {
    let number =
        |range: std::ops::Range<usize>| text[range].parse::<i64>().unwrap_or_else(|_| panic!("{text} is no time"));
    let (year, month, day) = (number(0..4), number(5..7), number(8..10));
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = year.div_euclid(400) * 146_097 + {
        let y = year.rem_euclid(400);
        y * 365 + y / 4 - y / 100 + of_year
    } - 719_468;
    days * 86_400 + number(11..13) * 3_600 + number(14..16) * 60 + number(17..19)
}
