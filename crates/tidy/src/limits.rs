//! Limits that a decoder knows and its encoder does not: what is written beyond one is refused when it is read again,
//! which can be a start that fails.
//!
//! A decoder is a function whose name begins with `decode` or `read`, an encoder one whose name begins with `encode` or
//! `write`. They belong together when they stand in one file, or in two of one directory that are called so
//! (`decode.rs` and `encode.rs`, `reader.rs` and `writer.rs`). A constant counts as named when the function names it,
//! or a function of the same file that it calls.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use crate::source::{SourceFile, is_test_only};

/// What the names of decoders begin with, and of the encoders beside them.
const PAIRS: [(&str, &str); 2] = [("decode", "encode"), ("read", "write")];

/// The functions of one file: what each names and calls.
#[derive(Debug, Default)]
struct Functions(BTreeMap<String, BTreeSet<String>>);

impl Functions {
    fn read(text: &str) -> Result<Self, syn::Error> {
        let mut reader = Reader { functions: Self::default(), at: None };
        reader.visit_file(&syn::parse_file(text)?);
        Ok(reader.functions)
    }

    /// The limits that functions beginning with `prefix` name, by themselves or through others of this file.
    fn limits(&self, prefix: &str) -> BTreeSet<&str> {
        let (mut open, mut seen) = (Vec::new(), BTreeSet::new());
        open.extend(self.0.keys().filter(|name| name.starts_with(prefix)));
        let mut limits = BTreeSet::new();
        while let Some(name) = open.pop() {
            if !seen.insert(name) {
                continue;
            }
            for named in &self.0[name] {
                if named.ends_with("_MAX") {
                    limits.insert(named.as_str());
                }
                open.extend(self.0.get_key_value(named).map(|(name, _)| name));
            }
        }
        limits
    }

    fn has(&self, prefix: &str) -> bool {
        self.0.keys().any(|name| name.starts_with(prefix))
    }
}

struct Reader {
    functions: Functions,
    /// The function that is being read.
    at: Option<String>,
}

impl Reader {
    fn function(&mut self, name: String, inside: impl FnOnce(&mut Self)) {
        self.functions.0.entry(name.clone()).or_default();
        let before = self.at.replace(name);
        inside(self);
        self.at = before;
    }

    fn named(&mut self, name: String) {
        if let Some(at) = &self.at {
            self.functions.0.entry(at.clone()).or_default().insert(name);
        }
    }
}

impl Reader {
    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Ident(name) => self.named(name.to_string()),
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test_only(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test_only(&item.attrs) {
            self.function(item.sig.ident.to_string(), |own| visit::visit_item_fn(own, item));
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test_only(&item.attrs) {
            self.function(item.sig.ident.to_string(), |own| visit::visit_impl_item_fn(own, item));
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.named(call.method.to_string());
        visit::visit_expr_method_call(self, call);
    }

    /// What stands in a macro is not parsed: each of its names counts.
    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.tokens(item.tokens.clone());
        visit::visit_macro(self, item);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if let Some(last) = path.segments.last() {
            self.named(last.ident.to_string());
        }
        visit::visit_path(self, path);
    }
}

/// The file that holds the encoders of `path`: itself, or the one beside it that is called so.
fn partner(path: &str, decoder: &str, encoder: &str) -> String {
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    match name.strip_prefix(decoder) {
        Some(".rs") => format!("{directory}/{encoder}.rs"),
        Some("r.rs" | "er.rs") => format!("{directory}/{}r.rs", encoder.trim_end_matches('e').to_owned() + "e"),
        _ => path.to_owned(),
    }
}

/// Limits that a decoder names and its encoder does not, as `path NAME`.
///
/// # Errors
/// The file and the parser's message when a file is not Rust.
pub fn findings(files: &[SourceFile]) -> Result<BTreeSet<String>, String> {
    let mut all = BTreeMap::new();
    for file in files.iter().filter(|file| file.path.contains("/src/") && !file.path.contains("tests")) {
        let functions = Functions::read(&file.text).map_err(|error| format!("{}: {error}", file.path))?;
        all.insert(file.path.as_str(), functions);
    }
    let mut found = BTreeSet::new();
    for (path, functions) in &all {
        for (decoder, encoder) in PAIRS {
            let Some(beside) = all.get(&*partner(path, decoder, encoder)) else { continue };
            if functions.has(decoder) && beside.has(encoder) {
                let known = beside.limits(encoder);
                let unknown = functions.limits(decoder).into_iter().filter(|limit| !known.contains(limit));
                found.extend(unknown.map(|limit| format!("{path} {limit}")));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let file =
            |(path, text): &(&str, &str)| SourceFile { path: format!("crates/a/src/{path}"), text: (*text).into() };
        findings(&files.iter().map(file).collect::<Vec<_>>()).unwrap().into_iter().collect()
    }

    #[test]
    fn a_limit_that_only_the_decoder_knows_is_found() {
        let decode = "fn decode(n: usize) { check(n) } fn check(n: usize) { assert!(n < LABELS_MAX) }";
        assert_eq!(found(&[("a.rs", &format!("{decode} fn encode(n: usize) {{}}"))]), ["crates/a/src/a.rs LABELS_MAX"]);
        assert_eq!(found(&[("a.rs", &format!("{decode} fn encode(n: usize) {{ self::check(n) }}"))]), [""; 0]);
        assert_eq!(found(&[("a.rs", &format!("{decode} fn encode() {{ super::LABELS_MAX; }}"))]), [""; 0]);
        // Who only reads has nobody to agree with, and tests are nobody.
        assert_eq!(found(&[("a.rs", decode)]), [""; 0]);
        assert_eq!(found(&[("a.rs", &format!("{decode} #[cfg(test)] mod t {{ fn encode() {{}} }}"))]), [""; 0]);
    }

    #[test]
    fn files_that_are_called_so_belong_together() {
        let (read, write) = ("fn read_one() { BYTES_MAX; }", "fn write_one() {}");
        let limit = |path: &str| vec![format!("crates/a/src/{path} BYTES_MAX")];
        assert_eq!(found(&[("x/reader.rs", read), ("x/writer.rs", write)]), limit("x/reader.rs"));
        assert_eq!(found(&[("x/read.rs", read), ("x/write.rs", write)]), limit("x/read.rs"));
        assert_eq!(found(&[("x/reader.rs", read), ("y/writer.rs", write)]), [""; 0]);
        let (decode, encode) = ("fn decode() { BYTES_MAX; }", "fn encode() { if 1 > BYTES_MAX {} }");
        assert_eq!(found(&[("decode.rs", decode), ("encode.rs", encode)]), [""; 0]);
        assert_eq!(found(&[("decode.rs", decode), ("encode.rs", "fn encode() {}")]), limit("decode.rs"));
    }
}
