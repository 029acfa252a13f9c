//! Who may connect, who may ask, and for whom: TLS, login and tenants, one configuration for every listener of HTTP and
//! gRPC.
//!
//! Invariants: a configuration is taken whole or not at all; what is wrong with a new one leaves the old one in force,
//! says so, and is counted and shown for as long as it is so. A running server gives up no protection (`protection`): a
//! file that was emptied or cut, or cannot be read, turns nothing off. A changed file is taken when two looks found the
//! same. Connections that are open go on under the TLS of their beginning; each request is judged by the login that is
//! in force when it comes.
//! Threads: one task looks at the files each `LOOK_AGAIN`; passwords are checked on blocking threads.
//! Limits: `files::FILE_BYTES_MAX` and the numbers beside it.
//! Failure: at the start a sentence with file, line and what to do; later the same on standard error.

mod config;
mod files;
mod hosts;
mod login;
mod passwords;
mod protection;
mod tickets;
mod tls;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use axum::http::HeaderMap;
use ogive_model::WallMs;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::watch;

use config::Current;
pub use config::token_hash;
pub use files::ReadFile;
pub use hosts::{HostOptions, Hosts};
pub use login::{Allow, Denied, Grant, Login, LoginKind, Need};
use ogive_door::counters::Counters;
pub use ogive_door::doorkeeper::{Evicted, LoginFailure};
use passwords::Passwords;
pub(crate) use tickets::{LIFETIME_MAX, PREFIX as TICKET_PREFIX, TicketRequest};
pub(crate) use tls::certificate_name;

/// 1 s, and a file that is unchanged for two looks is loaded: a replaced certificate is in force before an operator
/// checks, and nothing is loaded while it is being written.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// 10 minutes until it is reported again that the file is not in force.
const SAY_AGAIN: u32 = 600;

/// The state of the reload checks.
#[derive(Default)]
struct ReloadFindings {
    /// Changed bytes that the last look saw for the first time.
    fresh: Option<[u8; 32]>,
    /// The configuration that cannot be loaded.
    refused: Option<Refused>,
}

/// A configuration that is refused.
struct Refused {
    made_of: [u8; 32],
    why: String,
    /// Looks since it was last reported.
    looks: u32,
}

/// The configuration in force.
pub struct Web {
    path: Option<PathBuf>,
    read_file: ReadFile,
    current: RwLock<Arc<Current>>,
    /// The result of the last looks.
    found: Mutex<ReloadFindings>,
    passwords: Passwords,
    hosts: Hosts,
    counters: Arc<Counters>,
}

impl Web {
    /// Reads the configuration at `path`; without one everybody may do everything, and nothing is encrypted.
    pub fn open(path: Option<&Path>, read_file: ReadFile, counters: Arc<Counters>) -> anyhow::Result<Self> {
        let current = match path {
            None => Current::default(),
            Some(path) => config::load(path, read_file)?,
        };
        Ok(Self {
            path: path.map(Path::to_owned),
            read_file,
            current: RwLock::new(Arc::new(current)),
            found: Mutex::default(),
            passwords: Passwords::default(),
            hosts: Hosts::default(),
            counters,
        })
    }

    /// Accepts the names of `hosts`.
    pub fn with_hosts(self, hosts: Hosts) -> Self {
        Self { hosts, ..self }
    }

    /// The names that it accepts.
    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// Whether neither logins nor TLS prevent foreign pages from reading the server's responses.
    pub fn is_open(&self) -> bool {
        let current = self.current();
        current.tls.is_none() && current.rules.is_empty()
    }

    /// Counts an eviction.
    pub fn evicted(&self, what: Evicted) {
        self.counters.door.evicted(what);
    }

    /// Checks whether the configuration at `path` can be loaded.
    pub fn check(path: &Path, read_file: ReadFile) -> anyhow::Result<()> {
        config::load(path, read_file).map(|_| ())
    }

    fn current(&self) -> Arc<Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The TLS configuration of new connections, if any.
    pub fn tls(&self) -> Option<Arc<rustls::ServerConfig>> {
        self.current().tls.clone()
    }

    /// Headers of every response.
    pub fn headers(&self) -> Arc<HeaderMap> {
        self.current().headers.clone()
    }

    /// The grant of the sender of `headers`; `None` when no login is required.
    pub async fn who(&self, headers: &HeaderMap, now: WallMs) -> Result<Option<Grant>, Denied> {
        let rules = self.current().rules.clone();
        rules.who(headers, now, &self.passwords).await
    }

    /// The logins, users before tokens, without their secrets.
    pub fn logins(&self) -> Vec<Login> {
        self.current().rules.logins()
    }

    /// Whether a login is required.
    pub(crate) fn has_logins(&self) -> bool {
        !self.current().rules.is_empty()
    }

    /// The grant of the holder of a ticket at an address: its path and its query.
    pub(crate) fn ticket(&self, text: &str, now: WallMs, path: &str, query: &str) -> Result<Grant, Denied> {
        self.current().tickets.check(text, now, path, query)
    }

    /// A new ticket and its id.
    pub(crate) fn vend(&self, wanted: &TicketRequest<'_>) -> Result<(String, String), String> {
        let mut id = [0; 8];
        SystemRandom::new().fill(&mut id).map_err(|_| "the system gives no random bytes".to_owned())?;
        let (ticket, text) = self.current().tickets.sign(ogive_text::hex::write(&id), wanted)?;
        Ok((ticket.id, text))
    }

    /// The values of `WWW-Authenticate` for a client without a login.
    pub fn challenges(&self) -> Vec<&'static str> {
        self.current().rules.challenges()
    }

    /// Counts a refused login.
    pub fn turned_away(&self, why: LoginFailure) {
        self.counters.door.turned_away(why);
    }

    /// Why the current files are not in force, if they are not.
    pub fn refused(&self) -> Option<String> {
        self.found().refused.as_ref().map(|refused| refused.why.clone())
    }

    fn found(&self) -> std::sync::MutexGuard<'_, ReloadFindings> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads the files as they are now, if they changed and the previous look found the same bytes. True when a new
    /// configuration came into force.
    pub fn look(&self) -> bool {
        let Some(path) = &self.path else { return false };
        let made_of = config::fingerprint(path, self.read_file);
        let mut found = self.found();
        if made_of == self.current().made_of {
            if found.refused.take().is_some() {
                self.counters.door.set_refused(false);
                tracing::info!("{} is again what is in force", path.display());
            }
            found.fresh = None;
            return false;
        }
        if let Some(refused) = found.refused.as_mut().filter(|refused| refused.made_of == made_of) {
            refused.looks += 1;
            if refused.looks.is_multiple_of(SAY_AGAIN) {
                tracing::warn!("the web configuration before is still in force: {}", refused.why);
            }
            return false;
        }
        if found.fresh != Some(made_of) {
            found.fresh = Some(made_of);
            return false;
        }
        match self.load_again(path, made_of) {
            Ok(None) => false,
            Ok(Some(next)) => {
                *found = ReloadFindings::default();
                self.counters.door.set_refused(false);
                tracing::info!("{} is in force as it is now", path.display());
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
                self.counters.door.reloads.add(1);
                true
            }
            Err(error) => {
                let why = format!("{error:#}");
                tracing::warn!("the web configuration before stays in force: {why}");
                *found = ReloadFindings { fresh: None, refused: Some(Refused { made_of, why, looks: 0 }) };
                self.counters.door.reloads_failed.add(1);
                self.counters.door.set_refused(true);
                false
            }
        }
    }

    /// The configuration of the files with these bytes; None when they have changed meanwhile.
    fn load_again(&self, path: &Path, made_of: [u8; 32]) -> anyhow::Result<Option<Current>> {
        let next = config::load(path, self.read_file)?;
        if next.made_of != made_of || config::fingerprint(path, self.read_file) != made_of {
            return Ok(None);
        }
        if let Some(lost) = self.current().protection.lost_in(&next.protection) {
            anyhow::bail!(
                "{}: {lost}; a file that was emptied or cut looks like this. Put it right, or start the server anew if it is meant",
                path.display()
            );
        }
        Ok(Some(next))
    }

    /// Checks the files periodically until the server ends.
    /// The outcome of a change is passed to `tell`, with the file.
    pub async fn watch(
        self: Arc<Self>,
        mut ending: watch::Receiver<bool>,
        tell: impl Fn(&Path, &str, &str) + Send + 'static,
    ) {
        if self.path.is_none() {
            return;
        }
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                _ = ending.wait_for(|ending| *ending) => return,
            }
            let (web, before) = (self.clone(), self.current());
            let was_refused = self.refused();
            let is_taken = tokio::task::spawn_blocking(move || web.look()).await.unwrap_or(false);
            let Some(path) = &self.path else { return };
            match self.refused() {
                _ if is_taken => tell(path, "web", &before.protection.changes_to(&self.current().protection)),
                Some(why) if was_refused.as_ref() != Some(&why) => tell(path, "web_refused", &why),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
