//! A datagram becomes a notification, an answer, or a refusal with its reason.
//!
//! Format: versions 1 and 2c with a community, version 3 with the steps of RFC 3414, section 3.2. Of a trap the
//! sender's engine is authoritative, of an inform ours.
//! Invariants: a message of version 3 is taken at exactly the level that its user has: one that is not signed, in the
//! name of a user with a password, is refused. A report is sent to what asks for one alone.
//! Threads: any.
//! Limits: those of `engine` and `record`; a message is at most a datagram, and its parts do not nest.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use async_snmp::ber::Decoder;
use async_snmp::message::{CommunityMessage, CommunityPdu, RawMsgData, RawV3Message, ScopedPdu, SecurityLevel};
use async_snmp::v3::auth::verify_message;
use async_snmp::v3::{DerivedKeys, SaltCounter, UsmSecurityParams, report_oids, validate_engine_id};
use async_snmp::{
    Community, DecodeConfig, MAX_UDP_PAYLOAD, Oid, Pdu, PduType, ResponsePdu, UsmConfig, Value, VarBind, Version,
};
use bytes::Bytes;
use ogive_protocol::notification::Notification;

use crate::access::Access;
use crate::engine::{Engine, Senders};
use crate::record;
use crate::refusal::Refusal;
use crate::sealed::{Seal, sealed};

/// Encodings that break the rules are refused, not guessed.
const STRICT: DecodeConfig = DecodeConfig::STRICT;

/// What a datagram is.
#[derive(Debug)]
pub enum Received {
    /// A notification that nobody answers.
    Trap(Notification),
    /// One that is answered once it is durable.
    Inform(Box<Inform>),
    /// A question about our engine or its time; this is the answer.
    Question(Bytes),
    /// No notification, and what is sent back, if anything.
    Refused(Refusal, Option<Bytes>),
}

/// A notification whose sender waits for an answer.
#[derive(Debug)]
pub struct Inform {
    /// What it says.
    pub notification: Notification,
    reply: Reply,
}

/// What an answer is made of.
#[derive(Debug)]
struct Reply {
    request: i32,
    objects: Vec<VarBind>,
    login: Login,
}

#[derive(Debug)]
enum Login {
    Community(Community),
    User(Box<UserReply>),
}

#[derive(Debug)]
struct UserReply {
    envelope: Envelope,
    keys: DerivedKeys,
    context_engine: Bytes,
    context: Bytes,
}

/// What stands around the objects of a message of version 3.
#[derive(Debug)]
struct Envelope {
    id: i32,
    is_reportable: bool,
    level: SecurityLevel,
    /// What its sender takes.
    bytes_max: usize,
    params: UsmSecurityParams,
}

impl Inform {
    /// What it is known by when it comes again: the same number from the same sender and `port` with the same contents.
    #[must_use]
    pub fn identity(&self, port: u16) -> Vec<u8> {
        format!("{} {port} {} {}", self.notification.sender, self.reply.request, self.notification.text()).into_bytes()
    }
}

/// Failures that a report names, each with a counter.
#[derive(Clone, Copy, Debug)]
enum Failure {
    Engine,
    User,
    Level,
    Digest,
    Time,
    Decryption,
}

impl Failure {
    const COUNT: usize = 6;

    fn refusal(self) -> Refusal {
        match self {
            Self::Engine => Refusal::Engine,
            Self::User => Refusal::User,
            Self::Level => Refusal::Level,
            Self::Digest => Refusal::Digest,
            Self::Time => Refusal::Time,
            Self::Decryption => Refusal::Decryption,
        }
    }

    fn oid(self) -> Oid {
        match self {
            Self::Engine => report_oids::unknown_engine_ids(),
            Self::User => report_oids::unknown_user_names(),
            Self::Level => report_oids::unsupported_sec_levels(),
            Self::Digest => report_oids::wrong_digests(),
            Self::Time => report_oids::not_in_time_windows(),
            Self::Decryption => report_oids::decryption_errors(),
        }
    }
}

/// See the module.
pub struct Receiver {
    access: Access,
    engine: Engine,
    senders: Mutex<Senders>,
    salts: SaltCounter,
    failures: [AtomicU32; Failure::COUNT],
}

impl Receiver {
    /// For those whom `access` admits. `engine_id` is ours where `access` says none, and `started_s` is in seconds
    /// since 1970.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new(access: Access, engine_id: &[u8], started_s: i64) -> Result<Self, String> {
        let id = access.engine_id().cloned().unwrap_or_else(|| Bytes::copy_from_slice(engine_id));
        assert!(validate_engine_id(&id).is_ok(), "{id:?} is no engine");
        let salts = SaltCounter::new().map_err(|error| error.to_string())?;
        let (engine, senders) = (Engine::new(id, started_s), Mutex::default());
        Ok(Self { access, engine, senders, salts, failures: Default::default() })
    }

    /// Our engine, in hexadecimal.
    #[must_use]
    pub fn engine(&self) -> String {
        ogive_text::hex::write(&self.engine.id)
    }

    /// Takes a datagram that came `up_s` seconds after the start.
    pub fn receive(&self, datagram: Bytes, sender: IpAddr, up_s: u64) -> Received {
        let received = match version(&datagram) {
            Some(0 | 1) => self.by_community(datagram, sender),
            Some(3) => self.by_user(datagram, sender, up_s),
            _ => Err(Refusal::Undecodable),
        };
        received.unwrap_or_else(|refusal| Received::Refused(refusal, None))
    }

    fn by_community(&self, datagram: Bytes, sender: IpAddr) -> Result<Received, Refusal> {
        let message = CommunityMessage::decode(datagram, STRICT).map_err(|_| Refusal::Undecodable)?.value;
        if !self.access.admits(message.community().as_bytes()) {
            return Err(Refusal::Community);
        }
        let (_, community, pdu) = message.into_parts();
        let pdu = match pdu {
            CommunityPdu::TrapV1(trap) => return record::from_v1(&trap, sender).map(Received::Trap),
            CommunityPdu::Standard(pdu) => pdu,
        };
        let kind = kind(&pdu)?;
        let notification = record::from_v2(pdu.varbinds(), sender)?;
        if kind == Kind::Trap {
            return Ok(Received::Trap(notification));
        }
        let (request, _, objects) = pdu.into_raw_parts();
        let login = Login::Community(community);
        Ok(Received::Inform(Box::new(Inform { notification, reply: Reply { request, objects, login } })))
    }

    fn by_user(&self, datagram: Bytes, sender: IpAddr, up_s: u64) -> Result<Received, Refusal> {
        let undecodable = |_| Refusal::Undecodable;
        let message = RawV3Message::decode(datagram.clone(), STRICT).map_err(undecodable)?.value;
        let params = message.security_params().clone();
        let head = message.global_data();
        let envelope = Envelope {
            id: message.msg_id(),
            is_reportable: head.msg_flags().reportable,
            level: message.security_level(),
            bytes_max: head.msg_max_size().as_usize(),
            params: UsmSecurityParams::decode(params, STRICT).map_err(undecodable)?.value,
        };
        let failed = |failure: Failure| Ok(self.refused(&envelope, failure, up_s));
        let user = match self.known(&envelope) {
            Ok(user) => user,
            // A sender that does not know our engine yet.
            Err(Failure::Engine) if envelope.is_reportable && envelope.params.engine_id().is_empty() => {
                let report = self.report(&envelope, Failure::Engine, Seal::Open, up_s);
                return report.map(Received::Question).ok_or(Refusal::Engine);
            }
            Err(failure) => return failed(failure),
        };
        let Ok(keys) = user.derive_keys(envelope.params.engine_id()) else { return failed(Failure::Digest) };
        if !is_signed(&datagram, &envelope, &keys) {
            return failed(Failure::Digest);
        }
        if !self.is_timely(&envelope, up_s) {
            return Ok(self.untimely(&envelope, &keys, up_s));
        }
        let Some(scoped) = opened(message.msg_data(), &envelope, &keys) else {
            return if envelope.level.requires_priv() {
                failed(Failure::Decryption)
            } else {
                Err(Refusal::Undecodable)
            };
        };
        let kind = kind(&scoped.pdu)?;
        if kind == Kind::Inform && !self.is_ours(&envelope) {
            return failed(Failure::Engine);
        }
        let mut notification = record::from_v2(scoped.pdu.varbinds(), sender)?;
        notification.version = "3";
        notification.user = Some(String::from_utf8_lossy(envelope.params.username()).into_owned());
        notification.context = String::from_utf8_lossy(&scoped.context_name).into_owned();
        if kind == Kind::Trap {
            return Ok(Received::Trap(notification));
        }
        let (request, _, objects) = scoped.pdu.into_raw_parts();
        let (context_engine, context) = (scoped.context_engine_id, scoped.context_name);
        let login = Login::User(Box::new(UserReply { envelope, keys, context_engine, context }));
        Ok(Received::Inform(Box::new(Inform { notification, reply: Reply { request, objects, login } })))
    }

    /// The user of a message; steps 3 to 5.
    fn known(&self, envelope: &Envelope) -> Result<&UsmConfig, Failure> {
        if validate_engine_id(envelope.params.engine_id()).is_err() {
            return Err(Failure::Engine);
        }
        let user = self.access.user(envelope.params.username()).ok_or(Failure::User)?;
        if user.security_level() == envelope.level { Ok(user) } else { Err(Failure::Level) }
    }

    fn is_ours(&self, envelope: &Envelope) -> bool {
        *envelope.params.engine_id() == self.engine.id
    }

    /// Step 7. What is not signed has no time.
    fn is_timely(&self, envelope: &Envelope, up_s: u64) -> bool {
        let params = &envelope.params;
        let (boots, time) = (params.engine_boots(), params.engine_time());
        if !envelope.level.requires_auth() {
            true
        } else if self.is_ours(envelope) {
            self.engine.is_timely(boots, time, up_s)
        } else {
            let mut senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
            senders.is_timely(params.engine_id(), params.username(), boots, time, up_s)
        }
    }

    /// Of a signed message whose time is wrong. A report says ours, and is signed, to those who send to our engine.
    fn untimely(&self, envelope: &Envelope, keys: &DerivedKeys, up_s: u64) -> Received {
        let seal = keys.auth_key.as_ref().map_or(Seal::Open, Seal::Signed);
        let report = if self.is_ours(envelope) { self.report(envelope, Failure::Time, seal, up_s) } else { None };
        let asks = (envelope.params.engine_boots(), envelope.params.engine_time()) == (0, 0);
        match report {
            Some(report) if asks => Received::Question(report),
            report => Received::Refused(Refusal::Time, report),
        }
    }

    fn refused(&self, envelope: &Envelope, failure: Failure, up_s: u64) -> Received {
        Received::Refused(failure.refusal(), self.report(envelope, failure, Seal::Open, up_s))
    }

    /// What a sender that asks for reports gets (RFC 3412, section 7.1, step 3).
    fn report(&self, envelope: &Envelope, failure: Failure, seal: Seal<'_>, up_s: u64) -> Option<Bytes> {
        // ORDERING: Relaxed; a counter that stands alone.
        let count = self.failures[failure as usize].fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        if !envelope.is_reportable {
            return None;
        }
        let (boots, time) = self.engine.now(up_s);
        let (id, user) = (self.engine.id.clone(), envelope.params.username().clone());
        let pdu = ResponsePdu::report(0, vec![VarBind::new(failure.oid(), Value::Counter32(count))]).ok()?;
        let params = UsmSecurityParams::new(id.clone(), boots, time, user).ok()?;
        sealed(envelope.id, false, params, ScopedPdu::new(id, Bytes::new(), pdu), seal)
    }

    /// The answer to an inform that is durable; None when none can be written.
    #[must_use]
    pub fn answer(&self, inform: &Inform, up_s: u64) -> Option<Bytes> {
        let Reply { request, objects, login } = &inform.reply;
        let version = match login {
            Login::Community(_) => Version::V2c,
            Login::User(_) => Version::V3,
        };
        let success = |objects: Vec<VarBind>| ResponsePdu::success(version, *request, objects).ok();
        // Objects that nobody may send are left out.
        let whole = success(objects.clone()).or_else(|| success(Vec::new()))?;
        let limit = login.bytes_max();
        let fits = |answer: &Bytes| answer.len() <= limit;
        self.written(login, whole, up_s).filter(fits).or_else(|| {
            let short = ResponsePdu::too_big(version, *request, Vec::new()).ok()?;
            self.written(login, short, up_s).filter(fits)
        })
    }

    fn written(&self, login: &Login, pdu: ResponsePdu, up_s: u64) -> Option<Bytes> {
        let reply = match login {
            Login::Community(community) => {
                return CommunityMessage::v2c(community.clone(), pdu).ok()?.encode().ok();
            }
            Login::User(reply) => reply,
        };
        let UserReply { envelope, keys, context_engine, context } = &**reply;
        let seal = match (envelope.level, &keys.auth_key, &keys.priv_key) {
            (SecurityLevel::NoAuthNoPriv, ..) => Seal::Open,
            (SecurityLevel::AuthNoPriv, Some(key), _) => Seal::Signed(key),
            (SecurityLevel::AuthPriv, Some(key), Some(private)) => Seal::Sealed(key, private, &self.salts),
            (level, ..) => unreachable!("a message of the level {level:?} was opened without keys"),
        };
        let (boots, time) = self.engine.now(up_s);
        let user = envelope.params.username().clone();
        let params = UsmSecurityParams::new(self.engine.id.clone(), boots, time, user).ok()?;
        sealed(envelope.id, false, params, ScopedPdu::new(context_engine.clone(), context.clone(), pdu), seal)
    }
}

impl Login {
    /// The longest answer.
    fn bytes_max(&self) -> usize {
        match self {
            Self::Community(_) => MAX_UDP_PAYLOAD,
            Self::User(reply) => reply.envelope.bytes_max.min(MAX_UDP_PAYLOAD),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Trap,
    Inform,
}

fn kind(pdu: &Pdu) -> Result<Kind, Refusal> {
    match pdu.pdu_type() {
        PduType::TrapV2 => Ok(Kind::Trap),
        PduType::InformRequest => Ok(Kind::Inform),
        _ => Err(Refusal::Kind),
    }
}

/// The number of the version, which stands first in every message.
fn version(datagram: &Bytes) -> Option<i32> {
    let mut message = Decoder::new(datagram.clone()).with_decode_config(STRICT);
    message.read_sequence().ok()?.read_integer().ok()
}

/// Step 6.
fn is_signed(datagram: &[u8], envelope: &Envelope, keys: &DerivedKeys) -> bool {
    if !envelope.level.requires_auth() {
        return true;
    }
    let (Some(key), Some((at, length))) = (&keys.auth_key, UsmSecurityParams::find_auth_params_offset(datagram)) else {
        return false;
    };
    verify_message(key, datagram, at, length).unwrap_or(false)
}

/// The objects of a message; None when they make no sense.
fn opened(data: &RawMsgData, envelope: &Envelope, keys: &DerivedKeys) -> Option<ScopedPdu> {
    let plain = match data {
        RawMsgData::Plaintext { data, .. } => data.clone(),
        RawMsgData::Encrypted(encrypted) => {
            let params = &envelope.params;
            let (boots, time) = (params.engine_boots(), params.engine_time());
            keys.priv_key.as_ref()?.decrypt(encrypted, boots, time, params.priv_params()).ok()?
        }
    };
    ScopedPdu::decode(&mut Decoder::new(plain).with_decode_config(STRICT)).ok()
}

#[cfg(test)]
mod tests;
