//! More of what somebody sends who means harm: InfluxDB's routes, calls over gRPC, and handshakes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::common::authority::Authority;
use crate::common::{Server, gzip, now_ms};
use rcgen::ExtendedKeyUsagePurpose;

/// 320 MiB in a debug build: what unfolds to as much as a request may takes 128, and twice that while the list of it
/// grows.
const MEMORY_KIB_MAX: u64 = 320 << 10;

fn lives(server: &Server, after: &str) {
    let peak = server.memory_peak_kib();
    assert!(peak < MEMORY_KIB_MAX, "after {after} the server had held {} MiB", peak >> 10);
}

#[test]
fn lines_of_influx_that_are_made_to_hurt() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let t = now_ms();
    let mut sequence = 0;
    let mut ask = |what: &str, head: &str, body: &[u8], expected: &[u16]| {
        for path in ["/write?db=d&precision=ms", "/api/v2/write?bucket=d&precision=ms"] {
            let (status, said) = server.request(&format!("POST {path} HTTP/1.1{head}"), body).unwrap();
            assert!(expected.contains(&status), "{what}: {status} {}", &said[..said.len().min(300)]);
            assert!(said.len() < 10_000, "{what}: an answer of {} bytes", said.len());
            // A good line is taken after each.
            sequence += 1;
            let line = format!("good,n={sequence} v=1 {t}");
            assert_eq!(server.request(&format!("POST {path} HTTP/1.1"), line.as_bytes()).unwrap().0, 204, "{what}");
            lives(&server, what);
        }
    };
    let mib = || vec![b' '; 1 << 20];
    let gzipped = "\r\ncontent-encoding: gzip";
    ask("a gzip bomb", gzipped, &gzip(std::iter::repeat_with(mib).take(200)), &[413]);
    ask("gzip that is none", gzipped, b"m v=1", &[400]);
    ask("a packing nobody knows", "\r\ncontent-encoding: br", b"m v=1", &[400, 415]);
    ask("a line without end", "", &vec![b'a'; 8 << 20], &[400]);
    ask("a quote that is not closed", "", &[b"m v=\"".as_slice(), &vec![b'\n'; 8 << 20]].concat(), &[400]);
    ask("backslashes", "", &[b"m v=\"".as_slice(), &vec![b'\\'; 4 << 20]].concat(), &[400]);
    ask("empty lines", "", &vec![b'\n'; 8 << 20], &[204]);
    ask("comments", "", "#\n".repeat(1 << 20).as_bytes(), &[204]);
    ask("bad lines", "", "m\n".repeat(300_000).as_bytes(), &[400]);
    ask("bytes that are no text", "", &[0xff; 1 << 20], &[400]);
    let fields: Vec<String> = (0..200_000).map(|at| format!("f{at}=1")).collect();
    ask("200,000 fields", "", format!("m {} {t}", fields.join(",")).as_bytes(), &[400, 413]);
    let tags: String = (0..50_000).map(|at| format!(",t{at}=v")).collect();
    ask("50,000 tags", "", format!("m{tags} v=1 {t}").as_bytes(), &[400]);
    let long: String = (0..100).map(|at| format!(",tag{at}={}", "v".repeat(1_000))).collect();
    let fields: Vec<String> = (0..20_000).map(|at| format!("f{at}=1")).collect();
    ask("long tags before many fields", "", format!("m{long} {} {t}", fields.join(",")).as_bytes(), &[413]);
    ask("numbers that are none", "", b"m v=1e999999999,w=nan,x=0x10,y=1i9", &[400]);
    ask("a time that is none", "", format!("m v=1 {}", "9".repeat(1_000)).as_bytes(), &[400]);
    let (_, status) = server.get("/v1/status");
    let figure = |name: &str| status[name].as_u64().unwrap();
    let decided: u64 =
        ["accepted_total", "duplicate_total", "rejected_total", "refused_total"].map(figure).iter().sum();
    assert_eq!(figure("received_total"), decided, "{status}");
}

/// What a call of `body` over HTTP/2 is answered: its gRPC status.
fn call(server: &Server, directory: &std::path::Path, headers: &[&str], body: &[u8]) -> u32 {
    let file = directory.join("body");
    std::fs::write(&file, body).unwrap();
    let url = format!("http://{}/opentelemetry.proto.collector.metrics.v1.MetricsService/Export", server.address);
    let mut command = Command::new("curl");
    command.args(["-s", "-v", "--max-time", "60", "--http2-prior-knowledge", "-H", "te: trailers"]);
    command.args(["-H", "content-type: application/grpc"]);
    for header in headers {
        command.args(["-H", header]);
    }
    let output = command.arg("--data-binary").arg(format!("@{}", file.display())).arg(url).output().expect("curl");
    // Its trace covers heads and trailers alike.
    let said = String::from_utf8_lossy(&output.stderr).to_ascii_lowercase();
    let status = said.split("grpc-status: ").nth(1).unwrap_or_else(|| panic!("no status: {said}"));
    status.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn calls_that_lie_about_their_message() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("data"));
    let framed = |flag: u8, declared: usize, message: &[u8]| {
        [&[flag][..], &u32::try_from(declared).unwrap().to_be_bytes(), message].concat()
    };
    let (invalid, unimplemented, fine) = (3, 12, 0);
    let bomb = gzip(std::iter::repeat_with(|| vec![0; 1 << 20]).take(200));
    let good = [0x0a, 0x00];
    let packed = gzip(std::iter::once(good.to_vec()));
    let cases: [(&str, &[&str], Vec<u8>, u32); 11] = [
        ("nothing", &[], Vec::new(), invalid),
        ("half a frame", &[], vec![0, 0, 0], invalid),
        ("more declared than there is", &[], framed(0, 1_000, &good), invalid),
        ("4 GiB declared", &[], framed(0, u32::MAX as usize, &good), invalid),
        ("less declared than there is", &[], framed(0, 1, &good), invalid),
        ("two messages", &[], framed(0, 2, &good).repeat(2), invalid),
        ("a flag that is none", &[], framed(7, 2, &good), invalid),
        ("packed with nothing said", &[], framed(1, packed.len(), &packed), unimplemented),
        ("packed with what nobody knows", &["grpc-encoding: snappy"], framed(1, packed.len(), &packed), unimplemented),
        ("a bomb", &["grpc-encoding: gzip"], framed(1, bomb.len(), &bomb), invalid),
        ("no protobuf", &[], framed(0, 2, &[0xff, 0xff]), invalid),
    ];
    for (what, headers, body, expected) in cases {
        assert_eq!(call(&server, directory.path(), headers, &body), expected, "{what}");
        lives(&server, what);
    }
    assert_eq!(call(&server, directory.path(), &[], &framed(0, 2, &good)), fine);
    assert_eq!(call(&server, directory.path(), &["grpc-encoding: gzip"], &framed(1, packed.len(), &packed)), fine);
    // Said to be packed, and not: the flag counts.
    assert_eq!(call(&server, directory.path(), &["grpc-encoding: gzip"], &framed(0, 2, &good)), fine);
}

#[test]
fn handshakes_that_never_end() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    std::fs::write(directory.path().join("ca.pem"), authority.0.pem()).unwrap();
    authority.certify(directory.path(), "server", ExtendedKeyUsagePurpose::ServerAuth);
    let config = directory.path().join("web.yml");
    std::fs::write(&config, "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n").unwrap();
    let args = ["--listen", "127.0.0.1:0", "--web-config", config.to_str().unwrap()];
    let server = Server::try_start(&directory.path().join("data"), &args).unwrap_or_else(|said| panic!("{said}"));
    let ask = |path: &str| {
        let output = Command::new("curl")
            .args(["-s", "--max-time", "60", "--cacert", directory.path().join("ca.pem").to_str().unwrap()])
            .arg(format!("https://{}{path}", server.address))
            .stderr(Stdio::null())
            .output()
            .expect("curl is there");
        String::from_utf8(output.stdout).unwrap()
    };
    let answers = |after: &str| {
        assert!(ask("/-/ready").contains("is ready"), "after {after}");
        lives(&server, after);
    };
    answers("nothing");
    // A hello that never comes to its end: a record of 16 KiB is begun.
    let begun = [22, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc, 3, 3];
    let silent: Vec<TcpStream> = (0..200).map(|_| server.connect()).collect();
    let mut slow: Vec<TcpStream> = (0..200).map(|_| server.connect()).collect();
    slow.iter_mut().for_each(|stream| stream.write_all(&begun).unwrap());
    answers("200 silent connections and 200 half hellos");
    for _ in 0..20 {
        slow.iter_mut().for_each(|stream| drop(stream.write_all(&[0; 16])));
    }
    answers("hellos in drops");
    drop((silent, slow));
    let mut random = vec![0x55_u8; 20_000];
    for (at, byte) in random.iter_mut().enumerate() {
        *byte = (at * 7_919 % 251) as u8;
    }
    let long = [&[22, 3, 1, 0xff, 0xff][..], &random].concat();
    let alerts = [21, 3, 3, 0, 2, 1, 0].repeat(3_000);
    let empty = [22, 3, 1, 0, 0].repeat(4_000);
    for (what, bytes) in [("a record that is too long", &long), ("alerts", &alerts), ("empty records", &empty)] {
        for _ in 0..100 {
            let mut stream = server.connect();
            let _ = stream.write_all(bytes);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        }
        answers(what);
    }
    let counted = ask("/metrics");
    let line = counted.lines().find_map(|line| line.strip_prefix("ogive_turned_away_total{reason=\"tls\"} "));
    assert!(line.unwrap().parse::<u64>().unwrap() >= 300, "each handshake that failed is counted: {line:?}");
}
