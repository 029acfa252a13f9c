//! From measured cells to findings and alerts: pure, with cells, watermarks, clock and store as arguments.
//!
//! - [`rules`]: rule files, templates, the engine that evaluates groups, and unit tests of rules.
//! - [`detectors`]: what finds faults without a rule.
#![forbid(unsafe_code)]

pub mod detectors;
pub mod rules;
