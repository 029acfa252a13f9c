//! Tickets that enrol a broker once, and the tokens that brokers have.
//!
//! Format: a ticket is `ogf_ID_SECRET_FINGERPRINT` in hexadecimal digits of 16, 32 and 32; the last part names the key
//! of the server, so that whoever redeems it believes no other.
//! Invariants: tickets and tokens are kept as their SHA-256. A ticket that was redeemed is redeemed again only by the
//! same name and hash of a token: by the broker that did not get the answer.
//! Limits: [`TICKET_MS_MAX`], [`LIFETIME_MS_MIN`], [`LIFETIME_MS_MAX`], [`TICKETS_MAX`], [`BROKERS_MAX`].

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use crate::check_name;
use crate::error::Error;
use crate::package::{FINGERPRINT_DIGITS, PublicKey};
use crate::secret::{is_sha256, random_hex, sha256};

const PREFIX: &str = "ogf_";
const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 16;
/// A month until a ticket is redeemed.
const TICKET_MS_MAX: i64 = 31 * 86_400_000;
/// An hour, for whoever says nothing.
const TICKET_MS: i64 = 3_600_000;
/// 90 days: who is away for longer enrols again.
const LIFETIME_MS: i64 = 90 * 86_400_000;
/// 10 s: tests see a rotation.
const LIFETIME_MS_MIN: i64 = 10_000;
/// A year.
const LIFETIME_MS_MAX: i64 = 366 * 86_400_000;
/// A token that was replaced works for another 10 minutes: for who lost the answer.
const GRACE_MS: i64 = 600_000;
/// 20,000 tickets that were not removed yet.
pub(crate) const TICKETS_MAX: usize = 20_000;
/// 20,000 brokers, revoked ones included: twice a large fleet.
pub(crate) const BROKERS_MAX: usize = 20_000;

/// A ticket that somebody wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewTicket {
    /// The group of the broker.
    pub group: String,
    /// The only name that it may take; it may then replace a broker of that name.
    #[serde(default)]
    pub broker: Option<String>,
    /// How long the ticket is good.
    #[serde(default)]
    pub expires_ms: Option<i64>,
    /// How long each token of the broker is good.
    #[serde(default)]
    pub lifetime_ms: Option<i64>,
}

/// A ticket as the server keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ticket {
    pub(crate) id: String,
    sha256: String,
    pub(crate) group: String,
    pub(crate) broker: Option<String>,
    by: String,
    pub(crate) expires_ms: i64,
    lifetime_ms: i64,
    /// Who redeemed it, with which token, and when.
    used: Option<(String, String, i64)>,
}

/// A ticket as people see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketView {
    /// Its id.
    pub id: String,
    /// The group.
    pub group: String,
    /// The only name, if there is one.
    pub broker: Option<String>,
    /// Who made it.
    pub by: String,
    /// When it ends.
    pub expires_ms: i64,
    /// Who redeemed it.
    pub used_by: Option<String>,
}

/// The enrolment of a broker, as the server keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enrolment {
    /// The broker.
    pub name: String,
    /// Its group.
    pub group: String,
    /// The id of its ticket, and who made that.
    pub ticket: (String, String),
    /// When it enrolled.
    pub enrolled_ms: i64,
    /// When it was revoked, and by whom.
    pub revoked: Option<(i64, String)>,
    lifetime_ms: i64,
    /// Hashes of tokens and when they end, the newest first.
    tokens: Vec<(String, i64)>,
}

/// The id, the secret and the fingerprint in a ticket.
pub(crate) fn ticket_parts(text: &str) -> Result<(&str, &str, &str), String> {
    let wrong = || "this is no ticket; `ogive fleet ticket` makes one".to_owned();
    let mut parts = text.trim().strip_prefix(PREFIX).ok_or_else(wrong)?.split('_');
    let (id, secret, fingerprint) = (parts.next(), parts.next(), parts.next());
    let (Some(id), Some(secret), Some(fingerprint), None) = (id, secret, fingerprint, parts.next()) else {
        return Err(wrong());
    };
    let is_hex = |text: &str, digits| text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex(id, 2 * ID_BYTES) || !is_hex(secret, 2 * SECRET_BYTES) || !is_hex(fingerprint, FINGERPRINT_DIGITS) {
        return Err(wrong());
    }
    Ok((id, secret, fingerprint))
}

impl Ticket {
    /// A new one, and its text.
    pub(crate) fn new(wanted: &NewTicket, by: &str, key: &PublicKey, now_ms: i64) -> Result<(Self, String), Error> {
        check_name(&wanted.group).map_err(Error::Wrong)?;
        if let Some(name) = &wanted.broker {
            check_name(name).map_err(Error::Wrong)?;
        }
        let age = wanted.expires_ms.unwrap_or(TICKET_MS);
        if !(1..=TICKET_MS_MAX).contains(&age) {
            return Err(Error::Wrong("a ticket is good for 1 ms to 31 days".into()));
        }
        let lifetime_ms = wanted.lifetime_ms.unwrap_or(LIFETIME_MS);
        if !(LIFETIME_MS_MIN..=LIFETIME_MS_MAX).contains(&lifetime_ms) {
            return Err(Error::Wrong("a broker's token is good for 10 seconds to 366 days".into()));
        }
        let id = random_hex(ID_BYTES).map_err(Error::Limit)?;
        let secret = random_hex(SECRET_BYTES).map_err(Error::Limit)?;
        let ticket = Self {
            id: id.clone(),
            sha256: sha256(&secret),
            group: wanted.group.clone(),
            broker: wanted.broker.clone(),
            by: by.to_owned(),
            expires_ms: now_ms + age,
            lifetime_ms,
            used: None,
        };
        Ok((ticket, format!("{PREFIX}{id}_{secret}_{}", key.fingerprint())))
    }

    /// Whether `secret` is its own.
    pub(crate) fn is_of(&self, secret: &str) -> bool {
        self.sha256.as_bytes().ct_eq(sha256(secret).as_bytes()).into()
    }

    /// Redeems it for a broker: its enrolment.
    pub(crate) fn redeem(&mut self, name: &str, token_sha256: &str, now_ms: i64) -> Result<Enrolment, Error> {
        check_name(name).map_err(Error::Wrong)?;
        if !is_sha256(token_sha256) {
            return Err(Error::Wrong("token_sha256 is no SHA-256 in hexadecimal digits".into()));
        }
        match &self.used {
            Some((used_by, token, _)) if used_by != name || token != token_sha256 => {
                let message = format!("the ticket {} was used by {used_by:?}; ask for a new one", self.id);
                return Err(Error::denied("used", message));
            }
            Some(_) => {}
            None if self.expires_ms <= now_ms => {
                return Err(Error::denied("expired", format!("the ticket {} has expired; ask for a new one", self.id)));
            }
            None => {}
        }
        if let Some(only) = self.broker.as_deref().filter(|only| *only != name) {
            let message = format!("the ticket {} is for the broker {only:?}, not for {name:?}", self.id);
            return Err(Error::denied("name", message));
        }
        let enrolled_ms = self.used.as_ref().map_or(now_ms, |(.., used_ms)| *used_ms);
        self.used = Some((name.to_owned(), token_sha256.to_owned(), enrolled_ms));
        Ok(Enrolment {
            name: name.to_owned(),
            group: self.group.clone(),
            ticket: (self.id.clone(), self.by.clone()),
            enrolled_ms,
            revoked: None,
            lifetime_ms: self.lifetime_ms,
            tokens: vec![(token_sha256.to_owned(), enrolled_ms + self.lifetime_ms)],
        })
    }

    pub(crate) fn is_used(&self) -> bool {
        self.used.is_some()
    }

    pub(crate) fn view(&self) -> TicketView {
        let Self { id, group, broker, by, expires_ms, used, .. } = self.clone();
        TicketView { id, group, broker, by, expires_ms, used_by: used.map(|(name, ..)| name) }
    }
}

impl Enrolment {
    /// Hashes of its tokens.
    pub(crate) fn hashes(&self) -> impl Iterator<Item = &str> {
        self.tokens.iter().map(|(hash, _)| hash.as_str())
    }

    /// When its newest token ends.
    #[must_use]
    pub fn expires_ms(&self) -> i64 {
        self.tokens.first().map_or(0, |(_, ends_ms)| *ends_ms)
    }

    /// How long a token is good.
    #[must_use]
    pub fn lifetime_ms(&self) -> i64 {
        self.lifetime_ms
    }

    /// Whether a token with this hash lets it in now.
    pub(crate) fn admits(&self, hash: &str, now_ms: i64) -> Result<(), Error> {
        let name = &self.name;
        if self.revoked.is_some() {
            let message = format!("the broker {name:?} was revoked; enrol it again if that is not meant");
            return Err(Error::denied("revoked", message));
        }
        let found = self.tokens.iter().find(|(known, _)| known.as_bytes().ct_eq(hash.as_bytes()).into());
        match found {
            Some((_, ends_ms)) if *ends_ms > now_ms => Ok(()),
            Some(_) => {
                let message = format!("the token of the broker {name:?} has expired; enrol it again");
                Err(Error::denied("expired", message))
            }
            None => Err(Error::denied("token", "this token is not known here")),
        }
    }

    /// Makes the token of `new` the newest; the one before works for another [`GRACE_MS`].
    pub(crate) fn rotate(&mut self, new: &str, now_ms: i64) -> Result<(), Error> {
        if !is_sha256(new) {
            return Err(Error::Wrong("token_sha256 is no SHA-256 in hexadecimal digits".into()));
        }
        if self.tokens.first().is_some_and(|(hash, _)| hash == new) {
            return Ok(());
        }
        let ends_ms = now_ms + self.lifetime_ms;
        self.tokens.insert(0, (new.to_owned(), ends_ms));
        self.tokens.truncate(2);
        if let Some((_, ends_ms)) = self.tokens.get_mut(1) {
            *ends_ms = (*ends_ms).min(now_ms + GRACE_MS);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::SigningKey;

    const NOW: i64 = 1_700_000_000_000;

    fn reason(error: Error) -> &'static str {
        match error {
            Error::Denied { reason, .. } => reason,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_ticket_enrols_one_broker() {
        let key = SigningKey::parse(&SigningKey::generate().unwrap()).unwrap().public();
        let wanted = NewTicket { group: "edge".into(), ..NewTicket::default() };
        let (ticket, text) = Ticket::new(&wanted, "amy", &key, NOW).unwrap();
        let (id, secret, fingerprint) = ticket_parts(&text).unwrap();
        assert_eq!((id, fingerprint), (&*ticket.id, &*key.fingerprint()));
        assert!(ticket.is_of(secret) && !ticket.is_of(id));
        let (one, two) = (sha256("one"), sha256("two"));
        let mut used = ticket.clone();
        let enrolment = used.redeem("a", &one, NOW).unwrap();
        assert_eq!(used.redeem("a", &one, NOW + 5 * TICKET_MS).unwrap(), enrolment, "the answer was lost");
        assert_eq!(reason(used.redeem("a", &two, NOW).unwrap_err()), "used");
        assert_eq!(reason(used.redeem("b", &one, NOW).unwrap_err()), "used");
        assert_eq!(reason(ticket.clone().redeem("a", &one, NOW + TICKET_MS).unwrap_err()), "expired");
        assert!(matches!(ticket.clone().redeem("a/b", &one, NOW), Err(Error::Wrong(_))));
        assert!(matches!(ticket.clone().redeem("a", "x", NOW), Err(Error::Wrong(_))));
        let mut bound = Ticket { broker: Some("a".into()), ..ticket };
        assert_eq!(reason(bound.redeem("b", &one, NOW).unwrap_err()), "name");
        for text in ["", "ogf_", "ogt_a_b_c", &text[..text.len() - 1], &format!("{text}_0"), &text.replace('_', "-")] {
            assert!(ticket_parts(text).is_err(), "{text}");
        }
    }

    #[test]
    fn tokens_rotate_expire_and_are_revoked() {
        let key = SigningKey::parse(&SigningKey::generate().unwrap()).unwrap().public();
        let wanted = NewTicket { group: "edge".into(), lifetime_ms: Some(LIFETIME_MS_MIN), ..NewTicket::default() };
        let (mut ticket, _) = Ticket::new(&wanted, "amy", &key, NOW).unwrap();
        let (one, two) = (sha256("one"), sha256("two"));
        let mut enrolment = ticket.redeem("a", &one, NOW).unwrap();
        assert!(enrolment.admits(&one, NOW).is_ok());
        assert_eq!(reason(enrolment.admits(&two, NOW).unwrap_err()), "token");
        assert_eq!(reason(enrolment.admits(&one, NOW + LIFETIME_MS_MIN).unwrap_err()), "expired");
        enrolment.rotate(&two, NOW + 5_000).unwrap();
        enrolment.rotate(&two, NOW + 6_000).unwrap();
        assert!(enrolment.admits(&one, NOW + 9_000).is_ok() && enrolment.admits(&two, NOW + 14_000).is_ok());
        assert_eq!(enrolment.expires_ms(), NOW + 5_000 + LIFETIME_MS_MIN);
        enrolment.revoked = Some((NOW, "amy".into()));
        assert_eq!(reason(enrolment.admits(&two, NOW).unwrap_err()), "revoked");
        for lifetime_ms in [LIFETIME_MS_MIN - 1, LIFETIME_MS_MAX + 1] {
            let wanted = NewTicket { lifetime_ms: Some(lifetime_ms), ..wanted.clone() };
            assert!(matches!(Ticket::new(&wanted, "amy", &key, NOW), Err(Error::Wrong(_))));
        }
        for expires_ms in [0, TICKET_MS_MAX + 1] {
            let wanted = NewTicket { expires_ms: Some(expires_ms), ..wanted.clone() };
            assert!(matches!(Ticket::new(&wanted, "amy", &key, NOW), Err(Error::Wrong(_))));
        }
    }
}
