//! Detectors over what is stored: they run as seconds close, and again over a stretch of the past when somebody asks.
//!
//! ```text
//! shard of the store --Tap--> Feed --a second that closed--> thread "detect": a Monitor a tenant --findings--> Board (/v1/detections),
//!                                                                                             series ogive_finding
//! ```
//!
//! Invariants: seconds come as they close; where the feed is not certain of one the store is read, and both say the
//! same. A start reads the last hours of the store again, so that what was learned and what was active is there as
//! before; what that finds is shown and not stored a second time. Findings are hints: nobody is notified by them but by
//! a rule.
//! Threads: one, [`work`].
//! Limits: `--detect-series` series, [`board`] what is remembered.

pub mod board;
mod feed;
pub mod options;
pub mod work;
