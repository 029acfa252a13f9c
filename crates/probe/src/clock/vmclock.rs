//! What the hypervisor reports of migrations and restores: the vmclock page.
//!
//! *Format*: the vmclock device's page, as Linux publishes it in `include/uapi/linux/vmclock-abi.h` and the UAPI Group
//! specifies it; little-endian. Read here: magic at 0 (`VCLK`), size u32 at 4, version u16 at 8, the disruption marker
//! u64 at 16, flags u64 at 24, and, when flag 8 is set and the size covers it, the generation of the virtual machine
//! u64 at 104. The marker changes when the counter was disturbed (live migration), the generation when the machine was
//! restored from a snapshot. The kernel's `read` gives a consistent copy, so the sequence count at 12 is only looked at
//! for an update that is going on. *Failure*: without a device, or with a page of another kind, nothing is reported,
//! and the counter's own jumps are all there is.

use crate::os::OpenFile;
use std::ffi::CStr;

/// Where Linux puts the first device.
pub(super) const DEVICE_PATH: &CStr = c"/dev/vmclock0";
/// Bytes that are read: up to the end of the generation.
pub(super) const PAGE_BYTES: usize = 112;
/// Up to the marker and flags, which every version has.
const PAGE_BYTES_MIN: usize = 32;
const MAGIC: &[u8; 4] = b"VCLK";
const VERSION: u16 = 1;
const FLAG_GENERATION: u64 = 1 << 8;

/// The used part of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) disruption: u64,
    /// `None` when the hypervisor does not provide it.
    pub(super) generation: Option<u64>,
}

impl Page {
    /// Parses a page; `None` when it is not one, or is being written.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let array = |at: usize| bytes.get(at..at + 8).and_then(|slice| slice.try_into().ok()).map(u64::from_le_bytes);
        if bytes.len() < PAGE_BYTES_MIN || &bytes[..4] != MAGIC {
            return None;
        }
        let first = array(0)?;
        let second = array(8)?;
        let (size, version, sequence) = ((first >> 32) as usize, second as u16, (second >> 32) as u32);
        if version != VERSION || size < PAGE_BYTES_MIN || sequence & 1 == 1 {
            return None;
        }
        let has_generation = array(24)? & FLAG_GENERATION != 0 && size >= PAGE_BYTES;
        let generation = if has_generation { array(104) } else { None };
        Some(Self { disruption: array(16)?, generation })
    }
}

/// The device, and its last values.
#[derive(Debug)]
pub(super) struct VmClock {
    file: OpenFile,
    last: Page,
}

impl VmClock {
    /// Opens the device at `path`; `None` when it does not exist or cannot be read.
    pub(super) fn open(path: &CStr) -> Option<Self> {
        let file = OpenFile::open(path)?;
        let last = Page::parse(file.read(&mut [0; PAGE_BYTES])?)?;
        Some(Self { file, last })
    }

    /// Whether the machine was moved or restored since the last check.
    pub(super) fn was_moved(&mut self) -> bool {
        let Some(page) = self.file.read(&mut [0; PAGE_BYTES]).and_then(Page::parse) else { return false };
        let moved = page != self.last;
        self.last = page;
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(disruption: u64, flags: u64, generation: u64) -> [u8; PAGE_BYTES] {
        let mut bytes = [0; PAGE_BYTES];
        bytes[..4].copy_from_slice(b"VCLK");
        bytes[4..8].copy_from_slice(&4096_u32.to_le_bytes());
        bytes[8..10].copy_from_slice(&1_u16.to_le_bytes());
        bytes[10] = 1; // x86 TSC.
        bytes[12..16].copy_from_slice(&6_u32.to_le_bytes());
        bytes[16..24].copy_from_slice(&disruption.to_le_bytes());
        bytes[24..32].copy_from_slice(&flags.to_le_bytes());
        bytes[104..].copy_from_slice(&generation.to_le_bytes());
        bytes
    }

    #[test]
    fn a_page_is_read() {
        assert_eq!(Page::parse(&page(7, 0x101, 9)), Some(Page { disruption: 7, generation: Some(9) }));
        assert_eq!(Page::parse(&page(7, 1, 9)), Some(Page { disruption: 7, generation: None }), "not kept");
        assert_eq!(Page::parse(&page(7, 0x100, 9)[..104]), Some(Page { disruption: 7, generation: None }), "cut");
    }

    #[test]
    fn what_is_no_page_is_refused() {
        let with = |at: usize, byte: u8| {
            let mut bytes = page(7, 0x100, 9);
            bytes[at] = byte;
            Page::parse(&bytes)
        };
        assert_eq!(with(0, b'v'), None, "another magic");
        assert_eq!(with(8, 2), None, "another version");
        assert_eq!(with(12, 7), None, "being written");
        assert_eq!(with(5, 0), None, "a size of 0");
        for length in 0..PAGE_BYTES_MIN {
            assert_eq!(Page::parse(&page(7, 0, 0)[..length]), None, "{length} bytes");
        }
    }

    /// Bytes from a hypervisor are bytes from outside: any of them give a page or nothing.
    #[test]
    fn mutated_pages_do_no_harm() {
        let mut state = 0x5eed_u64;
        for _ in 0..50_000 {
            let mut bytes = page(7, 0x100, 9);
            for _ in 0..3 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                bytes[(state >> 33) as usize % PAGE_BYTES] = (state >> 56) as u8;
            }
            let length = (state >> 20) as usize % (PAGE_BYTES + 1);
            let _ = Page::parse(&bytes[..length]);
        }
    }

    #[test]
    fn a_migration_and_a_restore_are_seen_once_each() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("vmclock0");
        let name = std::ffi::CString::new(path.to_str().expect("a plain path")).expect("no NUL");
        assert!(VmClock::open(&name).is_none(), "no device");
        std::fs::write(&path, page(1, 0x100, 5)).expect("written");
        let mut clock = VmClock::open(&name).expect("a device");
        assert!(!clock.was_moved());
        for (disruption, generation, moved) in [(2, 5, true), (2, 5, false), (2, 6, true), (2, 6, false)] {
            std::fs::write(&path, page(disruption, 0x100, generation)).expect("written");
            assert_eq!(clock.was_moved(), moved, "marker {disruption}, generation {generation}");
        }
        std::fs::write(&path, b"VCLK").expect("written");
        assert!(!clock.was_moved(), "a torn page says nothing");
    }
}
