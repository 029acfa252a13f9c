//! Where packages come from, under which licences, and which of them a crate names and does not use.
//!
//! Failure: advisories are not looked at; they need a database from the network (`cargo deny check advisories`).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::dependencies::{is_ours, list, text};

/// Licences that ask for no more than their text beside the binary, and MPL-2.0, which asks for changes of its own
/// files.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    // Data: roots of trust.
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MPL-2.0",
    // LLVM's former one, MIT and BSD in one: of the fuzzer's library, which is part of no binary.
    "NCSA",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// The one place that packages of others come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Packages of others from elsewhere, or under a licence that may not be, as sentences.
#[must_use]
pub fn foreign(metadata: &Value) -> Vec<String> {
    let used: BTreeSet<&str> = list(&metadata["resolve"]["nodes"]).map(|node| text(&node["id"])).collect();
    let mut findings = Vec::new();
    for package in list(&metadata["packages"]).filter(|package| used.contains(text(&package["id"]))) {
        let name = text(&package["name"]);
        let licence = package["license"].as_str().unwrap_or("none");
        if !allows(licence) {
            findings.push(format!("{name} is under the licence {licence}"));
        }
        if package["source"].as_str().is_some_and(|source| source != REGISTRY) {
            findings.push(format!("{name} comes from {}", package["source"]));
        }
    }
    findings
}

/// Whether a choice that an SPDX expression leaves has allowed licences alone. `/` is the OR of older packages.
fn allows(expression: &str) -> bool {
    let expression = expression.trim();
    for (operator, all) in [(" OR ", false), ("/", false), (" AND ", true)] {
        let parts = outside_parentheses(expression, operator);
        if parts.len() > 1 {
            return if all { parts.into_iter().all(allows) } else { parts.into_iter().any(allows) };
        }
    }
    match expression.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        Some(inner) => allows(inner),
        None => LICENCES.contains(&expression),
    }
}

fn outside_parentheses<'a>(expression: &'a str, operator: &str) -> Vec<&'a str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0_i32, 0);
    for (at, letter) in expression.char_indices() {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        if depth == 0 && at >= from && expression[at..].starts_with(operator) {
            parts.push(&expression[from..at]);
            from = at + operator.len();
        }
    }
    parts.push(&expression[from..]);
    parts
}

/// Dependencies of our crates that no file of theirs names, as sentences.
///
/// # Panics
/// When a file of a crate cannot be read.
#[must_use]
pub fn unused(metadata: &Value) -> Vec<String> {
    let mut findings = Vec::new();
    for package in list(&metadata["packages"]).filter(|package| is_ours(text(&package["name"]))) {
        let directory = Path::new(text(&package["manifest_path"])).parent().expect("a file has a directory");
        let sources = sources(directory);
        // For their features alone: see this crate's own Cargo.toml.
        let shared: Vec<&str> =
            package["features"]["optional-libraries"].as_array().into_iter().flatten().map(text).collect();
        for dependency in list(&package["dependencies"]) {
            let name = text(&dependency["name"]);
            if shared.contains(&format!("dep:{}", dependency["rename"].as_str().unwrap_or(name)).as_str()) {
                continue;
            }
            let library =
                dependency["rename"].as_str().map_or_else(|| library(metadata, name), |name| name.replace('-', "_"));
            if !sources.iter().any(|source| names(source, &library)) {
                findings.push(format!("{} does not use {name}; remove it from its Cargo.toml", text(&package["name"])));
            }
        }
    }
    findings
}

/// How source names the library of a package.
fn library(metadata: &Value, package: &str) -> String {
    let is_library =
        |target: &&Value| list(&target["kind"]).any(|kind| matches!(text(kind), "lib" | "proc-macro" | "rlib"));
    let found = list(&metadata["packages"]).find(|found| text(&found["name"]) == package);
    let target = found.and_then(|found| list(&found["targets"]).find(is_library));
    target.map_or(package, |target| text(&target["name"])).replace('-', "_")
}

/// The files of a crate, and those of others that it has by their paths, with their modules.
fn sources(directory: &Path) -> Vec<String> {
    let is_rust = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "rs");
    let mut files: Vec<PathBuf> = walkdir::WalkDir::new(directory)
        .into_iter()
        .flatten()
        .map(walkdir::DirEntry::into_path)
        .filter(is_rust)
        .collect();
    let (mut out, mut at) = (Vec::new(), 0);
    while at < files.len() {
        let source =
            std::fs::read_to_string(&files[at]).unwrap_or_else(|error| panic!("{}: {error}", files[at].display()));
        let beside = files[at].parent().expect("a file has a directory").to_owned();
        let elsewhere = source.lines().filter_map(|line| line.trim().strip_prefix("#[path = \"")?.strip_suffix("\"]"));
        let modules =
            source.lines().filter_map(|line| line.trim().strip_suffix(';')?.split_once("mod ").map(|(_, name)| name));
        let parts = modules.map(|name| format!("{name}.rs"));
        for path in elsewhere.map(str::to_owned).chain(parts).map(|path| beside.join(path)) {
            if path.is_file() && !files.contains(&path) {
                files.push(path);
            }
        }
        out.push(source);
        at += 1;
    }
    out
}

/// Whether code of a file, not a comment, has a name.
fn names(source: &str, name: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    source.lines().filter(|line| !line.trim_start().starts_with("//")).any(|line| {
        line.match_indices(name)
            .any(|(at, _)| !line[..at].ends_with(is_part) && !line[at + name.len()..].starts_with(is_part))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn licences_are_chosen_and_all_of_a_sum_must_do() {
        for good in [
            "MIT",
            "GPL-3.0 OR MIT",
            "Unlicense/MIT",
            "(GPL-2.0 OR MIT) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(allows(good), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "MITX", "(MIT OR ISC) AND (GPL-2.0 OR AGPL-3.0)", "none"] {
            assert!(!allows(bad), "{bad}");
        }
    }

    #[test]
    fn a_package_from_elsewhere_or_under_another_licence_is_found() {
        let package = |name: &str, licence: &str, source: Value| json!({"id": name, "name": name, "license": licence, "source": source});
        let metadata = json!({
            "packages": [
                package("good", "MIT", json!(REGISTRY)),
                package("copyleft", "GPL-3.0", json!(REGISTRY)),
                package("fork", "MIT", json!("git+https://example.org/fork")),
                package("not-built", "GPL-3.0", json!(REGISTRY)),
                package("ogive-hist", "Apache-2.0", Value::Null),
            ],
            "resolve": {"nodes": [{"id": "good"}, {"id": "copyleft"}, {"id": "fork"}, {"id": "ogive-hist"}]},
        });
        let findings = foreign(&metadata);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(
            findings[0].contains("copyleft is under the licence GPL-3.0") && findings[1].contains("fork comes from")
        );
    }

    #[test]
    fn a_name_in_a_comment_or_in_another_name_is_no_use() {
        assert!(names("use serde_json::Value;\n", "serde_json"));
        assert!(names("let x = md5::Md5::new();", "md5"));
        assert!(!names("// serde_json\n/// md5 of it\nlet md5sum = my_md5;\n", "md5"));
        assert!(!names("// serde_json", "serde_json"));
    }
}
