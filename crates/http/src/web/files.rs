//! Files of the configuration: how they are read, and where they are.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

/// How files are read: the disk is given, not reached for.
pub type ReadFile = fn(&Path) -> io::Result<Vec<u8>>;

/// 1 MiB: some 5,000 tokens, or a chain of 500 certificates.
pub(super) const FILE_BYTES_MAX: usize = 1 << 20;

/// A file within the limit.
pub(super) fn read(path: &Path, read_file: ReadFile) -> anyhow::Result<Vec<u8>> {
    let bytes = read_file(path).with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(bytes.len() <= FILE_BYTES_MAX, "{} has more than {FILE_BYTES_MAX} bytes", path.display());
    Ok(bytes)
}

/// A path of the configuration, from its directory.
pub(super) fn beside(config: &Path, path: &Path) -> PathBuf {
    config.parent().map_or_else(|| path.to_owned(), |directory| directory.join(path))
}
