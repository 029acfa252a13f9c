//! What may stand in a source file: parsed, not searched, so that comments and strings do not count.
//!
//! Code under `#[cfg(test)]`, and the directories `bench`, `tests`, `benches` and `examples`, may call what it likes.

use std::path::{Path, PathBuf};

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Longest source file, tests included.
pub const FILE_LINES_MAX: usize = 1000;
/// Longest function: one screen.
pub const FUNCTION_LINES_MAX: usize = 70;

/// Paths that only the named places may call: the reason stands in the finding.
const FENCED_CALLS: &[(&[&str], &[&str], &str)] = &[
    (&["Instant", "now"], &["crates/probe/"], "read the clock through ogive-probe, or take a clock as an argument"),
    (&["SystemTime", "now"], &["crates/probe/"], "read the clock through ogive-probe, or take a clock as an argument"),
    (
        &["std", "fs"],
        &["crates/journal/src/disk", "crates/tidy/", "crates/ogive/src/cli/", "crates/http/build.rs"],
        "files are reached through the Disk trait, so that faults can be simulated",
    ),
    (
        &["File", "open"],
        &["crates/journal/src/disk", "crates/ogive/src/cli/"],
        "files are reached through the Disk trait",
    ),
    (
        &["fastrand"],
        PREDICTABLE,
        "numbers that can be predicted: secrets, nonces and identifiers come from ring's SystemRandom",
    ),
    (&["File", "create"], &["crates/journal/src/disk"], "files are reached through the Disk trait"),
];

/// Where numbers may be predictable: pauses, the choice of an address, what fills the reserve, simulated disks, and
/// what only tests use.
const PREDICTABLE: &[&str] = &[
    "crates/broker/src/endpoints.rs",
    "crates/export/src/backoff.rs",
    "crates/journal/src/disk/medium.rs",
    "crates/journal/src/disk/simulated.rs",
    "crates/journal/src/journal_tests.rs",
    "crates/protocol/src/mutations.rs",
    "crates/store/src/block/cache_tests.rs",
    "crates/store/src/crash_tests/",
    "crates/store/src/reserve.rs",
    "crates/store/src/store_tests.rs",
    "crates/store/src/upkeep_tests.rs",
];

/// Where a line may be printed to standard error as it is: commands that a person runs, and the exporter, which lives
/// in programs of others and must not choose their logging.
const MAY_PRINT: &[&str] =
    &["crates/ogive/src/cli/", "crates/export/src/exporter.rs", "crates/store/src/crash_tests/", "examples/"];

/// One file of the project's Rust source.
#[derive(Debug)]
pub struct SourceFile {
    /// Relative to the root, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// What one file holds that a rule speaks of.
#[derive(Debug, Default)]
pub struct Contents {
    /// Functions longer than [`FUNCTION_LINES_MAX`], as `name lines`.
    pub long_functions: Vec<(String, usize)>,
    /// Lines with an `unsafe` block, function, impl or trait.
    pub unsafe_lines: Vec<usize>,
    /// Calls of something fenced: line and reason.
    pub fenced_calls: Vec<(usize, String)>,
}

/// Every `.rs` file under `crates/` and `fuzz/`, generated ones left out.
///
/// # Panics
/// When a file cannot be read.
#[must_use]
pub fn files(root: &Path) -> Vec<SourceFile> {
    paths(root, &["rs"])
        .into_iter()
        .filter(|path| path.file_name().is_none_or(|name| name != "generated.rs"))
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("a source file is readable");
            SourceFile { path: relative(root, &path), text }
        })
        .collect()
}

/// Files of the project with one of the endings, build output and dependencies left out.
#[must_use]
pub fn paths(root: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let skipped = ["target", "node_modules", "dist", ".git", "ogive-data"];
    let walk = walkdir::WalkDir::new(root).sort_by_file_name().into_iter();
    walk.filter_entry(|entry| !skipped.iter().any(|name| entry.file_name() == *name))
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_file())
        .map(walkdir::DirEntry::into_path)
        .filter(|path| path.extension().is_some_and(|ending| endings.iter().any(|wanted| ending == *wanted)))
        .collect()
}

/// `path` below `root`, with `/`.
#[must_use]
pub fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

/// Reads one file.
///
/// # Errors
/// The parser's message when the text is not Rust.
pub fn read(file: &SourceFile) -> Result<Contents, syn::Error> {
    let parsed = syn::parse_file(&file.text)?;
    let is_test =
        ["/tests/", "/benches/", "/examples/", "/tests.rs", "/testing"].iter().any(|part| file.path.contains(part))
            || file.path.starts_with("bench/");
    let mut reader = Reader { path: &file.path, test_depth: usize::from(is_test), contents: Contents::default() };
    reader.visit_file(&parsed);
    Ok(reader.contents)
}

struct Reader<'a> {
    path: &'a str,
    test_depth: usize,
    contents: Contents,
}

impl Reader<'_> {
    fn function(&mut self, name: String, span: Span) {
        let lines = span.end().line - span.start().line + 1;
        if lines > FUNCTION_LINES_MAX {
            self.contents.long_functions.push((name, lines));
        }
    }

    fn not_safe(&mut self, span: Span) {
        self.contents.unsafe_lines.push(span.start().line);
    }

    fn path(&mut self, segments: &[String], span: Span) {
        if self.test_depth > 0 {
            return;
        }
        for (fenced, allowed, reason) in FENCED_CALLS {
            let named = segments.windows(fenced.len()).any(|window| window.iter().eq(fenced.iter()));
            if named && !allowed.iter().any(|place| self.path.starts_with(place)) {
                self.contents.fenced_calls.push((span.start().line, format!("{}: {reason}", fenced.join("::"))));
            }
        }
    }

    fn use_tree(&mut self, before: &[String], tree: &syn::UseTree) {
        let mut path = before.to_vec();
        match tree {
            syn::UseTree::Path(inner) => {
                path.push(inner.ident.to_string());
                self.use_tree(&path, &inner.tree);
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.use_tree(&path, item)),
            syn::UseTree::Name(name) => {
                path.push(name.ident.to_string());
                self.path(&path, tree.span());
            }
            syn::UseTree::Rename(name) => {
                path.push(name.ident.to_string());
                self.path(&path, tree.span());
            }
            syn::UseTree::Glob(_) => self.path(&path, tree.span()),
        }
    }
}

pub(crate) fn is_test_only(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let tokens = match &attribute.meta {
            syn::Meta::List(list) => list.tokens.to_string(),
            _ => String::new(),
        };
        attribute.path().is_ident("test")
            || (attribute.path().is_ident("cfg") && tokens.contains("test") && !tokens.contains("not"))
    })
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let test = usize::from(is_test_only(&item.attrs));
        self.test_depth += test;
        visit::visit_item_mod(self, item);
        self.test_depth -= test;
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let test = usize::from(is_test_only(&item.attrs));
        self.test_depth += test;
        if item.sig.unsafety.is_some() {
            self.not_safe(item.sig.span());
        }
        self.function(item.sig.ident.to_string(), item.span());
        visit::visit_item_fn(self, item);
        self.test_depth -= test;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        let test = usize::from(is_test_only(&item.attrs));
        self.test_depth += test;
        if item.sig.unsafety.is_some() {
            self.not_safe(item.sig.span());
        }
        self.function(item.sig.ident.to_string(), item.span());
        visit::visit_impl_item_fn(self, item);
        self.test_depth -= test;
    }

    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.not_safe(block.span());
        visit::visit_expr_unsafe(self, block);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if item.unsafety.is_some() {
            self.not_safe(item.impl_token.span);
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        let is_print = ["eprintln", "eprint"].iter().any(|name| item.path.is_ident(name));
        if is_print && self.test_depth == 0 && !MAY_PRINT.iter().any(|place| self.path.starts_with(place)) {
            let reason =
                "eprintln: a role logs through tracing, so that level, time and form are the operator's choice";
            self.contents.fenced_calls.push((item.span().start().line, reason.to_owned()));
        }
        visit::visit_macro(self, item);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.path(&segments, path.span());
        visit::visit_path(self, path);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test_only(&item.attrs) {
            self.use_tree(&[], &item.tree);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(path: &str, text: &str) -> Contents {
        read(&SourceFile { path: path.into(), text: text.into() }).unwrap()
    }

    #[test]
    fn fenced_calls_are_found_outside_their_place_and_outside_tests() {
        let text = "fn f() { std::time::Instant::now(); } #[cfg(test)] mod t { fn g() { Instant::now(); } }";
        assert_eq!(contents("crates/store/src/lib.rs", text).fenced_calls.len(), 1);
        assert_eq!(contents("crates/probe/src/lib.rs", text).fenced_calls.len(), 0);
        assert_eq!(contents("crates/store/tests/a.rs", text).fenced_calls.len(), 0);
        let text = "fn nonce() -> u64 { fastrand::u64(..) }";
        assert_eq!(contents("crates/checks/src/postgres.rs", text).fenced_calls.len(), 1);
        assert_eq!(contents("crates/export/src/backoff.rs", text).fenced_calls.len(), 0);
        let text = "use std::{fs::{self, File}, io}; // std::fs in words\nconst A: &str = \"std::fs\";";
        assert_eq!(contents("crates/store/src/lib.rs", text).fenced_calls.len(), 2);
    }

    #[test]
    fn a_line_on_standard_error_is_found_outside_commands() {
        let text = "fn f() { eprintln!(\"no\"); } #[cfg(test)] mod t { fn g() { eprintln!(\"yes\"); } }";
        assert_eq!(contents("crates/scrape/src/lib.rs", text).fenced_calls.len(), 1);
        assert_eq!(contents("crates/ogive/src/cli/query/mod.rs", text).fenced_calls.len(), 0);
        assert_eq!(contents("crates/ogive/tests/serve.rs", text).fenced_calls.len(), 0);
    }

    #[test]
    fn unsafe_is_found_in_every_form() {
        let text = "unsafe fn f() {} fn g() { unsafe { f() } } struct S; unsafe impl Send for S {}";
        assert_eq!(contents("crates/a/src/lib.rs", text).unsafe_lines.len(), 3);
        assert_eq!(contents("crates/a/src/lib.rs", "#![forbid(unsafe_code)]").unsafe_lines.len(), 0);
    }

    #[test]
    fn a_function_is_long_above_the_limit() {
        let function = |lines: usize| format!("fn f() {{\n{}}}\n", "    ();\n".repeat(lines - 2));
        assert!(contents("a.rs", &function(FUNCTION_LINES_MAX)).long_functions.is_empty());
        let long = contents("a.rs", &function(FUNCTION_LINES_MAX + 1)).long_functions;
        assert_eq!(long, [("f".to_owned(), FUNCTION_LINES_MAX + 1)]);
    }
}
