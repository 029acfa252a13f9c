//! Forwarding: the closed cells of selected series go to a Prometheus, an OTLP receiver or another Ogive, second by
//! second.
//!
//! - `config`: what goes where; `state`: how far it is; `cells`: cells as requests; `late`: what came too late; `work`:
//!   the thread of each.
//!
//! Invariants: what is sent stands in the forward's file first, and goes again with the same bytes until it was taken:
//! an Ogive knows a batch by its number and counts it once, a Prometheus takes the same value at the same time as what
//! it has. The store is what waits: who was away gets everything since, as long as retention keeps it. A second is read
//! [`lateness`](config::Forward::lateness) after its end; what comes later goes as it came to a far side that merges it
//! (another Ogive), and is counted for the others.
//! Threads: one for each forward, which reads, sends and waits; a task that waits for SIGHUP.
//! Limits: a minute and two million samples at once.
//! Failure: a request without an answer is sent again, ever more rarely, at least every 30 s; one that is refused for
//! good is counted and gone past. A second with more cells than may be read at once is skipped and counted. A file that
//! is wrong keeps the server from starting; one that becomes wrong is refused and counted, and the forwards go on as
//! they were. A forward that changes goes on with what was late for it.

mod cells;
mod config;
mod far;
mod state;
mod work;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::Context as _;
use ogive_door::Door;
use ogive_door::audit::{self, Entry};
use ogive_door::reload::{ConfigKind, Marks, settled};
use ogive_journal::{Disk, RealDisk};
use ogive_model::WallMs;
use ogive_text::mistake;
use tokio::signal::unix::{Signal, SignalKind, signal};

pub(crate) use config::parse;
use config::{Form, Forward};
use far::ForwardClient;
use ogive_outgoing::Files;
use ogive_outgoing::grpc;
use ogive_storage::late::{LateSample, Watch, Watches};
use ogive_storage::late_log::{self, LateLog};
use state::State;
use work::Work;

/// Directory of the files, in that of the data.
const DIRECTORY: &str = "forward";
/// What is to be forwarded.
#[derive(clap::Args, Clone, Debug, Default)]
#[group(id = "forward_options")]
pub(crate) struct Options {
    /// File with [[forward]] tables (TOML): which cells to send on to which Prometheus, OTLP receiver or Ogive
    /// (docs/forward.md). Reread on SIGHUP.
    #[arg(long, value_name = "FILE", env = "OGIVE_FORWARD")]
    pub(crate) forward: Option<PathBuf>,
}

/// Forwards that are ready to start.
pub(crate) struct Forwards {
    file: Option<PathBuf>,
    files: Files,
    all: Vec<Ready>,
    marks: Marks,
}

/// A forward with its client.
struct Ready {
    forward: Forward,
    client: ForwardClient,
    /// Its files as they were read.
    marks: Marks,
}

/// The threads of all forwards.
pub(crate) struct Running(Arc<Shared>);

struct Shared {
    door: Arc<Door>,
    watches: Arc<Watches>,
    data: PathBuf,
    file: Option<PathBuf>,
    files: Files,
    threads: Mutex<Threads>,
}

#[derive(Default)]
struct Threads {
    all: Vec<Thread>,
    marks: Marks,
    is_over: bool,
}

struct Thread {
    forward: Forward,
    marks: Marks,
    /// It ends when this is dropped.
    stop: Sender<()>,
    thread: JoinHandle<Watch>,
}

/// The state of a forward that has ended; it keeps watching for late samples as long as this lives.
struct Former {
    forward: Forward,
    watch: Watch,
}

impl Forwards {
    /// The forwards of the file that `options` name, with the files that those name.
    pub(crate) fn open(options: &Options, files: Files) -> anyhow::Result<Self> {
        let (all, marks) = match &options.forward {
            Some(path) => load(path, files).map_err(anyhow::Error::msg).context("cannot start the forwards")?,
            None => (Vec::new(), Marks::default()),
        };
        Ok(Self { file: options.forward.clone(), files, all, marks })
    }

    /// Starts to send from the store behind `door`. The progress of each is stored in `data`. Called within the
    /// runtime: a signal is handled from then on, not from when the task that waits for it first runs.
    pub(crate) fn start(self, door: &Arc<Door>, watches: &Arc<Watches>, data: &Path) -> anyhow::Result<Running> {
        let shared = Arc::new(Shared {
            door: door.clone(),
            watches: watches.clone(),
            data: data.to_owned(),
            file: self.file,
            files: self.files,
            threads: Mutex::default(),
        });
        let mut threads = Threads { marks: self.marks, ..Threads::default() };
        for ready in self.all {
            threads.all.push(shared.begin(ready, None)?);
        }
        *shared.threads.lock().unwrap_or_else(PoisonError::into_inner) = threads;
        if shared.file.is_some() {
            let hangup = signal(SignalKind::hangup()).context("cannot wait for SIGHUP")?;
            tokio::spawn(reload_on_signal(shared.clone(), hangup));
        }
        Ok(Running(shared))
    }
}

impl Running {
    /// Stops; requests in flight are waited for.
    pub(crate) fn stop(self) {
        let mut threads = self.0.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.is_over = true;
        drop(end(std::mem::take(&mut threads.all)));
    }
}

/// Ends some at once, and waits for them.
fn end(threads: Vec<Thread>) -> Vec<Former> {
    let waiting: Vec<(Forward, JoinHandle<Watch>)> =
        threads.into_iter().map(|Thread { stop, thread, forward, .. }| (drop(stop), (forward, thread)).1).collect();
    let ended = |(forward, thread): (Forward, JoinHandle<Watch>)| Some(Former { forward, watch: thread.join().ok()? });
    waiting.into_iter().filter_map(ended).collect()
}

impl Shared {
    /// Starts `ready`, which may be a new version of `former`.
    fn begin(&self, Ready { forward, client, marks }: Ready, former: Option<Former>) -> anyhow::Result<Thread> {
        let directory = self.data.join(DIRECTORY);
        RealDisk.create_dir_all(&directory)?;
        let path = directory.join(&forward.name);
        let state = work::load(&path, work::closed_ms(&self.door, &forward), forward.form)
            .with_context(|| format!("{} cannot be read; remove it, and the forward begins at now", path.display()))?;
        let watch = self.watch(&forward, &state, former)?;
        let (stop, stopped) = channel();
        let mut work = Work::new(self.door.clone(), forward.clone(), client, path, state, watch);
        let name = format!("forward {}", forward.name);
        let run = move || {
            work.run(&stopped);
            work.into_watch()
        };
        let thread = std::thread::Builder::new().name(name).spawn(run);
        Ok(Thread { forward, marks, stop, thread: thread.context("cannot start a thread")? })
    }

    /// The watch for late samples of `forward`: that of `former`, where it was the same one. Requests contain data that
    /// was already read: anything that arrives later is late.
    fn watch(&self, forward: &Forward, state: &State, former: Option<Former>) -> anyhow::Result<Watch> {
        let log = || (forward.form == Form::Batch).then(|| self.log(forward, state)).transpose();
        let matchers = forward.matchers.clone();
        let is_same = |before: &Forward| (&before.name, &before.tenant) == (&forward.name, &forward.tenant);
        match former.filter(|former| is_same(&former.forward)) {
            Some(Former { forward: before, watch }) => {
                watch.select(matchers, WallMs(state.next_ms));
                if before.form != forward.form {
                    watch.replace_log(log()?);
                }
                Ok(watch)
            }
            None => Ok(self.watches.watch(forward.tenant.clone(), matchers, WallMs(state.next_ms), log()?)),
        }
    }

    /// The log of late samples for a remote server that merges them, and those that a previous process did not forward.
    fn log(&self, forward: &Forward, state: &State) -> anyhow::Result<(LateLog, Vec<LateSample>)> {
        let path = late_log::path_of(&self.data, &forward.name);
        let (source, sequence, until) = (state.source, state.sequence, WallMs(state.next_ms));
        let place = late_log::Place { source, sequence, until };
        LateLog::open(&path, place, self.watches.stored(), &forward.tenant)
            .with_context(|| format!("forward {}: the log of late samples", forward.name))
    }

    /// Reloads the file: unchanged forwards continue, removed ones end, and changed ones continue from their position.
    fn reload(&self) -> Result<String, String> {
        let path = self.file.as_ref().expect("there is a file when it is read again");
        let before = self.threads.lock().unwrap_or_else(PoisonError::into_inner).marks.clone();
        let (next, marks) = settled(&before, || load(path, self.files))?;
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if threads.is_over {
            return Err("the server is ending".into());
        }
        let is_same =
            |thread: &Thread, ready: &Ready| (&thread.forward, &thread.marks) == (&ready.forward, &ready.marks);
        let (kept, old): (Vec<Thread>, Vec<Thread>) = std::mem::take(&mut threads.all)
            .into_iter()
            .partition(|thread| next.iter().any(|ready| is_same(thread, ready)));
        let names = |all: &mut dyn Iterator<Item = &str>| {
            let names: Vec<&str> = all.collect();
            if names.is_empty() { "none".to_owned() } else { names.join(", ") }
        };
        let ended = names(&mut old.iter().map(|thread| &*thread.forward.name));
        let (mut all, mut begun, mut failed) = (kept, Vec::new(), Vec::new());
        let mut former = end(old);
        for ready in next {
            if all.iter().any(|thread| is_same(thread, &ready)) {
                continue;
            }
            let name = ready.forward.name.clone();
            let before = former.iter().position(|former| former.forward.name == name).map(|at| former.swap_remove(at));
            match self.begin(ready, before) {
                Ok(thread) => {
                    all.push(thread);
                    begun.push(name);
                }
                Err(error) => failed.push(format!("forward {name}: {error:#}")),
            }
        }
        (threads.all, threads.marks) = (all, marks);
        let reported = format!("ended: {ended}; begun: {}", names(&mut begun.iter().map(String::as_str)));
        if failed.is_empty() { Ok(reported) } else { Err(format!("{reported}; {}", failed.join("; "))) }
    }
}

/// Reloads the file when the process gets SIGHUP.
async fn reload_on_signal(shared: Arc<Shared>, mut hangup: Signal) {
    let mut ending = shared.door.ending.clone();
    let path = shared.file.clone().expect("there is a file when it is read again");
    loop {
        tokio::select! {
            _ = hangup.recv() => {}
            _ = ending.wait_for(|ending| *ending) => return,
        }
        let own = shared.clone();
        let read =
            tokio::task::spawn_blocking(move || own.reload()).await.unwrap_or_else(|error| Err(error.to_string()));
        shared.door.counters.reloads.ended(ConfigKind::Forwards, read.is_ok());
        let (action, what) = match read {
            Ok(what) => ("forwards", what),
            Err(error) => {
                tracing::warn!("{error}; the other forwards stay as they were");
                ("forwards_refused", error)
            }
        };
        audit::note(&shared.door, Entry::config(&path, &(shared.files.owner)(&path), action, "signal HUP", &what));
    }
}

/// The forwards of a file, with their files, and the fingerprints.
fn load(path: &Path, files: Files) -> Result<(Vec<Ready>, Marks), String> {
    let text = mistake::file_text(files.read, path, config::FILE_BYTES_MAX)?;
    let all = parse(&text).map_err(|error| format!("{}, {error}", path.display()))?;
    let mut marks = Marks::default();
    marks.note(path, text.as_bytes());
    marks.count(all.len(), config::is_empty_list(&text));
    let mut out = Vec::new();
    for forward in all {
        let (client, own) = far::client(&forward, files).map_err(|error| format!("{error:#}"))?;
        marks.extend(own.clone());
        out.push(Ready { forward, client, marks: own });
    }
    Ok((out, marks))
}

/// Parses any bytes as each kind of external input of a forward: its tables, its progress, its log of late samples, and
/// the responses of an OTLP receiver.
pub fn forward_input(bytes: &[u8]) {
    state::read_any(bytes);
    late_log::read_any(bytes);
    grpc::read_any(bytes);
    let _ = ogive_protocol::otlp::PartialSuccess::read(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = parse(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutations::mutations;

    #[test]
    fn what_forwards_read_may_be_anything() {
        let smoke = |good: &[u8], rounds: u32, alphabet: &[u8]| {
            forward_input(good);
            mutations(good, rounds, 5, alphabet, forward_input);
        };
        let table =
            b"[[forward]]\nname = 'a'\nto = 'http://b/c'\nform = 'otlp'\nmatch = ['{d=~\"e\"}']\nlateness = '2s'\n";
        smoke(table, 1_500, b" -:[]{},.'\"#=~|\n\tax0e\xff");
        smoke(&ogive_protocol::otlp::partial_success(3, "why"), 3_000, &[]);
        // The fields of a state of one request: source, sequence, until, next, form, how many, samples, bytes, body.
        let state = [
            &[7; 16][..],
            &[9; 8],
            &[0; 8],
            &[1, 0, 0, 0, 0, 0, 0, 0],
            &[2, 0, 0, 0, 1, 0, 0, 0],
            &[3, 0, 0, 0, 2, 0, 0, 0],
            b"ab",
        ];
        smoke(&state.concat(), 5_000, &[]);
    }
}
