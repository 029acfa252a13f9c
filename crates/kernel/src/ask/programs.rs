//! Programs and libraries in which a question probes: their files, and the USDT probes in them.

use std::path::{Path, PathBuf};

use object::read::elf::{ElfFile64, FileHeader as _};
use object::{Architecture, Object as _, ObjectSection as _, ObjectSegment as _};
use ogive_journal::{Disk as _, RealDisk};

use super::types::Usdt;
use super::usdt::Machine;

/// The machine for which this is compiled.
const HERE: Machine = if cfg!(target_arch = "aarch64") { Machine::Arm } else { Machine::X86 };

/// Longest file that is read, all of it: browsers, the largest programs there are, have 250 MB.
const FILE_BYTES_MAX: u64 = 1 << 29;

/// The file as libbpf finds it: libraries and programs by their names alone.
#[must_use]
pub fn found(path: &str) -> Option<PathBuf> {
    if path.contains('/') {
        return Path::new(path).exists().then(|| PathBuf::from(path));
    }
    let libraries = ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let programs = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin"];
    libraries.iter().chain(&programs).map(|directory| Path::new(directory).join(path)).find(|path| path.exists())
}

/// The places of a USDT probe in a file, or why there are none.
pub(super) fn usdt(path: &str, provider: &str, name: &str) -> Result<Usdt, String> {
    let path = found(path).ok_or_else(|| format!("there is no file {path:?}"))?;
    let no_program = |error: &dyn std::fmt::Display| format!("{} is no program or library: {error}", path.display());
    let length = RealDisk.length(&path).map_err(|error| no_program(&error))?;
    if length > FILE_BYTES_MAX {
        return Err(format!(
            "{} has {length} bytes: USDT probes are read in files up to {FILE_BYTES_MAX}",
            path.display()
        ));
    }
    let bytes = RealDisk.read(&path).map_err(|error| no_program(&error))?;
    let file = ElfFile64::<object::LittleEndian, _>::parse(&*bytes).map_err(|error| no_program(&error))?;
    let machine = match file.architecture() {
        Architecture::X86_64 => Machine::X86,
        Architecture::Aarch64 => Machine::Arm,
        other => return Err(no_program(&format!("it is for {other:?}"))),
    };
    if machine != HERE {
        return Err(no_program(&format!("it is for {:?}", file.architecture())));
    }
    let is_executable = file.elf_header().e_type(object::LittleEndian) != object::elf::ET_REL;
    let section = file.section_by_name(".note.stapsdt").filter(|_| is_executable);
    let notes = section.map(|section| section.data()).transpose().map_err(|error| no_program(&error))?;
    let base = file.section_by_name(".stapsdt.base").map_or(0, |section| section.address());
    let offset = |address: u64| {
        let segments = file.segments().map(|segment| (segment.address(), segment.file_range()));
        let inside = |(from, (at, size)): (u64, (u64, u64))| {
            let into = address.checked_sub(from)?;
            (into < size).then(|| at.checked_add(into)).flatten()
        };
        segments.filter_map(inside).next()
    };
    let found = Usdt::from_notes(notes.unwrap_or_default(), provider, name, machine, base, offset);
    found.map_err(|reason| format!("{} {reason}", path.display()))
}
