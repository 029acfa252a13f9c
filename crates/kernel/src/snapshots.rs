//! Copies of user stacks that programs in the kernel made, unwound and named.
//!
//! Failure: a stack has names only while its process lives.

use std::collections::HashMap;

use ogive_crash::stack::{Memory, Walker, modules};
use ogive_journal::RealDisk;

use crate::Error;
use crate::fields::Fields;
use crate::object::Loaded;
use crate::symbols::Symbols;

/// Bytes of a snapshot before its stack: `struct snapshot`.
const HEAD_BYTES: usize = 4 * 4 + 3 * 8;

/// 64 processes whose tables are in memory, some MB each; beyond, all are read again.
const WALKERS_MAX: usize = 64;

/// A copy of the stack of a thread: `struct snapshot`.
pub(crate) struct Snapshot {
    /// What the program in the kernel numbers it by.
    pub(crate) number: u32,
    process: u32,
    /// Instruction, stack and frame pointer.
    registers: [u64; 3],
    stack: Vec<u8>,
}

impl Snapshot {
    /// Those that came since the last time.
    ///
    /// # Errors
    /// When the kernel's ring cannot be read.
    pub(crate) fn drain(loaded: &Loaded) -> Result<Vec<Self>, Error> {
        loaded.records("snapshots", "stacks", Self::parse)
    }

    fn parse(bytes: &[u8]) -> Self {
        let mut fields = Fields(bytes);
        let (number, process, _tid, length) = (fields.u32(), fields.u32(), fields.u32(), fields.u32());
        let registers = [fields.u64(), fields.u64(), fields.u64()];
        let stack = &bytes[HEAD_BYTES..];
        Self { number, process, registers, stack: stack[..stack.len().min(length as usize)].to_vec() }
    }
}

/// Unwinds and names.
pub(crate) struct Unwinder {
    /// The text of `/proc/PID/maps`, empty when the process has ended.
    maps: fn(u32) -> String,
    walkers: HashMap<u32, Walker>,
    symbols: Symbols,
}

impl Unwinder {
    pub(crate) fn new(maps: fn(u32) -> String) -> Self {
        Self { maps, walkers: HashMap::new(), symbols: Symbols::new() }
    }

    /// The functions of each, innermost first, by its number.
    pub(crate) fn names(&mut self, snapshots: Vec<Snapshot>) -> HashMap<u32, Vec<String>> {
        let named = snapshots.into_iter().map(|snapshot| (snapshot.number, self.named(&snapshot))).collect();
        // What is mapped later has tables then.
        self.walkers.clear();
        named
    }

    fn named(&mut self, snapshot: &Snapshot) -> Vec<String> {
        if self.walkers.len() >= WALKERS_MAX {
            self.walkers.clear();
        }
        let Snapshot { process, registers, stack, .. } = snapshot;
        let walker = self.walkers.entry(*process).or_insert_with(|| walker_of(*process, &(self.maps)(*process)));
        let mut memory = Memory::default();
        memory.add(registers[1], stack);
        let addresses = walker.addresses(*registers, &memory);
        self.symbols.of_process(*process, &addresses)
    }
}

/// The tables of a process; none of one that has ended.
fn walker_of(process: u32, maps: &str) -> Walker {
    let mut modules = modules(maps);
    for module in &mut modules {
        // As the process sees it: it may be in a container.
        module.path = format!("/proc/{process}/root{}", module.path);
    }
    Walker::open(&RealDisk, &modules)
}
