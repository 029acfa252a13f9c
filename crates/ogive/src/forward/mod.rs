//! Forwarding: the closed cells of selected series go to a Prometheus or another Ogive, second by second.
//!
//! - `config`: what goes where; `state`: how far it is; `cells`: cells as requests.
//!
//! Invariants: what is sent stands in the forward's file first, and goes again with the same bytes until it was taken: an Ogive knows
//! a batch by its number and counts it once, a Prometheus takes the same value at the same time as what it has. The store is what waits: who was
//! away gets everything since, as long as retention keeps it. A second is read [`lateness`](config::Forward::lateness) after its end; what comes later is not forwarded.
//! Threads: one for each forward, which reads, sends and waits.
//! Limits: [`CATCH_UP_MS`] and [`SAMPLES_MAX`] at once.
//! Failure: a request without an answer is sent again, ever more rarely, at least every [`PAUSE_MAX`]; one that is refused for good is
//! counted and gone past. A second with more cells than may be read at once is skipped and counted.

mod cells;
mod config;
mod state;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, bail};
use ogive_door::Door;
use ogive_export::{Body, Client, ClientOptions, FRAME, Outcome, random_source};
use ogive_journal::{Disk, Error as DiskError, RealDisk};
use ogive_model::{Resolution, SelectError, Selection, SeriesData, TimeRange};
use ogive_text::mistake;

pub(crate) use config::parse;
use config::{Form, Forward};
use ogive_outgoing::Files;
use state::State;

/// A minute at once when there is something to catch up with.
const CATCH_UP_MS: i64 = 60_000;
/// 2,000,000 samples, a histogram counting as its bins.
const SAMPLES_MAX: usize = 2_000_000;
/// 100 ms before a request is sent again, then twice as long each time.
const PAUSE: Duration = Duration::from_millis(100);
/// 30 s at most.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// How far it is stands in the file each 10 s even when there was nothing to send.
const SAVE_EVERY_MS: i64 = 10_000;
/// 16 MiB: a word on each of many samples.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// Directory of the files, in that of the data.
const DIRECTORY: &str = "forward";
const SECOND_MS: i64 = 1_000;

/// What is to be forwarded.
#[derive(clap::Args, Clone, Debug, Default)]
#[group(id = "forward_options")]
pub(crate) struct Options {
    /// File with [[forward]] tables (TOML): which cells go to which Prometheus or Ogive (docs/forward.md).
    #[arg(long, value_name = "FILE", env = "OGIVE_FORWARD")]
    pub(crate) forward: Option<PathBuf>,
}

/// Forwards that can begin.
pub(crate) struct Forwards(Vec<(Forward, Client)>);

/// The threads of all.
pub(crate) struct Running(Vec<(Sender<()>, JoinHandle<()>)>);

impl Forwards {
    /// Those of the file that `options` name, with the files that they name.
    pub(crate) fn open(options: &Options, files: Files) -> anyhow::Result<Self> {
        let Some(path) = &options.forward else { return Ok(Self(Vec::new())) };
        let read = mistake::file_text(files.read, path, config::FILE_BYTES_MAX);
        let parsed = read.and_then(|text| parse(&text).map_err(|error| format!("{}, {error}", path.display())));
        let all = parsed.map_err(anyhow::Error::msg).context("cannot start the forwards")?;
        let open = |forward: Forward| client(&forward, files).map(|client| (forward, client));
        Ok(Self(all.into_iter().map(open).collect::<anyhow::Result<_>>()?))
    }

    /// Begins to send what `door` leads to. Where each is stands in `data`.
    pub(crate) fn start(self, door: &Arc<Door>, data: &Path) -> anyhow::Result<Running> {
        let mut out = Vec::new();
        for (forward, client) in self.0 {
            let directory = data.join(DIRECTORY);
            RealDisk.create_dir_all(&directory)?;
            let path = directory.join(&forward.name);
            let closed_ms = closed_ms(door, &forward);
            let state = load(&path, closed_ms).with_context(|| {
                format!("{} cannot be read; remove it, and the forward begins at now", path.display())
            })?;
            let name = format!("forward {}", forward.name);
            let (stop, stopped) = channel();
            let mut work = Work {
                door: door.clone(),
                forward,
                client,
                path,
                saved_ms: state.until_ms,
                state,
                pause: PAUSE,
                said: None,
            };
            let thread = std::thread::Builder::new().name(name).spawn(move || work.run(&stopped));
            out.push((stop, thread.context("cannot start a thread")?));
        }
        Ok(Running(out))
    }
}

impl Running {
    /// Ends; what is on its way is waited for.
    pub(crate) fn stop(self) {
        let (stops, threads): (Vec<_>, Vec<_>) = self.0.into_iter().unzip();
        drop(stops);
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

fn client(forward: &Forward, files: Files) -> anyhow::Result<Client> {
    let file = |path: &Option<PathBuf>| -> anyhow::Result<Option<Vec<u8>>> {
        let Some(path) = path else { return Ok(None) };
        let bytes = (files.read)(path).with_context(|| format!("cannot read {}", path.display()))?;
        if bytes.trim_ascii().is_empty() {
            bail!("forward {}: {} is empty", forward.name, path.display());
        }
        Ok(Some(bytes))
    };
    let (ca, chain, key) = (file(&forward.ca_file)?, file(&forward.cert_file)?, file(&forward.key_file)?);
    let token = file(&forward.token_file)?.map(|token| String::from_utf8_lossy(&token).trim().to_owned());
    let client = Client::new(&ClientOptions {
        token: token.as_deref(),
        ca_pem: ca.as_deref(),
        identity_pem: chain.as_deref().zip(key.as_deref()),
        user_agent: concat!("ogive-forward/", env!("CARGO_PKG_VERSION")),
        idle_connections: 1,
        answer_bytes_max: ANSWER_BYTES_MAX,
    });
    client
        .with_context(|| format!("forward {}: its token, authorities, certificate or key are of no use", forward.name))
}

/// The last second that is over, with the lateness.
fn closed_ms(door: &Door, forward: &Forward) -> i64 {
    let lateness_ms = forward.lateness.as_millis() as i64;
    (door.clock.wall().div_euclid(1_000_000) - lateness_ms).div_euclid(SECOND_MS) * SECOND_MS
}

/// Where a forward is; one that is new begins at `closed_ms`.
fn load(path: &Path, closed_ms: i64) -> anyhow::Result<State> {
    match RealDisk.read(path) {
        Ok(bytes) => State::decode(&bytes).map_err(anyhow::Error::msg),
        Err(DiskError::NotFound { .. }) => {
            let (source, until_ms) = (random_source(), closed_ms);
            Ok(State { source, sequence: 1, until_ms, next_ms: until_ms, requests: Vec::new() })
        }
        Err(error) => Err(error.into()),
    }
}

struct Work {
    door: Arc<Door>,
    forward: Forward,
    client: Client,
    path: PathBuf,
    state: State,
    /// What the file says of how far it is.
    saved_ms: i64,
    pause: Duration,
    /// What went wrong last, said once.
    said: Option<String>,
}

impl Work {
    fn run(&mut self, stopped: &Receiver<()>) {
        loop {
            let pause = self.turn().unwrap_or_else(|error| {
                self.say(&format!("{error:#}"));
                self.again(None)
            });
            let lag_ms = self.door.clock.wall().div_euclid(1_000_000) - self.state.until_ms;
            self.change(|figure| figure.lag_seconds = lag_ms as f64 / 1e3);
            if !matches!(stopped.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
                break;
            }
        }
        // What was taken meanwhile is not read again.
        if let Err(error) = self.save() {
            self.say(&format!("{error:#}"));
        }
    }

    fn change(&self, change: impl FnOnce(&mut ogive_door::forwarded::Figure)) {
        self.door.counters.forwards.change(&self.forward.name, change);
    }

    fn say(&mut self, what: &str) {
        if self.said.as_deref() != Some(what) {
            tracing::warn!("forward {}: {what}", self.forward.name);
            self.said = Some(what.to_owned());
        }
    }

    /// How long to wait until it is tried again.
    fn again(&mut self, after: Option<Duration>) -> Duration {
        self.change(|figure| figure.failures += 1);
        let pause = after.unwrap_or(self.pause).min(PAUSE_MAX);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        pause
    }

    /// Sends what waits, or reads what closed; how long to wait then.
    fn turn(&mut self) -> anyhow::Result<Duration> {
        if !self.state.requests.is_empty() {
            return self.send();
        }
        let closed_ms = closed_ms(&self.door, &self.forward);
        let until_ms = self.state.until_ms;
        if closed_ms <= until_ms {
            let wait_ms = until_ms + SECOND_MS - closed_ms;
            return Ok(Duration::from_millis(wait_ms.clamp(10, SECOND_MS) as u64));
        }
        let (next_ms, series) = self.read(until_ms, closed_ms.min(until_ms + CATCH_UP_MS))?;
        let Forward { form, tenant, .. } = &self.forward;
        let requests = cells::requests(series, *form, tenant, (self.state.source, self.state.sequence))?;
        if requests.len() > state::REQUESTS_MAX {
            bail!("{} requests of one turn, above {}", requests.len(), state::REQUESTS_MAX);
        }
        if requests.is_empty() {
            (self.state.until_ms, self.state.next_ms) = (next_ms, next_ms);
            if next_ms - self.saved_ms >= SAVE_EVERY_MS {
                self.save()?;
            }
            return Ok(Duration::ZERO);
        }
        self.state.sequence += requests.len() as u64;
        (self.state.next_ms, self.state.requests) = (next_ms, requests);
        // Nothing is sent that is not in the file.
        self.save()?;
        Ok(Duration::ZERO)
    }

    fn save(&mut self) -> anyhow::Result<()> {
        RealDisk
            .replace(&self.path, &self.state.encode())
            .with_context(|| format!("cannot write {}", self.path.display()))?;
        self.saved_ms = self.state.until_ms;
        Ok(())
    }

    /// The cells of (from, to], or of fewer seconds where those are too many.
    fn read(&self, from_ms: i64, mut to_ms: i64) -> anyhow::Result<(i64, Vec<SeriesData>)> {
        loop {
            match self.select(from_ms, to_ms) {
                Ok(series) => return Ok((to_ms, series)),
                Err(SelectError::TooManySamples { .. }) if to_ms - from_ms > SECOND_MS => {
                    to_ms = from_ms + ((to_ms - from_ms) / 2).div_euclid(SECOND_MS).max(1) * SECOND_MS;
                }
                Err(error @ SelectError::TooManySamples { .. }) => {
                    tracing::warn!("forward {}: second {} is skipped: {error}", self.forward.name, to_ms / SECOND_MS);
                    self.change(|figure| figure.seconds_skipped += 1);
                    return Ok((to_ms, Vec::new()));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn select(&self, from_ms: i64, to_ms: i64) -> Result<Vec<SeriesData>, SelectError> {
        let (mut out, mut known) = (Vec::new(), HashSet::new());
        for matchers in &self.forward.matchers {
            let selection = Selection {
                matchers: matchers.clone(),
                range: TimeRange { start_ms: from_ms, end_ms: to_ms },
                samples_max: SAMPLES_MAX,
                labels_only: false,
                resolution: Resolution::Width(0),
            };
            for series in self.door.backend.of(&self.forward.tenant).select(&selection)? {
                // Two selectors may have one series.
                if self.forward.matchers.len() == 1 || known.insert((series.labels.clone(), series.meta.kind)) {
                    out.push(series);
                }
            }
        }
        Ok(out)
    }

    /// Sends the first request that waits.
    fn send(&mut self) -> anyhow::Result<Duration> {
        let request = self.state.requests.first().expect("something waits");
        let (samples, bytes) = (u64::from(request.samples), &*request.body);
        let (kind, encoding, headers): (_, _, &[_]) = match self.forward.form {
            Form::RemoteWrite => (
                "application/x-protobuf;proto=io.prometheus.write.v2.Request",
                Some("snappy"),
                &[("x-prometheus-remote-write-version", "2.0.0")],
            ),
            Form::Batch => (FRAME, None, &[]),
        };
        let body = Body { kind, encoding, bytes };
        let sent = self.client.post_with(&self.forward.url, self.forward.timeout, body, headers);
        let outcome = match (sent, self.forward.form) {
            // Its answer has no body.
            (Ok(reply), Form::RemoteWrite) if (200..300).contains(&reply.status) => {
                Outcome::Answered(Default::default())
            }
            (Ok(reply), Form::RemoteWrite) if reply.status == 400 => Outcome::Refused {
                reason: "refused".into(),
                detail: String::from_utf8_lossy(&reply.body[..reply.body.len().min(300)]).trim().to_owned(),
            },
            (Ok(reply), _) => reply.outcome(),
            (Err(outcome), _) => outcome,
        };
        match outcome {
            Outcome::Answered(answer) => {
                let refused = answer.rejected.len() as u64;
                self.change(|figure| {
                    figure.samples += samples.saturating_sub(refused);
                    figure.samples_refused += refused;
                });
                self.taken()
            }
            Outcome::Refused { detail, .. } => {
                self.say(&format!("{} refuses cells for good: {detail}", self.forward.url.clone()));
                self.change(|figure| figure.samples_refused += samples);
                self.taken()
            }
            Outcome::Busy { after, detail } | Outcome::Later { after, detail, .. } => {
                self.say(&detail);
                Ok(self.again(after))
            }
            other => {
                self.say(&format!("{other:?}"));
                Ok(self.again(None))
            }
        }
    }

    /// The first request need not be sent any more.
    fn taken(&mut self) -> anyhow::Result<Duration> {
        self.pause = PAUSE;
        self.state.requests.remove(0);
        if self.state.requests.is_empty() {
            self.state.until_ms = self.state.next_ms;
            self.save()?;
        }
        Ok(Duration::ZERO)
    }
}
