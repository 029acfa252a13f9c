//! Public rule files and their tests, when `OGIVE_RULES_DIR` names a folder with them and a file `verdicts.txt` of
//! lines `path pass` or `path fail`.

use std::path::{Path, PathBuf};

use ogive_detect::rules::RuleFile;
use ogive_detect::rules::unit::{TestFile, run};

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
        assert!(file.mutate(number), "{name} has nothing to mutate");
        if failures(&file).is_empty() {
            wrong.push(format!("{name} passes with a mutated expectation"));
        }
    }
    println!("{passed} files pass and {failed} fail, as for the reference");
    assert!(wrong.is_empty(), "{} files:\n{}", wrong.len(), wrong.join("\n"));
    assert!(passed > 0);
}
