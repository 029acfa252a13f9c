//! A RabbitMQ of a test's own.

use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::common::programs::{Program, ended, free_port, run_to_end};

/// One at a time: several of them starve each other on a small machine, until each takes the others for dead.
static ONE: Mutex<()> = Mutex::new(());

/// A RabbitMQ with data of its own.
pub(crate) struct Rabbit {
    directory: PathBuf,
    pub(crate) port: u16,
    tls_port: Option<u16>,
    /// Of Erlang's distribution, by which it gets its commands.
    other_port: u16,
    /// Of the daemon that knows where Erlang's nodes are.
    mapper_port: u16,
    child: Option<Child>,
    _one: MutexGuard<'static, ()>,
}

impl Rabbit {
    pub(crate) fn start(directory: &Path) -> Self {
        Self::with(directory, None)
    }

    /// With the certificate `localhost` of the directory, and of `ca.pem` whoever asks must have one.
    pub(crate) fn start_tls(directory: &Path) -> Self {
        Self::with(directory, Some(free_port()))
    }

    fn with(directory: &Path, tls_port: Option<u16>) -> Self {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rabbit = Self {
            directory: directory.to_owned(),
            port: free_port(),
            tls_port,
            other_port: free_port(),
            mapper_port: free_port(),
            child: None,
            _one: one,
        };
        rabbit.configure();
        rabbit.run();
        rabbit
    }

    fn configure(&self) {
        let Some(port) = self.tls_port else { return };
        let file = |name: &str| self.directory.join(name).display().to_string();
        let lines = [
            format!("listeners.ssl.1 = 127.0.0.1:{port}"),
            format!("ssl_options.cacertfile = {}", file("ca.pem")),
            format!("ssl_options.certfile = {}", file("localhost.pem")),
            format!("ssl_options.keyfile = {}", file("localhost.key")),
            "ssl_options.verify = verify_peer".into(),
            "ssl_options.fail_if_no_peer_cert = true".into(),
        ];
        std::fs::write(self.directory.join("rabbitmq.conf"), lines.join("\n") + "\n").unwrap();
    }

    fn command(&self, name: &str) -> Command {
        // Debian's wrapper would give up its rights and its directory.
        let mut versions: Vec<PathBuf> = std::fs::read_dir("/usr/lib/rabbitmq/lib")
            .expect("run scripts/need rabbitmq-server")
            .map(|entry| entry.unwrap().path())
            .collect();
        versions.sort();
        let mut command = Command::new(versions.last().unwrap().join("sbin").join(name));
        let directory = &self.directory;
        command
            .env("HOME", directory)
            .env("RABBITMQ_NODENAME", format!("ogive-{}@localhost", self.port))
            .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODE_PORT", self.port.to_string())
            .env("ERL_EPMD_PORT", self.mapper_port.to_string())
            .env("RABBITMQ_DIST_PORT", self.other_port.to_string())
            .env("RABBITMQ_MNESIA_BASE", directory.join("mnesia"))
            .env("RABBITMQ_LOG_BASE", directory.join("log"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", directory.join("plugins"))
            .env("RABBITMQ_CONFIG_FILE", directory.join("rabbitmq.conf"))
            .env("RABBITMQ_CONF_ENV_FILE", directory.join("environment"))
            .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "-setcookie ogive")
            .env("RABBITMQ_CTL_ERL_ARGS", "-setcookie ogive")
            // A dump of what is killed would lie among the sources.
            .env("ERL_CRASH_DUMP_SECONDS", "0")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&mut self) {
        let mut command = self.command("rabbitmq-server");
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        self.child = Some(child);
        let port = self.port;
        within_minutes("RabbitMQ serves", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok());
    }

    pub(crate) fn control(&self, args: &[&str]) -> String {
        within_minutes("RabbitMQ hears", || {
            let mut command = self.command("rabbitmqctl");
            command.args(args);
            let (status, said, why) = run_to_end(command);
            // It was too busy to be reached, so that nothing was done.
            let is_unheard = !status.success() && why.contains("unable to perform an operation on node");
            assert!(status.success() || is_unheard, "{args:?}: {said}{why}");
            (!is_unheard).then_some(said)
        })
    }

    /// What it logged last.
    pub(crate) fn log(&self) -> String {
        let files = std::fs::read_dir(self.directory.join("log")).into_iter().flatten().flatten();
        let texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
        let last = |text: String| text.lines().rev().take(100).map(|line| line.to_owned() + "\n").collect::<Vec<_>>();
        texts.flat_map(|text| last(text).into_iter().rev()).collect()
    }

    /// Leaves it no memory, and waits until it has noticed.
    pub(crate) fn block(&self) {
        self.control(&["set_vm_memory_high_watermark", "0"]);
        within_minutes("it has no memory", || {
            self.control(&["eval", "rabbit_alarm:get_alarms()."]).contains("memory").then_some(())
        });
    }

    /// Waits until it has this queue on disk. It answers a declaration some seconds before it writes it: killed in
    /// between, it comes back without the queue, and so without what it has confirmed.
    pub(crate) fn keeps(&self, queue: &str) {
        within_minutes("it has the queue", || {
            self.control(&["list_queues", "-q", "name"]).lines().any(|name| name == queue).then_some(())
        });
        assert_eq!(self.control(&["eval", "mnesia:sync_log()."]).trim(), "ok");
    }

    /// As if the machine had lost its power.
    pub(crate) fn kill(&mut self) {
        assert!(self.child.is_some(), "it runs");
        self.end().unwrap_or_else(|why| panic!("{why}"));
    }

    /// Kills it if it runs, and waits until it is gone.
    fn end(&mut self) -> Result<(), String> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        // The script waits for Erlang, which is its child.
        let _ = Command::new("pkill").args(["-KILL", "-P", &child.id().to_string()]).status();
        let _ = child.kill();
        let _ = child.wait();
        let port = self.port;
        done_within_minutes("RabbitMQ is gone", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).err().map(drop))
    }

    /// Ends the daemon that knows where Erlang's nodes are. It never ends by itself, and does not when it is told to
    /// before it has noticed that its node is gone.
    fn end_mapper(&self) -> Result<(), String> {
        let port = self.mapper_port;
        done_within_minutes("Erlang's daemon is gone", || {
            let mut command = Command::new("epmd");
            command.args(["-port", &port.to_string(), "-kill"]);
            let asked = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            let _ = asked.map(|child| ended(&mut Program(child).0));
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).err().map(drop)
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.port)
    }
}

impl Rabbit {
    pub(crate) fn tls_url(&self) -> String {
        format!("amqps://guest:guest@localhost:{}/%2f", self.tls_port.unwrap())
    }
}

/// Erlang starts slowly, and a busy machine makes it slower.
fn within_minutes<T>(what: &str, done: impl FnMut() -> Option<T>) -> T {
    done_within_minutes(what, done).unwrap_or_else(|why| panic!("{why}"))
}

/// As [`within_minutes`], for who may not panic.
fn done_within_minutes<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> Result<T, String> {
    let from = Instant::now();
    loop {
        if let Some(value) = done() {
            return Ok(value);
        }
        if from.elapsed() >= Duration::from_secs(180) {
            return Err(format!("not within three minutes: {what}"));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

impl Drop for Rabbit {
    fn drop(&mut self) {
        let (server, mapper) = (self.end(), self.end_mapper());
        match server.and(mapper) {
            // The test has failed already, and a second panic would end the tests beside it.
            Err(why) if std::thread::panicking() => eprintln!("{why}"),
            outcome => outcome.unwrap_or_else(|why| panic!("{why}")),
        }
    }
}
