//! Sockets of StatsD, Graphite, syslog, GELF, Beats, Fluent Forward and SNMP notifications.
//!
//! Invariants: everything that arrived before shutdown is stored before the store closes. Each line is either accepted
//! or counted by reason.
//! Threads: one per datagram socket (a task for notifications of SNMP); a task per connection; for each protocol
//! without acknowledgements one task that emits complete seconds and one that submits them to the store.
//! Belongs here: sockets, and turning received bytes into batches. Does not belong here: HTTP, and decoding of lines
//! (`ogive_protocol`).
//! Limits: the options limit connections and their idle time; see each module for its own.
#![forbid(unsafe_code)]

mod accept;
mod address;
mod beats;
mod connection;
mod datagram;
mod durable;
mod fluent;
mod gelf;
mod intake;
mod options;
mod shared_key;
mod snmp;
mod texts;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ogive_protocol::{statsd, syslog};
use ogive_stream::{Limits, Quantizer};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

pub use accept::Tls;
use accept::{Reader, TlsListener, take, tcp};
pub use address::Address;
use address::Socket;
use beats::Beats;
use connection::{LARGE_MESSAGES, Layout, Rules};
use fluent::Fluent;
use gelf::Gelf;
use intake::{Common, Graphite, Intake, Statsd};
use ogive_door::Door;
use ogive_door::counters::Protocol;
use ogive_door::outbox::Outbox;
pub use options::Options;
pub use shared_key::SharedKey;
use snmp::{Logins, Traps};
use texts::Texts;

/// Graphite's samples wait this long for company in their batch.
const GATHER: Duration = Duration::from_millis(100);

/// The sockets of one protocol.
struct Sockets {
    protocol: Protocol,
    sockets: Vec<Socket>,
}

/// Sockets that are bound and not read yet.
pub struct Bound {
    options: Options,
    protocols: Vec<Sockets>,
    logins: Logins,
}

/// Binds what the options name; `read` reads the files that they name.
pub fn bind(options: &Options, read: fn(&Path) -> io::Result<Vec<u8>>) -> anyhow::Result<Bound> {
    let logins = Logins::open(options, read)?;
    let mut protocols = Vec::new();
    for (protocol, option, addresses) in [
        (Protocol::Statsd, "--statsd", &options.statsd),
        (Protocol::Graphite, "--graphite", &options.graphite),
        (Protocol::Syslog, "--syslog", &options.syslog),
        (Protocol::Gelf, "--gelf", &options.gelf),
        (Protocol::Beats, "--beats", &options.beats),
        (Protocol::Fluent, "--fluent", &options.fluent),
        (Protocol::SnmpTraps, "--snmp-traps", &options.snmp_traps),
    ] {
        if matches!(protocol, Protocol::Statsd | Protocol::Graphite)
            && addresses.iter().any(|address| matches!(address, Address::Tls(_)))
        {
            anyhow::bail!("{option} is not taken with TLS; --syslog, --gelf, --beats and --fluent are");
        }
        let mut sockets = Vec::new();
        for address in addresses {
            sockets.extend(match protocol {
                Protocol::Beats | Protocol::Fluent => address.connections(option)?.bind(option)?,
                Protocol::SnmpTraps => address.datagrams(option)?.bind(option)?,
                _ => address.bind(option)?,
            });
        }
        if !sockets.is_empty() {
            let names: Vec<String> = sockets.iter().map(Socket::name).collect::<Result<_, _>>()?;
            tracing::info!("taking {} at {}", protocol.name(), names.join(" and "));
            protocols.push(Sockets { protocol, sockets });
        }
    }
    Ok(Bound { options: options.clone(), protocols, logins })
}

impl Bound {
    /// Whether anything is to be taken with TLS.
    #[must_use]
    pub fn needs_tls(&self) -> bool {
        self.protocols.iter().flat_map(|protocol| &protocol.sockets).any(|socket| matches!(socket, Socket::Tls(_)))
    }

    /// Begins to read. `tls` gives what a new connection is encrypted with.
    pub fn start(self, door: &Arc<Door>, runtime: &Handle, tls: Tls) -> anyhow::Result<Running> {
        let _inside = runtime.enter();
        let (end, ending) = watch::channel(false);
        let mut running =
            Running { stop: Arc::default(), end, threads: Vec::new(), tasks: JoinSet::new(), intakes: Vec::new(), tls };
        let mut logins = Some(self.logins);
        for Sockets { protocol, sockets } in self.protocols {
            if protocol == Protocol::SnmpTraps {
                let logins = logins.take().expect("a protocol has one entry");
                let traps = Arc::new(Traps::new(door.clone(), &self.options, logins)?);
                running.notifications(sockets, &traps, &self.options, &ending)?;
                continue;
            }
            if let Some(reader) = acknowledging(protocol, door, &self.options) {
                for socket in sockets {
                    running.connections(socket, reader.clone(), &self.options, &ending)?;
                }
                continue;
            }
            let outbox = Outbox::new(door.clone(), protocol, self.options.line_tenant.clone());
            let intake = intake(&self.options, door, protocol, &outbox);
            for socket in sockets {
                running.socket(socket, &self.options, protocol, &intake, &ending)?;
            }
            let (end_sending, sending) = watch::channel(false);
            let sender = tokio::spawn(outbox.clone().run(sending));
            let handing = tokio::spawn(hand_on(door.clone(), intake.clone(), outbox.clone(), protocol));
            running.intakes.push(Pipeline { intake, outbox, end_sending, sender, handing });
        }
        Ok(running)
    }
}

/// What reads the connections of a protocol with acknowledgements.
fn acknowledging(protocol: Protocol, door: &Arc<Door>, options: &Options) -> Option<Reader> {
    match protocol {
        Protocol::Beats => Some(Reader::Beats(Arc::new(Beats::new(door.clone(), options)))),
        Protocol::Fluent => Some(Reader::Fluent(Arc::new(Fluent::new(door.clone(), options)))),
        _ => None,
    }
}

fn intake(options: &Options, door: &Arc<Door>, protocol: Protocol, outbox: &Arc<Outbox>) -> Arc<dyn Intake> {
    let common = Common { clock: door.clock, counters: door.counters.clone(), protocol, outbox: outbox.clone() };
    match protocol {
        Protocol::Graphite => return Arc::new(Graphite::new(common, options.line_names)),
        Protocol::Syslog => return Arc::new(Texts::new(common, syslog::feed)),
        Protocol::Gelf => return Arc::new(Gelf::new(common)),
        _ => {}
    }
    let lines = statsd::Options {
        names: options.line_names,
        comma_lists: options.statsd_comma_lists,
        signed_gauges: options.statsd_signed_gauges,
    };
    let limits = Limits { series: options.statsd_series, ..Limits::default() };
    Arc::new(Statsd::new(common, lines, Quantizer::new(limits)))
}

/// Hands on what is complete: cells when their second is over, samples after a short wait.
async fn hand_on(door: Arc<Door>, intake: Arc<dyn Intake>, outbox: Arc<Outbox>, protocol: Protocol) {
    const SECOND_NS: i64 = 1_000_000_000;
    loop {
        let pause = match protocol {
            // A millisecond into the next second, so that a clock that is adjusted does not wake us before it.
            Protocol::Statsd => {
                let left = SECOND_NS - door.clock.wall().rem_euclid(SECOND_NS);
                Duration::from_nanos(left as u64) + Duration::from_millis(1)
            }
            _ => GATHER,
        };
        tokio::time::sleep(pause).await;
        intake.hand_on(&outbox, false);
    }
}

/// One protocol's way from the sockets to the store.
struct Pipeline {
    intake: Arc<dyn Intake>,
    outbox: Arc<Outbox>,
    end_sending: watch::Sender<bool>,
    sender: tokio::task::JoinHandle<()>,
    handing: tokio::task::JoinHandle<()>,
}

/// Sockets that are read.
pub struct Running {
    stop: Arc<AtomicBool>,
    end: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
    tasks: JoinSet<()>,
    intakes: Vec<Pipeline>,
    tls: Tls,
}

impl Running {
    fn socket(
        &mut self,
        socket: Socket,
        options: &Options,
        protocol: Protocol,
        intake: &Arc<dyn Intake>,
        ending: &watch::Receiver<bool>,
    ) -> anyhow::Result<()> {
        if matches!(socket, Socket::Udp(_) | Socket::UnixDatagram(..)) {
            let buffer = usize::try_from(options.line_receive_buffer).unwrap_or(usize::MAX);
            self.threads.push(datagram::start(socket, buffer, intake.clone(), self.stop.clone())?);
            return Ok(());
        }
        let layout = match (protocol, &socket) {
            (Protocol::Syslog, _) => Layout::Syslog,
            (Protocol::Gelf, _) => Layout::Gelf,
            (_, Socket::UnixStream(..)) => Layout::LinesOrFrames,
            _ => Layout::Lines,
        };
        let rules = Rules { layout, idle: options.idle(), large: Arc::new(Semaphore::new(LARGE_MESSAGES)) };
        self.connections(socket, Reader::Lines(intake.clone(), rules), options, ending)
    }

    /// Takes notifications of SNMP.
    fn notifications(
        &mut self,
        sockets: Vec<Socket>,
        traps: &Arc<Traps>,
        options: &Options,
        ending: &watch::Receiver<bool>,
    ) -> anyhow::Result<()> {
        for socket in sockets {
            let Socket::Udp(socket) = socket else { anyhow::bail!("notifications come in datagrams over UDP") };
            let buffer = usize::try_from(options.line_receive_buffer).unwrap_or(usize::MAX);
            self.tasks.spawn(traps.clone().serve(snmp::socket(socket, buffer)?, ending.clone()));
        }
        Ok(())
    }

    /// Takes connections of a socket that has them.
    fn connections(
        &mut self,
        socket: Socket,
        reader: Reader,
        options: &Options,
        ending: &watch::Receiver<bool>,
    ) -> anyhow::Result<()> {
        let (limit, ending) = (Arc::new(Semaphore::new(options.line_connections)), ending.clone());
        match socket {
            Socket::Udp(_) | Socket::UnixDatagram(..) => anyhow::bail!("a socket of datagrams has no connections"),
            Socket::Tcp(listener) => self.tasks.spawn(take(tcp(listener)?, limit, reader, ending)),
            Socket::Tls(listener) => {
                let listener = TlsListener { listener: tcp(listener)?, tls: self.tls.clone() };
                self.tasks.spawn(take(listener, limit, reader, ending))
            }
            Socket::UnixStream(listener, _) => {
                listener.set_nonblocking(true)?;
                let listener = tokio::net::UnixListener::from_std(listener)?;
                self.tasks.spawn(take(listener, limit, reader, ending))
            }
        };
        Ok(())
    }

    /// Takes what has arrived, and returns when it is stored.
    pub async fn stop(mut self) {
        // ORDERING: Release; pairs with the Acquire of the datagram threads.
        self.stop.store(true, Ordering::Release);
        let _ = self.end.send(true);
        let threads = std::mem::take(&mut self.threads);
        let joined = tokio::task::spawn_blocking(move || threads.into_iter().for_each(|thread| drop(thread.join())));
        let _ = joined.await;
        while self.tasks.join_next().await.is_some() {}
        for way in self.intakes {
            way.handing.abort();
            let _ = way.handing.await;
            way.intake.hand_on(&way.outbox, true);
            let _ = way.end_sending.send(true);
            let _ = way.sender.await;
        }
    }
}
