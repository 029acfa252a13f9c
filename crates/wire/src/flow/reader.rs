//! What reads a connection's streams: first the detection of its protocol, then the decoder.

use crate::connection::{Connection, Counts, End};
use crate::decoder::{Detection, Protocol, Side};
use crate::output::Reporter;
use crate::protocol::{self, Guess, Hint};
use crate::reassembly::Delivery;
use crate::span::Nanos;
use crate::tls::{self, Session};

/// Bytes that are kept until the protocol is known.
const MAX_EARLY_BYTES: u32 = 8_192;

/// Segments that are tried in a connection whose beginning was not seen.
const MAX_TRIES: u16 = 256;

#[derive(Debug)]
struct Early {
    side: Side,
    bytes: Vec<u8>,
    at: Nanos,
    acked: Option<u64>,
}

#[derive(Debug)]
enum State {
    /// The protocol is not known; for a connection seen from its start, the data is kept.
    Unknown { early: Vec<Early>, bytes: u32, tries: u16 },
    /// It is read.
    Known { protocol: &'static Protocol, connection: Box<Connection>, base: [u64; 2] },
    /// It is TLS.
    Tls(Box<Session>),
    /// It is not a supported protocol.
    Opaque,
}

/// Reads one connection.
#[derive(Debug)]
pub(crate) struct Reader {
    state: State,
    from_start: bool,
    /// Bytes delivered on each side.
    passed: [u64; 2],
    /// The TLS session after an upgrade: PostgreSQL after its SSLRequest.
    inner: Option<Box<Session>>,
}

impl Default for Reader {
    fn default() -> Self {
        let state = State::Unknown { early: Vec::new(), bytes: 0, tries: 0 };
        Self { state, from_start: false, passed: [0; 2], inner: None }
    }
}

impl Reader {
    /// Sets whether the connection's first byte was seen: decided before anything is delivered.
    pub(crate) fn set_from_start(&mut self, from_start: bool) {
        if self.passed == [0; 2] {
            self.from_start = from_start;
        }
    }

    pub(crate) fn protocol(&self) -> Option<&'static str> {
        match &self.state {
            State::Known { protocol, .. } => Some(protocol.name),
            State::Tls(_) => Some(tls::NAME),
            _ => None,
        }
    }

    /// Exchanges that are open.
    pub(crate) fn open(&self) -> usize {
        match &self.state {
            State::Known { connection, .. } => connection.open(),
            _ => 0,
        }
    }

    /// Requests seen, open ones, and the counters.
    pub(crate) fn finish(&mut self, end: End, reporter: &mut Reporter<'_>) -> (u64, u64, Counts) {
        if let Some(session) = &mut self.inner {
            session.finish(end, reporter);
        }
        match &mut self.state {
            State::Known { connection, .. } => {
                connection.finish(end, reporter);
                (connection.requests(), connection.open() as u64, connection.counts())
            }
            State::Tls(session) => {
                session.finish(end, reporter);
                (0, 0, Counts::default())
            }
            _ => (0, 0, Counts::default()),
        }
    }

    fn data(
        &mut self,
        side: Side,
        bytes: &[u8],
        at: Nanos,
        acked: Option<u64>,
        hint: Hint,
        reporter: &mut Reporter<'_>,
    ) {
        match &mut self.state {
            State::Known { connection, base, .. } => {
                if connection.is_opaque() {
                    upgraded(&mut self.inner, side, bytes, at, reporter);
                }
                let acked = acked.map(|acked| acked.saturating_sub(base[side.other().index()]));
                connection.data(side, bytes, at, acked, reporter);
            }
            State::Tls(session) => session.data(side, bytes, at, reporter),
            State::Unknown { .. } if self.from_start => self.detect_at_start(side, bytes, at, acked, hint, reporter),
            State::Unknown { .. } => self.detect_in_middle(side, bytes, at, acked, hint, reporter),
            State::Opaque => {}
        }
        self.passed[side.index()] += bytes.len() as u64;
    }

    fn detect_at_start(
        &mut self,
        side: Side,
        bytes: &[u8],
        at: Nanos,
        acked: Option<u64>,
        hint: Hint,
        reporter: &mut Reporter<'_>,
    ) {
        let State::Unknown { early, bytes: kept, .. } = &mut self.state else { return };
        if early.is_empty()
            && (side == Side::Server || tls::detect(bytes) == Detection::No)
            && let Guess::Is(found) = protocol::detect(side, bytes, hint)
        {
            // The usual case: the first segment decides it, and nothing need be kept.
            let mut connection = Connection::new(found.name, (found.new)()).with_heads(hint.keeps_heads);
            connection.data(side, bytes, at, acked, reporter);
            self.start(found, connection, [0; 2]);
            return;
        }
        early.push(Early { side, bytes: bytes.to_vec(), at, acked });
        // A segment is far below 4 GiB, and the limit is reached long before.
        *kept = kept.saturating_add(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        let is_over = *kept > MAX_EARLY_BYTES;
        let first = |side: Side| -> Vec<u8> {
            early.iter().filter(|piece| piece.side == side).flat_map(|piece| piece.bytes.iter().copied()).collect()
        };
        let client = first(Side::Client);
        match tls::detect(&client) {
            Detection::Sure | Detection::Likely => return self.start_tls(Session::default(), reporter),
            Detection::More if !client.is_empty() && !is_over => return,
            _ => {}
        }
        let guesses = [(Side::Client, client), (Side::Server, first(Side::Server))]
            .map(|(side, bytes)| protocol::detect(side, &bytes, hint));
        let found = guesses.iter().find_map(|guess| if let Guess::Is(found) = guess { Some(*found) } else { None });
        if let Some(found) = found {
            let early = std::mem::take(early);
            self.start(found, Connection::new(found.name, (found.new)()).with_heads(hint.keeps_heads), [0; 2]);
            let State::Known { connection, .. } = &mut self.state else { return };
            for piece in early {
                connection.data(piece.side, &piece.bytes, piece.at, piece.acked, reporter);
            }
        } else if is_over || guesses.iter().all(|guess| matches!(guess, Guess::None)) {
            self.state = State::Opaque;
        }
    }

    fn detect_in_middle(
        &mut self,
        side: Side,
        bytes: &[u8],
        at: Nanos,
        acked: Option<u64>,
        hint: Hint,
        reporter: &mut Reporter<'_>,
    ) {
        let State::Unknown { tries, .. } = &mut self.state else { return };
        *tries += 1;
        if let Guess::Is(found) = protocol::detect(side, bytes, hint) {
            let mut connection = Connection::from_middle(found.name, (found.new)()).with_heads(hint.keeps_heads);
            if self.passed[1] == 0 {
                connection.wait_for_server();
            }
            let base = self.passed;
            let acked = acked.map(|acked| acked.saturating_sub(base[side.other().index()]));
            connection.data(side, bytes, at, acked, reporter);
            self.start(found, connection, base);
        } else if tls::is_in_middle(bytes) {
            let mut session = Session::from_middle();
            session.data(side, bytes, at, reporter);
            self.state = State::Tls(Box::new(session));
        } else if *tries >= MAX_TRIES {
            self.state = State::Opaque;
        }
    }

    /// Reads the data so far as TLS.
    fn start_tls(&mut self, mut session: Session, reporter: &mut Reporter<'_>) {
        let State::Unknown { early, .. } = &self.state else { return };
        for piece in early {
            session.data(piece.side, &piece.bytes, piece.at, reporter);
        }
        self.state = State::Tls(Box::new(session));
    }

    fn start(&mut self, protocol: &'static Protocol, connection: Connection, base: [u64; 2]) {
        self.state = State::Known { protocol, connection: Box::new(connection), base };
    }

    /// Bytes that were not captured. Before the protocol is known they cannot be skipped.
    fn pass(&mut self, side: Side, bytes: u64, at: Option<Nanos>, reporter: &mut Reporter<'_>) {
        self.passed[side.index()] += bytes;
        if let Some(session) = &mut self.inner {
            session.pass(side, bytes, at, reporter);
        }
        match &mut self.state {
            State::Tls(session) => session.pass(side, bytes, at, reporter),
            State::Known { connection, .. } => match at {
                Some(at) => connection.cut(side, bytes, at, reporter),
                None => connection.hole(side, bytes, reporter),
            },
            State::Unknown { early, bytes, .. } => {
                early.clear();
                *bytes = 0;
                self.from_start = false;
            }
            State::Opaque => {}
        }
    }
}

/// Bytes of a connection whose protocol cannot be read any further: TLS, if they begin like it.
fn upgraded(inner: &mut Option<Box<Session>>, side: Side, bytes: &[u8], at: Nanos, reporter: &mut Reporter<'_>) {
    if inner.is_none() && side == Side::Client && tls::detect(bytes) == Detection::Sure {
        *inner = Some(Box::default());
    }
    if let Some(session) = inner {
        session.data(side, bytes, at, reporter);
    }
}

/// Feeds a reader from the streams.
pub(crate) struct Feed<'a, 'b> {
    pub(crate) reader: &'a mut Reader,
    pub(crate) reporter: &'a mut Reporter<'b>,
    pub(crate) hint: Hint,
}

impl Delivery for Feed<'_, '_> {
    fn data(&mut self, side: Side, bytes: &[u8], at: Nanos, acked: Option<u64>) {
        self.reader.data(side, bytes, at, acked, self.hint, self.reporter);
    }

    fn cut(&mut self, side: Side, bytes: u64, at: Nanos) {
        self.reader.pass(side, bytes, Some(at), self.reporter);
    }

    fn hole(&mut self, side: Side, bytes: u64) {
        self.reader.pass(side, bytes, None, self.reporter);
    }

    fn fin(&mut self, side: Side, _at: Nanos) {
        if let State::Known { connection, .. } = &mut self.reader.state {
            connection.fin(side, self.reporter);
        }
    }
}
