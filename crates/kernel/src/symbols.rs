//! Function names by address: of processes while they live, and of the kernel.
//!
//! They come from symbol tables, including the dynamic ones of stripped files, and from `/tmp/perf-PID.map` where a
//! runtime writes one. An address without a name is `[unknown]`.

use std::collections::HashMap;

use blazesym::Pid;
use blazesym::symbolize::source::{Kernel, Process, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};

/// Addresses that are remembered, 100 bytes each; beyond, all are looked up again.
const KNOWN_MAX: usize = 1 << 18;

/// Looks addresses up, each once.
pub struct Symbols {
    symbolizer: Symbolizer,
    known: HashMap<(u32, u64), String>,
}

impl std::fmt::Debug for Symbols {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Symbols").field("known", &self.known.len()).finish_non_exhaustive()
    }
}

impl Default for Symbols {
    fn default() -> Self {
        Self::new()
    }
}

impl Symbols {
    /// Knows nothing yet.
    #[must_use]
    pub fn new() -> Self {
        let symbolizer = Symbolizer::builder().enable_code_info(false).enable_inlined_fns(false).build();
        Self { symbolizer, known: HashMap::new() }
    }

    /// Names of addresses in a process, in their order.
    #[must_use]
    pub fn of_process(&mut self, process: u32, addresses: &[u64]) -> Vec<String> {
        let source = Source::Process(Process::new(Pid::from(process)));
        self.names(process, &source, addresses, "")
    }

    /// Names of addresses in the kernel, each with `_[k]` behind it, by which flame graphs know them.
    #[must_use]
    pub fn of_kernel(&mut self, addresses: &[u64]) -> Vec<String> {
        // A table of the running kernel's symbols is always there; its file of debug information may be of another.
        let kernel = Kernel { vmlinux: blazesym::MaybeDefault::None, ..Kernel::default() };
        self.names(0, &Source::Kernel(kernel), addresses, "_[k]")
    }

    fn names(&mut self, process: u32, source: &Source<'_>, addresses: &[u64], end: &str) -> Vec<String> {
        if self.known.len() > KNOWN_MAX {
            self.known.clear();
        }
        let mut missing: Vec<u64> =
            addresses.iter().filter(|at| !self.known.contains_key(&(process, **at))).copied().collect();
        missing.sort_unstable();
        missing.dedup();
        if !missing.is_empty() {
            // A process that has ended has no names any more.
            let found = self.symbolizer.symbolize(source, Input::AbsAddr(&missing)).unwrap_or_default();
            let names: Vec<Option<String>> = found.iter().map(name).collect();
            for (at, address) in missing.iter().enumerate() {
                if let Some(Some(name)) = names.get(at) {
                    self.known.insert((process, *address), format!("{name}{end}"));
                }
            }
        }
        let name = |address: &u64| self.known.get(&(process, *address)).cloned();
        addresses.iter().map(|address| name(address).unwrap_or_else(|| format!("[unknown]{end}"))).collect()
    }
}

fn name(symbolized: &Symbolized<'_>) -> Option<String> {
    match symbolized {
        Symbolized::Sym(symbol) => Some(symbol.name.to_string()),
        Symbolized::Unknown(_) => None,
    }
}

/// The names of the functions of a program or library; none when it cannot be read.
#[must_use]
pub fn functions_of(path: &std::path::Path) -> Vec<String> {
    use blazesym::inspect::source::{Elf, Source};
    let mut names = Vec::new();
    let collect = |symbol: &blazesym::inspect::SymInfo<'_>| {
        names.push(symbol.name.to_string());
        std::ops::ControlFlow::Continue(())
    };
    let _ = blazesym::inspect::Inspector::new().for_each(&Source::Elf(Elf::new(path)), collect);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_s_functions_have_names_and_nowhere_has_none() {
        let mut symbols = Symbols::new();
        let address = libc::getpid as *const () as u64;
        let names = symbols.of_process(std::process::id(), &[address, 8, address]);
        assert!(names[0].contains("getpid"), "{names:?}");
        assert_eq!((names[1].as_str(), &names[2]), ("[unknown]", &names[0]));
        assert_eq!(symbols.of_process(u32::MAX >> 1, &[address]), ["[unknown]"], "there is no such process");
    }
}
