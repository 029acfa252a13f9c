//! Servers that greet in lines, and those of the time and of a cache: Dropbear, Dovecot, aiosmtpd, chrony and
//! memcached.

use std::path::Path;
use std::process::Command;

use super::{directory, gauge, has, is_root_here, measured, says, serve, table};
use crate::common::authority::Authority;
use crate::common::programs::{Program, free_port, listens};
use crate::common::{clients, eventually};

/// Who runs the test.
fn user_here() -> String {
    let output = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Dovecot without users, with STARTTLS and with TLS from the beginning.
fn dovecot(directory: &Path, [imap, imaps, pop3]: [u16; 3]) -> Program {
    let place = directory.display();
    let user = user_here();
    let internal = if is_root_here() { "nobody" } else { user.as_str() };
    let listener = |name: &str, port: u16, more: &str| {
        format!("inet_listener {name} {{\n address = 127.0.0.1\n port = {port}\n {more}\n}}\n")
    };
    let (imap, imaps) = (listener("imap", imap, ""), listener("imaps", imaps, "ssl = yes"));
    let (pop3, none) = (listener("pop3", pop3, ""), listener("pop3s", 0, ""));
    let config = format!(
        "protocols = imap pop3\nbase_dir = {place}/run\nlog_path = {place}/dovecot.log\nssl = yes\n\
         ssl_cert = <{place}/mail.pem\nssl_key = <{place}/mail.key\ndefault_internal_user = {internal}\n\
         default_login_user = {internal}\npassdb {{\n driver = static\n args = nopassword=y\n}}\nuserdb {{\n driver = static\n \
         args = uid=nobody gid=nogroup home=/nowhere\n}}\nservice anvil {{\n chroot =\n}}\n\
         service imap-login {{\n chroot =\n{imap}{imaps}}}\nservice pop3-login {{\n chroot =\n{pop3}{none}}}\n"
    );
    std::fs::write(directory.join("dovecot.conf"), config).unwrap();
    let mut command = Command::new("dovecot");
    command.arg("-F").arg("-c").arg(directory.join("dovecot.conf"));
    Program::start(command)
}

#[test]
fn mail_and_login_servers_are_greeted() {
    let directory = directory();
    let authority = Authority::new();
    std::fs::write(directory.path().join("ca.pem"), authority.0.pem()).unwrap();
    authority.certify_until(directory.path(), "mail", 2090);
    let [ssh, smtp, imap, imaps, pop3] = [(); 5].map(|()| free_port());
    let _dovecot = dovecot(directory.path(), [imap, imaps, pop3]);
    let mut dropbear = Command::new("dropbear");
    dropbear.args(["-F", "-p", &format!("127.0.0.1:{ssh}"), "-r"]).arg(directory.path().join("host.key"));
    dropbear.arg("-P").arg(directory.path().join("dropbear.pid"));
    let made =
        Command::new("dropbearkey").args(["-t", "ed25519", "-f"]).arg(directory.path().join("host.key")).output();
    assert!(made.expect("run scripts/need dropbear").status.success());
    let _dropbear = Program::start(dropbear);
    // Debian's Python, which has Debian's aiosmtpd.
    let mut mail = Command::new("/usr/bin/python3");
    mail.args(["-m", "aiosmtpd", "-n", "--no-requiretls", "-l", &format!("127.0.0.1:{smtp}")]);
    mail.arg("--tlscert").arg(directory.path().join("mail.pem")).arg("--tlskey").arg(directory.path().join("mail.key"));
    let _mail = Program::start(mail);
    [ssh, smtp, imap, imaps, pop3].into_iter().for_each(listens);
    let at = |port: u16, more: &str| format!("target = 'localhost:{port}'\n{more}");
    let trust = format!("ca_file = '{}'\n", directory.path().join("ca.pem").display());
    let checks = [
        table("ssh", "ssh", &at(ssh, "")),
        table("smtp", "smtp", &at(smtp, "")),
        table("smtp-tls", "smtp", &at(smtp, &format!("starttls = true\n{trust}"))),
        table("imap-tls", "imap", &at(imap, &format!("starttls = true\n{trust}"))),
        table("imaps", "imap", &at(imaps, &format!("tls = true\n{trust}"))),
        table("pop3-tls", "pop3", &at(pop3, &format!("starttls = true\n{trust}"))),
        table("stranger", "imap", &at(imap, "starttls = true\n")),
        table("wrong", "pop3", &at(smtp, "")),
    ];
    let server = serve(directory.path(), &checks.concat());
    for check in ["ssh", "smtp", "smtp-tls", "imap-tls", "imaps", "pop3-tls"] {
        has(&server, check, "ok");
        measured(&server, check, "greeting", 1.0);
    }
    for check in ["smtp-tls", "imap-tls", "pop3-tls"] {
        measured(&server, check, "starttls", 1.0);
        gauge(&server, "ogive_check_certificate_seconds", check, |left| left > 3600.0);
    }
    has(&server, "stranger", "tls");
    has(&server, "wrong", "protocol");
    says(&server, "ogive_check_wrong_answer", "wrong", "is not an answer of the protocol");
}

#[test]
fn times_and_statistics_are_stored() {
    let directory = directory();
    let [ntp, alone, cache] = [(); 3].map(|()| free_port());
    let user = user_here();
    let chrony = |name: &str, port: u16, more: &str| {
        let config = format!("port {port}\nbindaddress 127.0.0.1\ncmdport 0\nallow 127.0.0.1\n{more}\n");
        let path = directory.path().join(name);
        std::fs::write(&path, config + &format!("pidfile {}.pid\n", path.display())).unwrap();
        let mut command = Command::new(clients::chronyd());
        // It serves this machine's clock and leaves it alone, as whoever runs the test: the package's own user is not
        // made.
        command.args(["-d", "-x", "-U", "-u", &user, "-f"]).arg(path);
        Program::start(command)
    };
    let _programs = [chrony("time.conf", ntp, "local stratum 5"), chrony("alone.conf", alone, "")];
    let mut memcached = Command::new("memcached");
    memcached.args(["-l", "127.0.0.1", "-p", &cache.to_string(), "-u", "nobody"]);
    let _memcached = Program::start(memcached);
    listens(cache);
    let checks = [
        table("time", "ntp", &format!("target = '127.0.0.1:{ntp}'")),
        table("alone", "ntp", &format!("target = '127.0.0.1:{alone}'")),
        table("cache", "memcached", &format!("target = '127.0.0.1:{cache}'")),
    ];
    let server = serve(directory.path(), &checks.concat());
    has(&server, "time", "ok");
    gauge(&server, "ogive_check_ntp_stratum", "time", |stratum| stratum == 5.0);
    // The same clock: what is left is what the delay leaves open.
    gauge(&server, "ogive_check_ntp_delay_seconds", "time", |delay| (0.0..0.5).contains(&delay));
    gauge(&server, "ogive_check_ntp_offset_seconds", "time", |offset| offset.abs() < 0.25);
    has(&server, "alone", "status");
    says(&server, "ogive_check_wrong_answer", "alone", "not synchronised");
    has(&server, "cache", "ok");
    let statistic =
        |name: &str| server.number(&format!("ogive_check_memcached{{check=\"cache\",statistic=\"{name}\"}}"));
    eventually("no items are cached", || statistic("curr_items").filter(|count| *count == 0.0));
    eventually("memcached has a number", || statistic("pid").filter(|pid| *pid > 0.0));
    assert_eq!(statistic("version"), None, "it is no number");
}
