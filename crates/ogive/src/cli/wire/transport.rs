//! What TCP and TLS show of a service, whatever it speaks.

use std::collections::BTreeMap;

use ogive_wire::{Side, TcpEvent, TlsEnd, TlsEvent, TlsHandshake};

use super::export::Export;
use super::series::{Count, Durations};

/// Server names, versions and protocols of TLS that have rows of their own at a service: clients choose the names.
const MAX_NAMES: usize = 100;

const OTHER: &str = "other";

/// The measurements of a service's connections.
#[derive(Debug)]
pub(super) struct Transport {
    /// From SYN to SYN/ACK.
    pub(super) connect: Durations,
    /// From a client's last byte to the server's first, where the protocol is not known.
    pub(super) first_byte: Durations,
    retransmissions: [Count; 2],
    resets: [Count; 2],
    zero_windows: [Count; 2],
    pub(super) tls: BTreeMap<TlsKey, TlsRow>,
    tls_bytes: [Count; 2],
    pub(super) tls_failed: BTreeMap<TlsEnd, Count>,
    expiries: BTreeMap<String, Count>,
}

/// The parameters that a handshake negotiated.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TlsKey {
    pub(super) server_name: String,
    pub(super) version: &'static str,
    pub(super) alpn: String,
}

impl TlsKey {
    /// For a connection whose handshake was not seen, everything is empty.
    fn from_handshake(handshake: Option<&TlsHandshake>) -> Self {
        let Some(handshake) = handshake else { return Self::default() };
        let alpn = match (handshake.alpn.as_str(), handshake.is_alpn_chosen) {
            (alpn, true) | (alpn @ "", false) => alpn.to_owned(),
            (alpn, false) => format!("offered {alpn}"),
        };
        Self {
            server_name: handshake.server_name.clone(),
            version: handshake.version.map_or("", ogive_wire::TlsVersion::name),
            alpn,
        }
    }
}

/// The measurements of TLS.
#[derive(Debug)]
pub(super) struct TlsRow {
    /// From the ClientHello to the later Finished.
    pub(super) handshake: Durations,
    /// From a client's last byte to the server's first.
    pub(super) turn: Durations,
    /// When the certificate expires, seconds after 1970.
    pub(super) expires: Option<i64>,
}

const SIDES: [&str; 2] = ["client", "server"];

impl Transport {
    pub(super) fn new(export: Option<&Export>, service: &str) -> Self {
        let sides = |name: &str| SIDES.map(|side| Count::new(export, name, &[("service", service), ("side", side)]));
        Self {
            connect: Durations::new(export, "ogive_wire_tcp_connect_seconds", &[("service", service)]),
            first_byte: Durations::new(export, "ogive_wire_tcp_first_byte_seconds", &[("service", service)]),
            retransmissions: sides("ogive_wire_tcp_retransmissions_total"),
            resets: sides("ogive_wire_tcp_resets_total"),
            zero_windows: sides("ogive_wire_tcp_zero_windows_total"),
            tls: BTreeMap::new(),
            tls_bytes: sides("ogive_wire_tls_bytes_total"),
            tls_failed: BTreeMap::new(),
            expiries: BTreeMap::new(),
        }
    }

    pub(super) fn tcp(&mut self, event: TcpEvent) {
        let at = |side: Side| side.index();
        match event {
            TcpEvent::FirstByte(nanos) => drop(self.first_byte.record(nanos)),
            TcpEvent::Retransmission(side) => self.retransmissions[at(side)].add(1),
            TcpEvent::Reset(side) => self.resets[at(side)].add(1),
            TcpEvent::ZeroWindow(side) => self.zero_windows[at(side)].add(1),
        }
    }

    pub(super) fn tls(&mut self, export: Option<&Export>, service: &str, event: &TlsEvent<'_>) {
        match event {
            TlsEvent::Handshake(handshake) if handshake.end == TlsEnd::Done => {
                let row = self.tls_row(export, service, Some(*handshake));
                row.handshake.record(handshake.nanos);
                row.expires = handshake.expires.or(row.expires);
                self.expiry(export, service, handshake);
            }
            TlsEvent::Handshake(handshake) => {
                let labels = [("service", service), ("why", handshake.end.name())];
                let new = || Count::new(export, "ogive_wire_tls_failed_handshakes_total", &labels);
                self.tls_failed.entry(handshake.end).or_insert_with(new).add(1);
            }
            TlsEvent::Turn { nanos, handshake, .. } => {
                self.tls_row(export, service, *handshake).turn.record(*nanos);
            }
            TlsEvent::Bytes(bytes) => self.tls_bytes.iter().zip(bytes).for_each(|(count, more)| count.add(*more)),
        }
    }

    /// Bytes that TLS connections carried, of clients and of servers.
    pub(super) fn tls_bytes(&self) -> [u64; 2] {
        self.tls_bytes.each_ref().map(Count::get)
    }

    /// Retransmitted segments, resets and zero windows, of both sides.
    pub(super) fn troubles(&self) -> [u64; 3] {
        [&self.retransmissions, &self.resets, &self.zero_windows].map(|counts| counts.iter().map(Count::get).sum())
    }

    fn tls_row(&mut self, export: Option<&Export>, service: &str, handshake: Option<&TlsHandshake>) -> &mut TlsRow {
        let mut key = TlsKey::from_handshake(handshake);
        if self.tls.len() >= MAX_NAMES && !self.tls.contains_key(&key) {
            key = TlsKey { server_name: OTHER.to_owned(), version: OTHER, alpn: OTHER.to_owned() };
        }
        let TlsKey { server_name, version, alpn } = key.clone();
        self.tls.entry(key).or_insert_with(|| {
            let labels = [("service", service), ("server_name", &*server_name), ("version", version), ("alpn", &*alpn)];
            TlsRow {
                handshake: Durations::new(export, "ogive_wire_tls_handshake_seconds", &labels),
                turn: Durations::new(export, "ogive_wire_tls_turn_seconds", &labels),
                expires: None,
            }
        })
    }

    /// The last certificate of a name is the one that counts.
    fn expiry(&mut self, export: Option<&Export>, service: &str, handshake: &TlsHandshake) {
        let Some(expires) = handshake.expires.and_then(|expires| u64::try_from(expires).ok()) else { return };
        let name = &handshake.server_name;
        if !self.expiries.contains_key(name) {
            if self.expiries.len() >= MAX_NAMES {
                return;
            }
            let count = Count::default();
            if let Some(export) = export {
                let labels = [("service", service), ("server_name", name.as_str())];
                count.send_as_state(export, "ogive_wire_tls_certificate_expiry_timestamp_seconds", &labels);
            }
            self.expiries.insert(name.clone(), count);
        }
        self.expiries[name].set(expires);
    }
}
