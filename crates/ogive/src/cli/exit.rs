//! Exit codes that commands share; `ogive --help` lists them.

/// Something was found that the caller asked about: bad numbers, a failed check.
pub(crate) const EXIT_FINDING: u8 = 1;

/// The command cannot be carried out as it was given.
pub(crate) const EXIT_USAGE: u8 = 2;
