//! External commands: the plugins of Debian's monitoring-plugins, Varnish's own program, and what hangs or floods.

use std::net::TcpListener;

use super::{directory, gauge, has, measured, says, serve, table};
use crate::common::eventually;

#[test]
fn plugins_and_commands_are_run() {
    let directory = directory();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let plugin = |name: &str, words: &str| {
        assert!(
            std::path::Path::new("/usr/lib/nagios/plugins/check_dummy").exists(),
            "run scripts/need monitoring-plugins"
        );
        format!("command = ['/usr/lib/nagios/plugins/{name}', {words}]\n")
    };
    let checks = [
        table("load", "nagios", &plugin("check_load", "'-w', '900,800,700', '-c', '2000,2000,2000'")),
        table("port", "nagios", &plugin("check_tcp", &format!("'-H', '127.0.0.1', '-p', '{port}'"))),
        table("warning", "nagios", &plugin("check_dummy", "'1', 'nearly full'")),
        table("allowed", "nagios", &(plugin("check_dummy", "'1', 'nearly full'") + "status = [0, 1]")),
        table("critical", "nagios", &plugin("check_dummy", "'2', 'on; purpose $HOME'")),
        table("hangs", "command", "command = ['/bin/sleep', '1000']"),
        table(
            "age",
            "command",
            "command = ['/bin/echo', '{\"age\": 12.5}']\nextract = [{name = 'backup_age', json = '$.age', unit = 's'}]",
        ),
        table("absent", "command", "command = ['/no/such/program']"),
    ];
    let server = serve(directory.path(), &checks.concat());
    for check in ["load", "port", "allowed", "age"] {
        has(&server, check, "ok");
        measured(&server, check, "command", 1.0);
    }
    for (check, item) in [("load", "load1"), ("port", "time")] {
        let expr = format!("ogive_check_perfdata{{check=\"{check}\",item=\"{item}\"}}");
        eventually(&expr, || server.number(&expr).filter(|value| *value >= 0.0));
    }
    for (item, limit, value) in [("load1", "warning", 900.0), ("load15", "critical", 2000.0)] {
        let labels = format!("check=\"load\",item=\"{item}\",limit=\"{limit}\"");
        server.becomes(&format!("ogive_check_perfdata_limit{{{labels}}}"), value);
    }
    gauge(&server, "ogive_check_exit_code", "allowed", |code| code == 1.0);
    gauge(&server, "backup_age", "age", |age| age == 12.5);
    for (check, result, text) in [
        ("warning", "status", "status: warning: WARNING: nearly full"),
        // No shell has seen it.
        ("critical", "status", "status: critical: CRITICAL: on; purpose $HOME"),
    ] {
        has(&server, check, result);
        says(&server, "ogive_check_wrong_answer", check, text);
    }
    has(&server, "hangs", "timeout");
    says(&server, "ogive_check_no_answer", "hangs", "in the phase command");
    has(&server, "absent", "local");
}
