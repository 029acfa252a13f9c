//! Debian's Alertmanager, started, and what it has.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::programs::Program;
use super::request_at;

/// One that notifies nobody.
pub fn silent(directory: &Path, address: &str) -> Program {
    start(directory, address, "route: {receiver: none}\nreceivers: [{name: none}]\n")
}

/// One that posts each alert by itself and at once to that port.
pub fn hooked(directory: &Path, address: &str, port: u64) -> Program {
    let text = format!(
        "route: {{receiver: hook, group_by: ['...'], group_wait: 0s, group_interval: 1s}}\n\
         receivers: [{{name: hook, webhook_configs: [{{url: 'http://127.0.0.1:{port}/hook', send_resolved: true}}]}}]\n"
    );
    start(directory, address, &text)
}

fn start(directory: &Path, address: &str, text: &str) -> Program {
    let config = directory.join("alertmanager.yml");
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new("prometheus-alertmanager");
    command.arg(format!("--config.file={}", config.display()));
    command.arg(format!("--storage.path={}", directory.join("alertmanager").display()));
    command.arg(format!("--web.listen-address={address}")).arg("--cluster.listen-address=");
    Program::start(command)
}

/// Its alerts; none while it does not answer.
pub fn alerts_at(address: &str) -> Option<Vec<Value>> {
    let Ok((200, body)) = request_at(address, "GET /api/v2/alerts HTTP/1.1", b"") else { return None };
    serde_json::from_str(&body).ok()
}
