//! What runs inside a measured process: a clock, a recorder that loses nothing, and a meter of hiccups.
//!
//! - [`Clock`]: nanoseconds for the price of reading the processor's counter, ordered between threads.
//! - `unsafe` is fenced in `counter` (reading the counter) and `os` (calls into libc); nowhere else is it allowed.
//!
//! ```
//! let clock = ogive_probe::Clock::global();
//! let start = clock.now();
//! assert!(clock.now() >= start);
//! ```
#![deny(unsafe_code)]

mod clock;
mod counter;
mod error;
mod memory;
mod os;

pub use clock::{Bounded, Clock, Mode, Status};
pub use counter::Source;
pub use error::Error;
