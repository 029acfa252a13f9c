//! Clients of other makers, as `scripts/clients` installed them, each a script in `tests/clients` that talks with its
//! test over lines: what it prints is awaited, what it waits for is said to it.
//!
//! Failure: a client that is missing, or fails, or takes longer than [`PATIENCE`] fails its test with what it wrote.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use super::PATIENCE;

/// Where `scripts/clients` puts what it installs.
fn installed() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("target/tmp stands in target");
    target.join("clients")
}

fn pins() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

/// Fails unless what is installed is what `pinned` asks for; `made` is its copy beside what was installed.
fn assert_installed(pinned: &str, made: &str) {
    let requested = std::fs::read(pins().join(pinned)).unwrap();
    let there = std::fs::read(installed().join(made)).unwrap_or_default();
    assert!(requested == there, "the clients of {pinned} are not installed: run scripts/clients");
}

/// A Python with the pinned packages.
pub fn python() -> Command {
    assert_installed("requirements.txt", "requirements.txt");
    Command::new(installed().join("venv/bin/python"))
}

/// A program of the environment of moto, which speaks the APIs of AWS.
pub fn moto(program: &str) -> Command {
    assert_installed("moto.txt", "moto.txt");
    Command::new(installed().join("moto/bin").join(program))
}

/// The time server of Debian.
pub fn chronyd() -> PathBuf {
    let path = installed().join("chrony/usr/sbin/chronyd");
    assert!(path.exists(), "{} is not there: run scripts/clients", path.display());
    path
}

/// A Node that finds the pinned packages by `require`.
pub fn node() -> Command {
    assert_installed("package-lock.json", "package-lock.json.made");
    let mut command = Command::new("node");
    command.env("NODE_PATH", installed().join("node_modules"));
    command
}

/// A program of another maker that `scripts/heavy-clients` built, or the directory of Java's.
pub fn heavy(name: &str) -> PathBuf {
    let path = installed().join("heavy").join(name);
    assert!(path.exists(), "{} is not there: run scripts/heavy-clients", path.display());
    path
}

/// A Java that runs one file of source with the jars of `NAME.xml`, and a heap of so many MiB.
pub fn java_with(name: &str, heap_mib: u32, source: &str) -> Command {
    let pinned = format!("{name}.xml");
    assert_installed(&pinned, &pinned);
    let mut command = Command::new("java");
    // Little compiling: its tests are over before it pays.
    command.arg(format!("-Xmx{heap_mib}M")).args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]);
    command.arg(installed().join(name).join("*")).arg(pins().join(source));
    command
}

/// A Java that runs one file of source with Jolokia's agent in it, which has these options.
pub fn java_with_jolokia(options: &str, source: &str) -> Command {
    assert_installed("jolokia.xml", "jolokia.xml");
    let mut files = std::fs::read_dir(installed().join("jolokia")).unwrap();
    let agent = files.next().expect("the agent is there").unwrap().path();
    let mut command = Command::new("java");
    command.args(["-Xmx64M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
    command.arg(format!("-javaagent:{}={options}", agent.display())).arg(pins().join(source));
    command
}

/// A Java that runs one file of source with the pinned packages.
fn java() -> Command {
    let mut command = Command::new("java");
    command.arg("-cp").arg(heavy("java").join("*"));
    command
}

/// A running client; killed when dropped.
pub struct Client {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    complaints: Option<JoinHandle<String>>,
}

impl Client {
    /// Starts `script` of `tests/clients`, `.py`, `.cjs` or `.java`, with `args`.
    pub fn start(script: &str, args: &[&str]) -> Self {
        let mut command = match script.rsplit('.').next() {
            Some("py") => python(),
            Some("java") => java(),
            _ => node(),
        };
        command.arg(pins().join(script)).args(args);
        Self::run(script, command)
    }

    /// Starts any command.
    pub fn run(name: &str, mut command: Command) -> Self {
        // Nothing between us and the server, whatever the machine's environment says.
        command.env("NO_PROXY", "127.0.0.1,localhost").env("no_proxy", "127.0.0.1,localhost");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        let (output, mut errors) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let complaints = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = errors.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let input = child.stdin.take();
        Self { name: name.to_owned(), child, input, lines, complaints: Some(complaints) }
    }

    /// Waits until it prints `line`.
    pub fn wait_for(&mut self, line: &str) {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(said) if said == line => return,
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => self.fail(&format!("did not say {line:?} within {PATIENCE:?}")),
                Err(RecvTimeoutError::Disconnected) => self.fail(&format!("ended and did not say {line:?}")),
            }
        }
    }

    /// The next line that it prints.
    pub fn line(&mut self) -> String {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(said) => said,
            Err(RecvTimeoutError::Timeout) => self.fail(&format!("said nothing within {PATIENCE:?}")),
            Err(RecvTimeoutError::Disconnected) => self.fail("ended and said nothing more"),
        }
    }

    /// What `read` makes of the first line from which it makes something.
    pub fn find<T>(&mut self, what: &str, mut read: impl FnMut(&str) -> Option<T>) -> T {
        let from = Instant::now();
        loop {
            let line = self.line();
            if let Some(found) = read(&line) {
                return found;
            }
            if from.elapsed() >= PATIENCE {
                self.fail(&format!("did not say {what} within {PATIENCE:?}, but {line:?}"));
            }
        }
    }

    /// Gives it a line to read.
    pub fn say(&mut self, line: &str) {
        let input = self.input.as_mut().expect("it still reads");
        if let Err(error) = writeln!(input, "{line}") {
            self.fail(&format!("does not read {line:?}: {error}"));
        }
    }

    /// Waits for its end in order, and gives the lines that nobody waited for.
    pub fn finish(mut self) -> Vec<String> {
        self.input = None;
        let mut rest = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => rest.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => self.fail(&format!("did not end within {PATIENCE:?}")),
            }
        }
        if !self.child.wait().unwrap().success() {
            self.fail("failed");
        }
        rest
    }

    fn fail(&mut self, what: &str) -> ! {
        let _ = self.child.kill();
        let said = self.complaints.take().map(|thread| thread.join().unwrap()).unwrap_or_default();
        panic!("{} {what}; it wrote:\n{said}", self.name);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
