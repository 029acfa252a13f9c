//! A real Prometheus beside the server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::programs::{Program, free_address};
use super::{eventually, form};

/// A Prometheus; killed when dropped.
pub struct Prometheus {
    _program: Program,
    pub address: String,
    directory: tempfile::TempDir,
}

impl Prometheus {
    pub fn start(config: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("prometheus.yml");
        std::fs::write(&file, config).unwrap();
        let address = free_address();
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", directory.path().join("tsdb").display()))
            .args(["--enable-feature=native-histograms", "--web.enable-remote-write-receiver"])
            .arg("--web.enable-admin-api")
            .arg(format!("--web.listen-address={address}"));
        let this = Self { _program: Program::start(command), address, directory };
        eventually("a Prometheus that is ready", || this.get("/-/ready").ok());
        this
    }

    pub fn get(&self, path: &str) -> Result<String, ureq::Error> {
        let agent = ureq::Agent::from(ureq::Agent::config_builder().proxy(None).build());
        agent.get(format!("http://{}{path}", self.address)).call()?.body_mut().read_to_string()
    }

    /// Posts nothing; the answer.
    pub fn post(&self, path: &str) -> Value {
        let agent = ureq::Agent::from(ureq::Agent::config_builder().proxy(None).build());
        let mut answer = agent.post(format!("http://{}{path}", self.address)).send_empty().unwrap();
        serde_json::from_str(&answer.body_mut().read_to_string().unwrap()).unwrap_or_default()
    }

    /// A snapshot of everything that it holds, as a directory of blocks.
    pub fn snapshot(&self) -> PathBuf {
        let made = self.post("/api/v1/admin/tsdb/snapshot");
        let name = made["data"]["name"].as_str().unwrap_or_else(|| panic!("{made}"));
        self.directory.path().join("tsdb/snapshots").join(name)
    }

    /// The result of an expression.
    pub fn query(&self, expr: &str, time_ms: i64) -> Value {
        let path = format!("/api/v1/query?query={}&time={}", form(expr), time_ms as f64 / 1e3);
        let body: Value = serde_json::from_str(&self.get(&path).unwrap()).unwrap();
        body["data"]["result"].clone()
    }
}

/// Bins that grow, of which some come later.
pub fn growing(step: u64) -> [BTreeMap<i32, u64>; 2] {
    let mut positive = BTreeMap::from([(0, 1 + step), (1, 2 + step * 3), (5, 7 + step)]);
    if step >= 10 {
        positive.insert(3, step - 9);
    }
    [positive, BTreeMap::from([(2, 1 + step / 2)])]
}

/// Whether two answers say the same. Of a bound that is no power of two, versions of Prometheus give another last
/// digit.
pub fn alike(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| alike(a, b)))
        }
        (Value::String(a), Value::String(b)) => match (a.parse::<f64>(), b.parse::<f64>()) {
            (Ok(a), Ok(b)) => (a - b).abs() <= 1e-12 * a.abs(),
            _ => a == b,
        },
        _ => ours == theirs,
    }
}
