//! The names that one file defines, imports and uses.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

use crate::source::is_test_only;

/// What one file says about names; inline modules count as part of their file.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Items defined at the top of the file.
    pub(super) items: BTreeSet<String>,
    /// Imported names and the path that each stands for.
    pub(super) aliases: BTreeMap<String, Vec<String>>,
    /// Modules imported with `*`.
    pub(super) globs: Vec<Vec<String>>,
    /// Every path that is used, imports included and re-exports left out.
    pub(super) paths: BTreeSet<Vec<String>>,
}

/// Reads a file's names.
pub(super) fn read(text: &str) -> Result<Names, syn::Error> {
    let parsed = syn::parse_file(text)?;
    let mut reader = Reader::default();
    reader.visit_file(&parsed);
    Ok(reader.names)
}

#[derive(Default)]
struct Reader {
    names: Names,
    /// The import that is being read is visible outside the file.
    re_exports: bool,
}

impl Reader {
    fn use_tree(&mut self, before: &[String], tree: &syn::UseTree) {
        let mut path = before.to_vec();
        match tree {
            syn::UseTree::Path(inner) => {
                path.push(inner.ident.to_string());
                self.use_tree(&path, &inner.tree);
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.use_tree(&path, item)),
            syn::UseTree::Name(name) if name.ident == "self" => self.import(before.last().cloned(), path),
            syn::UseTree::Name(name) => {
                path.push(name.ident.to_string());
                self.import(Some(name.ident.to_string()), path);
            }
            syn::UseTree::Rename(name) => {
                path.push(name.ident.to_string());
                self.import(Some(name.rename.to_string()), path);
            }
            syn::UseTree::Glob(_) => self.names.globs.push(path),
        }
    }

    fn import(&mut self, name: Option<String>, path: Vec<String>) {
        if !self.re_exports {
            self.names.paths.insert(path.clone());
        }
        // `use x;` of a crate or a child says nothing new.
        if let Some(name) = name.filter(|_| path.len() > 1) {
            self.names.aliases.insert(name, path);
        }
    }

    fn define(&mut self, item: &syn::Item) {
        let name = match item {
            syn::Item::Const(item) => &item.ident,
            syn::Item::Enum(item) => &item.ident,
            syn::Item::Fn(item) => &item.sig.ident,
            syn::Item::Static(item) => &item.ident,
            syn::Item::Struct(item) => &item.ident,
            syn::Item::Trait(item) => &item.ident,
            syn::Item::Type(item) => &item.ident,
            syn::Item::Union(item) => &item.ident,
            syn::Item::Mod(item) if item.content.is_some() => &item.ident,
            _ => return,
        };
        self.names.items.insert(name.to_string());
    }
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_file(&mut self, file: &'ast syn::File) {
        file.items.iter().filter(|item| !is_test_only(attributes(item))).for_each(|item| self.define(item));
        visit::visit_file(self, file);
    }

    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test_only(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test_only(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            self.names.paths.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.re_exports = !matches!(item.vis, syn::Visibility::Inherited);
        self.use_tree(&[], &item.tree);
    }
}
