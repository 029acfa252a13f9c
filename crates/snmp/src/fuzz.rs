//! What is read from outside, for a fuzzer.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::OnceLock;

use bytes::Bytes;
use ogive_protocol::Gather;

use crate::access::Access;
use crate::receiver::{Received, Receiver};

/// A datagram, for a receiver that takes every community and one that knows a user without a password.
pub fn datagram(bytes: &[u8]) {
    static RECEIVERS: OnceLock<[Receiver; 2]> = OnceLock::new();
    let receivers = RECEIVERS.get_or_init(|| {
        let file = "communities = ['public']\n[[user]]\nuser = 'open'\n";
        let known = Access::parse(file, |_| Err(std::io::ErrorKind::NotFound.into())).expect("a good file");
        [Access::default(), known]
            .map(|access| Receiver::new(access, b"\x80\0\0\0\x05receiver", 1_700_000_000).expect("random numbers"))
    });
    let sender = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    for receiver in receivers {
        let mut gather = Gather::default();
        match receiver.receive(Bytes::copy_from_slice(bytes), sender, 7) {
            Received::Trap(notification) => {
                let _ = notification.feed(1, &mut gather);
            }
            Received::Inform(inform) => {
                let _ = inform.notification.feed(1, &mut gather);
                let again = receiver.receive(Bytes::copy_from_slice(bytes), sender, 8);
                assert!(matches!(again, Received::Inform(again) if again.identity(1) == inform.identity(1)));
                if let Some(answer) = receiver.answer(&inform, 9) {
                    // An answer is no question: two servers do not talk with each other forever.
                    assert!(matches!(receiver.receive(answer, sender, 9), Received::Refused(_, None)));
                }
            }
            Received::Question(report) | Received::Refused(_, Some(report)) => {
                assert!(matches!(receiver.receive(report, sender, 9), Received::Refused(_, None)));
            }
            Received::Refused(_, None) => {}
        }
    }
}

/// A file that says who may send.
pub fn access(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = Access::parse(text, |_| Err(std::io::ErrorKind::NotFound.into()));
    }
}

#[cfg(test)]
mod tests {
    use async_snmp::message::CommunityMessage;
    use async_snmp::{GenericTrap, TrapV1Notification, Value, Version};

    use super::*;
    use crate::mutations::{TEXT, smoke};
    use crate::testing::{
        ACCESS, AGENT, ENGINE, Letter, access as parsed, by_community, inform, object, oid, trap, user,
    };

    #[test]
    fn datagrams_may_be_anything() {
        let first = TrapV1Notification::new(
            oid("1.3.6.1.4.1.9"),
            [192, 0, 2, 9],
            GenericTrap::EnterpriseSpecific,
            5,
            7,
            vec![object("1.3.6.1.2.1.2.2.1.2.3", Value::from("eth0"))],
        );
        let first = CommunityMessage::v1_trap("public", first.unwrap()).unwrap().encode().unwrap();
        smoke(datagram, &first, 3_000, &[]);
        smoke(datagram, &by_community("public", trap(Version::V2c, 7)), 3_000, &[]);
        smoke(datagram, &by_community("public", inform(Version::V2c, 7)), 3_000, &[]);
        let access = parsed(ACCESS);
        let letter = |engine| Letter { id: 5, engine, boots: 1, time: 7, is_reportable: true };
        smoke(datagram, &letter(AGENT).message(user(&access, "open"), trap(Version::V3, 7)), 3_000, &[]);
        smoke(datagram, &letter(ENGINE).message(user(&access, "open"), inform(Version::V3, 7)), 3_000, &[]);
        smoke(datagram, &letter(ENGINE).message(user(&access, "sealed"), inform(Version::V3, 7)), 1_000, &[]);
    }

    #[test]
    fn lengths_that_promise_more_than_there_is_cost_nothing() {
        // Sequences in sequences, each as long as the rest, and lengths of up to 2^31.
        let nested: Vec<u8> = (0..16_000).flat_map(|_| [0x30, 0x84, 0x7f, 0xff, 0xff, 0xff]).collect();
        datagram(&nested[..60_000]);
        datagram(&[0x30; 60_000]);
        datagram(&[&b"\x30\x84\xff\xff\xff\xff"[..], &[2, 1, 1], &[0x24, 0x80], &[0; 1_000]].concat());
    }

    #[test]
    fn files_may_hold_anything() {
        let file =
            "communities = ['public']\nengine_id = '8000000005ab'\n[[user]]\nuser = 'open'\nauthentication = 'md5'\n";
        smoke(access, file.as_bytes(), 1_500, TEXT);
    }
}
