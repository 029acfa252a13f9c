//! Public rule files and their tests, when `OGIVE_RULES_DIR` names a folder with them and a file `verdicts.txt` of lines
//! `path pass` or `path fail`.

use std::path::{Path, PathBuf};

use super::file::{ExpectedAlert, ExpectedSample, TestFile};
use super::run::run;
use crate::rules::file::RuleFile;

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("OGIVE_RULES_DIR").map(PathBuf::from);
    if folder.is_none() {
        println!("skipped: OGIVE_RULES_DIR names no folder of public rule files");
    }
    folder
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn rules_of(path: &Path, file: &TestFile) -> Vec<(String, RuleFile)> {
    let parent = path.parent().unwrap();
    let paths = file.rule_files.iter().map(|name| parent.join(name)).filter(|path| path.exists());
    let parse =
        |path: &PathBuf| RuleFile::parse(&read(path)).unwrap_or_else(|errors| panic!("{}: {errors:?}", path.display()));
    paths.map(|path| (path.display().to_string(), parse(&path))).collect()
}

/// Changes the expectation of one check, a different one in each file.
fn mutate(file: &mut TestFile, seed: usize) -> bool {
    let tests = file.tests.len().max(1);
    for offset in 0..tests {
        let at = (seed + offset) % tests;
        let Some(test) = file.tests.get_mut(at) else { return false };
        if let Some(case) = test.alert_rule_test.first_mut() {
            match case.exp_alerts.first_mut() {
                Some(alert) => drop(alert.exp_labels.insert("mutated".to_owned(), "yes".to_owned())),
                None => case
                    .exp_alerts
                    .push(ExpectedAlert { exp_labels: Default::default(), exp_annotations: Default::default() }),
            }
            return true;
        }
        if let Some(case) = test.promql_expr_test.first_mut() {
            match case.exp_samples.first_mut() {
                Some(sample) => sample.value = Some(sample.value.unwrap_or(0.0) + 1.0),
                None => case.exp_samples.push(ExpectedSample { labels: None, value: Some(1.0), histogram: None }),
            }
            return true;
        }
    }
    false
}

#[test]
fn public_tests_have_the_verdict_of_the_reference_and_fail_when_they_expect_something_else() {
    let Some(folder) = folder() else { return };
    let (mut passed, mut failed, mut wrong) = (0, 0, Vec::new());
    for (number, line) in read(&folder.join("verdicts.txt")).lines().enumerate() {
        let (name, verdict) = line.split_once(' ').expect("a line has a path and a verdict");
        let path = folder.join(name);
        let mut file = match TestFile::parse(&read(&path)) {
            Ok(file) => file,
            Err(error) => {
                wrong.push(format!("{name}: {error}"));
                continue;
            }
        };
        let rules = rules_of(&path, &file);
        let failures = |file: &TestFile| -> Vec<String> {
            run(file, &rules, &|_| true, false)
                .iter()
                .flat_map(|report| &report.failures)
                .map(ToString::to_string)
                .collect()
        };
        let found = failures(&file);
        if found.is_empty() != (verdict == "pass") {
            wrong.push(format!("{name} is {verdict}, and here: {}", found.join("\n")));
        }
        if verdict == "pass" {
            passed += 1
        } else {
            failed += 1
        }
        assert!(mutate(&mut file, number), "{name} has nothing to mutate");
        if failures(&file).is_empty() {
            wrong.push(format!("{name} passes with a mutated expectation"));
        }
    }
    println!("{passed} files pass and {failed} fail, as for the reference");
    assert!(wrong.is_empty(), "{} files:\n{}", wrong.len(), wrong.join("\n"));
    assert!(passed > 0);
}
