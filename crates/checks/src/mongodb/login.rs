//! Login to MongoDB: SCRAM with SHA-256, or with SHA-1 where the server or the user knows no other.
//!
//! Format: MongoDB's specification "Driver Authentication": `saslSupportedMechs` of `hello`, then `saslStart` and
//! `saslContinue`. With SHA-1 the password is the MD5 of user and password in hexadecimal digits.
//! Invariants: the password itself is never sent, and a server that does not know it is not believed.
//! Limits: [`ITERATIONS_MIN`], those of `scram`.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bson::spec::BinarySubtype;
use bson::{Binary, RawDocumentBuf, rawdoc};
use md5::{Digest as _, Md5};
use ogive_text::hex;
use serde_json::Value;

use super::messages::{Reply, Session};
use crate::readings::text_of;
use crate::run::{Failure, Reason};
use crate::scram::{Hash, Scram};

/// 4,096 rounds of a password's hash: the specification has clients refuse fewer.
const ITERATIONS_MIN: u32 = 4_096;

/// Who logs in.
pub(crate) struct Account<'a> {
    pub(crate) user: &'a str,
    pub(crate) password: &'a str,
    /// The database that the user belongs to.
    pub(crate) database: &'a str,
}

/// Proves who asks, with a nonce that nobody knows before.
pub(crate) async fn log_in(session: &mut Session, account: &Account<'_>, nonce: &str) -> Result<(), Failure> {
    let Account { user, password, database } = account;
    let hash = hash(session, account).await?;
    let scram = match hash {
        Hash::Sha256 => Scram::new(hash, user, password, nonce),
        Hash::Sha1 => Scram::new(hash, user, &hashed(user, password), nonce),
    };
    let mut scram = scram.with_iterations_min(ITERATIONS_MIN);
    let start = rawdoc! {
        "saslStart": 1_i32,
        "mechanism": hash.mechanism(),
        "payload": binary(&scram.first()),
        "options": {"skipEmptyExchange": true},
    };
    let first = Step::from_reply(session.ask(database, start).await?)?;
    let proof = scram.answer(&first.payload)?;
    let second = Step::from_reply(session.ask(database, first.answer(&proof)).await?)?;
    scram.check(&second.payload)?;
    if second.is_last {
        return Ok(());
    }
    // Servers that do not know the option want one more exchange of nothing.
    match Step::from_reply(session.ask(database, second.answer("")).await?)? {
        Step { is_last: true, .. } => Ok(()),
        _ => Err(strange()),
    }
}

/// The best hash that both sides know for a user. A server that does not say is older than SHA-256, or does not know
/// the user, which it then says at the login.
async fn hash(session: &mut Session, account: &Account<'_>) -> Result<Hash, Failure> {
    let Account { user, database, .. } = account;
    let full_name = format!("{database}.{user}");
    let hello = rawdoc! {"hello": 1_i32, "saslSupportedMechs": full_name.as_str()};
    let mut reply = session.ask(database, hello).await?;
    if reply.is_unknown() {
        let hello = rawdoc! {"isMaster": 1_i32, "saslSupportedMechs": full_name.as_str()};
        reply = session.ask(database, hello).await?;
    }
    let answer = reply.judged_at_login()?;
    let Some(known) = answer.get("saslSupportedMechs").and_then(Value::as_array) else { return Ok(Hash::Sha1) };
    let is_known = |hash: &Hash| known.iter().any(|name| name.as_str() == Some(hash.mechanism()));
    [Hash::Sha256, Hash::Sha1]
        .into_iter()
        .find(is_known)
        .ok_or_else(|| Failure::new(Reason::Login, "the server knows no login that this check knows"))
}

/// The form of a password that servers keep for SHA-1.
fn hashed(user: &str, password: &str) -> String {
    hex::write(&Md5::digest(format!("{user}:mongo:{password}").as_bytes()))
}

fn binary(text: &str) -> Binary {
    Binary { subtype: BinarySubtype::Generic, bytes: text.as_bytes().to_vec() }
}

/// What a server says in a login.
struct Step {
    conversation: i32,
    payload: String,
    is_last: bool,
}

impl Step {
    fn from_reply(reply: Reply) -> Result<Self, Failure> {
        let answer = reply.judged_at_login()?;
        let conversation = answer.get("conversationId").and_then(Value::as_i64);
        let conversation = conversation.and_then(|id| i32::try_from(id).ok()).ok_or_else(strange)?;
        let payload = BASE64_STANDARD.decode(text_of(&answer, "payload")).map_err(|_| strange())?;
        let payload = String::from_utf8(payload).map_err(|_| strange())?;
        let is_last = answer.get("done").and_then(Value::as_bool).ok_or_else(strange)?;
        Ok(Self { conversation, payload, is_last })
    }

    /// The command that answers it.
    fn answer(&self, payload: &str) -> RawDocumentBuf {
        rawdoc! {"saslContinue": 1_i32, "conversationId": self.conversation, "payload": binary(payload)}
    }
}

fn strange() -> Failure {
    Failure::new(Reason::Protocol, "the login is none of MongoDB's")
}
