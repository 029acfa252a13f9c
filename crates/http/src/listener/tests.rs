use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

use axum::routing::get;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

use super::*;

fn open_web() -> Arc<Web> {
    Arc::new(Web::open(None, crate::testing::read_file, Arc::default()).unwrap())
}

fn door(places: usize, idle: Duration) -> Door {
    Door {
        routes: Router::new().into(),
        places: ConnectionPlaces::new(Limits { connections: places, reserve: 0, leaving: 1 }),
        answers_kib: Arc::new(Semaphore::new(ANSWERS_KIB_MAX)),
        web: open_web(),
        idle,
        first_head: FIRST_HEAD,
        builder: builder(),
    }
}

fn in_flight() -> InFlight {
    let places = ConnectionPlaces::new(Limits { connections: 1, reserve: 0, leaving: 0 });
    places.take(std::net::Ipv4Addr::LOCALHOST.into()).unwrap().0.slot.begin()
}

#[tokio::test]
async fn one_more_than_the_limit_waits_while_all_are_at_work() {
    let listeners = [TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap()];
    let door = door(1, IDLE);
    let first_address = listeners[0].local_addr().unwrap();
    let second_address = listeners[1].local_addr().unwrap();
    let _clients =
        [TcpStream::connect(first_address).await.unwrap(), TcpStream::connect(second_address).await.unwrap()];
    let first = next(&listeners[0], &door).await;
    let working = first.slot().begin();
    let mut second = std::pin::pin!(next(&listeners[1], &door));
    let soon = Duration::from_millis(200);
    assert!(tokio::time::timeout(soon, second.as_mut()).await.is_err(), "the limit is over all addresses");
    // Idle, it gives its place to the other and ends.
    drop(working);
    let _second = tokio::time::timeout(Duration::from_secs(60), second).await.unwrap();
    tokio::time::timeout(Duration::from_secs(60), first.slot().evicted()).await.unwrap();
    assert_eq!(door.places.taken(), 1);
}

/// 800 connections that said nothing closed the door to everybody, health checks among them, for 20 s and more.
#[tokio::test]
async fn connections_that_say_nothing_keep_nobody_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_end, ending) = watch::channel(false);
    let door = Door { routes: Router::new().route("/-/ready", get(|| async { "ready" })).into(), ..door(8, IDLE) };
    tokio::spawn(serve_through(door, vec![listener], ending));
    let mut silent = Vec::new();
    for said in
        [&b""[..], b"GET / HTT", b"PRI * HTTP", b"POST /x HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n"].repeat(10)
    {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(said).await.unwrap();
        silent.push(stream);
    }
    for _ in 0..20 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /-/ready HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).await.unwrap();
        assert!(said.ends_with("ready"), "{said:?}");
    }
}

/// With every connection at work, whoever asks for the health of the process is answered all the same, and nobody else.
#[tokio::test]
async fn health_is_answered_while_all_are_at_work() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_end, ending) = watch::channel(false);
    let router = Router::new()
        .route("/-/ready", get(|| async { "ready" }))
        .route("/slow", get(|| async { std::future::pending::<&str>().await }));
    let places = ConnectionPlaces::new(Limits { connections: 2, reserve: 2, leaving: 1 });
    tokio::spawn(serve_through(
        Door { routes: router.into(), places: places.clone(), ..door(0, IDLE) },
        vec![listener],
        ending,
    ));
    let ask = async |path: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    };
    let _slow = [ask("/slow").await, ask("/slow").await];
    // Until both are at work, a third takes the place of one that has not said what it wants.
    for _ in 0..1_200 {
        if places.at_work() == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for (path, expected) in [("/-/ready", "200 OK"), ("/other", "503 Service"), ("/-/ready", "200 OK")] {
        let mut said = String::new();
        ask(path).await.read_to_string(&mut said).await.unwrap();
        assert!(said.starts_with(&format!("HTTP/1.1 {expected}")), "{path}: {said:?}");
    }
}

async fn read_byte(connection: &mut Connection) -> io::Result<usize> {
    let mut byte = [0];
    std::future::poll_fn(|context| {
        let mut into = ReadBuf::new(&mut byte);
        let read = Pin::new(&mut *connection).poll_read(context, &mut into);
        read.map_ok(|()| into.filled().len())
    })
    .await
}

#[tokio::test]
async fn an_idle_connection_ends_and_a_moving_one_does_not() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    // Longer in all than it may stand idle; each time far less, also on a machine that sleeps too long.
    let mut connection = next(&listener, &door(2, Duration::from_secs(4))).await;
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        client.try_write(b"x").unwrap();
        assert_eq!(read_byte(&mut connection).await.unwrap(), 1);
    }
    let error = read_byte(&mut connection).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

/// Two addresses, one router, ended in order.
#[tokio::test]
async fn every_address_serves_the_same_until_the_end() {
    let listeners =
        vec![TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap()];
    let addresses: Vec<SocketAddr> = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
    let (end, ending) = watch::channel(false);
    let router = Router::new().route("/hello", get(|| async { "hello" }));
    let served = tokio::spawn(serve(listeners, router, open_web(), Duration::ZERO, ending));
    let mut kept = Vec::new();
    for address in addresses {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /hello HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut answer = vec![0; 1024];
        let mut filled = 0;
        while !String::from_utf8_lossy(&answer[..filled]).ends_with("hello") {
            filled += stream.read(&mut answer[filled..]).await.unwrap();
        }
        kept.push(stream);
    }
    end.send(true).unwrap();
    // Kept connections without a request do not hold the server.
    tokio::time::timeout(Duration::from_secs(30), served).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_connection_that_asks_nothing_ends_and_one_that_asked_stays() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_end, ending) = watch::channel(false);
    // Long enough for who asks at once, on a machine that is busy with other things too.
    let door = Door { first_head: Duration::from_secs(3), ..door(10, IDLE) };
    tokio::spawn(serve_through(door, vec![listener], ending));
    let request = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut requested = TcpStream::connect(address).await.unwrap();
    requested.write_all(request).await.unwrap();
    let mut silent = Vec::new();
    for said in [&b""[..], b"GET / HTTP/1.1\r\nhost", b"PRI * HTTP"] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(said).await.unwrap();
        silent.push((said, stream));
    }
    for (said, mut stream) in silent {
        let mut bytes = Vec::new();
        let end = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut bytes)).await;
        let end = end.unwrap_or_else(|_| panic!("still open after {said:?}"));
        assert!(end.is_err() || bytes.is_empty(), "{said:?}: {}", String::from_utf8_lossy(&bytes));
    }
    requested.write_all(request).await.unwrap();
    let (mut bytes, mut filled) = (vec![0; 4096], 0);
    while String::from_utf8_lossy(&bytes[..filled]).matches("404 Not Found").count() < 2 {
        let read = requested.read(&mut bytes[filled..]).await.unwrap();
        assert!(read > 0, "closed after {filled} bytes");
        filled += read;
    }
}

#[test]
fn answers_that_nobody_reads_are_bounded_together() {
    let room = Arc::new(Semaphore::new(3));
    let of = |bytes: usize| held(vec![0_u8; bytes].into_response(), &room, in_flight());
    let (first, second) = (of(1024), of(1025));
    assert_eq!((first.status(), second.status()), (StatusCode::OK, StatusCode::OK));
    assert_eq!(of(1).status(), StatusCode::TOO_MANY_REQUESTS);
    drop(second);
    assert_eq!(of(1).status(), StatusCode::OK);
}

#[tokio::test]
async fn a_large_answer_goes_in_pieces_and_keeps_its_length() {
    let bytes: Vec<u8> = (0..200_000_u32).map(|at| at as u8).collect();
    let room = Arc::new(Semaphore::new(1_000));
    let mut body = held(bytes.clone().into_response(), &room, in_flight()).into_body();
    let mut found = Vec::new();
    while !body.is_end_stream() {
        assert_eq!(body.size_hint().exact(), Some((bytes.len() - found.len()) as u64));
        assert!(room.available_permits() < 1_000, "it holds its share until the end");
        let frame = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await.unwrap().unwrap();
        let data = frame.into_data().unwrap();
        assert!(data.len() <= 64 * 1024);
        found.extend_from_slice(&data);
    }
    assert_eq!(found, bytes);
    drop(body);
    assert_eq!(room.available_permits(), 1_000);
}

/// `curl 'host/api/v1/query?query=up{job="x"}'` got a 400 without a word: the HTTP library takes no such address.
#[tokio::test]
async fn addresses_are_taken_as_they_are_typed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_end, ending) = watch::channel(false);
    let echo = |request: Request<Body>| async move {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
        let pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).map(|(_, value)| value.into_owned()).collect();
        format!("{}[{}]", pairs.join("&"), String::from_utf8_lossy(&body))
    };
    let router = Router::new().route("/q", get(echo).post(echo));
    tokio::spawn(serve_through(Door { routes: router.into(), ..door(10, IDLE) }, vec![listener], ending));
    let mut stream = TcpStream::connect(address).await.unwrap();
    let body = "a=\"<>\" GET /q?x=\" HTTP/1.1\r\n\r\n";
    for (typed, read) in [
        ("up{job=\"x\"}>0", "up{job=\"x\"}>0"),
        ("up<1|`^\\é☃", "up<1|`^\\é☃"),
        ("%7B%22%7D\"", "{\"}\""),
        ("plain", "plain"),
    ] {
        let length = body.len();
        let text = format!("POST /q?query={typed} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}");
        stream.write_all(text.as_bytes()).await.unwrap();
        let expected = format!("{read}[{body}]");
        let mut answer = Vec::new();
        while !String::from_utf8_lossy(&answer).ends_with(&expected) {
            let mut bytes = [0; 1024];
            let read = stream.read(&mut bytes).await.unwrap();
            assert!(read > 0, "{}", String::from_utf8_lossy(&answer));
            answer.extend_from_slice(&bytes[..read]);
        }
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    }
    // What is no address at all is refused with a reason.
    for head in ["GET /q?a b HTTP/1.1\r\nhost: x\r\n\r\n", "GET /q HTTP/1.1\r\nbad header\r\n\r\n"] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (status, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(status.starts_with("HTTP/1.1 400"), "{answer}");
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["errorType"], "bad_data");
    }
}
