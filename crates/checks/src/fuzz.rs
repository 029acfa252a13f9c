//! The decoders of what those answer who are asked, each for any bytes.

use std::io::Cursor;
use std::task::{Context, Poll, Waker};

use hyper::Request;
use ogive_outgoing::Body;
use ogive_probe::Clock;
use tokio::io::BufReader;

use super::config::{Ask, Config, Dns};
use super::net::Stream;
use super::plan::Random;
use super::run::Run;
use super::{certificate, cloudwatch, dns, http, icmp, postgres, redis};

/// What a server says that says `bytes` and hears everything.
fn said(bytes: &[u8]) -> Box<dyn Stream> {
    Box::new(tokio::io::join(Cursor::new(bytes.to_vec()), tokio::io::sink()))
}

/// What comes of work that has nothing to wait for.
fn done<T>(work: impl Future<Output = T>) -> T {
    match std::pin::pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("bytes in memory are there at once"),
    }
}

/// The only check of a file.
fn requested(table: &str) -> Ask {
    Config::parse(table).expect("a good table").check.remove(0).ask
}

/// An answer to a question of each kind under the number that it has.
pub fn dns(bytes: &[u8]) {
    let id = bytes.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
    for (name, _) in dns::Record::NAMES {
        let record = dns::Record::of(name).expect("it is one");
        let dns = Dns { server: None, query: "a.example".into(), record, expect: vec!["192.0.2.1".into()] };
        if let Ok(Some(answer)) = dns::read(bytes, id, &dns) {
            let _ = dns::judged(&dns, &answer);
        }
    }
}

/// A login with a password, and the answer to a query.
pub fn postgres(bytes: &[u8]) {
    let mut stream = BufReader::new(said(bytes));
    let _ = done(async {
        postgres::log_in(&mut stream, "user", Some("pencil"), &mut Random::new(1)).await?;
        postgres::until_ready(&mut stream, |_, _| {}).await
    });
}

/// Answers to commands, until one is none.
pub fn redis(bytes: &[u8]) {
    let mut stream = BufReader::new(said(bytes));
    let _ = done(async {
        loop {
            if let Err(failure) = redis::ask(&mut stream, &["PING"]).await {
                return failure;
            }
        }
    });
}

/// A response to a request: its head, its body, and where it leads.
pub fn http(bytes: &[u8]) {
    let table = "[[check]]\nname = 'a'\nkind = 'http'\ntarget = 'http://a.example/x/y'\nbody_regex = 'ok|\\d+'\n";
    let Ask::Http(http) = requested(table) else { unreachable!("it is of that kind") };
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("it needs nothing");
    let _ = runtime.block_on(async {
        let request = Request::get("/x/y").header("host", "a.example").body(Body::default()).expect("a good one");
        let response = http::exchange(said(bytes), request).await?;
        let _ = http::led(&http.url, &response);
        let status = response.status();
        let body = http::body(response, 1 << 10).await?;
        http::judged(&http, status, &body)
    });
}

/// A page of `GetMetricData`.
pub fn cloudwatch(bytes: &[u8]) {
    let table = "[[check]]\nname = 'a'\nkind = 'cloudwatch'\nregion = 'eu-west-1'\naccess_key_id = 'i'\nsecret_access_key = 's'\n\
                 [[check.metric]]\nnamespace = 'AWS/SQS'\nname = 'Age'\n";
    let Ask::CloudWatch(ask) = requested(table) else { unreachable!("it is of that kind") };
    let mut run = Run::begin(Clock::manual(1_000, 1_700_000_000_000_000_000));
    cloudwatch::fuzz(&mut run, &ask, bytes);
}

/// An answer to a ping, with the head that a raw socket shows and without.
pub fn icmp(bytes: &[u8]) {
    let request = icmp::message(false, 1, 2, 3);
    for message in icmp::without_head(bytes).into_iter().chain([bytes]) {
        for (is_v6, with_identifier) in [(false, false), (false, true), (true, false), (true, true)] {
            let _ = icmp::is_answer(message, &request, is_v6, with_identifier);
        }
    }
}

/// A certificate.
pub fn certificate(bytes: &[u8]) {
    let _ = certificate::not_after(bytes);
}

/// A file with checks.
pub fn config(text: &str) {
    let _ = Config::parse(text);
}
