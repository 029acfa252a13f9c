//! Flipped bytes, scrubs and snapshots of a real server.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use crate::common::{SOURCE, Server, StopAtEnd, eventually, float, form, now_ms};
use ogive_model::{Batch, Kind, Labels, Sample, SeriesDef, SeriesMeta, SourceId, Temporality, Value as Stored};
use ogive_store::{ManualClock, Options, Store};
use serde_json::{Value, json};

fn ogive(args: &[&str]) -> (Option<i32>, Value, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_ogive")).args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    (output.status.code(), serde_json::from_str(&out).unwrap_or(Value::String(out)), err)
}

const BATCHES: u64 = 300;

/// A store with blocks and a journal, made without a server: a flush comes too late for a test.
fn make(directory: &Path, t: i64) {
    let options = Options { segment_bytes: 16 << 10, ..Options::default() };
    let disk = Arc::new(ogive_journal::RealDisk);
    let store =
        Store::open(disk, directory, options, Arc::new(ManualClock::new(ogive_model::WallNs(t * 1_000_000)))).unwrap();
    for n in 0..BATCHES {
        let labels = Labels::new([("__name__", "f".to_owned()), ("l", (n % 10).to_string())]).unwrap();
        let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
        let sample = |at: i64| {
            let time_ns = (t + n as i64 * 100 + at) * 1_000_000;
            Ok(Sample { series: 0, time_ns, start_ns: None, value: Stored::Float((n as f64 + at as f64).sin()) })
        };
        let batch = Batch {
            source: SourceId(5),
            sequence: n,
            series: vec![Ok(SeriesDef { labels, meta })],
            samples: (0..20).map(sample).collect(),
            ..Batch::default()
        };
        let (reply, answer) = mpsc::channel();
        store.submit(batch, Box::new(move |outcome| reply.send(outcome).unwrap_or(()))).unwrap();
        assert_eq!(answer.recv().unwrap().unwrap().accepted, 20);
        if n % 70 == 69 {
            store.flush().unwrap();
        }
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().chain(std::fs::read_dir(directory.join("journal")).unwrap()) {
        let path = entry.unwrap().path();
        // The reserve holds nothing.
        if path.is_file() && path.metadata().unwrap().len() > 0 && !path.ends_with("RESERVE") {
            out.push(path.strip_prefix(directory).unwrap().to_owned());
        }
    }
    out.sort();
    out
}

fn flip(path: &Path, at: usize) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at as u64).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at as u64).unwrap();
}

/// Flips one byte in every file of each directory, never in both copies of one piece: near the start in one, near the
/// end in the other. Files of a piece or two are bad in one directory only, and so is what a server wrote: that may be
/// one piece, however long it is. `made` are those that no server wrote.
fn flip_everywhere(a: &Path, b: &Path, made: &[PathBuf], turn: usize) -> u64 {
    let mut flips = 0;
    for (number, file) in files(a).iter().enumerate() {
        let length = a.join(file).metadata().unwrap().len() as usize;
        let (one, other) = (
            17 + (turn * 131 + number * 7) % (length / 4).max(1),
            length - 1 - (turn * 97 + number) % (length / 4).max(1),
        );
        flip(&a.join(file), one.min(length - 1));
        flips += 1;
        // A record of the journal is some 500 bytes, the label has two records of 4,096, the manifest is one piece.
        if length > 4000 && made.contains(file) && !file.starts_with("MANIFEST") && file != Path::new("MANIFEST.2") {
            flip(&b.join(file), other);
            flips += 1;
        }
    }
    flips
}

fn samples(server: &Server) -> (f64, usize) {
    let (status, body) = server.get(&format!("/api/v1/query?query={}", form("sum(count_over_time(f[1d]))")));
    assert_eq!(status, 200, "{body}");
    let value = body["data"]["result"][0]["value"][1].as_str().map_or(0.0, |text| text.parse().unwrap());
    (value, body["warnings"].as_array().map_or(0, Vec::len))
}

#[test]
fn flipped_bytes_on_both_disks_lose_nothing_and_are_healed() {
    let top = tempfile::tempdir().unwrap();
    let (a, b) = (top.path().join("a"), top.path().join("b"));
    // Of late, so that its window is not over at any hour of the day: the blocks of one that is become one sooner or
    // later.
    make(&a, now_ms() - 60_000);
    let made = files(&a);
    let all = (BATCHES * 20) as f64;
    let mut server = Server::start_on(&[&a, &b], &[]).unwrap();
    let live = |server: &Server| server.get("/v1/status").1["disks_live"] == json!(2);
    eventually("the second directory is filled", || live(&server).then_some(()));
    server.kill();
    // Of the journal's last records it is not known whether they were durable: the next start writes them anew.
    drop(Server::start_on(&[&a, &b], &[]).unwrap());
    assert!(files(&a).len() > 6, "{:?}", files(&a));
    let mut flips = flip_everywhere(&a, &b, &made, 0);
    let mut server = Server::start_on(&[&a, &b], &[]).unwrap();
    assert_eq!(samples(&server), (all, 0));
    assert!(server.get("/v1/status").1["disk_healed_total"].as_u64().unwrap() > 3);
    let url = format!("http://{}", server.address);
    let scrub = || {
        let (code, found, err) = ogive(&["scrub", "--json", "--server", &url]);
        assert_eq!(code, Some(0), "{found} {err}");
        assert_eq!(found["found"], found["healed"], "{found}");
        found
    };
    let count = |scrubbed: &Value| scrubbed["found"].as_u64().unwrap();
    let mut found = count(&scrub());
    let again = scrub();
    assert_eq!(count(&again), 0, "{again}");
    // Under a server that runs, in blocks and sealed segments.
    for file in files(&a).iter().filter(|file| file.to_string_lossy().ends_with(".block")) {
        flip(&a.join(file), 40);
        flip(&b.join(file), b.join(file).metadata().unwrap().len() as usize - 30);
        flips += 2;
    }
    found += count(&scrub());
    let again = scrub();
    assert_eq!((count(&again), samples(&server)), (0, (all, 0)), "{again}");
    server.terminate();
    // Stopped: found and healed as well.
    let data = [a.to_str().unwrap(), b.to_str().unwrap()];
    let offline = || ogive(&["scrub", "--json", "--data", data[0], "--data", data[1]]);
    flips += flip_everywhere(&a, &b, &made, 3);
    let (code, scrubbed, err) = offline();
    assert_eq!((code, &scrubbed["found"]), (Some(0), &scrubbed["healed"]), "{scrubbed} {err}");
    found += scrubbed["found"].as_u64().unwrap();
    assert_eq!(offline().1["found"], 0);
    println!("{flips} bytes flipped; {found} bad parts found by scrubs and healed, the rest by reads");
    // The same chunk in both: named, not healed, and only its samples are missing from an answer that says so.
    let block = files(&a).into_iter().find(|file| file.to_string_lossy().ends_with(".block")).unwrap();
    flip(&a.join(&block), 40);
    flip(&b.join(&block), 44);
    let (code, scrubbed, _) = offline();
    assert_eq!(
        (code, scrubbed["found"].as_u64(), scrubbed["healed"].as_u64()),
        (Some(1), Some(2), Some(0)),
        "{scrubbed}"
    );
    assert_eq!(scrubbed["findings"][0]["section"], "chunk");
    let server = Server::start_on(&[&a, &b], &[]).unwrap();
    let (left, warnings) = samples(&server);
    assert!(left < all && left > all * 0.8 && warnings == 1, "{left} {warnings}");
}

fn send(server: &Server, sequence: u64, time_ms: i64) -> u16 {
    let samples = json!([{"series": 0, "time_ms": time_ms + sequence as i64, "float": sequence}]);
    server.batch(SOURCE, sequence, json!([float("f")]), samples).0
}

fn count(server: &Server) -> u64 {
    server.number("count_over_time(f[1d])").unwrap_or(0.0) as u64
}

#[test]
fn snapshots_of_a_server_under_load_are_cloned_and_brought_back() {
    let top = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| top.path().join(name));
    let t = now_ms() - 600_000;
    let server = Server::start_on(&[&a, &b], &[]).unwrap();
    let url = format!("http://{}", server.address);
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let (before, after) = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                assert_eq!(send(&server, sent.load(Ordering::SeqCst) + 1, t), 200);
                sent.fetch_add(1, Ordering::SeqCst);
            }
        });
        let stop = StopAtEnd(&stop);
        eventually("some batches are in", || (sent.load(Ordering::SeqCst) > 50).then_some(()));
        let before = sent.load(Ordering::SeqCst);
        let begun = std::time::Instant::now();
        let (code, made, err) = ogive(&["snapshot", "create", "s1", "--json", "--server", &url]);
        println!("a snapshot under load: {:?}, with the start of the command", begun.elapsed());
        let after = sent.load(Ordering::SeqCst);
        assert_eq!((code, &made["name"]), (Some(0), &json!("s1")), "{made} {err}");
        eventually("more batches are in", || (sent.load(Ordering::SeqCst) > after + 50).then_some(()));
        drop(stop);
        (before, after)
    });
    let sent = sent.load(Ordering::SeqCst);
    for name in ["s1", "a/b"] {
        assert_eq!(ogive(&["snapshot", "create", name, "--server", &url]).0, Some(2));
    }
    // Six clones at once, each a server that takes more.
    let clones: Vec<PathBuf> = (0..6).map(|at| top.path().join(format!("clone{at}"))).collect();
    for clone in &clones {
        let (code, _, err) = ogive(&["snapshot", "clone", "s1", "--data", clone.to_str().unwrap(), "--server", &url]);
        assert_eq!(code, Some(0), "{err}");
    }
    let mut servers: Vec<Server> = clones.iter().map(|clone| Server::start_on(&[clone], &[]).unwrap()).collect();
    let held = count(&servers[0]);
    // What was acknowledged before the command began is in it, and nothing that was sent after it ended.
    assert!(before <= held && held <= after + 1, "{before} <= {held} <= {after}");
    for (at, clone) in servers.iter().enumerate() {
        (0..=at as u64).for_each(|more| assert_eq!(send(clone, 100_000 + more, t), 200));
        assert_eq!(count(clone), held + at as u64 + 1);
    }
    assert_eq!(count(&server), sent);
    servers.iter_mut().for_each(Server::kill);
    for (at, clone) in clones.iter().enumerate() {
        assert_eq!(count(&Server::start_on(&[clone], &[]).unwrap()), held + at as u64 + 1);
    }
    assert_eq!(ogive(&["snapshot", "list", "--json", "--server", &url]).1["snapshots"].as_array().unwrap().len(), 1);
    brought_back(server, &[&a, &b], held, sent);
}

/// While it runs nothing is rolled back; stopped it is, with a way back.
fn brought_back(mut server: Server, directories: &[&Path], held: u64, sent: u64) {
    let data: Vec<&str> = directories.iter().flat_map(|path| ["--data", path.to_str().unwrap()]).collect();
    let rollback =
        |name: &str, more: &[&str]| ogive(&[&["snapshot", "rollback", name, "--json"][..], &data, more].concat());
    assert_eq!(ogive(&["snapshot", "rollback", "s1"]).0, Some(2));
    assert!(rollback("s1", &["--yes"]).2.contains("in use"));
    server.kill();
    assert!(rollback("s1", &[]).2.contains("--yes"), "nobody is there to be asked");
    let (code, done, err) = rollback("s1", &["--yes"]);
    assert_eq!(code, Some(0), "{err}");
    let mut server = Server::start_on(directories, &[]).unwrap();
    assert_eq!(count(&server), held);
    server.kill();
    assert_eq!(rollback(done["kept"].as_str().unwrap(), &["--yes"]).0, Some(0));
    let server = Server::start_on(directories, &[]).unwrap();
    assert_eq!(count(&server), sent);
    let url = format!("http://{}", server.address);
    [0, 2]
        .into_iter()
        .for_each(|code| assert_eq!(ogive(&["snapshot", "delete", "s1", "--server", &url]).0, Some(code)));
    assert_eq!(ogive(&["scrub", "--server", &url]).0, Some(0));
}

/// One directory, a record in the middle of its journal bad: the rest is served, and the place is named.
#[test]
fn a_journal_with_a_bad_middle_is_served_around_it_and_told() {
    let top = tempfile::tempdir().unwrap();
    let t = now_ms() - 60_000;
    let mut server = Server::start_on(&[top.path()], &[]).unwrap();
    for n in 1..=40 {
        let series = json!([float("f"), {"labels": {"__name__": "w"}, "kind": "text"}]);
        let samples = json!([
            {"series": 0, "time_ms": t + n, "float": n}, {"series": 1, "time_ms": t + n, "text": format!("word {n:03}")},
        ]);
        assert_eq!(server.batch(SOURCE, n as u64, series, samples).0, 200);
    }
    server.kill();
    // Found by its word: the server's own batches are between those of the test, and large.
    let needle = b"word 020";
    let held = |file: &PathBuf| {
        let bytes = std::fs::read(top.path().join(file)).unwrap();
        Some((file.clone(), bytes.windows(needle.len()).position(|window| window == needle)?))
    };
    let journal = files(top.path()).into_iter().filter(|file| file.starts_with("journal"));
    let (segment, at) = journal.filter_map(|file| held(&file)).next().expect("the journal holds the batch");
    flip(&top.path().join(&segment), at + 3);
    let server = Server::start_on(&[top.path()], &[]).unwrap();
    assert_eq!(count(&server), 39);
    let problems = server.get("/v1/disks").1["data"]["problems"].clone();
    let reported = problems.as_array().unwrap().iter().any(|problem| {
        let problem = problem.as_str().unwrap();
        problem.contains(segment.to_str().unwrap()) && problem.contains("are bad") && problem.contains("are lost")
    });
    assert!(reported, "{problems}");
}

/// The file below `directory` that holds `needle`, and where.
fn find(directory: &Path, needle: &str) -> (PathBuf, usize) {
    let found = std::fs::read_dir(directory).unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let at = bytes.windows(needle.len()).position(|window| window == needle.as_bytes())?;
        Some((path, at))
    });
    found.unwrap_or_else(|| panic!("{needle} is not in {}", directory.display()))
}

/// Of thirty acknowledged samples one was lost to a flipped byte: the answer was 29 without a word, and the next
/// restart forgot it.
#[test]
fn what_a_bad_byte_took_away_is_known_until_somebody_acknowledges_it() {
    let top = tempfile::tempdir().unwrap();
    let t = now_ms();
    let mut server = Server::start(top.path());
    for n in 0..30_i64 {
        let series = json!([{"labels": {"__name__": "f", "l": format!("needle{n:02}x")}, "kind": "float"}]);
        let (status, answer) =
            server.batch(SOURCE, n as u64, series, json!([{"series": 0, "time_ms": t - n * 1000, "float": 1}]));
        assert_eq!(status, 200, "{answer}");
    }
    assert_eq!(samples(&server), (30.0, 0));
    server.kill();
    let (path, at) = find(&top.path().join("journal"), "needle15x");
    flip(&path, at);
    let mut server = Server::start(top.path());
    assert_eq!(samples(&server), (29.0, 1));
    let status = |server: &Server| ogive(&["status", "--server", &format!("http://{}", server.address)]).1;
    assert!(status(&server).as_str().unwrap().contains("finding 0: "), "{}", status(&server));
    let long_ago = format!("/api/v1/query?query=count_over_time(f[1h])&time={}", t / 1000 - 100_000);
    assert_eq!(server.get(&long_ago).1["warnings"], Value::Null);
    // Everything is in blocks now, and the journal is gone.
    assert_eq!(server.terminate(), Some(0));
    let server = Server::start(top.path());
    assert_eq!(samples(&server), (29.0, 1));
    let address = format!("http://{}", server.address);
    let (code, said, err) = ogive(&["scrub", "--acknowledge", "--server", &address]);
    assert!(code == Some(0) && said.as_str().unwrap().contains("1 findings acknowledged"), "{said} {err}");
    assert_eq!(samples(&server), (29.0, 0));
    assert_eq!(server.get("/v1/status").1["unacknowledged_findings"], 0);
}

/// A byte of the manifest was flipped while the server ran: the scrub did not see it, and no start was possible.
#[test]
fn a_bad_manifest_is_healed_while_the_server_runs_and_when_it_starts() {
    let top = tempfile::tempdir().unwrap();
    make(top.path(), now_ms() - 60_000);
    let all = (BATCHES * 20) as f64;
    let mut server = Server::start(top.path());
    for (turn, name) in ["MANIFEST", "MANIFEST.2", "MIRROR"].into_iter().cycle().take(6).enumerate() {
        flip(&top.path().join(name), 8 + turn * 5);
        let (code, said, err) =
            ogive(&["scrub", "--rate", "0", "--json", "--server", &format!("http://{}", server.address)]);
        // The label may have been looked at just before.
        assert!(code == Some(0) && (said["healed"].as_u64() > Some(0) || name == "MIRROR"), "{name}: {said} {err}");
    }
    server.kill();
    for name in ["MANIFEST", "MANIFEST.2", "MIRROR"] {
        flip(&top.path().join(name), 30);
        let mut server = Server::start(top.path());
        assert_eq!(samples(&server), (all, 0), "{name}");
        server.kill();
    }
}
