//! What a broker keeps of its server: its credential, the last good version, and the requests that it has begun with.
//!
//! Invariants: a new token is durable before the server knows it; a version is durable before it is reported as the one
//! that runs; the number of a request is durable before it is begun, so that it is carried out at most once.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ogive_journal::Disk;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::package::Signed;
use crate::record::{Records, Restrict};
use crate::task::{Outcome, PENDING_MAX, Task};

/// As whom a broker introduces itself to its server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credential {
    /// The server.
    pub url: String,
    /// The broker's name there.
    pub name: String,
    /// Its group.
    pub group: String,
    /// The key of the server, in base64.
    pub key: String,
    pub(crate) token: String,
    /// The next token, while it replaces this one.
    pub(crate) next_token: Option<String>,
    /// When the token ends.
    pub expires_ms: i64,
    /// How long a token is good.
    pub lifetime_ms: i64,
}

/// An enrolment that began: repeated with the same token when its answer was lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Begun {
    pub(crate) ticket_id: String,
    pub(crate) token: String,
}

/// Requests of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Requests {
    begun: u64,
    /// Those that are being carried out.
    doing: Vec<u64>,
    /// Outcomes that the server does not have.
    unsent: Vec<Outcome>,
}

/// See the module.
pub struct BrokerStore {
    records: Records,
    requests: Mutex<Requests>,
}

impl BrokerStore {
    /// What is in `directory`.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(disk: Arc<dyn Disk>, directory: PathBuf, restrict: Restrict) -> Result<Self, Error> {
        let records = Records::new(disk, vec![directory], restrict);
        let mut requests: Requests = records.read("requests.json")?.unwrap_or_default();
        // The broker ended while it did these.
        for id in std::mem::take(&mut requests.doing) {
            let text = "the broker ended while it did this; ask again".into();
            requests.unsent.push(Outcome { id, ok: false, text });
        }
        Ok(Self { records, requests: Mutex::new(requests) })
    }

    /// Its credential, if it has enrolled.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn credential(&self) -> Result<Option<Credential>, Error> {
        self.records.read("credential.json")
    }

    pub(crate) fn set_credential(&self, credential: &Credential) -> Result<(), Error> {
        self.records.write("credential.json", credential)
    }

    pub(crate) fn enrolling(&self) -> Result<Option<Begun>, Error> {
        self.records.read("enrolling.json")
    }

    pub(crate) fn set_enrolling(&self, begun: Option<&Begun>) -> Result<(), Error> {
        match begun {
            Some(begun) => self.records.write("enrolling.json", begun),
            None => self.records.remove("enrolling.json"),
        }
    }

    /// The last good version.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn last(&self) -> Result<Option<Signed>, Error> {
        self.records.read("last.json")
    }

    pub(crate) fn set_last(&self, signed: &Signed) -> Result<(), Error> {
        self.records.write("last.json", signed)
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last request that was begun.
    pub(crate) fn begun(&self) -> u64 {
        self.requests().begun
    }

    /// Those of `tasks` that are new; they count as begun.
    pub(crate) fn begin(&self, mut tasks: Vec<Task>) -> Result<Vec<Task>, Error> {
        let mut requests = self.requests();
        tasks.retain(|task| task.id > requests.begun);
        tasks.sort_by_key(|task| task.id);
        if tasks.is_empty() {
            return Ok(tasks);
        }
        let mut next = requests.clone();
        next.begun = tasks.last().expect("there is one").id;
        next.doing.extend(tasks.iter().map(|task| task.id));
        self.records.write("requests.json", &next)?;
        *requests = next;
        Ok(tasks)
    }

    /// Notes the outcome of a request that was begun.
    pub(crate) fn end(&self, outcome: Outcome) -> Result<(), Error> {
        let mut requests = self.requests();
        requests.doing.retain(|id| *id != outcome.id);
        requests.unsent.push(outcome);
        // The server keeps no more.
        let over = requests.unsent.len().saturating_sub(PENDING_MAX);
        requests.unsent.drain(..over);
        self.records.write("requests.json", &*requests)
    }

    /// Outcomes that the server does not have.
    pub(crate) fn unsent(&self) -> Vec<Outcome> {
        self.requests().unsent.clone()
    }

    /// The server has these.
    pub(crate) fn sent(&self, sent: &[Outcome]) -> Result<(), Error> {
        let mut requests = self.requests();
        requests.unsent.retain(|outcome| !sent.contains(outcome));
        self.records.write("requests.json", &*requests)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ogive_journal::SimulatedDisk;

    use super::*;
    use crate::task::Order;

    #[test]
    fn a_request_is_begun_once() {
        let disk = Arc::new(SimulatedDisk::new(1));
        disk.create_dir_all(Path::new("/spool")).unwrap();
        let open = || BrokerStore::open(disk.clone(), "/spool/fleet".into(), |_| Ok(())).unwrap();
        let task = |id| Task { id, order: Order::Status };
        let kept = open();
        assert_eq!(kept.begin(vec![task(8), task(7)]).unwrap(), [task(7), task(8)]);
        assert_eq!(kept.begin(vec![task(7), task(8)]).unwrap(), []);
        let outcome = Outcome { id: 7, ok: true, text: "fine".into() };
        kept.end(outcome.clone()).unwrap();
        // It is killed before the second one ends.
        let kept = open();
        assert_eq!(kept.begun(), 8);
        let unsent = kept.unsent();
        assert_eq!((unsent.len(), &unsent[0]), (2, &outcome));
        assert!(unsent[1].id == 8 && !unsent[1].ok && unsent[1].text.contains("ended while"));
        kept.sent(&unsent).unwrap();
        assert!(open().unsent().is_empty());
    }
}
