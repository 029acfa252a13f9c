//! The objects of a message as a notification; version 1 becomes what RFC 3584, section 3.1, makes of it.
//!
//! Invariants: nothing that was sent is left out but the community.
//! Limits: [`BINDINGS_MAX`]; an OID has up to 128 numbers, which the library checks.

use std::net::{IpAddr, Ipv4Addr};

use async_snmp::notification::oids;
use async_snmp::{TrapV1Pdu, Value, VarBind};
use ogive_protocol::notification::{BINDINGS_MAX, Binding, Notification, Scalar};

use crate::refusal::Refusal;
use crate::text::words;

/// Of a trap of version 1.
pub(crate) fn from_v1(trap: &TrapV1Pdu, sender: IpAddr) -> Result<Notification, Refusal> {
    let oid = trap.v2_trap_oid().map_err(|_| Refusal::Fields)?;
    let agent = Ipv4Addr::from(trap.agent_addr());
    Ok(Notification {
        agent: if agent.is_unspecified() { sender } else { agent.into() },
        sender,
        version: "1",
        user: None,
        context: String::new(),
        trap: oid.to_string(),
        uptime_ticks: trap.time_stamp(),
        enterprise: Some(trap.enterprise().to_string()),
        codes: Some((trap.generic_trap().as_i32(), trap.specific_trap())),
        bindings: bindings(trap.varbinds())?,
    })
}

/// Of a trap or an inform of version 2, which version 3 has too.
pub(crate) fn from_v2(objects: &[VarBind], sender: IpAddr) -> Result<Notification, Refusal> {
    // Their names are not looked at: some agents write them without the last zero.
    let [
        VarBind { value: Value::TimeTicks(uptime_ticks), .. },
        VarBind { value: Value::ObjectIdentifier(trap), .. },
        rest @ ..,
    ] = objects
    else {
        return Err(Refusal::Fields);
    };
    let find = |oid: async_snmp::Oid| rest.iter().find(|object| object.oid == oid).map(|object| &object.value);
    let enterprise = find(oids::snmp_trap_enterprise()).and_then(Value::as_oid).map(ToString::to_string);
    // A proxy names the agent that it speaks for.
    let agent = find(oids::snmp_trap_address()).and_then(Value::as_ip).filter(|agent| !agent.is_unspecified());
    Ok(Notification {
        agent: agent.map_or(sender, IpAddr::from),
        sender,
        version: "2c",
        user: None,
        context: String::new(),
        trap: trap.to_string(),
        uptime_ticks: *uptime_ticks,
        enterprise,
        codes: None,
        bindings: bindings(rest)?,
    })
}

fn bindings(objects: &[VarBind]) -> Result<Vec<Binding>, Refusal> {
    if objects.len() > BINDINGS_MAX {
        return Err(Refusal::Bindings);
    }
    let binding = |object: &VarBind| Binding { oid: object.oid.to_string(), value: scalar(&object.value) };
    Ok(objects.iter().map(binding).collect())
}

fn scalar(value: &Value) -> Scalar {
    match value {
        Value::Integer(number) => Scalar::Integer((*number).into()),
        Value::Counter32(number) | Value::Gauge32(number) | Value::UInteger32(number) => {
            Scalar::Unsigned((*number).into())
        }
        Value::Counter64(number) => Scalar::Unsigned(*number),
        Value::TimeTicks(ticks) => Scalar::Ticks(*ticks),
        Value::OctetString(bytes) | Value::Nsap(bytes) => text(bytes),
        Value::ObjectIdentifier(oid) => Scalar::Text(oid.to_string()),
        Value::IpAddress(address) => Scalar::Text(Ipv4Addr::from(*address).to_string()),
        Value::Opaque(bytes) => {
            let number = value.as_opaque_float().map(f64::from).or_else(|| value.as_opaque_double());
            number.filter(|number| number.is_finite()).map_or_else(|| text(bytes), Scalar::Float)
        }
        Value::Unknown { data, .. } => text(data),
        // Null, and what only answers have.
        _ => Scalar::Null,
    }
}

/// A text as it is, also with several lines; what is none in hexadecimal. A datagram limits its length.
fn text(bytes: &[u8]) -> Scalar {
    let is_odd = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    Scalar::Text(match std::str::from_utf8(&bytes[..end]) {
        Ok(text) if !text.contains(is_odd) => text.to_owned(),
        _ => words(bytes, usize::MAX),
    })
}

#[cfg(test)]
mod tests {
    use async_snmp::{GenericTrap, Oid};
    use bytes::Bytes;

    use super::*;
    use crate::testing::{SENDER, object, oid};

    fn first(agent: [u8; 4], generic: i32, specific: i32) -> Result<Notification, Refusal> {
        let objects = vec![object("1.3.6.1.2.1.2.2.1.1.3", Value::Integer(3))];
        let generic = GenericTrap::from_i32(generic);
        let trap = TrapV1Pdu::from_raw_parts(oid("1.3.6.1.4.1.9"), agent, generic, specific, 7, objects);
        from_v1(&trap, SENDER)
    }

    /// RFC 3584, section 3.1.
    #[test]
    fn traps_of_version_1_are_converted() {
        let found = first([192, 0, 2, 9], 6, 5).unwrap();
        assert_eq!((found.trap.as_str(), found.codes), ("1.3.6.1.4.1.9.0.5", Some((6, 5))));
        assert_eq!((found.agent.to_string().as_str(), found.sender), ("192.0.2.9", SENDER));
        assert_eq!((found.enterprise.as_deref(), found.uptime_ticks), (Some("1.3.6.1.4.1.9"), 7));
        assert_eq!(found.bindings.len(), 1);
        let found = first([0; 4], 2, 0).unwrap();
        assert_eq!((found.trap.as_str(), found.agent), ("1.3.6.1.6.3.1.1.5.3", SENDER));
        assert_eq!(first([0; 4], 6, -1), Err(Refusal::Fields));
    }

    #[test]
    fn a_notification_begins_with_uptime_and_name() {
        let uptime = object("1.3.6.1.2.1.1.3.0", Value::TimeTicks(7));
        let name = object("1.3.6.1.6.3.1.1.4.1.0", Value::ObjectIdentifier(oid("1.3.6.1.6.3.1.1.5.1")));
        let more = object("1.3.9", Value::Null);
        for objects in [vec![], vec![uptime.clone()], vec![name.clone(), uptime.clone()], vec![uptime.clone(), more]] {
            assert_eq!(from_v2(&objects, SENDER), Err(Refusal::Fields), "{objects:?}");
        }
        let proxied = [
            uptime.clone(),
            name.clone(),
            object("1.3.6.1.6.3.18.1.3.0", Value::IpAddress([192, 0, 2, 9])),
            object("1.3.6.1.6.3.1.1.4.3.0", Value::ObjectIdentifier(oid("1.3.6.1.4.1.9"))),
        ];
        let found = from_v2(&proxied, SENDER).unwrap();
        assert_eq!(
            (found.agent.to_string().as_str(), found.enterprise.as_deref()),
            ("192.0.2.9", Some("1.3.6.1.4.1.9"))
        );
        assert_eq!(found.bindings.len(), 2);
        let many = |count: usize| {
            let more = (0..count).map(|_| object("1.3.9", Value::Null));
            let objects: Vec<VarBind> = [uptime.clone(), name.clone()].into_iter().chain(more).collect();
            from_v2(&objects, SENDER)
        };
        assert!(many(BINDINGS_MAX).is_ok());
        assert_eq!(many(BINDINGS_MAX + 1), Err(Refusal::Bindings));
    }

    #[test]
    fn values_keep_their_kind() {
        let bytes = |bytes: &'static [u8]| Bytes::from_static(bytes);
        let of = |text: &str| Scalar::Text(text.into());
        for (value, expected) in [
            (Value::Integer(-3), Scalar::Integer(-3)),
            (Value::Gauge32(u32::MAX), Scalar::Unsigned(u64::from(u32::MAX))),
            (Value::Counter64(u64::MAX), Scalar::Unsigned(u64::MAX)),
            (Value::TimeTicks(7), Scalar::Ticks(7)),
            (Value::OctetString(bytes(b" eth0\0")), of(" eth0")),
            (Value::OctetString(bytes(b"down\nfor good")), of("down\nfor good")),
            (Value::OctetString(bytes(b"\0\x1b\xff")), of("00:1b:ff")),
            (Value::ObjectIdentifier(Oid::from_slice(&[1, 3, 6])), of("1.3.6")),
            (Value::IpAddress([192, 0, 2, 1]), of("192.0.2.1")),
            (Value::Opaque(bytes(b"\x9f\x78\x04\x40\0\0\0")), Scalar::Float(2.0)),
            (Value::Opaque(bytes(b"\x9f\x78\x04\x7f\x80\0\0")), of("9f:78:04:7f:80:00:00")),
            (Value::Null, Scalar::Null),
            (Value::NoSuchObject, Scalar::Null),
        ] {
            assert_eq!(scalar(&value), expected, "{value:?}");
        }
    }
}
