//! Frames of every link type and IP packets of every shape, and captures of every format, give the same exchange.

mod common;

use common::packets::{ipv4, segment};
use common::truth::Report;
use ogive_wire::frame::{Link, decode};
use ogive_wire::{Observer, Options, file};

const REQUEST: &[u8] = b"GET /a HTTP/1.1\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";

fn ipv6(is_to_server: bool, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
    bytes.extend([next, 64]);
    let address = |last| {
        let mut address = [0_u8; 16];
        (address[0], address[15]) = (0xfd, last);
        address
    };
    bytes.extend(if is_to_server { [address(1), address(2)] } else { [address(2), address(1)] }.concat());
    bytes.extend(payload);
    bytes
}

/// The segments of a whole connection: to the server or not, and the segment. `start` is the client's first sequence
/// number.
fn connection(start: u32) -> Vec<(bool, Vec<u8>)> {
    let (client, server) = (40_000, 8_080);
    let (requested, answered) = (u32::try_from(REQUEST.len()).unwrap(), u32::try_from(RESPONSE.len()).unwrap());
    let next = start.wrapping_add(1);
    vec![
        (true, segment(client, server, start, 0, 2, b"")),
        (false, segment(server, client, 900, next, 18, b"")),
        (true, segment(client, server, next, 901, 16, b"")),
        (true, segment(client, server, next, 901, 24, REQUEST)),
        (false, segment(server, client, 901, next.wrapping_add(requested), 24, RESPONSE)),
        (true, segment(client, server, next.wrapping_add(requested), 901 + answered, 17, b"")),
        (false, segment(server, client, 901 + answered, next.wrapping_add(requested + 1), 17, b"")),
    ]
}

fn observe(frames: &[(Link, Vec<u8>)]) -> Report {
    let mut observer = Observer::new(Options::default());
    let mut report = Report::default();
    for (index, (link, bytes)) in frames.iter().enumerate() {
        let frame = file::Frame { at: index as i64 * 1_000, link: *link, bytes, length: bytes.len() };
        observer.frame(&frame, &mut report);
    }
    observer.finish(&mut report);
    report
}

fn ethernet(kind: u16, tags: &[u16], packet: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 12];
    for (index, tag) in tags.iter().enumerate() {
        bytes.extend(if index + 1 < tags.len() { 0x88a8_u16 } else { 0x8100 }.to_be_bytes());
        bytes.extend(tag.to_be_bytes());
    }
    bytes.extend(kind.to_be_bytes());
    bytes.extend(packet);
    // Short frames are padded.
    bytes.resize(bytes.len().max(60), 0);
    bytes
}

fn check(name: &str, frames: &[(Link, Vec<u8>)]) {
    let report = observe(frames);
    let rows: Vec<_> = report
        .answered
        .iter()
        .map(|row| (row.op.as_str(), row.status.as_str(), row.request.0, row.response.0))
        .collect();
    assert_eq!(rows, [("GET /a", "204", 19, 27)], "{name}");
    assert_eq!(report.summaries.len(), 1, "{name}");
    assert!(report.summaries[0].ended, "{name}");
}

#[test]
fn every_link_carries_the_same_connection() {
    let packets: Vec<(bool, Vec<u8>)> =
        connection(5).into_iter().map(|(to, bytes)| (to, ipv4(6, to, 7, 0, &bytes))).collect();
    type Wrap = fn(&[u8]) -> Vec<u8>;
    let links: [(&str, Link, Wrap); 7] = [
        ("ethernet", Link::Ethernet, |packet| ethernet(0x0800, &[], packet)),
        ("vlan", Link::Ethernet, |packet| ethernet(0x0800, &[42], packet)),
        ("qinq", Link::Ethernet, |packet| ethernet(0x0800, &[7, 42], packet)),
        ("raw", Link::Raw, <[u8]>::to_vec),
        ("null", Link::Null, |packet| [&[2, 0, 0, 0], packet].concat()),
        ("cooked", Link::Cooked, |packet| [&[0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0], packet].concat()),
        ("cooked2", Link::Cooked2, |packet| {
            [&[8, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0], packet].concat()
        }),
    ];
    for (name, link, wrap) in links {
        let frames: Vec<_> = packets.iter().map(|(_, packet)| (link, wrap(packet))).collect();
        check(name, &frames);
    }
}

#[test]
fn loopback_of_a_cooked_capture_is_seen_once() {
    let mut frames = Vec::new();
    for (to, bytes) in connection(5) {
        let packet = ipv4(6, to, 7, 0, &bytes);
        for kind in [4, 0] {
            frames.push((Link::Cooked, [&[0, kind, 3, 4, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0][..], &packet].concat()));
        }
    }
    check("both sights", &frames);
    assert_eq!(observe(&frames).summaries[0].sides[0].retransmitted, 0);
}

#[test]
fn version_6_is_read_behind_its_extension_headers() {
    let frames = |wrap: fn(bool, &[u8]) -> Vec<u8>| -> Vec<_> {
        connection(5).iter().map(|(to, bytes)| (Link::Ethernet, ethernet(0x86dd, &[], &wrap(*to, bytes)))).collect()
    };
    check("plain", &frames(|to, bytes| ipv6(to, 6, bytes)));
    check(
        "hop by hop and destination",
        &frames(|to, bytes| {
            ipv6(
                to,
                0,
                &[&[60, 0, 1, 4, 0, 0, 0, 0, 6, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], bytes].concat(),
            )
        }),
    );
    check(
        "a fragment that is whole",
        &frames(|to, bytes| ipv6(to, 44, &[&[6, 0, 0, 0, 0, 0, 0, 9][..], bytes].concat())),
    );
}

#[test]
fn fragments_are_put_together_and_each_has_its_time() {
    let mut frames = Vec::new();
    for (index, (to, bytes)) in connection(5).into_iter().enumerate() {
        if bytes.len() < 32 {
            frames.push((Link::Raw, ipv4(6, to, u16::try_from(index).unwrap(), 0, &bytes)));
            continue;
        }
        let (first, second) = bytes.split_at(24);
        // The second one comes first.
        frames.push((Link::Raw, ipv4(6, to, u16::try_from(index).unwrap(), 3, second)));
        frames.push((Link::Raw, ipv4(6, to, u16::try_from(index).unwrap(), 0x2000, first)));
    }
    check("fragments", &frames);
    let report = observe(&frames);
    let request = report.answered[0].request;
    assert!(request.1 > request.2, "the first byte came in the later frame: {request:?}");
}

#[test]
fn sequence_numbers_wrap() {
    for start in [u32::MAX, u32::MAX - 1, u32::MAX - 10, u32::MAX - 19] {
        let frames: Vec<_> =
            connection(start).iter().map(|(to, bytes)| (Link::Raw, ipv4(6, *to, 7, 0, bytes))).collect();
        check("wrap", &frames);
    }
}

#[test]
fn a_port_that_is_used_again_is_another_connection() {
    let mut frames = Vec::new();
    for start in [5, 1_000_000, 77] {
        frames.extend(connection(start).iter().map(|(to, bytes)| (Link::Raw, ipv4(6, *to, 7, 0, bytes))));
    }
    let report = observe(&frames);
    assert_eq!((report.answered.len(), report.summaries.len()), (3, 3));
}

#[test]
fn contradictory_copies_of_waiting_bytes_are_counted_and_the_first_counts() {
    let (client, server) = (40_000, 8_080);
    let packets = [
        (true, segment(client, server, 5, 0, 2, b"")),
        (false, segment(server, client, 900, 6, 18, b"")),
        (true, segment(client, server, 10, 901, 24, b"/a HTTP/1.1\r\n\r\n")),
        (true, segment(client, server, 10, 901, 24, b"/b HTTP/1.1\r\n\r\n")),
        (true, segment(client, server, 6, 901, 24, b"GET ")),
        (false, segment(server, client, 901, 25, 24, RESPONSE)),
    ];
    let frames: Vec<_> = packets.iter().map(|(to, bytes)| (Link::Raw, ipv4(6, *to, 7, 0, bytes))).collect();
    let report = observe(&frames);
    assert_eq!(report.answered[0].op, "GET /a");
    assert_eq!(report.summaries[0].sides[0].contradictory_bytes, 1);
}

#[test]
fn headers_that_lie_are_refused() {
    let good = ipv4(6, true, 7, 0, &segment(1, 2, 3, 4, 16, b"abc"));
    for at in 0..good.len() {
        for value in 0..=255 {
            let mut bad = good.clone();
            bad[at] = value;
            if let Ok(packet) = decode(Link::Raw, &bad, bad.len()) {
                assert!(packet.payload.len() <= packet.length && packet.length <= bad.len());
            }
            let _ = observe(&[(Link::Raw, bad)]);
        }
        let _ = decode(Link::Raw, &good[..at], good.len());
    }
}

fn pcap(is_big: bool, is_nanos: bool, frames: &[Vec<u8>]) -> Vec<u8> {
    let word = |value: u32| if is_big { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut bytes = word(if is_nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }).to_vec();
    bytes.extend([0; 12]);
    bytes.extend(word(65_535));
    bytes.extend(word(101));
    for (index, frame) in frames.iter().enumerate() {
        let length = word(u32::try_from(frame.len()).unwrap());
        bytes.extend([word(1_700_000_000), word(u32::try_from(index).unwrap()), length, length].concat());
        bytes.extend(frame);
    }
    bytes
}

fn pcapng(is_big: bool, frames: &[Vec<u8>]) -> Vec<u8> {
    let word = |value: u32| if is_big { value.to_be_bytes() } else { value.to_le_bytes() };
    let half = |value: u16| if is_big { value.to_be_bytes() } else { value.to_le_bytes() };
    let block = |kind: u32, body: &[u8]| {
        let total = word(u32::try_from(12 + body.len()).unwrap());
        [&word(kind)[..], &total, body, &total].concat()
    };
    let mut bytes = block(0x0a0d_0d0a, &[&word(0x1a2b_3c4d)[..], &half(1), &half(0), &[255; 8]].concat());
    let resolution = [&half(9)[..], &half(1), &[9, 0, 0, 0], &[0; 4]].concat();
    bytes.extend(block(1, &[&half(101)[..], &half(0), &word(0), &resolution].concat()));
    bytes.extend(block(5, &[0; 12]));
    for (index, frame) in frames.iter().enumerate() {
        let ticks = 1_700_000_000_u64 * 1_000_000_000 + index as u64;
        let (high, low) = (u32::try_from(ticks >> 32).unwrap(), u32::try_from(ticks & 0xffff_ffff).unwrap());
        let length = word(u32::try_from(frame.len()).unwrap());
        let mut body = [word(0), word(high), word(low), length, length].concat();
        body.extend(frame);
        body.resize(body.len().div_ceil(4) * 4, 0);
        bytes.extend(block(6, &body));
    }
    bytes
}

#[test]
fn every_format_gives_the_same_frames_and_times() {
    let frames = vec![vec![1; 5], vec![2; 64], vec![3; 61]];
    let gzip = |bytes: &[u8]| {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let plain = [pcap(false, true, &frames), pcap(true, true, &frames), pcapng(false, &frames), pcapng(true, &frames)];
    let mut all = plain.to_vec();
    all.extend(plain.iter().map(|bytes| gzip(bytes)));
    all.extend(plain.iter().map(|bytes| zstd::encode_all(&bytes[..], 1).unwrap()));
    all.push(pcap(false, false, &frames));
    for (index, bytes) in all.iter().enumerate() {
        let unit = if index + 1 == all.len() { 1_000 } else { 1 };
        let mut reader = file::open(&bytes[..]).unwrap();
        for (number, frame) in frames.iter().enumerate() {
            let read = reader.next_frame().unwrap().expect("a frame");
            assert_eq!(read.bytes, frame, "format {index}");
            assert_eq!(read.at, 1_700_000_000_000_000_000 + number as i64 * unit, "format {index}");
        }
        assert!(reader.next_frame().unwrap().is_none(), "format {index}");
    }
}

#[test]
fn a_capture_that_is_cut_anywhere_gives_its_whole_frames_and_says_so() {
    let frames = vec![vec![1; 5], vec![2; 64]];
    for bytes in [pcap(false, true, &frames), pcapng(false, &frames)] {
        for end in 0..bytes.len() {
            let Ok(mut reader) = file::open(&bytes[..end]) else { continue };
            let mut count = 0;
            let outcome = loop {
                match reader.next_frame() {
                    Ok(Some(_)) => count += 1,
                    other => break other.map(|_| ()),
                }
            };
            assert!(count <= 2);
            if let Err(error) = outcome {
                assert!(matches!(error, file::Error::Truncated { .. }), "{error}");
            }
        }
    }
}
