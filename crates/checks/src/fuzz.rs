//! The decoders of the checked servers' responses, for fuzzing with arbitrary bytes.

use std::io::Cursor;
use std::task::{Context, Poll, Waker};

use hyper::Request;
use hyper::body::Bytes;
use ogive_outgoing::Body;
use ogive_probe::Clock;
use tokio::io::BufReader;

use super::config::{Config, Probe};
use super::cookies::Jar;
use super::dns::Dns;
use super::extract::{Answer, report};
use super::json_path::JsonPath;
use super::net::Stream;
use super::run::{Failure, Run};
use super::sql::Client as _;
use super::{
    certificate, cloudwatch, dns, elasticsearch, greeting, grpc, haproxy, http, icmp, jolokia, memcached, mongodb,
    mysql, ntp,
};
use super::{ldap, perfdata, postgres, redis, rows, snmp, varnish, websocket};

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
fn requested(table: &str) -> Probe {
    Config::parse(table).expect("a good table").check.remove(0).ask
}

/// An answer to a question of each kind under the number that it has.
pub fn dns(bytes: &[u8]) {
    let id = bytes.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
    for (name, _) in dns::Record::NAMES {
        let record = dns::Record::parse(name).expect("it is one");
        let dns = Dns { server: None, query: "a.example".into(), record, expect: vec!["192.0.2.1".into()] };
        if let Ok(Some(answer)) = dns::read(bytes, id, &dns) {
            let _ = dns::judged(&dns, &answer);
        }
    }
}

/// A login with a password, the answer to a query, and a result.
pub fn postgres(bytes: &[u8]) {
    let mut stream = BufReader::new(said(bytes));
    let _ = done(async {
        postgres::log_in(&mut stream, "user", Some("pencil"), "abc").await?;
        postgres::until_ready(&mut stream, |_, _| {}).await?;
        reported(&stream.table("SELECT 1").await?)
    });
}

/// A greeting, a login, the answer to a ping, and a result.
pub fn mysql(bytes: &[u8]) {
    let mut packets = mysql::Packets::new(said(bytes));
    let _ = done(async { reported(&mysql::exchange(&mut packets).await?) });
}

/// The samples of a result.
fn reported(table: &rows::Table) -> Result<(), Failure> {
    let text = "[[check]]\nname = 'a'\nkind = 'postgres'\ntarget = 'h'\n[[check.query]]\nmetric = 'm'\nsql = 'x'\n";
    let Probe::Postgres(database) = requested(text) else { unreachable!("it is of that kind") };
    let mut run = Run::begin(Clock::manual(1_000, 1_700_000_000_000_000_000));
    rows::report(&mut run, &database.queries[0], table, &mut rows::Reported::default())
}

/// Answers to a request for TLS, and to a bind and a search.
pub fn ldap(bytes: &[u8]) {
    for keys in [
        "starttls = true",
        "user = 'u'\npassword = 'p'\n[check.search]\nlabels = {l = 'cn'}\nvalues = [{name = 'n', attribute = 'n'}]",
    ] {
        let table = format!("[[check]]\nname = 'a'\nkind = 'ldap'\ntarget = 'ldap://a.example'\n{keys}\n");
        let Probe::Ldap(check) = requested(&table) else { unreachable!("it is of that kind") };
        let mut run = Run::begin(Clock::manual(1_000, 1_700_000_000_000_000_000));
        let _ = done(ldap::replay(&mut run, &check, said(bytes)));
    }
}

/// A filter of a search.
pub fn ldap_filter(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = ldap::Filter::parse(text);
    }
}

/// Answers of a MongoDB server: to a login, a ping and commands.
pub fn mongodb(bytes: &[u8]) {
    let clock = Clock::manual(1_000, 1_700_000_000_000_000_000);
    for keys in [
        "user = 'user'\npassword = 'pencil'\nfields = []",
        "replica_set = true\n[[check.run_command]]\nname = 'n'\ncommand = '{\"ping\": 1}'\n\
         extract = [{name = 'x', json = '$.*'}]",
    ] {
        let table = format!("[[check]]\nname = 'a'\nkind = 'mongodb'\ntarget = 'a.example'\n{keys}\n");
        let Probe::MongoDb(check) = requested(&table) else { unreachable!("it is of that kind") };
        let mut run = Run::begin(clock);
        let _ = done(mongodb::replay(&mut run, &check, said(bytes), clock));
    }
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

/// Greetings, and answers to a wish for TLS.
pub fn greeting(bytes: &[u8]) {
    use greeting::Protocol;
    for protocol in [Protocol::Ssh, Protocol::Smtp, Protocol::Imap, Protocol::Pop3] {
        let mut stream = BufReader::new(said(bytes));
        let is_greeted = done(greeting::greet(&mut stream, protocol)).is_ok();
        if is_greeted && protocol != Protocol::Ssh {
            let _ = done(greeting::start_tls(&mut stream, protocol));
        }
    }
}

/// Statistics.
pub fn memcached(bytes: &[u8]) {
    let _ = done(memcached::statistics(&mut BufReader::new(said(bytes))));
}

/// A run, for what reports to one.
fn begun() -> Run {
    Run::begin(Clock::manual(1_000, 1_700_000_000_000_000_000))
}

/// Statistics of HAProxy.
pub fn haproxy(bytes: &[u8]) {
    let table = "[[check]]\nname = 'a'\nkind = 'haproxy'\ntarget = '/s'\nservers_up_min = {shop = 1}\n";
    let Probe::HaProxy(check) = requested(table) else { unreachable!("it is of that kind") };
    let _ = haproxy::report(&mut begun(), &check, &String::from_utf8_lossy(bytes));
}

/// What `varnishstat -j` prints.
pub fn varnish(bytes: &[u8]) {
    let _ = varnish::report(&mut begun(), &String::from_utf8_lossy(bytes));
}

/// Answers of Jolokia to a name and to a pattern.
pub fn jolokia(bytes: &[u8]) {
    let table = "[[check]]\nname = 'a'\nkind = 'jolokia'\ntarget = 'http://a.example/jolokia'\n\
                 [[check.read]]\nmbean = 'a:b=c'\nattributes = ['A']\n[[check.read]]\nmbean = 'a:*'\n";
    let Probe::Jolokia(check) = requested(table) else { unreachable!("it is of that kind") };
    let _ = jolokia::report(&mut begun(), &check, &String::from_utf8_lossy(bytes));
}

/// The health and the statistics of an Elasticsearch cluster.
pub fn elasticsearch(bytes: &[u8]) {
    let table = "[[check]]\nname = 'a'\nkind = 'elasticsearch'\ntarget = 'http://a.example'\nhealth = 'green'\n";
    let Probe::Elasticsearch(check) = requested(table) else { unreachable!("it is of that kind") };
    let text = String::from_utf8_lossy(bytes);
    let _ = elasticsearch::report_health(&mut begun(), &check, &text);
    let _ = elasticsearch::report_nodes(&mut begun(), &text);
}

/// A packet of a time server.
pub fn ntp(bytes: &[u8]) {
    let nonce = bytes.get(24..32).map_or(0, |nonce| u64::from_be_bytes(nonce.try_into().expect("8 bytes")));
    if let Some(answer) = ntp::read(bytes, nonce) {
        let _ = (ntp::judged(&answer), answer.offset_and_delay(0, u64::MAX));
    }
}

/// Datagrams of an SNMP agent, each behind its length in two bytes, for a check with a community and one with a user.
pub fn snmp(bytes: &[u8]) {
    let (mut datagrams, mut rest) = (Vec::new(), bytes);
    while let Some((head, tail)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*head)).min(tail.len());
        let (datagram, after) = tail.split_at(length);
        datagrams.push(Bytes::copy_from_slice(datagram));
        rest = after;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("it needs a timer alone");
    let clock = Clock::manual(1_000, 1_700_000_000_000_000_000);
    for login in ["community = 'public'", "user = 'u'"] {
        let table = format!(
            "[[check]]\nname = 'a'\nkind = 'snmp'\ntarget = 'a.example'\n{login}\n\
             get = [{{name = 'x', oid = '1.3.6.1.2.1.1.3.0'}}]\n\
             walk = [{{labels = {{if = '1.3.6.1.2.1.2.2.1.2'}}, columns = [{{name = 'y', oid = '1.3.6.1.2.1.2.2.1.10'}}]}}]\n"
        );
        let Probe::Snmp(check) = requested(&table) else { unreachable!("it is of that kind") };
        let _ = runtime.block_on(snmp::replay(&mut Run::begin(clock), &check, datagrams.clone(), clock));
    }
}

/// A response to a request: its head, its body, and where it leads.
pub fn http(bytes: &[u8]) {
    let table = "[[check]]\nname = 'a'\nkind = 'http'\ntarget = 'http://a.example/x/y'\nbody_regex = 'ok|\\d+'\n\
                 extract = [{name = 'x', json = '$.a[*]'}, {name = 'y', regex = '(?<l>.) (\\d+)'}]\n";
    let Probe::Http(http) = requested(table) else { unreachable!("it is of that kind") };
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("it needs nothing");
    let _ = runtime.block_on(async {
        let request = Request::get("/x/y").header("host", "a.example").body(Body::default()).expect("a good one");
        let response = http::exchange(said(bytes), request).await?;
        let _ = http::led(&http.url, &response);
        let mut jar = Jar::new(ogive_model::WallNs(1_700_000_000_000_000_000));
        let _ = jar.take(&http.url, response.headers()).map(|()| jar.header(&http.url));
        let status = response.status();
        let body = http::body(response, 1 << 10).await?;
        http::judged(&http, status, &body)?;
        let text = String::from_utf8_lossy(&body.bytes);
        let mut run = Run::begin(Clock::manual(1_000, 1_700_000_000_000_000_000));
        report(&mut run, &http.extract, &Answer::new(&text), &[])
    });
}

/// An answer of the health service.
pub fn grpc(bytes: &[u8]) {
    let _ = grpc::serving(bytes);
}

/// Frames of WebSocket, until a message that is expected and the pong behind it.
pub fn websocket(bytes: &[u8]) {
    let table =
        "[[check]]\nname = 'a'\nkind = 'websocket'\ntarget = 'ws://a.example/'\nexpect = 'ok'\nexpect_regex = '\\d'\n";
    let Probe::WebSocket(check) = requested(table) else { unreachable!("it is of that kind") };
    let _ = done(async {
        let mut socket = websocket::socket(said(bytes)).await;
        websocket::find(&mut socket, &check, &mut 0).await?;
        websocket::ping(&mut socket).await
    });
}

/// A page of `GetMetricData`.
pub fn cloudwatch(bytes: &[u8]) {
    let table = "[[check]]\nname = 'a'\nkind = 'cloudwatch'\nregion = 'eu-west-1'\naccess_key_id = 'i'\nsecret_access_key = 's'\n\
                 [[check.metric]]\nnamespace = 'AWS/SQS'\nname = 'Age'\n";
    let Probe::CloudWatch(ask) = requested(table) else { unreachable!("it is of that kind") };
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

/// What a plugin prints.
pub fn perfdata(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = (perfdata::headline(&text), perfdata::items(&text));
}

/// A path into JSON, and where it leads in what stands behind its line.
pub fn json_path(bytes: &[u8]) {
    let Some((path, value)) = std::str::from_utf8(bytes).ok().and_then(|text| text.split_once('\n')) else { return };
    if let (Ok(path), Ok(value)) = (JsonPath::parse(path), serde_json::from_str(value)) {
        let _ = path.find(&value);
    }
}

/// A certificate.
pub fn certificate(bytes: &[u8]) {
    let _ = certificate::not_after(bytes);
}

/// A file with `[[check]]` tables.
pub fn config(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = Config::parse(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutations::{TEXT, smoke};

    #[test]
    fn answers_of_names_pings_and_certificates_may_be_anything() {
        let answer = b"\0\x07\x81\x80\0\x01\0\x02\0\0\0\0\x01a\x07example\0\0\x01\0\x01\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x01\
                    \xc0\x0c\0\x10\0\x01\0\0\0\x3c\0\x06\x05v=1 x";
        smoke(dns, answer, 5_000, &[]);
        smoke(icmp, &[&[0x45][..], &[0; 19], &[0; 8], &[3; 56]].concat(), 2_000, &[]);
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        smoke(certificate, made.cert.der(), 5_000, &[]);
    }

    #[test]
    fn answers_of_databases_may_be_anything() {
        let message = |kind: u8, body: &[u8]| [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat();
        let [sasl, first] =
            [&b"\0\0\0\x0aSCRAM-SHA-256\0\0"[..], b"\0\0\0\x0br=x,s=W22Z,i=1"].map(|body| message(b'R', body));
        let (taken, row, ready) = (message(b'R', &[0; 4]), message(b'D', b"\0\x01\0\0\0\x011"), message(b'Z', b"I"));
        let no = message(b'E', b"SFATAL\0C28P01\0Mno entry\0\0");
        smoke(postgres, &[&taken[..], &row, &ready].concat(), 3_000, &[]);
        smoke(postgres, &[&sasl[..], &first, &taken].concat(), 3_000, &[]);
        smoke(postgres, &[&taken[..], &no, &ready].concat(), 2_000, &[]);
        let columns = b"\0\x02a\0\0\0\0\0\0\0\0\0\0\x19\0\0\0\0\0\0\0\0b\0\0\0\0\0\0\0\0\0\0\x14\0\0\0\0\0\0\0\0";
        let columns = message(b'T', columns);
        let rows = message(b'D', b"\0\x02\0\0\0\x01x\0\0\0\x011");
        smoke(postgres, &[&taken[..], &ready, &ready, &columns, &rows, &rows, &ready].concat(), 5_000, &[]);
        smoke(redis, b"+OK\r\n-NOAUTH no\r\n+PONG\r\n", 3_000, b"+-\r\n$*0 \xff");
        smoke(memcached, b"STAT pid 7\r\nSTAT version 1.6\r\nEND\r\n", 3_000, b"STATEND 0.\r\n\xff");
    }

    #[test]
    fn answers_of_mysql_may_be_anything() {
        let packet = |sequence: u8, body: &[u8]| [&[body.len() as u8, 0, 0, sequence], body].concat();
        let greeting =
            b"\x0a8.0.36\0\x07\0\0\0abcdefgh\0\xff\xff\x2d\x02\0\xff\xdf\x15\0\0\0\0\0\0\0\0\0\0ijklmnopqrst\0\
                         caching_sha2_password\0";
        let ok = b"\0\0\0\x02\0\0\0";
        let column = b"\x03def\0\0\0\x01n\0\x0c\x3f\0\x01\0\0\0\x08\0\0\0\0\0";
        let end = b"\xfe\0\0\x02\0";
        let result = [packet(1, b"\x01"), packet(2, column), packet(3, end), packet(4, b"\x0212"), packet(5, end)];
        let good =
            [packet(0, greeting), packet(2, b"\x01\x03"), packet(3, ok), packet(1, ok), result.concat()].concat();
        smoke(mysql, &good, 8_000, &[]);
        let switched = b"\xfemysql_native_password\0ABCDEFGHIJKLMNOPQRST\0";
        let refused = b"\xff\x15\x04#28000no entry";
        smoke(mysql, &[packet(0, greeting), packet(2, switched), packet(4, refused)].concat(), 5_000, &[]);
        smoke(mysql, &packet(0, b"\xff\x10\x04Too many connections"), 1_000, &[]);
    }

    #[test]
    fn answers_of_mongodb_may_be_anything() {
        use bson::{RawDocumentBuf, rawdoc};

        let messages = |documents: &[RawDocumentBuf]| {
            let message = |(at, document): (usize, &RawDocumentBuf)| {
                let (document, id) = (document.as_bytes(), at as u32 + 1);
                let head = [document.len() as u32 + 21, 7, id, 2_013, 0].map(u32::to_le_bytes).concat();
                [&head[..], &[0], document].concat()
            };
            documents.iter().enumerate().flat_map(message).collect::<Vec<u8>>()
        };
        let payload = |text: &str| bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: text.into() };
        let step = |is_last: bool, text: &str| {
            rawdoc! {"conversationId": 1_i32, "done": is_last, "payload": payload(text), "ok": 1.0}
        };
        let ok = rawdoc! {"ok": 1.0};
        // RFC 7677, section 3.
        let first = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let login = |first: &str| {
            let hello = rawdoc! {"saslSupportedMechs": ["SCRAM-SHA-256"], "ok": 1.0};
            let verifier = step(false, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
            messages(&[hello, step(false, first), verifier, step(true, ""), ok.clone()])
        };
        // Few, since each is milliseconds of hashing; many that are refused before.
        smoke(mongodb, &login(first), 200, &[]);
        smoke(mongodb, &login("r=rOprNGfwEbeRWgbNEkqOx,s=W22Z,i=1"), 3_000, &[]);
        let status = rawdoc! {"uptime": 5_i32, "connections": {"current": 4_i64}, "mem": {"bits": 64.0}, "ok": 1.0};
        let member =
            rawdoc! {"name": "a:1", "health": 1.0, "state": 1_i32, "optimeDate": bson::DateTime::from_millis(7)};
        let set = rawdoc! {"set": "s", "myState": 1_i32, "members": [member], "ok": 1.0};
        let found = rawdoc! {"cursor": {"id": 7_i64, "ns": "a.b", "firstBatch": [{"n": 1_i32}]}, "ok": 1.0};
        smoke(mongodb, &messages(&[ok.clone(), status, set, found, ok]), 5_000, &[]);
        let refused = rawdoc! {"ok": 0.0, "errmsg": "no", "code": 13_i32, "codeName": "Unauthorized"};
        smoke(mongodb, &messages(&[refused]), 1_000, &[]);
    }

    #[test]
    fn answers_of_directories_may_be_anything() {
        let bound = b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\0\x04\0\x04\0";
        let entry = b"\x30\x24\x02\x01\x02\x64\x1f\x04\x04cn=a\x30\x17\x30\x09\x04\x02cn\x31\x03\x04\x01a\
                      \x30\x0a\x04\x01n\x31\x05\x04\x0342.";
        let reference = b"\x30\x0f\x02\x01\x02\x73\x0a\x04\x08ldap://h";
        let ended = b"\x30\x1b\x02\x01\x02\x65\x16\x0a\x01\x0a\x04\x01x\x04\x02no\xa3\x0a\x04\x08ldap://h";
        smoke(ldap, &[&bound[..], entry, reference, ended].concat(), 8_000, &[]);
        smoke(ldap, b"\x30\x0c\x02\x01\x01\x78\x07\x0a\x01\x02\x04\0\x04\0", 3_000, &[]);
        let filter = b"(&(cn=a*b\\2a*c)(|(n>=1)(m<=2)(o~=x))(!(p=*))(q:dn:1.2:=3)(cn=x))";
        smoke(ldap_filter, filter, 5_000, b"()&|!=<>~:*\\2a. \0");
    }

    #[test]
    fn greetings_and_times_may_be_anything() {
        smoke(greeting, b"SSH-2.0-x\r\n", 2_000, b"SH-12.09\r\n\xff");
        smoke(greeting, b"220-a\r\n220 b\r\n250-x\r\n250 STARTTLS\r\n220 go\r\n", 3_000, b"2504- \r\n\xff");
        smoke(greeting, b"* OK x\r\n* y\r\na1 OK\r\n", 2_000, b"*a1OKBYE \r\n\xff");
        smoke(greeting, b"+OK\r\n+OK\r\n", 2_000, b"+-OKER \r\n\xff");
        smoke(ntp, &[&[0x24, 2, 6, 0xe8][..], &[1; 44]].concat(), 3_000, &[]);
    }

    #[test]
    fn datagrams_of_agents_may_be_anything() {
        use crate::snmp::testing::{UNKNOWN_ENGINE, UNKNOWN_USER, answer, report};
        use async_snmp::Value;

        let text = |word: &'static str| Value::OctetString(Bytes::from_static(word.as_bytes()));
        let community = [
            answer(1, &[("1.3.6.1.2.1.1.3.0", Value::TimeTicks(7))]),
            answer(2, &[("1.3.6.1.2.1.2.2.1.2.1", text("lo")), ("1.3.6.1.2.1.2.2.1.3.1", Value::Integer(24))]),
            answer(
                3,
                &[("1.3.6.1.2.1.2.2.1.10.1", Value::Counter32(9)), ("1.3.6.1.2.1.2.2.1.10.1", Value::EndOfMibView)],
            ),
        ];
        let user = [report(2, "", UNKNOWN_ENGINE), report(3, "u", UNKNOWN_USER)];
        for datagrams in [&community[..], &user] {
            let framed = |datagram: &Bytes| [&(datagram.len() as u16).to_be_bytes()[..], &datagram[..]].concat();
            let all: Vec<u8> = datagrams.iter().flat_map(framed).collect();
            smoke(snmp, &all, 1_000, &[]);
        }
    }

    #[test]
    fn answers_over_http_may_be_anything() {
        let good =
            b"HTTP/1.1 302 Found\r\nLocation: ../b?c#d\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nok 1\r\n0\r\n\r\n";
        smoke(http, good, 3_000, b" :/\r\n0;aA.?#\xff");
        let cookies = b"HTTP/1.1 200 OK\r\nSet-Cookie: k=v; Path=/x; Max-Age=3; Expires=Fri, 01 Jan 2100 00:00:00 GMT; Secure\r\n\
                        Content-Length: 14\r\n\r\n{\"a\":[ok, 1]} ";
        smoke(http, cookies, 3_000, b" :/\r\n0;aA.?#=,\xff");
        smoke(http, b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nok 1", 3_000, b" :/\r\n0;aA.?#\xff");
        let page = br#"{"MetricDataResults":[{"Id":"m0","Timestamps":[1.7e9,1700000300],"Values":[1.5,-2e3]}],"NextToken":"x"}"#;
        smoke(cloudwatch, page, 3_000, TEXT);
    }

    #[test]
    fn statistics_may_be_anything() {
        let table = b"Uptime_sec: 5\nCumReq: 9\n\n# pxname,svname,scur,status,type,-,\nweb,FRONTEND,1,OPEN,0,-,\n\
                      shop,\"a,\"\"1\",0,UP 1/2,2,-,\nshop,BACKEND,0,DOWN,1,-,\n\n";
        smoke(haproxy, table, 5_000, b"#,\"\n\r :-0129UPa\xff");
        let counters = br#"{"version": 1, "counters": {"MAIN.uptime": {"flag": "c", "format": "d", "value": 7},
                            "VBE.boot.a.happy": {"flag": "b", "format": "b", "value": 3}}}"#;
        smoke(varnish, counters, 3_000, TEXT);
        smoke(
            varnish,
            br#"{"timestamp": "x", "SMA.s0.g_bytes": {"flag": "g", "format": "B", "value": 7}}"#,
            3_000,
            TEXT,
        );
        let answers = br#"[{"status": 200, "value": {"A": {"x": 1, "y": true}}},
                           {"status": 200, "value": {"a:b=\"c\\\"\",d=e": {"B": 2, "C": "ERROR: no"}}}]"#;
        smoke(jolokia, answers, 5_000, TEXT);
        smoke(jolokia, br#"[{"status": 200, "value": 7}, {"status": 404, "error": "none"}]"#, 3_000, TEXT);
        let health = br#"{"cluster_name": "c", "status": "yellow", "timed_out": false, "unassigned_shards": 3}"#;
        smoke(elasticsearch, health, 2_000, TEXT);
        let nodes = br#"{"cluster_name": "c", "nodes": {"i": {"name": "n", "jvm": {"gc": {"collectors": {"old":
                         {"collection_count": 2}}}}, "os": {"mem": {"used_percent": 7}}, "timestamp": 1}}}"#;
        smoke(elasticsearch, nodes, 5_000, TEXT);
    }

    #[test]
    fn frames_and_states_of_health_may_be_anything() {
        smoke(grpc, b"\x10\x05\x22\x01x\x2d\0\0\0\0\x08\x01", 3_000, &[]);
        let frames = b"\x81\x02no\x89\x01x\x01\x01o\x80\x03k 1\x8a\x08abcdefgh\x88\x04\x03\xe8ok";
        smoke(websocket, frames, 3_000, b"\x81\x82\x88\x89\x8a\0\x7e\x7f\xff");
    }

    #[test]
    fn outputs_of_plugins_and_paths_may_be_anything() {
        smoke(perfdata, b"OK | 'a b'=1.5ms;2;3:4;~;9 c=U\nlong\nmore | d=7%", 5_000, b"|'=;,.eU \n\xff");
        smoke(json_path, b"$.a[?@.b=='c'][-1]['d'].*\n{\"a\": [{\"b\": \"c\", \"d\": [1, 2]}]}", 5_000, TEXT);
    }

    #[test]
    fn files_may_hold_anything() {
        let checks = b"[[check]]\nname = 'a'\nkind = 'http'\ntarget = 'https://[::1]:8/x'\nperiod = '30s'\nlabels = {b = 'c'}\n\
                       status = [200, 204]\nheaders = {accept = '*'}\n[[check]]\nname = 'c'\nkind = 'http'\ntarget = 'http://h'\nuser = 'u'\n\
                       [[check.step]]\nname = 's'\ntarget = '/${user}'\nkeep.k = {regex = '(a)'}\n\
                       [[check]]\nname = 'b'\nkind = 'dns'\nquery = 'x.y'\nrecord = 'MX'\n\
                       [[check]]\nname = 'd'\nkind = 'mysql'\ntarget = 'h'\nuser = 'u'\n\
                       [[check.query]]\nmetric = 'm'\nsql = 'x'\nvalue_columns = ['v']\ncounter = true\n\
                       [[check]]\nname = 'e'\nkind = 'ldap'\ntarget = 'ldap://h'\n\
                       [check.search]\nfilter = '(cn=a*)'\nvalues = [{name = 'm', attribute = 'n'}]\n\
                       [[check]]\nname = 'f'\nkind = 'mongodb'\ntarget = 'mongodb://h'\nfields = ['mem', 'a.b']\n\
                       [[check.run_command]]\nname = 'n'\ncommand = '{\"find\": \"a\", \"filter\": {\"$date\": {\"$numberLong\": \"1\"}}}'\n\
                       extract = [{name = 'x', json = '$.a[0]'}]\n";
        smoke(config, checks, 1_500, TEXT);
    }
}
