//! What is wrong in the captures is found, with its number.

mod common;

use common::truth::{captures, frames, observe, own, truth};
use ogive_wire::{Finding, FindingKind, Side, TcpEvent};

fn findings(name: &str) -> Vec<Finding> {
    let (_, path, truth_path) =
        captures().into_iter().find(|(found, _, _)| found == name).expect("the project keeps it");
    observe(&frames(&path), truth(&truth_path).t0).findings
}

fn findings_of(findings: &[Finding], kind: FindingKind) -> Vec<&Finding> {
    findings.iter().filter(|finding| finding.kind == kind).collect()
}

#[test]
fn dead_keep_alive_connections_are_named_with_their_idle_time() {
    let found = findings("http1_dead_keepalive");
    let dead = findings_of(&found, FindingKind::DeadKeepalive);
    assert_eq!(dead.len(), 2);
    // The server closes after one second; the client comes back 0.3 s later.
    assert!(dead.iter().all(|finding| (1_200_000_000..1_500_000_000).contains(&finding.nanos)), "{dead:?}");
}

#[test]
fn refused_and_unanswered_handshakes_are_told_apart() {
    let found = findings("tcp_half_open");
    let refused = findings_of(&found, FindingKind::Refused);
    assert_eq!(refused.len(), 10, "{refused:?}");
    assert!(refused.iter().all(|finding| finding.path.server.port == 21_099));
    let unanswered = findings_of(&found, FindingKind::SynUnanswered);
    assert!(unanswered.iter().all(|finding| finding.path.server.port == 21_098), "{unanswered:?}");
}

#[test]
fn a_copy_answers_before_it_ends() {
    let found = findings("mysql_mix");
    let early = findings_of(&found, FindingKind::EarlyResponse);
    assert!(early.iter().all(|finding| finding.nanos > 0 && finding.protocol == Some("mysql")), "{early:?}");
    assert!(!early.is_empty());
}

#[test]
fn a_slow_answer_with_others_behind_it_blocks_the_head_of_the_line() {
    // DEBUG SLEEP 0.2 with six GETs behind it.
    let report = observe(&own("head_of_line.pcap"), 0);
    let blocked = findings_of(&report.findings, FindingKind::HeadOfLine);
    assert_eq!(blocked.len(), 1, "{blocked:?}");
    assert_eq!((blocked[0].count, blocked[0].protocol), (6, Some("redis")));
    assert_eq!(blocked[0].nanos, 200_287_613);
    // A pipeline in which everybody waits for as long as it is long is none.
    for name in ["redis_mix", "http1_pipeline"] {
        assert_eq!(findings_of(&findings(name), FindingKind::HeadOfLine), Vec::<&Finding>::new(), "{name}");
    }
}

#[test]
fn twelve_connections_of_one_request_each_are_a_habit() {
    let report = observe(&own("connection_per_request.pcap"), 0);
    let habit = findings_of(&report.findings, FindingKind::ConnectionPerRequest);
    assert_eq!(habit.len(), 1, "{habit:?}");
    assert_eq!((habit[0].count, habit[0].protocol, habit[0].path.server.port), (10, Some("http1"), 21_080));
}

#[test]
fn a_receiver_without_room_is_found_and_named() {
    let report = observe(&own("zero_window.pcap"), 0);
    let closed = findings_of(&report.findings, FindingKind::ZeroWindow);
    assert_eq!(closed.len(), 1, "{closed:?}");
    assert_eq!((closed[0].path.server.port, closed[0].protocol), (21_081, None));
    let events: Vec<TcpEvent> = report.tcp.iter().map(|(_, _, event)| *event).collect();
    assert_eq!(events, [TcpEvent::ZeroWindow(Side::Server)]);
}

#[test]
fn each_segment_that_is_sent_again_is_reported() {
    let (_, path, truth_path) =
        captures().into_iter().find(|(found, _, _)| found == "http1_capture_holes").expect("the project keeps it");
    let report = observe(&frames(&path), truth(&truth_path).t0);
    let copies = report.tcp.iter().filter(|(.., event)| matches!(event, TcpEvent::Retransmission(_))).count() as u64;
    let counted: u64 = report.summaries.iter().flat_map(|summary| &summary.sides).map(|side| side.retransmitted).sum();
    assert!(copies > 0 && copies <= counted, "{copies} of {counted}");
}

/// What docs/wire.md says of where each kind is shown.
#[test]
fn each_kind_is_shown_by_the_capture_that_the_docs_name() {
    use FindingKind as Kind;
    for (name, kind) in [
        ("http1_dead_keepalive", Kind::DeadKeepalive),
        ("tcp_half_open", Kind::Refused),
        ("http1_reorder", Kind::RetransmissionStorm),
        ("amqp_mix", Kind::ZeroWindow),
        ("mysql_mix", Kind::EarlyResponse),
    ] {
        assert!(!findings_of(&findings(name), kind).is_empty(), "{kind:?} in {name}");
    }
    for (name, kind, count) in [
        ("syn_unanswered.pcap", Kind::SynUnanswered, 3),
        ("zero_window.pcap", Kind::ZeroWindow, 1),
        ("half_open.pcap", Kind::HalfOpen, 1),
        ("dns_retry.pcap", Kind::DnsRetry, 1),
        ("head_of_line.pcap", Kind::HeadOfLine, 1),
        ("connection_per_request.pcap", Kind::ConnectionPerRequest, 1),
    ] {
        let found = observe(&own(name), 0).findings;
        assert_eq!(findings_of(&found, kind).len(), count, "{kind:?} in {name}");
    }
}
