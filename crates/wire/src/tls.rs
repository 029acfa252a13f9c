//! TLS as it shows from outside: the handshake, the records, and the turns of request and response. The messages are
//! not read.
//!
//! *Format*: records of RFC 8446, 5.1: a type, a version, a length. Up to TLS 1.2 the handshake is in clear until each
//! side's ChangeCipherSpec; in 1.3 everything after the ServerHello has the type of application data, and a client's
//! Finished shows by its length. *Limits*: [`MAX_HANDSHAKE`] bytes of a side's handshake are kept until they are
//! parsed; nothing of application data is. *Failure*: after a hole that no record's length covers, a side is read again
//! from a segment that begins with a record.

mod certificate;
mod event;
mod hello;
mod version;

use crate::connection::End;
use crate::decoder::{Detection, Side};
use crate::span::Nanos;

pub use event::{TlsEnd, TlsEvent, TlsHandshake};
use hello::{ClientHello, ServerHello};
pub use version::TlsVersion;

/// The name of connections whose messages are not read.
pub(crate) const NAME: &str = "tls";

/// 64 KiB: certificate chains are some KiB, and the 16 MiB that RFC 8446 allows do not occur.
const MAX_HANDSHAKE: usize = 65_536;

/// A record's length: 16 KiB and the expansion by encryption (RFC 5246, 6.2.3).
const MAX_RECORD: usize = 16_384 + 2_048;

const HEADER: usize = 5;

const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;

const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const CERTIFICATE: u8 = 11;

/// Lengths of a TLS 1.3 record with only a Finished: 4 bytes of header, a hash of 32 or 48, the type, and a tag of 16
/// or 8 (RFC 8446, 4.4.4, 5.2).
const FINISHED: [usize; 4] = [53, 69, 45, 61];

/// Lengths of a record of TLS 1.3 with an alert: 2 bytes, the type, and a tag.
const ENCRYPTED_ALERT: [usize; 2] = [19, 11];

/// Receives the events of a TLS connection.
pub(crate) trait Watcher {
    fn tls(&mut self, event: TlsEvent<'_>);
}

/// Whether a client's first bytes are of TLS.
pub(crate) fn detect(bytes: &[u8]) -> Detection {
    const START: usize = 6;
    let expected: [&[u8]; START] = [&[HANDSHAKE], &[3], &[0, 1, 2, 3, 4], &[], &[], &[CLIENT_HELLO]];
    let fits = |(byte, allowed): (&u8, &&[u8])| allowed.is_empty() || allowed.contains(byte);
    match (bytes.iter().zip(&expected).all(fits), bytes.len() < START) {
        (false, _) => Detection::No,
        (true, true) => Detection::More,
        (true, false) => Detection::Sure,
    }
}

/// Whether a segment from the middle of a connection consists of records of application data.
pub(crate) fn is_in_middle(bytes: &[u8]) -> bool {
    let Some((kind, length)) = header(bytes) else { return false };
    let end = HEADER + length;
    kind == DATA
        && match bytes.get(end..) {
            Some([]) => true,
            Some(rest) => header(rest).is_some(),
            None => false,
        }
}

/// A record's type and length.
fn header(bytes: &[u8]) -> Option<(u8, usize)> {
    let [kind @ CHANGE_CIPHER_SPEC..=DATA, 3, 0..=4, high, low, ..] = *bytes else { return None };
    let length = usize::from(u16::from_be_bytes([high, low]));
    (length > 0 && length <= MAX_RECORD).then_some((kind, length))
}

/// One side's stream of records.
#[derive(Debug, Default)]
struct Records {
    /// The part of a record's header that has arrived.
    head: Vec<u8>,
    /// When the record's first byte arrived.
    first: Nanos,
    kind: u8,
    length: usize,
    /// Remaining bytes of the record's body.
    left: usize,
    /// Of the handshake in clear.
    handshake: Vec<u8>,
    /// The contents of a one-byte or two-byte record: an alert.
    small: Vec<u8>,
    /// Its ChangeCipherSpec arrived: further data is encrypted.
    is_encrypted: bool,
    has_finished: bool,
    is_lost: bool,
    bytes: u64,
}

/// A TLS connection.
#[derive(Debug, Default)]
pub(crate) struct Session {
    sides: [Records; 2],
    started: Option<Nanos>,
    client: Option<ClientHello>,
    server: Option<ServerHello>,
    expires: Option<i64>,
    /// The handshake, once it ended.
    ended: Option<Box<TlsHandshake>>,
    /// It began before the capture, or the position was lost: the handshake is not known.
    is_middle: bool,
    /// Time of the last byte of the client's application data that has no response yet.
    requested: Option<Nanos>,
    last: Nanos,
}

impl Session {
    /// A connection whose beginning was not seen.
    pub(crate) fn from_middle() -> Self {
        Self { is_middle: true, ..Self::default() }
    }

    /// The next bytes of a side.
    pub(crate) fn data(&mut self, side: Side, bytes: &[u8], at: Nanos, watcher: &mut dyn Watcher) {
        self.last = at;
        self.sides[side.index()].bytes += bytes.len() as u64;
        let records = &mut self.sides[side.index()];
        if records.is_lost {
            if header(bytes).is_none() {
                return;
            }
            *records = Records { is_encrypted: records.is_encrypted, bytes: records.bytes, ..Records::default() };
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let records = &mut self.sides[side.index()];
            if records.left == 0 {
                if records.head.is_empty() {
                    records.first = at;
                }
                let missing = HEADER - records.head.len();
                let (head, after) = rest.split_at(missing.min(rest.len()));
                records.head.extend_from_slice(head);
                rest = after;
                if records.head.len() < HEADER {
                    return;
                }
                let Some((kind, length)) = header(&records.head) else { return self.lose(side) };
                records.head = Vec::new();
                (records.kind, records.length, records.left) = (kind, length, length);
                self.begin(side, watcher);
                continue;
            }
            let (body, after) = rest.split_at(records.left.min(rest.len()));
            rest = after;
            records.left -= body.len();
            if !self.body(side, body) {
                return self.lose(side);
            }
            self.passed(side, at, watcher);
        }
    }

    /// Bytes of a side that were not captured, or never seen.
    pub(crate) fn pass(&mut self, side: Side, bytes: u64, at: Option<Nanos>, watcher: &mut dyn Watcher) {
        self.last = at.unwrap_or(self.last);
        let records = &mut self.sides[side.index()];
        records.bytes += bytes;
        let is_read = records.kind != DATA && !records.is_encrypted;
        match usize::try_from(bytes) {
            Ok(bytes) if bytes <= records.left && !is_read && !records.is_lost => {
                records.left -= bytes;
                if let Some(at) = at {
                    self.passed(side, at, watcher);
                }
            }
            _ => self.lose(side),
        }
    }

    /// The connection ended.
    pub(crate) fn finish(&mut self, end: End, watcher: &mut dyn Watcher) {
        let why = match end {
            End::Closed => Some(TlsEnd::Closed),
            End::Reset | End::Unexplained => Some(TlsEnd::Reset),
            End::Cut => None,
        };
        if let Some(why) = why {
            self.end(why, self.last, watcher);
        }
        self.report_bytes(watcher);
    }

    fn lose(&mut self, side: Side) {
        let records = &mut self.sides[side.index()];
        records.is_lost = true;
        records.left = 0;
        (records.head, records.handshake) = (Vec::new(), Vec::new());
        if self.ended.is_none() {
            // A handshake message may be missing.
            self.is_middle = true;
        }
        if side == Side::Client {
            self.requested = None;
        }
    }

    fn is_open(&self) -> bool {
        self.is_middle || self.ended.as_ref().is_some_and(|handshake| handshake.end == TlsEnd::Done)
    }

    fn is_13(&self) -> bool {
        self.server.as_ref().is_some_and(|server| server.version == Some(TlsVersion::Tls13))
    }

    /// A record's header is complete.
    fn begin(&mut self, side: Side, watcher: &mut dyn Watcher) {
        let Records { kind, first: at, .. } = self.sides[side.index()];
        if side == Side::Client && kind == HANDSHAKE {
            self.started.get_or_insert(at);
        }
        if kind == DATA
            && side == Side::Server
            && self.is_open()
            && let Some(requested) = self.requested.take()
        {
            watcher.tls(TlsEvent::Turn { nanos: at - requested, at, handshake: self.ended.as_deref() });
            self.report_bytes(watcher);
        }
    }

    /// Keeps what is needed; false when it is invalid.
    fn body(&mut self, side: Side, body: &[u8]) -> bool {
        let records = &mut self.sides[side.index()];
        match records.kind {
            HANDSHAKE if !records.is_encrypted && self.ended.is_none() && !self.is_middle => {
                if records.handshake.len() + body.len() > MAX_HANDSHAKE {
                    return false;
                }
                records.handshake.extend_from_slice(body);
                true
            }
            ALERT if !records.is_encrypted && records.small.len() < 2 => {
                records.small.extend(body.iter().take(2));
                true
            }
            _ => true,
        }
    }

    /// Bytes of a record passed at `at`; the record ends when none is left.
    fn passed(&mut self, side: Side, at: Nanos, watcher: &mut dyn Watcher) {
        let records = &self.sides[side.index()];
        let (kind, length, is_whole) = (records.kind, records.length, records.left == 0);
        // A close is no request.
        let is_alert = self.is_13() && ENCRYPTED_ALERT.contains(&length);
        if kind == DATA && side == Side::Client && self.is_open() && !is_alert {
            self.requested = Some(at);
        }
        if is_whole {
            self.record(side, kind, length, at, watcher);
        }
    }

    /// A record ended at `at`.
    fn record(&mut self, side: Side, kind: u8, length: usize, at: Nanos, watcher: &mut dyn Watcher) {
        match kind {
            HANDSHAKE if self.sides[side.index()].is_encrypted => {
                self.sides[side.index()].has_finished = true;
                if self.sides.iter().all(|side| side.has_finished) {
                    self.end(TlsEnd::Done, at, watcher);
                }
            }
            HANDSHAKE => self.messages(side),
            // In TLS 1.3 it has no meaning and exists for middleboxes (RFC 8446, D.4).
            CHANGE_CIPHER_SPEC if !self.is_13() && self.server.is_some() => {
                self.sides[side.index()].is_encrypted = true;
            }
            ALERT => {
                let alert = std::mem::take(&mut self.sides[side.index()].small);
                if let [2, code] = alert[..] {
                    self.end(TlsEnd::Alert(code), at, watcher);
                }
            }
            DATA if side == Side::Client && self.ended.is_none() && self.is_13() => {
                if FINISHED.contains(&length) {
                    self.end(TlsEnd::Done, at, watcher);
                } else if ENCRYPTED_ALERT.contains(&length) {
                    self.end(TlsEnd::EncryptedAlert, at, watcher);
                }
            }
            _ => {}
        }
    }

    /// Parses the complete handshake messages.
    fn messages(&mut self, side: Side) {
        let mut handshake = std::mem::take(&mut self.sides[side.index()].handshake);
        let mut used = 0;
        while let [kind, a, b, c, rest @ ..] = &handshake[used..] {
            let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
            let Some(body) = rest.get(..length) else { break };
            match (side, *kind) {
                (Side::Client, CLIENT_HELLO) => self.client = ClientHello::parse(body).or(self.client.take()),
                (Side::Server, SERVER_HELLO) => self.server = ServerHello::parse(body),
                (Side::Server, CERTIFICATE) => self.expires = certificate::expiry(body),
                _ => {}
            }
            used += 4 + length;
        }
        handshake.drain(..used);
        if !handshake.is_empty() {
            self.sides[side.index()].handshake = handshake;
        }
    }

    fn end(&mut self, end: TlsEnd, at: Nanos, watcher: &mut dyn Watcher) {
        let Some(started) = self.started.filter(|_| self.ended.is_none() && !self.is_middle) else { return };
        let (client, server) = (self.client.take().unwrap_or_default(), self.server.as_ref());
        let chosen = server.map(|server| server.alpn.clone()).filter(|alpn| !alpn.is_empty());
        let handshake = TlsHandshake {
            at,
            nanos: at - started,
            end,
            version: server.and_then(|server| server.version),
            server_name: client.server_name,
            is_alpn_chosen: chosen.is_some(),
            alpn: chosen.unwrap_or(client.alpn),
            expires: self.expires,
        };
        watcher.tls(TlsEvent::Handshake(&handshake));
        self.ended = Some(Box::new(handshake));
        for side in &mut self.sides {
            side.handshake = Vec::new();
        }
    }

    fn report_bytes(&mut self, watcher: &mut dyn Watcher) {
        let bytes = [0, 1].map(|side: usize| std::mem::take(&mut self.sides[side].bytes));
        if bytes != [0, 0] {
            watcher.tls(TlsEvent::Bytes(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct TlsLog {
        handshakes: Vec<TlsHandshake>,
        turns: Vec<Nanos>,
        bytes: [u64; 2],
    }

    impl Watcher for TlsLog {
        fn tls(&mut self, event: TlsEvent<'_>) {
            match event {
                TlsEvent::Handshake(handshake) => self.handshakes.push(handshake.clone()),
                TlsEvent::Turn { nanos, .. } => self.turns.push(nanos),
                TlsEvent::Bytes(bytes) => [0, 1].into_iter().for_each(|side| self.bytes[side] += bytes[side]),
            }
        }
    }

    fn record(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(body.len()).unwrap().to_be_bytes();
        [&[kind, 3, 3], &length[..], body].concat()
    }

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[kind], &length[1..], body].concat()
    }

    /// A hello without extensions; of the server, its version is in clear.
    fn hello(kind: u8, extensions: &[u8]) -> Vec<u8> {
        let suites: &[u8] = if kind == CLIENT_HELLO { &[0, 2, 0x13, 1, 1, 0] } else { &[0x13, 1, 0] };
        let length = u16::try_from(extensions.len()).unwrap().to_be_bytes();
        record(HANDSHAKE, &message(kind, &[&[3, 3], &[7; 32][..], &[0], suites, &length, extensions].concat()))
    }

    const TLS_13: &[u8] = &[0, 43, 0, 2, 3, 4];

    #[test]
    fn a_handshake_of_13_ends_with_the_clients_finished() {
        let mut session = Session::default();
        let mut kept = TlsLog::default();
        session.data(Side::Client, &hello(CLIENT_HELLO, &[]), 100, &mut kept);
        session.data(Side::Server, &hello(SERVER_HELLO, TLS_13), 200, &mut kept);
        session.data(Side::Server, &record(CHANGE_CIPHER_SPEC, &[1]), 200, &mut kept);
        session.data(Side::Server, &record(DATA, &[1; 900]), 210, &mut kept);
        session.data(Side::Client, &record(DATA, &[1; 53]), 300, &mut kept);
        session.data(Side::Client, &record(DATA, &[1; 100]), 400, &mut kept);
        session.data(Side::Server, &record(DATA, &[1; 100]), 450, &mut kept);
        session.data(Side::Server, &record(DATA, &[1; 100]), 460, &mut kept);
        session.finish(End::Closed, &mut kept);
        assert_eq!(kept.handshakes.len(), 1);
        assert_eq!((kept.handshakes[0].nanos, kept.handshakes[0].end), (200, TlsEnd::Done));
        assert_eq!(kept.handshakes[0].version, Some(TlsVersion::Tls13));
        assert_eq!(kept.turns, [50]);
        assert!(kept.bytes[0] > 150 && kept.bytes[1] > 1_100, "{:?}", kept.bytes);
    }

    #[test]
    fn a_failed_handshake_says_why() {
        let check = |after: &[(Side, Vec<u8>)], end: End, expected: Option<TlsEnd>| {
            let mut session = Session::default();
            let mut kept = TlsLog::default();
            session.data(Side::Client, &hello(CLIENT_HELLO, &[]), 100, &mut kept);
            for (side, bytes) in after {
                session.data(*side, bytes, 150, &mut kept);
            }
            session.finish(end, &mut kept);
            assert_eq!(kept.handshakes.first().map(|handshake| handshake.end), expected);
        };
        check(&[], End::Closed, Some(TlsEnd::Closed));
        check(&[], End::Reset, Some(TlsEnd::Reset));
        check(&[], End::Cut, None);
        let alert = record(ALERT, &[2, 48]);
        check(&[(Side::Server, alert)], End::Closed, Some(TlsEnd::Alert(48)));
        let server = hello(SERVER_HELLO, TLS_13);
        let refused = record(DATA, &[1; 19]);
        check(&[(Side::Server, server), (Side::Client, refused)], End::Closed, Some(TlsEnd::EncryptedAlert));
        assert_eq!(TlsEnd::Alert(48).name(), "unknown_ca");
    }

    #[test]
    fn records_may_be_cut_anywhere_and_holes_are_skipped_by_arithmetic() {
        let talk = [
            (Side::Client, [hello(CLIENT_HELLO, &[]), record(DATA, &[2; 53])].concat()),
            (Side::Server, hello(SERVER_HELLO, TLS_13)),
        ];
        let [(_, client), (_, server)] = &talk;
        let split = client.len() - 58;
        for cut in 1..split {
            let mut session = Session::default();
            let mut kept = TlsLog::default();
            session.data(Side::Client, &client[..cut], 1, &mut kept);
            session.data(Side::Client, &client[cut..split], 2, &mut kept);
            session.data(Side::Server, server, 3, &mut kept);
            session.data(Side::Client, &client[split..split + 5], 4, &mut kept);
            session.pass(Side::Client, 53, Some(5), &mut kept);
            session.data(Side::Client, &record(DATA, &[3; 40])[..30], 6, &mut kept);
            session.pass(Side::Client, 15, None, &mut kept);
            session.data(Side::Server, &record(DATA, &[3; 40]), 9, &mut kept);
            assert_eq!(kept.handshakes.first().map(|handshake| handshake.nanos), Some(4), "cut at {cut}");
            assert_eq!(kept.turns, [3]);
        }
    }

    #[test]
    fn a_hole_in_the_handshake_gives_it_up_and_turns_go_on() {
        let mut session = Session::default();
        let mut kept = TlsLog::default();
        session.data(Side::Client, &hello(CLIENT_HELLO, &[]), 1, &mut kept);
        session.pass(Side::Server, 2_000, None, &mut kept);
        session.data(Side::Client, &record(DATA, &[1; 53]), 5, &mut kept);
        session.data(Side::Client, &record(DATA, &[1; 70]), 10, &mut kept);
        session.data(Side::Server, b"no record", 11, &mut kept);
        session.data(Side::Server, &record(DATA, &[1; 70]), 15, &mut kept);
        session.finish(End::Closed, &mut kept);
        assert_eq!(kept.handshakes, []);
        assert_eq!(kept.turns, [5]);
    }

    #[test]
    fn only_a_client_hello_is_tls() {
        assert_eq!(detect(&hello(CLIENT_HELLO, &[])), Detection::Sure);
        assert_eq!(detect(&[22, 3, 1]), Detection::More);
        assert_eq!(detect(b"GET / HTTP/1.1\r\n"), Detection::No);
        assert_eq!(detect(&hello(SERVER_HELLO, &[])), Detection::No);
        assert!(is_in_middle(&record(DATA, &[1; 40])));
        assert!(is_in_middle(&[record(DATA, &[1; 40]), record(DATA, &[1; 4])[..7].to_vec()].concat()));
        assert!(!is_in_middle(&record(DATA, &[1; 40])[..30]));
        assert!(!is_in_middle(b"\x17\x03\x03\x00\x02abSELECT"));
    }

    /// Bytes from outside: whatever they are, nothing panics and little is kept.
    #[test]
    fn no_bytes_break_it() {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |limit: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            usize::try_from(random >> 11).unwrap() % limit
        };
        let heads = [hello(CLIENT_HELLO, &[0, 0, 0, 5, 0, 3, 0, 0, 0]), hello(SERVER_HELLO, TLS_13)];
        for _ in 0..3_000 {
            let mut session = Session::default();
            let mut kept = TlsLog::default();
            for step in 0..12 {
                let side = if below(2) == 0 { Side::Client } else { Side::Server };
                let mut bytes = heads[below(2)].clone();
                bytes.extend((0..below(300)).map(|at| u8::try_from(at % 251).unwrap()));
                for _ in 0..below(6) {
                    let at = below(bytes.len());
                    bytes[at] = u8::try_from(below(256)).unwrap();
                }
                match below(8) {
                    0 => session.pass(side, below(3_000) as u64, Some(step), &mut kept),
                    1 => session.pass(side, below(3_000) as u64, None, &mut kept),
                    _ => session.data(side, &bytes, step, &mut kept),
                }
                assert!(session.sides.iter().all(|side| side.handshake.len() <= MAX_HANDSHAKE));
            }
            session.finish(End::Closed, &mut kept);
            assert!(kept.handshakes.len() <= 1);
        }
    }
}
