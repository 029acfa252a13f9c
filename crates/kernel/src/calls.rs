//! System calls of processes: each one counted, with errors, total time and a histogram of durations.
//!
//! Invariants: the count of a call is exact. Calls in progress are counted but not yet in the histogram, so
//! [`Call::count`] is at least the histogram's total.

use std::process::{Child, Command};
use std::rc::Rc;

use ogive_hist::Histogram;

use crate::fields::{Bins, Fields, histogram};
use crate::object::{value, values_of_cpus};
use crate::run_time::RunTime;
use crate::syscalls::name_of;
use crate::tasks::{CALLS, Part, TaskOptions, TaskPrograms};
use crate::{Error, Filter};

/// What was counted of one system call since the last time.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its number on this machine.
    pub number: u32,
    /// Its name, or its number as text where this version does not know it.
    pub name: String,
    /// How many began.
    pub count: u64,
    /// How many returned an error.
    pub errors: u64,
    /// How long each took that has returned, in seconds.
    pub took: Histogram,
}

/// What was counted until now, to be taken off the next time.
#[derive(Clone, Default)]
struct Before {
    count: u64,
    errors: u64,
    time: u64,
    bins: Vec<Bins>,
}

/// Counts system calls while it lives.
pub struct Calls {
    programs: Rc<TaskPrograms>,
    before: Vec<Before>,
}

impl std::fmt::Debug for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Calls").field("programs", &self.programs).finish_non_exhaustive()
    }
}

impl Calls {
    /// Counts the calls of what `filter` names, from now on.
    ///
    /// # Errors
    /// When the kernel refuses the programs, or the filter cannot be.
    pub fn start(filter: &Filter) -> Result<Self, Error> {
        Self::from_programs(&TaskPrograms::load(&TaskOptions::new(filter, &[Part::Calls]))?)
    }

    /// With programs that other parts share.
    ///
    /// # Errors
    /// When the kernel does not attach them.
    pub fn from_programs(programs: &Rc<TaskPrograms>) -> Result<Self, Error> {
        programs.switch(Part::Calls, true)?;
        Ok(Self { programs: programs.clone(), before: vec![Before::default(); CALLS as usize] })
    }

    /// Starts a command and counts its calls and those of its children, from the end of its `exec` on.
    ///
    /// # Errors
    /// As [`Calls::start`], and when the command does not start.
    pub fn from_command(command: &mut Command) -> Result<(Self, Child), Error> {
        let own_thread = nix::unistd::gettid().as_raw().unsigned_abs();
        let calls = Self::start(&Filter::ChildrenOf(own_thread))?;
        match command.spawn() {
            Ok(child) => Ok((calls, child)),
            Err(error) => Err(Error::Command { command: command.get_program().to_string_lossy().into_owned(), error }),
        }
    }

    /// The programs, which others may share.
    #[must_use]
    pub fn programs(&self) -> &Rc<TaskPrograms> {
        &self.programs
    }

    /// What the programs cost, by name.
    #[must_use]
    pub fn run_times(&self) -> Vec<(String, RunTime)> {
        self.programs.run_times()
    }

    /// What was counted since the last time, most calls first.
    ///
    /// # Errors
    /// When the kernel's maps cannot be read.
    pub fn drain(&mut self) -> Result<Vec<Call>, Error> {
        let mut calls = Vec::new();
        for number in 0..CALLS {
            calls.extend(self.drain_one(number)?);
        }
        calls.sort_by(|a, b| b.count.cmp(&a.count).then(a.number.cmp(&b.number)));
        Ok(calls)
    }

    fn drain_one(&mut self, number: u32) -> Result<Option<Call>, Error> {
        let (mut count, mut errors, mut time) = (0_u64, 0_u64, 0_u64);
        for bytes in values_of_cpus(&self.programs.loaded().map("calls"), number, "counts of calls")? {
            let mut fields = Fields(&bytes);
            count += fields.u64();
            errors += fields.u64();
            time += fields.u64();
        }
        let before = &mut self.before[number as usize];
        if count == before.count && errors == before.errors && time == before.time {
            return Ok(None);
        }
        let map = self.programs.loaded().map("call_histograms");
        before.bins.resize_with(self.programs.shards() as usize, Bins::new);
        let mut bins = Vec::new();
        for (shard, seen) in (0..).zip(&mut before.bins) {
            let counts = seen.since_last(&value(&map, shard * CALLS + number, "histograms of calls")?);
            bins.resize(counts.len(), 0);
            bins.iter_mut().zip(counts).for_each(|(sum, more): (&mut u64, u64)| *sum += more);
        }
        let call = Call {
            number,
            name: name_of(number),
            count: count - before.count,
            errors: errors - before.errors,
            took: histogram(bins, time - before.time),
        };
        (before.count, before.errors, before.time) = (count, errors, time);
        Ok(Some(call))
    }
}
