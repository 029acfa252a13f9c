//! Messages of LDAP: requests as bytes, and what a server answers.
//!
//! Format: RFC 4511, in BER: a tag, a length, and what it holds. A message is a sequence of its number and an
//! operation; the controls behind that are not read.
//! Limits: [`MESSAGE_BYTES_MAX`], [`ANSWER_BYTES_MAX`], [`REFERRALS_MAX`], [`SAID_BYTES_MAX`]. Nothing is read deeper
//! than the format nests it, so that sequences within sequences cost nothing.

use async_snmp::DecodeConfig;
use async_snmp::ber::tag::universal::{INTEGER, OCTET_STRING, SEQUENCE};
use async_snmp::ber::{Decoder, encode_length};
use hyper::body::Bytes;
use tokio::io::{AsyncReadExt, BufReader};

use crate::net::Stream;
use crate::run::{Failure, Reason, cut};

/// 256 KiB of a message: an entry with the attributes that are asked for has some hundred bytes.
const MESSAGE_BYTES_MAX: usize = 256 << 10;
/// 4 MiB of all answers: as many entries as a search may find, with 400 bytes each.
pub(super) const ANSWER_BYTES_MAX: usize = 4 << 20;
/// 10 addresses of other servers, which a sentence shows.
const REFERRALS_MAX: usize = 10;
/// 256 bytes of each text of a server that a sentence shows.
const SAID_BYTES_MAX: usize = 256;

const BOOLEAN: u8 = 0x01;
const ENUMERATED: u8 = 0x0a;
const SET: u8 = 0x31;

const BIND_REQUEST: u8 = 0x60;
pub(super) const BIND_RESPONSE: u8 = 0x61;
const UNBIND_REQUEST: u8 = 0x42;
const SEARCH_REQUEST: u8 = 0x63;
pub(super) const SEARCH_ENTRY: u8 = 0x64;
pub(super) const SEARCH_DONE: u8 = 0x65;
pub(super) const SEARCH_REFERENCE: u8 = 0x73;
const EXTENDED_REQUEST: u8 = 0x77;
pub(super) const EXTENDED_RESPONSE: u8 = 0x78;
pub(super) const INTERMEDIATE_RESPONSE: u8 = 0x79;

const VERSION: u32 = 3;
const START_TLS: &[u8] = b"1.3.6.1.4.1.1466.20037";
/// The attribute that stands for none.
const NO_ATTRIBUTES: &str = "1.1";

/// Bytes with a tag and their length in front of them.
pub(super) fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let (length, count) = encode_length(content.len()).expect("a request has kilobytes");
    let mut out = Vec::with_capacity(1 + count + content.len());
    out.push(tag);
    // The library writes from the end.
    out.extend(length[..count].iter().rev());
    out.extend(content);
    out
}

/// A text or bytes.
pub(super) fn octets(bytes: &[u8]) -> Vec<u8> {
    element(OCTET_STRING, &[bytes])
}

fn number(tag: u8, value: u32) -> Vec<u8> {
    let bytes = [&[0][..], &value.to_be_bytes()].concat();
    // The shortest form: a zero in front is left out unless a sign would stand in its place.
    let spare = bytes.windows(2).take_while(|pair| pair[0] == 0 && pair[1] < 0x80).count();
    element(tag, &[&bytes[spare..]])
}

/// A request under its number.
pub(super) fn request(id: i32, operation: &[u8]) -> Vec<u8> {
    let id = u32::try_from(id).expect("requests are numbered from 1");
    element(SEQUENCE, &[&number(INTEGER, id), operation])
}

/// A simple bind; anonymous without a name and a password.
pub(super) fn bind(user: &str, password: &str) -> Vec<u8> {
    let simple = element(0x80, &[password.as_bytes()]);
    element(BIND_REQUEST, &[&number(INTEGER, VERSION), &octets(user.as_bytes()), &simple])
}

/// The end of a session.
pub(super) fn unbind() -> Vec<u8> {
    element(UNBIND_REQUEST, &[])
}

/// The request for TLS.
pub(super) fn start_tls() -> Vec<u8> {
    element(EXTENDED_REQUEST, &[&element(0x80, &[START_TLS])])
}

/// What is searched for, and when the server is to end.
pub(super) struct SearchRequest<'a> {
    pub(super) base: &'a str,
    pub(super) scope: u32,
    /// As bytes.
    pub(super) filter: &'a [u8],
    pub(super) attributes: &'a [String],
    pub(super) entries_max: u32,
    pub(super) seconds_max: u32,
}

/// A search. Aliases are not followed.
pub(super) fn search(request: &SearchRequest) -> Vec<u8> {
    let mut attributes: Vec<u8> = request.attributes.iter().flat_map(|name| octets(name.as_bytes())).collect();
    if attributes.is_empty() {
        attributes = octets(NO_ATTRIBUTES.as_bytes());
    }
    let parts = [
        octets(request.base.as_bytes()),
        number(ENUMERATED, request.scope),
        number(ENUMERATED, 0),
        number(INTEGER, request.entries_max),
        number(INTEGER, request.seconds_max),
        // Names of attributes with their values.
        element(BOOLEAN, &[&[0]]),
        request.filter.to_vec(),
        element(SEQUENCE, &[&attributes]),
    ];
    element(SEARCH_REQUEST, &[&parts.concat()])
}

/// The next message without its tag and length.
pub(super) async fn frame(stream: &mut BufReader<Box<dyn Stream>>, left: &mut usize) -> Result<Bytes, Failure> {
    let tag = stream.read_u8().await?;
    if tag != SEQUENCE {
        return Err(wrong(format!("the byte {tag:#04x} begins no message of LDAP")));
    }
    let first = stream.read_u8().await?;
    let mut length = usize::from(first & 0x7f);
    if first & 0x80 != 0 {
        let count = length;
        if !(1..=4).contains(&count) {
            return Err(wrong(format!("the byte {first:#04x} begins no length of a message")));
        }
        length = 0;
        for _ in 0..count {
            length = (length << 8) | usize::from(stream.read_u8().await?);
        }
    }
    if length > MESSAGE_BYTES_MAX {
        let sentence = format!("a message declares {length} bytes, more than {MESSAGE_BYTES_MAX}");
        return Err(Failure::new(Reason::Limit, sentence));
    }
    if length > *left {
        return Err(Failure::new(Reason::Limit, format!("the answers have more than {ANSWER_BYTES_MAX} bytes")));
    }
    *left -= length;
    let mut bytes = Vec::new();
    stream.take(length as u64).read_to_end(&mut bytes).await?;
    if bytes.len() < length {
        return Err(Failure::new(Reason::Closed, "the server closed the connection within a message"));
    }
    Ok(bytes.into())
}

/// What came from a server.
#[derive(Clone, Debug)]
pub(super) struct Message {
    /// The number of the request that it answers; 0 for what nobody asked for.
    pub(super) id: i32,
    pub(super) tag: u8,
    body: Bytes,
}

impl Message {
    pub(super) fn parse(bytes: Bytes) -> Result<Self, Failure> {
        let mut rest = decoder(bytes);
        let id = rest.read_integer().map_err(malformed)?;
        let tag = rest.read_tag().map_err(malformed)?;
        let length = rest.read_length().map_err(malformed)?;
        Ok(Self { id, tag, body: rest.read_bytes(length).map_err(malformed)? })
    }

    /// A message where another one belongs.
    pub(super) fn unexpected(&self) -> Failure {
        wrong(format!("the server sends a message of the kind {:#04x}, which answers no such request", self.tag))
    }

    /// What a server says that nobody asked, usually that it ends the connection.
    pub(super) fn notice(&self) -> Failure {
        if self.tag != EXTENDED_RESPONSE {
            return self.unexpected();
        }
        match self.outcome() {
            Ok(outcome) => Failure::new(Reason::Status, format!("the server ends the connection: {outcome}")),
            Err(failure) => failure,
        }
    }

    /// The result that it holds.
    pub(super) fn outcome(&self) -> Result<Outcome, Failure> {
        outcome(decoder(self.body.clone())).map_err(malformed)
    }

    /// The entry that it holds, with what it has of the attributes `wanted`, which are in lower case.
    pub(super) fn entry(&self, wanted: &[String]) -> Result<Entry, Failure> {
        entry(decoder(self.body.clone()), wanted).map_err(malformed)
    }
}

fn decoder(bytes: Bytes) -> Decoder<'static> {
    Decoder::new(bytes).with_decode_config(DecodeConfig::STRICT)
}

fn wrong(sentence: String) -> Failure {
    Failure::new(Reason::Protocol, sentence)
}

fn malformed(error: Box<async_snmp::Error>) -> Failure {
    wrong(format!("a message of the server is malformed: {error}"))
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) code: i32,
    /// The name of the nearest entry that is there, if one is missing.
    matched: String,
    said: String,
    referrals: Vec<String>,
}

fn outcome(mut rest: Decoder) -> async_snmp::Result<Outcome> {
    const REFERRAL: u8 = 0xa3;
    let length = rest.expect_tag(ENUMERATED)?;
    let code = rest.read_integer_value(length)?;
    let (matched, said) = (said(&rest.read_octet_string()?), said(&rest.read_octet_string()?));
    let mut referrals = Vec::new();
    if rest.peek_tag() == Some(REFERRAL) {
        let mut list = rest.read_constructed(REFERRAL)?;
        while !list.is_empty() && referrals.len() < REFERRALS_MAX {
            referrals.push(self::said(&list.read_octet_string()?));
        }
    }
    Ok(Outcome { code, matched, said, referrals })
}

fn said(bytes: &[u8]) -> String {
    cut(&String::from_utf8_lossy(bytes), SAID_BYTES_MAX).to_owned()
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} ({})", name(self.code), self.code)?;
        if !self.said.is_empty() {
            write!(out, ": {:?}", self.said)?;
        }
        if !self.matched.is_empty() {
            write!(out, "; the nearest entry is {:?}", self.matched)?;
        }
        if !self.referrals.is_empty() {
            write!(out, "; the server refers to {}", self.referrals.join(", "))?;
        }
        Ok(())
    }
}

impl Outcome {
    /// Whether the operation succeeded; otherwise why not, behind `what`.
    pub(super) fn judged(&self, what: &str) -> Result<(), Failure> {
        let reason = match self.code {
            0 => return Ok(()),
            // The server's own limit of time.
            3 => Reason::Timeout,
            7 | 8 | 13 | 48..=50 => Reason::Login,
            _ => Reason::Status,
        };
        Err(Failure::new(reason, format!("{what}: {self}")))
    }
}

/// The name of a code of RFC 4511, appendix A.
fn name(code: i32) -> &'static str {
    match code {
        0 => "success",
        1 => "operationsError",
        2 => "protocolError",
        3 => "timeLimitExceeded",
        4 => "sizeLimitExceeded",
        5 => "compareFalse",
        6 => "compareTrue",
        7 => "authMethodNotSupported",
        8 => "strongerAuthRequired",
        10 => "referral",
        11 => "adminLimitExceeded",
        12 => "unavailableCriticalExtension",
        13 => "confidentialityRequired",
        14 => "saslBindInProgress",
        16 => "noSuchAttribute",
        17 => "undefinedAttributeType",
        18 => "inappropriateMatching",
        19 => "constraintViolation",
        20 => "attributeOrValueExists",
        21 => "invalidAttributeSyntax",
        32 => "noSuchObject",
        33 => "aliasProblem",
        34 => "invalidDNSyntax",
        36 => "aliasDereferencingProblem",
        48 => "inappropriateAuthentication",
        49 => "invalidCredentials",
        50 => "insufficientAccessRights",
        51 => "busy",
        52 => "unavailable",
        53 => "unwillingToPerform",
        54 => "loopDetect",
        64 => "namingViolation",
        65 => "objectClassViolation",
        66 => "notAllowedOnNonLeaf",
        67 => "notAllowedOnRDN",
        68 => "entryAlreadyExists",
        69 => "objectClassModsProhibited",
        71 => "affectsMultipleDSAs",
        80 => "other",
        _ => "unknown",
    }
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its name.
    pub(super) dn: String,
    /// What it has of each attribute that is wanted.
    pub(super) values: Vec<Values>,
}

/// The values of an attribute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Values {
    pub(super) first: Option<Bytes>,
    pub(super) count: usize,
}

fn entry(mut rest: Decoder, wanted: &[String]) -> async_snmp::Result<Entry> {
    let dn = String::from_utf8_lossy(&rest.read_octet_string()?).into_owned();
    let mut values = vec![Values::default(); wanted.len()];
    let mut attributes = rest.read_sequence()?;
    while !attributes.is_empty() {
        let mut attribute = attributes.read_sequence()?;
        let name = attribute.read_octet_string()?;
        let mut set = attribute.read_constructed(SET)?;
        let place = wanted.iter().position(|wanted| wanted.as_bytes().eq_ignore_ascii_case(&name));
        while !set.is_empty() {
            let value = set.read_octet_string()?;
            if let Some(place) = place {
                values[place].count += 1;
                values[place].first.get_or_insert(value);
            }
        }
    }
    Ok(Entry { dn, values })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_shortest_form() {
        for (value, expected) in [
            (0, &b"\x02\x01\0"[..]),
            (127, b"\x02\x01\x7f"),
            (128, b"\x02\x02\0\x80"),
            (10_001, b"\x02\x02\x27\x11"),
            (u32::MAX, b"\x02\x05\0\xff\xff\xff\xff"),
        ] {
            assert_eq!(number(INTEGER, value), expected, "{value}");
        }
    }

    #[test]
    fn requests_are_those_of_the_format() {
        assert_eq!(request(1, &bind("", "")), b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\0\x80\0");
        let bound = bind("cn=a", "b");
        assert_eq!(bound, b"\x60\x0c\x02\x01\x03\x04\x04cn=a\x80\x01b");
        assert_eq!(request(2, &unbind()), b"\x30\x05\x02\x01\x02\x42\0");
        assert_eq!(start_tls(), b"\x77\x18\x80\x161.3.6.1.4.1.1466.20037");
        let long = octets(&[b'x'; 200]);
        assert_eq!(long[..4], *b"\x04\x81\xc8x");
        let attributes = ["cn".to_owned()];
        let mut wanted = SearchRequest {
            base: "o=x",
            scope: 2,
            filter: b"\x87\x02cn",
            attributes: &attributes,
            entries_max: 5,
            seconds_max: 1,
        };
        let expected =
            b"\x63\x1e\x04\x03o=x\x0a\x01\x02\x0a\x01\0\x02\x01\x05\x02\x01\x01\x01\x01\0\x87\x02cn\x30\x04\x04\x02cn";
        assert_eq!(search(&wanted), expected);
        wanted.attributes = &[];
        assert!(search(&wanted).ends_with(b"\x30\x05\x04\x031.1"));
    }

    /// What comes of the first message in `bytes`.
    async fn first(bytes: &[u8], mut left: usize) -> Result<Message, Failure> {
        let stream: Box<dyn Stream> =
            Box::new(tokio::io::join(std::io::Cursor::new(bytes.to_vec()), tokio::io::sink()));
        Message::parse(frame(&mut BufReader::new(stream), &mut left).await?)
    }

    #[tokio::test]
    async fn messages_are_read_and_lies_are_not_believed() {
        let good = b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\0\x04\0\x04\0";
        let message = first(good, ANSWER_BYTES_MAX).await.unwrap();
        assert_eq!((message.id, message.tag, message.outcome().unwrap().code), (1, BIND_RESPONSE, 0));
        // Active Directory writes every length in four bytes.
        let long = b"\x30\x84\0\0\0\x10\x02\x01\x01\x61\x84\0\0\0\x07\x0a\x01\0\x04\0\x04\0";
        assert_eq!(first(long, ANSWER_BYTES_MAX).await.unwrap().outcome().unwrap().code, 0);
        for (bytes, reason, words) in [
            (&b"SSH-2.0-x\r\n"[..], Reason::Protocol, "0x53 begins no message"),
            (b"", Reason::Closed, ""),
            (&good[..9], Reason::Closed, "within a message"),
            (b"\x30\x80\x02\x01\x01\0\0", Reason::Protocol, "0x80 begins no length"),
            (b"\x30\x85\0\0\0\0\x01\0", Reason::Protocol, "0x85 begins no length"),
            (b"\x30\x84\xff\xff\xff\xff", Reason::Limit, "declares 4294967295 bytes"),
            (b"\x30\x83\x04\0\x01", Reason::Limit, "declares 262145 bytes"),
            (b"\x30\0", Reason::Protocol, "malformed"),
            (b"\x30\x06\x30\x04\x30\x02\x30\0", Reason::Protocol, "malformed"),
            (b"\x30\x05\x02\x01\x01\x61\x07", Reason::Protocol, "malformed"),
            (b"\x30\x0a\x02\x05\x01\0\0\0\0\x61\x01\0", Reason::Protocol, "malformed"),
        ] {
            let failure = first(bytes, ANSWER_BYTES_MAX).await.unwrap_err();
            assert!(failure.reason == reason && failure.sentence.contains(words), "{bytes:?}: {failure}");
        }
        assert!(first(good, 12).await.is_ok());
        let failure = first(good, 11).await.unwrap_err();
        assert!(failure.reason == Reason::Limit && failure.sentence.contains("4194304"), "{failure}");
    }

    /// The result in these bytes.
    fn result(bytes: &[u8]) -> async_snmp::Result<Outcome> {
        outcome(decoder(Bytes::copy_from_slice(bytes)))
    }

    #[test]
    fn results_have_a_sentence() {
        for (bytes, reason, expected) in [
            (&b"\x0a\x01\x31\x04\0\x04\0"[..], Reason::Login, "x: invalidCredentials (49)"),
            (b"\x0a\x01\x03\x04\0\x04\0", Reason::Timeout, "x: timeLimitExceeded (3)"),
            (
                b"\x0a\x01\x20\x04\x03o=x\x04\x02no",
                Reason::Status,
                "x: noSuchObject (32): \"no\"; the nearest entry is \"o=x\"",
            ),
            (
                b"\x0a\x01\x0a\x04\0\x04\0\xa3\x0a\x04\x08ldap://h",
                Reason::Status,
                "x: referral (10); the server refers to ldap://h",
            ),
            (b"\x0a\x02\x10\0\x04\0\x04\0", Reason::Status, "x: unknown (4096)"),
        ] {
            let failure = result(bytes).unwrap().judged("x").unwrap_err();
            assert_eq!((failure.reason, failure.sentence.as_str()), (reason, expected));
        }
        assert_eq!(result(b"\x0a\x01\0\x04\0\x04\0\x87\x01x").unwrap().judged("x"), Ok(()));
        for bytes in [&b""[..], b"\x02\x01\0\x04\0\x04\0", b"\x0a\x01\0\x04\0", b"\x0a\x01\x0a\x04\0\x04\0\xa3\x01\x04"]
        {
            assert!(result(bytes).is_err(), "{bytes:?}");
        }
        let many = element(0xa3, &[&octets(b"ldap://h").repeat(REFERRALS_MAX + 1)]);
        let found = result(&[&b"\x0a\x01\x0a\x04\0\x04\0"[..], &many].concat()).unwrap();
        assert_eq!(found.referrals.len(), REFERRALS_MAX);
    }

    #[test]
    fn entries_have_what_is_wanted_of_them() {
        let attribute = |name: &str, values: &[&str]| {
            let values: Vec<u8> = values.iter().flat_map(|value| octets(value.as_bytes())).collect();
            element(SEQUENCE, &[&octets(name.as_bytes()), &element(SET, &[&values])])
        };
        let attributes = [attribute("CN", &["a", "b"]), attribute("sn", &["c"]), attribute("uid", &[])].concat();
        let bytes = [octets(b"cn=a"), element(SEQUENCE, &[&attributes])].concat();
        let wanted = ["cn", "uid", "mail"].map(str::to_owned);
        let found = entry(decoder(bytes.clone().into()), &wanted).unwrap();
        let none = Values::default();
        let two = Values { first: Some(Bytes::from_static(b"a")), count: 2 };
        assert_eq!(found, Entry { dn: "cn=a".into(), values: vec![two, none.clone(), none] });
        for length in 0..bytes.len() {
            assert!(entry(decoder(Bytes::copy_from_slice(&bytes[..length])), &wanted).is_err(), "{length}");
        }
    }
}
