use clap::Parser;
use ogive_door::backend::Refusal;
use ogive_door::memory::Memory;
use ogive_probe::Clock;
use ogive_protocol::fluent::handshake::SERVER_NAME;
use ring::digest::{Context, SHA512};
use tokio::io::{AsyncWriteExt, DuplexStream};

use super::*;

/// `["t", 1, {"log": "x"}, {"chunk": "c"}]`
const WITH_CHUNK: &[u8] = b"\x94\xa1t\x01\x81\xa3log\xa1x\x81\xa5chunk\xa1c";

/// `["t", 1, {"log": "x"}]`
const WITHOUT_CHUNK: &[u8] = b"\x93\xa1t\x01\x81\xa3log\xa1x";

const ACKNOWLEDGEMENT: &[u8] = b"\x81\xa3ack\xa1c";

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

/// A server with these arguments that is connected with a client.
struct Connected {
    memory: Arc<Memory>,
    fluent: Arc<Fluent>,
    client: DuplexStream,
    end: watch::Sender<bool>,
    served: tokio::task::JoinHandle<()>,
}

impl Connected {
    fn new(arguments: &[&str]) -> Self {
        let memory = Arc::new(Memory::default());
        let door = Door::fresh(memory.clone(), Clock::global(), watch::channel(false).1);
        let options = Arguments::parse_from([&["ogive"][..], arguments].concat()).options;
        let fluent = Arc::new(Fluent::new(door, &options));
        let (client, server) = tokio::io::duplex(1 << 20);
        let (end, ending) = watch::channel(false);
        let served = tokio::spawn({
            let fluent = fluent.clone();
            async move { fluent.serve(server, ending).await }
        });
        Self { memory, fluent, client, end, served }
    }

    fn refuse(&self, refusal: Option<Refusal>) {
        *self.memory.refusal.lock().unwrap() = refusal;
    }

    async fn answers(&mut self, expected: &[u8]) {
        let mut answer = vec![0; expected.len()];
        self.client.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, expected, "{}", answer.escape_ascii());
    }

    async fn answers_nothing(&mut self) {
        let answer = tokio::time::timeout(Duration::from_millis(50), self.client.read_u8()).await;
        assert!(answer.is_err(), "{answer:?}");
    }

    fn accepted(&self) -> u64 {
        self.fluent.durable.ledger().accepted.get()
    }

    /// Reads what the server still says, until it ends the connection.
    async fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.client.read_to_end(&mut rest).await.unwrap();
        rest
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledgement_waits_until_the_message_is_stored() {
    let mut connected = Connected::new(&[]);
    for refusal in [Refusal::Busy, Refusal::Failed("no".into())] {
        connected.refuse(Some(refusal));
        connected.client.write_all(WITH_CHUNK).await.unwrap();
        connected.answers_nothing().await;
        connected.refuse(None);
        connected.answers(ACKNOWLEDGEMENT).await;
    }
    // The second was the first once more.
    let ledger = connected.fluent.durable.ledger();
    assert_eq!((ledger.accepted.get(), ledger.duplicate.get()), (1, 1));
    // An entry that can never be stored is acknowledged with the others.
    connected.client.write_all(b"\x93\xa1t\x92\x92\xa1x\x80\x92\x02\x80\x81\xa5chunk\xa1c").await.unwrap();
    connected.answers(ACKNOWLEDGEMENT).await;
    assert_eq!((connected.accepted(), connected.fluent.durable.ledger().unreadable_total()), (2, 1));
    // So are metrics of Fluent Bit.
    let metrics = b"\x93\xa1t\xc4\x01\xc1\x82\xadfluent_signal\x01\xa5chunk\xa1c";
    connected.client.write_all(metrics).await.unwrap();
    connected.answers(ACKNOWLEDGEMENT).await;
    assert_eq!((connected.accepted(), connected.fluent.durable.ledger().unreadable_total()), (2, 2));
    drop(connected.client);
    connected.served.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_the_server_leaves_what_is_not_stored_without_acknowledgement() {
    let mut connected = Connected::new(&[]);
    connected.refuse(Some(Refusal::Failed("no".into())));
    connected.client.write_all(WITH_CHUNK).await.unwrap();
    connected.answers_nothing().await;
    connected.end.send(true).unwrap();
    assert_eq!(connected.rest().await, b"");
    connected.served.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_wants_no_acknowledgement_is_stored_also_when_the_server_ends() {
    let mut connected = Connected::new(&[]);
    connected.client.write_all(WITHOUT_CHUNK).await.unwrap();
    while connected.accepted() < 1 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Equal messages are messages of their own, and one that is broken takes none with it.
    connected.client.write_all(&[&WITHOUT_CHUNK.repeat(10)[..], b"\xc1"].concat()).await.unwrap();
    // The broken one may have ended the connection before.
    let _ = connected.end.send(true);
    assert_eq!(connected.rest().await, b"");
    connected.served.await.unwrap();
    let ledger = connected.fluent.durable.ledger();
    assert_eq!((ledger.accepted.get(), ledger.duplicate.get(), ledger.unreadable_total()), (11, 0, 1));
}

/// 12,000 equal entries are three pieces with equal contents.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_message_is_stored_in_pieces_and_once() {
    let mut connected = Connected::new(&[]);
    let entries = b"\x92\x01\x81\xa3log\xa1x".repeat(12_000);
    let length = (entries.len() as u32).to_be_bytes();
    let message = [b"\x93\xa1t\xc6", &length[..], &entries, b"\x81\xa5chunk\xa1c"].concat();
    for _ in 0..2 {
        connected.client.write_all(&message).await.unwrap();
        connected.answers(ACKNOWLEDGEMENT).await;
    }
    let ledger = connected.fluent.durable.ledger();
    assert_eq!((ledger.accepted.get(), ledger.duplicate.get()), (12_000, 12_000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_know_the_shared_key_is_turned_away() {
    for (first, pong) in [
        (WITHOUT_CHUNK, &b"\x95\xa4PONG\xc2"[..]),
        (&b"\x96\xa4PING\xa1h\xa1s\xa1d\xa0\xa0"[..], &b"\x95\xa4PONG\xc2"[..]),
        // A text of 128 KiB, of which the half is sent.
        (&b"\xdb\x00\x02\x00\x00"[..], &b""[..]),
    ] {
        let mut connected = Connected::new(&["--fluent-shared-key", "secret"]);
        let large = if pong.is_empty() { vec![b'x'; SMALL_BYTES] } else { Vec::new() };
        connected.client.write_all(&[first, &large].concat()).await.unwrap();
        let rest = connected.rest().await;
        assert!(rest.starts_with(b"\x92\xa4HELO"), "{}", rest.escape_ascii());
        assert!(rest[HELO_BYTES..].starts_with(pong), "{}", rest.escape_ascii());
        (&mut connected.served).await.unwrap();
        assert_eq!((connected.fluent.durable.ledger().unreadable_total(), connected.accepted()), (1, 0));
    }
}

/// The name, three options with their values, and 16 bytes of the nonce.
const HELO_BYTES: usize = 48;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_knows_the_shared_key_may_send() {
    let mut connected = Connected::new(&["--fluent-shared-key", "secret"]);
    let mut helo = [0; HELO_BYTES];
    connected.client.read_exact(&mut helo).await.unwrap();
    let digest = |name: &[u8]| {
        let mut context = Context::new(&SHA512);
        [b"salt", name, &helo[15..31], b"secret"].iter().for_each(|part| context.update(part));
        context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let ping = [b"\x96\xa4PING\xa4host\xa4salt\xd9\x80", digest(b"host").as_bytes(), b"\xa0\xa0"].concat();
    // What follows at once is taken too.
    connected.client.write_all(&[&ping[..], WITH_CHUNK].concat()).await.unwrap();
    let own = digest(SERVER_NAME.as_bytes());
    let pong = [b"\x95\xa4PONG\xc3\xa0\xac", SERVER_NAME.as_bytes(), b"\xd9\x80", own.as_bytes()].concat();
    connected.answers(&pong).await;
    connected.answers(ACKNOWLEDGEMENT).await;
    assert_eq!(connected.accepted(), 1);
}
