//! Notifications of SNMP: traps are stored as they come, informs are answered when they are durable.
//!
//! Invariants: each datagram is stored, a duplicate, an exchange about our engine, or counted by reason. An inform is
//! answered when it is durable, or when it can never be stored; one that comes again, also to a server that was
//! restarted or killed meanwhile, counts once and is answered again. What had arrived when the server ends is still
//! stored.
//! Threads: a task for each socket, and one for each inform that waits for the store.
//! Limits: [`PENDING_BYTES`] of traps are stored at once; [`INFORMS`] wait for the store; those of [`Receiver`].
//! Failure: while the store has no room, datagrams wait in the receive buffer of the socket; what the kernel then drops
//! is counted.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use bytes::Bytes;
use nix::sys::socket::{setsockopt, sockopt};
use ogive_door::Door;
use ogive_door::counters::Protocol;
use ogive_door::numbers::Content;
use ogive_model::Tenant;
use ogive_probe::socket_drops;
use ogive_protocol::{Gather, fingerprint};
use ogive_snmp::{Access, Inform, Received, Receiver};
use ring::digest::{SHA256, digest};
use tokio::net::UdpSocket;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::Options;
use super::connection::until;
use super::durable::DurableStore;

/// 64 KiB: more than any datagram over IP has.
const DATAGRAM_BYTES_MAX: usize = 64 * 1024;

/// 256 datagrams are stored at once: an fsync costs each some microseconds.
const READS: usize = 256;

/// 65,536: at the end, what lies in the largest receive buffer.
const LAST_READS: usize = 65_536;

/// 150 s: an agent tries an inform three to five times within two minutes. One that starts again may count its requests
/// from 1.
const AGAIN_SECONDS: u32 = 150;

/// 4 MiB of texts are stored at once, far from the 32 MiB of a batch.
const PENDING_BYTES: usize = 4 << 20;

/// 256 informs wait for the store, with up to 64 KiB each and what is made of them: 64 MiB.
const INFORMS: usize = 256;

/// How soon what the kernel dropped is counted where nothing comes any more.
const PATIENCE: Duration = Duration::from_millis(100);

/// How files are read.
pub(super) type Read = fn(&Path) -> io::Result<Vec<u8>>;

const OWN_NAME: &str = "/proc/sys/kernel/hostname";

/// Who may send, and the engine that they send to.
pub(super) struct Logins {
    access: Access,
    engine: Vec<u8>,
}

impl Logins {
    /// What the options' file says.
    pub(super) fn open(options: &Options, read: Read) -> anyhow::Result<Self> {
        let access = match &options.snmp_traps_logins {
            None => Access::default(),
            Some(path) => {
                let named = || format!("--snmp-traps-logins {}", path.display());
                let text = String::from_utf8(read(path).with_context(named)?).with_context(named)?;
                Access::parse(&text, read).map_err(|sentence| anyhow!(sentence)).with_context(named)?
            }
        };
        Ok(Self { access, engine: engine_of(&read(Path::new(OWN_NAME)).unwrap_or_default()) })
    }
}

/// The engine of a host, the same after every start: RFC 3411, section 5, format 5, without an enterprise.
fn engine_of(host: &[u8]) -> Vec<u8> {
    let digest = digest(&SHA256, host.trim_ascii());
    [&[0x80, 0, 0, 0, 5][..], &digest.as_ref()[..16]].concat()
}

/// What the sockets share.
pub(super) struct Traps {
    durable: DurableStore,
    tenant: Tenant,
    receiver: Receiver,
    started_ns: u64,
    /// What an inform needs to wait for the store.
    room: Arc<Semaphore>,
}

impl Traps {
    pub(super) fn new(door: Arc<Door>, options: &Options, logins: Logins) -> anyhow::Result<Self> {
        let Logins { access, engine } = logins;
        let started_s = door.clock.wall().div_euclid(1_000_000_000);
        let receiver = Receiver::new(access, &engine, started_s).map_err(|sentence| anyhow!(sentence))?;
        tracing::info!("informs of SNMP v3 are for the engine {}", receiver.engine());
        Ok(Self {
            tenant: options.line_tenant.clone(),
            receiver,
            started_ns: door.clock.now(),
            room: Arc::new(Semaphore::new(INFORMS)),
            durable: DurableStore::new(door, Protocol::SnmpTraps, AGAIN_SECONDS),
        })
    }

    fn lost(&self, reason: &'static str, count: u64) {
        self.durable.ledger().unreadable(reason, count);
    }

    fn up_s(&self) -> u64 {
        self.durable.door.clock.now().saturating_sub(self.started_ns) / 1_000_000_000
    }

    /// Reads `socket` until the server ends.
    pub(super) async fn serve(self: Arc<Self>, socket: UdpSocket, ending: watch::Receiver<bool>) {
        let mut desk = Desk {
            traps: self,
            socket: Arc::new(socket),
            ending,
            informs: JoinSet::new(),
            gather: Gather::default(),
            bytes: 0,
            dropped: 0,
        };
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        loop {
            let reading = until(&desk.ending, desk.socket.recv_from(&mut buffer));
            let arrived = tokio::time::timeout(PATIENCE, reading).await;
            let is_last = matches!(arrived, Ok(None));
            match arrived {
                Ok(Some(Ok((length, from)))) => desk.take(&buffer[..length], from).await,
                Ok(Some(Err(_))) => desk.traps.lost("socket", 1),
                Ok(None) | Err(_) => {}
            }
            if is_last {
                desk.take_rest(&mut buffer).await;
            } else {
                desk.take_more(&mut buffer).await;
            }
            desk.store().await;
            desk.note_drops();
            while desk.informs.try_join_next().is_some() {}
            if is_last {
                break;
            }
        }
        while desk.informs.join_next().await.is_some() {}
    }

    /// Stores an inform, and answers it then.
    async fn acknowledge(&self, inform: &Inform, from: SocketAddr, socket: &UdpSocket, ending: &watch::Receiver<bool>) {
        let mut gather = Gather::default();
        match inform.notification.feed(self.durable.door.clock.wall(), &mut gather) {
            // It never can be stored: its sender need not try again.
            Err(fault) => self.lost(fault.as_str(), 1),
            Ok(_) => {
                let batch = gather.take(Default::default(), 0, &self.tenant);
                let fingerprint = || fingerprint(&self.tenant, "snmp_traps", &inform.identity(from.port()));
                let content = Content::from_any_batch(&batch, false, fingerprint);
                assert!(content.is_some(), "the batch has a sample");
                if !self.durable.store(batch, content, ending).await {
                    return;
                }
            }
        }
        let is_sent = match self.receiver.answer(inform, self.up_s()) {
            Some(answer) => socket.send_to(&answer, from).await.is_ok(),
            None => false,
        };
        if !is_sent {
            self.lost("answer_failed", 1);
        }
    }
}

/// One socket.
struct Desk {
    traps: Arc<Traps>,
    socket: Arc<UdpSocket>,
    ending: watch::Receiver<bool>,
    informs: JoinSet<()>,
    /// Traps that arrived and are not stored.
    gather: Gather,
    /// Of their texts.
    bytes: usize,
    /// What the kernel says that it dropped so far; it wraps.
    dropped: u32,
}

impl Desk {
    /// Takes [`READS`] datagrams that are there already.
    async fn take_more(&mut self, buffer: &mut [u8]) {
        for _ in 0..READS {
            let Ok((length, from)) = self.socket.try_recv_from(buffer) else { return };
            self.take(&buffer[..length], from).await;
        }
    }

    /// Takes what is there at the end, also what has come since the runtime looked.
    async fn take_rest(&mut self, buffer: &mut [u8]) {
        let Ok(socket) = self.socket.as_fd().try_clone_to_owned().map(std::net::UdpSocket::from) else {
            return self.traps.lost("socket", 1);
        };
        for _ in 0..LAST_READS {
            let Ok((length, from)) = socket.recv_from(buffer) else { return };
            self.take(&buffer[..length], from).await;
        }
        self.traps.lost("ended", 1);
    }

    async fn take(&mut self, datagram: &[u8], from: SocketAddr) {
        let traps = self.traps.clone();
        traps.durable.ledger().bytes.add(datagram.len() as u64);
        let sender = from.ip().to_canonical();
        match traps.receiver.receive(Bytes::copy_from_slice(datagram), sender, traps.up_s()) {
            Received::Trap(notification) => {
                match notification.feed(traps.durable.door.clock.wall(), &mut self.gather) {
                    Ok(bytes) => self.bytes += bytes,
                    Err(fault) => traps.lost(fault.as_str(), 1),
                }
            }
            Received::Inform(inform) => self.begin(inform, from),
            Received::Question(answer) => self.send(&answer, from),
            Received::Refused(refusal, report) => {
                traps.lost(refusal.as_str(), 1);
                if let Some(report) = report {
                    self.send(&report, from);
                }
            }
        }
        if self.bytes >= PENDING_BYTES {
            self.store().await;
        }
    }

    /// A report, which nobody stores: when the socket has no room for it, it is lost as any datagram may be.
    fn send(&self, datagram: &[u8], to: SocketAddr) {
        let _ = self.socket.try_send_to(datagram, to);
    }

    fn begin(&mut self, inform: Box<Inform>, from: SocketAddr) {
        let Ok(permit) = self.traps.room.clone().try_acquire_owned() else { return self.traps.lost("busy", 1) };
        let (traps, socket, ending) = (self.traps.clone(), self.socket.clone(), self.ending.clone());
        self.informs.spawn(async move {
            traps.acknowledge(&inform, from, &socket, &ending).await;
            drop(permit);
        });
    }

    /// Stores the traps. A trap never comes again: equal ones are traps of their own.
    async fn store(&mut self) {
        let count = self.gather.len() as u64;
        if count == 0 {
            return;
        }
        let batch = self.gather.take(Default::default(), 0, &self.traps.tenant);
        self.bytes = 0;
        if !self.traps.durable.store(batch, None, &self.ending).await {
            self.traps.lost("busy", count);
        }
    }

    fn note_drops(&mut self) {
        let Some(dropped) = socket_drops(self.socket.as_fd()) else { return };
        let more = dropped.wrapping_sub(self.dropped);
        if more > 0 {
            self.traps.lost("kernel_dropped", u64::from(more));
            self.dropped = dropped;
        }
    }
}

/// The socket for a task, with a receive buffer of so many bytes.
pub(super) fn socket(socket: std::net::UdpSocket, receive_buffer: usize) -> anyhow::Result<UdpSocket> {
    setsockopt(&socket, sockopt::RcvBuf, &receive_buffer).context("no receive buffer for notifications of SNMP")?;
    socket.set_nonblocking(true)?;
    Ok(UdpSocket::from_std(socket)?)
}

#[cfg(test)]
mod tests;
