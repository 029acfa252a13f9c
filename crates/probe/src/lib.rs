//! What runs inside a measured process: a clock, a recorder that loses nothing, and a meter of hiccups.
//!
//! - [`Clock`]: nanoseconds for the price of reading the processor's counter, ordered between threads.
//! - [`Clock::share`] and [`SharedClock`]: the same clock for other processes and languages, through a page of memory.
//! - [`Recorder`] and [`Writer`]: every duration counted in the thread that measured it, taken in snapshots that lose
//!   and double nothing.
//! - [`Stopwatch`] and [`Writer::timed`]: the two together.
//! - [`trace_path!`] and [`TraceRecorder`]: stamps that travel in a message, a histogram for each stage of its path,
//!   and the whole story of the slow ones. [`InFlight`] lists the messages that have not ended, for a crash handler.
//! - [`HiccupMeter`]: how late the machine wakes a sleeping thread, on each CPU.
//! - [`SystemClock`]: the operating system's clocks, to compare with.
//!
//! `unsafe` is fenced in `counter` (reading the processor's counter), `os`, `system` and `threads` (calls into libc),
//! and `recorder::pages` with its callers (memory that comes and goes with what is recorded); nowhere else is it
//! allowed. The protocols between threads (`clock::latch`, `recorder::turnstile`, `trace::ring`) are written over the
//! operations in `memory`, so that their tests run them in loom's model of weak memory.
//!
//! ```
//! use ogive_probe::{Clock, Recorder};
//! let clock = Clock::global();
//! let recorder = Recorder::new();
//! let writer = recorder.handle();
//! let total: u64 = writer.timed(clock, || (0..1_000).sum());
//! let cell = recorder.snapshot();
//! assert_eq!((total, cell.count), (499_500, 1));
//! ```
#![deny(unsafe_code)]

mod clock;
mod counter;
mod error;
mod hiccup;
mod mapping;
mod memory;
mod os;
mod process;
mod recorder;
mod socket;
#[cfg(feature = "tracing")]
mod spans;
mod stopwatch;
mod system;
mod threads;
mod trace;

pub use clock::{
    Bounded, Clock, ClockPage, Maintainer, Mode, OsReason, Policy, ReadCosts, SharedClock, SharedStatus, Status,
    TickRate,
};
pub use counter::Source;
pub use error::Error;
pub use hiccup::{CpuMeter, HiccupMeter, SLEEP_NS};
pub use process::{ProcessMemory, process_cpu_ns};
pub use recorder::{Recorder, SparseWriter, Writer, snapshot_all};
pub use socket::socket_drops;
#[cfg(feature = "tracing")]
pub use spans::{SpanCell, SpanLayer};
pub use stopwatch::{Ends, Ordered, Stopwatch, TickStopwatch, Unordered, Watch};
pub use system::{SystemClock, allowed_cpus, pin_to_cpu};
pub use threads::cpu_ns as thread_cpu_ns;
pub use trace::{
    Class, ClockNote, DumpCounts, IN_FLIGHT_MAX, InFlight, ListedPath, MARK_NAME_BYTES_MAX, MARK_NAMES_MAX,
    MARKERS_MAX, MARKS_MAX, MarkCell, MarkList, MarkName, Marker, MessageInFlight, PATHS_MAX, POINTS_MAX,
    PUBLISHERS_MAX, Point, PointDef, PublisherCell, SLOW_MARKS_MAX, SlowMark, SlowStage, SlowTrace, StageCell, Stamps,
    Threshold, TickSource, TraceCell, TraceCounts, TracePath, TraceRecorder, TraceWriter, each_in_flight,
};
