//! Tickets: signed grants that end, for addresses that their holder may ask and nothing else.
//!
//! Format: `ogt_`, the JSON of a [`Ticket`] and its HMAC-SHA256, both in base64 (URL-safe, without padding), with a dot
//! between.
//! Invariants: a ticket is checked without a look-up but in the list of those that are revoked. Of an address every
//! parameter is pinned but for those that only choose a part of its answer ([`FREE`]); where the address names a range
//! of time, requests stay in it.
//! Limits: [`TICKET_BYTES_MAX`], [`LINKS_MAX`], [`LIFETIME_MAX`], [`KEYS_MAX`].

use std::collections::BTreeSet;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ogive_model::{Ms, Tenant, WallMs};
use ogive_text::calendar::instant_ms;
use ring::hmac;
use serde::{Deserialize, Serialize};

use super::login::{Allow, Denied, Grant};
use ogive_door::doorkeeper::LoginFailure;

/// The prefix of each ticket.
pub(crate) const PREFIX: &str = "ogt_";
/// 4 KiB: it has to fit into an address.
const TICKET_BYTES_MAX: usize = 4 << 10;
/// 8 addresses: a picture needs only a few.
const LINKS_MAX: usize = 8;
/// 31 days: what is shared for longer needs a token.
pub(crate) const LIFETIME_MAX: Ms = Ms::from_secs(31 * 86_400);
/// 16 keys: the one that signs, and its predecessors whose tickets have not expired.
pub(super) const KEYS_MAX: usize = 16;
/// 32 bytes cannot be guessed.
const KEY_BYTES_MIN: usize = 32;
/// Parameters that choose a part of what an address shows.
const FREE: [&str; 11] =
    ["start", "end", "time", "step", "limit", "direction", "cursor", "timeout", "ticket", "format", "stats"];
/// Those of them that are instants.
const INSTANTS: [&str; 3] = ["start", "end", "time"];

/// A key of the web configuration.
#[derive(Debug)]
pub(super) struct Key {
    name: String,
    key: hmac::Key,
}

impl Key {
    /// The key of these bytes.
    pub(super) fn new(name: String, secret: &[u8]) -> Result<Self, String> {
        match secret.len() < KEY_BYTES_MIN {
            true => Err(format!(
                "a key for tickets has {KEY_BYTES_MIN} bytes or more; make one with `openssl rand -hex 32`"
            )),
            false => Ok(Self { name, key: hmac::Key::new(hmac::HMAC_SHA256, secret) }),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// An address that a ticket opens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Link {
    #[serde(rename = "p")]
    path: String,
    /// Pinned parameters, sorted.
    #[serde(rename = "q")]
    pinned: Vec<(String, String)>,
    /// Milliseconds; requests must begin and end in between.
    #[serde(rename = "f")]
    from_ms: Option<i64>,
    #[serde(rename = "u")]
    until_ms: Option<i64>,
}

/// The contents of a ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ticket {
    #[serde(rename = "k")]
    key: String,
    pub(crate) id: String,
    #[serde(rename = "t")]
    tenant: String,
    #[serde(rename = "w")]
    write: bool,
    #[serde(rename = "l")]
    links: Vec<Link>,
    #[serde(rename = "e")]
    pub(crate) expires_ms: i64,
    #[serde(rename = "b")]
    by: String,
}

/// A ticket to be issued.
pub(crate) struct TicketRequest<'w> {
    pub(crate) links: &'w [String],
    pub(crate) tenant: &'w Tenant,
    pub(crate) write: bool,
    pub(crate) expires: WallMs,
    pub(crate) by: &'w str,
}

/// The keys, and what was revoked.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    /// The first signs.
    pub(super) keys: Vec<Key>,
    pub(super) revoked: BTreeSet<String>,
}

fn denied(why: LoginFailure, message: impl Into<String>) -> Denied {
    Denied { why, message: message.into() }
}

fn pairs(query: &str) -> Vec<(String, String)> {
    form_urlencoded::parse(query.as_bytes()).map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

/// The parameters that a ticket pins, sorted.
fn pinned(pairs: &[(String, String)]) -> Vec<(String, String)> {
    let mut out: Vec<_> = pairs.iter().filter(|(name, _)| !FREE.contains(&&**name)).cloned().collect();
    out.sort();
    out
}

impl Link {
    /// Of an address of this server, from its slash on.
    fn parse(text: &str) -> Result<Self, String> {
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        if !path.starts_with('/') || path.contains(['%', '#']) || path.split('/').any(|part| part == "..") {
            return Err(format!(
                "{text:?} is no address of this server from its slash on, such as /v1/logs?query=error"
            ));
        }
        let pairs = pairs(query);
        let instant = |name: &str| match pairs.iter().find(|(found, _)| found == name) {
            Some((_, value)) => instant_ms(value).map(Some).ok_or_else(|| format!("{name}={value:?} is no instant")),
            None => Ok(None),
        };
        let time_ms = instant("time")?;
        let (from_ms, until_ms) = (instant("start")?.or(time_ms), instant("end")?.or(time_ms));
        Ok(Self { path: path.to_owned(), pinned: pinned(&pairs), from_ms, until_ms })
    }

    fn opens(&self, path: &str, pairs: &[(String, String)]) -> bool {
        if self.path != path || self.pinned != pinned(pairs) {
            return false;
        }
        if self.from_ms.is_none() && self.until_ms.is_none() {
            return true;
        }
        let is_inside = |value: &str| {
            instant_ms(value).is_some_and(|ms| {
                self.from_ms.is_none_or(|from| ms >= from) && self.until_ms.is_none_or(|until| ms <= until)
            })
        };
        let has = |name: &str| pairs.iter().any(|(found, _)| found == name);
        // An omitted one would mean now, or an hour before.
        let are_named =
            has("time") || (self.from_ms.is_none() || has("start")) && (self.until_ms.is_none() || has("end"));
        are_named && pairs.iter().filter(|(name, _)| INSTANTS.contains(&&**name)).all(|(_, value)| is_inside(value))
    }
}

impl Tickets {
    /// Signs a ticket.
    pub(super) fn sign(&self, id: String, wanted: &TicketRequest<'_>) -> Result<(Ticket, String), String> {
        let key = self
            .keys
            .first()
            .ok_or("this server has no key for tickets; its web configuration names one (docs/web.md)")?;
        if wanted.links.is_empty() || wanted.links.len() > LINKS_MAX {
            return Err(format!("links: name 1 to {LINKS_MAX} addresses"));
        }
        let links = wanted.links.iter().map(|link| Link::parse(link)).collect::<Result<_, _>>()?;
        let ticket = Ticket {
            key: key.name.clone(),
            id,
            tenant: wanted.tenant.as_str().to_owned(),
            write: wanted.write,
            links,
            expires_ms: wanted.expires.0,
            by: wanted.by.to_owned(),
        };
        let json = serde_json::to_vec(&ticket).map_err(|error| error.to_string())?;
        let body = BASE64_URL_SAFE_NO_PAD.encode(json);
        let tag = BASE64_URL_SAFE_NO_PAD.encode(hmac::sign(&key.key, body.as_bytes()));
        let text = format!("{PREFIX}{body}.{tag}");
        match text.len() > TICKET_BYTES_MAX {
            true => Err(format!(
                "the ticket would have {} bytes, more than {TICKET_BYTES_MAX}: share less at once",
                text.len()
            )),
            false => Ok((ticket, text)),
        }
    }

    /// The grant of a client that presents `text` and requests an address.
    pub(super) fn check(&self, text: &str, now: WallMs, path: &str, query: &str) -> Result<Grant, Denied> {
        let wrong = || denied(LoginFailure::Ticket, "this is no ticket of this server");
        let ticket = self.signed(text).ok_or_else(wrong)?;
        if WallMs(ticket.expires_ms) <= now {
            return Err(denied(
                LoginFailure::Expired,
                "the ticket has expired; ask whoever gave it to you for a new one",
            ));
        }
        if self.revoked.contains(&ticket.id) {
            return Err(denied(LoginFailure::Revoked, "the ticket was revoked"));
        }
        let pairs = pairs(query);
        if !ticket.links.iter().any(|link| link.opens(path, &pairs)) {
            return Err(denied(
                LoginFailure::TicketScope,
                "the ticket does not open this address, with these parameters and times",
            ));
        }
        let tenant = Tenant::new(&ticket.tenant).map_err(|_| wrong())?;
        let allow = Allow { read: !ticket.write, write: ticket.write, admin: false, vend: false };
        Ok(Grant { name: format!("ticket {} of {}", ticket.id, ticket.by), tenant: Some(tenant), allow })
    }

    /// The ticket, if one of the keys has signed it.
    fn signed(&self, text: &str) -> Option<Ticket> {
        let text = text.strip_prefix(PREFIX).filter(|text| text.len() <= TICKET_BYTES_MAX)?;
        let (body, tag) = text.split_once('.')?;
        let tag = BASE64_URL_SAFE_NO_PAD.decode(tag).ok()?;
        // Any of the keys may have signed it: nothing is parsed before one verifies.
        let key = self.keys.iter().find(|key| hmac::verify(&key.key, body.as_bytes(), &tag).is_ok())?;
        let ticket: Ticket = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(body).ok()?).ok()?;
        (ticket.key == key.name).then_some(ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_000;

    fn tickets(keys: &[(&str, u8)]) -> Tickets {
        let key = |(name, byte): &(&str, u8)| Key::new((*name).to_owned(), &[*byte; 32]).unwrap();
        Tickets { keys: keys.iter().map(key).collect(), revoked: BTreeSet::new() }
    }

    fn sign(tickets: &Tickets, links: &[&str]) -> String {
        let links: Vec<String> = links.iter().map(ToString::to_string).collect();
        let tenant = Tenant::new("a").unwrap();
        let wanted =
            TicketRequest { links: &links, tenant: &tenant, write: false, expires: WallMs(NOW + 1_000), by: "amy" };
        tickets.sign("id1".into(), &wanted).unwrap().1
    }

    #[test]
    fn a_ticket_opens_its_addresses_and_nothing_else() {
        let tickets = tickets(&[("k1", 1)]);
        let text = sign(
            &tickets,
            &["/v1/logs?query=error&match=log%7Bjob%3D%22a%22%7D&start=1000&end=2000", "/v1/cells?match[]=x"],
        );
        let check =
            |path: &str, query: &str| tickets.check(&text, WallMs(NOW), path, query).map_err(|denied| denied.why);
        let grant =
            check("/v1/logs", "match=log{job%3D\"a\"}&query=error&start=1000&end=2000&limit=5&ticket=x").unwrap();
        assert_eq!(
            (grant.tenant.unwrap().as_str(), grant.allow.words(), &*grant.name),
            ("a", vec!["read"], "ticket id1 of amy")
        );
        let exact = "match=log{job%3D\"a\"}&query=error";
        assert!(check("/v1/logs", &format!("{exact}&start=1500&end=1600")).is_ok());
        assert!(check("/v1/cells", "match[]=x&start=0&end=9999999999").is_ok());
        for (path, query) in [
            ("/v1/logs", "query=error&start=1000&end=2000".to_owned()),
            ("/v1/logs", "match=log&query=error&start=1000&end=2000".to_owned()),
            ("/v1/logs", format!("{exact}&query=secret&start=1000&end=2000")),
            ("/v1/logs", format!("{exact}&match=log&start=1000&end=2000")),
            ("/v1/logs", format!("{exact}&start=999&end=2000")),
            ("/v1/logs", format!("{exact}&start=1000&end=2001")),
            ("/v1/logs", format!("{exact}&start=1000&end=2000&start=0")),
            ("/v1/logs", format!("{exact}&start=x&end=2000")),
            ("/v1/logs", exact.to_owned()),
            ("/v1/logs", format!("{exact}&end=2000")),
            ("/v1/logs/columns", format!("{exact}&start=1000&end=2000")),
            ("/v1/cells", "match[]=y".to_owned()),
            ("/v1/cells", String::new()),
            ("/v1/status", String::new()),
        ] {
            assert_eq!(check(path, &query), Err(LoginFailure::TicketScope), "{path}?{query}");
        }
    }

    #[test]
    fn what_is_forged_old_or_revoked_opens_nothing() {
        let mut signed_by = tickets(&[("k1", 1)]);
        let text = sign(&signed_by, &["/v1/cells?match[]=x"]);
        let why = |tickets: &Tickets, text: &str, now| {
            tickets.check(text, WallMs(now), "/v1/cells", "match[]=x").err().map(|denied| denied.why)
        };
        assert_eq!(why(&signed_by, &text, NOW + 999), None);
        assert_eq!(why(&signed_by, &text, NOW + 1_000), Some(LoginFailure::Expired));
        // A newer key signs, and the one before still counts until it is taken out.
        assert_eq!(why(&tickets(&[("k2", 2), ("k1", 1)]), &text, NOW), None);
        assert_eq!(why(&tickets(&[("k2", 2)]), &text, NOW), Some(LoginFailure::Ticket));
        assert_eq!(why(&tickets(&[("k1", 2)]), &text, NOW), Some(LoginFailure::Ticket));
        assert_eq!(why(&tickets(&[]), &text, NOW), Some(LoginFailure::Ticket));
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            assert_eq!(why(&signed_by, &changed, NOW), Some(LoginFailure::Ticket), "{at}");
            assert_eq!(why(&signed_by, &text[..at], NOW), Some(LoginFailure::Ticket), "cut at {at}");
        }
        signed_by.revoked.insert("id1".into());
        assert_eq!(why(&signed_by, &text, NOW), Some(LoginFailure::Revoked));
    }

    #[test]
    fn what_cannot_be_vended_says_why() {
        let tickets = tickets(&[("k1", 1)]);
        let tenant = Tenant::default();
        let error = |links: &[&str]| {
            let links: Vec<String> = links.iter().map(ToString::to_string).collect();
            let wanted =
                TicketRequest { links: &links, tenant: &tenant, write: false, expires: WallMs(NOW), by: "amy" };
            tickets.sign("id".into(), &wanted).unwrap_err()
        };
        assert!(error(&[]).contains("1 to 8"));
        assert!(error(&["/a"; LINKS_MAX + 1]).contains("1 to 8"));
        assert!(error(&["http://other/v1/logs"]).contains("from its slash on"));
        assert!(error(&["/v1/../x"]).contains("from its slash on"));
        assert!(error(&["/v1/logs?start=soon"]).contains("no instant"));
        assert!(error(&[&format!("/v1/logs?query={}", "x".repeat(TICKET_BYTES_MAX))]).contains("share less"));
        assert!(Key::new("k".into(), &[0; KEY_BYTES_MIN - 1]).is_err());
    }
}
