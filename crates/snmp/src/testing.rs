//! Messages of agents, for tests.

use std::net::{IpAddr, Ipv4Addr};

use async_snmp::message::{CommunityMessage, ScopedPdu, SecurityLevel};
use async_snmp::v3::{SaltCounter, UsmSecurityParams};
use async_snmp::{NotificationPdu, Oid, UsmConfig, Value, VarBind, Version};
use bytes::Bytes;

use crate::access::Access;
use crate::sealed::{Seal, sealed};

pub(crate) const SENDER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// Ours, and that of an agent.
pub(crate) const ENGINE: &[u8] = b"\x80\0\0\0\x05receiver";
pub(crate) const AGENT: &[u8] = b"\x80\0\0\0\x05agent";

/// A user of every level, and the community `public`.
pub(crate) const ACCESS: &str = "communities = ['public']\n[[user]]\nuser = 'open'\n\
    [[user]]\nuser = 'signed'\nauthentication = 'sha256'\npassword = 'hunter2 hunter2'\n\
    [[user]]\nuser = 'sealed'\nauthentication = 'sha1'\npassword = 'hunter2 hunter2'\nprivacy = 'aes128'\n\
    privacy_password = '2retnuh 2retnuh'\n";

pub(crate) const USERS: [&str; 3] = ["open", "signed", "sealed"];

pub(crate) fn access(text: &str) -> Access {
    Access::parse(text, |_| Err(std::io::ErrorKind::NotFound.into())).unwrap()
}

/// The login of a user of `access`.
pub(crate) fn user<'a>(access: &'a Access, name: &str) -> &'a UsmConfig {
    access.user(&Bytes::copy_from_slice(name.as_bytes())).unwrap()
}

pub(crate) fn oid(text: &str) -> Oid {
    Oid::parse(text).unwrap()
}

pub(crate) fn object(name: &str, value: Value) -> VarBind {
    VarBind::new(oid(name), value)
}

/// linkDown of interface 3.
fn objects() -> (Oid, Vec<VarBind>) {
    (oid("1.3.6.1.6.3.1.1.5.3"), vec![object("1.3.6.1.2.1.2.2.1.1.3", Value::Integer(3))])
}

pub(crate) fn trap(version: Version, request: i32) -> NotificationPdu {
    let (name, objects) = objects();
    NotificationPdu::trap_v2(version, request, 12_345, &name, objects).unwrap()
}

pub(crate) fn inform(version: Version, request: i32) -> NotificationPdu {
    let (name, objects) = objects();
    NotificationPdu::inform(version, request, 12_345, &name, objects).unwrap()
}

pub(crate) fn by_community(community: &str, pdu: NotificationPdu) -> Bytes {
    CommunityMessage::v2c(community, pdu).unwrap().encode().unwrap()
}

/// What stands around a notification of version 3.
#[derive(Clone, Copy)]
pub(crate) struct Letter<'a> {
    pub(crate) id: i32,
    pub(crate) engine: &'a [u8],
    pub(crate) boots: u32,
    pub(crate) time: u32,
    pub(crate) is_reportable: bool,
}

impl Letter<'_> {
    /// The message of a user, at its level.
    pub(crate) fn message(self, user: &UsmConfig, pdu: NotificationPdu) -> Bytes {
        let keys = user.derive_keys(self.engine).unwrap();
        let salts = SaltCounter::new().unwrap();
        let seal = match user.security_level() {
            SecurityLevel::NoAuthNoPriv => Seal::Open,
            SecurityLevel::AuthNoPriv => Seal::Signed(keys.auth_key.as_ref().unwrap()),
            SecurityLevel::AuthPriv => {
                Seal::Sealed(keys.auth_key.as_ref().unwrap(), keys.priv_key.as_ref().unwrap(), &salts)
            }
        };
        let engine = Bytes::copy_from_slice(self.engine);
        let params = UsmSecurityParams::new(engine.clone(), self.boots, self.time, user.username().clone()).unwrap();
        sealed(self.id, self.is_reportable, params, ScopedPdu::new(engine, Bytes::new(), pdu), seal).unwrap()
    }
}
