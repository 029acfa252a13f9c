//! External commands: Nagios plugins, whose performance data become series, and other programs, whose output is
//! searched for numbers.
//!
//! Invariants: no shell reads the command. It runs in a process group of its own, which is killed if the run ends
//! before it does, for whatever reason. Of the server's environment it inherits only the variables that locate programs
//! and certificate authorities; passwords are not passed on.
//! Format (kind `nagios`): `ogive_check_perfdata{item}` and `ogive_check_perfdata_limit{item,limit}`; both kinds
//! `ogive_check_exit_code`.
//! Limits: [`COMMANDS_MAX`] at once, [`OUTPUT_BYTES_MAX`] of a command's output (other kinds that run a program have
//! their own), [`ARGUMENTS_MAX`] arguments.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;
use tokio::sync::Semaphore;

use super::extract::{Answer, Extract, report};
use super::perfdata;
use super::raw::Raw;
use super::run::{Failure, Reason, Run};

/// 32 commands at once: each is a process or more, of a size that nobody knows.
const COMMANDS_MAX: usize = 32;
/// 256 KiB: a long report of a program.
const OUTPUT_BYTES_MAX: u64 = 256 << 10;
/// 200 arguments: more belong in a file.
const ARGUMENTS_MAX: usize = 200;
/// What a command is given of the server's environment.
const ENVIRONMENT: [&str; 4] = ["LANG", "PATH", "SSL_CERT_DIR", "SSL_CERT_FILE"];

static PLACES: Semaphore = Semaphore::const_new(COMMANDS_MAX);

/// What is run.
#[derive(Clone, Debug)]
pub(super) struct External {
    line: Line,
    /// Exit codes that are good.
    status: Vec<u16>,
    /// It prints what a Nagios plugin does.
    is_plugin: bool,
    extract: Vec<Extract>,
}

/// A program, its arguments and its environment.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) command: Vec<String>,
    environment: BTreeMap<String, String>,
}

impl Line {
    /// What the keys `command` and `environment` say.
    pub(super) fn from_raw(raw: &mut Raw) -> Result<Self, String> {
        let command = raw.command.take().unwrap_or_default();
        let program = command.first().ok_or("command is missing: a list of the program and its arguments")?;
        if !program.starts_with('/') {
            return Err(format!("command {program:?}: write the whole path of the program"));
        }
        if command.len() > ARGUMENTS_MAX {
            return Err(format!("command has {} words, above {ARGUMENTS_MAX}", command.len()));
        }
        let environment = raw.environment.take().unwrap_or_default();
        let has_zero = |text: &String| text.contains('\0');
        let is_no_name = |name: &String| name.is_empty() || name.contains('=');
        if command.iter().chain(environment.keys()).chain(environment.values()).any(has_zero)
            || environment.keys().any(is_no_name)
        {
            return Err("command and environment hold no zero bytes, and a name in it has no =".into());
        }
        Ok(Self { command, environment })
    }
}

/// How a command ended, and what it printed.
pub(super) struct Output {
    pub(super) status: ExitStatus,
    pub(super) text: String,
    pub(super) errors: String,
}

impl External {
    /// What a table of one of the kinds says. A target is a label alone.
    pub(super) fn from_raw(raw: &mut Raw) -> Result<Self, String> {
        let line = Line::from_raw(raw)?;
        let status = raw.status.take().filter(|status| !status.is_empty()).unwrap_or_else(|| vec![0]);
        if let Some(wrong) = status.iter().find(|status| **status > 255) {
            return Err(format!("status {wrong} is no exit code"));
        }
        raw.target.take();
        let extract = Extract::all(raw.extract.take())?;
        Ok(Self { line, status, is_plugin: raw.kind == "nagios", extract })
    }
}

/// A process group, killed when this is dropped unless it has ended.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0.take() {
            // An error says that nobody is left in it.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

pub(super) async fn run(run: &mut Run, external: &External) -> Result<(), Failure> {
    let Output { status, text, errors } = output(run, &external.line, OUTPUT_BYTES_MAX).await?;
    judged(run, external, status, &text, &errors)
}

/// Runs a command to its end.
pub(super) async fn output(run: &mut Run, line: &Line, bytes_max: u64) -> Result<Output, Failure> {
    run.phase("command");
    let Ok(_place) = PLACES.try_acquire() else {
        return Err(Failure::new(Reason::Crowded, format!("{COMMANDS_MAX} other commands are running")));
    };
    let program = &line.command[0];
    let mut command = Command::new(program);
    command.args(&line.command[1..]).current_dir("/").env_clear();
    command.envs(ENVIRONMENT.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    command.envs(&line.environment).process_group(0).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = command.spawn();
    let mut child =
        started.map_err(|error| Failure::new(Reason::Local, format!("{program} cannot be started: {error}")))?;
    let mut group = Group(child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw));
    let (output, errors) = (child.stdout.take().expect("it is piped"), child.stderr.take().expect("it is piped"));
    let (output, errors) = tokio::try_join!(bounded(output, bytes_max), bounded(errors, bytes_max))?;
    let status = child.wait().await?;
    // It was waited for, so its number may become another's.
    group.0 = None;
    let [text, errors] = [output, errors].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(Output { status, text, errors })
}

/// Everything that is printed, if that is not too much.
async fn bounded(from: impl AsyncRead + Unpin, bytes_max: u64) -> Result<Vec<u8>, Failure> {
    let mut out = Vec::new();
    from.take(bytes_max + 1).read_to_end(&mut out).await?;
    if out.len() as u64 > bytes_max {
        return Err(Failure::new(Reason::Limit, format!("the command prints more than {bytes_max} bytes")));
    }
    Ok(out)
}

fn judged(run: &mut Run, external: &External, status: ExitStatus, output: &str, errors: &str) -> Result<(), Failure> {
    let line = match external.is_plugin {
        true => perfdata::headline(output),
        false => output.lines().next().unwrap_or_default(),
    };
    let said = if line.is_empty() { errors.lines().next().unwrap_or_default() } else { line };
    let Some(code) = status.code() else {
        let signal = status.signal().unwrap_or_default();
        return Err(Failure::new(Reason::Status, format!("the command was killed by signal {signal}: {said}")));
    };
    run.gauge("ogive_check_exit_code", "", f64::from(code));
    // The numbers are there whatever the plugin thinks of them.
    let reported = if external.is_plugin { numbers(run, output) } else { Ok(()) };
    if !external.status.iter().any(|good| i32::from(*good) == code) {
        let name = match (external.is_plugin, code) {
            (true, 1) => "warning".into(),
            (true, 2) => "critical".into(),
            (true, 3) => "unknown".into(),
            _ => format!("exit code {code}"),
        };
        return Err(Failure::new(Reason::Status, format!("{name}: {said}")));
    }
    reported?;
    report(run, &external.extract, &Answer::new(output), &[])
}

/// Reports the numbers of a plugin.
fn numbers(run: &mut Run, output: &str) -> Result<(), Failure> {
    let items = perfdata::items(output).map_err(|sentence| Failure::new(Reason::Content, sentence))?;
    for item in items {
        run.labelled("ogive_check_perfdata", item.unit, &[("item", &item.label)], item.value);
        for (limit, value) in item.limits {
            run.labelled("ogive_check_perfdata_limit", item.unit, &[("item", &item.label), ("limit", limit)], value);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ogive_probe::Clock;

    use super::*;
    use crate::config::{Check, Config, Probe};

    fn check(keys: &str) -> Result<Check, String> {
        let text = format!("[[check]]\nname = 'a'\nperiod = '1s'\n{keys}\n");
        Ok(Config::parse(&text)?.check.remove(0))
    }

    /// How a script of the shell ends within a time.
    fn ends(kind: &str, script: &str, timeout: Duration) -> Result<(), Failure> {
        let check = check(&format!("kind = '{kind}'\ncommand = ['/bin/sh', '-c', '''{script}''']")).unwrap();
        let Probe::Command(external) = &check.ask else { panic!("{:?}", check.ask) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut begun = Run::begin(Clock::global());
        let end = runtime.block_on(async { tokio::time::timeout(timeout, run(&mut begun, external)).await.ok() });
        begun.ended(end, timeout)
    }

    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn ends_of_commands_are_reported() {
        for (kind, script, expected) in [
            ("nagios", "echo 'OK | a=1'", ""),
            ("nagios", "echo 'WARNING - full | a=1'; exit 1", "status: warning: WARNING - full"),
            ("nagios", "echo 'CRITICAL'; exit 2", "status: critical: CRITICAL"),
            ("nagios", "echo no >&2; exit 3", "status: unknown: no"),
            ("nagios", "echo 'OK | a'", "content: \"a\" behind | is no 'label'=value"),
            ("command", "echo 'OK | a'", ""),
            ("command", "echo what; exit 4", "status: exit code 4: what"),
            ("command", "kill -9 $$", "status: the command was killed by signal 9: "),
            ("command", "while :; do echo lots of words; done", "limit: the command prints more than 262144 bytes"),
            ("command", "while :; do echo lots of words >&2; done", "limit: the command prints more than 262144 bytes"),
            ("command", "test -z \"$CARGO_MANIFEST_DIR\"", ""),
        ] {
            let said = ends(kind, script, PATIENCE).err().map_or(String::new(), |failure| failure.to_string());
            assert_eq!(said, expected, "{script}");
        }
    }

    /// A plugin that hangs in a program that it started: both are gone.
    #[test]
    fn what_a_command_started_ends_with_its_time() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        let script = format!("sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait", file.display());
        let mut timeout = Duration::from_millis(250);
        // A busy machine may not have begun it by then.
        let pid = loop {
            assert_eq!(ends("command", &script, timeout).unwrap_err().reason, Reason::Timeout);
            if let Ok(text) = std::fs::read_to_string(&file) {
                break text.trim().to_owned();
            }
            timeout *= 2;
        };
        let is_alive = || {
            let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            !(status.is_empty() || status.contains(") Z "))
        };
        while is_alive() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn mistakes_are_refused() {
        for (keys, sentence) in [
            ("", "command is missing"),
            ("command = []", "command is missing"),
            ("command = ['ls']", "write the whole path"),
            ("command = ['/x']\nstatus = [256]", "is no exit code"),
            ("command = [\"/x\", \"a\\u0000\"]", "no zero bytes"),
            ("command = ['/x']\nenvironment = {'a=b' = 'c'}", "has no ="),
            ("command = ['/x']\nuser = 'a'", "user means nothing to the kind nagios"),
        ] {
            let found = check(&format!("kind = 'nagios'\n{keys}")).unwrap_err();
            assert!(found.contains(sentence), "{found}");
        }
        let missing = check("kind = 'command'\ncommand = ['/no/such/program']").unwrap();
        let Probe::Command(external) = &missing.ask else { panic!("{:?}", missing.ask) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let failure = runtime.block_on(run(&mut Run::begin(Clock::global()), external)).unwrap_err();
        assert!(failure.reason == Reason::Local && failure.sentence.contains("cannot be started"), "{failure}");
    }
}
