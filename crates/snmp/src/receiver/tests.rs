use async_snmp::message::{MsgFlags, MsgGlobalData, V3Message};
use async_snmp::{GenericTrap, MessageSize, RequestPdu, TrapV1Notification};
use ogive_protocol::notification::Scalar;

use super::*;
use crate::testing::{
    ACCESS, AGENT, ENGINE, Letter, SENDER, USERS, access, by_community, inform, object, oid, trap, user,
};

/// The seconds from 2020 are its boots.
const STARTED_S: i64 = 1_577_836_800 + BOOTS as i64;
const BOOTS: u32 = 77;

fn receiver() -> Receiver {
    Receiver::new(access(ACCESS), ENGINE, STARTED_S).unwrap()
}

fn to_us(id: i32) -> Letter<'static> {
    Letter { id, engine: ENGINE, boots: BOOTS, time: 10, is_reportable: true }
}

fn from_agent() -> Letter<'static> {
    Letter { id: 5, engine: AGENT, boots: 3, time: 1_000, is_reportable: false }
}

fn taken(received: Received) -> Notification {
    match received {
        Received::Trap(notification) => notification,
        other => panic!("{other:?}"),
    }
}

fn asked(received: Received) -> Inform {
    match received {
        Received::Inform(inform) => *inform,
        other => panic!("{other:?}"),
    }
}

fn refused(received: Received) -> (Refusal, Option<Bytes>) {
    match received {
        Received::Refused(refusal, report) => (refusal, report),
        other => panic!("{other:?}"),
    }
}

/// The object that a report names, and its engine, boots and time.
fn reported(report: &Bytes) -> (Oid, UsmSecurityParams) {
    let message = V3Message::decode(report.clone(), STRICT).unwrap().value;
    let pdu = message.pdu().unwrap();
    assert_eq!((pdu.pdu_type(), pdu.varbinds().len()), (PduType::Report, 1));
    let params = UsmSecurityParams::decode(message.security_params().clone(), STRICT).unwrap().value;
    (pdu.varbinds()[0].oid.clone(), params)
}

#[test]
fn communities_are_known_or_refused() {
    let receiver = receiver();
    let found = taken(receiver.receive(by_community("public", trap(Version::V2c, 7)), SENDER, 10));
    assert_eq!((found.agent, found.version, found.uptime_ticks), (SENDER, "2c", 12_345));
    assert_eq!((found.trap.as_str(), found.bindings.len()), ("1.3.6.1.6.3.1.1.5.3", 1));
    assert_eq!(
        (found.bindings[0].oid.as_str(), &found.bindings[0].value),
        ("1.3.6.1.2.1.2.2.1.1.3", &Scalar::Integer(3))
    );
    for pdu in [trap(Version::V2c, 7), inform(Version::V2c, 7)] {
        let (refusal, report) = refused(receiver.receive(by_community("publi", pdu), SENDER, 10));
        assert_eq!((refusal, report), (Refusal::Community, None));
    }
    let first =
        TrapV1Notification::new(oid("1.3.6.1.4.1.9"), [0; 4], GenericTrap::ColdStart, 0, 7, Vec::new()).unwrap();
    let first = |community: &str| CommunityMessage::v1_trap(community, first.clone()).unwrap().encode().unwrap();
    assert_eq!(taken(receiver.receive(first("public"), SENDER, 10)).version, "1");
    assert_eq!(refused(receiver.receive(first("private"), SENDER, 10)).0, Refusal::Community);
    let get = RequestPdu::get(Version::V2c, 7, &[oid("1.3.6.1.2.1.1.3.0")]).unwrap();
    let get = CommunityMessage::v2c("public", get).unwrap().encode().unwrap();
    assert_eq!(refused(receiver.receive(get, SENDER, 10)).0, Refusal::Kind);
}

#[test]
fn what_is_cut_or_longer_than_it_says_is_refused() {
    let receiver = receiver();
    let access = access(ACCESS);
    for whole in [
        by_community("public", inform(Version::V2c, 7)),
        to_us(5).message(user(&access, "open"), inform(Version::V3, 7)),
        to_us(5).message(user(&access, "sealed"), inform(Version::V3, 7)),
    ] {
        for length in 0..whole.len() {
            assert_eq!(refused(receiver.receive(whole.slice(..length), SENDER, 10)), (Refusal::Undecodable, None));
        }
        let longer = [&whole[..], b"\0"].concat();
        assert_eq!(refused(receiver.receive(longer.into(), SENDER, 10)).0, Refusal::Undecodable);
        asked(receiver.receive(whole, SENDER, 10));
    }
}

#[test]
fn an_inform_is_answered_with_its_own_objects() {
    let receiver = receiver();
    let inform = asked(receiver.receive(by_community("public", inform(Version::V2c, -7)), SENDER, 10));
    let answer = receiver.answer(&inform, 11).unwrap();
    let message = CommunityMessage::decode(answer, STRICT).unwrap().value;
    assert_eq!(message.community().as_bytes(), b"public");
    let pdu = message.into_pdu().unwrap();
    assert_eq!((pdu.pdu_type(), pdu.error_status(), pdu.varbinds().len()), (PduType::Response, 0, 3));
    assert_eq!(pdu.varbinds()[2], object("1.3.6.1.2.1.2.2.1.1.3", Value::Integer(3)));
    assert_eq!(pdu.into_raw_parts().0, -7);
}

#[test]
fn traps_of_users_are_signed_for_the_engine_of_the_agent() {
    let (receiver, access) = (receiver(), access(ACCESS));
    for name in USERS {
        let found =
            taken(receiver.receive(from_agent().message(user(&access, name), trap(Version::V3, 7)), SENDER, 10));
        assert_eq!((found.version, found.user.as_deref(), found.bindings.len()), ("3", Some(name), 1));
    }
    for name in ["signed", "sealed"] {
        let whole = from_agent().message(user(&access, name), trap(Version::V3, 7));
        // Any bit of what is signed, from the last on.
        for at in whole.len() - 40..whole.len() {
            let mut changed = whole.to_vec();
            changed[at] ^= 1;
            let (refusal, report) = refused(receiver.receive(changed.into(), SENDER, 10));
            assert!(matches!(refusal, Refusal::Digest | Refusal::Undecodable), "{name} {at} {refusal:?}");
            assert_eq!(report, None, "a trap asks for no report");
        }
    }
}

#[test]
fn wrong_logins_are_refused_and_reported() {
    let receiver = receiver();
    let others = access(
        "[[user]]\nuser = 'nobody'\n[[user]]\nuser = 'signed'\nauthentication = 'sha256'\npassword = 'hunter3 hunter3'\n\
         [[user]]\nuser = 'sealed'\nauthentication = 'sha1'\npassword = 'hunter2 hunter2'\nprivacy = 'aes128'\n\
         privacy_password = '3retnuh 3retnuh'\n",
    );
    for (name, refusal, object) in [
        ("nobody", Refusal::User, report_oids::unknown_user_names()),
        ("signed", Refusal::Digest, report_oids::wrong_digests()),
        ("sealed", Refusal::Decryption, report_oids::decryption_errors()),
    ] {
        let (found, report) =
            refused(receiver.receive(to_us(5).message(user(&others, name), inform(Version::V3, 7)), SENDER, 10));
        assert_eq!((found, reported(&report.unwrap()).0), (refusal, object), "{name}");
        let trap = from_agent().message(user(&others, name), trap(Version::V3, 7));
        assert_eq!(refused(receiver.receive(trap, SENDER, 10)), (refusal, None), "{name}");
    }
    // In the name of a user who has a password, without it, or signed alone.
    let lower = access(
        "[[user]]\nuser = 'signed'\n[[user]]\nuser = 'sealed'\nauthentication = 'sha1'\npassword = 'hunter2 hunter2'\n\
         [[user]]\nuser = 'open'\nauthentication = 'sha1'\npassword = 'hunter2 hunter2'\n",
    );
    for name in USERS {
        let trap = from_agent().message(user(&lower, name), trap(Version::V3, 7));
        assert_eq!(refused(receiver.receive(trap, SENDER, 10)), (Refusal::Level, None), "{name}");
    }
}

#[test]
fn an_engine_is_discovered_and_its_time_is_learnt() {
    let (receiver, access) = (receiver(), access(ACCESS));
    let question = V3Message::discovery_request(5, MessageSize::new(65_507).unwrap()).unwrap().encode().unwrap();
    let Received::Question(report) = receiver.receive(question, SENDER, 10) else { panic!("it is a question") };
    let (object, params) = reported(&report);
    assert_eq!(object, report_oids::unknown_engine_ids());
    assert_eq!((params.engine_id().as_ref(), params.engine_boots(), params.engine_time()), (ENGINE, BOOTS, 10));
    for name in ["signed", "sealed"] {
        let user = user(&access, name);
        let ask = |boots: u32, time: u32, up_s: u64| {
            receiver.receive(Letter { boots, time, ..to_us(6) }.message(user, inform(Version::V3, 7)), SENDER, up_s)
        };
        let Received::Question(report) = ask(0, 0, 1_000) else { panic!("it asks for the time") };
        let (object, params) = reported(&report);
        assert_eq!(object, report_oids::not_in_time_windows());
        assert_eq!((params.engine_boots(), params.engine_time()), (BOOTS, 1_000));
        let keys = user.derive_keys(ENGINE).unwrap();
        let (at, length) = UsmSecurityParams::find_auth_params_offset(&report).unwrap();
        assert!(verify_message(&keys.auth_key.unwrap(), &report, at, length).unwrap(), "it is signed");
        for (boots, time, is_timely) in [
            (BOOTS, 850, true),
            (BOOTS, 1_150, true),
            (BOOTS, 849, false),
            (BOOTS, 1_151, false),
            (BOOTS - 1, 1_000, false),
            (BOOTS + 1, 1_000, false),
        ] {
            match (is_timely, ask(boots, time, 1_000)) {
                (true, Received::Inform(_)) | (false, Received::Refused(Refusal::Time, Some(_))) => {}
                (_, other) => panic!("{name} {boots} {time}: {other:?}"),
            }
        }
    }
}

#[test]
fn an_inform_of_a_user_is_answered_at_its_level() {
    let (receiver, access) = (receiver(), access(ACCESS));
    for name in USERS {
        let user = user(&access, name);
        let inform = asked(receiver.receive(to_us(6).message(user, inform(Version::V3, 7)), SENDER, 10));
        let answer = receiver.answer(&inform, 12).unwrap();
        let message = RawV3Message::decode(answer.clone(), STRICT).unwrap().value;
        assert_eq!((message.msg_id(), message.security_level()), (6, user.security_level()));
        let params = UsmSecurityParams::decode(message.security_params().clone(), STRICT).unwrap().value;
        assert_eq!((params.engine_id().as_ref(), params.engine_boots(), params.engine_time()), (ENGINE, BOOTS, 12));
        let envelope = Envelope { id: 6, is_reportable: false, level: message.security_level(), bytes_max: 0, params };
        let keys = user.derive_keys(ENGINE).unwrap();
        assert!(is_signed(&answer, &envelope, &keys));
        let pdu = opened(message.msg_data(), &envelope, &keys).unwrap().pdu;
        assert_eq!((pdu.pdu_type(), pdu.error_status(), pdu.varbinds().len()), (PduType::Response, 0, 3));
    }
}

#[test]
fn an_inform_for_another_engine_is_refused() {
    let (receiver, access) = (receiver(), access(ACCESS));
    for name in USERS {
        let letter = Letter { is_reportable: true, ..from_agent() };
        let (refusal, report) =
            refused(receiver.receive(letter.message(user(&access, name), inform(Version::V3, 7)), SENDER, 10));
        assert_eq!((refusal, reported(&report.unwrap()).0), (Refusal::Engine, report_oids::unknown_engine_ids()));
    }
}

#[test]
fn an_inform_that_comes_again_is_known() {
    let (receiver, access) = (receiver(), access(ACCESS));
    let identity = |id: i32, request: i32| {
        asked(receiver.receive(to_us(id).message(user(&access, "sealed"), inform(Version::V3, request)), SENDER, 10))
            .identity(1)
    };
    assert_eq!(identity(1, 7), identity(2, 7), "the number of its message is another each time");
    assert_ne!(identity(1, 7), identity(1, 8));
    let second = asked(receiver.receive(by_community("public", inform(Version::V2c, 7)), SENDER, 10));
    assert_ne!(second.identity(1), identity(1, 7));
    let other = asked(receiver.receive(by_community("public", inform(Version::V2c, 7)), "::1".parse().unwrap(), 10));
    assert_ne!(second.identity(1), other.identity(1));
}

/// What a sender takes may be less than what it sent: then the answer says so.
#[test]
fn an_answer_is_no_longer_than_its_receiver_takes() {
    let receiver = receiver();
    let long = vec![object("1.3.6.1.2.1.1.5.0", Value::from("x".repeat(1_000)))];
    let pdu = async_snmp::NotificationPdu::inform(Version::V3, 7, 1, &oid("1.3.6.1.6.3.1.1.5.1"), long).unwrap();
    let flags = MsgFlags::new(SecurityLevel::NoAuthNoPriv, true);
    let head = MsgGlobalData::new(5, MessageSize::new(484).unwrap(), flags).unwrap();
    let engine = Bytes::from_static(ENGINE);
    let params = UsmSecurityParams::new(engine.clone(), BOOTS, 10, "open").unwrap().encode().unwrap();
    let message = V3Message::new(head, params, ScopedPdu::new(engine, Bytes::new(), pdu)).unwrap();
    let inform = asked(receiver.receive(message.encode().unwrap(), SENDER, 10));
    let answer = receiver.answer(&inform, 10).unwrap();
    assert!(answer.len() <= 484);
    let pdu = V3Message::decode(answer, STRICT).unwrap().value.into_pdu().unwrap();
    assert_eq!((pdu.error_status(), pdu.varbinds().len()), (1, 0), "tooBig");
}
