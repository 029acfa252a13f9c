//! Stacks of tasks: sampled while they run, measured while they wait.
//!
//! Invariants: every sample and every nanosecond is counted; a stack whose slot in the kernel's map is taken by another
//! one is `[lost]`, and what found no slot at all is in [`Stacks::lost`]. Limits: 16,384 stacks of each half, in 17 MiB
//! of the kernel's memory, with 127 frames each. User stacks follow frame pointers: code built without them gives one
//! or two frames.

use std::collections::{HashMap, HashSet};

use libbpf_rs::{MapCore as _, MapFlags};

use crate::fields::Fields;
use crate::filter::Config;
use crate::folded::Folded;
use crate::object::{Loaded, Pace, Plan, failed, value};
use crate::run_time::RunTime;
use crate::symbols::Symbols;
use crate::{Error, Filter, Grouping};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OGIVE_BPF_OBJECTS"), "/flame.bpf.o"));

/// Most samples a second and CPU: one costs about 2 microseconds.
pub const RATE_MAX: u32 = 5000;

/// A quarter of what the kernel's maps hold: then the place of one new stack in four is taken.
const CROWDED: usize = 4096;

/// The stack map says so where a stack's place is taken.
const TAKEN: i32 = -17;

/// Which stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Of tasks that run, so many times a second and CPU.
    OnCpu(u32),
    /// Of tasks that gave up the CPU, with the time until they had it again.
    OffCpu,
}

/// A thread's name and both halves of its stack, as the kernel's maps have them: `struct place`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place {
    tgid: u32,
    user: i32,
    kernel: i32,
    comm: String,
}

/// Counts stacks while it lives.
pub struct Stacks {
    loaded: Loaded,
    kind: Kind,
    symbols: Symbols,
    /// Names of stacks, innermost first, found while their process lived; of the kernel, process 0.
    named: HashMap<(u32, i32), Vec<String>>,
    /// Off-CPU values are nanoseconds.
    before: HashMap<Place, u64>,
}

impl std::fmt::Debug for Stacks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stacks").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Stacks {
    /// Counts the stacks of what `filter` names, from now on, on the CPUs `cpus`.
    ///
    /// # Errors
    /// When the kernel refuses the programs or the samples, or what is asked for cannot be.
    pub fn start(filter: &Filter, kind: Kind, cpus: &[usize]) -> Result<Self, Error> {
        filter.check()?;
        let config = Config { filter, grouping: Grouping::Process, herd_min: 0, shard_mask: 0, parts: 0 };
        let without = match kind {
            Kind::OnCpu(rate) if !(1..=RATE_MAX).contains(&rate) => {
                return Err(Error::Input(format!("{rate} samples a second: from 1 to {RATE_MAX} can be")));
            }
            Kind::OnCpu(_) => "on_switch",
            Kind::OffCpu => "on_tick",
        };
        let loaded = Loaded::load(&Plan { object: OBJECT, config: config.bytes(), without: &[without], sizes: &[] })?;
        match kind {
            Kind::OffCpu => loaded.attach(&[])?,
            Kind::OnCpu(rate) => {
                for cpu in cpus {
                    loaded.attach_tick("on_tick", *cpu, Pace::PerSecond(rate))?;
                }
            }
        }
        Ok(Self { loaded, kind, symbols: Symbols::new(), named: HashMap::new(), before: HashMap::new() })
    }

    /// Looks up the names of what was counted until now, which can only be while its process lives.
    ///
    /// # Errors
    /// When the kernel's maps cannot be read.
    pub fn look_up(&mut self) -> Result<(), Error> {
        let mut wanted: HashSet<(u32, i32)> = HashSet::new();
        for (place, _) in self.places()? {
            wanted.extend([(place.tgid, place.user), (0, place.kernel)]);
        }
        for (process, stack) in wanted {
            if stack < 0 || self.named.contains_key(&(process, stack)) {
                continue;
            }
            let addresses = self.addresses(stack)?;
            let names = if process == 0 {
                // The program that looks is in the stack as well.
                let names = self.symbols.of_kernel(&addresses).into_iter();
                names.skip_while(|name| name.starts_with("bpf_")).collect()
            } else {
                self.symbols.of_process(process, &addresses)
            };
            self.named.insert((process, stack), names);
        }
        Ok(())
    }

    /// What was counted since the last time: samples of stacks, or microseconds. A stack begins with its process' name;
    /// the frames of the kernel come last.
    ///
    /// # Errors
    /// When the kernel's maps cannot be read.
    pub fn drain(&mut self) -> Result<Folded, Error> {
        self.look_up()?;
        let mut folded = Folded::default();
        for (place, sum) in self.places()? {
            let since = sum.wrapping_sub(self.before.insert(place.clone(), sum).unwrap_or(0));
            // What is below half a microsecond is none.
            let count = if self.kind == Kind::OffCpu { (since + 500) / 1000 } else { since };
            if count > 0 {
                folded.add(&self.frames(&place), count);
            }
        }
        Ok(folded)
    }

    /// Samples, or nanoseconds, that found no room in the kernel's map since the beginning.
    ///
    /// # Errors
    /// When the kernel's maps cannot be read.
    pub fn lost(&self) -> Result<u64, Error> {
        Ok(Fields(&value(&self.loaded.map("lost"), 0, "lost stacks")?).u64())
    }

    /// Whether so many stacks were counted since the beginning that the next ones often find no place in the kernel's
    /// maps.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.before.len() >= CROWDED
    }

    /// What the programs cost, by name.
    #[must_use]
    pub fn run_times(&self) -> Vec<(String, RunTime)> {
        self.loaded.run_times()
    }

    /// Frames of a place, outermost first.
    fn frames(&self, place: &Place) -> Vec<String> {
        let half = |process: u32, stack: i32, taken: &str| match stack {
            TAKEN => vec![taken.to_owned()],
            // There is none: the kernel's half of a task in user code.
            ..0 => Vec::new(),
            _ => self.named.get(&(process, stack)).cloned().unwrap_or_default(),
        };
        let user = half(place.tgid, place.user, "[lost]");
        let kernel = half(0, place.kernel, "[lost]_[k]");
        let frames = user.into_iter().rev().chain(kernel.into_iter().rev());
        std::iter::once(place.comm.clone()).chain(frames).collect()
    }

    fn places(&self) -> Result<Vec<(Place, u64)>, Error> {
        let map = self.loaded.map("places");
        let mut places = Vec::new();
        for key in map.keys() {
            let Some(value) = map.lookup(&key, MapFlags::ANY).map_err(failed("stacks"))? else { continue };
            let mut fields = Fields(&key);
            let (tgid, user, kernel, _) = (fields.u32(), fields.u32(), fields.u32(), fields.u32());
            let place = Place { tgid, user: user.cast_signed(), kernel: kernel.cast_signed(), comm: fields.comm() };
            places.push((place, Fields(&value).u64()));
        }
        Ok(places)
    }

    /// Addresses of a stack, innermost first; those of callers are of the call, not of what comes after it.
    fn addresses(&self, stack: i32) -> Result<Vec<u64>, Error> {
        let map = self.loaded.map("stacks");
        let found = map.lookup(&stack.to_ne_bytes(), MapFlags::ANY).map_err(failed("stacks"))?;
        let bytes = found.unwrap_or_default();
        let words = bytes.chunks_exact(8).map(|eight| u64::from_ne_bytes(eight.try_into().expect("eight bytes")));
        let addresses = words.take_while(|address| *address != 0).enumerate();
        Ok(addresses.map(|(at, address)| if at == 0 { address } else { address - 1 }).collect())
    }
}
