//! Varnish: a server with an instance of its own, whose counters are those that its own `varnishstat` prints.

use std::path::Path;
use std::process::Command;

use super::{directory, has, measured, nginx_of, says, serve, table};
use crate::common::programs::{Program, free_port, listens};
use crate::common::{eventually, request_at};

/// The counter `name`, as Varnish's own program prints it.
fn own(instance: &Path, name: &str) -> f64 {
    let output = Command::new("/usr/bin/varnishstat").arg("-j").arg("-n").arg(instance).output().unwrap();
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    found["counters"][name]["value"].as_f64().unwrap_or_else(|| panic!("there is no {name}"))
}

#[test]
fn counters_are_those_of_varnishstat() {
    let directory = directory();
    let (origin, front) = (free_port(), free_port());
    let page = "location / { add_header Cache-Control max-age=3600; return 200 'well'; }";
    let _nginx = nginx_of(directory.path(), &format!("server {{ listen 127.0.0.1:{origin}; {page} }}"));
    listens(origin);
    let instance = directory.path().join("varnish");
    let mut command = Command::new("varnishd");
    // In the foreground, as whoever runs the test.
    command.args(["-F", "-j", "none", "-s", "malloc,16m"]).arg("-n").arg(&instance);
    command.args(["-a", &format!("127.0.0.1:{front}"), "-b", &format!("127.0.0.1:{origin}")]);
    let _varnish = Program::start(command);
    listens(front);
    let target = format!("target = '{}'\n", instance.display());
    let some = "fields = ['MAIN.cache_*']\n";
    // A program takes longer to start than most answers to come.
    let slow = |name: &str, keys: &str| {
        format!("[[check]]\nname = '{name}'\nkind = 'varnish'\nperiod = '4s'\ntimeout = '2s'\n{keys}\n")
    };
    let checks = [
        slow("all", &target),
        slow("some", &format!("{target}{some}")),
        slow("nobody", &format!("target = '{}'\n", directory.path().join("nobody").display())),
        table("absent", "varnish", "command = ['/no/such/varnishstat']\n"),
        slow("words", "command = ['/bin/echo', 'well']\n"),
    ];
    let server = serve(directory.path(), &checks.concat());
    for _ in 0..5 {
        let (status, body) = request_at(&format!("127.0.0.1:{front}"), "GET / HTTP/1.1", b"").unwrap();
        assert_eq!((status, body.as_str()), (200, "well"));
    }
    for (check, name, metric) in [
        ("all", "MAIN.client_req", "main_client_req"),
        ("all", "MAIN.cache_hit", "main_cache_hit"),
        ("all", "MAIN.cache_miss", "main_cache_miss"),
        ("all", "MAIN.n_object", "main_n_object"),
        ("all", "SMA.s0.g_bytes", "sma_g_bytes{ident=\"s0\"}"),
        ("all", "VBE.boot.default.beresp_bodybytes", "vbe_beresp_bodybytes{ident=\"boot.default\"}"),
        ("some", "MAIN.cache_hit", "main_cache_hit"),
    ] {
        let expr = match metric.split_once('{') {
            Some((metric, labels)) => format!("varnish_{metric}{{check=\"{check}\",{labels}"),
            None => format!("varnish_{metric}{{check=\"{check}\"}}"),
        };
        eventually(&format!("{name} of {check} is Varnish's own"), || {
            (server.number(&expr) == Some(own(&instance, name))).then_some(())
        });
    }
    server.becomes("varnish_main_cache_hit{check=\"all\"}", 4.0);
    assert_eq!(server.number("varnish_main_client_req{check=\"some\"}"), None, "it is none of the fields");
    let (_, metadata) = server.get("/api/v1/metadata");
    let kind = |metric: &str| metadata["data"][metric][0]["type"].as_str().map(str::to_owned);
    let kinds = (kind("varnish_main_cache_hit"), kind("varnish_main_n_object"));
    assert_eq!((kinds.0.as_deref(), kinds.1.as_deref()), (Some("counter"), Some("gauge")));
    measured(&server, "all", "command", 1.0);
    has(&server, "nobody", "status");
    says(&server, "ogive_check_wrong_answer", "nobody", "Could not get hold of varnishd");
    has(&server, "absent", "local");
    has(&server, "words", "protocol");
}
