//! Small files with a checksum, the same in several directories.
//!
//! Format: the line `ogive-fleet 1 SHA256`, then JSON, which the hash is of (docs/formats/fleet.md).
//! Invariants: a file is there whole or not at all, and is durable in every directory before a write returns; a copy
//! that is damaged or missing is written again from a good one when it is read.
//! Limits: [`RECORD_BYTES_MAX`].
//! Failure: a file of which no copy is good is an error with its path.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ogive_journal::{Disk, Error as DiskError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::secret::sha256;

/// 32 MiB: a signed package within a package's limit, escaped once more.
const RECORD_BYTES_MAX: usize = 32 << 20;
const HEAD: &str = "ogive-fleet 1 ";

/// The directories that hold the files.
#[derive(Clone)]
pub(crate) struct Records {
    disk: Arc<dyn Disk>,
    directories: Vec<PathBuf>,
    restrict: Restrict,
}

/// Makes a directory one that only its owner can open: secrets are in it.
pub type Restrict = fn(&Path) -> std::io::Result<()>;

impl Records {
    /// Files in each of `directories`, which are made when something is written.
    pub(crate) fn new(disk: Arc<dyn Disk>, directories: Vec<PathBuf>, restrict: Restrict) -> Self {
        assert!(!directories.is_empty(), "files need a directory");
        Self { disk, directories, restrict }
    }

    /// Writes `value` as the file `name`, which may have directories in it.
    pub(crate) fn write(&self, name: &str, value: &impl Serialize) -> Result<(), Error> {
        let json = serde_json::to_string(value).map_err(|error| Error::Wrong(error.to_string()))?;
        if json.len() > RECORD_BYTES_MAX {
            return Err(Error::Limit(format!("{name} would have more than {RECORD_BYTES_MAX} bytes")));
        }
        let bytes = format!("{HEAD}{}\n{json}", sha256(&json)).into_bytes();
        self.directories.iter().try_for_each(|directory| self.put(directory, name, &bytes))
    }

    fn put(&self, directory: &Path, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = directory.join(name);
        let parent = path.parent().expect("a file has a directory");
        if !self.disk.is_directory(parent)? {
            self.disk.create_dir_all(parent)?;
            (self.restrict)(directory)
                .map_err(|error| Error::Corrupt(format!("cannot restrict {}: {error}", directory.display())))?;
        }
        Ok(self.disk.replace(&path, bytes)?)
    }

    /// The file `name`; None when no directory has it.
    pub(crate) fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Error> {
        let (mut good, mut bad, mut problem) = (None, Vec::new(), None);
        for directory in &self.directories {
            match self.read_copy(&directory.join(name)) {
                Ok(Some(bytes)) if good.is_none() => good = Some(bytes),
                Ok(Some(_)) => {}
                Ok(None) => bad.push(directory),
                Err(error) => {
                    tracing::warn!("{error}");
                    problem = Some(error);
                    bad.push(directory);
                }
            }
        }
        let Some(bytes) = good else { return problem.map_or(Ok(None), Err) };
        for directory in bad {
            if let Err(error) = self.put(directory, name, &bytes) {
                tracing::warn!("{} is not put right: {error}", directory.join(name).display());
            }
        }
        let value = parsed(&bytes).and_then(|json| serde_json::from_str(json).map_err(|error| error.to_string()));
        value.map(Some).map_err(|why| Error::Corrupt(format!("{name}: {why}")))
    }

    /// The bytes of a copy that is good.
    fn read_copy(&self, path: &Path) -> Result<Option<Vec<u8>>, Error> {
        let bytes = match self.disk.read(path) {
            Err(DiskError::NotFound { .. }) => return Ok(None),
            read => read?,
        };
        match parsed(&bytes) {
            Ok(_) => Ok(Some(bytes)),
            Err(why) => Err(Error::Corrupt(format!("{}: {why}", path.display()))),
        }
    }

    /// The names of the files in the directory `name`, by name, whichever directory has them.
    pub(crate) fn list(&self, name: &str) -> Result<Vec<String>, Error> {
        let mut out = std::collections::BTreeSet::new();
        for directory in &self.directories {
            let directory = directory.join(name);
            if !self.disk.is_directory(&directory)? {
                continue;
            }
            for path in self.disk.list(&directory)? {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                if !name.ends_with(".new") {
                    out.insert(name.to_owned());
                }
            }
        }
        Ok(out.into_iter().collect())
    }

    /// Removes the file `name` wherever it is.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Error> {
        for directory in &self.directories {
            match self.disk.remove(&directory.join(name)) {
                Ok(()) | Err(DiskError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// The JSON of a file whose checksum is right.
pub(crate) fn parsed(bytes: &[u8]) -> Result<&str, String> {
    if bytes.len() > RECORD_BYTES_MAX + 2 * HEAD.len() + 64 {
        return Err(format!("the file has more than {RECORD_BYTES_MAX} bytes"));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "the file is not UTF-8".to_owned())?;
    let (head, json) = text.split_once('\n').ok_or("the file has no first line")?;
    let hash = head.strip_prefix(HEAD).ok_or("the first line is not that of this version")?;
    if sha256(json) != hash {
        return Err("the checksum is wrong".into());
    }
    Ok(json)
}

#[cfg(test)]
mod tests {
    use ogive_journal::SimulatedDisk;

    use super::*;

    #[test]
    fn the_example_of_the_format_is_read() {
        let example = include_bytes!("../../../vectors/fleet/seven.json");
        assert_eq!(parsed(example), Ok("7"));
    }

    #[test]
    fn a_damaged_copy_is_put_right_by_another() {
        let disk = Arc::new(SimulatedDisk::new(1));
        let directories = vec![PathBuf::from("/a/fleet"), PathBuf::from("/b/fleet")];
        directories.iter().for_each(|directory| disk.create_dir_all(directory.parent().unwrap()).unwrap());
        let records = Records::new(disk.clone(), directories.clone(), |_| Ok(()));
        assert_eq!(records.read::<u32>("x/y.json").unwrap(), None);
        records.write("x/y.json", &7_u32).unwrap();
        let good = disk.read(Path::new("/b/fleet/x/y.json")).unwrap();
        for length in 0..good.len() {
            disk.put(Path::new("/a/fleet/x/y.json"), good[..length].to_vec());
            assert_eq!(records.read::<u32>("x/y.json").unwrap(), Some(7), "{length}");
            assert_eq!(disk.read(Path::new("/a/fleet/x/y.json")).unwrap(), good);
        }
        for at in 0..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 4;
            disk.put(Path::new("/a/fleet/x/y.json"), bytes.clone());
            disk.put(Path::new("/b/fleet/x/y.json"), bytes);
            assert!(matches!(records.read::<u32>("x/y.json"), Err(Error::Corrupt(_))), "{at}");
        }
        disk.put(Path::new("/b/fleet/x/y.json"), good.clone());
        assert_eq!(records.list("x").unwrap(), ["y.json"]);
        records.remove("x/y.json").unwrap();
        assert_eq!(records.read::<u32>("x/y.json").unwrap(), None);
        assert!(records.list("x").unwrap().is_empty() && records.list("none").unwrap().is_empty());
    }
}
