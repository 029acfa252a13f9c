//! From registers, a memory map and a copy of the stack to the addresses of the frames.
//!
//! *Invariants*: every byte comes from a process that is broken; nothing of it is believed: addresses are looked up,
//! reads outside the copy fail, and the number of frames is bounded.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder};
use object::{Object, ObjectSection, ObjectSegment};
use ogive_journal::Disk;

use crate::message::Registers;
use crate::report::Frame;

/// 128 frames: a stack is read by people.
pub const FRAMES_MAX: usize = 128;
/// 64 files of code: a program has some ten.
const MODULES_MAX: usize = 64;
/// 2 GiB: a binary with its debug information.
const MODULE_BYTES_MAX: u64 = 2 << 30;

/// A file that was mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// Its path.
    pub path: String,
    /// From its first to its last byte in memory.
    pub range: Range<u64>,
    /// Where offset 0 of the file is, or would be.
    pub base: u64,
}

/// Files with code of /proc/PID/maps.
#[must_use]
pub fn modules(maps: &str) -> Vec<Mapped> {
    let mut found: BTreeMap<&str, (Mapped, bool)> = BTreeMap::new();
    for line in maps.lines() {
        let mut words = line.splitn(6, ' ');
        let (Some(range), Some(rights), Some(offset)) = (words.next(), words.next(), words.next()) else { continue };
        let Some(path) = words.nth(2).map(str::trim).filter(|path| path.starts_with('/')) else { continue };
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let Some((start, end)) = range.split_once('-').and_then(|(start, end)| Some((hex(start)?, hex(end)?))) else {
            continue;
        };
        let Some(base) = hex(offset).and_then(|offset| start.checked_sub(offset)) else { continue };
        let mapped = || (Mapped { path: path.to_owned(), range: start..end, base }, false);
        let (one, has_code) = found.entry(path).or_insert_with(mapped);
        one.range = one.range.start.min(start)..one.range.end.max(end);
        *has_code |= rights.contains('x');
    }
    found.into_values().filter(|(_, has_code)| *has_code).map(|(one, _)| one).take(MODULES_MAX).collect()
}

/// The memory that was copied, by address.
#[derive(Debug, Default)]
pub struct Memory(BTreeMap<u64, Vec<u8>>);

impl Memory {
    /// Adds bytes that stood at `address`.
    pub fn add(&mut self, address: u64, bytes: &[u8]) {
        self.0.insert(address, bytes.to_vec());
    }

    /// The word at `address`, when it was copied whole; parts begin and end at multiples of eight.
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        let (start, bytes) = self.0.range(..=address).next_back()?;
        let at = usize::try_from(address - start).ok()?;
        Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
    }
}

/// A module as its file describes it.
struct LoadedModule {
    mapped: Mapped,
    build_id: String,
    /// What an address in memory is above the one that symbols have.
    shift: u64,
}

/// Walks stacks of one process by the tables of its modules.
pub struct Walker {
    unwinder: framehop::UnwinderNative<Vec<u8>, framehop::MayAllocateDuringUnwind>,
    known: Vec<LoadedModule>,
}

impl std::fmt::Debug for Walker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Walker").field("modules", &self.known.len()).finish_non_exhaustive()
    }
}

impl Walker {
    /// Reads the tables of `modules`; one that cannot be read has none, and stacks end there.
    pub fn open(disk: &impl Disk, modules: &[Mapped]) -> Self {
        let mut unwinder = framehop::UnwinderNative::new();
        let mut known = Vec::new();
        for mapped in modules {
            let is_small = disk.length(Path::new(&mapped.path)).is_ok_and(|length| length <= MODULE_BYTES_MAX);
            let described = is_small.then(|| disk.read(Path::new(&mapped.path)).ok()).flatten();
            let (build_id, shift) = described.and_then(|bytes| add(&mut unwinder, mapped, &bytes)).unwrap_or_default();
            let shift = if shift == 0 { mapped.base } else { shift };
            known.push(LoadedModule { mapped: mapped.clone(), build_id, shift });
        }
        Self { unwinder, known }
    }

    /// The frames of a stack, innermost first, at most [`FRAMES_MAX`]: where the thread is, and then the calls that led
    /// there, each by an address within its instruction. The registers are those of x86-64: instruction, stack and
    /// frame pointer.
    #[cfg(target_arch = "x86_64")]
    #[must_use]
    pub fn addresses(&self, [instruction, stack, frame]: [u64; 3], memory: &Memory) -> Vec<u64> {
        self.walk(instruction, framehop::UnwindRegsNative::new(instruction, stack, frame), memory)
    }

    fn walk(&self, instruction: u64, registers: framehop::UnwindRegsNative, memory: &Memory) -> Vec<u64> {
        let mut cache = framehop::CacheNative::<framehop::MayAllocateDuringUnwind>::new();
        let mut read = |address| memory.word(address).ok_or(());
        let mut found = self.unwinder.iter_frames(instruction, registers, &mut cache, &mut read);
        let mut addresses = Vec::new();
        while let (Ok(Some(address)), true) = (found.next(), addresses.len() < FRAMES_MAX) {
            // A return address belongs to the call before it.
            addresses.push(match address {
                FrameAddress::InstructionPointer(address) => address,
                FrameAddress::ReturnAddress(address) => address.get() - 1,
            });
        }
        addresses
    }
}

/// Addresses of the frames, innermost first, and the build id of the file that is the program.
pub(crate) fn frames(
    disk: &impl Disk,
    registers: &Registers,
    modules: &[Mapped],
    memory: &Memory,
    program: &Path,
) -> (Vec<Frame>, String) {
    let walker = Walker::open(disk, modules);
    let build_id = walker.known.iter().find(|one| Path::new(&one.mapped.path) == program);
    let build_id = build_id.map(|one| one.build_id.clone()).unwrap_or_default();
    let addresses = walker.walk(registers.instruction, native(registers), memory);
    (addresses.into_iter().map(|address| frame(&walker.known, address)).collect(), build_id)
}

fn frame(known: &[LoadedModule], address: u64) -> Frame {
    let Some(one) = known.iter().find(|one| one.mapped.range.contains(&address)) else {
        return Frame { module: String::new(), build_id: String::new(), address };
    };
    Frame { module: one.mapped.path.clone(), build_id: one.build_id.clone(), address: address.wrapping_sub(one.shift) }
}

#[cfg(target_arch = "x86_64")]
fn native(registers: &Registers) -> framehop::UnwindRegsNative {
    framehop::UnwindRegsNative::new(registers.instruction, registers.stack, registers.frame)
}

#[cfg(target_arch = "aarch64")]
fn native(registers: &Registers) -> framehop::UnwindRegsNative {
    framehop::UnwindRegsNative::new(registers.link, registers.stack, registers.frame)
}

/// Gives the unwinder the tables of a module; its build id, and what its addresses in memory are above those of its
/// symbols.
fn add(
    unwinder: &mut framehop::UnwinderNative<Vec<u8>, framehop::MayAllocateDuringUnwind>,
    mapped: &Mapped,
    bytes: &[u8],
) -> Option<(String, u64)> {
    let file = object::File::parse(bytes).ok()?;
    // The segment that holds the file's beginning is mapped at `base`.
    let first = file.segments().find(|segment| segment.file_range().0 == 0).map_or(0, |segment| segment.address());
    let base_svma = file.relative_address_base();
    let shift = mapped.base.wrapping_sub(first);
    let range = |name: &str| {
        let section = file.section_by_name(name)?;
        Some(section.address()..section.address().checked_add(section.size())?)
    };
    let data = |name: &str| Some(file.section_by_name(name)?.uncompressed_data().ok()?.into_owned());
    let sections = ExplicitModuleSectionInfo {
        base_svma,
        text_svma: range(".text"),
        text: data(".text"),
        got_svma: range(".got"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame: data(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: data(".eh_frame_hdr"),
        ..Default::default()
    };
    unwinder.add_module(Module::new(
        mapped.path.clone(),
        mapped.range.clone(),
        shift.wrapping_add(base_svma),
        sections,
    ));
    Some((build_id(&file), shift))
}

/// In hexadecimal; empty without one.
pub(crate) fn build_id(file: &object::File<'_>) -> String {
    ogive_text::hex::write(file.build_id().ok().flatten().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55e000000000-55e000001000 r--p 00000000 fe:00 12 /opt/my app/ogive
55e000001000-55e000003000 r-xp 00001000 fe:00 12 /opt/my app/ogive
7f0000000000-7f0000001000 r--p 00000000 fe:00 13 /lib/data
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]
not a line
7f1000000000 r-xp 0 0 0 /lib/broken
";

    #[test]
    fn modules_are_the_files_with_code() {
        let found = modules(MAPS);
        let ogive = Mapped {
            path: "/opt/my app/ogive".into(),
            range: 0x55e0_0000_0000..0x55e0_0000_3000,
            base: 0x55e0_0000_0000,
        };
        assert_eq!(found, [ogive]);
    }

    #[test]
    fn words_outside_the_copy_are_not_there() {
        let mut memory = Memory::default();
        memory.add(0x1000, &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(memory.word(0x1000), Some(1));
        assert_eq!(memory.word(0x1008), Some(2));
        assert_eq!((memory.word(0xff8), memory.word(0x1010), memory.word(0x100c)), (None, None, None));
        assert_eq!(memory.word(u64::MAX), None);
    }

    #[test]
    fn a_stack_of_nonsense_ends() {
        let mut memory = Memory::default();
        // A frame pointer that points to itself.
        memory.add(0x1000, &0x1000_u64.to_le_bytes().repeat(2));
        let registers =
            Registers { instruction: 0x40, stack: 0x1000, frame: 0x1000, link: 0x1000, ..Registers::default() };
        let (frames, build_id) = frames(&ogive_journal::RealDisk, &registers, &[], &memory, Path::new("/none"));
        assert!(frames.len() <= FRAMES_MAX && build_id.is_empty());
        assert_eq!(frames[0].address, 0x40);
    }
}
