//! Connections that are seen from their middle: an answer is never paired with a request that it does not answer,
//! although the client keeps several requests in flight and nothing seen says how many.
//!
//! A capture of a connection that pipelined as many requests as it had answers looked like one that does not pipeline,
//! and every exchange of it was reported with the answer of an older request. Now exchanges are held back until that
//! cannot be.
//!
//! Conversations are simulated: what was paired is then known, and so is every delay.

mod common;

use std::collections::BTreeSet;

use common::packets::{ipv4, segment};
use common::truth::{OwnedFrame, Report, observe};
use ogive_wire::frame::Link;

const TCP: u8 = 6;
const CLIENT: u16 = 40_000;

/// What is said in a protocol.
struct Speech {
    name: &'static str,
    port: u16,
    request: fn(usize) -> Vec<u8>,
    answer: fn(usize) -> Vec<u8>,
    goodbye: &'static [u8],
}

const SPEECHES: [Speech; 4] = [
    Speech {
        name: "http1",
        port: 80,
        request: |number| format!("GET /o/{number} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes(),
        answer: |number| format!("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n{number:06}").into_bytes(),
        goodbye: b"",
    },
    Speech {
        name: "redis",
        port: 6379,
        request: |number| format!("*2\r\n$3\r\nGET\r\n$6\r\n{number:06}\r\n").into_bytes(),
        answer: |number| format!("$6\r\n{number:06}\r\n").into_bytes(),
        goodbye: b"",
    },
    Speech {
        name: "pgsql",
        port: 5432,
        request: |number| [b"Q\0\0\0\x12SELECT ".to_vec(), format!("{number:06}\0").into_bytes()].concat(),
        answer: |_| b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I".to_vec(),
        goodbye: b"X\0\0\0\x04",
    },
    Speech {
        name: "memcached",
        port: 11_211,
        request: |number| format!("get k{number}\r\n").into_bytes(),
        answer: |number| format!("VALUE k{number} 0 2\r\nhi\r\nEND\r\n").into_bytes(),
        goodbye: b"quit\r\n",
    },
];

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// A delay around `typical`, now and then much longer.
    fn delay(&mut self, typical: u64) -> i64 {
        let around = typical / 2 + self.below(typical + 1);
        let rarely = if self.below(40) == 0 { typical * (2 + self.below(40)) } else { 0 };
        i64::try_from(around + rarely).expect("delays are short")
    }
}

/// How a connection behaves; times in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Behaviour {
    /// Requests that the client keeps in flight: it sends one for each answer.
    depth: usize,
    requests: usize,
    /// From an answer to the client's next request.
    think: u64,
    serve: u64,
    /// The way from the client to where the packets are seen, beside the server.
    way: i64,
    /// The client closes in the middle, and the server gives up what it owes.
    is_abandoned: bool,
}

/// The frames of a connection, and when the first bytes of each request and of its answer were seen.
struct Conversation {
    frames: Vec<OwnedFrame>,
    pairs: BTreeSet<(i64, i64)>,
}

impl Conversation {
    fn simulate(speech: &Speech, behaviour: Behaviour, random: &mut Random) -> Self {
        let Behaviour { depth, requests, think, serve, way, is_abandoned } = behaviour;
        let mut events: Vec<(i64, bool, Vec<u8>, usize)> = Vec::new();
        let mut pairs = BTreeSet::new();
        let mut sent: Vec<i64> = (0..depth).map(|number| number as i64 * 9_000).collect();
        let (mut free, mut heard_last) = (0, 0);
        for number in 0..requests {
            let came = sent[number] + way;
            events.push((came, true, (speech.request)(number), number.saturating_sub(depth - 1)));
            if is_abandoned && number + depth > requests {
                continue;
            }
            free = free.max(came) + random.delay(serve);
            events.push((free, false, (speech.answer)(number), number + 1));
            pairs.insert((came, free));
            heard_last = free + way;
            if sent.len() < requests {
                let next = (heard_last + random.delay(think)).max(sent.last().expect("some were sent") + 1);
                sent.push(next);
            }
        }
        let end = heard_last.max(sent[requests - 1] + way + 1) + 1_000;
        events.sort_by_key(|(at, ..)| *at);
        let goodbye = if is_abandoned { b"" } else { speech.goodbye };
        Self { frames: frames(speech, &events, end, goodbye), pairs }
    }

    /// What is reported of the frames from `first` on, and those of it that never happened.
    fn seen_from(&self, first: usize) -> (Report, Vec<String>) {
        let report = observe(&self.frames[first..], 0);
        let is_wrong = |request: i64, answer: i64| !self.pairs.contains(&(request, answer));
        let wrong = report.answered.iter().filter(|row| is_wrong(row.request.1, row.response.1));
        let wrong = wrong.map(|row| format!("{row:?}")).collect();
        (report, wrong)
    }
}

/// Each event as a segment that acknowledges what its side had of the other, and the connection's end.
fn frames(speech: &Speech, events: &[(i64, bool, Vec<u8>, usize)], end: i64, goodbye: &[u8]) -> Vec<OwnedFrame> {
    let lengths = |is_request: bool| {
        let sent = events.iter().filter(move |(_, of_client, ..)| *of_client == is_request);
        let mut total = 0_u32;
        let ends = sent.map(|(_, _, bytes, _)| {
            total += u32::try_from(bytes.len()).expect("short");
            total
        });
        [0].into_iter().chain(ends).collect::<Vec<u32>>()
    };
    let (requests, answers) = (lengths(true), lengths(false));
    let (mut asked, mut answered) = (0, 0);
    let mut frames = vec![
        frame(speech, 0, true, 0, 0, 2, b""),
        frame(speech, 1, false, 0, 1, 18, b""),
        frame(speech, 2, true, 1, 1, 16, b""),
    ];
    for (at, is_request, bytes, heard) in events {
        let (sequence, acknowledged) = if *is_request {
            asked += 1;
            (requests[asked - 1], answers[(*heard).min(answered)])
        } else {
            answered += 1;
            (answers[answered - 1], requests[asked.max(*heard)])
        };
        frames.push(frame(speech, at + 100, *is_request, sequence + 1, acknowledged + 1, 24, bytes));
    }
    let (client, server) = (requests[asked] + 1, answers[answered] + 1);
    let closed = client + u32::try_from(goodbye.len()).expect("short") + 1;
    frames.push(frame(speech, end + 100, true, client, server, 25, goodbye));
    frames.push(frame(speech, end + 200, false, server, closed, 17, b""));
    frames
}

fn frame(
    speech: &Speech,
    at: i64,
    is_request: bool,
    sequence: u32,
    acknowledges: u32,
    flags: u8,
    payload: &[u8],
) -> OwnedFrame {
    let (from, to) = if is_request { (CLIENT, speech.port) } else { (speech.port, CLIENT) };
    let bytes = ipv4(TCP, is_request, 0, 0, &segment(from, to, sequence, acknowledges, flags, payload));
    OwnedFrame { at, link: Link::Raw, length: bytes.len(), bytes }
}

/// Times of frames are 100 ns after those of events.
fn shift(conversation: &mut Conversation) {
    conversation.pairs = conversation.pairs.iter().map(|(request, answer)| (request + 100, answer + 100)).collect();
}

#[test]
fn a_hidden_pipeline_is_never_mispaired() {
    let mut wrong = Vec::new();
    let mut reported = 0;
    for (number, speech) in SPEECHES.iter().enumerate() {
        for seed in 0..60_u64 {
            let mut random = Random(seed * 31 + number as u64);
            let serve = [80_000, 400_000, 3_000_000][random.below(3) as usize];
            let behaviour = Behaviour {
                depth: 2 + random.below(5) as usize,
                requests: 300,
                think: (serve / [100, 20, 5, 2][random.below(4) as usize]).max(500),
                serve,
                way: [1_000, 20_000, 100_000][random.below(3) as usize],
                is_abandoned: random.below(3) == 0,
            };
            let mut conversation = Conversation::simulate(speech, behaviour, &mut random);
            shift(&mut conversation);
            for _ in 0..6 {
                let first = 3 + random.below(500) as usize;
                let (report, strange) = conversation.seen_from(first);
                reported += report.answered.len();
                if let Some(row) = strange.first() {
                    wrong.push(format!("{} seed {seed} from {first}, {behaviour:?}: {row}", speech.name));
                }
            }
        }
    }
    println!("{reported} reported");
    assert!(wrong.is_empty(), "{} of 1440, first {:#?}", wrong.len(), &wrong[..3.min(wrong.len())]);
}

/// The client's first requests are missing, so that it is not known how many they were.
#[test]
fn a_pipeline_whose_beginning_was_lost_is_never_mispaired() {
    let mut wrong = Vec::new();
    for (number, speech) in SPEECHES.iter().enumerate() {
        for seed in 0..60_u64 {
            let mut random = Random(seed * 17 + number as u64);
            let depth = 2 + random.below(4) as usize;
            let behaviour =
                Behaviour { depth, requests: 120, think: 20_000, serve: 900_000, way: 5_000, is_abandoned: false };
            let mut conversation = Conversation::simulate(speech, behaviour, &mut random);
            shift(&mut conversation);
            // Behind the handshake, or the first request.
            let (first, lost) = (3 + random.below(2) as usize, 1 + random.below(depth as u64) as usize);
            conversation.frames.drain(first..first + lost);
            let (_, strange) = conversation.seen_from(0);
            if let Some(row) = strange.first() {
                wrong.push(format!("{} seed {seed}, {lost} lost from {first} of {behaviour:?}: {row}", speech.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of 240, first {:#?}", wrong.len(), &wrong[..3.min(wrong.len())]);
}

/// What is held back because nothing shows it to be certain is bounded in all: the oldest of a connection is given up.
#[test]
fn what_is_held_is_bounded_in_all() {
    let speech = &SPEECHES[1];
    let mut observer = ogive_wire::Observer::new(ogive_wire::Options::default());
    let mut report = Report::default();
    let request = (speech.request)(1);
    let answer = (speech.answer)(1);
    let lengths = [&request, &answer].map(|bytes| u32::try_from(bytes.len()).expect("short"));
    let turns = 900_u32;
    for client in 0..100_u16 {
        for turn in 0..turns {
            let at = i64::from(client) * 1_000_000_000 + i64::from(turn) * 100_000;
            let ends = [CLIENT + client, speech.port];
            // Each pause as long as any other, so that a pipeline cannot be excluded.
            for (is_request, at, bytes) in [(true, at, &request), (false, at + 80_000, &answer)] {
                let [asked, answered] = lengths.map(|length| length * turn + 1);
                let (from, to, sequence, acknowledges) = if is_request {
                    (ends[0], ends[1], asked, answered)
                } else {
                    (ends[1], ends[0], answered, asked + lengths[0])
                };
                let bytes = ipv4(TCP, is_request, 0, 0, &segment(from, to, sequence, acknowledges, 24, bytes));
                let frame = ogive_wire::file::Frame { at, link: Link::Raw, bytes: &bytes, length: bytes.len() };
                observer.frame(&frame, &mut report);
            }
        }
    }
    let (open, discarded) = (observer.totals().open_connections, report.discarded);
    observer.finish(&mut report);
    let requests: u64 = report.summaries.iter().map(|summary| summary.requests).sum();
    assert_eq!((open, report.answered.len()), (100, 0));
    assert!(requests >= 100 * u64::from(turns - 2), "{requests}");
    assert!(discarded > 15_000 && discarded < 30_000, "{discarded}");
}

#[test]
fn a_client_without_a_pipeline_is_reported() {
    for (number, speech) in SPEECHES.iter().enumerate() {
        for seed in 0..20_u64 {
            let mut random = Random(seed * 77 + number as u64);
            let serve = 200_000;
            let think = [400_000, 800_000, 50_000_000][random.below(3) as usize];
            let behaviour = Behaviour { depth: 1, requests: 300, think, serve, way: 20_000, is_abandoned: false };
            let mut conversation = Conversation::simulate(speech, behaviour, &mut random);
            shift(&mut conversation);
            let (report, strange) = conversation.seen_from(61);
            assert_eq!(strange, [""; 0], "{} seed {seed}", speech.name);
            let answered = report.answered.len();
            assert!(answered >= 268, "{} seed {seed}: {answered} of 271, {behaviour:?}", speech.name);
        }
    }
}
