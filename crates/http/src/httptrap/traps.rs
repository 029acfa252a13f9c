//! Who may send by HTTPTrap.

use ogive_irondb::httptrap::TrapChecks;
use ogive_protocol::lines::Names;

/// How HTTPTrap is received, for all requests.
#[derive(Debug, Default)]
pub struct Traps {
    /// Who may send, and how much.
    pub checks: TrapChecks,
    /// What becomes of names that PromQL needs quotes for.
    pub names: Names,
}
