//! What does a packet cost on its way from the kernel through the parser: in the ring, and by `recvfrom`, under wrk's
//! load on nginx?
//!
//! `cargo bench -p ogive-capture --bench live` (as root); `-- 256,256,5` also tries a ring of 256 blocks of 256 KiB
//! that are handed over after 5 ms. Each way also runs without the parser, which shows what the way alone costs. Both
//! sides run in turn under the same load, on a thread whose CPU time the scheduler counts; both let the kernel pass one
//! port and loopback's packets once.
#![allow(unsafe_code, reason = "the other side is a bare packet socket")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::cell::Cell;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Ending, Event, HttpCounts, Nginx, read_ring};
use ogive_capture::{Counts, Filter, Shape};
use ogive_wire::frame::Link;
use ogive_wire::{Observer, Options, file};

const ROUNDS: usize = 5;

/// Seconds that this thread ran.
fn own() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    stat.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()).expect("nanoseconds") / 1e9
}

fn option<T>(socket: &OwnedFd, level: i32, name: i32, value: &T) {
    let length = libc::socklen_t::try_from(size_of::<T>()).expect("small");
    // SAFETY: pointer and length describe `value`, which outlives the call.
    let outcome =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), length) };
    assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
}

/// Reads the same packets by `recvfrom`, a packet a call, with the kernel's default buffer set to 64 MiB.
fn read_by_recvfrom(
    port: u16,
    ready: impl FnOnce(),
    is_over: impl Fn() -> bool,
    mut visit: impl FnMut(Event<'_>),
) -> Counts {
    let all = i32::from(u16::try_from(libc::ETH_P_ALL).expect("16 bits").to_be());
    // SAFETY: plain call.
    let descriptor = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    assert!(descriptor >= 0, "a packet socket needs root");
    // SAFETY: opened above; nobody else has it.
    let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
    let filter = Filter::from_ports(&[port]).expect("one port");
    let program = libc::sock_fprog {
        len: u16::try_from(filter.instructions().len()).expect("short"),
        filter: filter.instructions().as_ptr().cast_mut().cast(),
    };
    option(&socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program);
    option(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32);
    option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &(64_i32 << 20));
    option(&socket, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &libc::timeval { tv_sec: 0, tv_usec: 50_000 });
    // SAFETY: all zeros is a valid address of this plain type.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = u16::try_from(libc::AF_PACKET).expect("small");
    address.sll_protocol = u16::try_from(all).expect("16 bits");
    // SAFETY: a string with an end.
    address.sll_ifindex = i32::try_from(unsafe { libc::if_nametoindex(c"lo".as_ptr()) }).expect("small");
    let length = libc::socklen_t::try_from(size_of::<libc::sockaddr_ll>()).expect("small");
    // SAFETY: pointer and length describe `address`.
    let outcome = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
    ready();
    let mut buffer = vec![0_u8; 1 << 18];
    loop {
        let was_over = is_over();
        // SAFETY: the buffer is as long as is said.
        let got = unsafe {
            libc::recvfrom(
                socket.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                0,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        let at = i64::try_from(now.as_nanos()).expect("before 2262");
        match usize::try_from(got) {
            Ok(got) => {
                let (link, bytes) = (Link::Ethernet, &buffer[..got]);
                visit(Event::Frame(file::Frame { at, link, bytes, length: got }));
            }
            Err(_) if was_over => break,
            Err(_) => visit(Event::Tick(at)),
        }
    }
    counts(&socket)
}

/// Packets and drops that the kernel counted for `socket`.
fn counts(socket: &OwnedFd) -> Counts {
    // SAFETY: all zeros is a valid value of this plain type.
    let mut stats: libc::tpacket_stats = unsafe { std::mem::zeroed() };
    let mut length = libc::socklen_t::try_from(size_of::<libc::tpacket_stats>()).expect("small");
    // SAFETY: pointer and length describe `stats`.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut stats).cast(),
            &raw mut length,
        )
    };
    assert_eq!(outcome, 0);
    Counts { packets: stats.tp_packets.into(), drops: stats.tp_drops.into(), ..Counts::default() }
}

/// How packets come, and whether they are parsed or only touched.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Way {
    ring: Option<Shape>,
    parses: bool,
}

impl Way {
    fn name(self) -> String {
        let reader = self.ring.map_or("recvfrom".to_owned(), |shape| {
            format!("ring of {} x {} KiB, {} ms", shape.blocks, shape.block_bytes >> 10, shape.retire_ms)
        });
        format!("{reader}, {}", if self.parses { "parsed" } else { "not parsed" })
    }

    fn read(self, port: u16, ready: impl FnOnce(), is_over: impl Fn() -> bool, visit: impl FnMut(Event<'_>)) -> Counts {
        match self.ring {
            Some(shape) => read_ring(port, shape, ready, is_over, visit),
            None => read_by_recvfrom(port, ready, is_over, visit),
        }
    }

    /// Exchanges, drops and packets.
    fn observe(self, port: u16, ready: impl FnOnce(), is_over: impl Fn() -> bool) -> (u64, u64, u64) {
        if !self.parses {
            let (mut frames, mut sum) = (0, 0_u64);
            let counts = self.read(port, ready, is_over, |event| {
                if let Event::Frame(frame) = event {
                    frames += 1;
                    sum += u64::from(frame.bytes[0]) + u64::from(frame.bytes[frame.bytes.len() - 1]);
                }
            });
            std::hint::black_box(sum);
            return (0, counts.drops, frames);
        }
        let (mut observer, mut seen) = (Observer::new(Options::default()), HttpCounts::default());
        let counts = self.read(port, ready, is_over, |event| match event {
            Event::Frame(frame) => observer.frame(&frame, &mut seen),
            Event::Tick(at) => observer.tick(at, &mut seen),
        });
        observer.finish(&mut seen);
        (seen.answered, counts.drops, observer.totals().frames)
    }
}

/// CPU microseconds a packet under wrk's load.
fn round(nginx: &Nginx, way: Way) -> f64 {
    let (port, over, ready) = (nginx.port, AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let observer = scope.spawn(|| {
            // Opening is no packet's: it takes the kernel 1 to 100 ms to find 64 MiB, as fragmented as its memory is.
            let (before, opened) = (own(), Cell::new(0.0));
            // ORDERING: Relaxed throughout; flags on their own.
            let ready = || {
                opened.set(own());
                ready.store(true, Ordering::Relaxed);
            };
            let seen = way.observe(port, ready, || over.load(Ordering::Relaxed));
            (seen, own() - opened.get(), opened.get() - before)
        });
        let ending = Ending(&over);
        common::eventually("the socket is open", || ready.load(Ordering::Relaxed).then_some(()));
        let wrk = Command::new("wrk").args(["-t1", "-c16", "-d3s", &nginx.address("/")]).output();
        let wrk = wrk.expect("run scripts/need wrk");
        let text = String::from_utf8_lossy(&wrk.stdout).into_owned();
        drop(ending);
        let ((answered, drops, frames), cpu, opening) = observer.join().expect("it observes");
        let words: Vec<&str> = text.split_whitespace().collect();
        let requests = words.windows(3).find(|words| words[1..] == ["requests", "in"]).map_or("?", |words| words[0]);
        let each = cpu * 1e6 / frames as f64;
        println!(
            "{each:.3} us a packet, {frames} packets, {drops} dropped, wrk counts {requests} requests, {answered} seen, {:.1} ms to open: {}",
            opening * 1e3,
            way.name()
        );
        each
    })
}

/// The median, least and most of `values`.
fn spread(values: &[f64]) -> (f64, f64, f64) {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

/// The usual ring, and those that are named as `blocks,KiB,milliseconds`.
fn shapes() -> Vec<Shape> {
    let named = std::env::args().skip(1).filter(|argument| argument != "--bench").map(|argument| {
        let numbers: Vec<u32> = argument.split(',').map(|number| number.parse().expect("a number")).collect();
        let [blocks, kib, retire_ms] = numbers[..] else { panic!("{argument}: write blocks,KiB,milliseconds") };
        Shape { block_bytes: kib << 10, blocks, retire_ms }
    });
    std::iter::once(Shape::default()).chain(named).collect()
}

fn main() {
    let nginx = Nginx::start();
    let rings = shapes().into_iter().map(Some);
    let ways: Vec<Way> = std::iter::once(None)
        .chain(rings)
        .flat_map(|ring| [Way { ring, parses: true }, Way { ring, parses: false }])
        .collect();
    let mut figures = vec![Vec::new(); ways.len()];
    for _ in 0..ROUNDS {
        for (way, figures) in ways.iter().zip(&mut figures) {
            figures.push(round(&nginx, *way));
        }
    }
    for (way, own) in ways.iter().zip(&figures) {
        let ratios: Vec<f64> =
            own.iter().zip(&figures[usize::from(!way.parses)]).map(|(own, other)| own / other).collect();
        let ((each, low, high), (ratio, least, most)) = (spread(own), spread(&ratios));
        println!(
            "{each:.3} us a packet ({low:.3} to {high:.3}), {ratio:.2} of recvfrom ({least:.2} to {most:.2}): {}",
            way.name()
        );
    }
}
