//! Brokers under a server: what is applied runs, what is wrong is refused, what a server says while a broker is away
//! comes once, and a ticket enrols one broker.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::brokers::{broker, configure, texts};
use crate::common::programs::free_address;
use crate::common::{Server, eventually};
use serde_json::{Value, json};

/// A server, the directory of its groups, and brokers that know it.
pub(crate) struct Site {
    directory: tempfile::TempDir,
    pub(crate) server: Option<Server>,
    pub(crate) address: String,
}

impl Site {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        // An address that no other test of this process gets while the server is away.
        let server = Server::start_at(&directory.path().join("data"), &free_address());
        std::fs::create_dir(directory.path().join("groups")).unwrap();
        let address = server.address.clone();
        Self { directory, server: Some(server), address }
    }

    /// Waits until the broker has polled.
    pub(crate) fn comes(&self, name: &str) {
        eventually("it polls", || Some(self.row(name)).filter(|row| row["seen_ms"].is_i64()));
    }

    pub(crate) fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// `ogive fleet ...` against the server.
    pub(crate) fn fleet(&self, arguments: &[&str]) -> Output {
        let server = format!("http://{}", self.address);
        ogive(&[&["fleet"], arguments, &["--server", &server]].concat())
    }

    pub(crate) fn apply(&self, toml: &str, why: &str) -> Output {
        std::fs::write(self.path("groups/edge.toml"), toml).unwrap();
        self.fleet(&["apply", self.path("groups").to_str().unwrap(), "--why", why])
    }

    pub(crate) fn ticket(&self, more: &[&str]) -> String {
        let made = self.fleet(&[&["ticket", "--group", "edge"], more].concat());
        assert!(made.status.success(), "{}", said(&made));
        String::from_utf8(made.stdout).unwrap().trim().to_owned()
    }

    /// A broker's directory with its file, which names this server as its destination and its fleet.
    pub(crate) fn configure(&self, name: &str, fleet: &str) -> PathBuf {
        let directory = self.path(name);
        std::fs::create_dir(&directory).unwrap();
        let destination = [format!("http://{}", self.address)];
        let path = configure(&directory, "127.0.0.1:0", "", &[("dc1", &destination, "")]);
        let text = std::fs::read_to_string(&path).unwrap().replace("\"edge\"", &format!("{name:?}"));
        std::fs::write(&path, format!("{text}[fleet]\n{fleet}\n")).unwrap();
        path
    }

    pub(crate) fn enrol(&self, ticket: &str, config: &Path) -> Output {
        let server = format!("http://{}", self.address);
        ogive(&["broker", "enroll", &server, ticket, "-c", config.to_str().unwrap()])
    }

    pub(crate) fn broker(&self, name: &str, fleet: &str) -> Server {
        let config = self.configure(name, fleet);
        let enroled = self.enrol(&self.ticket(&[]), &config);
        assert!(enroled.status.success(), "{}", said(&enroled));
        broker(&config)
    }

    /// What the server shows of a broker.
    pub(crate) fn row(&self, name: &str) -> Value {
        let (status, list) = self.server().get("/v1/fleet/brokers");
        assert_eq!(status, 200, "{list}");
        list["brokers"].as_array().unwrap().iter().find(|row| row["name"] == name).cloned().unwrap_or_default()
    }

    pub(crate) fn until(&self, name: &str, state: &str, version: u64) -> Value {
        eventually(&format!("{name} is {state} at {version}"), || {
            let row = self.row(name);
            (row["state"] == state && row["report"]["version"] == version).then_some(row)
        })
    }
}

fn ogive(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ogive")).args(arguments).output().unwrap()
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

/// A check of the server itself.
fn check(name: &str, site: &Site) -> String {
    format!("[[check]]\nname = {name:?}\nkind = \"tcp\"\ntarget = \"{}\"\nperiod = \"1s\"\n", site.address)
}

#[test]
fn what_is_applied_runs_and_goes_on_without_the_server() {
    let mut site = Site::new();
    let edge = site.broker("edge-1", "");
    let text = format!("labels = {{site = \"fra\"}}\n{}", check("first", &site));
    let applied = site.apply(&text, "the first check");
    assert_eq!(said(&applied).trim(), "edge: version 1");
    site.until("edge-1", "in_sync", 1);
    let runs = |name: &str| {
        format!("sum(sum_over_time(ogive_check_up{{check=\"{name}\",broker=\"edge-1\",site=\"fra\"}}[1h]))")
    };
    eventually("it runs the check", || site.server().number(&runs("first")).filter(|count| *count > 1.0));
    // The same files again change nothing; a mistake is reported with its line, and refused by the server, too.
    assert!(said(&site.apply(&text, "")).contains("version 1, which was in force"));
    assert!(site.fleet(&["diff", site.path("groups").to_str().unwrap()]).status.success());
    let wrong = site.apply(&text.replace("kind", "knd"), "");
    assert!(!wrong.status.success() && said(&wrong).contains("edge.toml, line 4"), "{}", said(&wrong));
    assert!(said(&wrong).contains("did you mean \"kind\""), "{}", said(&wrong));
    let head = "POST /v1/fleet/groups/edge HTTP/1.1\r\ncontent-type: application/json";
    let (status, body) = site.server().request(head, json!({"toml": "[[chek]]"}).to_string().as_bytes()).unwrap();
    assert!(status == 400 && body.contains("did you mean \\\"check\\\""), "{status} {body}");
    // A second version, and the first one again.
    std::fs::write(site.path("groups/edge.yml"), "scrape_configs: []\n").unwrap();
    let second = site.apply(&format!("{text}{}", check("second", &site)), "a second one");
    assert_eq!(said(&second).trim(), "edge: version 2");
    site.until("edge-1", "in_sync", 2);
    eventually("it runs the second check", || site.server().number(&runs("second")));
    let back = site.fleet(&["rollback", "edge", "1", "--why", "too much"]);
    assert!(said(&back).contains("edge: version 3"), "{}", said(&back));
    site.until("edge-1", "in_sync", 3);
    let history = said(&site.fleet(&["show", "edge", "--history"]));
    assert!(history.lines().next().unwrap().contains("too much") && history.lines().count() == 3, "{history}");
    assert_eq!(String::from_utf8(site.fleet(&["show", "edge"]).stdout).unwrap(), text);
    let diff = site.fleet(&["diff", site.path("groups").to_str().unwrap()]);
    assert!(!diff.status.success() && said(&diff).contains("+ check.second.kind"), "{}", said(&diff));
    // Who and why is in the audit.
    let audit = || texts(site.server(), "ogive_audit{action=~\"fleet_.*\"}");
    let text_of = |word: &str| audit().into_iter().find(|text| text.contains(word));
    let entry = eventually("the rollback is recorded", || text_of("version 3: too much"));
    assert!(entry.contains("- check.second.kind"), "{entry}");
    // The server is killed; the broker goes on, also over its own restart, and comes back by itself.
    let address = site.address.clone();
    drop(site.server.take());
    drop(edge);
    let edge = broker(&site.path("edge-1/broker.toml"));
    let (_, metrics) = edge.get("/metrics");
    assert!(metrics.as_str().unwrap().contains("\nogive_fleet_version 3"), "{metrics}");
    let again = Server::start_at(&site.path("data"), &address);
    site.server = Some(again);
    site.until("edge-1", "in_sync", 3);
    let before = site.server().number(&runs("first"));
    eventually("it runs the check again", || (site.server().number(&runs("first")) > before).then_some(()));
}

/// Snapshots do not contain the fleet; a copy of its directory beside one brings it back, as docs/fleet.md says.
#[test]
fn a_copy_beside_a_clone_of_a_snapshot_restores_a_fleet() {
    let mut site = Site::new();
    let _edge = site.broker("edge-1", "");
    for name in ["first", "second"] {
        assert!(site.apply(&check(name, &site), &format!("the {name} check")).status.success());
    }
    site.until("edge-1", "in_sync", 2);
    let (url, new) = (format!("http://{}", site.address), site.path("new"));
    for arguments in [&["create", "monday"][..], &["clone", "monday", "--data", new.to_str().unwrap()]] {
        let done = ogive(&[&["snapshot"], arguments, &["--server", &url]].concat());
        assert!(done.status.success(), "{}", said(&done));
    }
    assert!(!new.join("fleet").exists(), "a clone has no key");
    let copy = |from: PathBuf, to: PathBuf| {
        assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
    };
    copy(site.path("data/fleet"), site.path("copy"));
    assert!(site.apply(&check("third", &site), "after the copy").status.success());
    site.until("edge-1", "in_sync", 3);
    drop(site.server.take());
    copy(site.path("copy"), new.join("fleet"));
    site.server = Some(Server::start_at(&new, &site.address));
    // The broker comes by itself, with what the copy does not know.
    eventually("the broker is back", || (site.row("edge-1")["report"]["version"] == 3).then_some(()));
    let history = said(&site.fleet(&["show", "edge", "--history"]));
    assert!(history.contains("the first check") && history.contains("the second check"), "{history}");
    assert!(history.lines().count() == 2 && !history.contains("after the copy"), "{history}");
    // What is applied now is above what it runs.
    let applied = site.apply(&check("fourth", &site), "");
    assert_eq!(said(&applied).trim(), "edge: version 4");
    site.until("edge-1", "in_sync", 4);
    let mode = std::fs::metadata(new.join("fleet")).unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o700);
}

#[test]
fn what_a_broker_must_not_take_is_refused_and_the_last_good_one_stays() {
    let site = Site::new();
    let _edge = site.broker("edge-1", "");
    assert!(site.apply(&check("first", &site), "").status.success());
    site.until("edge-1", "in_sync", 1);
    // It would run a program there, which the broker's own file does not permit.
    let program = "[[check]]\nname = \"p\"\nkind = \"command\"\ntarget = \"x\"\ncommand = [\"/bin/true\"]\n";
    assert!(site.apply(program, "").status.success());
    let row = site.until("edge-1", "refusing", 1);
    let refused = &row["report"]["refused"];
    assert_eq!((&refused["version"], &refused["reason"]), (&json!(2), &json!("forbidden")));
    assert!(refused["why"].as_str().unwrap().contains("allow = [\"command\"]"), "{refused}");
    let brokers = site.fleet(&["brokers"]);
    assert!(!brokers.status.success() && said(&brokers).contains("refuses version 2, forbidden"), "{}", said(&brokers));
    eventually("it is an own series of the server", || {
        site.server().number("ogive_fleet_brokers{state=\"refusing\"}").filter(|count| *count == 1.0)
    });
    // Another broker permits it.
    let _other = site.broker("edge-2", "allow = [\"command\"]");
    site.until("edge-2", "in_sync", 2);
    assert!(site.apply(&check("third", &site), "").status.success());
    site.until("edge-1", "in_sync", 3);
}

#[test]
fn what_the_server_has_not_signed_is_refused() {
    let mut site = Site::new();
    let edge = site.broker("edge-1", "");
    assert!(site.apply(&check("first", &site), "").status.success());
    site.until("edge-1", "in_sync", 1);
    drop(edge);
    drop(site.server.take());
    // Somebody puts another server at its address, with another key and what it knew of the broker.
    let (data, other) = (site.path("data/fleet"), site.path("other/fleet"));
    std::fs::create_dir_all(other.join("brokers")).unwrap();
    std::fs::copy(data.join("brokers/edge-1.json"), other.join("brokers/edge-1.json")).unwrap();
    let evil = Server::start_at(&site.path("other"), &site.address.clone());
    site.server = Some(evil);
    for version in ["evil-1", "evil-2"] {
        assert!(site.apply(&check(version, &site), "").status.success());
    }
    let edge = broker(&site.path("edge-1/broker.toml"));
    let row = site.until("edge-1", "refusing", 1);
    assert_eq!(row["report"]["refused"]["reason"], "signature", "{row}");
    let (_, metrics) = edge.get("/metrics");
    let metrics = metrics.as_str().unwrap();
    assert!(metrics.contains("\nogive_fleet_refused_total{reason=\"signature\"} 1"), "{metrics}");
    assert!(metrics.contains("\nogive_fleet_version 1") && metrics.contains("\nogive_fleet_refusing 1"), "{metrics}");
}

#[test]
fn a_ticket_enrols_one_broker_and_revocation_takes_seconds() {
    let site = Site::new();
    let ticket = site.ticket(&["--lifetime", "30s"]);
    let (one, two) = (site.configure("edge-1", ""), site.configure("edge-2", ""));
    assert!(site.enrol(&ticket, &one).status.success());
    let token = || std::fs::read_to_string(site.path("edge-1/spool/fleet/credential.json")).unwrap();
    let first = token();
    // Its token is replaced before it ends: from here on, as what follows takes a while.
    let edge = broker(&one);
    // Stolen: somebody else has the same text.
    let stolen = site.enrol(&ticket, &two);
    assert!(!stolen.status.success() && said(&stolen).contains("was used by \"edge-1\""), "{}", said(&stolen));
    let forged = site.enrol(&ticket.replace(&ticket[..8], "ogf_0000"), &two);
    assert!(!forged.status.success() && said(&forged).contains("no ticket of this server"), "{}", said(&forged));
    eventually("it is counted", || {
        let count = |reason: &str| site.server().number(&format!("ogive_fleet_denied_total{{reason={reason:?}}}"));
        (count("used")? >= 1.0 && count("ticket")? >= 1.0).then_some(())
    });
    let is_used = |text: &String| text.contains("was used by \"edge-1\"");
    eventually("it is in the audit", || texts(site.server(), "ogive_audit").into_iter().find(is_used));
    // A ticket for one name takes no other, and a name that is there needs one.
    let bound = site.ticket(&["--broker", "edge-9"]);
    assert!(said(&site.enrol(&bound, &two)).contains("is for the broker \"edge-9\""));
    eventually("the token rotates", || (token() != first).then_some(()));
    let seen = || site.row("edge-1")["seen_ms"].as_i64();
    let before = seen();
    eventually("it comes with the new one", || (seen() > before).then_some(()));
    assert_eq!(site.row("edge-1")["state"], "in_sync", "{}", site.row("edge-1"));
    let mode = std::fs::metadata(site.path("edge-1/spool/fleet")).unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o700);
    assert!(site.fleet(&["revoke", "edge-1"]).status.success());
    eventually("its poll ends", || {
        let (_, metrics) = edge.get("/metrics");
        metrics.as_str().unwrap().contains("\nogive_fleet_link_up 0").then_some(())
    });
    assert_eq!(site.row("edge-1")["state"], "revoked");
    // A new ticket takes the name again, without a restart.
    assert!(site.enrol(&site.ticket(&[]), &one).status.success());
    site.until("edge-1", "in_sync", 0);
}

#[test]
fn a_broker_is_asked_over_its_own_connection_also_while_it_is_away() {
    let site = Site::new();
    let mut edge = site.broker("edge-1", "");
    assert!(site.apply(&check("shop", &site).replace("1s", "1h"), "").status.success());
    site.until("edge-1", "in_sync", 1);
    let asked = site.fleet(&["ask", "edge-1", "check", "shop"]);
    assert!(asked.status.success() && said(&asked).starts_with("ok in "), "{}", said(&asked));
    let wrong = site.fleet(&["ask", "edge-1", "check", "shp"]);
    assert!(!wrong.status.success() && said(&wrong).contains("did you mean \"shop\""), "{}", said(&wrong));
    let state: Value = serde_json::from_slice(&site.fleet(&["ask", "edge-1", "status"]).stdout).unwrap();
    assert_eq!(state["name"], "edge-1");
    let logs = said(&site.fleet(&["ask", "edge-1", "logs", "--lines", "100"]));
    assert!(logs.contains("version 1 of the group edge runs"), "{logs}");
    // It is killed; what is asked meanwhile is done once when it is back.
    edge.kill();
    let late = site.fleet(&["ask", "edge-1", "check", "shop", "--wait", "1ms"]);
    assert_eq!(late.status.code(), Some(3), "{}", said(&late));
    let history = said(&site.fleet(&["ask", "edge-1", "history"]));
    assert!(history.trim().ends_with("waits for the broker"), "{history}");
    let _edge = broker(&site.path("edge-1/broker.toml"));
    eventually("it was done", || {
        let history = said(&site.fleet(&["ask", "edge-1", "history"]));
        history.lines().last().unwrap().contains("-> ok in ").then_some(())
    });
    let runs = "sum(sum_over_time(ogive_check_runs_total{check=\"shop\"}[1h]))";
    eventually("both runs are stored", || site.server().number(runs).filter(|count| *count >= 2.0));
    assert!(said(&site.fleet(&["ask", "edge-9", "status"])).contains("there is no broker"));
}
