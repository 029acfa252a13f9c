//! Rules as Prometheus 3 has them: files, templates, evaluation, and their unit tests.

mod alert;
mod backtest;
mod context;
pub mod duration;
mod extension;
mod file;
mod group;
mod past;
mod rule;
pub mod slo;
mod state;
mod storage;
pub mod template;
pub mod unit;
mod yaml;

pub use alert::{Alert, AlertState, RESOLVED_RETENTION};
pub use backtest::{
    AlertHistory, Backtest, BacktestError, EVALUATIONS_MAX, HOLDS_MAX, RuleHistory, TRANSITIONS_MAX, backtest,
};
pub use context::EvaluationContext;
pub use extension::{Extension, NoData};
pub use file::{GroupSpec, RULES_MAX, RuleFile, RuleKind, RuleSpec};
pub use group::{DueAlert, Group, GroupDefaults, GroupOutcome};
pub use rule::{ALERTS_MAX, Health, Rule, SEEN, SEEN_MAX, Transition};
pub use state::{GroupState, OUTAGE_TOLERANCE};
pub use storage::{MemoryStore, Sample, Storage, stale};
pub use yaml::FileError;
