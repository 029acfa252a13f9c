//! Targets from records of DNS: `dns_sd_configs`, as Prometheus asks for them.
//!
//! Each name is a query of its own: the servers of the system are asked in turn until one knows, over UDP, and over TCP
//! where an answer does not fit. A name that does not exist has no targets.
//! Limits: [`UDP_BYTES`] for an answer over UDP, the protocol's 64 KiB over TCP; [`ANSWER`] for each.
//! Failure: no server knows an answer; the targets of the name stay as they were.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use ring::rand::{SecureRandom as _, SystemRandom};
use simple_dns::rdata::{OPT, RData};
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};
use tokio::sync::watch;

use super::answers::{Answers, Task, Watcher, ticks};
use crate::config::{DnsSource, Group, RecordKind, Text};
use crate::target::{TARGETS_MAX, host_and_port};
use ogive_outgoing::{Files, Resolver, datagrams, dns_over_tcp};

/// The file of the system's resolver. It is read for each lookup: whoever renews an address rewrites it.
const RESOLVER: &str = "/etc/resolv.conf";
/// 4 KiB, as Prometheus offers to servers; what is larger is asked for over TCP.
const UDP_BYTES: u16 = 4096;
/// 2 s for an answer of one server, as in Prometheus.
const ANSWER: Duration = Duration::from_secs(2);
const PORT: u16 = 53;

/// One record that leads to a target. Names are complete but for their last dot.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Record {
    Address(IpAddr),
    Mx(String),
    Ns(String),
    Srv(String, u16),
}

/// A server's response.
#[derive(Debug, PartialEq, Eq)]
enum Response {
    /// It belongs to another question.
    Other,
    /// It does not fit into a datagram.
    Cut,
    /// The name does not exist.
    Missing,
    Found(Vec<Record>),
}

/// Looks up every name of `source` at its interval.
pub(super) fn watch(source: &DnsSource, job: &str, files: Files) -> Watcher {
    let mut answers = Answers::new(job, TARGETS_MAX);
    source.names.iter().for_each(|name| answers.expect(name));
    let (sender, receiver) = watch::channel(answers);
    let task = |name: &String| {
        let (source, name, sender) = (source.clone(), name.clone(), sender.clone());
        Task::spawn(async move {
            let mut ticks = ticks(source.refresh);
            loop {
                ticks.tick().await;
                let found = lookup(files, &name, source.kind).await;
                let groups = found.map(|found| {
                    let groups = found.iter().map(|record| group(&name, source.port, record));
                    Some(groups.collect())
                });
                // It is asked again in any case.
                sender.send_modify(|answers| _ = answers.take(&name, groups));
            }
        })
    };
    let tasks = source.names.iter().map(task).collect();
    Watcher::new(receiver, tasks)
}

/// The records of `name`: the first answer below any domain; none if the name is known to exist nowhere.
async fn lookup(files: Files, name: &str, kind: RecordKind) -> Result<Vec<Record>, String> {
    let text = files.read(Path::new(RESOLVER)).await?;
    let resolver = Resolver::parse(&String::from_utf8_lossy(&text));
    if resolver.servers.is_empty() {
        return Err(format!("{RESOLVER} names no server"));
    }
    let mut failure = None;
    for complete in resolver.names(name) {
        match any(&resolver.servers, &complete, kind).await {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => {}
            // A later domain may have it; without one, nobody knows that it does not exist.
            Err(error) => failure = Some(error),
        }
    }
    failure.map_or_else(|| Ok(Vec::new()), Err)
}

/// The answer of the first server that has one; none if the name does not exist.
async fn any(servers: &[IpAddr], name: &str, kind: RecordKind) -> Result<Option<Vec<Record>>, String> {
    let mut failure = String::new();
    for server in servers {
        let server = SocketAddr::new(*server, PORT);
        match ask(server, name, kind).await {
            Ok(Response::Found(records)) => return Ok(Some(records)),
            Ok(Response::Missing) => return Ok(None),
            Ok(Response::Cut | Response::Other) => failure = format!("{server}: {name}: the answer is not complete"),
            Err(error) => failure = format!("{server}: {name}: {error}"),
        }
    }
    Err(failure)
}

async fn ask(server: SocketAddr, name: &str, kind: RecordKind) -> Result<Response, String> {
    let id = number()?;
    let late = |_| format!("no answer within {} s", ANSWER.as_secs());
    let asked = question(id, name, kind, true)?;
    match tokio::time::timeout(ANSWER, over_udp(server, id, &asked)).await.map_err(late)?? {
        Response::Cut => {
            let asked = question(id, name, kind, false)?;
            tokio::time::timeout(ANSWER, over_tcp(server, id, &asked)).await.map_err(late)?
        }
        other => Ok(other),
    }
}

/// A number that nobody can guess: an answer of somebody else does not have it.
fn number() -> Result<u16, String> {
    let mut bytes = [0; 2];
    SystemRandom::new().fill(&mut bytes).map_err(|_| "the system gives no random bytes")?;
    Ok(u16::from_ne_bytes(bytes))
}

fn question(id: u16, name: &str, kind: RecordKind, is_udp: bool) -> Result<Vec<u8>, String> {
    let wrong = |error: simple_dns::SimpleDnsError| format!("the name cannot be asked for: {error}");
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let kind = match kind {
        RecordKind::A => TYPE::A,
        RecordKind::Aaaa => TYPE::AAAA,
        RecordKind::Mx => TYPE::MX,
        RecordKind::Ns => TYPE::NS,
        RecordKind::Srv => TYPE::SRV,
    };
    let name = Name::new(name).map_err(wrong)?;
    packet.questions.push(Question::new(name, QTYPE::TYPE(kind), QCLASS::CLASS(CLASS::IN), false));
    if is_udp {
        *packet.opt_mut() = Some(OPT { opt_codes: Vec::new(), udp_packet_size: UDP_BYTES, version: 0 });
    }
    packet.build_bytes_vec().map_err(wrong)
}

async fn over_udp(server: SocketAddr, id: u16, question: &[u8]) -> Result<Response, String> {
    let wrong = |error: std::io::Error| error.to_string();
    let socket = datagrams(server).await.map_err(wrong)?;
    socket.send(question).await.map_err(wrong)?;
    let mut bytes = vec![0; usize::from(UDP_BYTES)];
    loop {
        let length = socket.recv(&mut bytes).await.map_err(wrong)?;
        match response(&bytes[..length], id)? {
            // A late one: the right one may still come.
            Response::Other => {}
            response => return Ok(response),
        }
    }
}

async fn over_tcp(server: SocketAddr, id: u16, question: &[u8]) -> Result<Response, String> {
    let bytes = dns_over_tcp(server, question).await.map_err(|error| format!("over TCP: {error}"))?;
    response(&bytes, id)
}

/// What a message answers to the question with the number `id`.
fn response(bytes: &[u8], id: u16) -> Result<Response, String> {
    const RESPONSE: u8 = 0x80;
    const TRUNCATION: u8 = 0x02;
    // Before the records, which may end anywhere in a message that was cut.
    match *bytes {
        [high, low, flags, ..] if u16::from_be_bytes([high, low]) != id || flags & RESPONSE == 0 => {
            return Ok(Response::Other);
        }
        [_, _, flags, ..] if flags & TRUNCATION != 0 => return Ok(Response::Cut),
        _ => {}
    }
    let packet = Packet::parse(bytes).map_err(|error| format!("the answer is no DNS message: {error}"))?;
    match packet.rcode() {
        RCODE::NoError => {
            let records = packet.answers.iter().filter_map(|answer| record(&answer.rdata));
            Ok(Response::Found(records.collect()))
        }
        RCODE::NameError => Ok(Response::Missing),
        other => Err(format!("the server answers {other:?}")),
    }
}

/// None for records that lead to no target, such as a CNAME before an address.
fn record(data: &RData<'_>) -> Option<Record> {
    match data {
        RData::A(a) => Some(Record::Address(std::net::Ipv4Addr::from(a.address).into())),
        RData::AAAA(aaaa) => Some(Record::Address(std::net::Ipv6Addr::from(aaaa.address).into())),
        RData::MX(mx) => Some(Record::Mx(mx.exchange.to_string())),
        RData::NS(name) => Some(Record::Ns(name.0.to_string())),
        RData::SRV(srv) => Some(Record::Srv(srv.target.to_string(), srv.port)),
        _ => None,
    }
}

/// The target of a record. The labels have the names as DNS has them, with a dot at the end; the address has none.
fn group(name: &str, port: u16, record: &Record) -> Group {
    let (host, port, labels) = match record {
        Record::Address(address) => (address.to_string(), port, vec![]),
        Record::Mx(host) => (host.clone(), port, vec![("__meta_dns_mx_record_target", format!("{host}."))]),
        Record::Ns(host) => (host.clone(), port, vec![("__meta_dns_ns_record_target", format!("{host}."))]),
        Record::Srv(host, port) => {
            let target = ("__meta_dns_srv_record_target", format!("{host}."));
            (host.clone(), *port, vec![target, ("__meta_dns_srv_record_port", port.to_string())])
        }
    };
    let labels = labels.into_iter().chain([("__meta_dns_name", name.to_owned())]);
    Group {
        targets: vec![Text(host_and_port(&host, port.into()))],
        labels: labels.map(|(label, value)| (label.to_owned(), Text(value))).collect(),
    }
}

/// Reads a message as an answer to the question with the number that it has, for fuzzing.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn replay(bytes: &[u8]) {
    let id = bytes.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
    if let Ok(Response::Found(records)) = response(bytes, id) {
        records.iter().for_each(|record| drop(group("a.example", 9100, record)));
    }
    let resolver = Resolver::parse(&String::from_utf8_lossy(bytes));
    for name in resolver.names("a.example") {
        let _ = question(id, &name, RecordKind::Srv, true);
    }
}

/// A good answer with a record of each kind, as a seed.
#[cfg(test)]
pub(crate) fn example() -> Vec<u8> {
    use simple_dns::ResourceRecord;
    use simple_dns::rdata::{A, AAAA, CNAME, MX, NS, SRV};
    let mut packet = Packet::new_reply(7);
    let name = Name::new_unchecked;
    for data in [
        RData::CNAME(CNAME(name("b.example"))),
        RData::A(A { address: 0xc000_0207 }),
        RData::AAAA(AAAA { address: 1 }),
        RData::MX(MX { preference: 10, exchange: name("mail.example") }),
        RData::NS(NS(name("ns.example"))),
        RData::SRV(SRV { priority: 1, weight: 2, port: 9100, target: name("web.example") }),
    ] {
        packet.answers.push(ResourceRecord::new(name("a.example"), CLASS::IN, 60, data));
    }
    packet.build_bytes_vec().expect("a good answer")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(code: RCODE) -> Vec<u8> {
        let mut packet = Packet::new_reply(7);
        *packet.rcode_mut() = code;
        packet.build_bytes_vec().unwrap()
    }

    #[test]
    fn each_record_becomes_a_target_with_its_labels() {
        let Ok(Response::Found(records)) = response(&example(), 7) else { panic!("the example is good") };
        let found: Vec<_> = records.iter().map(|record| group("a.example", 80, record)).collect();
        let expected: [(&str, &[(&str, &str)]); 5] = [
            ("192.0.2.7:80", &[]),
            ("[::1]:80", &[]),
            ("mail.example:80", &[("__meta_dns_mx_record_target", "mail.example.")]),
            ("ns.example:80", &[("__meta_dns_ns_record_target", "ns.example.")]),
            (
                "web.example:9100",
                &[("__meta_dns_srv_record_port", "9100"), ("__meta_dns_srv_record_target", "web.example.")],
            ),
        ];
        assert_eq!(found.len(), expected.len());
        for (group, (address, labels)) in found.iter().zip(expected) {
            assert_eq!(group.targets, [Text(address.into())]);
            let mut wanted = vec![("__meta_dns_name", "a.example")];
            wanted.extend(labels);
            wanted.sort_unstable();
            let labels: Vec<_> = group.labels.iter().map(|(name, value)| (name.as_str(), value.0.as_str())).collect();
            assert_eq!(labels, wanted);
        }
    }

    #[test]
    fn what_a_server_answers_decides_what_is_asked_next() {
        assert_eq!(response(&example(), 8), Ok(Response::Other));
        assert_eq!(response(&question(7, "a.example", RecordKind::Srv, true).unwrap(), 7), Ok(Response::Other));
        assert_eq!(response(&reply(RCODE::NoError), 7), Ok(Response::Found(Vec::new())));
        assert_eq!(response(&reply(RCODE::NameError), 7), Ok(Response::Missing));
        assert!(response(&reply(RCODE::ServerFailure), 7).unwrap_err().contains("ServerFailure"));
        assert!(response(&[], 7).is_err());
        let mut cut = example();
        cut[2] |= 2;
        cut.truncate(40);
        assert_eq!(response(&cut, 7), Ok(Response::Cut));
    }

    #[test]
    fn a_question_over_udp_offers_more_than_512_bytes() {
        let asked = |is_udp| question(7, "_m._tcp.a.example", RecordKind::Srv, is_udp).unwrap();
        let (udp, tcp) = (asked(true), asked(false));
        assert_eq!(Packet::parse(&udp).unwrap().opt().map(|opt| opt.udp_packet_size), Some(UDP_BYTES));
        assert!(Packet::parse(&tcp).unwrap().opt().is_none());
        assert!(question(7, &"a".repeat(64), RecordKind::A, true).is_err());
    }
}
