//! The file of the web configuration: Prometheus's `web.config` in YAML, and Ogive's lists of tokens and grants.
//!
//! Format: docs/web.md. Paths in it are relative to its directory.
//! Limits: [`FILE_BYTES_MAX`] for it and each file that it names, [`ENTRIES_MAX`] users and as many tokens,
//! [`COST_MAX`] for a hash.
//! Failure: a key that is not known, a value out of its range and a file that cannot be read are errors with their
//! place.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use ogive_model::{Ms, Tenant, WallMs};
use ring::digest::{SHA256, digest};
use serde::Deserialize;

use super::files::{ReadFile, beside, read};
use super::login::{Allow, Grant, Rules, Token, User};
use super::protection::{Bounds, Protection};
use super::tickets::{KEYS_MAX, Key, Tickets};
use super::tls;
use ogive_text::calendar::instant_ms;

/// The contents of a configuration.
#[derive(Default)]
pub(super) struct Current {
    pub(super) rules: Arc<Rules>,
    pub(super) tickets: Tickets,
    pub(super) tls: Option<Arc<rustls::ServerConfig>>,
    pub(super) headers: Arc<HeaderMap>,
    pub(super) protection: Protection,
    /// The fingerprint of its files, to detect changes.
    pub(super) made_of: [u8; 32],
}

/// 1,000 users and 1,000 tokens: each request compares all tokens, 20 ns each.
const ENTRIES_MAX: usize = 1_000;

/// 10,000 tickets that are revoked one by one: 1 MB.
const REVOKED_MAX: usize = 10_000;

/// bcrypt's cost 15 occupies a processor for 2 s; with one more, a few requests could block the server.
const COST_MAX: u32 = 15;

/// As it is written; every part is optional.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    tls_server_config: Option<tls::Section>,
    http_server_config: Option<HttpSection>,
    basic_auth_users: Option<BTreeMap<String, String>>,
    basic_auth_grants: Option<BTreeMap<String, GrantEntry>>,
    tokens: Option<Vec<TokenEntry>>,
    tickets: Option<TicketSection>,
}

/// How tickets are signed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TicketSection {
    keys: Vec<KeyEntry>,
    revoked: Option<Vec<String>>,
}

/// A key; the first signs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyEntry {
    name: String,
    secret_file: PathBuf,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct HttpSection {
    http2: Option<bool>,
    headers: Option<BTreeMap<String, String>>,
}

/// The permissions of a user of `basic_auth_users`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GrantEntry {
    tenant: Option<String>,
    allow: Option<Vec<String>>,
}

/// An entry in the list of tokens.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenEntry {
    name: String,
    sha256: String,
    tenant: Option<String>,
    allow: Vec<String>,
    expires: Option<String>,
}

/// The hash that identifies a token, in its written form.
pub fn token_hash(token: &str) -> String {
    ogive_text::hex::write(digest(&SHA256, token.as_bytes()).as_ref())
}

fn parse(path: &Path, bytes: &[u8]) -> anyhow::Result<File> {
    let text = std::str::from_utf8(bytes).with_context(|| format!("{} is not UTF-8", path.display()))?;
    if text.trim().is_empty() {
        return Ok(File::default());
    }
    serde_saphyr::from_str(text).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
}

/// A fingerprint of the file and of those that it names: equal bytes have equal fingerprints, and unreadable files
/// have one too.
pub(super) fn fingerprint(path: &Path, read_file: ReadFile) -> [u8; 32] {
    let mut context = ring::digest::Context::new(&SHA256);
    let mut add = |bytes: &[u8]| {
        context.update(&(bytes.len() as u64).to_le_bytes());
        context.update(bytes);
    };
    let bytes = read(path, read_file).unwrap_or_default();
    add(&bytes);
    if let Ok(File { tls_server_config, tickets, .. }) = parse(path, &bytes) {
        let of_tls = tls_server_config.iter().flat_map(|section| section.files());
        let of_tickets = tickets.iter().flat_map(|section| &section.keys).map(|key| &*key.secret_file);
        for file in of_tls.map(|file| beside(path, file)).chain(of_tickets.map(|file| beside(path, file))) {
            add(&read(&file, read_file).unwrap_or_default());
        }
    }
    context.finish().as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// The protections of `file`.
fn protection(file: &File, bytes: &[u8]) -> Protection {
    let grants = file.basic_auth_grants.as_ref();
    let user = |name: &String| {
        let grant = grants.and_then(|grants| grants.get(name));
        let tenant = grant.is_some_and(|grant| grant.tenant.is_some());
        (name.clone(), Bounds { tenant, allow: grant.is_some_and(|grant| grant.allow.is_some()), expires: true })
    };
    let token = |entry: &TokenEntry| {
        let bounds = Bounds { tenant: entry.tenant.is_some(), allow: true, expires: entry.expires.is_some() };
        (entry.name.clone(), bounds)
    };
    let tls = file.tls_server_config.as_ref();
    Protection {
        whole: bytes.ends_with(b"\n"),
        tls: tls.is_some(),
        tls_limits: tls.map(tls::Section::limits).unwrap_or_default(),
        clients: tls.map(tls::Section::client_certificates).unwrap_or_default(),
        users: file.basic_auth_users.iter().flat_map(BTreeMap::keys).map(user).collect(),
        tokens: file.tokens.iter().flatten().map(token).collect(),
        revoked: file.tickets.iter().flat_map(|section| section.revoked.iter().flatten()).cloned().collect(),
    }
}

/// Reads and validates all of it.
pub(super) fn load(path: &Path, read_file: ReadFile) -> anyhow::Result<Current> {
    // Before reading: what changes meanwhile is then read again.
    let made_of = fingerprint(path, read_file);
    let bytes = read(path, read_file)?;
    let file = parse(path, &bytes)?;
    let protection = protection(&file, &bytes);
    let what = |what: &str| format!("{}: {what}", path.display());
    let http = file.http_server_config.unwrap_or_default();
    let tls = match &file.tls_server_config {
        None => None,
        Some(section) => {
            let http2 = http.http2.unwrap_or(true);
            Some(section.server(path, read_file, http2).with_context(|| what("tls_server_config"))?)
        }
    };
    let headers = headers(http.headers.unwrap_or_default()).with_context(|| what("http_server_config"))?;
    let users = users(file.basic_auth_users.unwrap_or_default(), file.basic_auth_grants.unwrap_or_default());
    let rules = Rules {
        users: users.with_context(|| what("basic_auth_users"))?,
        tokens: tokens(file.tokens.unwrap_or_default()).with_context(|| what("tokens"))?,
    };
    let tickets =
        tickets(file.tickets, |file| read(&beside(path, file), read_file)).with_context(|| what("tickets"))?;
    Ok(Current { rules: Arc::new(rules), tickets, tls, headers: Arc::new(headers), protection, made_of })
}

fn tickets(section: Option<TicketSection>, read: impl Fn(&Path) -> anyhow::Result<Vec<u8>>) -> anyhow::Result<Tickets> {
    let Some(TicketSection { keys: entries, revoked }) = section else { return Ok(Tickets::default()) };
    let revoked = revoked.unwrap_or_default();
    ensure!((1..=KEYS_MAX).contains(&entries.len()), "name 1 to {KEYS_MAX} keys; the first signs");
    ensure!(revoked.len() <= REVOKED_MAX, "more than {REVOKED_MAX} are revoked; take out a key instead");
    let mut keys: Vec<Key> = Vec::new();
    for KeyEntry { name, secret_file } in entries {
        ensure!(!name.is_empty() && name.len() <= 64, "a key's name has 1 to 64 bytes");
        ensure!(keys.iter().all(|key| key.name() != name), "the key {name:?} is there twice");
        let secret = read(&secret_file)?;
        let key = Key::new(name, secret.trim_ascii()).map_err(anyhow::Error::msg);
        keys.push(key.with_context(|| format!("secret_file {}", secret_file.display()))?);
    }
    Ok(Tickets { keys, revoked: revoked.into_iter().collect() })
}

fn headers(given: BTreeMap<String, String>) -> anyhow::Result<HeaderMap> {
    /// The keys of Prometheus' format.
    const KNOWN: [&str; 5] = [
        "content-security-policy",
        "strict-transport-security",
        "x-content-type-options",
        "x-frame-options",
        "x-xss-protection",
    ];
    let mut out = HeaderMap::new();
    for (name, value) in given {
        let lower = name.to_ascii_lowercase();
        ensure!(KNOWN.contains(&&*lower), "the header {name:?} cannot be set; these can: {}", KNOWN.join(", "));
        let value = HeaderValue::from_str(&value).with_context(|| format!("the value of the header {name:?}"))?;
        out.insert(HeaderName::from_bytes(lower.as_bytes())?, value);
    }
    Ok(out)
}

fn tenant(name: Option<&str>) -> anyhow::Result<Option<Tenant>> {
    name.map(|name| Tenant::new(name).with_context(|| format!("the tenant {name:?}"))).transpose()
}

fn allow(words: &[String]) -> anyhow::Result<Allow> {
    Allow::parse(words.iter().map(String::as_str)).map_err(|error| anyhow::anyhow!("allow: {error}"))
}

fn users(hashes: BTreeMap<String, String>, mut grants: BTreeMap<String, GrantEntry>) -> anyhow::Result<Vec<User>> {
    ensure!(hashes.len() <= ENTRIES_MAX, "more than {ENTRIES_MAX} users");
    let mut out = Vec::new();
    for (name, hash) in hashes {
        ensure!(
            !name.is_empty() && !name.contains(':'),
            "the user {name:?}: a name has one character or more and no colon"
        );
        let parts = hash.parse::<bcrypt::HashParts>();
        let parts = parts.map_err(|_| {
            anyhow::anyhow!("the user {name:?} has no bcrypt hash; make one with `htpasswd -nB {name}`")
        })?;
        ensure!(parts.get_cost() <= COST_MAX, "the user {name:?}: a cost of {} is above {COST_MAX}", parts.get_cost());
        let grant = match grants.remove(&name) {
            None => Grant { name: name.clone(), tenant: None, allow: Allow::ALL },
            Some(entry) => {
                let place = || format!("the grant of {name:?}");
                let allow = entry.allow.as_deref().map_or(Ok(Allow::ALL), allow).with_context(place)?;
                let tenant = tenant(entry.tenant.as_deref()).with_context(place)?;
                Grant { name: name.clone(), tenant, allow }
            }
        };
        out.push(User { hash, grant });
    }
    if let Some(name) = grants.keys().next() {
        bail!("basic_auth_grants names {name:?}, who is not among basic_auth_users");
    }
    Ok(out)
}

fn tokens(entries: Vec<TokenEntry>) -> anyhow::Result<Vec<Token>> {
    ensure!(entries.len() <= ENTRIES_MAX, "more than {ENTRIES_MAX} tokens");
    let mut out: Vec<Token> = Vec::new();
    for entry in entries {
        let token = token(&entry).with_context(|| format!("the token {:?}", entry.name))?;
        let twice = out.iter().any(|other| other.grant.name == entry.name || other.sha256 == token.sha256);
        ensure!(!twice, "the token {:?} is there twice, by its name or its hash", entry.name);
        out.push(token);
    }
    Ok(out)
}

fn token(entry: &TokenEntry) -> anyhow::Result<Token> {
    ensure!(!entry.name.is_empty(), "a token needs a name, for messages");
    let sha256 = hash(&entry.sha256)
        .context("sha256 is the hash of the token, 64 hexadecimal digits; `ogive token new` prints it")?;
    let expires = match &entry.expires {
        None => None,
        // A date without a time means the end of that day.
        Some(text) if text.len() == 10 => {
            let day = instant_ms(&format!("{text}T00:00:00Z")).map(|ms| WallMs(ms) + Ms::from_secs(86_400));
            Some(day.with_context(|| format!("expires: {text:?} is no day"))?)
        }
        Some(text) => {
            let instant = text.parse::<f64>().is_err().then(|| instant_ms(text)).flatten().map(WallMs);
            Some(instant.with_context(|| format!("expires: {text:?} is not such as 2027-01-31T00:00:00Z"))?)
        }
    };
    let grant =
        Grant { name: entry.name.clone(), tenant: tenant(entry.tenant.as_deref())?, allow: allow(&entry.allow)? };
    Ok(Token { sha256, expires, grant })
}

fn hash(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut out = [0; 32];
    for (byte, pair) in out.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(out)
}
