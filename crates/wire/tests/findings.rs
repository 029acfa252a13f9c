//! What is wrong in the captures is found, with its number.

mod common;

use common::truth::{captures, frames, observe, truth};
use ogive_wire::{Finding, FindingKind};

fn findings(name: &str) -> Vec<Finding> {
    let (_, path, truth_path) =
        captures().into_iter().find(|(found, _, _)| found == name).expect("the project keeps it");
    observe(&frames(&path), truth(&truth_path).t0).findings
}

fn of(findings: &[Finding], kind: FindingKind) -> Vec<&Finding> {
    findings.iter().filter(|finding| finding.kind == kind).collect()
}

#[test]
fn dead_keep_alive_connections_are_named_with_their_idle_time() {
    let found = findings("http1_dead_keepalive");
    let dead = of(&found, FindingKind::DeadKeepalive);
    assert_eq!(dead.len(), 2);
    // The server closes after one second; the client comes back 0.3 s later.
    assert!(dead.iter().all(|finding| (1_200_000_000..1_500_000_000).contains(&finding.nanos)), "{dead:?}");
}

#[test]
fn refused_and_unanswered_handshakes_are_told_apart() {
    let found = findings("tcp_half_open");
    let refused = of(&found, FindingKind::Refused);
    assert_eq!(refused.len(), 10, "{refused:?}");
    assert!(refused.iter().all(|finding| finding.path.server.port == 21_099));
    let unanswered = of(&found, FindingKind::SynUnanswered);
    assert!(unanswered.iter().all(|finding| finding.path.server.port == 21_098), "{unanswered:?}");
}

#[test]
fn a_copy_answers_before_it_ends() {
    let found = findings("mysql_mix");
    let early = of(&found, FindingKind::EarlyResponse);
    assert!(early.iter().all(|finding| finding.nanos > 0 && finding.protocol == Some("mysql")), "{early:?}");
    assert!(!early.is_empty());
}
