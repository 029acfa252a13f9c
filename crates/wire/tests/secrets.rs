//! No secret survives: whatever a client sends to log in, and whatever values its requests hold, nothing of it is in
//! what is shown of an exchange: its operation, its status, its head.

mod common;

use common::ExchangeLog;
use common::conversations::conversation;
use ogive_wire::{Connection, End, Exchange, Side, operation, protocol};

/// What must not survive; long enough that it stands nowhere by chance.
const SECRET: &str = "hunter2Secret";

const C: Side = Side::Client;
const S: Side = Side::Server;

type Pieces = Vec<(Side, Vec<u8>)>;

fn be16(text: &[u8]) -> Vec<u8> {
    [&u16::try_from(text.len()).unwrap().to_be_bytes()[..], text].concat()
}

fn be32(text: &[u8]) -> Vec<u8> {
    [&u32::try_from(text.len()).unwrap().to_be_bytes()[..], text].concat()
}

/// A message of PostgreSQL.
fn postgres(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind], &u32::try_from(body.len() + 4).unwrap().to_be_bytes()[..], body].concat()
}

/// A packet of MySQL.
fn mysql(number: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_le_bytes();
    [&length[..3], &[number], body].concat()
}

fn redis(words: &[&str]) -> Vec<u8> {
    let words: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{words}", words.matches('$').count()).into_bytes()
}

/// A document of MongoDB with these strings, in a message with this id, or in answer to it.
fn mongodb(id: u32, answers: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, value) in fields {
        body.push(2);
        body.extend(name.as_bytes());
        body.push(0);
        body.extend(u32::try_from(value.len() + 1).unwrap().to_le_bytes());
        body.extend(value.as_bytes());
        body.push(0);
    }
    body.push(0);
    let document = [&u32::try_from(body.len() + 4).unwrap().to_le_bytes()[..], &body].concat();
    let head = [u32::try_from(document.len() + 21).unwrap(), id, answers, 2_013, 0].map(u32::to_le_bytes).concat();
    [&head[..], &[0], &document].concat()
}

fn http2(kind: u8, flags: u8, stream: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], body].concat()
}

/// A field of HPACK with the name of an index, literal and not indexed.
fn field(index: u8, value: &str) -> Vec<u8> {
    let index = if index < 15 { vec![index] } else { vec![15, index - 15] };
    [&index[..], &[u8::try_from(value.len()).unwrap()], value.as_bytes()].concat()
}

fn amqp(kind: u8, channel: u8, body: &[u8]) -> Vec<u8> {
    [&[kind, 0, channel], &be32(body)[..], &[0xce]].concat()
}

/// A conversation in the protocol of this name that is full of the secret.
fn talk(name: &str) -> Pieces {
    let found = web(name).or_else(|| postgres_talk(name)).or_else(|| databases(name)).or_else(|| caches(name));
    let found = found.or_else(|| queues(name));
    found.unwrap_or_else(|| panic!("write a talk full of secrets in {name}"))
}

/// HTTP and DNS.
fn web(name: &str) -> Option<Pieces> {
    let secret = SECRET.as_bytes();
    let text = |text: String| text.into_bytes();
    Some(match name {
        "http1" => vec![
            (
                C,
                text(format!(
                    "POST /login?password={SECRET}&{SECRET}&t={SECRET}#{SECRET} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {SECRET}\r\n\
                 Cookie: s={SECRET}\r\nX-Token: {SECRET}\r\nReferer: /?{SECRET}\r\nContent-Length: 13\r\n\r\n{SECRET}"
                )),
            ),
            (S, text(format!("HTTP/1.1 200 OK\r\nSet-Cookie: s={SECRET}\r\nContent-Length: 13\r\n\r\n{SECRET}"))),
        ],
        "http2" => {
            let path = field(4, &format!("/login?token={SECRET}"));
            let request = [&[0x83, 0x86][..], &path, &field(23, SECRET), &field(32, SECRET)].concat();
            let begin =
                [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &http2(4, 0, 0, b""), &http2(1, 5, 1, &request)].concat();
            let answer = [&[0x88][..], &field(55, SECRET)].concat();
            vec![(C, begin), (S, [http2(4, 0, 0, b""), http2(1, 4, 1, &answer), http2(0, 1, 1, secret)].concat())]
        }
        "dns" => conversation(name),
        _ => return None,
    })
}

/// Stores of keys and values.
fn caches(name: &str) -> Option<Pieces> {
    let text = |text: String| text.into_bytes();
    Some(match name {
        "redis" => vec![
            (C, redis(&["AUTH", "me", SECRET])),
            (S, text(format!("-WRONGPASS {SECRET}\r\n"))),
            (C, redis(&["HELLO", "3", "AUTH", "me", SECRET])),
            (S, b"+OK\r\n".to_vec()),
            (C, [redis(&["CONFIG", "SET", "requirepass", SECRET]), redis(&["SET", SECRET, SECRET])].concat()),
            (S, b"+OK\r\n+OK\r\n".to_vec()),
            (C, text(format!("AUTH {SECRET}\r\n"))),
            (S, b"+OK\r\n".to_vec()),
        ],
        "memcached" => vec![
            (C, text(format!("set {SECRET} 0 0 13\r\n{SECRET}\r\nget {SECRET}\r\n"))),
            (S, text(format!("STORED\r\nVALUE {SECRET} 0 13\r\n{SECRET}\r\nEND\r\n"))),
        ],
        _ => return None,
    })
}

/// PostgreSQL.
fn postgres_talk(name: &str) -> Option<Pieces> {
    let secret = SECRET.as_bytes();
    let sql = format!("ALTER USER me PASSWORD '{SECRET}' -- {SECRET}");
    Some(match name {
        "pgsql" => {
            let startup = b"\0\x03\0\0user\0me\0\0";
            let startup = [&u32::try_from(startup.len() + 4).unwrap().to_be_bytes()[..], startup].concat();
            let error = postgres(b'E', format!("SERROR\0C42601\0M{SECRET}\0\0").as_bytes());
            let ready = postgres(b'Z', b"I");
            vec![
                (C, startup),
                (S, postgres(b'R', b"\0\0\0\x03")),
                (C, postgres(b'p', format!("{SECRET}\0").as_bytes())),
                (S, [postgres(b'R', b"\0\0\0\0"), ready.clone()].concat()),
                (C, postgres(b'Q', format!("{sql}\0").as_bytes())),
                (S, [error, ready.clone()].concat()),
                (
                    C,
                    [
                        postgres(
                            b'P',
                            format!("\0SELECT 1 WHERE a = $${SECRET}$$ AND b = E'\\'{SECRET}'\0\0\0").as_bytes(),
                        ),
                        postgres(b'B', &[&b"\0\0\0\0\0\x01"[..], &be32(secret), b"\0\0"].concat()),
                        postgres(b'S', b""),
                    ]
                    .concat(),
                ),
                (S, [postgres(b'1', b""), postgres(b'2', b""), ready].concat()),
            ]
        }
        _ => return None,
    })
}

/// Other databases.
fn databases(name: &str) -> Option<Pieces> {
    let secret = SECRET.as_bytes();
    Some(match name {
        "mysql" => {
            let mut pieces = conversation(name);
            let login = &mut pieces[1].1;
            login.truncate(login.len() - 2);
            login.push(u8::try_from(SECRET.len()).unwrap());
            login.extend(secret);
            login[0] = u8::try_from(login.len() - 4).unwrap();
            pieces.extend([
                (C, mysql(0, format!("\x03SET PASSWORD = \"{SECRET}\" /* {SECRET} */").as_bytes())),
                (S, mysql(1, b"\0\0\0\x02\0\0\0")),
                (C, mysql(0, &[b"\x11me\0\x0d", secret, b"db\0"].concat())),
                (S, mysql(1, &[&b"\xff\x15\x04#28000"[..], secret].concat())),
            ]);
            pieces
        }
        "mongodb" => vec![
            (C, mongodb(1, 0, &[("saslStart", "1"), ("payload", SECRET)])),
            (S, mongodb(9, 1, &[("ok", "1")])),
            (C, mongodb(2, 0, &[("find", "users"), ("filter", SECRET)])),
            (S, mongodb(10, 2, &[("errmsg", SECRET)])),
        ],
        "cql" => {
            let frame =
                |side: u8, stream: u8, code: u8, body: &[u8]| [&[side, 0, 0, stream, code][..], &be32(body)].concat();
            let query = format!("SELECT a FROM t WHERE b = '{SECRET}' AND c = $${SECRET}$$");
            let query = [&be32(query.as_bytes())[..], b"\0\x01\0"].concat();
            vec![
                (C, frame(4, 1, 15, &be32(secret))),
                (S, frame(0x84, 1, 16, &be32(secret))),
                (C, frame(4, 2, 7, &query)),
                (S, frame(0x84, 2, 0, &[&b"\0\0\x20\0"[..], &be16(secret)].concat())),
            ]
        }
        _ => return None,
    })
}

/// Brokers of messages.
fn queues(name: &str) -> Option<Pieces> {
    let secret = SECRET.as_bytes();
    let text = |text: String| text.into_bytes();
    Some(match name {
        "nats" => vec![
            (S, b"INFO {}\r\n".to_vec()),
            (
                C,
                text(format!(
                    "CONNECT {{\"pass\":\"{SECRET}\",\"auth_token\":\"{SECRET}\"}}\r\nPING\r\nPUB a _INBOX.1 13\r\n{SECRET}\r\n"
                )),
            ),
            (S, text(format!("PONG\r\nMSG _INBOX.1 1 13\r\n{SECRET}\r\n"))),
        ],
        "kafka" => {
            let request = |api: u8, number: u8, body: &[u8]| {
                be32(&[&[0, api, 0, 0, 0, 0, 0, number][..], &be16(b"me"), body].concat())
            };
            let response = |number: u8, body: &[u8]| be32(&[&[0, 0, 0, number][..], body].concat());
            vec![
                (C, [request(17, 1, &be16(b"PLAIN")), request(36, 2, &be32(secret))].concat()),
                (S, [response(1, b"\0\0\0\0\0\0"), response(2, &[&b"\0\0\0\0"[..], &be32(secret)].concat())].concat()),
            ]
        }
        "amqp" => {
            let answer = [&b"\0\x0a\0\x0b"[..], b"\0\0\0\0\x05PLAIN", &be32(secret), b"\x05en_US"].concat();
            let mut pieces = conversation(name);
            pieces.insert(2, (C, amqp(1, 0, &answer)));
            pieces.push((C, amqp(3, 1, secret)));
            pieces
        }
        _ => return None,
    })
}

/// Everything that is shown of an exchange, but for the path of `--exchanges`, which is that of the request.
fn shown(exchange: &Exchange) -> String {
    let Exchange { detail, status, head, .. } = exchange;
    let op = if exchange.protocol.starts_with("http") { "" } else { &exchange.op };
    format!("{} | {op} | {detail} | {status} | {}", operation::name(exchange), head.as_deref().unwrap_or_default())
}

#[test]
fn no_secret_survives_in_any_protocol() {
    for protocol in protocol::TABLE {
        let mut connection = Connection::new(protocol.name, (protocol.new)()).with_heads(true);
        let mut kept = ExchangeLog::default();
        for (at, (side, bytes)) in talk(protocol.name).into_iter().enumerate() {
            let acked = connection.received(side.other());
            connection.data(side, &bytes, at as i64 + 1, Some(acked), &mut kept);
        }
        connection.finish(End::Closed, &mut kept);
        let unanswered = kept.unanswered.iter().map(|(exchange, _)| exchange);
        let all: Vec<String> = kept.answered.iter().chain(unanswered).map(shown).collect();
        let least = if ["http1", "http2", "dns"].contains(&protocol.name) { 1 } else { 2 };
        assert!(kept.answered.len() >= least, "{}: {all:#?}", protocol.name);
        for text in &all {
            assert!(!text.to_ascii_lowercase().contains(&SECRET.to_ascii_lowercase()), "{}: {text}", protocol.name);
        }
    }
}
