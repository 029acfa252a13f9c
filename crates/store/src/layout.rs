//! Names in a data directory.

/// The manifest.
pub(crate) const MANIFEST_FILE: &str = "MANIFEST";
/// The directory of the journal's segments.
pub(crate) const JOURNAL_DIRECTORY: &str = "journal";
