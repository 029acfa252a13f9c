//! Rules as Prometheus 3 has them: files, templates, evaluation, and their unit tests.

mod alert;
pub mod duration;
mod file;
mod group;
mod rule;
mod state;
mod storage;
pub mod template;
pub mod unit;
mod yaml;

pub use alert::{Alert, AlertState, RESOLVED_RETENTION_MS};
pub use file::{GroupSpec, RULES_MAX, RuleFile, RuleKind, RuleSpec};
pub use group::{Due, Group, GroupDefaults, GroupOutcome};
pub use rule::{Health, Rule, Surroundings, Transition};
pub use state::{GroupState, OUTAGE_TOLERANCE_MS};
pub use storage::{MemoryStore, Sample, Storage, stale};
pub use yaml::FileError;
