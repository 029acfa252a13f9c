//! Files that people name in configurations, for the parts that are given their files.

use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use ogive_outgoing::Files;

/// The files of this machine.
pub(crate) const FILES: Files = Files { read: |path| std::fs::read(path), list, owner };

/// Makes a directory one that only its owner can open.
pub(crate) fn restrict(directory: &Path) -> io::Result<()> {
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700))
}

/// The files that match a pattern whose last part may contain asterisks, by name. Without one it is the file itself; a
/// directory that is missing has none.
fn list(pattern: &Path) -> io::Result<Vec<PathBuf>> {
    let name = pattern.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !name.contains('*') {
        return Ok(vec![pattern.to_owned()]);
    }
    let directory = pattern.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut out = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.file_name().and_then(|found| found.to_str()).is_some_and(|found| fits(name, found)) {
            out.push(path);
        }
    }
    out.sort();
    Ok(out)
}

/// Whether `name` matches `pattern`, in which an asterisk matches anything.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == name };
    let Some(rest) = name.strip_prefix(before) else { return false };
    rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| fits(after, &rest[at..]))
}

/// Whose a file is, and when it was written.
fn owner(path: &Path) -> String {
    let Ok(found) = std::fs::metadata(path) else { return "owner=unknown".into() };
    let modified = found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let modified = modified.map_or(0, |time| time.as_millis());
    format!("owner_uid={} owner_gid={} written_ms={modified}", found.uid(), found.gid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_the_files_of_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["b.json", "a.json", "a.yml", "x-a.json"] {
            std::fs::write(directory.path().join(name), "[]").unwrap();
        }
        let names = |pattern: &str| -> Vec<String> {
            let found = list(&directory.path().join(pattern)).unwrap();
            found.iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names("*.json"), ["a.json", "b.json", "x-a.json"]);
        assert_eq!(names("a*"), ["a.json", "a.yml"]);
        assert_eq!(names("*-*.j*n"), ["x-a.json"]);
        assert_eq!(names("none.json"), ["none.json"]);
        assert!(list(Path::new("/nowhere/at/all/*.json")).unwrap().is_empty());
    }
}
