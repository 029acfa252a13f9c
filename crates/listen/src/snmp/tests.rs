use clap::Parser;
use ogive_door::backend::Refusal;
use ogive_door::memory::Memory;
use ogive_probe::Clock;

use super::*;

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn options(arguments: &[&str]) -> Options {
    Arguments::parse_from([&["ogive"][..], arguments].concat()).options
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    match path.to_str() {
        Some("/good") => Ok(b"communities = ['public']\nengine_id = '80000000051a2b'\n".to_vec()),
        Some("/bad") => Ok(b"communities = 'public'\n".to_vec()),
        Some(OWN_NAME) => Ok(b"host\n".to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

/// A field of BER.
fn field(tag: u8, content: &[&[u8]]) -> Vec<u8> {
    let content = content.concat();
    assert!(content.len() < 128, "{} bytes have no short length", content.len());
    [&[tag, content.len() as u8][..], &content].concat()
}

const TRAP: u8 = 0xa7;
const INFORM: u8 = 0xa6;
const RESPONSE: u8 = 0xa2;

/// linkDown in SNMP v2c, as what `tag` says.
fn message(tag: u8, community: &[u8], request: u8) -> Vec<u8> {
    let number = |number: u8| [2, 1, number];
    let uptime = [&b"\x06\x08\x2b\x06\x01\x02\x01\x01\x03\0"[..], b"\x43\x01\x07"];
    let name =
        [&b"\x06\x0a\x2b\x06\x01\x06\x03\x01\x01\x04\x01\0"[..], b"\x06\x09\x2b\x06\x01\x06\x03\x01\x01\x05\x03"];
    let objects = field(0x30, &[&field(0x30, &uptime), &field(0x30, &name)]);
    let pdu = field(tag, &[&number(request), &number(0), &number(0), &objects]);
    field(0x30, &[&number(1), &field(4, &[community]), &pdu])
}

/// A server with these arguments and a client.
struct Served {
    memory: Arc<Memory>,
    traps: Arc<Traps>,
    client: UdpSocket,
    end: watch::Sender<bool>,
    served: tokio::task::JoinHandle<()>,
}

impl Served {
    async fn new(arguments: &[&str]) -> Self {
        let memory = Arc::new(Memory::default());
        let door = Door::fresh(memory.clone(), Clock::global(), watch::channel(false).1);
        let options = options(arguments);
        let traps = Arc::new(Traps::new(door, &options, Logins::open(&options, read).unwrap()).unwrap());
        let server = socket(std::net::UdpSocket::bind("127.0.0.1:0").unwrap(), 1 << 20).unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        client.connect(server.local_addr().unwrap()).await.unwrap();
        let (end, ending) = watch::channel(false);
        let served = tokio::spawn(traps.clone().serve(server, ending));
        Self { memory, traps, client, end, served }
    }

    fn refuse(&self, refusal: Option<Refusal>) {
        *self.memory.refusal.lock().unwrap() = refusal;
    }

    async fn send(&self, datagram: &[u8]) {
        assert_eq!(self.client.send(datagram).await.unwrap(), datagram.len());
    }

    async fn answers(&self, expected: &[u8]) {
        let mut answer = [0; 1_000];
        let length = self.client.recv(&mut answer).await.unwrap();
        assert_eq!(&answer[..length], expected, "{}", answer[..length].escape_ascii());
    }

    async fn answers_nothing(&self) {
        let answer = tokio::time::timeout(Duration::from_millis(50), self.client.recv(&mut [0; 1_000])).await;
        assert!(answer.is_err(), "{answer:?}");
    }

    /// Accepted, duplicate, and counted by a reason.
    fn counts(&self) -> (u64, u64, u64) {
        let ledger = self.traps.durable.ledger();
        (ledger.accepted.get(), ledger.duplicate.get(), ledger.unreadable_total())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_inform_is_answered_when_it_is_stored_and_counts_once() {
    let served = Served::new(&[]).await;
    for refusal in [Refusal::Busy, Refusal::Failed("no".into())] {
        served.refuse(Some(refusal));
        served.send(&message(INFORM, b"public", 7)).await;
        served.answers_nothing().await;
        served.refuse(None);
        served.answers(&message(RESPONSE, b"public", 7)).await;
    }
    // The second was the first once more.
    assert_eq!(served.counts(), (1, 1, 0));
    served.send(&message(INFORM, b"public", 8)).await;
    served.answers(&message(RESPONSE, b"public", 8)).await;
    assert_eq!(served.counts(), (2, 1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_the_server_leaves_what_is_not_stored_without_an_answer() {
    let served = Served::new(&[]).await;
    served.refuse(Some(Refusal::Failed("no".into())));
    served.send(&message(INFORM, b"public", 7)).await;
    served.answers_nothing().await;
    served.end.send(true).unwrap();
    served.answers_nothing().await;
    served.served.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_traps_are_traps_of_their_own_and_are_stored_also_when_the_server_ends() {
    let mut served = Served::new(&["--snmp-traps-logins", "/good"]).await;
    for _ in 0..10 {
        served.send(&message(TRAP, b"public", 7)).await;
    }
    for refused in [&message(TRAP, b"private", 7)[..], &message(INFORM, b"", 7), b"<14>no SNMP", b""] {
        served.send(refused).await;
    }
    // The answer shows that everything before it was read.
    served.send(&message(INFORM, b"public", 8)).await;
    served.answers(&message(RESPONSE, b"public", 8)).await;
    served.end.send(true).unwrap();
    (&mut served.served).await.unwrap();
    assert_eq!(served.counts(), (11, 0, 4));
}

#[test]
fn a_host_has_the_same_engine_after_every_start() {
    assert_eq!(engine_of(b"host\n"), engine_of(b"host"));
    assert_ne!(engine_of(b"host"), engine_of(b"other"));
    assert_eq!(engine_of(b"").len(), 21);
}

#[test]
fn a_file_with_a_mistake_prevents_the_start() {
    for (path, sentence) in [("/bad", "--snmp-traps-logins /bad: line 1: "), ("/gone", "--snmp-traps-logins /gone: ")] {
        let error = Logins::open(&options(&["--snmp-traps-logins", path]), read).err().unwrap();
        assert!(format!("{error:#}").starts_with(sentence), "{error:#}");
    }
    assert!(Logins::open(&options(&["--snmp-traps-logins", "/good"]), read).is_ok());
}
