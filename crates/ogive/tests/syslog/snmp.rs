//! Notifications of SNMP by Net-SNMP's client: what was sent is stored, informs once, whatever becomes of the server.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::shippers::{record, stored};
use super::{directory, lines, serve, unreadable_of};
use crate::common::programs::free_port;
use crate::common::{PATIENCE, Server, eventually};

/// The attribute of an object, and the object as the client takes it.
const QUEUE: &str = "1.3.6.1.4.1.9999.1";
const QUEUE_OBJECT: &str = ".1.3.6.1.4.1.9999.1";
/// The exemplars of the histogram are lines, too.
const NOTIFICATIONS: &str = "{job=\"snmp\",__name__!~\".*_exemplar\"}";
const TRAP: &str = ".1.3.6.1.4.1.9999.0.5";

const COMMUNITY: &[&str] = &["-v", "2c", "-c", "open-sesame"];
const OPEN: &[&str] = &["-v", "3", "-u", "open", "-l", "noAuthNoPriv"];
const SIGNED: &[&str] = &["-v", "3", "-u", "signed", "-l", "authNoPriv", "-a", "SHA", "-A", "open sesame"];
const PRIVACY: &str = "sesame, open";
const SEALED_BY: &[&str] = &["-v", "3", "-u", "sealed", "-l", "authPriv", "-a", "SHA-256", "-A", "open sesame"];
/// A busy machine answers late; what is sent again counts once.
const PATIENT: &[&str] = &["-t", "5", "-r", "10"];
/// The engine of an agent, which traps of version 3 name.
const ENGINE: &[&str] = &["-e", "0x8000000001020304"];

/// The user whose messages are encrypted, with this password.
fn sealed(password: &str) -> Vec<&str> {
    [SEALED_BY, &["-x", "AES", "-X", password]].concat()
}

/// Who may send, as a file.
fn logins(directory: &Path) -> String {
    let secret = directory.join("secret");
    std::fs::write(&secret, "open sesame\n").unwrap();
    let text = format!(
        "communities = ['open-sesame']\n[[user]]\nuser = 'open'\n\
         [[user]]\nuser = 'signed'\nauthentication = 'sha1'\npassword = 'open sesame'\n\
         [[user]]\nuser = 'sealed'\nauthentication = 'sha256'\npassword_file = '{}'\nprivacy = 'aes128'\n\
         privacy_password = 'sesame, open'\n",
        secret.display()
    );
    let path = directory.join("logins.toml");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Net-SNMP's client of a server at `address`, with no configuration but its arguments.
struct Client<'t> {
    directory: &'t Path,
    address: &'t str,
}

impl Client<'_> {
    fn start(&self, program: &str, login: &[&str], notification: &[&str]) -> Child {
        let mut command = Command::new(program);
        command.args(login).arg(format!("udp:{}", self.address)).args(notification);
        command.env("SNMP_PERSISTENT_DIR", self.directory).env("SNMPCONFPATH", self.directory).env("MIBS", "");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}; run scripts/need snmptrap"))
    }

    /// Whether it succeeded: of an inform, whether it was answered.
    fn send(&self, program: &str, login: &[&str], notification: &[&str]) -> bool {
        self.start(program, login, notification).wait().unwrap().success()
    }

    fn trap(&self, login: &[&str], queue: usize) -> bool {
        let queue = queue.to_string();
        self.send("snmptrap", login, &second(&queue))
    }

    fn inform(&self, login: &[&str], queue: usize) -> bool {
        let queue = queue.to_string();
        self.send("snmpinform", &[login, PATIENT].concat(), &second(&queue))
    }
}

/// What stands behind the address in versions 2 and 3.
fn second(queue: &str) -> [&str; 8] {
    ["1234", TRAP, QUEUE_OBJECT, "i", queue, ".1.3.6.1.2.1.2.2.1.2.3", "s", "eth0"]
}

fn queue(line: &Value) -> u64 {
    record(line)["attributes"][QUEUE].as_u64().unwrap_or_else(|| panic!("{line}"))
}

fn queues(server: &Server) -> Vec<u64> {
    let mut found: Vec<u64> = lines(server, NOTIFICATIONS).iter().map(queue).collect();
    found.sort_unstable();
    found
}

fn is_counted(server: &Server, reason: &str, count: usize) {
    let end = format!("reason=\"{reason}\"}} {count}");
    eventually(&end, || unreadable_of(server, "snmp_traps").iter().any(|line| line.ends_with(&end)).then_some(()));
}

#[test]
fn notifications_of_every_version_are_stored_and_their_numbers_become_histograms() {
    let directory = directory();
    let filter = directory.path().join("filter.toml");
    let text = format!(
        "[[filter]]\nname = 'queue'\nwhere = '{{job=\"snmp\"}}'\nparse = 'json'\n\
         [[filter.number]]\nname = 'queue_length'\nfield = 'attributes.{QUEUE}'\n"
    );
    std::fs::write(&filter, text).unwrap();
    let (logins, filter) = (logins(directory.path()), filter.display().to_string());
    let args = ["--snmp-traps", "127.0.0.1:0", "--snmp-traps-logins", &logins, "--filters", &filter];
    let server = serve(directory.path(), &args);
    let address = server.line_address("snmp_traps", "udp");
    let client = Client { directory: directory.path(), address: &address };
    let first = [".1.3.6.1.4.1.9999", "192.0.2.9", "6", "5", "1234", QUEUE_OBJECT, "i", "1"];
    assert!(client.send("snmptrap", &["-v", "1", "-c", "open-sesame"], &first));
    assert!(client.trap(COMMUNITY, 2));
    for (at, login) in [OPEN, SIGNED, &sealed(PRIVACY)].into_iter().enumerate() {
        assert!(client.trap(&[login, ENGINE].concat(), 3 + at));
    }
    for (at, login) in [COMMUNITY, OPEN, SIGNED, &sealed(PRIVACY)].into_iter().enumerate() {
        assert!(client.inform(login, 6 + at), "{login:?} is answered");
        // It is answered, so it is there: nobody waits.
        assert!(queues(&server).contains(&(6 + at as u64)), "{login:?}");
    }
    let mut found = stored(&server, NOTIFICATIONS, 9);
    found.sort_unstable_by_key(queue);
    assert_eq!(found.iter().map(queue).collect::<Vec<_>>(), (1..=9).collect::<Vec<_>>());
    let name = Value::from(&TRAP[1..]);
    for (at, line) in found.iter().enumerate() {
        let record = record(line);
        let attributes = &record["attributes"];
        assert_eq!((&record["body"], &attributes["uptime"]), (&name, &Value::from(12.34)), "{line}");
        let (host, version, user) = match at + 1 {
            1 => ("192.0.2.9", "1", None),
            2 | 6 => ("127.0.0.1", "2c", None),
            3 | 7 => ("127.0.0.1", "3", Some("open")),
            4 | 8 => ("127.0.0.1", "3", Some("signed")),
            _ => ("127.0.0.1", "3", Some("sealed")),
        };
        assert_eq!((&line["labels"]["instance"], &attributes["version"]), (&host.into(), &version.into()), "{line}");
        assert_eq!(attributes["user"].as_str(), user, "{line}");
        if at > 0 {
            assert_eq!(attributes["1.3.6.1.2.1.2.2.1.2.3"], "eth0", "{line}");
        }
    }
    let attributes = &record(&found[0])["attributes"];
    let sent = ["enterprise", "generic", "specific", "sender"].map(|name| attributes[name].clone());
    assert_eq!(Value::from(sent.to_vec()), serde_json::json!(["1.3.6.1.4.1.9999", 6, 5, "127.0.0.1"]));
    server.grows_to("histogram_count(sum(increase(queue_length[5m])))", 9.0);
    assert_eq!(server.number("histogram_sum(sum(increase(queue_length[5m])))"), Some(45.0));
    assert_eq!(unreadable_of(&server, "snmp_traps"), [""; 0]);
}

#[test]
fn who_is_not_known_is_refused_and_counted() {
    let directory = directory();
    let logins = logins(directory.path());
    let server = serve(directory.path(), &["--snmp-traps", "127.0.0.1:0", "--snmp-traps-logins", &logins]);
    let address = server.line_address("snmp_traps", "udp");
    let client = Client { directory: directory.path(), address: &address };
    let stranger = ["-v", "2c", "-c", "open-sesam"];
    let nobody = ["-v", "3", "-u", "nobody", "-l", "noAuthNoPriv"];
    let wrong = ["-v", "3", "-u", "signed", "-l", "authNoPriv", "-a", "SHA", "-A", "close sesame"];
    let unsealed = sealed("open, sesame");
    let unsigned = ["-v", "3", "-u", "signed", "-l", "noAuthNoPriv"];
    for (login, reason) in [
        (&stranger[..], "community_unknown"),
        (&nobody[..], "user_unknown"),
        (&wrong[..], "digest_wrong"),
        (&unsealed[..], "decryption_failed"),
        (&unsigned[..], "level_unsupported"),
    ] {
        let engine = if login[1] == "3" { ENGINE } else { &[] };
        assert!(client.trap(&[login, engine].concat(), 1), "nobody answers a trap");
        is_counted(&server, reason, 1);
        // Not answered, or with a report that it is refused.
        let impatient = [login, &["-r", "0", "-t", "1"]].concat();
        assert!(!client.send("snmpinform", &impatient, &second("1")), "{reason}");
    }
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"<14>no SNMP", &address).unwrap();
    is_counted(&server, "ber_invalid", 1);
    // What is known is still taken.
    assert!(client.inform(&sealed(PRIVACY), 7));
    assert_eq!(queues(&server), [7]);
}

#[test]
fn an_answered_inform_is_stored_once_when_the_server_is_killed() {
    let directory = directory();
    let (logins, address) = (logins(directory.path()), format!("127.0.0.1:{}", free_port()));
    let start = || serve(directory.path(), &["--snmp-traps", &address, "--snmp-traps-logins", &logins]);
    let mut server = start();
    let client = Client { directory: directory.path(), address: &address };
    let mut answered = BTreeSet::new();
    for round in 0..3 {
        for (at, login) in [COMMUNITY, OPEN, SIGNED, &sealed(PRIVACY)].into_iter().enumerate() {
            let queue = 10 * round + at;
            assert!(client.inform(login, queue), "{login:?}");
            answered.insert(queue as u64);
        }
        server.kill();
        // Sent while nobody is there, and repeated until somebody is.
        let queue = 10 * round + 9;
        let text = queue.to_string();
        let patient = [COMMUNITY, &["-r", "100", "-t", "1"]].concat();
        let mut waiting = client.start("snmpinform", &patient, &second(&text));
        server = start();
        assert!(waiting.wait().unwrap().success());
        answered.insert(queue as u64);
        assert_eq!(queues(&server), answered.iter().copied().collect::<Vec<_>>());
    }
    // A sender that did not get the answer sends the same inform again.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let (inform, response) = (message(0xa6), message(0xa2));
    for round in 0..4 {
        socket.send_to(&inform, &address).unwrap();
        let mut answer = [0; 1_000];
        let length = socket.recv(&mut answer).unwrap();
        assert_eq!(answer[..length], response, "round {round}");
        if round == 1 {
            server.kill();
            server = start();
        }
    }
    assert_eq!(lines(&server, "linkDown").len(), 1);
    let (_, status) = server.get("/v1/status");
    assert_eq!((&status["snmp_traps_accepted_total"], &status["snmp_traps_duplicate_total"]), (&0.into(), &2.into()));
}

/// A field of BER.
fn field(tag: u8, content: &[&[u8]]) -> Vec<u8> {
    let content = content.concat();
    [&[tag, u8::try_from(content.len()).unwrap()][..], &content].concat()
}

/// linkDown in SNMP v2c, as what `tag` says.
fn message(tag: u8) -> Vec<u8> {
    let uptime = [&b"\x06\x08\x2b\x06\x01\x02\x01\x01\x03\0"[..], b"\x43\x01\x07"];
    let name =
        [&b"\x06\x0a\x2b\x06\x01\x06\x03\x01\x01\x04\x01\0"[..], b"\x06\x09\x2b\x06\x01\x06\x03\x01\x01\x05\x03"];
    let objects = field(0x30, &[&field(0x30, &uptime), &field(0x30, &name)]);
    let pdu = field(tag, &[b"\x02\x01\x07", b"\x02\x01\0", b"\x02\x01\0", &objects]);
    field(0x30, &[b"\x02\x01\x01", &field(4, &[b"open-sesame"]), &pdu])
}
