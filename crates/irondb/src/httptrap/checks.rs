//! Which checks senders may name, and how many metrics each may have.
//!
//! Invariants: a secret is compared in a time that does not depend on where it differs.
//! Limits: [`CHECKS_MAX`] checks that were never configured, and a number of names for each check. Both are counted
//! anew after a start.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use ogive_model::Tenant;
use subtle::ConstantTimeEq;

/// 10,000 checks that are not configured, each with a table of names.
const CHECKS_MAX: usize = 10_000;

/// A configured check: `[TENANT/]UUID:SECRET`.
#[derive(Clone, PartialEq, Eq)]
pub struct TrapCheck {
    tenant: Tenant,
    uuid: String,
    secret: String,
}

/// Without the secret.
impl fmt::Debug for TrapCheck {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.tenant, self.uuid)
    }
}

impl FromStr for TrapCheck {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (tenant, check) = match text.split_once('/') {
            Some((tenant, check)) if !tenant.contains(':') => {
                (Tenant::new(tenant).map_err(|error| error.to_string())?, check)
            }
            _ => (Tenant::default(), text),
        };
        let (uuid, secret) = check.split_once(':').ok_or("give UUID:SECRET, or TENANT/UUID:SECRET")?;
        let uuid = parse_uuid(uuid).ok_or_else(|| format!("{uuid:?} is not a UUID (8-4-4-4-12 hexadecimal digits)"))?;
        if secret.is_empty() || secret.contains('/') {
            return Err("the secret is a part of an address: give at least one character, and no slash".into());
        }
        Ok(Self { tenant, uuid, secret: secret.to_owned() })
    }
}

/// The UUID that `text` names, in lower case.
#[must_use]
pub fn parse_uuid(text: &str) -> Option<String> {
    let is_dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    let is_uuid = text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| if is_dash(at) { byte == b'-' } else { byte.is_ascii_hexdigit() });
    is_uuid.then(|| text.to_ascii_lowercase())
}

/// The result for a check and a secret in an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The check is configured, and this is its secret: its samples are this tenant's.
    Check(Tenant),
    /// The check is not configured, and every check is accepted.
    Any,
    /// There is no such check.
    Unknown,
    /// The check is configured with another secret.
    WrongSecret,
}

/// Names of metrics that a check has used, by their hashes.
type Names = Arc<Mutex<HashSet<u64>>>;

/// All checks.
#[derive(Debug, Default)]
pub struct TrapChecks {
    checks: Vec<TrapCheck>,
    accepts_any: bool,
    names_max: usize,
    hasher: RandomState,
    names: Mutex<HashMap<String, Names>>,
}

impl TrapChecks {
    /// The configured `checks`; with `accepts_any` every other one too. Each may have `names_max` metrics.
    #[must_use]
    pub fn new(checks: Vec<TrapCheck>, accepts_any: bool, names_max: usize) -> Self {
        Self { checks, accepts_any, names_max, ..Self::default() }
    }

    /// Whether a sender with this check (as [`parse_uuid`] returns it) and this secret is admitted.
    #[must_use]
    pub fn admit(&self, uuid: &str, secret: &str) -> Admission {
        let mut named = self.checks.iter().filter(|check| check.uuid == uuid).peekable();
        if named.peek().is_none() {
            return if self.accepts_any { Admission::Any } else { Admission::Unknown };
        }
        // Both secrets of a check are valid: that allows replacing one.
        let good = named.rfind(|check| is_same(&check.secret, secret));
        good.map_or(Admission::WrongSecret, |check| Admission::Check(check.tenant.clone()))
    }

    /// The limiter of a check: whether it may use a name, which counts from then on. None when there are too many
    /// checks.
    pub fn fuse(&self, uuid: &str) -> Option<impl FnMut(&str) -> bool + Send + use<>> {
        let names = {
            let mut all = self.names.lock().unwrap_or_else(PoisonError::into_inner);
            match all.get(uuid) {
                Some(names) => names.clone(),
                None if all.len() >= CHECKS_MAX + self.checks.len() => return None,
                None => all.entry(uuid.to_owned()).or_default().clone(),
            }
        };
        let (hasher, names_max) = (self.hasher.clone(), self.names_max);
        Some(move |name: &str| {
            let hash = hasher.hash_one(name);
            let mut names = names.lock().unwrap_or_else(PoisonError::into_inner);
            names.contains(&hash) || names.len() < names_max && names.insert(hash)
        })
    }

    /// Most metrics of a check.
    #[must_use]
    pub const fn names_max(&self) -> usize {
        self.names_max
    }
}

fn is_same(secret: &str, other: &str) -> bool {
    secret.as_bytes().ct_eq(other.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "8b9d2b4e-0c5a-4f0e-8f0d-5a2f6f0c1d2e";

    #[test]
    fn checks_are_admitted_by_their_secret() {
        let check = |text: &str| text.parse::<TrapCheck>().unwrap();
        let upper = UUID.to_uppercase();
        let checks = vec![
            check(&format!("{upper}:one")),
            check(&format!("{UUID}:two")),
            check("team-a/11111111-2222-3333-4444-555555555555:x:y"),
        ];
        let traps = TrapChecks::new(checks.clone(), false, 10);
        assert_eq!(traps.admit(UUID, "one"), Admission::Check(Tenant::default()));
        assert_eq!(traps.admit(UUID, "two"), Admission::Check(Tenant::default()));
        assert_eq!(
            traps.admit("11111111-2222-3333-4444-555555555555", "x:y"),
            Admission::Check(Tenant::new("team-a").unwrap())
        );
        for wrong in ["", "on", "onee", "oneone", "tne"] {
            assert_eq!(traps.admit(UUID, wrong), Admission::WrongSecret, "{wrong:?}");
        }
        let other = "00000000-2222-3333-4444-555555555555";
        assert_eq!(traps.admit(other, "one"), Admission::Unknown);
        let any = TrapChecks::new(checks, true, 10);
        assert_eq!((any.admit(other, "z"), any.admit(UUID, "z")), (Admission::Any, Admission::WrongSecret));
    }

    #[test]
    fn options_that_are_wrong_say_why() {
        for (text, why) in [
            ("x", "UUID:SECRET"),
            ("x:y", "not a UUID"),
            (&format!("{UUID}:"), "at least one"),
            (&format!("{UUID}:a/b"), "no slash"),
            (&format!("a b/{UUID}:c"), "tenant"),
        ] {
            let error = text.parse::<TrapCheck>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_check_that_invents_names_stops_at_its_limit() {
        let traps = TrapChecks::new(Vec::new(), true, 2);
        let mut accepts = traps.fuse(UUID).unwrap();
        assert_eq!(["a", "b", "c", "a"].map(&mut accepts), [true, true, false, true]);
        assert!(traps.fuse("another").unwrap()("c"), "each check has its own");
        for check in 0..CHECKS_MAX {
            let _ = traps.fuse(&check.to_string());
        }
        assert!(traps.fuse("one more").is_none() && traps.fuse(UUID).is_some());
    }
}
