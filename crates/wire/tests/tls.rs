//! TLS from outside: curl's talk with nginx over TLS 1.2 and 1.3 (`tests/data/README.md`). The expected times are those
//! of tshark's frames.

mod common;

use common::truth::{Report, observe, own};
use ogive_wire::{TlsEnd, TlsVersion};

/// 2027-03-01 12:00:00 UTC: as the certificate was made.
const EXPIRES: i64 = 1_803_902_400;

fn report_of(name: &str) -> Report {
    let report = observe(&own(name), 0);
    assert!(report.answered.is_empty() && report.unanswered.is_empty(), "no message of TLS is read");
    assert!(report.summaries.iter().all(|summary| summary.protocol == Some("tls") && summary.requests == 0));
    report
}

#[test]
fn handshakes_of_12_show_everything() {
    let report = report_of("tls12.pcap");
    let handshakes: Vec<_> = report.handshakes.iter().map(|(_, handshake)| handshake).collect();
    for handshake in &handshakes {
        assert_eq!(handshake.version, Some(TlsVersion::Tls12));
        assert_eq!(handshake.server_name, "shop.example");
        assert_eq!(handshake.expires, Some(EXPIRES));
        assert!(handshake.is_alpn_chosen);
    }
    let seen: Vec<_> =
        handshakes.iter().map(|handshake| (handshake.alpn.as_str(), handshake.end, handshake.nanos)).collect();
    let expected = [
        ("http/1.1", TlsEnd::Done, 4_970_960),
        ("h2", TlsEnd::Done, 18_279_052),
        ("h2", TlsEnd::Done, 3_821_105),
        // This client does not know who signed the certificate.
        ("h2", TlsEnd::Alert(48), 103_506_128),
    ];
    assert_eq!(seen, expected);
    // Two requests on the first connection; one on each of the next, which is two turns in HTTP/2: the settings come
    // first.
    assert_eq!(report.turns.len(), 6);
    assert!(report.turns.iter().all(|(nanos, name)| *nanos > 0 && name == "shop.example"), "{:?}", report.turns);
}

#[test]
fn handshakes_of_13_hide_the_certificate_and_the_chosen_protocol() {
    let report = report_of("tls13.pcap");
    let handshakes: Vec<_> = report.handshakes.iter().map(|(_, handshake)| handshake).collect();
    for handshake in &handshakes {
        assert_eq!(handshake.version, Some(TlsVersion::Tls13));
        assert_eq!(handshake.server_name, "shop.example");
        assert_eq!((handshake.expires, handshake.is_alpn_chosen), (None, false));
    }
    let seen: Vec<_> =
        handshakes.iter().map(|handshake| (handshake.alpn.as_str(), handshake.end, handshake.nanos)).collect();
    let expected = [
        ("http/1.1", TlsEnd::Done, 11_863_515),
        ("h2,http/1.1", TlsEnd::Done, 1_139_159),
        ("h2,http/1.1", TlsEnd::Alert(48), 124_250_110),
    ];
    assert_eq!(seen, expected);
    assert_eq!(report.turns.len(), 4);
}

#[test]
fn every_byte_of_the_streams_is_counted() {
    for name in ["tls12.pcap", "tls13.pcap"] {
        let report = report_of(name);
        let bytes = |side: usize| report.summaries.iter().map(|summary| summary.sides[side].bytes).sum::<u64>();
        assert_eq!(report.tls_bytes, [bytes(0), bytes(1)], "{name}");
    }
}

#[test]
fn a_capture_without_one_frame_invents_no_handshake() {
    for name in ["tls12.pcap", "tls13.pcap"] {
        let frames = own(name);
        let whole = report_of(name).handshakes;
        for missing in 0..frames.len() {
            let rest = frames.iter().enumerate().filter(|(at, _)| *at != missing).map(|(_, frame)| frame);
            for (path, handshake) in observe(rest, 0).handshakes {
                // A retransmission's place is taken by the next copy; nothing here was sent twice.
                let is_known = whole.iter().any(|(other, known)| {
                    *other == path && known.server_name == handshake.server_name && handshake.nanos <= known.nanos
                });
                assert!(is_known, "{name} without frame {}: {handshake:?}", missing + 1);
            }
        }
    }
}

#[test]
fn tls_within_a_connection_of_postgres_is_measured_too() {
    let report = observe(&own("pgsql_tls.pcap"), 0);
    let answered: Vec<_> = report.answered.iter().map(|row| (row.op.as_str(), row.status.as_str())).collect();
    assert_eq!(answered, [("SSLRequest", "S")]);
    let (_, handshake) = &report.handshakes[0];
    assert_eq!((handshake.version, handshake.end), (Some(TlsVersion::Tls12), TlsEnd::Done));
    assert_eq!((handshake.expires, handshake.server_name.as_str()), (Some(EXPIRES), ""));
    assert_eq!(report.turns.len(), 3, "{:?}", report.turns);
}
