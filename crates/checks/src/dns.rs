//! DNS: one query to one server, over UDP, and over TCP when the response does not fit.
//!
//! Why not the system's resolver: it does not report which server answered or how long that took, and it answers from
//! caches.
//! Limits: [`UDP_BYTES`] for a response over UDP, the protocol's 64 KiB over TCP.

use std::net::SocketAddr;

use ogive_outgoing::{Resolver, datagrams, dns_over_tcp};
use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};

use super::entropy;
use super::net::Network;
use super::run::{Failure, Reason, Run};
use super::target::HostAndPort;

/// 512 bytes are what a server sends to those who do not say that they take more.
const UDP_BYTES: usize = 512;

/// A question and what its answer is to be.
#[derive(Clone, Debug)]
pub(super) struct Dns {
    /// None: the first of /etc/resolv.conf.
    pub(super) server: Option<HostAndPort>,
    pub(super) query: String,
    pub(super) record: Record,
    /// Empty: any answer that is not an error.
    pub(super) expect: Vec<String>,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record(TYPE);

impl Record {
    pub(super) const NAMES: [(&'static str, TYPE); 9] = [
        ("A", TYPE::A),
        ("AAAA", TYPE::AAAA),
        ("CNAME", TYPE::CNAME),
        ("MX", TYPE::MX),
        ("NS", TYPE::NS),
        ("PTR", TYPE::PTR),
        ("SOA", TYPE::SOA),
        ("SRV", TYPE::SRV),
        ("TXT", TYPE::TXT),
    ];

    pub(super) fn parse(name: &str) -> Option<Self> {
        let found = Self::NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(Self(found.1))
    }
}

/// Whether a name can be asked for.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let is_wrong = name.is_empty() || name.trim_end_matches('.').split('.').any(str::is_empty);
    match Name::new(name.trim_end_matches('.')) {
        Ok(_) if !is_wrong => Ok(()),
        _ => Err(format!("query {name:?} is no name")),
    }
}

/// What a server answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    code: RCODE,
    /// The data of the records that were asked for.
    data: Vec<String>,
}

pub(super) async fn run(network: &Network, run: &mut Run, dns: &Dns) -> Result<(), Failure> {
    let server = match &dns.server {
        Some(place) => network.resolve(run, &place.host, place.port).await?[0],
        None => usual(network).await?,
    };
    run.phase("answer");
    let id = u16::from_ne_bytes(entropy::bytes()?);
    let question = question(id, &dns.query, dns.record)?;
    let answer = match over_udp(server, id, &question, dns).await? {
        Some(answer) => answer,
        None => over_tcp(server, id, &question, dns).await?,
    };
    run.gauge("ogive_check_dns_answers", "", answer.data.len() as f64);
    judged(dns, &answer)
}

pub(super) fn judged(dns: &Dns, answer: &Answer) -> Result<(), Failure> {
    if answer.code != RCODE::NoError {
        return Err(Failure::new(
            Reason::Status,
            format!("{server} answers {:?}", answer.code, server = requested(dns)),
        ));
    }
    if answer.data.is_empty() {
        return Err(Failure::new(Reason::Content, format!("{} has no such record", dns.query)));
    }
    let missing = dns.expect.iter().find(|expected| !answer.data.contains(expected));
    match missing {
        Some(missing) => Err(Failure::new(
            Reason::Content,
            format!("{missing:?} is not among the answers {}", answer.data.join(", ")),
        )),
        None => Ok(()),
    }
}

fn requested(dns: &Dns) -> &str {
    dns.server.as_ref().map_or("the server", |place| &place.host)
}

/// The first server that the system asks.
async fn usual(network: &Network) -> Result<SocketAddr, Failure> {
    let local = |sentence: String| Failure::new(Reason::Local, sentence);
    let text = network.files.read(std::path::Path::new("/etc/resolv.conf")).await.map_err(local)?;
    let servers = Resolver::parse(&String::from_utf8_lossy(&text)).servers;
    let first = servers.first().ok_or_else(|| local("/etc/resolv.conf names no server; give a target".into()))?;
    Ok(SocketAddr::new(*first, 53))
}

fn question(id: u16, query: &str, record: Record) -> Result<Vec<u8>, Failure> {
    let wrong = |error: simple_dns::SimpleDnsError| Failure::new(Reason::Local, format!("{query}: {error}"));
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let name = Name::new(query.trim_end_matches('.')).map_err(wrong)?;
    packet.questions.push(Question::new(name, QTYPE::TYPE(record.0), QCLASS::CLASS(CLASS::IN), false));
    packet.build_bytes_vec().map_err(wrong)
}

/// None when the answer is said to be cut.
async fn over_udp(server: SocketAddr, id: u16, question: &[u8], dns: &Dns) -> Result<Option<Answer>, Failure> {
    let socket = datagrams(server).await?;
    socket.send(question).await?;
    let mut bytes = [0; UDP_BYTES];
    loop {
        let length = socket.recv(&mut bytes).await?;
        match read(&bytes[..length], id, dns) {
            // Somebody else's, or a late one: the right one may still come.
            Err(None) => {}
            Err(Some(failure)) => return Err(failure),
            Ok(answer) => return Ok(answer),
        }
    }
}

async fn over_tcp(server: SocketAddr, id: u16, question: &[u8], dns: &Dns) -> Result<Answer, Failure> {
    let bytes = dns_over_tcp(server, question).await?;
    let strange = || Failure::new(Reason::Protocol, "the answer over TCP is not to this question");
    read(&bytes, id, dns).map_err(|failure| failure.unwrap_or_else(strange))?.ok_or_else(strange)
}

/// The answer in a message; none in it when it was cut, no failure when it belongs to another question.
pub(super) fn read(bytes: &[u8], id: u16, dns: &Dns) -> Result<Option<Answer>, Option<Failure>> {
    let packet = Packet::parse(bytes)
        .map_err(|error| Some(Failure::new(Reason::Protocol, format!("the answer is no DNS message: {error}"))))?;
    if packet.id() != id || !packet.has_flags(PacketFlag::RESPONSE) {
        return Err(None);
    }
    if packet.has_flags(PacketFlag::TRUNCATION) {
        return Ok(None);
    }
    let wanted = packet.answers.iter().filter(|record| record.rdata.type_code() == dns.record.0);
    Ok(Some(Answer { code: packet.rcode(), data: wanted.map(|record| words(&record.rdata)).collect() }))
}

/// A record's data, as zone files write it.
fn words(data: &RData<'_>) -> String {
    match data {
        RData::A(a) => std::net::Ipv4Addr::from(a.address).to_string(),
        RData::AAAA(aaaa) => std::net::Ipv6Addr::from(aaaa.address).to_string(),
        RData::CNAME(name) => name.0.to_string(),
        RData::NS(name) => name.0.to_string(),
        RData::PTR(name) => name.0.to_string(),
        RData::MX(mx) => format!("{} {}", mx.preference, mx.exchange),
        RData::SRV(srv) => format!("{} {} {} {}", srv.priority, srv.weight, srv.port, srv.target),
        RData::SOA(soa) => format!("{} {} {}", soa.mname, soa.rname, soa.serial),
        RData::TXT(text) => String::try_from(text.clone()).unwrap_or_default(),
        other => format!("{:?}", other.type_code()),
    }
}

/// The addresses of a name by the system's resolver, for scripts.
#[cfg(feature = "lua")]
pub(super) async fn addresses(network: &Network, run: &mut Run, host: &str) -> Result<Vec<String>, Failure> {
    let found = network.resolve(run, host, 0).await?;
    Ok(found.iter().map(|address| address.ip().to_string()).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use simple_dns::ResourceRecord;
    use simple_dns::rdata::{A, MX, TXT};

    use super::*;

    fn dns(record: &str, expect: &[&str]) -> Dns {
        Dns {
            server: None,
            query: "a.example".into(),
            record: Record::parse(record).unwrap(),
            expect: expect.iter().map(ToString::to_string).collect(),
        }
    }

    fn reply(id: u16, data: Vec<RData<'static>>) -> Packet<'static> {
        let mut packet = Packet::new_reply(id);
        for data in data {
            packet.answers.push(ResourceRecord::new(Name::new_unchecked("a.example"), CLASS::IN, 60, data));
        }
        packet
    }

    #[test]
    fn the_records_that_were_asked_for_are_reported() {
        let mx = MX { preference: 10, exchange: Name::new_unchecked("mail.example") };
        let data = vec![RData::A(A { address: 0x7f00_0001 }), RData::MX(mx), RData::A(A { address: 0x0a00_0002 })];
        let bytes = reply(7, data).build_bytes_vec().unwrap();
        let found = read(&bytes, 7, &dns("A", &[])).unwrap().unwrap();
        assert_eq!(found, Answer { code: RCODE::NoError, data: vec!["127.0.0.1".into(), "10.0.0.2".into()] });
        assert_eq!(read(&bytes, 7, &dns("mx", &[])).unwrap().unwrap().data, ["10 mail.example"]);
        assert_eq!(read(&bytes, 8, &dns("A", &[])), Err(None));
        let text = vec![RData::TXT(TXT::new().with_string("v=1 x").unwrap())];
        let bytes = reply(7, text).build_bytes_vec().unwrap();
        assert_eq!(read(&bytes, 7, &dns("TXT", &[])).unwrap().unwrap().data, ["v=1 x"]);
    }

    #[test]
    fn an_answer_is_judged() {
        let found = |code, data: &[&str]| Answer { code, data: data.iter().map(ToString::to_string).collect() };
        let judge = |expect: &[&str], answer| judged(&dns("A", expect), &answer).map_err(|failure| failure.reason);
        assert_eq!(judge(&[], found(RCODE::NoError, &["1.2.3.4"])), Ok(()));
        assert_eq!(judge(&["1.2.3.4"], found(RCODE::NoError, &["1.2.3.5", "1.2.3.4"])), Ok(()));
        assert_eq!(judge(&["1.2.3.4"], found(RCODE::NoError, &["1.2.3.5"])), Err(Reason::Content));
        assert_eq!(judge(&[], found(RCODE::NoError, &[])), Err(Reason::Content));
        assert_eq!(judge(&[], found(RCODE::NameError, &[])), Err(Reason::Status));
    }

    #[test]
    fn a_cut_answer_is_asked_for_again() {
        let mut packet = reply(7, Vec::new());
        packet.set_flags(PacketFlag::TRUNCATION);
        assert_eq!(read(&packet.build_bytes_vec().unwrap(), 7, &dns("A", &[])), Ok(None));
    }

    #[test]
    fn names_are_names() {
        for (name, is_one) in [
            ("example.com", true),
            ("example.com.", true),
            ("", false),
            (".", false),
            ("a..b", false),
            (&"a".repeat(64), false),
        ] {
            assert_eq!(check_name(name).is_ok(), is_one, "{name}");
        }
    }

    proptest! {
        #[test]
        fn anything_may_come(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = read(&bytes, 7, &dns("A", &[]));
        }

        #[test]
        fn a_damaged_answer_may_come(at in 0..40_usize, byte: u8) {
            let data = vec![RData::A(A { address: 1 }), RData::A(A { address: 2 })];
            let mut bytes = reply(7, data).build_bytes_vec().unwrap();
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = read(&bytes, 7, &dns("A", &[]));
        }
    }
}
