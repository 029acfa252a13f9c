//! What does a packet cost on its way from the kernel through the parser: in the ring, and by `recvfrom`, under wrk's load on nginx?
//!
//! `cargo bench -p ogive-capture --bench live` (as root). Both sides run in turn under the same load, on a thread whose CPU time the
//! scheduler counts; both let the kernel pass one port and loopback's packets once.
#![allow(unsafe_code, reason = "the other side is a bare packet socket")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Ending, Nginx, Seen, observe};
use ogive_capture::{Counts, Filter};
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

/// The same observer over `recvfrom`, a packet a call, with the kernel's default buffer set to 64 MiB.
fn observe_by_recvfrom(port: u16, ready: impl FnOnce(), is_over: impl Fn() -> bool) -> (Seen, Counts, u64) {
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
    let (mut observer, mut seen, mut buffer) =
        (Observer::new(Options::default()), Seen::default(), vec![0_u8; 1 << 18]);
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
                let frame = file::Frame { at, link: Link::Ethernet, bytes: &buffer[..got], length: got };
                observer.frame(&frame, &mut seen);
            }
            Err(_) if was_over => break,
            Err(_) => observer.tick(at, &mut seen),
        }
    }
    observer.finish(&mut seen);
    let counts = counts(&socket);
    (seen, counts, observer.totals().frames)
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

/// CPU microseconds a packet under wrk's load.
fn round(name: &str, nginx: &Nginx, is_ring: bool) -> f64 {
    let (port, over, ready) = (nginx.port, AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let observer = scope.spawn(|| {
            // ORDERING: Relaxed throughout; flags on their own.
            let (ready, is_over) = (|| ready.store(true, Ordering::Relaxed), || over.load(Ordering::Relaxed));
            let before = own();
            let seen = if is_ring { observe(port, ready, is_over) } else { observe_by_recvfrom(port, ready, is_over) };
            (seen, own() - before)
        });
        let ending = Ending(&over);
        common::eventually("the socket is open", || ready.load(Ordering::Relaxed).then_some(()));
        let wrk = Command::new("wrk").args(["-t1", "-c16", "-d3s", &nginx.address("/")]).output();
        let wrk = wrk.expect("run scripts/need wrk");
        let text = String::from_utf8_lossy(&wrk.stdout).into_owned();
        drop(ending);
        let ((seen, counts, frames), cpu) = observer.join().expect("it observes");
        let words: Vec<&str> = text.split_whitespace().collect();
        let requests = words.windows(3).find(|words| words[1..] == ["requests", "in"]).map_or("?", |words| words[0]);
        let each = cpu * 1e6 / frames as f64;
        println!(
            "{name:9} {each:.3} us a packet, {frames} packets, {} dropped; wrk counts {requests} requests, {} seen",
            counts.drops, seen.answered
        );
        each
    })
}

fn main() {
    let nginx = Nginx::start();
    let (mut rings, mut calls, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (ring, call) = (round("ring", &nginx, true), round("recvfrom", &nginx, false));
        rings.push(ring);
        calls.push(call);
        ratios.push(ring / call);
    }
    for values in [&mut rings, &mut calls, &mut ratios] {
        values.sort_by(f64::total_cmp);
    }
    println!(
        "ring {:.3} us a packet, recvfrom {:.3}: {:.2} of it ({:.2} to {:.2})",
        rings[ROUNDS / 2],
        calls[ROUNDS / 2],
        ratios[ROUNDS / 2],
        ratios[0],
        ratios[ROUNDS - 1]
    );
}
