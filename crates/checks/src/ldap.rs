//! LDAP: a bind, anonymous or with a password, a search if configured, and the unbind.
//!
//! - `messages`: requests and answers as bytes; `session`: their exchange; `filter`: filters of searches; `search`:
//!   what is searched for.
//!
//! Format: RFC 4511. Phases starttls, bind and search; `ogive_check_ldap_result` is the code of the last result,
//! `ogive_check_ldap_entries` and `ogive_check_ldap_references` are what a search found.
//! Why not a client library: ldap3 opens connections and TLS by itself, so that neither their phases nor certificates
//! could be measured. BER is read by async-snmp, which the kind snmp needs anyway.
//! Invariants: bytes that arrive before TLS is established are never taken for bytes that arrived after it. A name is
//! never sent with an empty password: servers take that for an anonymous bind and report success (RFC 4513, 5.1.2).
//! Limits: [`USER_BYTES_MAX`], those of `messages` and of `search`.
//! Failure: a referral is reported, not followed.

mod filter;
mod messages;
mod search;
mod session;

use std::time::Duration;

use super::account::Account;
use super::greeting::Encryption;
use super::net::Network;
#[cfg(any(test, feature = "fuzz"))]
use super::net::Stream;
use super::raw::Raw;
use super::run::{Failure, Reason, Run};
use super::target::{HostAndPort, place, target, trust};
use messages::BIND_RESPONSE;
use search::Search;
use session::Session;

#[cfg(any(test, feature = "fuzz"))]
pub(super) use filter::Filter;

/// 4 KiB of a name: the deepest ones have some hundred bytes.
const USER_BYTES_MAX: usize = 4 << 10;

/// A directory server and what is asked of it.
#[derive(Clone, Debug)]
pub(super) struct Ldap {
    place: HostAndPort,
    encryption: Encryption,
    /// Who binds: its name is that of an entry (a DN), or what else the server takes for one. None: anonymous.
    account: Option<Account>,
    search: Option<Search>,
}

impl Ldap {
    /// What a table of this kind says.
    pub(super) fn from_raw(raw: &mut Raw) -> Result<Self, String> {
        let (place, is_tls) = address(&target(raw)?)?;
        let encryption = match (is_tls, raw.starttls.take().unwrap_or(false)) {
            (true, true) => return Err("starttls begins without TLS: write ldap:// in place of ldaps://".into()),
            (true, false) => Encryption::Implicit(trust(raw)),
            (false, true) => Encryption::StartTls(trust(raw)),
            (false, false) => Encryption::None,
        };
        let account = account(raw)?;
        let search = match raw.search.take() {
            Some(table) => Some(Search::from_table(table, raw).map_err(|sentence| format!("search: {sentence}"))?),
            None => None,
        };
        Ok(Self { place, encryption, account, search })
    }
}

fn account(raw: &mut Raw) -> Result<Option<Account>, String> {
    raw.user = raw.user.take().filter(|user| !user.is_empty());
    let has_password = raw.password.is_some() || raw.password_file.is_some();
    match &raw.user {
        Some(user) if user.len() > USER_BYTES_MAX => Err(format!("user has more than {USER_BYTES_MAX} bytes")),
        Some(_) if !has_password => Err("password_file is missing: a name without a password binds anonymously".into()),
        None if has_password => Err("user is missing: the name that binds with the password".into()),
        _ => Account::from_raw(raw),
    }
}

/// `ldap://HOST[:389]` or `ldaps://HOST[:636]`; whether it is the latter.
fn address(text: &str) -> Result<(HostAndPort, bool), String> {
    let (rest, is_tls) = match text.split_once("://") {
        Some(("ldap", rest)) => (rest, false),
        Some(("ldaps", rest)) => (rest, true),
        _ => return Err("target is no ldap or ldaps address".into()),
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains('@') {
        return Err("a name does not belong in the target; write it as user".into());
    }
    if rest.contains(['/', '?']) {
        return Err("what is searched for does not belong in the target; write a [check.search] table".into());
    }
    Ok((place(rest, Some(if is_tls { 636 } else { 389 }))?, is_tls))
}

pub(super) async fn run(network: &Network, run: &mut Run, check: &Ldap, timeout: Duration) -> Result<(), Failure> {
    let implicit = if let Encryption::Implicit(trust) = &check.encryption { Some(trust) } else { None };
    let mut session = Session::new(network.open(run, &check.place, implicit).await?);
    if let Encryption::StartTls(trust) = &check.encryption {
        run.phase("starttls");
        let stream = session.start_tls().await?;
        session = Session::new(network.tls(run, stream, &check.place.host, trust).await?);
    }
    run.phase("bind");
    let password = match &check.account {
        Some(account) => network.words(&account.password).await?,
        None => String::new(),
    };
    if check.account.is_some() && password.is_empty() {
        return Err(Failure::new(Reason::Local, "the password is empty: the bind would be anonymous"));
    }
    let ended = exchange(&mut session, run, check, &password, timeout).await;
    if let Some(code) = session.code {
        run.gauge("ogive_check_ldap_result", "", f64::from(code));
    }
    if ended.as_ref().err().is_none_or(|failure| failure.reason.is_answer()) {
        // Whether it hears that is its own affair.
        let _ = session.send(&messages::unbind()).await;
    }
    ended
}

/// Binds, and searches if that is asked for.
async fn exchange(
    session: &mut Session,
    run: &mut Run,
    check: &Ldap,
    password: &str,
    timeout: Duration,
) -> Result<(), Failure> {
    let user = check.account.as_ref().map_or("", |account| account.user.as_str());
    assert_eq!(user.is_empty(), password.is_empty(), "a name is sent with a password");
    session.send(&messages::bind(user, password)).await?;
    session.outcome(BIND_RESPONSE).await?.judged("the bind fails")?;
    let Some(search) = &check.search else { return Ok(()) };
    run.phase("search");
    search::run(session, run, search, timeout).await
}

/// StartTLS, and a bind and a search behind it, with a server that says what it says.
#[cfg(any(test, feature = "fuzz"))]
pub(super) async fn replay(run: &mut Run, check: &Ldap, stream: Box<dyn Stream>) -> Result<(), Failure> {
    let stream = match check.encryption {
        Encryption::StartTls(_) => Session::new(stream).start_tls().await?,
        _ => stream,
    };
    let password = if check.account.is_some() { "pencil" } else { "" };
    exchange(&mut Session::new(stream), run, check, password, Duration::from_secs(1)).await
}

#[cfg(test)]
mod tests;
