//! From measured cells to findings: pure, with cells and watermarks as arguments.
//!
//! - [`detectors`]: what finds faults without a rule.
#![forbid(unsafe_code)]

pub mod detectors;
