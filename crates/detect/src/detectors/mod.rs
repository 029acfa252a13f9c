//! Detectors: cells and a watermark go in, findings come out. Each says in one sentence what it saw, with its evidence.
//!
//! - [`absence`]: a series that does not come any more, by its learned cadence.
//! - [`rhythm`]: gaps that return with a fixed period.
//! - [`shape`]: the share of slow operations changed.
//! - [`novelty`]: a number is like none before.
//! - [`saturation`]: a value reaches its limit; [`forecasts`]: of many series as they come.
//! - [`parent`]: one finding for many series that went silent together; [`explain`]: which label carries a change.
//! - [`sibling`]: the odd one out, and the difference from last week.
//!
//! [`monitor`] runs them over many series.
//!
//! Invariants: no clock, no disk, no network, no randomness: the same cells give the same findings, and a replay of
//! stored cells those that were reported live.

pub mod absence;
pub mod explain;
pub mod feed;
pub mod forecasts;
pub mod monitor;
pub mod novelty;
pub mod parent;
pub mod rhythm;
pub mod saturation;
pub mod shape;
pub mod sibling;
pub mod tail;

mod finding;
mod instant;
mod quantity;
mod reference;
mod silence;

pub use finding::{Finding, FindingKind};
