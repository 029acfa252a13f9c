//! The child process that turns what a crash sends into a report.
//!
//! *Invariants*: it ends when its role does; it acts on nothing but its standard input, a socket to the role.
//! *Limits*: [`EVENTS_MAX`] log records, `CRASHES_MAX` crashes of threads at once, `MAPS_BYTES_MAX`. *Failure*: a
//! report that cannot be stored is answered with number 0; the role's log says so no more, since it is about to end.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use nix::sys::socket::{MsgFlags, recv, send};
use ogive_journal::{Disk, RealDisk};
use ogive_probe::{Clock, IN_FLIGHT_MAX};
use ogive_text::calendar;

use crate::catalog::Catalog;
use crate::message::{self, Registers};
use crate::report::{FORMAT, Panic, Report, Start, TraceInFlight};
use crate::stack::{self, Memory};
use crate::{handler, webhook};

/// 50 records: what happened before the crash, not the log.
pub const EVENTS_MAX: usize = 50;
/// 4 KiB of a log record.
const EVENT_BYTES_MAX: usize = 4 << 10;
/// 1 MiB: some ten thousand mappings.
const MAPS_BYTES_MAX: usize = 1 << 20;
/// 16 threads that panic while one of them is reported.
const CRASHES_MAX: usize = 16;

/// What one thread has sent so far.
#[derive(Default)]
struct Crash {
    panic: Option<Panic>,
    registers: Registers,
    thread: String,
    activity: String,
    traces: Vec<TraceInFlight>,
    maps: Vec<u8>,
    memory: Memory,
}

/// What the writer knows.
pub(crate) struct Writer {
    start: Option<Start>,
    began_ns: u64,
    events: VecDeque<String>,
    crashes: BTreeMap<u32, Crash>,
}

/// Reads standard input until the role is gone.
pub fn run() {
    handler::outlive_the_role();
    let socket = std::io::stdin().as_raw_fd();
    let mut packet = vec![0; message::PACKET_BYTES_MAX];
    let clock = Clock::global();
    let mut writer = Writer::new(clock.now());
    loop {
        let length = match recv(socket, &mut packet, MsgFlags::empty()) {
            Ok(0) => return,
            Ok(length) => length,
            Err(nix::Error::EINTR) => continue,
            Err(_) => return,
        };
        let Some((kind, thread, body)) = message::parse(&packet[..length]) else { continue };
        if let Some(number) = writer.take(kind, thread, body, &clock) {
            let answer = [&message::head(message::STORED, thread)[..], &number.to_le_bytes()].concat();
            let _ = send(socket, &answer, MsgFlags::MSG_NOSIGNAL);
        }
    }
}

impl Writer {
    /// One that knows nothing yet.
    pub(crate) fn new(began_ns: u64) -> Self {
        Self { start: None, began_ns, events: VecDeque::new(), crashes: BTreeMap::new() }
    }

    /// Whether it holds no more than its limits.
    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn is_bounded(&self) -> bool {
        self.events.len() <= EVENTS_MAX
            && self.events.iter().all(|event| event.len() <= 3 * EVENT_BYTES_MAX)
            && self.crashes.len() <= CRASHES_MAX
            && self.crashes.values().all(|crash| crash.maps.len() <= MAPS_BYTES_MAX)
            && self.crashes.values().all(|crash| crash.traces.len() <= IN_FLIGHT_MAX)
    }

    /// Takes one message; the number of a report, 0 when it was not stored, where one was due.
    pub(crate) fn take(&mut self, kind: u8, thread: u32, body: &[u8], clock: &Clock) -> Option<u64> {
        if kind == message::END {
            let crash = self.crashes.remove(&thread)?;
            return Some(self.store(&crash, clock).unwrap_or(0));
        }
        match kind {
            message::START => self.start = serde_json::from_slice(body).ok(),
            message::LOG => self.event(body),
            _ => self.crash(kind, thread, body),
        }
        None
    }

    fn event(&mut self, body: &[u8]) {
        if self.events.len() >= EVENTS_MAX {
            self.events.pop_front();
        }
        let text = String::from_utf8_lossy(&body[..body.len().min(EVENT_BYTES_MAX)]);
        self.events.push_back(text.trim_end().to_owned());
    }

    fn crash(&mut self, kind: u8, thread: u32, body: &[u8]) {
        if self.crashes.len() >= CRASHES_MAX && !self.crashes.contains_key(&thread) {
            return;
        }
        let crash = self.crashes.entry(thread).or_default();
        match kind {
            message::PANIC => crash.panic = serde_json::from_slice(body).ok(),
            message::REGISTERS => {
                crash.registers = Registers::from_bytes(body).unwrap_or_default();
                let texts = body.get(message::REGISTERS_BYTES..).unwrap_or_default();
                let (name, activity) = texts.split_at(texts.len().min(message::NAME_BYTES));
                crash.thread = String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
                crash.activity = String::from_utf8_lossy(activity).into_owned();
            }
            message::TRACE if crash.traces.len() < IN_FLIGHT_MAX => {
                // That of the thread first: it is the likeliest to matter.
                if let Some(trace) = message::parse_trace(body) {
                    let at = if trace.is_of_thread { 0 } else { crash.traces.len() };
                    crash.traces.insert(at, trace);
                }
            }
            message::MAPS if crash.maps.len() + body.len() <= MAPS_BYTES_MAX => crash.maps.extend_from_slice(body),
            message::MEMORY => {
                if let Some((address, bytes)) = body.split_first_chunk::<8>() {
                    crash.memory.add(u64::from_le_bytes(*address), bytes);
                }
            }
            _ => {}
        }
    }

    fn store(&self, crash: &Crash, clock: &Clock) -> Option<u64> {
        let start = self.start.as_ref()?;
        let program = RealDisk.real_path(&PathBuf::from(format!("/proc/{}/exe", start.pid)));
        let modules = stack::modules(&String::from_utf8_lossy(&crash.maps));
        let (frames, build_id) = stack::frames(&RealDisk, &crash.registers, &modules, &crash.memory, &program);
        let registers = &crash.registers;
        let is_signal = registers.signal != 0;
        let mut report = Report {
            format: FORMAT,
            number: 0,
            time: calendar::iso(clock.wall()),
            kind: if is_signal { "signal" } else { "panic" }.into(),
            signal: is_signal.then(|| signal_name(registers.signal)),
            code: is_signal.then_some(registers.code),
            fault_address: is_signal.then(|| format!("{:#x}", registers.address)),
            panic: crash.panic.clone().filter(|_| !is_signal),
            thread: crash.thread.clone(),
            activity: crash.activity.clone(),
            traces: crash.traces.clone(),
            role: start.role.clone(),
            version: start.version.clone(),
            build_id,
            pid: start.pid,
            uptime_seconds: clock.now().saturating_sub(self.began_ns) as f64 / 1e9,
            configuration: start.configuration.clone(),
            frames,
            events: self.events.iter().cloned().collect(),
            signature: String::new(),
        };
        report.sign();
        let number = Catalog::new(&RealDisk, start.directory.as_ref()).add(&mut report).ok()?;
        if let Some(url) = &start.webhook {
            webhook::send(url, &report);
        }
        Some(number)
    }
}

fn signal_name(signal: i32) -> String {
    nix::sys::signal::Signal::try_from(signal)
        .map_or_else(|_| format!("signal {signal}"), |signal| signal.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_a_broken_process_are_bounded_and_never_a_panic() {
        let mut writer = Writer::new(0);
        let clock = Clock::global();
        // Any byte of it as kind, thread and body, cut anywhere.
        let mut rng = fastrand::Rng::with_seed(1);
        let kinds = [b'S', b'L', b'P', b'R', b'M', b'K', b'T', b'E', 0, 255];
        for round in 0..20_000_u32 {
            let body: Vec<u8> = rng.u64(..).to_le_bytes().repeat(rng.usize(1..=900));
            let body = &body[..rng.usize(..body.len())];
            let answer = writer.take(kinds[rng.usize(..kinds.len())], round % 40, body, &clock);
            assert!(matches!(answer, None | Some(0)), "there is nowhere to store");
        }
        assert!(writer.is_bounded());
    }
}
