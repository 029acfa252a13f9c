//! What a web configuration protects, so that a running server can see when a new one protects less.
//!
//! A file that was emptied, cut off in the middle or half written is often still a valid configuration: one without
//! TLS, without logins, or in which a user has lost the entry that held them to a tenant.
//! Invariants: a running server never gives up a protection; only a start does. What may change while it runs: keys and
//! certificates, who is known, what they may do, as long as it is written out.

use std::collections::{BTreeMap, BTreeSet};

/// The protections of one configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Protection {
    /// The file's last line has its end: one that was cut often has not, and a name in it may be another's then.
    pub(super) whole: bool,
    /// Connections are encrypted.
    pub(super) tls: bool,
    /// The keys of `tls_server_config` that are set and narrow what is accepted.
    pub(super) tls_limits: Vec<&'static str>,
    /// How certificates of clients are demanded.
    pub(super) clients: ClientCertificates,
    /// Users by name.
    pub(super) users: BTreeMap<String, Bounds>,
    /// Tokens by name.
    pub(super) tokens: BTreeMap<String, Bounds>,
    /// Tickets that open nothing any more.
    pub(super) revoked: BTreeSet<String>,
}

/// How strictly certificates of clients are demanded, ascending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ClientCertificates {
    /// A client without one may connect.
    #[default]
    Optional,
    /// Each client must present one.
    Needed,
    /// Each client must present one that a known authority signed.
    Checked,
}

/// The restrictions of one user or token that it would lose if they were left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bounds {
    /// It has a single tenant.
    pub(super) tenant: bool,
    /// Its permissions are listed.
    pub(super) allow: bool,
    /// It ends at a time.
    pub(super) expires: bool,
}

impl Protection {
    fn has_logins(&self) -> bool {
        !self.users.is_empty() || !self.tokens.is_empty()
    }

    /// A line for each user and token that is new or gone, and for TLS.
    pub(super) fn changes_to(&self, next: &Self) -> String {
        let mut out = String::new();
        let mut lines = |kind: &str, before: &BTreeMap<String, Bounds>, after: &BTreeMap<String, Bounds>| {
            let gone = before.keys().filter(|name| !after.contains_key(*name)).map(|name| format!("- {kind} {name}\n"));
            let new = after.keys().filter(|name| !before.contains_key(*name)).map(|name| format!("+ {kind} {name}\n"));
            out.extend(gone.chain(new));
        };
        lines("user", &self.users, &next.users);
        lines("token", &self.tokens, &next.tokens);
        if self.tls != next.tls {
            out.push_str("+ tls_server_config\n");
        }
        if out.is_empty() { "something else in it or in the files that it names".into() } else { out }
    }

    /// The first protection that `next` would drop; None when it keeps all of them.
    pub(super) fn lost_in(&self, next: &Self) -> Option<String> {
        if self.tls && !next.tls {
            return Some("it has no tls_server_config any more, which would turn TLS off".into());
        }
        if self.has_logins() && !next.has_logins() {
            return Some("it has neither users nor tokens any more, which would let everybody in".into());
        }
        if self.whole && !next.whole {
            return Some("it ends in the middle of a line, without a newline".into());
        }
        if next.clients < self.clients {
            return Some("client_auth_type demands less of clients' certificates than before".into());
        }
        if let Some(key) = self.tls_limits.iter().find(|key| !next.tls_limits.contains(key)) {
            return Some(format!("{key} of tls_server_config is missing, which would accept more than before"));
        }
        if let Some(id) = self.revoked.iter().find(|id| !next.revoked.contains(*id)) {
            return Some(format!("the ticket {id:?} is not revoked any more; such a list is shortened by a restart"));
        }
        let freed = |kind: &str, before: &BTreeMap<String, Bounds>, after: &BTreeMap<String, Bounds>| {
            before.iter().find_map(|(name, bounds)| {
                let lost = bounds.lost_in(after.get(name)?)?;
                Some(format!("the {kind} {name:?} has lost its {lost:?}, which would free it of that bound"))
            })
        };
        freed("user", &self.users, &next.users).or_else(|| freed("token", &self.tokens, &next.tokens))
    }
}

impl Bounds {
    fn lost_in(self, next: &Self) -> Option<&'static str> {
        let all = [
            ("tenant", self.tenant, next.tenant),
            ("allow", self.allow, next.allow),
            ("expires", self.expires, next.expires),
        ];
        all.into_iter().find(|(_, before, after)| *before && !*after).map(|(name, ..)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_protects_less_is_found_and_what_protects_as_much_is_not() {
        let all = Bounds { tenant: true, allow: true, expires: true };
        let named = |name: &str, bounds| BTreeMap::from([(name.to_owned(), bounds)]);
        let full = Protection {
            whole: true,
            tls: true,
            tls_limits: vec!["min_version"],
            clients: ClientCertificates::Checked,
            users: named("alice", all),
            revoked: ["old".to_owned()].into(),
            tokens: named("sender", all),
        };
        assert_eq!(full.lost_in(&full), None);
        assert_eq!(Protection::default().lost_in(&full), None);
        let less = |change: fn(&mut Protection)| {
            let mut next = full.clone();
            change(&mut next);
            full.lost_in(&next)
        };
        let check = |lost: Option<String>, word: &str| {
            assert!(lost.as_ref().is_some_and(|lost| lost.contains(word)), "{lost:?}")
        };
        check(full.lost_in(&Protection::default()), "TLS off");
        check(less(|next| next.tls = false), "TLS off");
        check(less(|next| (next.users, next.tokens) = Default::default()), "everybody in");
        check(less(|next| next.whole = false), "middle of a line");
        check(less(|next| next.clients = ClientCertificates::Needed), "client_auth_type");
        check(less(|next| next.tls_limits.clear()), "min_version");
        check(less(|next| next.users.get_mut("alice").unwrap().tenant = false), "\"tenant\"");
        check(less(|next| next.users.get_mut("alice").unwrap().allow = false), "\"allow\"");
        check(less(|next| next.tokens.get_mut("sender").unwrap().expires = false), "\"expires\"");
        check(less(|next| next.revoked.clear()), "revoked");
        // Who is not known any more has lost everything, and is let in no more.
        assert_eq!(less(|next| next.users.clear()), None);
        assert_eq!(less(|next| next.tokens.clear()), None);
    }
}
