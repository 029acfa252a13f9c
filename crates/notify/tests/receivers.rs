//! Alerts arrive at a real SMTP server and at a receiver of HTTP.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use ogive_notify::{Answer, Batch, Destination, Email, Grouping, Heartbeat, Notice, Outbox, Pulse, ReadFile, Sender};
use serde_json::{Value, json};

const READ: ReadFile = |path| std::fs::read(path);

struct Receivers {
    child: Child,
    lines: BufReader<ChildStdout>,
    smtp: u64,
    http: u64,
}

impl Receivers {
    fn start(arguments: &[&Path]) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/receivers.py");
        // Debian's Python, which has Debian's aiosmtpd.
        let mut command = Command::new("/usr/bin/python3");
        command.arg(script).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child =
            command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}; run scripts/need aiosmtpd"));
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut this = Self { child, lines, smtp: 0, http: 0 };
        let ports = this.next();
        (this.smtp, this.http) = (ports["smtp"].as_u64().unwrap(), ports["http"].as_u64().unwrap());
        this
    }

    /// What came next.
    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the receivers do not run; run scripts/need aiosmtpd");
        serde_json::from_str(&line).unwrap()
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.http)
    }
}

impl Drop for Receivers {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn notice(name: &str, host: &str) -> Notice {
    let labels = [("alertname", name), ("host", host), ("team", "x")];
    Notice {
        tenant: String::new(),
        labels: labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        annotations: BTreeMap::from([("summary".to_owned(), format!("{host} is down: größer als 5 µs"))]),
        starts_ms: 1_700_000_000_000,
        ends_ms: 1_800_000_000_000,
        is_resolved: false,
        generator_url: "http://ogive/graph?g0.expr=up&g0.tab=1".to_owned(),
        lane: 0,
        generation: 0,
    }
}

/// What is due at the first message of two groups with two alerts each.
fn digest(destination: &Destination) -> (Outbox, Batch) {
    let (mut outbox, grouping) = (Outbox::default(), Grouping::default());
    for (name, host) in [("Down", "a"), ("Down", "b"), ("Slow", "a"), ("Slow", "c")] {
        outbox.push(&Arc::new(notice(name, host)), destination, &grouping, 0);
    }
    let batch = outbox.next(destination, &grouping, 30_000, 0).expect("the wait is over");
    (outbox, batch)
}

fn email(receivers: &Receivers, to: &str) -> Destination {
    let server = format!("smtp+plain://127.0.0.1:{}", receivers.smtp);
    Destination::Email(Email::new(&server, "Ogive <ogive@example.org>", &[to.to_owned()]).unwrap())
}

#[test]
fn mail_arrives_as_one_digest() {
    let mut receivers = Receivers::start(&[]);
    let destination = email(&receivers, "ops@example.org");
    let (mut outbox, batch) = digest(&destination);
    let answer = Sender::new(destination, READ, "http://ogive").send(&batch);
    assert_eq!(answer, Answer::Taken);
    outbox.answered(&batch, answer, 30_000);
    let mail = receivers.next();
    assert_eq!((&mail["sender"], &mail["to"]), (&json!("ogive@example.org"), &json!(["ops@example.org"])));
    let data = mail["data"].as_str().unwrap();
    assert!(data.contains("Subject: [FIRING:4] Down and 1 more groups\r\n"), "{data}");
    let (head, _) = data.split_once("\r\n\r\n").unwrap();
    assert!(
        head.contains("From: \"Ogive\" <ogive@example.org>") || head.contains("From: Ogive <ogive@example.org>"),
        "{head}"
    );
    assert!(head.contains("quoted-printable"), "{head}");
    assert!(data.contains("firing Down since 2023-11-14T22:13:20.000Z host=3Da"), "{data}");
    assert!(data.contains("b is down: gr=C3=B6=C3=9Fer als 5 =C2=B5s"), "{data}");
    assert_eq!(outbox.counts.sent, 4);
}

#[test]
fn mail_that_is_refused_goes_and_mail_for_later_is_sent_again() {
    let mut receivers = Receivers::start(&[]);
    let refused = email(&receivers, "refuse@example.org");
    let (mut outbox, batch) = digest(&refused);
    let answer = Sender::new(refused.clone(), READ, "").send(&batch);
    assert!(matches!(&answer, Answer::Refused(error) if error.contains("nobody of that name")), "{answer:?}");
    outbox.answered(&batch, answer, 0);
    assert_eq!((outbox.counts.refused, outbox.waiting()), (4, 0));
    let later = email(&receivers, "later@example.org");
    let (mut outbox, batch) = digest(&later);
    let sender = Sender::new(later.clone(), READ, "");
    let answer = sender.send(&batch);
    assert!(matches!(&answer, Answer::Failed(error) if error.contains("come back later")), "{answer:?}");
    outbox.answered(&batch, answer, 0);
    let again = outbox.next(&later, &Grouping::default(), 30_000, 0).unwrap();
    assert_eq!((&again, sender.send(&again)), (&batch, Answer::Taken));
    assert_eq!(receivers.next()["kind"], "mail");
    drop(receivers);
    assert!(matches!(sender.send(&again), Answer::Failed(_)), "nobody is there");
}

#[test]
fn mail_goes_behind_tls_and_a_login_or_not_at_all() {
    let directory = std::env::temp_dir().join(format!("ogive-notify-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = |name: &str| -> PathBuf { directory.join(name) };
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
    std::fs::write(path("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(path("key.pem"), made.signing_key.serialize_pem()).unwrap();
    std::fs::write(path("password"), "secret\n").unwrap();
    let mut receivers = Receivers::start(&[&path("cert.pem"), &path("key.pem")]);
    let server = format!("smtp://me@localhost:{}", receivers.smtp);
    let mut to = Email::new(&server, "ogive@example.org", &["ops@example.org".to_owned()]).unwrap();
    to.password_file = Some(path("password"));
    let send = |to: &Email| {
        let destination = Destination::Email(to.clone());
        let (_, batch) = digest(&destination);
        Sender::new(destination, READ, "").send(&batch)
    };
    let unknown = send(&to);
    assert!(matches!(&unknown, Answer::Failed(_)), "the certificate is not trusted: {unknown:?}");
    to.ca_file = Some(path("cert.pem"));
    assert_eq!(send(&to), Answer::Taken);
    let mail = receivers.next();
    assert_eq!((&mail["tls"], &mail["user"]), (&json!(true), &json!(true)), "{mail}");
    std::fs::write(path("password"), "wrong").unwrap();
    assert_ne!(send(&to), Answer::Taken);
    std::fs::write(path("password"), " \n").unwrap();
    let empty = send(&to);
    assert!(matches!(&empty, Answer::Failed(error) if error.contains("the file is empty")), "{empty:?}");
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn slack_and_webhooks_and_heartbeats_arrive() {
    let mut receivers = Receivers::start(&[]);
    let file = std::env::temp_dir().join(format!("ogive-slack-{}", std::process::id()));
    std::fs::write(&file, format!("{}\n", receivers.url("/services/T/B/secret"))).unwrap();
    let slack = Destination::Slack { url_file: file.clone(), channel: Some("#ops".to_owned()) };
    assert_eq!(Sender::new(slack.clone(), READ, "http://ogive").send(&digest(&slack).1), Answer::Taken);
    let came = receivers.next();
    assert_eq!((&came["path"], &came["body"]["channel"]), (&json!("/services/T/B/secret"), &json!("#ops")));
    let titles: Vec<&Value> = came["body"]["attachments"].as_array().unwrap().iter().map(|one| &one["title"]).collect();
    assert_eq!(titles, ["[FIRING:2] Down", "[FIRING:2] Slow"]);
    std::fs::write(&file, "http://127.0.0.1:1/secret").unwrap();
    let answer = Sender::new(slack.clone(), READ, "").send(&digest(&slack).1);
    assert!(
        matches!(&answer, Answer::Failed(error) if !error.contains("/secret")),
        "the address is a secret: {answer:?}"
    );

    std::fs::write(&file, "abc").unwrap();
    let webhook = Destination::Webhook { url: receivers.url("/fail"), token_file: Some(file.clone()) };
    let (mut outbox, batch) = digest(&webhook);
    let sender = Sender::new(webhook.clone(), READ, "http://ogive");
    let answer = sender.send(&batch);
    assert!(matches!(&answer, Answer::Failed(error) if error.contains("status 503")), "{answer:?}");
    assert_eq!(sender.send(&batch), Answer::Taken);
    outbox.answered(&batch, Answer::Taken, 30_000);
    assert_eq!(receivers.next()["authorization"], "Bearer abc");
    let body = receivers.next()["body"].clone();
    assert_eq!((&body["groupKey"], &body["status"]), (&json!("{}:{alertname=\"Down\"}"), &json!("firing")));
    assert_eq!(body["commonLabels"], json!({"alertname": "Down", "team": "x"}));
    assert_eq!(body["alerts"].as_array().unwrap().len(), 2);
    let second = outbox.next(&webhook, &Grouping::default(), 30_000, 0).expect("the other group is due");
    assert_ne!(second, batch);

    let pulse = Pulse { groups: 3, late: 0, failing: 0 };
    assert_eq!(Heartbeat::new(&receivers.url("/beat")).send(&pulse, ""), Answer::Taken);
    assert_eq!(receivers.next()["body"], json!({"status": "ok", "groups": 3, "externalURL": ""}));
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn who_never_answers_fails_alone() {
    let receivers = Receivers::start(&[]);
    let hangs = Destination::Webhook { url: receivers.url("/hang"), token_file: None };
    let answer = Sender::new(hangs.clone(), READ, "").send(&digest(&hangs).1);
    assert!(matches!(&answer, Answer::Failed(error) if error.contains("timeout")), "{answer:?}");
}
