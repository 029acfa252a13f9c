//! Messages of SNMP v3 that are sent: signed and encrypted as their level says.

use async_snmp::UDP_RECEIVE_LIMITS;
use async_snmp::message::{MsgFlags, MsgGlobalData, ScopedPdu, SecurityLevel, V3Message};
use async_snmp::v3::auth::authenticate_message;
use async_snmp::v3::{LocalizedKey, PrivKey, SaltCounter, UsmSecurityParams};
use bytes::Bytes;

/// The keys of a message: none, one that signs, or both.
#[derive(Clone, Copy)]
pub(crate) enum Seal<'k> {
    Open,
    Signed(&'k LocalizedKey),
    Sealed(&'k LocalizedKey, &'k PrivKey, &'k SaltCounter),
}

impl<'k> Seal<'k> {
    fn level(self) -> SecurityLevel {
        match self {
            Self::Open => SecurityLevel::NoAuthNoPriv,
            Self::Signed(_) => SecurityLevel::AuthNoPriv,
            Self::Sealed(..) => SecurityLevel::AuthPriv,
        }
    }

    fn signs(self) -> Option<&'k LocalizedKey> {
        match self {
            Self::Open => None,
            Self::Signed(key) | Self::Sealed(key, ..) => Some(key),
        }
    }
}

/// The message `id`; None when the library refuses to write it.
pub(crate) fn sealed(
    id: i32,
    is_reportable: bool,
    mut params: UsmSecurityParams,
    scoped: ScopedPdu,
    seal: Seal<'_>,
) -> Option<Bytes> {
    let flags = MsgFlags::new(seal.level(), is_reportable);
    let head = MsgGlobalData::new(id, UDP_RECEIVE_LIMITS.advertised(), flags).ok()?;
    if let Some(key) = seal.signs() {
        params = params.with_auth_placeholder(key.mac_len()).ok()?;
    }
    let message = if let Seal::Sealed(_, key, salts) = seal {
        let plain = scoped.encode_to_bytes().ok()?;
        let (boots, time) = (params.engine_boots(), params.engine_time());
        let (encrypted, salt) = key.encrypt_aes(&plain, boots, time, salts).ok()?;
        params = params.with_priv_params(salt).ok()?;
        V3Message::new_with_opaque_encrypted_scoped_pdu(head, params.encode().ok()?, encrypted).ok()?
    } else {
        V3Message::new(head, params.encode().ok()?, scoped).ok()?
    };
    let plain = message.encode().ok()?;
    let Some(key) = seal.signs() else { return Some(plain) };
    let mut bytes = plain.to_vec();
    let (at, length) = UsmSecurityParams::find_auth_params_offset(&bytes)?;
    authenticate_message(key, &mut bytes, at, length).ok()?;
    Some(bytes.into())
}
