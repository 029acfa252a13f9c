//! Unit tests of rules: files as `promtool test rules` takes them.

mod compare;
mod file;
mod notation;
mod report;
mod run;

pub use file::{TestFile, TestGroup};
pub use ogive_query::points::POINTS_MAX;
pub use report::{Failure, TestReport, junit};
pub use run::{EVALUATIONS_MAX, run};
