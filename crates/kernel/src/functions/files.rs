//! The files whose functions a process may call: those that a program is linked with, and those that a process has
//! mapped.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use object::LittleEndian;
use object::elf::{DT_NEEDED, FileHeader64};
use object::read::elf::{Dyn as _, FileHeader as _};

use crate::ask::found;

/// Files of one process, at most.
const FILES_MAX: usize = 512;

/// A program and the libraries that it and they name, without the one that loads them. What cannot be read has no
/// functions that are counted, and is left out.
#[must_use]
pub fn linked(program: &Path) -> Vec<PathBuf> {
    let mut files = vec![program.to_owned()];
    let mut known: HashSet<PathBuf> = files.iter().cloned().collect();
    let mut at = 0;
    while at < files.len() && files.len() < FILES_MAX {
        let names = super::bytes_of(&files[at]).map(|bytes| needed(&bytes)).unwrap_or_default();
        for name in names.iter().filter(|name| !is_loader(name)) {
            let file = found(name).and_then(|file| file.canonicalize().ok());
            files.extend(file.filter(|file| known.insert(file.clone())));
        }
        at += 1;
    }
    files
}

/// The files of which a process has code mapped, from `/proc/PID/maps`, without the one that loads them.
#[must_use]
pub fn mapped(maps: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let is_code = words.nth(1).is_some_and(|rights| rights.contains('x'));
        let path = words.nth(3).filter(|path| path.starts_with('/') && !line.ends_with(" (deleted)"));
        let Some(path) = path.filter(|_| is_code).map(PathBuf::from) else { continue };
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !is_loader(name) && !files.contains(&path) && files.len() < FILES_MAX {
            files.push(path);
        }
    }
    files
}

/// The program that loads libraries works before anything is counted.
fn is_loader(name: &str) -> bool {
    name.starts_with("ld-") || name.starts_with("ld.so")
}

/// The libraries that a file names (`DT_NEEDED`).
fn needed(bytes: &[u8]) -> Vec<String> {
    let read = || -> object::Result<Vec<String>> {
        let header = FileHeader64::<LittleEndian>::parse(bytes)?;
        let endian = header.endian()?;
        let sections = header.sections(endian, bytes)?;
        let Some((dynamic, strings)) = sections.dynamic(endian, bytes)? else { return Ok(Vec::new()) };
        let strings = sections.strings(endian, bytes, strings)?;
        let names = dynamic.iter().filter(|entry| entry.tag(endian) == DT_NEEDED);
        let names = names.filter_map(|entry| entry.string(endian, strings).ok());
        Ok(names.filter_map(|name| std::str::from_utf8(name).ok()).map(ToOwned::to_owned).collect())
    };
    read().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_process_are_those_with_code() {
        let maps = "55d0-55d1 r--p 00000000 fe:00 1 /usr/bin/cat\n55d1-55d2 r-xp 00001000 fe:00 1 /usr/bin/cat\n\
            7f00-7f01 r-xp 00000000 fe:00 2 /usr/lib/libc.so.6\n7f01-7f02 r-xp 00001000 fe:00 2 /usr/lib/libc.so.6\n\
            7f02-7f03 r-xp 00000000 fe:00 3 /usr/lib/ld-linux-x86-64.so.2\n7f04-7f05 r-xp 0 fe:00 4 /tmp/gone (deleted)\n\
            7ffe-7fff r-xp 00000000 00:00 0 [vdso]\nodd\n";
        assert_eq!(mapped(maps), ["/usr/bin/cat", "/usr/lib/libc.so.6"].map(PathBuf::from));
    }

    #[test]
    fn a_program_is_linked_with_the_c_library() {
        let files = linked(&std::env::current_exe().unwrap());
        let is_c_library =
            |file: &PathBuf| file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"libc"));
        assert!(files.len() > 1 && files.iter().any(is_c_library), "{files:?}");
        assert_eq!(linked(Path::new("/nowhere")), [PathBuf::from("/nowhere")]);
        assert!(needed(b"\x7fELF").is_empty());
    }
}
