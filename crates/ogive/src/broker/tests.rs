//! A destination's senders in front of sockets that answer and count.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, mpsc};
use std::time::Instant;

use ogive_broker::{GapReason, Prepared};
use ogive_model::{Batch, Kind, Sample, SeriesDef, SeriesMeta, SourceId, Temporality, Tenant, Value, WallMs, wire};

use super::names::Resolve;
use super::*;

/// What an endpoint was asked.
#[derive(Default)]
struct RequestLog {
    requests: AtomicU64,
    /// Of those, with several batches.
    several: AtomicU64,
    /// How often each batch came.
    batches: Mutex<BTreeMap<u64, u64>>,
}

impl RequestLog {
    fn count(&self) -> usize {
        self.batches.lock().unwrap().len()
    }
}

/// Answers each batch at `address` with the status that `answer` gives; an old one takes one batch in a request.
fn endpoint(listener: TcpListener, is_old: bool, answer: fn(u64) -> u16) -> Arc<RequestLog> {
    let requested = Arc::<RequestLog>::default();
    let counts = requested.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let counts = counts.clone();
            std::thread::spawn(move || serve(stream, is_old, answer, &counts));
        }
    });
    requested
}

fn serve(mut stream: TcpStream, is_old: bool, answer: fn(u64) -> u16, requested: &RequestLog) {
    let mut bytes = Vec::new();
    while let Some((head, body)) = request(&mut stream, &mut bytes) {
        requested.requests.fetch_add(1, SeqCst);
        let is_several = head.contains("application/x-ogive-batch-frames");
        requested.several.fetch_add(u64::from(is_several), SeqCst);
        let (status, said) = if is_several && is_old {
            (415, "{\"error\":\"content type\"}".into())
        } else {
            let frames = wire::frames(&body).unwrap();
            let one = |frame: &&[u8]| {
                let sequence = Batch::decode(frame).unwrap().sequence;
                *requested.batches.lock().unwrap().entry(sequence).or_default() += 1;
                match answer(sequence) {
                    200 => "\"code\":200,\"accepted\":1,\"duplicate\":0,\"rejected\":[]".to_owned(),
                    code => format!("\"code\":{code},\"error\":\"no {sequence}\""),
                }
            };
            let each: Vec<String> = frames.iter().map(one).map(|text| format!("{{{text}}}")).collect();
            (200, if is_several { format!("{{\"batches\":[{}]}}", each.join(",")) } else { each.concat() })
        };
        let answer = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n\r\n{said}", said.len());
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn request(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    let mut piece = [0; 16 * 1024];
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
            let whole = end + 4 + length.unwrap_or(0);
            if bytes.len() >= whole {
                let request: Vec<u8> = bytes.drain(..whole).collect();
                return Some((head, request[end + 4..].to_vec()));
            }
        }
        match stream.read(&mut piece) {
            Ok(count @ 1..) => bytes.extend_from_slice(&piece[..count]),
            _ => return None,
        }
    }
}

/// A spool with one destination.
struct SpoolRig {
    directory: tempfile::TempDir,
    spool: Spool,
    context: DestinationContext,
    next: u64,
    destination: Option<Arc<Destination>>,
}

impl SpoolRig {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { segment_bytes: 1 << 20, tail_bytes: 1 << 20, mark: 1, first: 0 };
        let (spool, _) = Spool::open(Arc::new(RealDisk), &directory.path().join("journal"), options).unwrap();
        let (board, cursors) = (spool.board(), directory.path().to_owned());
        let context =
            DestinationContext { board, bell: Arc::default(), clock: Clock::global(), name: "edge".into(), cursors };
        Self { directory, spool, context, next: 0, destination: None }
    }

    fn append(&mut self, count: u64) {
        for _ in 0..count {
            self.next += 1;
            let meta =
                SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
            let series = vec![Ok(SeriesDef::new([("__name__", "f")], meta).unwrap())];
            let time_ns = self.next as i64 * 1_000_000;
            let samples = vec![Ok(Sample { series: 0, time_ns, start_ns: None, value: Value::Float(1.0) })];
            let (source, sequence, tenant) = (SourceId(9), self.next, Tenant::default());
            let batch = Batch { source, sequence, tenant, series, known: Vec::new(), samples };
            let frame = batch.encode().unwrap();
            self.spool.append(WallMs(1), Prepared::new(batch, frame)).unwrap();
        }
        self.spool.sync().unwrap();
        self.context.bell.ring();
    }

    fn start(&mut self, url: &str, more: &str, resolve: Resolve) -> Arc<Destination> {
        let directory = self.directory.path().display();
        let text = format!(
            "name = 'edge'\n[spool]\ndirectory = '{directory}'\n[[destination]]\nname = 'dc'\nendpoints = ['{url}']\npacking = 'none'\n{more}"
        );
        let config = config::parse(&text).unwrap().destinations.remove(0);
        let way = Route::open(&config, read_file).unwrap();
        let destination = Arc::new(Destination::open(config, way, self.context.clone(), 0).unwrap());
        destination.start(resolve).unwrap();
        self.destination = Some(destination.clone());
        destination
    }
}

impl Drop for SpoolRig {
    fn drop(&mut self) {
        if let Some(destination) = &self.destination {
            destination.stop();
        }
    }
}

fn eventually(what: &str, done: impl Fn() -> bool) {
    let from = Instant::now();
    while !done() {
        assert!(from.elapsed() < Duration::from_secs(120), "not within two minutes: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn no_names() -> Resolve {
    Box::new(|host, _| panic!("{host} is a number"))
}

fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

/// Two addresses at one port.
fn two_listeners() -> (TcpListener, TcpListener, u16) {
    loop {
        let one = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = one.local_addr().unwrap().port();
        if let Ok(other) = TcpListener::bind(("127.0.0.2", port)) {
            return (one, other, port);
        }
    }
}

#[test]
fn load_spreads_over_the_addresses_of_a_name_and_follows_them() {
    let (one, other, port) = two_listeners();
    let requested = [endpoint(one, false, |_| 200), endpoint(other, false, |_| 200)];
    let (tell, reported) = mpsc::channel::<Vec<&str>>();
    let mut now: Vec<IpAddr> = Vec::new();
    let resolve: Resolve = Box::new(move |host, port| {
        assert_eq!(host, "ogive.test");
        for addresses in reported.try_iter() {
            now = addresses.iter().map(|address| address.parse().unwrap()).collect();
        }
        Ok(now.iter().map(|address| SocketAddr::new(*address, port)).collect())
    });
    let mut held = SpoolRig::new();
    tell.send(vec!["127.0.0.1", "127.0.0.2"]).unwrap();
    let url = format!("http://ogive.test:{port}");
    let destination = held.start(&url, "connections = 2\nrequest-batches = 1", resolve);
    let has = |count: usize| {
        let state = destination.state();
        state.endpoints.all().len() == count && state.endpoints.all().iter().all(|one| one.target.address.is_some())
    };
    eventually("both addresses are known", || has(2));
    let counts = || [requested[0].count(), requested[1].count()];
    // An answer that the machine was long in giving turns load away for some requests, so that a round may be uneven.
    let shared = |held: &mut SpoolRig| {
        for _ in 0..100 {
            let before = counts();
            held.append(300);
            eventually("all have arrived", || counts().iter().sum::<usize>() == held.next as usize);
            if counts()[0] >= before[0] + 30 && counts()[1] >= before[1] + 30 {
                return;
            }
        }
        panic!("one gets nearly nothing: {:?}", counts());
    };
    shared(&mut held);
    tell.send(vec!["127.0.0.2"]).unwrap();
    destination.look_again();
    eventually("one has left", || has(1));
    // What was in flight there has ended.
    eventually("nothing is in flight", || destination.state().delivery.in_flight() == 0);
    let before = [requested[0].count(), requested[1].count()];
    held.append(100);
    eventually("the other has all", || requested[1].count() == before[1] + 100);
    assert_eq!(requested[0].count(), before[0], "who left gets nothing");
    tell.send(vec!["127.0.0.1", "127.0.0.2"]).unwrap();
    destination.look_again();
    eventually("it is back", || has(2));
    shared(&mut held);
}

#[test]
fn several_batches_go_in_one_request_and_one_that_is_refused_is_a_gap_of_its_own() {
    let (listener, url) = listener();
    let requested = endpoint(listener, false, |sequence| if sequence == 70 { 400 } else { 200 });
    let mut held = SpoolRig::new();
    held.append(200);
    let destination = held.start(&url, "connections = 1", no_names());
    eventually("all are answered", || destination.state().figures.batches == 199);
    assert_eq!(requested.count(), 200);
    assert!(requested.batches.lock().unwrap().values().all(|times| *times == 1), "nothing came twice");
    // 1 + 2 + 4 .. 64, and what is left.
    assert!(
        requested.requests.load(SeqCst) < 20 && requested.several.load(SeqCst) >= 3,
        "{}",
        requested.requests.load(SeqCst)
    );
    let state = destination.state();
    assert_eq!((state.figures.batches_refused, state.delivery.totals().records), (1, 1));
    assert_eq!(state.delivery.gaps().map(|gap| (gap.why, gap.samples)).collect::<Vec<_>>(), [(GapReason::Refused, 1)]);
}

/// An endpoint of an earlier version, or behind a proxy that wants less: it gets one at a time, and nothing is given
/// up.
#[test]
fn who_takes_one_batch_at_a_time_gets_them_so() {
    let (listener, url) = listener();
    let requested = endpoint(listener, true, |_| 200);
    let mut held = SpoolRig::new();
    held.append(50);
    let destination = held.start(&url, "connections = 1", no_names());
    eventually("all are answered", || destination.state().figures.batches == 50);
    assert_eq!((requested.count(), requested.several.load(SeqCst)), (50, 1));
    assert_eq!(destination.state().delivery.totals().records, 0);
}

/// A busy store refuses some of a request: those come again, the others do not.
#[test]
fn what_an_endpoint_has_no_room_for_comes_again_alone() {
    static TIMES: AtomicU64 = AtomicU64::new(0);
    let (listener, url) = listener();
    let requested = endpoint(listener, false, |sequence| {
        let is_busy = sequence % 10 == 3 && TIMES.fetch_add(1, SeqCst) < 8;
        if is_busy { 429 } else { 200 }
    });
    let mut held = SpoolRig::new();
    held.append(100);
    let destination = held.start(&url, "connections = 1", no_names());
    eventually("all are answered", || destination.state().figures.batches == 100);
    let batches = requested.batches.lock().unwrap();
    let again: u64 = batches.values().map(|times| times - 1).sum();
    assert_eq!((batches.len(), again), (100, 8));
    assert!(batches.iter().all(|(sequence, times)| *times == 1 || sequence % 10 == 3), "{batches:?}");
}

/// A server that ends at one batch, whatever it is sent with: the others go past it, those that come later too, and it
/// is tried on.
#[test]
fn one_batch_that_an_endpoint_never_takes_holds_up_no_other() {
    let (listener, url) = listener();
    let requested = endpoint(listener, false, |sequence| if sequence == 7 { 500 } else { 200 });
    let mut held = SpoolRig::new();
    held.append(200);
    let destination = held.start(&url, "connections = 2", no_names());
    eventually("all others are answered", || destination.state().figures.batches == 199);
    held.append(100);
    eventually("all others are answered", || destination.state().figures.batches == 299);
    let before = requested.batches.lock().unwrap()[&7];
    eventually("it is tried again", || requested.batches.lock().unwrap()[&7] > before);
    assert_eq!(destination.state().delivery.totals().records, 0);
}
