//! Who may connect, who may ask, and for whom: TLS, login and tenants, one configuration for every listener of HTTP and gRPC.
//!
//! Invariants: a configuration is taken whole or not at all; what is wrong with a new one leaves the old one in force, says
//! so once, and is counted. Connections that are open go on under the TLS of their beginning; each request is judged by the
//! login that is in force when it comes.
//! Threads: one task looks at the files each [`LOOK_AGAIN`]; passwords are checked on blocking threads.
//! Limits: [`config::FILE_BYTES_MAX`] and the numbers beside it.
//! Failure: at the start a sentence with file, line and what to do; later the same on standard error.

mod config;
mod failures;
mod login;
mod passwords;
mod tls;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use axum::http::HeaderMap;
use tokio::sync::watch;

use crate::counters::Counters;
pub(crate) use config::token_hash;
pub(crate) use failures::{Doorkeeper, LoginFailure};
pub(crate) use login::{Allow, Denied, Grant, Need};
use passwords::Passwords;
pub(crate) use tls::certificates;

/// 2 s: a certificate that was replaced is in force before who replaced it looks.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// How files are read: the disk is given, not reached for.
pub(crate) type ReadFile = fn(&Path) -> io::Result<Vec<u8>>;

/// What a configuration says.
#[derive(Default)]
struct Current {
    rules: Arc<login::Rules>,
    tls: Option<Arc<rustls::ServerConfig>>,
    headers: Arc<HeaderMap>,
    /// The bytes that it was made of, to tell whether they changed.
    made_of: [u8; 32],
}

/// The configuration in force.
pub(crate) struct Web {
    path: Option<PathBuf>,
    read_file: ReadFile,
    current: RwLock<Arc<Current>>,
    /// The bytes of the last configuration that was refused: each is told once.
    refused: Mutex<Option<[u8; 32]>>,
    passwords: Passwords,
    counters: Arc<Counters>,
}

impl Web {
    /// Reads the configuration at `path`; without one everybody may do everything, and nothing is encrypted.
    pub(crate) fn open(path: Option<&Path>, read_file: ReadFile, counters: Arc<Counters>) -> anyhow::Result<Self> {
        let current = match path {
            None => Current::default(),
            Some(path) => config::load(path, read_file)?,
        };
        Ok(Self {
            path: path.map(Path::to_owned),
            read_file,
            current: RwLock::new(Arc::new(current)),
            refused: Mutex::default(),
            passwords: Passwords::default(),
            counters,
        })
    }

    /// Whether the configuration at `path` can be taken.
    pub(crate) fn check(path: &Path, read_file: ReadFile) -> anyhow::Result<()> {
        config::load(path, read_file).map(|_| ())
    }

    fn current(&self) -> Arc<Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What a new connection is encrypted with, if it is.
    pub(crate) fn tls(&self) -> Option<Arc<rustls::ServerConfig>> {
        self.current().tls.clone()
    }

    /// Headers of every answer.
    pub(crate) fn headers(&self) -> Arc<HeaderMap> {
        self.current().headers.clone()
    }

    /// What the sender of `headers` may do; `None` when nobody has to say who they are.
    pub(crate) async fn who(&self, headers: &HeaderMap, now_ms: i64) -> Result<Option<Grant>, Denied> {
        let rules = self.current().rules.clone();
        rules.who(headers, now_ms, &self.passwords).await
    }

    /// What a client is asked for, as `WWW-Authenticate` says it.
    pub(crate) fn challenges(&self) -> Vec<&'static str> {
        self.current().rules.challenges()
    }

    /// Counts somebody who was turned away.
    pub(crate) fn turned_away(&self, why: LoginFailure) {
        self.counters.door.turned_away(why);
    }

    /// Takes the files as they are now, if they changed. True when a new configuration came into force.
    pub(crate) fn look(&self) -> bool {
        let Some(path) = &self.path else { return false };
        let made_of = config::fingerprint(path, self.read_file);
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if made_of == self.current().made_of || *refused == Some(made_of) {
            return false;
        }
        match config::load(path, self.read_file) {
            Ok(next) => {
                *refused = None;
                eprintln!("ogive: {} is in force as it is now", path.display());
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
                self.counters.door.reloads.add(1);
                true
            }
            Err(error) => {
                *refused = Some(made_of);
                eprintln!("ogive: the web configuration before stays in force: {error:#}");
                self.counters.door.reloads_failed.add(1);
                false
            }
        }
    }

    /// Looks again and again, until the server ends.
    pub(crate) async fn watch(self: Arc<Self>, mut ending: watch::Receiver<bool>) {
        if self.path.is_none() {
            return;
        }
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                _ = ending.wait_for(|ending| *ending) => return,
            }
            let web = self.clone();
            let _ = tokio::task::spawn_blocking(move || web.look()).await;
        }
    }
}

#[cfg(test)]
mod tests;
