//! A real `ogive broker`, and what it says of itself.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Server;

/// Writes broker.toml: the destinations are (name, endpoints, more keys).
pub fn configure(directory: &Path, listen: &str, spool: &str, destinations: &[(&str, &[String], &str)]) -> PathBuf {
    let path = directory.join("broker.toml");
    let mut text = format!(
        "name = \"edge\"\nlisten = [\"{listen}\"]\n{}\n[spool]\ndirectory = \"{}\"\n{spool}\n",
        if listen.ends_with(":0") { "statsd = \"udp:127.0.0.1:0\"" } else { "" },
        directory.join("spool").display()
    );
    for (name, endpoints, more) in destinations {
        text += &format!("[[destination]]\nname = \"{name}\"\nendpoints = {endpoints:?}\n{more}\n");
    }
    std::fs::write(&path, text).unwrap();
    path
}

pub fn broker(path: &Path) -> Server {
    let started = Server::try_command(path.parent().unwrap(), &["broker", "-c", path.to_str().unwrap()]);
    started.unwrap_or_else(|said| panic!("no start: {said}"))
}

pub fn url(server: &Server) -> String {
    format!("http://{}", server.address)
}

pub fn state(broker: &Server) -> Value {
    let (status, state) = broker.get("/v1/broker");
    assert_eq!(status, 200, "{state}");
    state
}

/// What the broker says of a destination.
pub fn destination<'a>(state: &'a Value, name: &str) -> &'a Value {
    state["destinations"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap()
}

/// The texts of a series.
pub fn texts(server: &Server, selector: &str) -> Vec<String> {
    let (status, body) = server.get(&format!("/v1/cells?match[]={}", super::form(selector)));
    assert_eq!(status, 200, "{body}");
    let samples = body["data"]["samples"].as_array().unwrap();
    samples.iter().filter_map(|sample| sample["text"].as_str().map(str::to_owned)).collect()
}
