//! The kernel observer: what the scheduler and system calls cost a process, measured by the kernel itself.
//!
//! - [`Filter`], [`Grouping`]: which tasks are observed, and how they are grouped.
//! - `doctor`: which families of programs this kernel allows, by trying each.
//! - `sched`: run-queue latency, slices, waits by cause, interrupts and herds as histograms.
//! - `tasks`: the programs that the next four share when they are observed together.
//! - `micro`: microstates of threads. `calls`: system calls. `functions`: calls of functions. `locks`: contended locks,
//!   and [`wait_kind`]: other waits within futex.
//! - [`ask`]: questions written by the user.
//! - [`proc`]: counters in `/proc`, which every user can read. [`places`]: which groups have series of their own.
//!   [`budget`]: the observer's cost limit, and `run_time`: the cost of its programs.
//! - [`scale`]: the Universal Scalability Law, fitted to throughput; [`curve`]: its picture; [`growth`]: the cost of
//!   more workers, by state. They need no kernel programs.
//! - `stacks`: stacks of running or waiting tasks, `symbols`: their function names; [`folded`]: stacks as text;
//!   [`flamegraph`]: stacks as a picture.
//! - [`machine`]: the readings from /proc and /sys; [`advice`]: what the settings cost, and how to change them.
//!
//! Limits: groups beyond the number requested count in one named `other`. Failure: a program that does not load gives
//! an [`Error`] with the kernel's reason. The programs are in `bpf/`, in C; everything that needs them is behind the
//! feature `bpf`.
// `run_time`, `mapped` and `functions::stopped` alone allow it for themselves: two calls that libbpf-rs has no name
// for, the memory of a map, and what runs between fork and exec.
#![deny(unsafe_code)]

pub mod advice;
pub mod ask;
pub mod budget;
#[cfg(feature = "bpf")]
pub mod calls;
pub mod curve;
#[cfg(feature = "bpf")]
pub mod doctor;
mod error;
#[cfg(feature = "bpf")]
mod fields;
mod filter;
pub mod flamegraph;
pub mod folded;
#[cfg(feature = "bpf")]
pub mod functions;
pub mod growth;
#[cfg(feature = "bpf")]
pub mod locks;
pub mod machine;
#[cfg(feature = "bpf")]
mod mapped;
#[cfg(feature = "bpf")]
pub mod micro;
#[cfg(feature = "bpf")]
mod object;
pub mod places;
pub mod proc;
#[cfg(feature = "bpf")]
pub mod run_time;
pub mod scale;
#[cfg(feature = "bpf")]
pub mod sched;
#[cfg(feature = "bpf")]
mod snapshots;
#[cfg(feature = "bpf")]
pub mod stacks;
#[cfg(feature = "bpf")]
pub mod symbols;
pub mod syscalls;
#[cfg(feature = "bpf")]
pub mod tasks;
pub mod wait_kind;

pub use error::Error;
pub use filter::{CAUSES, COMM_MAX, Filter, Grouping};
