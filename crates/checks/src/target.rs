//! What checks are aimed at, and what several kinds of them share.

use std::path::PathBuf;

use hyper::{Method, Uri};
use ogive_outgoing::Secret;
use regex::Regex;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostAndPort {
    pub(super) host: String,
    pub(super) port: u16,
}

/// Whom to believe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trust {
    pub(super) authorities: Option<PathBuf>,
    pub(super) server_name: Option<String>,
    pub(super) insecure: bool,
}

/// A request and what its answer is to be.
#[derive(Clone, Debug)]
pub(super) struct Http {
    pub(super) url: Uri,
    pub(super) method: Method,
    pub(super) headers: Vec<(String, String)>,
    pub(super) token: Option<PathBuf>,
    pub(super) body: String,
    /// Empty: any below 400.
    pub(super) status: Vec<u16>,
    pub(super) pattern: Option<Regex>,
    pub(super) redirects: u32,
    pub(super) trust: Trust,
}

/// A server that wants to know who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) place: HostAndPort,
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
    pub(super) database: Option<String>,
    /// Over TLS, if at all.
    pub(super) trust: Option<Trust>,
}
