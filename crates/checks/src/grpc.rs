//! gRPC: the standard health service is asked once, for the whole server or for one of its services.
//!
//! Format: github.com/grpc/grpc/blob/master/doc/health-checking.md. `ogive_check_grpc_status` is the status with which
//! the call ended, `ogive_check_grpc_serving` the health that a call with the status 0 reported, by its number in
//! `HealthCheckResponse`.
//! Limits: [`SERVICE_BYTES_MAX`], [`ANSWER_BYTES_MAX`].

use std::error::Error as _;
use std::path::PathBuf;
use std::time::Duration;

use hyper::Uri;
use ogive_outgoing::grpc::{Call, CallError, CallResult, Connection};

use super::http::bearer;
use super::net::Network;
use super::raw::Raw;
use super::run::{Failure, Reason, Run};
use super::target::{HostAndPort, Trust, place, target, tls};

const METHOD: &str = "/grpc.health.v1.Health/Check";
/// 1 KiB: the longest names of services are a tenth of that.
const SERVICE_BYTES_MAX: usize = 1 << 10;
/// 4 KiB: an answer has 2 bytes, and other fields may be added to it.
const ANSWER_BYTES_MAX: usize = 4 << 10;

/// The states of `HealthCheckResponse.ServingStatus`, by their numbers.
const STATES: [&str; 4] = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"];
const SERVING: u64 = 1;

/// The statuses of gRPC, by their codes.
const STATUSES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];
const DEADLINE_EXCEEDED: u32 = 4;
const NOT_FOUND: u32 = 5;
const PERMISSION_DENIED: u32 = 7;
const UNIMPLEMENTED: u32 = 12;
const UNAUTHENTICATED: u32 = 16;

/// A server whose health is asked for.
#[derive(Clone, Debug)]
pub(super) struct Grpc {
    place: HostAndPort,
    /// Over TLS, if at all.
    trust: Option<Trust>,
    url: Uri,
    token: Option<PathBuf>,
    /// Empty: the whole server.
    service: String,
}

impl Grpc {
    /// What a table of this kind says.
    pub(super) fn from_raw(raw: &mut Raw) -> Result<Self, String> {
        let text = target(raw)?;
        let place = place(&text, None)?;
        let mut trust = tls(raw);
        if let Some(trust) = &mut trust {
            trust.protocol = Some("h2");
        }
        let scheme = if trust.is_some() { "https" } else { "http" };
        let url = Uri::builder().scheme(scheme).authority(text.as_str()).path_and_query(METHOD).build();
        let url = url.map_err(|error| format!("target {text:?}: {error}"))?;
        let service = raw.service.take().unwrap_or_default();
        if service.len() > SERVICE_BYTES_MAX {
            return Err(format!("service has more than {SERVICE_BYTES_MAX} bytes"));
        }
        Ok(Self { place, trust, url, token: raw.token_file.take(), service })
    }
}

/// Asks once; the server learns that `timeout` is all the time it has.
pub(super) async fn run(network: &Network, run: &mut Run, grpc: &Grpc, timeout: Duration) -> Result<(), Failure> {
    let authorization = match &grpc.token {
        Some(path) => Some(bearer(network, path).await?),
        None => None,
    };
    let stream = network.open(run, &grpc.place, grpc.trust.as_ref()).await?;
    run.phase("request");
    let mut connection = Connection::open(stream).await.map_err(|error| unanswered(&error))?;
    let call = Call {
        url: &grpc.url,
        authorization: authorization.as_ref(),
        message: &request(&grpc.service),
        timeout,
        answer_bytes_max: ANSWER_BYTES_MAX,
    };
    let answer = connection.call(call).await.map_err(|error| unanswered(&error))?;
    run.gauge("ogive_check_grpc_status", "", f64::from(answer.code));
    if answer.code != 0 {
        return Err(refused(&answer, &grpc.service));
    }
    let state = serving(&answer.message);
    let state = state.ok_or_else(|| Failure::new(Reason::Protocol, "the answer is none of the health service"))?;
    run.gauge("ogive_check_grpc_serving", "", state as f64);
    judged(state, &grpc.service)
}

/// A `HealthCheckRequest`: the service is its field 1.
fn request(service: &str) -> Vec<u8> {
    assert!(service.len() <= SERVICE_BYTES_MAX, "{} bytes passed the configuration", service.len());
    if service.is_empty() {
        return Vec::new();
    }
    // Field 1, with a length.
    let mut out = vec![0x0a];
    let mut length = service.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(service.as_bytes());
    out
}

/// The state in a `HealthCheckResponse`, its field 1; none when the bytes are no such message.
pub(super) fn serving(mut message: &[u8]) -> Option<u64> {
    let mut state = 0;
    while !message.is_empty() {
        let tag = varint(&mut message)?;
        match (tag >> 3, tag & 7) {
            (0, _) => return None,
            (1, 0) => state = varint(&mut message)?,
            (1, _) => return None,
            (_, 0) => {
                varint(&mut message)?;
            }
            (_, 1) => message = message.get(8..)?,
            (_, 2) => {
                let length = usize::try_from(varint(&mut message)?).ok()?;
                message = message.get(length..)?;
            }
            (_, 5) => message = message.get(4..)?,
            _ => return None,
        }
    }
    Some(state)
}

/// A number of at most 10 bytes off the front of `rest`.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for at in 0..10 {
        let (byte, tail) = rest.split_first()?;
        *rest = tail;
        value |= u64::from(byte & 0x7f) << (7 * at);
        if *byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// What is asked for, in words.
fn whom(service: &str) -> String {
    if service.is_empty() { "the server".into() } else { format!("the service {service:?}") }
}

fn judged(state: u64, service: &str) -> Result<(), Failure> {
    if state == SERVING {
        return Ok(());
    }
    let name = usize::try_from(state).ok().and_then(|state| STATES.get(state).copied());
    let name = name.map_or_else(|| format!("in the unknown state {state}"), str::to_owned);
    Err(Failure::new(Reason::Status, format!("{} is {name}", whom(service))))
}

/// A call that ended with another status than 0.
fn refused(answer: &CallResult, service: &str) -> Failure {
    let CallResult { code, said, .. } = answer;
    let reason = match *code {
        DEADLINE_EXCEEDED => Reason::Timeout,
        PERMISSION_DENIED | UNAUTHENTICATED => Reason::Login,
        _ => Reason::Status,
    };
    let what = match *code {
        NOT_FOUND => format!("the server does not know {}", whom(service)),
        UNIMPLEMENTED => "the server has no health service".into(),
        PERMISSION_DENIED | UNAUTHENTICATED => "the server refuses to report its health".into(),
        _ => "the call failed".into(),
    };
    let name = usize::try_from(*code).ok().and_then(|code| STATUSES.get(code).copied()).unwrap_or("unknown");
    let said = if said.is_empty() { String::new() } else { format!(": {said:?}") };
    Failure::new(reason, format!("{what} (grpc-status {code}, {name}{said})"))
}

/// A call that has no result.
fn unanswered(error: &CallError) -> Failure {
    let reason = match error {
        CallError::Request(_) => Reason::Local,
        CallError::Connection(error) if is_gone(error) => Reason::Closed,
        CallError::Interrupted(_) => Reason::Closed,
        CallError::Http(_) => Reason::Status,
        CallError::TooLong(_) => Reason::Limit,
        _ => Reason::Protocol,
    };
    Failure::new(reason, error.to_string())
}

/// Whether the connection broke; otherwise what came over it was wrong.
fn is_gone(error: &hyper::Error) -> bool {
    let mut cause = error.source();
    while let Some(found) = cause {
        if found.is::<std::io::Error>() {
            return true;
        }
        cause = found.source();
    }
    error.is_canceled() || error.is_closed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Probe};

    fn read(keys: &str) -> Result<Grpc, String> {
        match Config::parse(&format!("[[check]]\nname = 'a'\nkind = 'grpc'\n{keys}"))?.check.remove(0).ask {
            Probe::Grpc(grpc) => Ok(*grpc),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn tables_are_read_and_mistakes_are_refused() {
        let grpc = read("target = '[::1]:50051'\nservice = 'shop.Cart'").unwrap();
        assert_eq!(grpc.url.to_string(), "http://[::1]:50051/grpc.health.v1.Health/Check");
        assert_eq!((grpc.place.host.as_str(), grpc.place.port, grpc.service.as_str()), ("::1", 50_051, "shop.Cart"));
        let grpc = read("target = 'h:443'\ntls = true\nserver_name = 'x'").unwrap();
        assert_eq!(grpc.url.scheme_str(), Some("https"));
        assert_eq!(grpc.trust.unwrap().protocol, Some("h2"));
        let long = |bytes: usize| read(&format!("target = 'h:1'\nservice = '{}'", "x".repeat(bytes)));
        assert!(long(SERVICE_BYTES_MAX).is_ok());
        assert!(long(SERVICE_BYTES_MAX + 1).unwrap_err().contains("more than 1024 bytes"));
        for (keys, sentence) in [
            ("", "target is missing"),
            ("target = 'h'", "is not HOST:PORT"),
            ("target = 'h?x:1'", "target \"h?x:1\": "),
            ("target = 'h:1'\nca_file = '/ca.pem'", "ca_file means nothing to the kind grpc"),
            ("target = 'h:1'\nsend = 'x'", "send means nothing to the kind grpc"),
        ] {
            let found = read(keys).unwrap_err();
            assert!(found.contains(sentence), "{found}");
        }
    }

    #[test]
    fn requests_name_the_service() {
        assert_eq!(request(""), b"");
        assert_eq!(request("ab"), b"\x0a\x02ab");
        assert_eq!(request(&"x".repeat(300))[..4], *b"\x0a\xac\x02x");
    }

    #[test]
    fn states_are_read() {
        for (message, expected) in [
            (&b""[..], Some(0)),
            (b"\x08\x01", Some(1)),
            (b"\x08\x02\x08\x01", Some(1)),
            (b"\x10\x05\x19\0\0\0\0\0\0\0\0\x22\x01x\x2d\0\0\0\0\x08\x03", Some(3)),
            (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", Some(u64::MAX)),
            (b"\x08", None),
            (b"\x08\x80", None),
            (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", None),
            (b"\x0a\x01x", None),
            (b"\x22\x05x", None),
            (b"\x22\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", None),
            (b"\x19\0", None),
            (b"\x00\x01", None),
            (b"\x0b", None),
        ] {
            assert_eq!(serving(message), expected, "{message:?}");
        }
    }

    #[test]
    fn what_is_not_well_has_a_sentence() {
        assert_eq!(judged(1, ""), Ok(()));
        assert_eq!(judged(2, "a").unwrap_err().to_string(), "status: the service \"a\" is NOT_SERVING");
        assert_eq!(judged(9, "").unwrap_err().to_string(), "status: the server is in the unknown state 9");
        for (code, said, expected) in [
            (5, "", "status: the server does not know the service \"a\" (grpc-status 5, NOT_FOUND)"),
            (12, "x", "status: the server has no health service (grpc-status 12, UNIMPLEMENTED: \"x\")"),
            (16, "", "login: the server refuses to report its health (grpc-status 16, UNAUTHENTICATED)"),
            (4, "", "timeout: the call failed (grpc-status 4, DEADLINE_EXCEEDED)"),
            (99, "", "status: the call failed (grpc-status 99, unknown)"),
        ] {
            let answer = CallResult { code, said: said.into(), message: Vec::new() };
            assert_eq!(refused(&answer, "a").to_string(), expected);
        }
    }
}
