//! How many were turned away, and why.

use crate::counters::Counter;

/// Why somebody is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoginFailure {
    /// The handshake of TLS failed: no or a wrong certificate, a version too old, or no TLS at all.
    Tls,
    /// Nothing says who it is.
    Missing,
    /// What says who it is cannot be read.
    Malformed,
    /// The user or the password is wrong.
    Password,
    /// The token is not known.
    Token,
    /// The token is known and too old.
    Expired,
    /// They may not do this.
    NotAllowed,
    /// They asked for another tenant than theirs.
    Tenant,
    /// Too many passwords were being checked.
    Busy,
}

impl LoginFailure {
    pub(crate) const ALL: [Self; 9] = [
        Self::Tls,
        Self::Missing,
        Self::Malformed,
        Self::Password,
        Self::Token,
        Self::Expired,
        Self::NotAllowed,
        Self::Tenant,
        Self::Busy,
    ];

    /// The value of the label `reason`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tls => "tls",
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::Password => "password",
            Self::Token => "token",
            Self::Expired => "expired",
            Self::NotAllowed => "not_allowed",
            Self::Tenant => "tenant",
            Self::Busy => "busy",
        }
    }
}

/// What was counted at the door since the server started.
#[derive(Debug, Default)]
pub(crate) struct Doorkeeper {
    failures: [Counter; LoginFailure::ALL.len()],
    /// New configurations that came into force.
    pub(crate) reloads: Counter,
    /// New configurations that could not be taken.
    pub(crate) reloads_failed: Counter,
}

impl Doorkeeper {
    pub(crate) fn turned_away(&self, why: LoginFailure) {
        let at = LoginFailure::ALL.iter().position(|known| *known == why).expect("ALL has every reason");
        self.failures[at].add(1);
    }

    /// `(reason, how often)` for every reason.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        LoginFailure::ALL.iter().zip(&self.failures).map(|(why, counter)| (why.name(), counter.get()))
    }
}
