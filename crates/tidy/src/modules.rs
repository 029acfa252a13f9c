//! Which source file of a crate takes names from which other, and the cycles among them.
//!
//! A file depends on another when it names an item that the other defines: in a `use`, or in a path that begins with
//! `crate`, `self`, `super`, a child module or an imported module. A re-export is followed to the file that defines
//! the item; it is no arrow for the file that holds it, which only shows its parts. Method calls are not seen, nor is
//! anything under `#[cfg(test)]`.

mod graph;
mod names;

use std::collections::{BTreeMap, BTreeSet};

use crate::source::SourceFile;

pub use graph::cycles;

/// A module's path below the crate root: `["http", "live"]`.
type ModulePath = Vec<String>;

/// The arrows between the files of each crate, by path relative to the workspace.
///
/// # Errors
/// The file and the parser's message when a file is not Rust.
pub fn arrows(files: &[SourceFile]) -> Result<BTreeMap<String, BTreeSet<String>>, String> {
    let mut crates: BTreeMap<&str, Crate> = BTreeMap::new();
    for file in files {
        let Some((root, inside)) = file.path.split_once("/src/") else { continue };
        let Some(module) = module_of(inside) else { continue };
        let names = names::read(&file.text).map_err(|error| format!("{}: {error}", file.path))?;
        crates.entry(root).or_default().modules.insert(module, Module { path: file.path.clone(), names });
    }
    Ok(crates.values().flat_map(Crate::arrows).collect())
}

/// The module that a file below `src` is, or `None` for tests and binaries beside the crate.
fn module_of(inside: &str) -> Option<ModulePath> {
    let mut parts: ModulePath = inside.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    let is_test = |part: &String| part == "tests" || part.ends_with("_tests") || part.starts_with("testing");
    if parts.iter().any(is_test) || parts[0] == "bin" || (parts.len() == 1 && parts[0] == "main") {
        return None;
    }
    if parts.last().is_some_and(|last| last == "mod") || parts == ["lib"] {
        parts.pop();
    }
    Some(parts)
}

#[derive(Debug, Default)]
struct Crate {
    modules: BTreeMap<ModulePath, Module>,
}

#[derive(Debug)]
struct Module {
    path: String,
    names: names::Names,
}

impl Crate {
    fn arrows(&self) -> Vec<(String, BTreeSet<String>)> {
        let arrows = self.modules.iter().map(|(path, module)| {
            let targets = module.names.paths.iter().filter_map(|name| self.definition(path, name, 0));
            let targets = targets.filter(|target| *target != module.path).map(str::to_owned).collect();
            (module.path.clone(), targets)
        });
        arrows.collect()
    }

    /// The file that defines what `name` means inside module `from`; `None` when that is a module or outside the crate.
    fn definition(&self, from: &[String], name: &[String], depth: usize) -> Option<&str> {
        // Deeper than any chain of re-exports: two globs may name each other.
        if depth > 16 {
            return None;
        }
        let (mut at, mut rest) = self.anchor(from, name, depth)?;
        while let Some((first, others)) = rest.split_first() {
            let child: ModulePath = at.iter().chain([first]).cloned().collect();
            if !self.modules.contains_key(&child) {
                break;
            }
            (at, rest) = (child, others);
        }
        let module = self.modules.get(&at)?;
        let first = rest.first()?;
        if module.names.items.contains(first) {
            return Some(&module.path);
        }
        if let Some(path) = module.names.aliases.get(first) {
            let path: Vec<String> = path.iter().chain(&rest[1..]).cloned().collect();
            return self.definition(&at, &path, depth + 1);
        }
        let mut globs = module.names.globs.iter();
        globs.find_map(|glob| {
            let path: Vec<String> = glob.iter().chain(rest).cloned().collect();
            self.definition(&at, &path, depth + 1)
        })
    }

    /// Where `name` begins, and what is left of it: `None` when it begins outside the crate.
    fn anchor<'a>(&self, from: &[String], name: &'a [String], depth: usize) -> Option<(ModulePath, &'a [String])> {
        let (first, rest) = name.split_first()?;
        match first.as_str() {
            "crate" => return Some((ModulePath::new(), rest)),
            "self" => return Some((from.to_vec(), rest)),
            "super" => {
                let ups = name.iter().take_while(|part| *part == "super").count();
                return Some((from[..from.len().checked_sub(ups)?].to_vec(), &name[ups..]));
            }
            _ => {}
        }
        let child: ModulePath = from.iter().chain([first]).cloned().collect();
        if self.modules.contains_key(&child) {
            return Some((child, rest));
        }
        // Something imported here: a module, or an item whose associated names follow.
        let alias = self.modules.get(from)?.names.aliases.get(first)?;
        if depth > 16 || alias == name {
            return None;
        }
        let (mut at, mut left) = self.anchor(from, alias, depth + 1)?;
        while let Some((next, others)) = left.split_first() {
            at = at.into_iter().chain([next.clone()]).collect();
            if !self.modules.contains_key(&at) {
                return None;
            }
            left = others;
        }
        Some((at, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let file =
            |(path, text): &(&str, &str)| SourceFile { path: format!("crates/a/src/{path}"), text: (*text).into() };
        let files: Vec<SourceFile> = files.iter().map(file).collect();
        let arrows = arrows(&files).unwrap();
        let short = |path: &String| path.trim_start_matches("crates/a/src/").to_owned();
        arrows.iter().flat_map(|(from, to)| to.iter().map(move |to| format!("{} {}", short(from), short(to)))).collect()
    }

    #[test]
    fn arrows_follow_re_exports_to_the_definition() {
        let root = ("lib.rs", "mod a; mod b; pub use b::Thing;");
        let b = ("b/mod.rs", "mod deep; pub use deep::{Thing, make};");
        let deep = ("b/deep.rs", "pub struct Thing; pub fn make() {}");
        assert_eq!(found(&[root, b, deep, ("a.rs", "use crate::Thing;")]), ["a.rs b/deep.rs"]);
        let inline = ("a.rs", "use crate::b; fn f() { b::make(); crate::b::deep::make(); }");
        assert_eq!(found(&[root, b, deep, inline])[0], "a.rs b/deep.rs");
        let glob = ("b/mod.rs", "mod deep; pub use deep::*;");
        assert!(found(&[root, glob, deep, inline]).contains(&"a.rs b/deep.rs".to_owned()));
    }

    #[test]
    fn tests_modules_alone_and_outside_names_are_no_arrows() {
        let a = (
            "a.rs",
            "use std::fmt; use crate::b; #[cfg(test)] mod t { use crate::b::f; } #[cfg(test)] use crate::b::f;",
        );
        assert_eq!(found(&[("lib.rs", "mod a; mod b;"), a, ("b.rs", "pub fn f() {}")]), [""; 0]);
    }

    #[test]
    fn a_cycle_is_found_with_its_files() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use super::b::B; pub struct A;"),
            ("b.rs", "pub struct B(crate::a::A);"),
        ];
        let file =
            |(path, text): &(&str, &str)| SourceFile { path: format!("crates/a/src/{path}"), text: (*text).into() };
        let arrows = arrows(&files.iter().map(file).collect::<Vec<_>>()).unwrap();
        assert_eq!(cycles(&arrows), [["crates/a/src/a.rs", "crates/a/src/b.rs"]]);
    }
}
