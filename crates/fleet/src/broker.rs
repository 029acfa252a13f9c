//! A broker as the fleet sees it.

use std::collections::BTreeSet;

use crate::package::Package;
use crate::report::Report;
use crate::task::Order;
use crate::wire::Connect;

/// What its link and its lease need of it.
pub trait Broker: Send + Sync {
    /// Makes a configuration the one that runs, whole or not at all.
    ///
    /// # Errors
    /// A reason (`invalid`, `forbidden` or `disk`) and a sentence.
    fn apply(&self, package: &Package) -> Result<(), (&'static str, String)>;

    /// Its state; the link adds the version and what was refused.
    fn report(&self) -> Report;

    /// Carries out a request.
    ///
    /// # Errors
    /// Why it cannot be.
    fn carry_out(&self, order: &Order) -> Result<String, String>;

    /// Of the checks that only some brokers of the group run, runs these and no others from now on.
    fn run_share(&self, checks: &BTreeSet<String>);

    /// Opens a connection that somebody wants, or answers why not; returns before it is there.
    fn connect(&self, request: Connect, home: Home);
}

/// The server, for a connection beside those of the link.
#[derive(Clone)]
pub struct Home {
    /// Its address.
    pub url: String,
    /// The broker's token.
    pub token: String,
    /// Who vouches for the server, in place of the usual authorities, in PEM.
    pub ca_pem: Option<Vec<u8>>,
    /// The client's certificates and key, in PEM.
    pub identity_pem: Option<(Vec<u8>, Vec<u8>)>,
}
