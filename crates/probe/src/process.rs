//! How much memory and CPU time this process uses, as the kernel counts it.
//!
//! Format: lines `Name:  NUMBER kB` of /proc/self/status, and fields 14 and 15 of /proc/self/stat (proc(5)). *Failure*:
//! what the kernel does not say is `None`.

use crate::os::OpenFile;

/// 8 KiB: the file has some 60 lines, of which the lists of allowed CPUs and memory nodes grow with the machine.
const STATUS_BYTES_MAX: usize = 8 << 10;

/// Memory of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessMemory {
    /// Bytes that are resident: VmRSS.
    pub resident_bytes: u64,
    /// Those of them that no file backs: RssAnon.
    pub anonymous_bytes: u64,
    /// The maximum that was ever resident, files included: VmHWM.
    pub peak_bytes: u64,
}

impl ProcessMemory {
    /// Queries the kernel: some 20 us.
    #[must_use]
    pub fn now() -> Option<Self> {
        let mut bytes = [0; STATUS_BYTES_MAX];
        let file = OpenFile::open(c"/proc/self/status")?;
        Self::parse(std::str::from_utf8(file.read(&mut bytes)?).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let bytes = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
        };
        Some(Self { resident_bytes: bytes("VmRSS")?, anonymous_bytes: bytes("RssAnon")?, peak_bytes: bytes("VmHWM")? })
    }
}

/// 1 KiB: the file has 52 numbers and a name of at most 64 bytes.
const STAT_BYTES_MAX: usize = 1 << 10;
/// A tick, in which Linux counts CPU time, is a hundredth of a second.
const TICK_NS: u64 = 10_000_000;

/// CPU time that this process has used in all its threads, nanoseconds, in steps of a hundredth of a second.
#[must_use]
pub fn process_cpu_ns() -> Option<u64> {
    let mut bytes = [0; STAT_BYTES_MAX];
    let file = OpenFile::open(c"/proc/self/stat")?;
    cpu_ns(std::str::from_utf8(file.read(&mut bytes)?).ok()?)
}

fn cpu_ns(stat: &str) -> Option<u64> {
    // Fields are counted from after the name, which may contain spaces and parentheses.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    ticks()?.checked_add(ticks()?)?.checked_mul(TICK_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_by_their_names() {
        let text = "Name:\tx\nVmHWM:\t   104 kB\nVmRSS:\t 50 kB\nRssAnon:\t      48 kB\n";
        let expected = ProcessMemory { resident_bytes: 50 << 10, anonymous_bytes: 48 << 10, peak_bytes: 104 << 10 };
        assert_eq!(ProcessMemory::parse(text), Some(expected));
        for cut in ["", "VmHWM: 1 kB\n", "VmHWM: 1 kB\nRssAnon: x kB", "VmHWM: 1\nRssAnon: 1 kB"] {
            assert_eq!(ProcessMemory::parse(cut), None, "{cut:?}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no such file")]
    fn memory_that_is_written_is_counted() {
        let before = ProcessMemory::now().expect("Linux says it");
        let held = std::hint::black_box(vec![1_u8; 64 << 20]);
        let during = ProcessMemory::now().expect("Linux says it");
        drop(held);
        assert!(during.anonymous_bytes >= before.anonymous_bytes + (32 << 20), "{before:?} {during:?}");
        assert!(during.peak_bytes >= during.anonymous_bytes, "{during:?}");
    }
}
