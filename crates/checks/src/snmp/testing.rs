//! Datagrams of an agent, for tests.

use async_snmp::message::CommunityMessage;
use async_snmp::{Oid, OutboundErrorStatus, ResponsePdu, Value, VarBind, Version};
use hyper::body::Bytes;

/// usmStatsUnknownUserNames and others of the kind, whose OIDs end with their number and .0.
pub(crate) const UNKNOWN_USER: u8 = 3;
pub(crate) const UNKNOWN_ENGINE: u8 = 4;
pub(crate) const WRONG_DIGEST: u8 = 5;

/// An engine of five bytes, which are the least.
const ENGINE: &[u8] = b"\x80\0\x1f\x88\x04";

/// An answer to the request `id` of SNMP v2c, with the community `public`.
pub(crate) fn answer(id: i32, values: &[(&str, Value)]) -> Bytes {
    let bind = |(oid, value): &(&str, Value)| VarBind::new(Oid::parse(oid).unwrap(), value.clone());
    let response = ResponsePdu::success(Version::V2c, id, values.iter().map(bind).collect()).unwrap();
    CommunityMessage::v2c("public", response).unwrap().encode().unwrap()
}

/// What an agent answers whose answer does not fit into a datagram.
pub(crate) fn too_big(id: i32) -> Bytes {
    let response = ResponsePdu::new(Version::V2c, id, OutboundErrorStatus::TooBig, None, Vec::new()).unwrap();
    CommunityMessage::v2c("public", response).unwrap().encode().unwrap()
}

/// A report to the message `id` of SNMP v3.
pub(crate) fn report(id: u8, user: &str, object: u8) -> Bytes {
    let oid = field(6, &[b"\x2b\x06\x01\x06\x03\x0f\x01\x01", &[object, 0]]);
    let binds = field(0x30, &[&field(0x30, &[&oid, &field(0x41, &[&[1]])])]);
    message(id, user, &field(0xa8, &[&number(id), &number(0), &number(0), &binds]))
}

/// An answer to the message `id` of SNMP v3 with the request `request`: sysUpTime is 7.
pub(crate) fn up_time(id: u8, user: &str, request: u8) -> Bytes {
    let oid = field(6, &[b"\x2b\x06\x01\x02\x01\x01\x03\0"]);
    let binds = field(0x30, &[&field(0x30, &[&oid, &field(0x43, &[&[7]])])]);
    message(id, user, &field(0xa2, &[&number(request), &number(0), &number(0), &binds]))
}

/// A message of SNMP v3 without authentication.
fn message(id: u8, user: &str, pdu: &[u8]) -> Bytes {
    let size = field(2, &[b"\0\xff\xe3"]);
    let head = field(0x30, &[&number(id), &size, &field(4, &[&[0]]), &number(3)]);
    let (engine, empty) = (field(4, &[ENGINE]), field(4, &[]));
    let user = field(4, &[user.as_bytes()]);
    let security = field(0x30, &[&engine, &number(1), &number(1), &user, &empty, &empty]);
    let scoped = field(0x30, &[&engine, &empty, pdu]);
    field(0x30, &[&number(3), &head, &field(4, &[&security]), &scoped]).into()
}

fn number(value: u8) -> Vec<u8> {
    assert!(value < 128, "{value} would be negative");
    vec![2, 1, value]
}

/// A field of BER.
fn field(tag: u8, content: &[&[u8]]) -> Vec<u8> {
    let content = content.concat();
    assert!(content.len() < 128, "{} bytes have no short length", content.len());
    [&[tag, content.len() as u8][..], &content].concat()
}
