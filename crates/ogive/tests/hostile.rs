//! What somebody sends who means harm, against the real server: after each kind it answers others, holds no more memory
//! than it may, and its ledger still adds up. Nothing here asserts a time; a server that hangs fails by the limits of
//! the client's reads.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{FRAME, JSON, SOURCE, Server, eventually, float, form, gzip, now_ms};
use crate::protobuf::{field, varint};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::{Value, json};

/// 320 MiB in a debug build. Most kinds stay below 60; what unfolds to as much as a request may takes 128, and twice
/// that while the list of it grows.
const MEMORY_KIB_MAX: u64 = 320 << 10;

/// 10 minutes for what many ask for at once: a debug build on one busy processor is slow.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(600);

struct Target {
    _data: tempfile::TempDir,
    server: Server,
}

impl Target {
    fn new() -> Self {
        Self::with(&[])
    }

    fn with(more: &[&str]) -> Self {
        let data = tempfile::tempdir().unwrap();
        let server = Server::try_start(data.path(), &[&["--listen", "127.0.0.1:0"], more].concat()).unwrap();
        Self { _data: data, server }
    }

    /// The server answers, its ledger adds up, and it never held more than it may.
    fn lives(&self, after: &str) {
        assert_eq!(self.server.get("/-/ready").0, 200, "after {after}");
        let (_, figures) = self.server.get("/v1/status");
        let figure = |name: &str| figures[name].as_u64().unwrap_or_else(|| panic!("{name} is not in {figures}"));
        let decided = ["accepted_total", "duplicate_total", "rejected_total", "refused_total"].map(figure);
        assert_eq!(figure("received_total"), decided.iter().sum::<u64>(), "after {after}: {figures}");
        let peak = self.server.memory_peak_kib();
        assert!(peak < MEMORY_KIB_MAX, "after {after} the server had held {} MiB", peak >> 10);
    }

    fn unreadable(&self) -> u64 {
        self.server.get("/v1/status").1["unreadable_total"].as_u64().unwrap()
    }

    /// Posts and gives the status; what is wrong with it is counted.
    fn refuses(&self, what: &str, head: &str, body: &[u8], expected: &[u16]) {
        let before = self.unreadable();
        let (status, said) = self.server.request(head, body).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(expected.contains(&status), "{what}: {status} {said}");
        // OTLP answers in its own form.
        if !head.contains("/v1/metrics") && !head.contains("/v1/logs") {
            let said: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{what}: {said}"));
            assert_eq!(said["status"], "error", "{what}: {said}");
        }
        assert!(self.unreadable() > before, "{what} is not counted");
        self.lives(what);
    }
}

/// Every way in over HTTP, with the kind of body that it takes.
const WAYS_IN: [(&str, &str); 5] = [
    ("/v1/batch", JSON),
    ("/api/v1/write", PROTOBUF),
    ("/v1/metrics", PROTOBUF),
    ("/v1/metrics", JSON),
    ("/v1/logs", PROTOBUF),
];

const PROTOBUF: &str = "application/x-protobuf";

fn head(path: &str, kind: &str, packing: &str) -> String {
    format!("POST {path} HTTP/1.1\r\ncontent-type: {kind}\r\ncontent-encoding: {packing}")
}

/// A message in a field, which `tag` names.
fn nested(tag: u8, inside: &[u8]) -> Vec<u8> {
    field(tag >> 3, inside)
}

fn snappy(bytes: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(bytes).unwrap()
}

#[test]
fn bombs_are_refused_before_they_unfold() {
    let target = Target::new();
    let mib = || vec![b' '; 1 << 20];
    let gzip_bomb = gzip(std::iter::repeat_with(mib).take(200));
    let zstd_bomb = {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        (0..500).for_each(|_| encoder.write_all(&mib()).unwrap());
        encoder.finish().unwrap()
    };
    // A frame header that asks for a window of 2 GiB: magic, descriptor, window descriptor (exponent 21), one empty
    // last block.
    let zstd_window = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3, 0x01, 0x00, 0x00];
    let members = gzip(std::iter::once(b"[".to_vec())).repeat(100_000);
    for (path, kind) in WAYS_IN {
        // Remote write does not take gzip at all.
        let takes_gzip = path != "/api/v1/write";
        target.refuses("a gzip bomb", &head(path, kind, "gzip"), &gzip_bomb, if takes_gzip { &[413] } else { &[415] });
        target.refuses("a zstd bomb", &head(path, kind, "zstd"), &zstd_bomb, &[413]);
        target.refuses("a window of 2 GiB", &head(path, kind, "zstd"), &zstd_window, &[400, 413]);
        let broken: &[u16] = if takes_gzip { &[400, 413] } else { &[415] };
        target.refuses("100,000 members of gzip", &head(path, kind, "gzip"), &members, broken);
        target.refuses("a packing in a packing", &head(path, kind, "gzip, gzip"), &gzip_bomb, &[400, 415]);
    }
}

#[test]
fn lengths_that_lie_are_found_out() {
    let target = Target::new();
    let huge = [varint(u64::from(u32::MAX)), vec![0; 10]].concat();
    let mut small = snappy(&vec![b'a'; 1 << 20]);
    let declared = varint(1 << 20).len();
    small.splice(..declared, varint(10));
    for (path, kind) in WAYS_IN {
        let head = head(path, kind, "snappy");
        target.refuses("4 GiB declared in 10 bytes", &head, &huge, &[400, 413]);
        target.refuses("more than 64 bits declared", &head, &[0xff; 11], &[400, 413]);
        target.refuses("more than was declared", &head, &small, &[400]);
        target.refuses("a copy from before the beginning", &head, &[10, 0x09, 0xff], &[400]);
    }
    let write = |bytes: &[u8]| snappy(bytes);
    let head = head("/api/v1/write", "application/x-protobuf", "snappy");
    target.refuses("a varint of 11 bytes", &head, &write(&[&[0x0a][..], &[0xff; 11]].concat()), &[400]);
    target.refuses("a length behind the end", &head, &write(&[&[0x0a][..], &varint(1 << 40)].concat()), &[400]);
    target.refuses("a length of all bits", &head, &write(&[&[0x0a][..], &varint(u64::MAX)].concat()), &[400]);
    target.refuses("groups in groups", &head, &write(&[0x0b; 1_000_000]), &[400]);
}

/// A frame of so many empty histograms, 49 bytes each: 300 in memory.
fn empty_histograms(sequence: u64, count: usize) -> Vec<u8> {
    use ogive_model::{Batch, Kind, Sample, SeriesDef, SeriesMeta, SourceId, Temporality, Value};
    let meta = SeriesMeta { kind: Kind::Histogram, temporality: Temporality::Delta, unit: "s".into(), width_ms: 1000 };
    let empty = ogive_hist::Histogram::<u64>::new(ogive_hist::Scheme::LogLinear10);
    let sample =
        Sample { series: 0, time_ns: now_ms() * 1_000_000, start_ns: None, value: Value::Histogram(Box::new(empty)) };
    let series = vec![SeriesDef::new([("__name__", "nothing")], meta)];
    let samples = vec![Ok(sample); count];
    Batch { source: SourceId(7), sequence, series, samples, ..Batch::default() }.encode().unwrap()
}

/// Many at once, each below every limit of a request: together they would be 700 MiB.
#[test]
fn small_batches_that_unfold_at_the_same_time() {
    let target = Target::new();
    // Sent again, a batch costs its reading alone.
    let frames: Vec<Vec<u8>> = (0..2).map(|sequence| empty_histograms(sequence, 50_000)).collect();
    assert!(frames[0].len() < 3 << 20, "{}", frames[0].len());
    let post = |frame: &[u8]| {
        let mut stream = target.server.connect();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!(
            "POST /v1/batch HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: {FRAME}\r\ncontent-length: {}\r\n\r\n",
            frame.len()
        );
        stream.write_all(&[head.as_bytes(), frame].concat()).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer.to_ascii_lowercase()
    };
    std::thread::scope(|scope| {
        for sender in 0..40 {
            let (post, frame) = (&post, &frames[sender % frames.len()]);
            scope.spawn(move || {
                // As often as it is asked to retry.
                let from = std::time::Instant::now();
                let mut answers = std::iter::repeat_with(|| post(frame)).take_while(|_| from.elapsed() < PATIENCE);
                let answer = answers.find(|answer| {
                    let is_busy = answer.starts_with("http/1.1 429");
                    assert!(!is_busy || answer.contains("\r\nretry-after: 1\r\n"), "{answer}");
                    if is_busy {
                        std::thread::sleep(std::time::Duration::from_millis(100));
                    }
                    !is_busy
                });
                let answer = answer.expect("it is taken some time");
                assert!(answer.starts_with("http/1.1 200"), "{answer}");
            });
        }
    });
    target.lives("40 batches of 50,000 empty histograms at once");
    let (_, figures) = target.server.get("/v1/status");
    let decided = (&figures["batch_accepted_total"], &figures["batch_duplicate_total"]);
    assert_eq!(decided, (&json!(100_000), &json!(1_900_000)), "{figures}");
}

/// Small messages that stand for much: what each costs is bounded by how many may be.
#[test]
fn a_million_empty_messages() {
    let target = Target::new();
    let ask = |what: &str, message: &[u8]| {
        let head = head("/api/v1/write", "application/x-protobuf", "snappy");
        let (status, said) = target.server.request(&head, &snappy(message)).unwrap();
        assert!([204, 400, 413].contains(&status), "{what}: {status} {said}");
        target.lives(what);
    };
    ask("a million empty series", &[0x0a, 0x00].repeat(1_000_000));
    for (what, field) in [("labels", 0x0a), ("samples", 0x12), ("exemplars", 0x1a), ("histograms", 0x22)] {
        let inside = [field, 0x00].repeat(1_000_000);
        ask(&format!("a series of a million empty {what}"), &nested(0x0a, &inside));
    }
    // A named series whose one histogram has a million spans.
    let text = |field: u8, text: &str| [&[field, text.len() as u8][..], text.as_bytes()].concat();
    let label = nested(0x0a, &[text(0x0a, "__name__"), text(0x12, "h")].concat());
    for (what, field) in [("positive spans", 0x5a), ("negative spans", 0x42)] {
        let histogram = nested(0x22, &[field, 0x00].repeat(1_000_000));
        ask(&format!("a million {what}"), &nested(0x0a, &[&label[..], &histogram].concat()));
    }
    let otlp = |what: &str, path: &str, message: &[u8]| {
        let (status, _) =
            target.server.request(&head(path, PROTOBUF, "gzip"), &gzip(std::iter::once(message.to_vec()))).unwrap();
        assert!([200, 400, 413].contains(&status), "{what}: {status}");
        target.lives(what);
    };
    for path in ["/v1/metrics", "/v1/logs"] {
        otlp("a million empty resources", path, &[0x0a, 0x00].repeat(1_000_000));
        // Resource, scope, metric or record, and what is in it: a million at each depth.
        let mut message = [0x12, 0x00].repeat(1_000_000);
        for depth in ["scopes", "metrics or records", "fields in one of them"] {
            otlp(&format!("a million empty {depth}"), path, &nested(0x0a, &message));
            message = nested(0x12, &message);
        }
    }
    ask("a million pieces of metadata", &[0x1a, 0x00].repeat(1_000_000));
    ask("a million unknown fields", &[0x7a, 0x00].repeat(1_000_000));
}

#[test]
fn nesting_is_bounded() {
    let target = Target::new();
    for text in ["[", "{\"a\":", "{\"source\":[", "{\"series\":[{\"labels\":{\"a\":["] {
        target.refuses("nested JSON", &head("/v1/batch", JSON, "identity"), text.repeat(100_000).as_bytes(), &[400]);
    }
    for text in ["{\"resourceMetrics\":[", "{\"resource\":{\"attributes\":[{\"value\":{\"arrayValue\":{\"values\":["] {
        target.refuses(
            "nested OTLP JSON",
            &head("/v1/metrics", JSON, "identity"),
            text.repeat(20_000).as_bytes(),
            &[400],
        );
    }
    // A value that is a list of one value that is a list, 10,000 times: in the body of a log record.
    let value = (0..10_000).fold(Vec::new(), |inside, _| nested(0x2a, &nested(0x0a, &inside)));
    let request = [0x2a, 0x12, 0x12, 0x0a].iter().fold(value, |inside, field| nested(*field, &inside));
    let (status, _) = target.server.request(&head("/v1/logs", PROTOBUF, "identity"), &request).unwrap();
    assert!([200, 400].contains(&status), "{status}");
    target.lives("a value nested 10,000 times");
    let ask = |what: &str, query: &str| {
        let head = "POST /api/v1/query HTTP/1.1\r\ncontent-type: application/x-www-form-urlencoded";
        let (status, said) = target.server.request(head, format!("query={}", form(query)).as_bytes()).unwrap();
        target.lives(what);
        (status, said)
    };
    for (what, query) in [
        ("parentheses", "(".repeat(300_000)),
        ("closed parentheses", format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000))),
        ("signs", format!("{}1", "-".repeat(300_000))),
        ("a sum of a hundred thousand", vec!["1"; 100_000].join("+")),
        ("powers", vec!["2"; 50_000].join("^")),
        ("functions", format!("{}1", "abs(".repeat(50_000))),
        ("subqueries", format!("x{}", "[1h:1s]".repeat(20_000))),
        ("comparisons", vec!["x"; 50_000].join(" > bool ")),
        ("matchers", format!("x{{{}}}", "a=\"b\",".repeat(300_000))),
        ("a string without end", format!("\"{}", "a".repeat(900_000))),
        ("comments", "#\n".repeat(200_000)),
        ("a million bytes of nothing", "\0".repeat(300_000)),
    ] {
        let (status, said) = ask(what, &query);
        assert!([400, 413, 422].contains(&status), "{what}: {status} {}", &said[..said.len().min(300)]);
    }
}

#[test]
fn patterns_do_not_blow_up() {
    let target = Target::new();
    let value = "a".repeat(2_000) + "!";
    let series = json!([{"labels": {"__name__": "x", "a": value}, "kind": "float"}]);
    let t = now_ms();
    let samples = json!([{"series": 0, "time_ms": t, "float": 1}]);
    assert_eq!(target.server.batch(SOURCE, 1, series, samples).0, 200);
    for (pattern, statuses) in [
        ("(a+)+$", &[200][..]),
        ("(a|a)*$", &[200]),
        ("(a|aa)+$", &[200]),
        ("(.*)*(.*)*(.*)*b", &[200]),
        ("((a{1,100}){1,100}){1,100}", &[400]),
        ("(?:a{1000}){1000}", &[400]),
        ("[\\\\p{L}]{1000}{1000}", &[400]),
        (
            "(((((((((((((((((((((((((((((((((((a{2}){2}){2}){2}){2}){2}){2}){2}){2}){2}){2}){2}){2}){2}){2}){2}){2}){2}){2}){2}){2}){2}){2}){2}){2}){2}){2}){2}){2}){2}){2}){2}){2}){2}){2})",
            &[400],
        ),
    ] {
        for query in
            [format!("x{{a=~\"{pattern}\"}}"), format!("label_replace(x, \"b\", \"$1\", \"a\", \"{pattern}\")")]
        {
            let (status, said) = target.server.get(&format!("/api/v1/query?time={}&query={}", t / 1000, form(&query)));
            let expected = if query.starts_with("label") { &[200, 400, 422] } else { statuses };
            assert!(expected.contains(&status), "{query}: {status} {said}");
        }
    }
    let nested = format!("{}a{}", "(".repeat(50_000), ")".repeat(50_000));
    let body = format!("query={}", form(&format!("x{{a=~\"{nested}\"}}")));
    let head = "POST /api/v1/query HTTP/1.1\r\ncontent-type: application/x-www-form-urlencoded";
    assert_eq!(target.server.request(head, body.as_bytes()).unwrap().0, 400);
    target.lives("patterns");
}

#[test]
fn chunks_and_trailers_are_bounded() {
    let target = Target::new();
    let begin = "POST /v1/batch HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\ntransfer-encoding: chunked\r\n";
    let trailers: String = (0..100_000).map(|at| format!("x-trailer-{at}: {}\r\n", "v".repeat(100))).collect();
    for (what, text) in [
        ("10 MB of trailers", format!("{begin}trailer: x\r\n\r\n0\r\n{trailers}\r\n")),
        ("an endless trailer", format!("{begin}\r\n0\r\nx: {}", "v".repeat(5_000_000))),
        ("an endless chunk extension", format!("{begin}\r\n1;{}\r\n \r\n", "e".repeat(5_000_000))),
        (
            "extensions on each chunk",
            format!("{begin}\r\n{}0\r\n\r\n", format!("1;{}\r\n \r\n", "e".repeat(1_000)).repeat(5_000)),
        ),
        ("a size of many digits", format!("{begin}\r\n{}1\r\n \r\n0\r\n\r\n", "0".repeat(100_000))),
        ("a size beyond 64 bits", format!("{begin}\r\nffffffffffffffffff\r\n")),
        ("a length and chunks", format!("{begin}content-length: 5\r\n\r\n0\r\n\r\nGET /x HTTP/1.1\r\n\r\n")),
        (
            "two lengths",
            "POST /v1/batch HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n12345".into(),
        ),
        ("a head without end", format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {}", "v".repeat(5_000_000))),
        ("headers without end", format!("GET / HTTP/1.1\r\nhost: localhost\r\n{}", "a: b\r\n".repeat(500_000))),
        ("a line without end", format!("GET /{}", "a".repeat(5_000_000))),
    ] {
        let mut stream = target.server.connect();
        // Who is refused early finds the door closed.
        let _ = stream.write_all(text.as_bytes());
        let _ = stream.shutdown(Shutdown::Write);
        if let Ok((status, said)) = crate::common::read_answer(&mut stream) {
            assert!((400..=431).contains(&status), "{what}: {status} {said}");
        }
        target.lives(what);
    }
}

/// Bodies that hardly move take a place each, and nothing from others.
#[test]
fn slow_bodies_keep_nobody_from_answers() {
    let target = Target::new();
    let begin = "POST /v1/batch HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 33000000\r\n\r\n{";
    let mut slow: Vec<TcpStream> = (0..300).map(|_| target.server.connect()).collect();
    for stream in &mut slow {
        stream.write_all(begin.as_bytes()).unwrap();
    }
    // What they declare and do not send takes nothing from others.
    let t = now_ms();
    let samples = json!([{"series": 0, "time_ms": t, "float": 1}]);
    let (status, said) = target.server.batch(SOURCE, 1, json!([float("fine")]), samples);
    assert_eq!(status, 200, "{said}");
    for _ in 0..5 {
        for stream in &mut slow {
            let _ = stream.write_all(b" ");
        }
        assert_eq!(target.server.get("/api/v1/query?query=1").0, 200);
    }
    target.lives("slow bodies");
    drop(slow);
    target.lives("slow bodies that went");
}

/// 67 MB of bodies that stood still made every write of others busy for a minute, and 33 forms that did kept everybody
/// from asking by
/// POST: who sends nothing gives way now.
#[test]
fn bodies_that_stand_still_give_way() {
    let target = Target::new();
    let held = |path: &str, kind: &str, count: usize, bytes: usize| -> Vec<TcpStream> {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            bytes + 1
        );
        let body = [head.as_bytes(), b"query=", &vec![b'1'; bytes - 6]].concat();
        (0..count)
            .map(|_| {
                let mut stream = target.server.connect();
                stream.write_all(&body).unwrap();
                stream
            })
            .collect()
    };
    // A machine that is busy may need so long that all were given up for standing still before anybody wanted their
    // room.
    let renewed = |streams: &mut Vec<TcpStream>, again: &dyn Fn() -> Vec<TcpStream>| {
        if streams.iter().all(has_been_answered) {
            *streams = again();
        }
    };
    let more_batches = || held("/v1/batch", JSON, 2, (32 << 20) - 1);
    let mut batches = more_batches();
    let mut sequence = 0;
    let mut is_taken = || {
        sequence += 1;
        let samples = json!([{"series": 0, "time_ms": now_ms(), "float": 1}]);
        target.server.batch(SOURCE, sequence, json!([float("fine")]), samples).0 == 200
    };
    let evicted = || {
        let metrics = target.server.request("GET /metrics HTTP/1.1", b"").unwrap().1;
        let count = metrics.lines().find_map(|line| line.strip_prefix("ogive_evicted_total{what=\"body\"} "));
        count.expect("it is counted").parse::<u64>().unwrap()
    };
    // Until all of it has come and stood still for a second, there may be no room.
    crate::common::eventually("a write that makes room", || {
        renewed(&mut batches, &more_batches);
        (is_taken() && evicted() > 0).then_some(())
    });
    for _ in 0..20 {
        assert!(is_taken());
    }
    let before = evicted();
    let more_forms = || held("/api/v1/query", "application/x-www-form-urlencoded", 40, (1 << 20) - 100);
    let mut forms = more_forms();
    let ask = || {
        let head = "POST /api/v1/query HTTP/1.1\r\ncontent-type: application/x-www-form-urlencoded";
        target.server.request(head, format!("query={}1", " ".repeat(200_000)).as_bytes()).unwrap().0
    };
    crate::common::eventually("an answer that makes room", || {
        renewed(&mut forms, &more_forms);
        (ask() == 200 && evicted() > before).then_some(())
    });
    for _ in 0..20 {
        assert_eq!(ask(), 200);
    }
    drop((batches, forms));
    target.lives("bodies that stood still");
}

/// Whether the server has answered or closed a connection whose request is not whole.
fn has_been_answered(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let answered = !matches!(stream.peek(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock);
    stream.set_nonblocking(false).unwrap();
    answered
}

/// Permits this process 4,096 open files, if it may have as many: the tests beside this one have theirs.
fn allow_files() {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(hard.min(4_096)), hard).unwrap();
}

/// 800 connections that said nothing closed the door for 20 s, health checks included; 64 streams that nobody read
/// refused all others.
#[test]
fn who_says_and_reads_nothing_keeps_nobody_out() {
    allow_files();
    let target = Target::new();
    let mut silent: Vec<TcpStream> = Vec::new();
    for at in 0..900 {
        // Files of this process may be fewer.
        let Ok(mut stream) = TcpStream::connect(&target.server.address) else { break };
        let said =
            [&b""[..], b"GET / HTTP/1.1\r\nhost: loc", b"POST /v1/batch HTTP/1.1\r\nhost: localhost\r\n\r\n"][at % 3];
        let _ = stream.write_all(said);
        silent.push(stream);
    }
    assert!(silent.len() > 850, "{} connections", silent.len());
    for path in ["/-/ready", "/-/healthy", "/api/v1/query?query=1"].repeat(5) {
        assert_eq!(target.server.get(path).0, 200, "{path}");
    }
    drop(silent);
    let mut streams = Vec::new();
    for _ in 0..70 {
        let mut stream = target.server.connect();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"GET /v1/live?query=ogive_hiccup_seconds HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut head = [0; 15];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 200 OK", "after {}", streams.len());
        streams.push(stream);
    }
    let mut oldest = String::new();
    streams[0].read_to_string(&mut oldest).unwrap();
    assert!(oldest.contains("retry: 15000"), "{oldest}");
    target.lives("streams that nobody reads");
}

/// HTTP/2 by hand.
mod h2 {
    use super::*;

    pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    pub(super) const HEADERS: u8 = 1;
    pub(super) const RST_STREAM: u8 = 3;
    pub(super) const SETTINGS: u8 = 4;
    pub(super) const PING: u8 = 6;
    pub(super) const WINDOW_UPDATE: u8 = 8;
    pub(super) const CONTINUATION: u8 = 9;
    pub(super) const END_STREAM: u8 = 1;
    pub(super) const END_HEADERS: u8 = 4;

    /// `GET /` of host `localhost` over http, in the names of the static table.
    pub(super) const GET: &[u8] = b"\x82\x86\x84\x41\x09localhost";

    pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = (payload.len() as u32).to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }

    /// Sends until the server closes or all is sent; gives whether it closed.
    pub(super) fn flood(server: &Server, frames: impl Iterator<Item = Vec<u8>>) -> bool {
        let mut stream = server.connect();
        let mut reader = stream.try_clone().unwrap();
        // What it says is read, so that it never waits for us.
        let reading = std::thread::spawn(move || {
            let mut sum = Vec::new();
            let _ = (&mut reader).take(64 << 20).read_to_end(&mut sum);
            sum
        });
        let _ = stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat());
        let mut is_closed = false;
        let mut waiting = Vec::new();
        for next in frames {
            waiting.extend(next);
            if waiting.len() > 1 << 16 {
                if stream.write_all(&waiting).is_err() {
                    is_closed = true;
                    break;
                }
                waiting.clear();
            }
        }
        is_closed |= stream.write_all(&waiting).is_err();
        let _ = stream.shutdown(Shutdown::Write);
        let said = reading.join().unwrap();
        // GOAWAY (kind 7) is a goodbye with a reason.
        is_closed || said.windows(9).any(|bytes| bytes[3] == 7 && bytes[5..] == [0, 0, 0, 0])
    }
}

#[test]
fn floods_of_http_2_end_their_connection() {
    use h2::*;
    let target = Target::new();
    let ids = || (0..50_000_u32).map(|at| at * 2 + 1);
    let resets = ids().map(|id| {
        let cancel = frame(RST_STREAM, 0, id, &8_u32.to_be_bytes());
        [frame(HEADERS, END_STREAM | END_HEADERS, id, GET), cancel].concat()
    });
    flood(&target.server, resets);
    target.lives("a rapid reset");
    // A request that cannot be: the server resets it, as often as that is asked for.
    let made = ids().map(|id| {
        let wrong = frame(WINDOW_UPDATE, 0, id, &0_u32.to_be_bytes());
        [frame(HEADERS, END_HEADERS, id, GET), wrong].concat()
    });
    assert!(flood(&target.server, made), "resets that the server is made to send");
    target.lives("resets that the server is made to send");
    let padding = [&[0x00, 0x7f, 0x80, 0x7f][..], &vec![b'a'; 16_000]].concat();
    let first = frame(HEADERS, END_STREAM, 1, GET);
    let more = std::iter::repeat_with(move || frame(CONTINUATION, 0, 1, &padding)).take(5_000);
    assert!(flood(&target.server, std::iter::once(first).chain(more)), "80 MB of a head without end");
    target.lives("a flood of CONTINUATION");
    let first = frame(HEADERS, END_STREAM, 1, GET);
    let empty = std::iter::repeat_with(|| frame(CONTINUATION, 0, 1, &[])).take(500_000);
    flood(&target.server, std::iter::once(first).chain(empty));
    target.lives("empty CONTINUATIONs");
    flood(&target.server, std::iter::repeat_with(|| frame(SETTINGS, 0, 0, &[])).take(200_000));
    target.lives("a flood of SETTINGS");
    flood(&target.server, std::iter::repeat_with(|| frame(PING, 0, 0, &[0; 8])).take(200_000));
    target.lives("a flood of PING");
    // A table of the other side's making, used over and over: 64 bytes that stand for 60 MB.
    let entry = [&[0x40, 0x01, b'a', 0x7f, 0x81, 0x1e][..], &vec![b'v'; 4_000]].concat();
    let block = [GET, &entry, &vec![0xbe; 15_000]].concat();
    flood(
        &target.server,
        std::iter::once(frame(HEADERS, END_STREAM | END_HEADERS, 1, &block[..16_384.min(block.len())])),
    );
    target.lives("a head that refers to itself");
    // More streams than may be, none of which ends.
    let open = ids().take(5_000).map(|id| frame(HEADERS, END_HEADERS, id, &[&[0x83][..], &GET[1..]].concat()));
    flood(&target.server, open);
    target.lives("streams without end");
}

/// So many heavy queries of each of two logins, and how many are answered before a small one may be.
const FLOOD: usize = 16;

/// Two logins had every place with heavy queries, one behind the other, and a third one's small query waited for all of
/// them.
#[test]
fn a_small_query_goes_before_the_queues_of_two_floods() {
    let directory = tempfile::tempdir().unwrap();
    let hash = |password: &str| bcrypt::hash(password, 4).unwrap();
    let web = directory.path().join("web.yml");
    let users: String = ["alice", "carol", "bob"].map(|name| format!("  {name}: {}\n", hash(name))).concat();
    std::fs::write(&web, format!("basic_auth_users:\n{users}")).unwrap();
    // The last of many waits for all before it, on a machine that may be busy with others.
    let patience = PATIENCE.as_secs().to_string();
    let arguments = ["--listen", "127.0.0.1:0", "--web-config", web.to_str().unwrap(), "--query-timeout-s", &patience];
    let server = Server::try_start(&directory.path().join("data"), &arguments).unwrap_or_else(|said| panic!("{said}"));
    let ask = |name: &str, path: &str, kind: &str, body: &[u8]| {
        let login = STANDARD.encode(format!("{name}:{name}"));
        let method = if body.is_empty() { "GET" } else { "POST" };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Basic {login}\r\n\
             content-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let mut stream = server.connect();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        crate::common::read_answer(&mut stream).unwrap()
    };
    let end = now_ms() / 1000;
    let label = |at: usize| json!({"labels": {"__name__": "many", "id": at.to_string()}, "kind": "float"});
    let sample = |at: usize| json!({"series": at, "time_ms": end * 1000, "float": 1});
    let series: Vec<_> = (0..200).map(label).collect();
    let samples: Vec<_> = (0..200).map(sample).collect();
    let body = json!({"source": SOURCE, "sequence": 1, "series": series, "samples": samples}).to_string();
    let (status, said) = ask("alice", "/v1/batch", JSON, body.as_bytes());
    assert_eq!(status, 200, "{said}");
    let heavy = form("sum(sum_over_time(many[30m]) + sum_over_time(many[20m]))");
    let heavy = format!("/api/v1/query_range?query={heavy}&start={end}&end={}&step=1", end + 300);
    let small = format!("/api/v1/query?query=vector(7)&time={end}");
    let answered = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for at in 0..2 * FLOOD {
            let (ask, answered, heavy) = (&ask, &answered, &heavy);
            scope.spawn(move || {
                let (status, said) = ask(["alice", "carol"][at % 2], heavy, "text/plain", b"");
                assert_eq!(status, 200, "{said}");
                // ORDERING: SeqCst, here and below; a test.
                answered.fetch_add(1, Ordering::SeqCst);
            });
        }
        // Both floods run, and their queues are there.
        eventually("a first heavy query is answered", || (answered.load(Ordering::SeqCst) > 0).then_some(()));
        for _ in 0..3 {
            let (before, (status, said)) = (answered.load(Ordering::SeqCst), ask("bob", &small, "text/plain", b""));
            let after = answered.load(Ordering::SeqCst);
            assert!(status == 200 && said.contains("\"7\""), "{status} {said}");
            // Those that ran may end before it, and as many that were on their way out.
            assert!(
                after - before <= FLOOD / 2,
                "{} of {} heavy queries before a small one",
                after - before,
                2 * FLOOD
            );
        }
        assert!(answered.load(Ordering::SeqCst) < 2 * FLOOD, "the floods were over before the small queries");
    });
}

/// What many series cost to ask is bounded by the limits of a query, which the answer names.
#[test]
fn many_series_are_asked_within_limits() {
    let target = Target::with(&["--query-series", "20000", "--limit-series", "30000"]);
    let t = now_ms();
    for part in 0..4_u64 {
        let names = (0..10_000)
            .map(|at| format!("{{\"labels\":{{\"__name__\":\"many\",\"id\":\"{part}-{at}\"}},\"kind\":\"float\"}}"));
        let samples = (0..10_000).map(|at| format!("{{\"series\":{at},\"time_ms\":{t},\"float\":1}}"));
        let (names, samples) = (names.collect::<Vec<_>>().join(","), samples.collect::<Vec<_>>().join(","));
        let body =
            format!("{{\"source\":\"{SOURCE}\",\"sequence\":{part},\"series\":[{names}],\"samples\":[{samples}]}}");
        let (status, said) = target.server.post(JSON, body.as_bytes());
        assert_eq!(status, 200, "{said}");
    }
    let folded = target.server.get("/v1/status").1["folded_total"].as_u64().unwrap();
    assert!(folded >= 10_000, "{folded} folded");
    let at = format!("&time={}", t / 1000);
    for query in [
        "count(many)",
        "{__name__=~\".+\"}",
        "many * on(id) many",
        "label_replace(many, \"a\", \"$1\", \"id\", \"(.*)\")",
    ] {
        let (status, said) = target.server.get(&format!("/api/v1/query?query={}{at}", form(query)));
        assert!(
            status == 422 && said["error"].as_str().unwrap().contains("--query-series"),
            "{query}: {status} {said}"
        );
    }
    let (status, said) = target.server.get(&format!("/api/v1/query?query={}{at}", form("count(many{id=~\"0-.*\"})")));
    assert_eq!((status, &said["data"]["result"][0]["value"][1]), (200, &json!("10000")), "{said}");
    let path = format!("/api/v1/query_range?query={}&start=0&end={}&step=1ms", form("many"), t / 1000);
    assert_eq!(target.server.get(&path).0, 400, "more points than may be");
    target.lives("many series");
}

#[test]
fn a_hundred_thousand_label_names() {
    let target = Target::new();
    let t = now_ms();
    let labels: Vec<String> = (0..100_000).map(|at| format!("\"l{at}\":\"v\"")).collect();
    let series = format!("{{\"labels\":{{\"__name__\":\"wide\",{}}},\"kind\":\"float\"}}", labels.join(","));
    let sample = format!("{{\"series\":0,\"time_ms\":{t},\"float\":1}}");
    let body = format!("{{\"source\":\"{SOURCE}\",\"sequence\":1,\"series\":[{series}],\"samples\":[{sample}]}}");
    let (status, said) = target.server.post(JSON, body.as_bytes());
    // Rejected, or folded: either way reported.
    assert!(status == 400 || said["folded"] == json!(1), "{status} {said}");
    target.lives("one series of 100,000 labels");
    let series =
        (0..50_000).map(|at| format!("{{\"labels\":{{\"__name__\":\"tall\",\"l{at}\":\"v\"}},\"kind\":\"float\"}}"));
    let samples = (0..50_000).map(|at| format!("{{\"series\":{at},\"time_ms\":{t},\"float\":1}}"));
    let (series, samples) = (series.collect::<Vec<_>>().join(","), samples.collect::<Vec<_>>().join(","));
    let body = format!("{{\"source\":\"{SOURCE}\",\"sequence\":2,\"series\":[{series}],\"samples\":[{samples}]}}");
    assert_eq!(target.server.post(JSON, body.as_bytes()).0, 200);
    let (status, names) = target.server.get("/api/v1/labels?limit=10");
    assert!(status == 200 && names["data"].as_array().unwrap().len() == 10, "{names}");
    assert_eq!(target.server.get("/api/v1/labels").0, 200);
    target.lives("50,000 names of labels");
}
