//! The cost of the programs themselves: the kernel's own measurement of their run time.
//!
//! The kernel measures only while requested, since two readings of its clock per run cost more than a small program
//! does: [`Measuring`] is held for that time.
//! Failure: without CAP_SYS_ADMIN the measurement cannot be switched on, and the run time stays 0.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use libbpf_rs::libbpf_sys;

use crate::Error;

/// The kernel measures the run time of every program while this lives.
#[derive(Debug)]
pub struct Measuring {
    _switch: OwnedFd,
}

impl Measuring {
    /// Switches it on.
    ///
    /// # Errors
    /// When this process may not.
    pub fn start() -> Result<Self, Error> {
        // SAFETY: a system call without pointers of ours; its result is a new file descriptor, or below zero.
        let number = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
        if number < 0 {
            let error = std::io::Error::from_raw_os_error(-number);
            let (what, errno) = ("measuring the run time of programs".to_owned(), Some(-number));
            return Err(Error::Refused { what, reason: error.to_string(), errno, is_verifier: false });
        }
        // SAFETY: the kernel has just given this descriptor to us, and nobody else knows it.
        Ok(Self { _switch: unsafe { OwnedFd::from_raw_fd(number) } })
    }
}

/// What the kernel counted of a program, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunTime {
    /// Nanoseconds, while it was measured.
    pub ran_ns: u64,
    /// Runs, while it was measured.
    pub runs: u64,
    /// Times that it was left out, since it or another ran on the same CPU already: events that nobody saw. Counted
    /// always.
    pub missed: u64,
}

impl RunTime {
    /// Of one program.
    pub(crate) fn from_program(program: BorrowedFd<'_>) -> Option<Self> {
        let mut info = libbpf_sys::bpf_prog_info::default();
        let mut length = u32::try_from(size_of_val(&info)).expect("a few hundred bytes");
        // SAFETY: the descriptor is borrowed and so open; `info` is all numbers, as long as `length` says, and its
        // pointers to arrays are null, so that the kernel writes nothing else.
        let outcome =
            unsafe { libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut info, &raw mut length) };
        (outcome == 0).then_some(Self { ran_ns: info.run_time_ns, runs: info.run_cnt, missed: info.recursion_misses })
    }

    /// Several together.
    #[must_use]
    pub fn sum(all: &[(String, Self)]) -> Self {
        all.iter().fold(Self::default(), |sum, (_, more)| Self {
            ran_ns: sum.ran_ns + more.ran_ns,
            runs: sum.runs + more.runs,
            missed: sum.missed + more.missed,
        })
    }
}
