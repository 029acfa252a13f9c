//! The servers under test: started on an empty directory, watched from outside, and ended.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// Where the servers' programs are.
#[derive(Clone, Debug, clap::Args)]
pub struct Programs {
    /// The `ogive` binary.
    #[arg(long, default_value = "target/release/ogive")]
    pub ogive: PathBuf,
    /// The directory with `prometheus` and `victoria-metrics`, as scripts/peers fills it.
    #[arg(long, value_name = "DIR", default_value = "target/peers")]
    pub peers: PathBuf,
}

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Peer {
    Ogive,
    Prometheus,
    Victoria,
}

impl Peer {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ogive => "ogive",
            Self::Prometheus => "prometheus",
            Self::Victoria => "victoria-metrics",
        }
    }

    fn command(self, programs: &Programs, data: &Path, port: u16) -> anyhow::Result<Command> {
        let address = format!("127.0.0.1:{port}");
        let show = |path: &Path| path.display().to_string();
        let (program, arguments) = match self {
            Self::Ogive => {
                (show(&programs.ogive), vec!["serve".into(), "--data".into(), show(data), "--listen".into(), address])
            }
            Self::Prometheus => {
                let config = data.join("prometheus.yml");
                fs::write(&config, "global: {scrape_interval: 1h}\n")?;
                let arguments = vec![
                    format!("--config.file={}", show(&config)),
                    format!("--storage.tsdb.path={}", show(&data.join("tsdb"))),
                    format!("--web.listen-address={address}"),
                    "--web.enable-remote-write-receiver".into(),
                    "--web.enable-admin-api".into(),
                    "--enable-feature=native-histograms".into(),
                ];
                (show(&programs.peers.join("prometheus")), arguments)
            }
            Self::Victoria => {
                let arguments = vec![
                    format!("-storageDataPath={}", show(&data.join("vm"))),
                    format!("-httpListenAddr={address}"),
                    "-retentionPeriod=100y".into(),
                    "-search.latencyOffset=0s".into(),
                    "-search.maxUniqueTimeseries=10000000".into(),
                ];
                (show(&programs.peers.join("victoria-metrics")), arguments)
            }
        };
        let mut command = Command::new(program);
        command.args(arguments);
        Ok(command)
    }

    fn ready_path(self) -> &'static str {
        match self {
            Self::Victoria => "/health",
            Self::Ogive | Self::Prometheus => "/-/ready",
        }
    }
}

/// A running server; killed when dropped.
pub struct Server {
    pub peer: Peer,
    pub address: String,
    pub data: PathBuf,
    child: Child,
}

impl Server {
    /// Starts on `data` and waits until it is ready.
    pub fn start(peer: Peer, programs: &Programs, data: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(data)?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let log = fs::File::create(data.with_extension("log"))?;
        let child = peer
            .command(programs, data, port)?
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("{} does not start; scripts/peers builds the peers", peer.name()))?;
        let server = Self { peer, address: format!("127.0.0.1:{port}"), data: data.to_owned(), child };
        let began = Instant::now();
        while server.get(peer.ready_path()).map_or(0, |answer| answer.0) != 200 {
            if began.elapsed() > Duration::from_secs(120) {
                bail!("{} is not ready after two minutes; see {}", peer.name(), data.with_extension("log").display());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn proc(&self, file: &str) -> anyhow::Result<String> {
        Ok(fs::read_to_string(format!("/proc/{}/{file}", self.child.id()))?)
    }

    /// Its `stat` from the state on, which follows the name.
    fn stat(&self) -> anyhow::Result<String> {
        let stat = self.proc("stat")?;
        Ok(stat.rsplit_once(')').context("stat has a name")?.1.trim_start().to_owned())
    }

    /// Processor time of the process so far, user and system.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        let after_name = self.stat()?;
        let fields: Vec<u64> =
            after_name.split_whitespace().skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
        // Linux counts them in ticks of 10 ms for user space, on every architecture.
        Ok(Duration::from_millis(10 * fields.iter().sum::<u64>()))
    }

    /// Anonymous resident memory, bytes.
    pub fn memory(&self) -> anyhow::Result<u64> {
        let status = self.proc("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).context("status has RssAnon")?;
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kib << 10)
    }

    /// Waits until the server has used less than a twentieth of a CPU for two seconds.
    pub fn settle(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            let before = self.cpu()?;
            std::thread::sleep(Duration::from_secs(2));
            if self.cpu()? - before < Duration::from_millis(100) || began.elapsed() > Duration::from_secs(90) {
                return Ok(());
            }
        }
    }

    pub fn get(&self, path: &str) -> anyhow::Result<(u16, String)> {
        request(&self.address, &format!("GET {path} HTTP/1.1"))
    }

    pub fn post(&self, path: &str) -> anyhow::Result<(u16, String)> {
        request(&self.address, &format!("POST {path} HTTP/1.1"))
    }

    /// The one number that `expr` gives.
    pub fn number(&self, expr: &str) -> anyhow::Result<f64> {
        let (status, body) = self.get(&format!("/api/v1/query?query={}", encoded(expr)))?;
        let body: serde_json::Value = serde_json::from_str(&body).with_context(|| format!("{status}: {body}"))?;
        match body["data"]["result"][0]["value"][1].as_str() {
            Some(number) => Ok(number.parse()?),
            None if status == 200 => Ok(0.0),
            None => bail!("{expr}: {status} {body}"),
        }
    }

    /// Ends as an operator would, and waits; returns the processor time of its whole life.
    pub fn terminate(mut self) -> anyhow::Result<Duration> {
        Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status()?;
        // Its figures stay until somebody waits for it.
        while !self.stat()?.starts_with('Z') {
            std::thread::sleep(Duration::from_millis(20));
        }
        let cpu = self.cpu()?;
        self.child.wait()?;
        Ok(cpu)
    }

    /// Ends as a power switch would.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Has everything written as it stays: Ogive as when it ends, Prometheus as when it compacts, VictoriaMetrics as when
    /// it flushes.
    pub fn store(self) -> anyhow::Result<Stored> {
        match self.peer {
            Peer::Ogive => {
                let data = self.data.clone();
                Ok(Stored { cpu: self.terminate()?, bytes: bytes_under(&data)? })
            }
            Peer::Prometheus => {
                let (status, body) = self.post("/api/v1/admin/tsdb/snapshot")?;
                anyhow::ensure!(status == 200, "snapshot: {body}");
                Ok(Stored { cpu: self.cpu()?, bytes: bytes_under(&self.data.join("tsdb/snapshots"))? })
            }
            Peer::Victoria => {
                self.get("/internal/force_flush")?;
                let cpu = self.cpu()?;
                // For the bytes alone.
                self.get("/internal/force_merge")?;
                self.settle()?;
                let data = self.data.clone();
                self.terminate()?;
                Ok(Stored { cpu, bytes: bytes_under(&data.join("vm"))? })
            }
        }
    }
}

/// What a server has written in the end.
pub struct Stored {
    /// Processor time of the process until then.
    pub cpu: Duration,
    /// All files.
    pub bytes: u64,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What Ogive keeps free for a full disk: 16 MiB that hold no data.
const RESERVE_FILE: &str = "RESERVE";

/// The bytes of all files below `directory` but [`RESERVE_FILE`]; a file with several names counts once a name.
pub fn bytes_under(directory: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name() == RESERVE_FILE {
            continue;
        }
        bytes += if entry.file_type()?.is_dir() { bytes_under(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(bytes)
}

/// The frame that the Ogive at `address` answers to `path`.
pub fn frame(address: &str, path: &str) -> anyhow::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    let accept = "accept: application/x-ogive-batch-flatbuffer";
    write!(stream, "GET {path} HTTP/1.0\r\nhost: {address}\r\n{accept}\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").context("an answer has a head")?;
    let body = answer.split_off(head + 4);
    let head = String::from_utf8_lossy(&answer);
    anyhow::ensure!(head.split(' ').nth(1) == Some("200"), "{path}: {head}{}", String::from_utf8_lossy(&body));
    anyhow::ensure!(!head.to_ascii_lowercase().contains("chunked"), "a chunked answer to HTTP/1.0");
    Ok(body)
}

/// `text` as a value of a query string.
pub fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn request(address: &str, line: &str) -> anyhow::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(120)))?;
    write!(stream, "{line}\r\nhost: {address}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.split(' ').nth(1).context("an answer has a status")?.parse()?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer has a head")?;
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    Ok((status, if chunked { unchunked(body) } else { body.to_owned() }))
}

fn unchunked(mut body: &str) -> String {
    let mut out = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let Some(length) = usize::from_str_radix(length.trim(), 16).ok().filter(|length| *length > 0) else { break };
        out.push_str(&rest[..length.min(rest.len())]);
        body = rest.get(length + 2..).unwrap_or("");
    }
    out
}
