//! Datagrams, received many at a time.
//!
//! Invariants: a datagram longer than [`DATAGRAM_BYTES_MAX`] is cut at that length, and its incomplete last line is
//! counted as truncated. Datagrams that the kernel dropped because the receive buffer was full are counted too, within
//! [`PATIENCE`] of silence, whether or not another datagram arrives.
//! Threads: one per socket. When asked to stop, it reads what has already arrived and ends.
//! Limits: [`DATAGRAMS`] at a time.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, MultiHeaders, recvmmsg, setsockopt, sockopt};

use super::address::Socket;
use super::intake::Intake;
use ogive_probe::socket_drops;
use ogive_protocol::lines::Fault;

/// 64 KiB: more than any datagram over IP has.
const DATAGRAM_BYTES_MAX: usize = 64 * 1024;

/// 16 buffers are a megabyte, and one system call for 16 datagrams.
const DATAGRAMS: usize = 16;

/// How soon a silent socket hears that it is to stop.
const PATIENCE: Duration = Duration::from_millis(100);

/// What was sent before the end and lies in the largest receive buffer.
const LAST_READS: usize = 4_096;

/// A socket's file descriptor, whatever kind it is.
trait Descriptor: AsFd + AsRawFd + Send + 'static {}
impl<T: AsFd + AsRawFd + Send + 'static> Descriptor for T {}

/// Starts to read `socket`, which is one of datagrams.
pub(super) fn start(
    socket: Socket,
    receive_buffer: usize,
    intake: Arc<dyn Intake>,
    stop: Arc<AtomicBool>,
) -> anyhow::Result<JoinHandle<()>> {
    let name = socket.name()?;
    let socket: Box<dyn Descriptor> = match socket {
        Socket::Udp(socket) => {
            socket.set_read_timeout(Some(PATIENCE))?;
            Box::new(socket)
        }
        Socket::UnixDatagram(socket, _) => {
            socket.set_read_timeout(Some(PATIENCE))?;
            Box::new(socket)
        }
        Socket::Tcp(_) | Socket::Tls(_) | Socket::UnixStream(..) => unreachable!("{name} is a stream"),
    };
    let descriptor: BorrowedFd<'_> = (*socket).as_fd();
    setsockopt(&descriptor, sockopt::RcvBuf, &receive_buffer)
        .with_context(|| format!("no receive buffer for {name}"))?;
    // Sockets of the file system block their senders instead of dropping; some kernels then do not know the option.
    let _ = setsockopt(&descriptor, sockopt::RxqOvfl, &1);
    let run = move || {
        let mut receiver = Receiver { socket, buffers: vec![0; DATAGRAMS * DATAGRAM_BYTES_MAX], dropped: 0 };
        while !stop.load(Ordering::Acquire) {
            receiver.receive(&*intake, MsgFlags::MSG_WAITFORONE);
        }
        // ORDERING: Acquire above; pairs with the Release in `Running::stop`: the senders' last datagrams are here.
        for _ in 0..LAST_READS {
            if !receiver.receive(&*intake, MsgFlags::MSG_DONTWAIT) {
                break;
            }
        }
    };
    std::thread::Builder::new().name("datagrams".into()).spawn(run).context("cannot start a thread")
}

struct Receiver {
    socket: Box<dyn Descriptor>,
    buffers: Vec<u8>,
    /// What the kernel says that it dropped so far; it wraps.
    dropped: u32,
}

impl Receiver {
    /// Takes the datagrams that are there, and waits for one if the flags say so. False when there was none.
    fn receive(&mut self, intake: &dyn Intake, flags: MsgFlags) -> bool {
        let mut slices: Vec<[IoSliceMut<'_>; 1]> =
            self.buffers.chunks_mut(DATAGRAM_BYTES_MAX).map(|buffer| [IoSliceMut::new(buffer)]).collect();
        // Made anew each time: the kernel writes into it how much room it used.
        let mut headers = MultiHeaders::<()>::preallocate(DATAGRAMS, Some(cmsg_space!(u32)));
        let received = match recvmmsg(self.socket.as_raw_fd(), &mut headers, slices.iter_mut(), flags, None) {
            Ok(received) => received,
            Err(Errno::EAGAIN | Errno::EINTR) => {
                self.look_for_drops(intake);
                return false;
            }
            Err(error) => {
                // An error that was kept for the socket, such as an ICMP answer; the next call is without it.
                intake.lost("socket", 1);
                debug_assert!(error != Errno::EBADF, "the socket is open");
                return false;
            }
        };
        let mut dropped = self.dropped;
        for message in received {
            for control in message.cmsgs().into_iter().flatten() {
                if let ControlMessageOwned::RxqOvfl(count) = control {
                    dropped = count;
                }
            }
            let is_cut = message.flags.contains(MsgFlags::MSG_TRUNC);
            for bytes in message.iovs() {
                take(intake, bytes, is_cut);
            }
        }
        self.note_drops(dropped, intake);
        true
    }

    /// Asks the socket: what the kernel dropped after the last datagram in the queue comes with no datagram.
    fn look_for_drops(&mut self, intake: &dyn Intake) {
        if let Some(dropped) = socket_drops((*self.socket).as_fd()) {
            self.note_drops(dropped, intake);
        }
    }

    /// Counts what is new. A datagram brings the count of when it was queued, which can be behind what the socket said
    /// since.
    fn note_drops(&mut self, dropped: u32, intake: &dyn Intake) {
        let more = dropped.wrapping_sub(self.dropped);
        if (1..=u32::MAX / 2).contains(&more) {
            intake.lost("kernel_dropped", u64::from(more));
            self.dropped = dropped;
        }
    }
}

/// Hands a datagram on, without the rest of a line that was cut off.
fn take(intake: &dyn Intake, bytes: &[u8], is_cut: bool) {
    let whole = match is_cut {
        false => bytes,
        true => {
            intake.lost(Fault::Cut.as_str(), 1);
            &bytes[..bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)]
        }
    };
    intake.take_datagram(whole);
}
