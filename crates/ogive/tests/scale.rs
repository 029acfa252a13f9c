//! `ogive scale` as a user runs it, on programs whose scaling is known.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock, PoisonError};

use serde_json::Value;

/// `scale_work.c`, compiled once.
fn work() -> &'static str {
    static WORK: OnceLock<PathBuf> = OnceLock::new();
    let path = WORK.get_or_init(|| {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("scale-work-{}", std::process::id()));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scale_work.c");
        let status = Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(source).status();
        assert!(status.expect("cc is needed: apt-get install build-essential").success());
        program
    });
    path.to_str().unwrap()
}

fn scale(options: &[&str], command: &[&str]) -> Output {
    let mut ogive = Command::new(env!("CARGO_BIN_EXE_ogive"));
    ogive.arg("scale").args(options).arg("--").args(command).env_remove("OGIVE_COLOR").env("LC_ALL", "C.UTF-8");
    ogive.output().unwrap()
}

/// What it prints as JSON. One at a time: each measures what the CPUs do for it.
fn measured(options: &[&str], command: &[&str]) -> Value {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let output = scale(&[&["--json", "--no-bpf", "--oversubscribe"], options].concat(), command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The share that a state has in what more workers cost.
fn share(report: &Value, state: &str) -> f64 {
    let grows = report["grows"].as_array().unwrap();
    grows.iter().find(|one| one["state"] == state).map_or(0.0, |one| one["share"].as_f64().unwrap())
}

#[test]
fn the_coefficients_of_a_program_with_known_ones_are_found_within_five_percent() {
    let known = [("sigma", 0.2), ("kappa", 0.05), ("lambda", 1.0 / 1.5)];
    let mut found = Vec::new();
    // A machine that is busy with other things makes every phase longer by what it takes to wake up: it is tried until
    // there was a quiet moment.
    for _ in 0..12 {
        let command = [work(), "law", "{}", "0.2", "0.05", "1.5"];
        let report = measured(&["--workers", "1,2,4,8", "--rounds", "3", "--best"], &command);
        let law = known.map(|(name, _)| report["law"][name].as_f64().unwrap());
        found.push(law);
        if law.iter().zip(known).all(|(found, (_, known))| (found / known - 1.0).abs() <= 0.05) {
            let peak = report["law"]["peak_workers"].as_f64().unwrap();
            assert!((peak - 4.0).abs() < 0.3, "{peak}");
            println!("sigma, kappa, lambda: {found:?}");
            return;
        }
    }
    panic!("{known:?}: {found:?}");
}

#[test]
fn a_lock_that_all_want_is_what_grows() {
    let report = measured(&["--workers", "1,2,4", "--rounds", "1"], &[work(), "lock", "{}"]);
    assert_eq!(report["grows"][0]["state"], "LCK", "{report:#}");
    assert!(share(&report, "LCK") > 0.5, "{report:#}");
}

#[test]
fn workers_without_a_cpu_of_their_own_are_ready_and_wait() {
    let cpu = ogive_probe::allowed_cpus()[0].to_string();
    let options = ["--workers", "1,2,4", "--rounds", "1", "--cpus", cpu.as_str()];
    let report = measured(&options, &[work(), "burn", "{}"]);
    assert_eq!(report["grows"][0]["state"], "LAT", "{report:#}");
}

#[test]
fn more_system_calls_for_the_same_work_are_time_in_the_kernel() {
    let report = measured(&["--workers", "1,2,3", "--rounds", "1", "--all-cpus"], &[work(), "calls", "{}"]);
    let grows = report["grows"].as_array().unwrap();
    let system = grows.iter().find(|one| one["state"] == "SYS").unwrap_or_else(|| panic!("{report:#}"));
    // None with one worker, 600,000 by each of three.
    let seconds = |name: &str| system[name].as_f64().unwrap();
    assert!(seconds("after_s") > 3.0 * seconds("before_s"), "{report:#}");
}

#[test]
fn copies_are_a_worker_each_and_printed_numbers_are_added_up() {
    let report = measured(&["--workers", "1-3", "--rounds", "1", "--by", "count"], &[work(), "print", "2"]);
    let work_done: Vec<f64> =
        report["runs"].as_array().unwrap().iter().map(|run| run["work"].as_f64().unwrap()).collect();
    assert_eq!(work_done, [200.0, 400.0, 600.0], "the last number of each copy");
    let report = measured(&["--workers", "1-3", "--rounds", "2", "--by", "rate"], &[work(), "print", "{}"]);
    let rates: Vec<f64> =
        report["points"].as_array().unwrap().iter().map(|p| p["throughput"].as_f64().unwrap()).collect();
    assert!(
        rates.iter().zip([100.0, 200.0, 300.0]).all(|(rate, known)| (rate / known - 1.0).abs() < 1e-9),
        "{rates:?}"
    );
    assert!((report["law"]["sigma"].as_f64().unwrap()).abs() < 1e-6, "nothing is lost: {}", report["law"]);
}

#[test]
fn the_table_the_picture_and_the_words_are_there() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("curve.svg");
    let options =
        ["--workers", "1-3", "--oversubscribe", "--rounds", "1", "--by", "rate", "--svg", file.to_str().unwrap()];
    let output = scale(&options, &[work(), "print", "{}"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for part in ["workers", "LAT", "* nothing lost", "x measured", "X(n) = 100 n", "nothing is lost", "3 workers"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let svg = std::fs::read_to_string(&file).unwrap();
    assert!(svg.starts_with("<svg") && svg.matches("<circle").count() == 3 && svg.contains("class=\"law\""), "{svg}");
}

#[test]
fn what_cannot_be_run_is_said_in_one_line() {
    let failed = [work(), "fail", "{}"];
    let many = ogive_probe::allowed_cpus().len() + 1;
    let too_many = format!("1-{many}");
    for (options, command, says) in [
        (vec!["--workers", too_many.as_str()], vec!["true"], "--oversubscribe"),
        (vec!["--workers", "0"], vec!["true"], "0 workers"),
        (vec!["--workers", "1-99999"], vec!["true"], "1024 at most"),
        (vec!["--cpus", "99999"], vec!["true"], "may not use CPU 99999"),
        (vec!["--cpus", "x"], vec!["true"], "no number"),
        (vec![], vec!["/nowhere/command"], "/nowhere/command"),
        (vec!["--workers", "1,2", "--oversubscribe"], failed.to_vec(), "exit status: 7"),
        (vec!["--by", "count"], vec!["true", "{}"], "no number"),
    ] {
        let output = scale(&[&["--no-bpf"], options.as_slice()].concat(), &command);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.lines().last().unwrap_or_default().contains(says), "{options:?}: {error}");
    }
}
