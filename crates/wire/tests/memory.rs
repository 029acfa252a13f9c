//! What connections cost in memory: an idle one at most 1 KiB, and thirty times as many one after another no more than
//! the first ones.
//!
//! One test in a process of its own, since it reads how much memory the process has.

use ogive_wire::frame::Link;
use ogive_wire::{Exchange, Finding, Observer, Options, Output, Path, Reason, Summary, Unanswered, file};

const REQUEST: &[u8] = b"GET /orders/7 HTTP/1.1\r\nHost: shop\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Connections that are open at once.
const IDLE: u32 = 12_000;

/// How often all of them close and others open in their place.
const GENERATIONS: u32 = 30;

/// What the index of the connections may grow once, from 32,768 slots to 65,536 of 49 bytes: how many of its slots are
/// spent by what left depends on its seed, and a table that is spent above its half doubles. One of twice the entries
/// renews itself in place from then on.
const INDEX_DOUBLED_BYTES: u64 = 32_768 * 49;

#[derive(Default)]
struct Count {
    answered: u64,
    closed: u64,
}

impl Output for Count {
    fn answered(&mut self, _path: &Path, _exchange: &Exchange) {
        self.answered += 1;
    }

    fn unanswered(&mut self, _path: &Path, _exchange: &Exchange, _why: Unanswered) {}

    fn discarded(&mut self, _path: &Path, _exchange: &Exchange, _reason: Reason) {}

    fn connected(&mut self, _path: &Path, _took: i64, _at: i64) {}

    fn finding(&mut self, _finding: &Finding) {}

    fn closed(&mut self, _summary: &Summary) {
        self.closed += 1;
    }
}

/// Bytes of memory that the process has now, without its files' pages: those come and go with the machine's load.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages: Vec<u64> = statm.split_whitespace().map_while(|pages| pages.parse().ok()).collect();
    (pages[1] - pages[2]) * 4_096
}

struct Traffic {
    observer: Observer,
    count: Count,
    now: i64,
    frame: Vec<u8>,
}

impl Traffic {
    /// A segment of the client with this number, or of its server. Flags: 2 SYN, 16 ACK, 1 FIN.
    fn segment(
        &mut self,
        client: u32,
        is_of_client: bool,
        sequence: u32,
        acknowledges: u32,
        flags: u8,
        payload: &[u8],
    ) {
        let ends = [(0x0a00_0000 + client / 50_000, 10_000 + client % 50_000), (0x0aff_0001, 8_080)];
        let [from, to] = if is_of_client { ends } else { [ends[1], ends[0]] };
        let frame = &mut self.frame;
        frame.clear();
        frame.extend([0_u8; 12]);
        frame.extend([8, 0, 0x45, 0]);
        frame.extend(u16::try_from(40 + payload.len()).expect("short").to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, 6, 0, 0]);
        frame.extend([from.0.to_be_bytes(), to.0.to_be_bytes()].concat());
        frame.extend([from.1, to.1].map(|port| u16::try_from(port).expect("a port").to_be_bytes()).concat());
        frame.extend([sequence.to_be_bytes(), acknowledges.to_be_bytes()].concat());
        frame.extend([0x50, flags, 1, 0, 0, 0, 0, 0]);
        frame.extend(payload);
        self.now += 40_000;
        let frame = file::Frame { at: self.now, link: Link::Ethernet, bytes: &self.frame, length: self.frame.len() };
        self.observer.frame(&frame, &mut self.count);
    }

    fn open_and_ask(&mut self, client: u32) {
        let (requested, answered) = [REQUEST, RESPONSE].map(|bytes| u32::try_from(bytes.len()).expect("short")).into();
        self.segment(client, true, 100, 0, 2, b"");
        self.segment(client, false, 900, 101, 18, b"");
        self.segment(client, true, 101, 901, 16, b"");
        self.segment(client, true, 101, 901, 24, REQUEST);
        self.segment(client, false, 901, 101 + requested, 24, RESPONSE);
        self.segment(client, true, 101 + requested, 901 + answered, 16, b"");
    }

    fn close(&mut self, client: u32) {
        let (requested, answered) = [REQUEST, RESPONSE].map(|bytes| u32::try_from(bytes.len()).expect("short")).into();
        self.segment(client, true, 101 + requested, 901 + answered, 17, b"");
        self.segment(client, false, 901 + answered, 102 + requested, 17, b"");
    }
}

#[test]
fn an_idle_connection_costs_a_kibibyte_and_closed_ones_nothing() {
    let (observer, count) = (Observer::new(Options::default()), Count::default());
    let mut traffic = Traffic { observer, count, now: 0, frame: Vec::with_capacity(256) };
    // What is allocated once.
    traffic.open_and_ask(0);
    let before = resident();
    (1..IDLE).for_each(|client| traffic.open_and_ask(client));
    let idle = resident() - before;
    let each = idle / u64::from(IDLE - 1);
    println!("an idle connection: {each} bytes");
    assert_eq!(traffic.count.answered, u64::from(IDLE));
    assert_eq!(traffic.observer.totals().open_connections, u64::from(IDLE));
    assert!(each <= 1_024, "an idle connection costs {each} bytes");
    // Each closes and another one opens in its place, over and over. What closed is remembered for some seconds, so
    // that the second generation is what the others are held to.
    let mut first = 0;
    for generation in 1..=GENERATIONS {
        for client in 0..IDLE {
            traffic.close((generation - 1) * IDLE + client);
            traffic.open_and_ask(generation * IDLE + client);
        }
        if generation == 2 {
            first = resident() - before;
        }
    }
    assert_eq!(traffic.count.closed, u64::from(GENERATIONS * IDLE));
    let after = resident() - before;
    println!(
        "after {GENERATIONS} times as many: {:.3} of what it was after twice as many",
        after as f64 / first as f64
    );
    assert!(after <= first * 105 / 100 + INDEX_DOUBLED_BYTES, "{after} bytes after {first}");
    assert_eq!(traffic.observer.totals().evicted, 0);
}
