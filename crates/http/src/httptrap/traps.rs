//! Who may send by HTTPTrap.

use ogive_irondb::httptrap::TrapChecks;
use ogive_protocol::lines::Names;

/// How HTTPTrap is received, for all requests.
#[derive(Debug, Default)]
pub struct Traps {
    /// The permitted checks, and their limits.
    pub checks: TrapChecks,
    /// How names that PromQL would have to quote are written.
    pub names: Names,
}
