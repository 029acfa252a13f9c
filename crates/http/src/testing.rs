//! What tests of this crate have in common.

use std::io;
use std::path::Path;

/// The bytes of a file.
pub(crate) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    std::fs::read(path)
}
