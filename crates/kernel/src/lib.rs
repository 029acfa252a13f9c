//! The kernel observer: what the scheduler and the system calls cost a process, measured by the kernel itself.
//!
//! - [`Filter`], [`Grouping`]: which tasks are observed, and what counts as one.
//! - `doctor`: which families of programs this kernel lets in, by trying each.
//! - `sched`: run-queue latency, slices, waits by cause, interrupts and herds as histograms.
//! - `micro`: microstates of threads. `calls`: system calls. `locks`: contended locks, and [`wait_kind`]: what else waits there.
//! - [`ask`]: questions of the user's own.
//! - [`proc`]: counters that `/proc` shows to everybody. [`places`]: which groups have series of their own. [`budget`]: what
//!   the observer may cost, and `run_time`: what its programs do.
//! - [`scale`]: the Universal Scalability Law, fitted to throughput; [`curve`]: its picture; [`growth`]: what more workers
//!   cost, by state. They need no kernel.
//! - `stacks`: stacks of tasks that run or wait, `symbols`: their names; [`folded`]: stacks as text; [`flamegraph`]: their picture.
//! - [`machine`]: what /proc and /sys say; [`advice`]: what of it costs, and what would change it.
//!
//! Limits: groups beyond those asked for count in one that is named `other`. Failure: what does not load gives an [`Error`]
//! with the kernel's reason. The programs are in `bpf/`, in C; everything that needs them is behind the feature `bpf`.
// `run_time` alone allows it for itself: two calls that libbpf-rs has no name for.
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
pub mod growth;
#[cfg(feature = "bpf")]
pub mod locks;
pub mod machine;
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
pub mod stacks;
#[cfg(feature = "bpf")]
pub mod symbols;
pub mod syscalls;
pub mod wait_kind;

pub use error::Error;
pub use filter::{CAUSES, COMM_MAX, Filter, Grouping};
