//! What the project demands of its own source, as functions that return findings; `tests/tidy.rs` runs them.
//!
//! Invariants tested: who may depend on whom; licences and origin of packages, and that each is used; where `unsafe`
//! may stand; who may read a clock or the file system; how long a file and a function may be; which files of a crate
//! depend on each other; which limits only a decoder knows; which words documents avoid; that every file of tests is
//! compiled.
#![forbid(unsafe_code)]

pub mod dependencies;
pub mod limits;
pub mod links;
pub mod modules;
pub mod packages;
pub mod source;
pub mod test_files;
pub mod words;

use std::path::{Path, PathBuf};

/// The root of the workspace.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace is there")
}
