//! What every client of ours needs that asks others: addresses, files of this machine, secrets, and a witness of their certificates.

mod address;
mod secret;
mod witness;

use std::io;
use std::path::{Path, PathBuf};

pub(crate) use address::{AGENT, Origin, authorities, authority, redirected, target};
pub(crate) use secret::Secret;
pub(crate) use witness::{Seen, Witness};

/// How files are reached: they are given, not opened here.
#[derive(Clone, Copy)]
pub(crate) struct Files {
    pub(crate) read: fn(&Path) -> io::Result<Vec<u8>>,
    /// The files of a pattern, whose last part may hold asterisks.
    pub(crate) list: fn(&Path) -> io::Result<Vec<PathBuf>>,
}

impl Files {
    /// Reads a file beside the async threads.
    pub(crate) async fn read(self, path: &Path) -> Result<Vec<u8>, String> {
        let path = path.to_owned();
        let reading = tokio::task::spawn_blocking(move || {
            (self.read)(&path).map_err(|error| format!("{}: {error}", path.display()))
        });
        reading.await.map_err(|error| error.to_string())?
    }
}
