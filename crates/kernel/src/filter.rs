//! The filter and grouping of observed tasks, in the form that the kernel programs read.
//!
//! Format: `struct config` of `bpf/watch.h`, [`CONFIG_BYTES`] long, in the machine's byte order.

use crate::Error;

/// Which tasks are observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// All of them.
    Everything,
    /// The threads of a process.
    Process(u32),
    /// Processes by their name, of at most [`COMM_MAX`] bytes.
    Comm(String),
    /// The tasks of a cgroup, by its number: the inode of its directory.
    Cgroup(u64),
    /// The children of a thread from their exec on, and theirs.
    ChildrenOf(u32),
}

/// What counts as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Grouping {
    /// Processes.
    #[default]
    Process,
    /// Threads.
    Thread,
    /// Cgroups.
    Cgroup,
}

/// The kernel keeps so many bytes of a name.
pub const COMM_MAX: usize = 15;

/// What a thread that gave up the CPU waits for, in the order of `enum cause`.
pub const CAUSES: [&str; 8] = ["lock", "disk", "network", "sleep", "pipe", "child", "stop", "other"];

/// Length of `struct config`.
#[cfg(any(feature = "bpf", test))]
pub(crate) const CONFIG_BYTES: usize = 64;

/// The settings that the programs read.
#[cfg(any(feature = "bpf", test))]
pub(crate) struct Config<'a> {
    pub(crate) filter: &'a Filter,
    pub(crate) grouping: Grouping,
    /// Wake-ups within one system call that are a herd.
    pub(crate) herd_min: u32,
    /// CPUs that share a histogram: this many less one, a power of two.
    pub(crate) shard_mask: u32,
    /// Bits of what programs of tasks observe: `enum part`.
    pub(crate) parts: u32,
}

impl Filter {
    /// Refuses a name that the kernel cannot hold.
    ///
    /// # Errors
    /// When a name is empty or longer than [`COMM_MAX`] bytes.
    pub fn check(&self) -> Result<(), Error> {
        match self {
            Self::Comm(comm) if comm.is_empty() || comm.len() > COMM_MAX => {
                Err(Error::Input(format!("{comm:?} is no name of a process: the kernel keeps {COMM_MAX} bytes")))
            }
            Self::Comm(comm) if comm.contains('\0') => Err(Error::Input("a name holds no zero byte".to_owned())),
            _ => Ok(()),
        }
    }
}

#[cfg(any(feature = "bpf", test))]
impl Config<'_> {
    /// As the programs read it.
    pub(crate) fn bytes(&self) -> [u8; CONFIG_BYTES] {
        let (mut kind, mut tgid, mut cgroup) = (0_u32, 0_u32, 0_u64);
        // The name up to the zero byte at its end, and a mask of as many bytes.
        let (mut comm, mut mask) = ([0_u8; COMM_MAX + 1], [0_u8; COMM_MAX + 1]);
        match self.filter {
            Filter::Everything => {}
            Filter::Process(process) => (kind, tgid) = (1, *process),
            Filter::Comm(name) => {
                kind = 2;
                let length = name.len().min(COMM_MAX);
                comm[..length].copy_from_slice(&name.as_bytes()[..length]);
                mask[..=length].fill(u8::MAX);
            }
            Filter::Cgroup(id) => (kind, cgroup) = (3, *id),
            Filter::ChildrenOf(process) => (kind, tgid) = (4, *process),
        }
        let grouping = match self.grouping {
            Grouping::Process => 0_u32,
            Grouping::Thread => 1,
            Grouping::Cgroup => 2,
        };
        let mut bytes = Vec::with_capacity(CONFIG_BYTES);
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(tgid.to_ne_bytes());
        bytes.extend(cgroup.to_ne_bytes());
        bytes.extend([comm, mask].concat());
        for number in [grouping, self.herd_min, self.shard_mask, self.parts] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.try_into().expect("the fields have the length of the form")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_the_kernel_cannot_hold_are_refused() {
        for (comm, is_fine) in
            [("a", true), ("fifteen_bytes_1", true), ("sixteen_bytes_12", false), ("", false), ("a\0b", false)]
        {
            assert_eq!(Filter::Comm(comm.to_owned()).check().is_ok(), is_fine, "{comm:?}");
        }
    }

    #[test]
    fn each_field_of_the_configuration_has_its_place() {
        let filter = Filter::Comm("nginx".to_owned());
        let config =
            Config { filter: &filter, grouping: Grouping::Cgroup, herd_min: 8, shard_mask: 3, parts: 5 }.bytes();
        assert_eq!(config[0], 2);
        assert_eq!(&config[16..32], b"nginx\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(&config[32..48], b"\xff\xff\xff\xff\xff\xff\0\0\0\0\0\0\0\0\0\0", "with the byte that ends it");
        assert_eq!((config[48], config[52], config[56], config[60]), (2, 8, 3, 5));
        let filter = Filter::Cgroup(0x0102_0304_0506_0708);
        let config =
            Config { filter: &filter, grouping: Grouping::Process, herd_min: 0, shard_mask: 0, parts: 0 }.bytes();
        assert_eq!(&config[8..16], &0x0102_0304_0506_0708_u64.to_ne_bytes());
    }
}
