//! Detectors over what is stored: they run as seconds close, and again over a stretch of the past when somebody asks.
//!
//! ```text
//! store --(select, each few seconds)--> thread "detect": Monitor --findings--> Board (/v1/detections), series ogive_finding
//! ```
//!
//! Invariants: a start reads the last hours of the store again, so that what was learned and what was active is there as before;
//! what that finds is shown and not stored a second time. Findings are hints: nobody is notified by them.
//! Threads: one, [`work`].
//! Limits: `--detect-series` series, [`board`] what is remembered.

pub mod board;
pub mod options;
pub mod work;
