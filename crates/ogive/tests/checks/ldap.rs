//! LDAP: OpenLDAP's server without TLS, with it and with StartTLS, and servers that hang, lie and break off.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use super::{directory, gauge, has, latencies, measured, said, says, serve, table, texts};
use crate::common::authority::Authority;
use crate::common::programs::{Program, free_port, listens};
use crate::common::{Server, eventually};

const PEOPLE: &str = "ou=people,dc=example,dc=org";

/// Three people, somebody who monitors, and an entry that another server has.
const DATA: &str = "\
dn: dc=example,dc=org\nobjectClass: dcObject\nobjectClass: organization\ndc: example\no: Example\n\n\
dn: ou=people,dc=example,dc=org\nobjectClass: organizationalUnit\nou: people\n\n\
dn: cn=monitor,dc=example,dc=org\nobjectClass: person\ncn: monitor\nsn: monitor\nuserPassword: open sesame\n\n\
dn: ou=elsewhere,dc=example,dc=org\nobjectClass: referral\nobjectClass: extensibleObject\nou: elsewhere\n\
ref: ldap://elsewhere.example/ou=elsewhere,dc=example,dc=org\n\n";

fn data() -> String {
    let person = |(name, id): (&str, u32)| {
        format!(
            "dn: uid={name},{PEOPLE}\nobjectClass: inetOrgPerson\nobjectClass: posixAccount\nuid: {name}\ncn: {name}\n\
             sn: {name}\nuidNumber: {id}\ngidNumber: 100\nhomeDirectory: /home/{name}\n\n"
        )
    };
    DATA.to_owned() + &[("ada", 1001), ("bob", 1002), ("eve", 1003)].map(person).concat()
}

/// `slapd` with these data and a certificate for localhost; the second port is the one with TLS.
fn slapd(directory: &Path, [plain, secure]: [u16; 2]) -> Program {
    let authority = Authority::new();
    std::fs::write(directory.join("ca.pem"), authority.0.pem()).unwrap();
    authority.certify_until(directory, "ldap", 2090);
    std::fs::create_dir(directory.join("database")).unwrap();
    let place = directory.display();
    let schemas =
        ["core", "cosine", "nis", "inetorgperson"].map(|name| format!("include /etc/ldap/schema/{name}.schema\n"));
    let config = format!(
        "{}modulepath /usr/lib/ldap\nmoduleload back_mdb\npidfile {place}/slapd.pid\nargsfile {place}/slapd.args\n\
         TLSCACertificateFile {place}/ca.pem\nTLSCertificateFile {place}/ldap.pem\n\
         TLSCertificateKeyFile {place}/ldap.key\n\
         database mdb\nsuffix \"dc=example,dc=org\"\ndirectory {place}/database\nmaxsize 10485760\n",
        schemas.concat()
    );
    let file = directory.join("slapd.conf");
    std::fs::write(&file, config).unwrap();
    std::fs::write(directory.join("data.ldif"), data()).unwrap();
    let mut load = Command::new("slapadd");
    let loaded = load.arg("-f").arg(&file).arg("-l").arg(directory.join("data.ldif")).output();
    let loaded = loaded.unwrap_or_else(|error| panic!("slapadd: {error}; run scripts/need"));
    assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
    // Its table of connections has room for every file that it may open: in a container that may be a thousand million.
    let mut command = Command::new("prlimit");
    command.args(["--nofile=1024:1024", "slapd"]);
    // In the foreground, without a log.
    command.args(["-d", "0", "-h", &format!("ldap://127.0.0.1:{plain} ldaps://127.0.0.1:{secure}")]);
    command.arg("-f").arg(&file);
    let program = Program::start(command);
    listens(plain);
    listens(secure);
    program
}

/// Waits until each check has ended so, for a reason whose sentence holds these words.
fn fail(server: &Server, expected: &[(&str, &str, &str)]) {
    for (check, result, words) in expected {
        has(server, check, result);
        let has_answer = !matches!(*result, "closed" | "limit" | "refused" | "timeout");
        let metric = if has_answer { "ogive_check_wrong_answer" } else { "ogive_check_no_answer" };
        says(server, metric, check, words);
        if !has_answer {
            assert_eq!(server.number(&latencies(check, "total")), None, "{check} has a latency");
        }
    }
}

/// Checks of a directory with all that may go right and wrong.
fn searches(directory: &Path, port: u16) -> String {
    let secret = directory.join("secret");
    std::fs::write(&secret, "open sesame\n").unwrap();
    let target = format!("target = 'ldap://127.0.0.1:{port}'\n");
    let monitor = "user = 'cn=monitor,dc=example,dc=org'\n";
    let search = |name: &str, keys: &str| table(name, "ldap", &format!("{target}[check.search]\n{keys}"));
    let people = format!("base = '{PEOPLE}'\nscope = 'one'\n");
    let values = "filter = '(&(uid=*)(!(uid=eve)))'\nentries_min = 2\nentries_max = 2\nlabels = {who = 'uid'}\n\
                  values = [{name = 'uid_number', attribute = 'uidNumber'}]";
    let checks = [
        table("anonymous", "ldap", &target),
        table("known", "ldap", &format!("{target}{monitor}password_file = '{}'", secret.display())),
        table("wrong", "ldap", &format!("{target}{monitor}password = 'close sesame'")),
        table("nobody", "ldap", &format!("{target}user = 'cn=nobody,dc=example,dc=org'\npassword = 'x'")),
        table("no-name", "ldap", &format!("{target}user = 'nobody'\npassword = 'x'")),
        search("values", &format!("{people}{values}")),
        search("root", "scope = 'base'"),
        search("parts", &format!("{people}filter = '(uid=*v*)'")),
        search("few", &format!("{people}filter = '(|(uid=bob)(uid=eve))'\nentries_min = 3")),
        search("many", &format!("{people}entries_max = 2")),
        search("none", &format!("{people}filter = '(uid=\\2a)'")),
        search("words", &format!("{people}values = [{{name = 'home', attribute = 'homeDirectory'}}]")),
        search("missing", &format!("{people}values = [{{name = 'mail', attribute = 'mail'}}]")),
        search("no-base", "base = 'ou=nothing,dc=example,dc=org'"),
        search("referral", "base = 'ou=elsewhere,dc=example,dc=org'"),
        search("references", "base = 'dc=example,dc=org'\nentries_min = 6\nentries_max = 6"),
    ];
    checks.concat()
}

#[test]
fn directories_are_bound_to_and_searched() {
    let directory = directory();
    let ports = [free_port(), free_port()];
    let _slapd = slapd(directory.path(), ports);
    let server = serve(directory.path(), &searches(directory.path(), ports[0]));
    for check in ["anonymous", "known", "values", "root", "parts", "references"] {
        has(&server, check, "ok");
        for phase in ["resolve", "connect", "bind", "total"] {
            measured(&server, check, phase, 1.0);
        }
        gauge(&server, "ogive_check_ldap_result", check, |code| code == 0.0);
    }
    measured(&server, "values", "search", 1.0);
    for (check, phase) in [("anonymous", "search"), ("anonymous", "tls"), ("wrong", "search")] {
        assert_eq!(server.number(&latencies(check, phase)), None, "{check} has the phase {phase}");
    }
    for (who, number) in [("ada", 1001.0), ("bob", 1002.0)] {
        let expr = format!("uid_number{{check=\"values\",who=\"{who}\",dn=\"uid={who},{PEOPLE}\"}}");
        eventually(&expr, || server.number(&expr).filter(|found| *found == number));
    }
    assert_eq!(server.number("uid_number{who=\"eve\"}"), None);
    for (check, entries, references) in [("values", 2.0, 0.0), ("root", 1.0, 0.0), ("references", 6.0, 1.0)] {
        gauge(&server, "ogive_check_ldap_entries", check, |found| found == entries);
        gauge(&server, "ogive_check_ldap_references", check, |found| found == references);
    }
    let expected = [
        ("wrong", "login", "the bind fails: invalidCredentials (49)"),
        ("nobody", "login", "the bind fails: invalidCredentials (49)"),
        ("no-name", "status", "the bind fails: invalidDNSyntax (34)"),
        ("few", "content", "finds fewer entries than 3: 2"),
        ("many", "content", "finds more than 2 entries"),
        ("none", "content", "finds fewer entries than 1: 0"),
        ("words", "content", "is no number: \\\"/home/"),
        ("missing", "content", "no entry has the attribute mail"),
        ("no-base", "status", "noSuchObject (32); the nearest entry is \\\"dc=example,dc=org\\\""),
        ("referral", "status", "the server refers to ldap://elsewhere.example/"),
    ];
    fail(&server, &expected);
    gauge(&server, "ogive_check_ldap_result", "wrong", |code| code == 49.0);
    gauge(&server, "ogive_check_ldap_result", "referral", |code| code == 10.0);
    let shown = said(&server, "wrong") + &texts(&server, "ogive_check_up", "known");
    assert!(!shown.contains("sesame"), "{shown}");
}

#[test]
fn directories_are_asked_over_tls() {
    let directory = directory();
    let [plain, secure] = [free_port(), free_port()];
    let _slapd = slapd(directory.path(), [plain, secure]);
    let at = |scheme: &str, port: u16, keys: &str| format!("target = '{scheme}://localhost:{port}'\n{keys}");
    let ca = format!("ca_file = '{}'\n", directory.path().join("ca.pem").display());
    let login = "user = 'cn=monitor,dc=example,dc=org'\npassword = 'open sesame'\n";
    let search = format!("[check.search]\nbase = '{PEOPLE}'\nfilter = '(uid=ada)'");
    let checks = [
        table("tls", "ldap", &at("ldaps", secure, &format!("{ca}{login}{search}"))),
        table("anyone", "ldap", &at("ldaps", secure, "insecure = true")),
        table("stranger", "ldap", &at("ldaps", secure, "")),
        table("other-name", "ldap", &at("ldaps", secure, &format!("{ca}server_name = 'other.example'"))),
        table("starttls", "ldap", &at("ldap", plain, &format!("starttls = true\n{ca}{login}{search}"))),
        table("starttls-stranger", "ldap", &at("ldap", plain, "starttls = true")),
    ];
    let server = serve(directory.path(), &checks.concat());
    for check in ["tls", "anyone", "starttls"] {
        has(&server, check, "ok");
        for phase in ["connect", "tls", "bind", "total"] {
            measured(&server, check, phase, 1.0);
        }
    }
    measured(&server, "starttls", "starttls", 1.0);
    for (check, is_valid) in [("tls", 1.0), ("starttls", 1.0), ("anyone", 0.0)] {
        gauge(&server, "ogive_check_certificate_valid", check, |valid| valid == is_valid);
    }
    for check in ["tls", "starttls"] {
        gauge(&server, "ogive_check_ldap_entries", check, |entries| entries == 1.0);
    }
    fail(&server, &["stranger", "other-name", "starttls-stranger"].map(|check| (check, "tls", "tls: ")));
}

/// A tag, the length of what follows, and that.
fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = u16::try_from(content.len()).expect("a short message").to_be_bytes();
    [&[tag, 0x82][..], &length, &content].concat()
}

/// An answer to the request `id`.
fn message(id: u8, tag: u8, content: &[&[u8]]) -> Vec<u8> {
    element(0x30, &[&[2, 1, id], &element(tag, content)])
}

/// A result without words.
fn result(id: u8, tag: u8, code: u8) -> Vec<u8> {
    message(id, tag, &[&[0x0a, 1, code], &[4, 0], &[4, 0]])
}

/// The target of a server that says `answer` to whatever comes first, `again` and again if there is any, and ends.
fn says_to_each(answer: Vec<u8>, again: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("target = 'ldap://{}'\n", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = answer_to(stream, &answer, &again);
        }
    });
    target
}

fn answer_to(mut stream: TcpStream, answer: &[u8], again: &[u8]) -> std::io::Result<()> {
    if stream.read(&mut [0; 512])? == 0 {
        return Ok(());
    }
    stream.write_all(answer)?;
    while !again.is_empty() {
        stream.write_all(again)?;
    }
    stream.shutdown(Shutdown::Write)?;
    // Its end would be a reset, which may overtake the answer.
    stream.read_to_end(&mut Vec::new()).map(drop)
}

#[test]
fn what_is_no_directory_is_told_with_its_reason() {
    let directory = directory();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let bound = result(1, 0x61, 0);
    let entry = message(2, 0x64, &[&[4, 0], &[0x30, 0]]);
    let search = "[check.search]\nentries_max = 10";
    // Sequences within sequences: 60 KiB of them.
    let nested = element(0x30, &[&b"\x30\x80".repeat(30_000)]);
    let large = b"\x30\x83\x08\0\0";
    let lying = |name: &str, answer: &[u8], again: &[u8], keys: &str| {
        table(name, "ldap", &(says_to_each(answer.to_vec(), again.to_vec()) + keys))
    };
    let checks = [
        table("refused", "ldap", "target = 'ldap://127.0.0.1:1'"),
        table("timeout", "ldap", &format!("target = 'ldap://{}'", silent.local_addr().unwrap())),
        lying("good", &bound, b"", ""),
        lying("closed", b"", b"", ""),
        lying("cut", &bound[..9], b"", ""),
        lying("ssh", b"SSH-2.0-x\r\n", b"", ""),
        lying("http", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", ""),
        lying("nested", &nested, b"", ""),
        lying("huge", b"\x30\x84\xff\xff\xff\xff", b"", ""),
        lying("large", &[&bound[..], large].concat(), &[0; 1024], search),
        lying("endless", &bound, &entry, search),
        lying("other-number", &result(9, 0x61, 0), b"", ""),
        lying("other-answer", &[&bound[..], &result(2, 0x61, 0)].concat(), b"", search),
        lying("leaving", &result(0, 0x78, 52), b"", ""),
        lying("no-tls", &result(1, 0x78, 2), b"", "starttls = true"),
        lying("injected", &[result(1, 0x78, 0), bound.clone()].concat(), b"", "starttls = true"),
    ];
    let server = serve(directory.path(), &checks.concat());
    has(&server, "good", "ok");
    let expected = [
        ("refused", "refused", "refused: "),
        ("timeout", "timeout", "in the phase bind"),
        ("closed", "closed", "closed: "),
        ("cut", "closed", "within a message"),
        ("ssh", "protocol", "0x53 begins no message of LDAP"),
        ("http", "protocol", "0x48 begins no message of LDAP"),
        ("nested", "protocol", "malformed"),
        ("huge", "limit", "declares 4294967295 bytes"),
        ("large", "limit", "declares 524288 bytes"),
        ("endless", "content", "finds more than 10 entries"),
        ("other-number", "protocol", "answers message 9, and the request was message 1"),
        ("other-answer", "protocol", "a message of the kind 0x61"),
        ("leaving", "status", "the server ends the connection: unavailable (52)"),
        ("no-tls", "tls", "refuses StartTLS: protocolError (2)"),
        ("injected", "protocol", "arrived before TLS began"),
    ];
    fail(&server, &expected);
    drop(silent);
}
