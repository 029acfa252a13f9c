//! `ogive test rules`: unit tests of rules, as `promtool test rules` takes them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use ogive_detect::rules::RuleFile;
use ogive_detect::rules::unit::{self, Failure, TestFile, TestReport};
use regex::Regex;

use super::files::FILES;

/// A test failed.
const EXIT_FINDING: u8 = 1;

/// Runs unit tests of rule files.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Test {
    /// Runs unit tests of rules, in promtool's format. Exit code 1 when one fails.
    Rules {
        /// Test files (YAML).
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Run only tests whose name matches this regular expression. Repeatable.
        #[arg(long, value_name = "REGEX")]
        run: Vec<Regex>,
        /// Mark the lines that differ.
        #[arg(long)]
        diff: bool,
        /// Print how alerts change at each step.
        #[arg(long)]
        debug: bool,
        /// Write a JUnit XML report to this file.
        #[arg(long, value_name = "FILE")]
        junit: Option<PathBuf>,
    },
}

/// Runs the command.
pub(crate) fn run(command: &Test) -> anyhow::Result<ExitCode> {
    let Test::Rules { files, run, diff, debug, junit } = command;
    let mut reports = Vec::new();
    for file in files {
        println!("Unit Testing:  {}", file.display());
        let found = test(file, run, *debug);
        for report in &found {
            report.steps.iter().for_each(|step| println!("  {}: {step}", report.name));
        }
        print_verdict(&found, *diff);
        println!();
        reports.push((file.display().to_string(), found));
    }
    if let Some(path) = junit {
        std::fs::write(path, unit::junit(&reports)).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let has_failed = reports.iter().flat_map(|(_, reports)| reports).any(|report| !report.failures.is_empty());
    Ok(if has_failed { ExitCode::from(EXIT_FINDING) } else { ExitCode::SUCCESS })
}

fn print_verdict(reports: &[TestReport], diff: bool) {
    if reports.iter().all(|report| report.failures.is_empty()) {
        println!("  SUCCESS");
        return;
    }
    println!("  FAILED:");
    for report in reports.iter().filter(|report| !report.failures.is_empty()) {
        println!("    name: {},", report.name);
        for failure in &report.failures {
            println!("{}", if diff { failure.diff() } else { failure.to_string() });
        }
    }
}

/// The reports of a file; one of its own where the file cannot be run.
fn test(path: &Path, wanted: &[Regex], debug: bool) -> Vec<TestReport> {
    let run = || -> Result<Vec<TestReport>, Vec<String>> {
        let file = TestFile::parse(&read(path)?).map_err(|error| vec![format!("{}:{error}", path.display())])?;
        let rules = rules(path, &file)?;
        let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|pattern| pattern.is_match(name));
        Ok(unit::run(&file, &rules, &is_wanted, debug))
    };
    run().unwrap_or_else(|errors| {
        let failures = errors.into_iter().map(Failure::Error).collect();
        vec![TestReport { name: path.display().to_string(), failures, steps: Vec::new() }]
    })
}

/// The rule files that a test names, as seen from its folder.
fn rules(path: &Path, file: &TestFile) -> Result<Vec<(String, RuleFile)>, Vec<String>> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut out: Vec<(String, RuleFile)> = Vec::new();
    let mut problems = Vec::new();
    for pattern in &file.rule_files {
        let found = (FILES.list)(&folder.join(pattern)).map_err(|error| vec![format!("{pattern}: {error}")])?;
        let found: Vec<PathBuf> = found.into_iter().filter(|path| path.exists()).collect();
        if found.is_empty() {
            println!("  WARNING: no file match pattern {}", folder.join(pattern).display());
        }
        for path in found {
            let name = path.display().to_string();
            if out.iter().any(|(other, _)| *other == name) {
                continue;
            }
            match RuleFile::parse(&read(&path)?) {
                Ok(rules) => out.push((name, rules)),
                Err(errors) => problems.extend(errors.iter().map(|error| format!("{name}:{error}"))),
            }
        }
    }
    if problems.is_empty() { Ok(out) } else { Err(problems) }
}

fn read(path: &Path) -> Result<String, Vec<String>> {
    let bytes = (FILES.read)(path).map_err(|error| vec![format!("{}: {error}", path.display())])?;
    String::from_utf8(bytes).map_err(|_| vec![format!("{}: the file is not UTF-8", path.display())])
}
