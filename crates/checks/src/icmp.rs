//! Ping: ICMP echo over an unprivileged socket where the kernel allows it for this group, otherwise over a raw socket.
//!
//! Format: each reply's time is a latency of the phase `echo`; `ogive_check_icmp_lost` is the number of pings of the
//! run without a reply. A run is up when at least one reply arrived.
//! Failure: when neither socket is allowed, the error names the setting to change.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
use ogive_probe::Clock;
use tokio::net::UdpSocket;

use super::entropy;
use super::net::Network;
use super::run::{Failure, Reason, Run};

/// Pings of one run are this far apart, as those of `ping -A` at most.
const APART: Duration = Duration::from_millis(100);
/// Type, code, checksum, identifier, sequence.
const HEAD: usize = 8;
/// 56 bytes, as `ping` sends.
const BODY: usize = 56;
/// The longest head of IPv4, which raw sockets show, and ours.
const ANSWER_BYTES: usize = 60 + HEAD + BODY;

struct Socket {
    socket: UdpSocket,
    is_raw: bool,
    is_v6: bool,
}

pub(super) async fn run(
    network: &Network,
    run: &mut Run,
    host: &str,
    count: u32,
    timeout: Duration,
    clock: Clock,
) -> Result<(), Failure> {
    let address = network.resolve(run, host, 0).await?[0].ip();
    run.phase("wait");
    let socket = Socket::open(address)?;
    let identifier = u16::from_ne_bytes(entropy::bytes()?);
    let token = u64::from_ne_bytes(entropy::bytes()?);
    // What is left of the time, shared among the pings: one that is lost must not cost the others theirs.
    let patience = timeout.mul_f64(0.9 / f64::from(count)).saturating_sub(APART.min(timeout / (4 * count)));
    let (mut lost, mut last) = (0, None);
    for sequence in 0..count {
        if sequence > 0 {
            tokio::time::sleep(APART.min(timeout / (4 * count))).await;
        }
        let request = message(socket.is_v6, identifier, sequence as u16, token);
        let from = clock.now();
        let answered = tokio::time::timeout(patience, socket.echo(address, &request)).await;
        match answered {
            Ok(Ok(())) => run.latency("echo", clock.now().saturating_sub(from)),
            Ok(Err(failure)) => {
                lost += 1;
                last = Some(failure);
            }
            Err(_) => lost += 1,
        }
    }
    run.gauge("ogive_check_icmp_lost", "", f64::from(lost));
    if lost < count {
        return Ok(());
    }
    Err(last.unwrap_or_else(|| Failure::new(Reason::Timeout, format!("none of {count} pings came back"))))
}

impl Socket {
    fn open(address: IpAddr) -> Result<Self, Failure> {
        let is_v6 = address.is_ipv6();
        let (family, protocol) = match is_v6 {
            true => (AddressFamily::Inet6, SockProtocol::IcmpV6),
            false => (AddressFamily::Inet, SockProtocol::Icmp),
        };
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let open = |kind| socket(family, kind, flags, protocol);
        let (fd, is_raw) = match open(SockType::Datagram) {
            Ok(fd) => (fd, false),
            Err(_) => (open(SockType::Raw).map_err(forbidden)?, true),
        };
        let socket = from_fd(fd).map_err(|error| Failure::new(Reason::Local, error.to_string()))?;
        Ok(Self { socket, is_raw, is_v6 })
    }

    /// Sends a request and waits for its answer.
    async fn echo(&self, to: IpAddr, request: &[u8]) -> Result<(), Failure> {
        self.socket.send_to(request, SocketAddr::new(to, 0)).await?;
        let mut bytes = [0; ANSWER_BYTES];
        loop {
            let (length, from) = self.socket.recv_from(&mut bytes).await?;
            // A raw socket shows the answers to everybody's pings.
            if from.ip() == to && self.is_answer(&bytes[..length], request) {
                return Ok(());
            }
        }
    }

    fn is_answer(&self, bytes: &[u8], request: &[u8]) -> bool {
        let message = match (self.is_raw, self.is_v6) {
            (true, false) => without_head(bytes),
            _ => Some(bytes),
        };
        message.is_some_and(|message| is_answer(message, request, self.is_v6, self.is_raw))
    }
}

/// A socket for pings is one for datagrams to the runtime.
fn from_fd(fd: OwnedFd) -> std::io::Result<UdpSocket> {
    UdpSocket::from_std(std::net::UdpSocket::from(fd))
}

fn forbidden(error: Errno) -> Failure {
    let sentence = match error {
        Errno::EPERM | Errno::EACCES => {
            let group = nix::unistd::getegid();
            format!(
                "the kernel does not let this process ping: run `sysctl -w net.ipv4.ping_group_range=\"{group} {group}\"` \
                 (its group, also for IPv6), or give it CAP_NET_RAW (AmbientCapabilities=CAP_NET_RAW of systemd)"
            )
        }
        other => other.to_string(),
    };
    Failure::new(Reason::Local, sentence)
}

/// An echo request.
pub(super) fn message(is_v6: bool, identifier: u16, sequence: u16, token: u64) -> Vec<u8> {
    let mut out = vec![if is_v6 { 128 } else { 8 }, 0, 0, 0];
    out.extend(identifier.to_be_bytes());
    out.extend(sequence.to_be_bytes());
    out.extend(token.to_be_bytes().iter().cycle().take(BODY));
    if !is_v6 {
        // That of version 6 covers addresses, and is the kernel's.
        let sum = checksum(&out).to_be_bytes();
        out[2..4].copy_from_slice(&sum);
    }
    out
}

/// The one's complement of the sum of all 16-bit words (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// What stands behind the head of an IPv4 packet.
pub(super) fn without_head(packet: &[u8]) -> Option<&[u8]> {
    let length = usize::from(packet.first()? & 0xf) * 4;
    packet.get(length..)
}

/// Whether a message is the answer to `request`. The kernel writes its own identifier into those of sockets without
/// rights.
pub(super) fn is_answer(message: &[u8], request: &[u8], is_v6: bool, with_identifier: bool) -> bool {
    let kind = if is_v6 { 129 } else { 0 };
    let same = |from: usize, to: usize| message.get(from..to) == request.get(from..to);
    message.len() == request.len()
        && message[0] == kind
        && (!with_identifier || same(4, 6))
        && same(6, 8)
        && message[HEAD..] == request[HEAD..]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_request_sums_to_nothing() {
        let request = message(false, 0x1234, 7, 0x0102_0304_0506_0708);
        assert_eq!((request.len(), checksum(&request)), (HEAD + BODY, 0));
        // The example of RFC 1071, section 3.
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    }

    #[test]
    fn only_its_own_answer_is_one() {
        let request = message(false, 1, 2, 3);
        let mut answer = request.clone();
        answer[0] = 0;
        assert!(is_answer(&answer, &request, false, true));
        for other in [message(false, 9, 2, 3), message(false, 1, 9, 3), message(false, 1, 2, 9)] {
            let mut other = other;
            other[0] = 0;
            assert!(!is_answer(&other, &request, false, true));
        }
        assert!(!is_answer(&request, &request, false, true), "a request is no answer");
        let mut renumbered = answer.clone();
        renumbered[4..6].copy_from_slice(&[9, 9]);
        assert!(is_answer(&renumbered, &request, false, false));
        assert!(!is_answer(&answer, &request, true, true));
        let packet = [&[0x45][..], &[0; 19], &answer].concat();
        assert_eq!(without_head(&packet), Some(&answer[..]));
    }

    proptest! {
        #[test]
        fn anything_may_come(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let request = message(false, 1, 2, 3);
            let _ = without_head(&bytes).map(|message| is_answer(message, &request, false, true));
        }
    }
}
