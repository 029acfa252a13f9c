//! The project's invariants. Each allow-list may only shrink: an entry that is no longer needed fails too.

use std::collections::BTreeSet;

use ogive_tidy::dependencies::{self, Graph};
use ogive_tidy::source::{self, FILE_LINES_MAX, FUNCTION_LINES_MAX};
use ogive_tidy::{limits, links, modules, packages, test_files, words};

/// Where `unsafe` may stand: a prefix of the path, and why.
const UNSAFE_ALLOWED: &[&str] = &[
    // Reads of the time-stamp counter, and system calls that have no safe wrapper.
    "crates/probe/src/",
    "crates/probe/tests/",
    "crates/probe/benches/",
    // Eight durations looked up at a time with AVX-512.
    "crates/hist/src/simd.rs",
    // The raw rdtsc that a record is measured beside.
    "crates/hist/benches/",
    // A fork, to see what an exporter does in a child.
    "crates/export/tests/fork.rs",
    // The packet ring: a mapping shared with the kernel, and options of its socket.
    "crates/capture/src/ring.rs",
    // Two calls of libbpf that have no safe wrapper: what programs in the kernel cost.
    "crates/kernel/src/run_time.rs",
    // The memory of a map, which programs in the kernel change while it is read.
    "crates/kernel/src/mapped.rs",
    // What a command does between fork and exec, to stop before its first instruction.
    "crates/kernel/src/functions/stopped.rs",
    // Handlers of fatal signals, and the registers of a panic.
    "crates/crash/src/handler.rs",
    // One call to the control of the allocator.
    "crates/observe/src/purge.rs",
    // The bare packet socket that the ring is measured beside.
    "crates/capture/benches/",
    // An allocator that counts what a reader takes: the trait itself is unsafe.
    "crates/hist/tests/allocation.rs",
];

/// Entries of an allow-list beside this file: one a line, `#` begins a comment.
fn allowed(list: &str) -> BTreeSet<String> {
    let path = ogive_tidy::root().join("crates/tidy/allow").join(list);
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).map(Into::into).collect()
}

fn none(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

/// Findings that are not allowed, and allowances that nothing needs.
fn against(list: &str, found: &BTreeSet<String>) -> Vec<String> {
    let allowed = allowed(list);
    let news = found.difference(&allowed).cloned();
    let stale = allowed.difference(found).map(|entry| format!("{entry}: no longer needed in allow/{list}; remove it"));
    news.chain(stale).collect()
}

#[test]
fn crates_depend_only_as_the_design_allows() {
    let metadata = dependencies::metadata(&ogive_tidy::root());
    none(&Graph::from_metadata(&metadata).findings());
    none(&packages::foreign(&metadata));
}

#[test]
fn crates_use_what_they_depend_on() {
    none(&packages::unused(&dependencies::metadata(&ogive_tidy::root())));
}

#[test]
fn every_file_of_tests_is_compiled() {
    let crates = std::fs::read_dir(ogive_tidy::root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let mut findings = Vec::new();
    for directory in crates.filter(|path| path.join("Cargo.toml").exists()) {
        let name = directory.file_name().unwrap().to_string_lossy().into_owned();
        let missing = test_files::left_out(&directory);
        findings.extend(missing.iter().map(|file| format!("crates/{name}/tests/{file}.rs: name it in tests/main.rs")));
    }
    none(&findings);
}

#[test]
fn unsafe_stands_only_where_it_is_fenced() {
    let mut findings = Vec::new();
    for file in source::files(&ogive_tidy::root()) {
        let contents = source::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.path));
        if !UNSAFE_ALLOWED.iter().any(|place| file.path.starts_with(place)) {
            findings.extend(contents.unsafe_lines.iter().map(|line| format!("{}:{line}: unsafe", file.path)));
        }
    }
    none(&findings);
}

#[test]
fn clocks_and_files_are_reached_through_their_owners() {
    let mut findings = BTreeSet::new();
    for file in source::files(&ogive_tidy::root()) {
        let contents = source::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.path));
        findings.extend(contents.fenced_calls.iter().map(|(_, what)| format!("{} {what}", file.path)));
    }
    none(&against("calls.txt", &findings));
}

#[test]
fn functions_fit_on_a_screen() {
    let mut long = BTreeSet::new();
    for file in source::files(&ogive_tidy::root()) {
        let contents = source::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.path));
        for (name, lines) in contents.long_functions {
            println!("{} {name}: {lines} lines, above {FUNCTION_LINES_MAX}", file.path);
            long.insert(format!("{} {name}", file.path));
        }
    }
    none(&against("long-functions.txt", &long));
}

#[test]
fn links_of_documents_lead_somewhere_and_the_book_has_every_page() {
    let root = ogive_tidy::root();
    let documents = source::paths(&root, &["md"]);
    let mut findings: Vec<String> = documents.iter().flat_map(|path| links::findings(&root, path)).collect();
    let summary = std::fs::read_to_string(root.join("docs/SUMMARY.md")).unwrap();
    let chapters: BTreeSet<String> = links::relative_links(&summary).into_iter().map(|(_, target)| target).collect();
    for path in &documents {
        let name = source::relative(&root, path);
        if let Some(chapter) =
            name.strip_prefix("docs/").filter(|name| *name != "SUMMARY.md" && !chapters.contains(*name))
        {
            findings.push(format!("docs/{chapter} is not in docs/SUMMARY.md"));
        }
    }
    none(&findings);
}

#[test]
fn documents_have_short_lines_and_avoid_the_words_that_the_glossary_lists() {
    let root = ogive_tidy::root();
    let avoided = words::avoided(&std::fs::read_to_string(root.join("docs/GLOSSARY.md")).unwrap());
    let mut findings = Vec::new();
    for path in source::paths(&root, &["md"]) {
        let name = source::relative(&root, &path);
        let is_prose =
            name.starts_with("docs/") || ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].contains(&name.as_str());
        if !is_prose && name != "CHANGELOG.md" {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let mut found = words::long_lines(&text);
        if is_prose && name != "docs/GLOSSARY.md" {
            found.extend(words::findings(&text, &avoided));
        }
        findings.extend(found.into_iter().map(|finding| format!("{name}:{finding}")));
    }
    none(&findings);
}

#[test]
fn files_stay_below_a_thousand_lines() {
    let root = ogive_tidy::root();
    let mut findings = Vec::new();
    for path in source::paths(&root, &["rs", "ts", "css", "html", "c", "h", "go", "java", "js"]) {
        let lines = std::fs::read_to_string(&path).map_or(0, |text| text.lines().count());
        let generated = path.file_name().is_some_and(|name| name == "generated.rs" || name == "batch_generated.h");
        if lines > FILE_LINES_MAX && !generated {
            findings.push(format!("{}: {lines} lines, above {FILE_LINES_MAX}", source::relative(&root, &path)));
        }
    }
    none(&findings);
}

#[test]
fn files_do_not_depend_on_each_other_in_cycles() {
    let arrows = modules::arrows(&source::files(&ogive_tidy::root())).unwrap();
    let mut found = BTreeSet::new();
    for cycle in modules::cycles(&arrows) {
        let inside = |file: &&String| cycle.contains(&file.as_str());
        for file in &cycle {
            let targets: Vec<&String> = arrows[*file].iter().filter(inside).collect();
            println!("{file} -> {targets:?}");
            found.insert((*file).to_owned());
        }
        println!("-- a cycle of {} files\n", cycle.len());
    }
    none(&against("cycles.txt", &found));
}

#[test]
fn a_limit_of_a_decoder_is_known_to_its_encoder() {
    let found = limits::findings(&source::files(&ogive_tidy::root())).unwrap();
    none(&against("limits.txt", &found));
}
