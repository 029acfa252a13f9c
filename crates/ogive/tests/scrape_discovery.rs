//! Targets that DNS and Consul name: they come, change, stay while nobody answers, and go.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::namespace;
use crate::common::programs::{Program, free_port};
use crate::common::{Server, eventually, request_at};
use crate::scrape_access::{configure, play, start};

/// A target with one metric, and its port.
fn target() -> u16 {
    let address = play(|_| (String::new(), b"found 1\n".to_vec()));
    address.rsplit_once(':').unwrap().1.parse().unwrap()
}

/// Waits until the targets were scraped some times more.
fn goes_on(server: &Server, job: &str) {
    let scrapes = format!("sum(count_over_time(found{{job=\"{job}\"}}[1h]))");
    let from = eventually("it is scraped", || server.number(&scrapes));
    eventually("it goes on", || server.number(&scrapes).filter(|count| *count >= from + 10.0));
}

/// Makes this process' namespace ask 127.0.0.1.
fn resolve_here(directory: &Path) {
    let file = directory.join("resolv.conf");
    std::fs::write(&file, "search ogive.example\nnameserver 127.0.0.1\n").unwrap();
    let mounted = Command::new("mount").arg("--bind").arg(&file).arg("/etc/resolv.conf").status().unwrap();
    assert!(mounted.success(), "{mounted}");
}

/// A real DNS server with these records. It stays root, the only user of the namespace, and knows which names do not
/// exist.
fn dnsmasq(records: &[String]) -> Program {
    let mut dnsmasq = Command::new("dnsmasq");
    dnsmasq.args(["--no-daemon", "--no-resolv", "--no-hosts", "--conf-file=/dev/null", "--pid-file="]);
    dnsmasq.args(["--listen-address=127.0.0.1", "--bind-interfaces", "--port=53", "--local=/example/_tcp/web/"]);
    dnsmasq.args(records);
    let program = Program::start(dnsmasq);
    eventually("dnsmasq listens", || TcpStream::connect("127.0.0.1:53").ok());
    program
}

#[test]
fn records_of_dns_are_targets() {
    // The system's resolver asks port 53 of the servers in /etc/resolv.conf: this test has both for itself.
    if !namespace::is_inside() {
        return namespace::again("scrape_discovery::records_of_dns_are_targets", &["--net"]);
    }
    assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
    let directory = tempfile::tempdir().unwrap();
    resolve_here(directory.path());
    let (first, second) = (target(), target());
    let srv = |port: u16| format!("--srv-host=_metrics._tcp.ogive.example,localhost,{port}");
    let host = "--host-record=web.ogive.example,127.0.0.1".to_owned();
    // 100 records of 40 bytes and more do not fit into 4,096.
    let many =
        (1..=100).map(|port| format!("--srv-host=_many._tcp.ogive.example,some-longer-name.ogive.example,{port}"));
    let mut records: Vec<String> = many.collect();
    records.extend([srv(first), host.clone()]);
    let names = dnsmasq(&records);
    let jobs = format!(
        "- {{job_name: srv, dns_sd_configs: [{{names: [_metrics._tcp], refresh_interval: 1s}}],\n  \
         relabel_configs: [{{source_labels: [__meta_dns_name], target_label: name}},\n  \
         {{source_labels: [__meta_dns_srv_record_target, __meta_dns_srv_record_port], target_label: record}}]}}\n\
         - {{job_name: a, dns_sd_configs: [{{names: [web], type: A, port: {second}, refresh_interval: 1s}}]}}\n\
         - {{job_name: many, scrape_interval: 2s, dns_sd_configs: [{{names: [_many._tcp.ogive.example.]}}]}}\n"
    );
    let server = start(directory.path(), &jobs);
    server.becomes(&format!("found{{job=\"srv\",name=\"_metrics._tcp\",record=\"localhost.;{first}\"}}"), 1.0);
    server.becomes(&format!("found{{job=\"a\",instance=\"127.0.0.1:{second}\"}}"), 1.0);
    server.becomes("count(up{job=\"many\"})", 100.0);
    // While no server answers, the targets remain.
    drop(names);
    goes_on(&server, "srv");
    let names = dnsmasq(&[srv(first), srv(second), host]);
    server.becomes("count(found{job=\"srv\"})", 2.0);
    drop(names);
    // A server that knows the domain, and no such name.
    let _names = dnsmasq(&[]);
    eventually("no name, no target", || server.number("count(found)").is_none().then_some(()));
}

/// What a Consul has, as far as discovery asks.
#[derive(Default)]
struct State {
    index: u64,
    /// The instances of each service, as `/v1/health/service/NAME` shows them.
    services: BTreeMap<String, Vec<Value>>,
    is_down: bool,
    /// The requests so far.
    asked: Vec<String>,
}

/// A stand-in for Consul, not Consul: it answers three paths of the API in the documented shapes, and follows the rule
/// of blocking queries, by which an answer waits until its index is another than the client's. The ignored test below
/// runs against a real Consul.
#[derive(Default)]
struct Played {
    state: Mutex<State>,
    changed: Condvar,
}

impl Played {
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock().unwrap();
        state.index += 1;
        change(&mut state);
        self.changed.notify_all();
    }

    fn answer(&self, head: &str) -> (String, Vec<u8>) {
        let url = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let (path, query) = url.split_once('?').unwrap_or((&url, ""));
        let index = query.split('&').find_map(|pair| pair.strip_prefix("index=")?.parse::<u64>().ok()).unwrap_or(0);
        let mut state = self.state.lock().unwrap();
        state.asked.push(head.to_owned());
        let wait = Duration::from_secs(120);
        let is_waiting = |state: &mut State| index > 0 && state.index == index && !state.is_down;
        let state = self.changed.wait_timeout_while(state, wait, is_waiting).unwrap().0;
        if state.is_down {
            return ("HTTP/1.1 503 Service Unavailable\r\n".into(), b"No cluster leader".to_vec());
        }
        let body = match path.strip_prefix("/prefix/v1/health/service/") {
            Some(name) => json!(state.services.get(name).cloned().unwrap_or_default()),
            None if path == "/prefix/v1/agent/self" => json!({"Config": {"Datacenter": "dc7"}}),
            None => {
                let tags = |instances: &Vec<Value>| {
                    json!(instances.first().map_or(json!([]), |one| one["Service"]["Tags"].clone()))
                };
                json!(state.services.iter().map(|(name, all)| (name.clone(), tags(all))).collect::<BTreeMap<_, _>>())
            }
        };
        (format!("X-Consul-Index: {}\r\n", state.index), body.to_string().into_bytes())
    }
}

fn instance(id: &str, port: u16, tags: &[&str], status: &str) -> Value {
    json!({
        "Node": {"Node": "n1", "Address": "127.0.0.1", "Meta": {"rack-no": "7"}, "TaggedAddresses": null},
        "Service": {"ID": id, "Address": "", "Port": port, "Tags": tags, "Meta": {"team": "blue"}},
        "Checks": [{"CheckID": "serfHealth", "Status": status}],
    })
}

#[test]
fn services_of_consul_are_targets() {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (target(), target());
    let played = Arc::new(Played::default());
    played.change(|state| {
        state.services.insert("web".into(), vec![instance("web-1", first, &["prod", "eu"], "passing")]);
        state.services.insert("other".into(), vec![instance("other-1", second, &["test"], "passing")]);
    });
    let address = play({
        let played = played.clone();
        move |head: &str| played.answer(head)
    });
    let labels = ["service", "service_id", "dc", "health", "tags", "node", "metadata_rack_no", "service_metadata_team"]
        .map(|label| format!("{{source_labels: [__meta_consul_{label}], target_label: {label}}}"));
    let jobs = format!(
        "- {{job_name: consul, relabel_configs: [{}],\n  consul_sd_configs: [{{server: '{address}', \
         path_prefix: /prefix, token: hush, tags: [prod], refresh_interval: 1s}}]}}\n\
         - {{job_name: named, consul_sd_configs: [{{server: '{address}', path_prefix: prefix, services: [other], \
         datacenter: dc9, refresh_interval: 1s}}]}}\n",
        labels.join(", ")
    );
    let server = start(directory.path(), &jobs);
    server.becomes(
        "found{job=\"consul\",service=\"web\",service_id=\"web-1\",dc=\"dc7\",health=\"passing\",tags=\",prod,eu,\",\
         node=\"n1\",metadata_rack_no=\"7\",service_metadata_team=\"blue\"}",
        1.0,
    );
    server.becomes(&format!("found{{job=\"named\",instance=\"127.0.0.1:{second}\"}}"), 1.0);
    let ever = "count(count_over_time(found{job=\"consul\"}[1h]))";
    assert_eq!(server.number(ever), Some(1.0), "the other has no such tag");
    let asked = |word: &str| played.state.lock().unwrap().asked.iter().filter(|head| head.contains(word)).count();
    assert!(asked("x-consul-token: hush") > 0 && asked("dc=dc9") > 0 && asked("tag=prod") > 0);
    assert_eq!(asked("/v1/health/service/other?wait=120000ms&stale="), 0, "a service without the tag is not queried");
    // A change arrives through a query that waits.
    played.change(|state| {
        let web = state.services.get_mut("web").unwrap();
        *web = vec![instance("web-1", first, &["prod"], "critical"), instance("web-2", second, &["prod"], "passing")];
    });
    server.becomes("found{job=\"consul\",service_id=\"web-1\",health=\"critical\"}", 1.0);
    server.becomes("found{job=\"consul\",service_id=\"web-2\"}", 1.0);
    // A service that is gone takes its targets with it.
    played.change(|state| {
        state.services.remove("other");
        state.services.insert("new".into(), vec![instance("new-1", second, &["prod"], "passing")]);
        state.services.remove("web");
    });
    server.becomes("found{job=\"consul\",service=\"new\"}", 1.0);
    eventually("web is gone", || server.number("found{service=\"web\"}").is_none().then_some(()));
    eventually("other is gone", || server.number("found{job=\"named\"}").is_none().then_some(()));
    outage(&server, directory.path(), &jobs, &played, first);
}

/// While Consul answers nothing, the targets remain; afterwards its news arrive again.
fn outage(server: &Server, directory: &Path, jobs: &str, played: &Played, port: u16) {
    played.change(|state| state.is_down = true);
    goes_on(server, "consul");
    // Also in a job that takes its place, with other rules.
    let more = "{target_label: generation, replacement: second}";
    configure(
        directory,
        &jobs.replace("job_name: consul, relabel_configs: [", &format!("job_name: consul, relabel_configs: [{more}, ")),
    );
    server.signal("HUP");
    server.becomes("found{job=\"consul\",service=\"new\",generation=\"second\"}", 1.0);
    played.change(|state| state.is_down = false);
    played.change(|state| {
        state.services.insert("next".into(), vec![instance("next-1", port, &["prod"], "passing")]);
    });
    server.becomes("found{job=\"consul\",service=\"next\"}", 1.0);
    played.change(|state| {
        // As after a restored backup.
        state.index = 1;
        state.services.insert("late".into(), vec![instance("late-1", port, &["prod"], "passing")]);
    });
    server.becomes("found{job=\"consul\",service=\"late\"}", 1.0);
}

/// The same with a real Consul, which no package of Debian has.
#[test]
#[ignore = "needs Consul: OGIVE_CONSUL names its program"]
fn services_of_a_real_consul_are_targets() {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (target(), target());
    let http = free_port();
    let mut consul = Command::new(std::env::var("OGIVE_CONSUL").unwrap_or_else(|_| "consul".into()));
    consul.args(["agent", "-dev", "-bind=127.0.0.1", "-client=127.0.0.1", "-dns-port=-1", "-grpc-port=-1"]);
    consul.args(["-grpc-tls-port=-1", "-node=n1", "-datacenter=dc7", &format!("-http-port={http}")]);
    consul.arg(format!("-server-port={}", free_port()));
    consul.args([format!("-serf-lan-port={}", free_port()), format!("-serf-wan-port={}", free_port())]);
    let _consul = Program::start(consul);
    let address = format!("127.0.0.1:{http}");
    let put = |path: &str, body: &Value| {
        let head = format!("PUT /v1/agent/service/{path} HTTP/1.1");
        request_at(&address, &head, body.to_string().as_bytes()).ok().filter(|(status, _)| *status == 200).map(drop)
    };
    let service = |id: &str, port: u16| json!({"ID": id, "Name": "web", "Address": "127.0.0.1", "Port": port, "Tags": ["prod"], "Meta": {"team": "blue"}});
    eventually("Consul takes a service", || put("register", &service("web-1", first)));
    let jobs = format!(
        "- {{job_name: consul, consul_sd_configs: [{{server: '{address}', tags: [prod], refresh_interval: 1s,\n  \
         filter: 'ServiceName == \"web\"', health_filter: 'Service.Meta.team == \"blue\"'}}],\n  \
         relabel_configs: [{{source_labels: [__meta_consul_service_id, __meta_consul_dc, __meta_consul_node, \
         __meta_consul_health, __meta_consul_tags], target_label: from}}]}}\n"
    );
    let server = start(directory.path(), &jobs);
    server.becomes("found{from=\"web-1;dc7;n1;passing;,prod,\"}", 1.0);
    put("register", &service("web-2", second)).unwrap();
    server.becomes("count(found)", 2.0);
    put("deregister/web-1", &json!(null)).unwrap();
    server.becomes("count(found)", 1.0);
    put("deregister/web-2", &json!(null)).unwrap();
    eventually("nothing is left", || server.number("count(found)").is_none().then_some(()));
}
