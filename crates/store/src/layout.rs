//! Names in a data directory (docs/formats/store.md).

/// The manifest.
pub(crate) const MANIFEST_FILE: &str = "MANIFEST";
/// The directory of the journal's segments.
pub(crate) const JOURNAL_DIRECTORY: &str = "journal";
