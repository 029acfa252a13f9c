//! How many were turned away, and why.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::counter::Counter;
use crate::own_value::OwnValue;

/// Why a client is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginFailure {
    /// The handshake of TLS failed: no or a wrong certificate, a version too old, or no TLS at all.
    Tls,
    /// The request has no credentials.
    Missing,
    /// The credentials cannot be parsed.
    Malformed,
    /// The user or the password is wrong.
    Password,
    /// The token is unknown.
    Token,
    /// The token or ticket has expired.
    Expired,
    /// The ticket was not signed here.
    Ticket,
    /// The ticket was revoked.
    Revoked,
    /// The ticket is for another address, or for other parameters of it.
    TicketScope,
    /// They may not do this.
    NotAllowed,
    /// The request is for another tenant than the client's.
    Tenant,
    /// Too many passwords were being checked.
    Busy,
    /// A page of another site made a browser send the request.
    Origin,
    /// The server does not answer for the requested host.
    Host,
}

impl LoginFailure {
    /// Every reason.
    pub const ALL: [Self; 14] = [
        Self::Tls,
        Self::Missing,
        Self::Malformed,
        Self::Password,
        Self::Token,
        Self::Expired,
        Self::Ticket,
        Self::Revoked,
        Self::TicketScope,
        Self::NotAllowed,
        Self::Tenant,
        Self::Busy,
        Self::Origin,
        Self::Host,
    ];

    /// The value of the label `reason`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tls => "tls",
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::Password => "password",
            Self::Token => "token",
            Self::Expired => "expired",
            Self::Ticket => "ticket",
            Self::Revoked => "revoked",
            Self::TicketScope => "ticket_scope",
            Self::NotAllowed => "not_allowed",
            Self::Tenant => "tenant",
            Self::Busy => "busy",
            Self::Origin => "origin",
            Self::Host => "host",
        }
    }
}

/// Counts of refused clients and of configurations since the server started.
#[derive(Debug, Default)]
pub struct Doorkeeper {
    failures: [Counter; LoginFailure::ALL.len()],
    /// New configurations that took effect.
    pub reloads: Counter,
    /// New configurations that were refused.
    pub reloads_failed: Counter,
    /// The file differs from the configuration in force.
    is_refused: AtomicBool,
    evicted: [Counter; Evicted::ALL.len()],
}

/// What was evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// A connection without a request, or whose client had stalled.
    Connection,
    /// A body that arrived too slowly.
    Body,
    /// A live stream.
    Stream,
}

impl Evicted {
    const ALL: [Self; 3] = [Self::Connection, Self::Body, Self::Stream];

    const fn name(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Body => "body",
            Self::Stream => "stream",
        }
    }
}

/// Their metrics and help texts.
pub const HELP: [(&str, &str); 4] = [
    (
        "ogive_web_config_refused",
        "1 while the web configuration's file is not what is in force: it is wrong, or protects less.",
    ),
    ("ogive_web_config_reloads_total", "Web configurations that came into force while the server went on."),
    ("ogive_web_config_reload_failures_total", "Changed web configurations that could not be taken."),
    ("ogive_evicted_total", "Connections, bodies and live streams that were ended to make room for others, by what."),
];

impl Doorkeeper {
    /// Counts one that was turned away.
    pub fn turned_away(&self, why: LoginFailure) {
        let at = LoginFailure::ALL.iter().position(|known| *known == why).expect("ALL has every reason");
        self.failures[at].add(1);
    }

    /// Sets whether the file differs from the configuration in force.
    pub fn set_refused(&self, is_refused: bool) {
        // ORDERING: Relaxed; a figure that is read on its own.
        self.is_refused.store(is_refused, Ordering::Relaxed);
    }

    /// Counts an eviction.
    pub fn evicted(&self, what: Evicted) {
        let at = Evicted::ALL.iter().position(|known| *known == what).expect("ALL has everything");
        self.evicted[at].add(1);
    }

    /// Figures other than the refused clients.
    pub fn values(&self) -> Vec<OwnValue> {
        // ORDERING: Relaxed; as in `set_refused`.
        let is_refused = f64::from(u8::from(self.is_refused.load(Ordering::Relaxed)));
        let mut out = vec![
            OwnValue::gauge("ogive_web_config_refused", &[], "", is_refused),
            OwnValue::counter("ogive_web_config_reloads_total", &[], self.reloads.get() as f64),
            OwnValue::counter("ogive_web_config_reload_failures_total", &[], self.reloads_failed.get() as f64),
        ];
        let evicted = Evicted::ALL.iter().zip(&self.evicted);
        out.extend(evicted.map(|(what, count)| {
            OwnValue::counter("ogive_evicted_total", &[("what", what.name())], count.get() as f64)
        }));
        out
    }

    /// `(reason, how often)` for every reason.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        LoginFailure::ALL.iter().zip(&self.failures).map(|(why, counter)| (why.name(), counter.get()))
    }
}
