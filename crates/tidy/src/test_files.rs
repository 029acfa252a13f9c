//! Files of tests that no program compiles: cargo finds them by itself only where a crate leaves that to it.

use std::fs;
use std::path::Path;

/// The files of `tests/` in the crate at `directory` that are neither a module of `tests/main.rs` nor a program of
/// their own, for crates whose manifest says `autotests = false`.
///
/// # Panics
/// When the manifest or the folder cannot be read.
#[must_use]
pub fn left_out(directory: &Path) -> Vec<String> {
    let manifest = fs::read_to_string(directory.join("Cargo.toml")).expect("a crate has a manifest");
    if !manifest.contains("autotests = false") {
        return Vec::new();
    }
    let tests = directory.join("tests");
    let modules = fs::read_to_string(tests.join("main.rs")).unwrap_or_default();
    let entries = fs::read_dir(&tests).expect("the crate has tests").map(|entry| entry.expect("an entry").path());
    let files = entries.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let names = files.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()));
    let is_compiled = |name: &str| {
        modules.lines().any(|line| line == format!("mod {name};"))
            || manifest.contains(&format!("path = \"tests/{name}.rs\""))
    };
    let mut missing: Vec<String> = names.filter(|name| !is_compiled(name)).collect();
    missing.sort();
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_a_module_or_a_program_or_it_is_found() {
        let crate_of = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(crate_of.path().join(name), text).unwrap();
        fs::create_dir(crate_of.path().join("tests")).unwrap();
        write(
            "Cargo.toml",
            "[package]\nautotests = false\n[[test]]\npath = \"tests/main.rs\"\n[[test]]\npath = \"tests/alone.rs\"\n",
        );
        write("tests/main.rs", "mod first;\n");
        for name in ["first", "alone", "forgotten"] {
            write(&format!("tests/{name}.rs"), "");
        }
        assert_eq!(left_out(crate_of.path()), ["forgotten"]);
        write("Cargo.toml", "[package]\n");
        assert!(left_out(crate_of.path()).is_empty(), "cargo finds them itself");
    }
}
