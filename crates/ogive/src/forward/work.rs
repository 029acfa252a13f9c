//! The thread of one forward: reads what closed, sends it, and waits.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use ogive_door::Door;
use ogive_export::{Body, FRAME, Outcome, Reply, random_source};
use ogive_journal::{Disk, Error as DiskError, RealDisk};
use ogive_model::{Resolution, SelectError, Selection, SeriesData, SeriesDef, SeriesId, TimeRange, WallMs};
use ogive_outgoing::grpc::CallResult;
use ogive_protocol::otlp::PartialSuccess;

use super::cells;
use super::config::{Form, Forward};
use super::far::ForwardClient;
use super::state::{self, State};
use ogive_storage::late::{ATTEMPTS, Key, LateSample, Watch};
use tokio::runtime::Handle;

/// A minute at once while catching up.
const CATCH_UP_MS: i64 = 60_000;
/// 2,000,000 samples, a histogram counting as its bins.
const SAMPLES_MAX: usize = 2_000_000;
/// 100 ms before a request is retried, then twice as long each time.
const PAUSE: Duration = Duration::from_millis(100);
/// 30 s at most.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// 1 s: during longer waits, late samples are written to the file this often.
const SLICE: Duration = Duration::from_secs(1);
/// The progress is saved every 10 s even when there was nothing to send.
const SAVE_EVERY_MS: i64 = 10_000;
const SECOND_MS: i64 = 1_000;
/// The gRPC status for a request that is invalid however often it is sent.
const INVALID_ARGUMENT: u32 = 3;

/// The last second that is over, with the lateness allowed.
pub(super) fn closed_ms(door: &Door, forward: &Forward) -> i64 {
    let lateness_ms = forward.lateness.as_millis() as i64;
    (door.clock.wall().div_euclid(1_000_000) - lateness_ms).div_euclid(SECOND_MS) * SECOND_MS
}

/// The position of a forward; a new one begins at `closed_ms`.
pub(super) fn load(path: &Path, closed_ms: i64, form: Form) -> anyhow::Result<State> {
    match RealDisk.read(path) {
        Ok(bytes) => {
            let mut state = State::decode(&bytes).map_err(anyhow::Error::msg)?;
            state.becomes(form);
            Ok(state)
        }
        Err(DiskError::NotFound { .. }) => {
            let (source, until_ms) = (random_source(), closed_ms);
            let form = Some(form);
            let state = State { source, sequence: 1, until_ms, next_ms: until_ms, form, requests: Vec::new() };
            // Without this, a kill before the first cell was sent made it start over at a later time, and its late
            // samples were lost.
            RealDisk.replace(path, &state.encode())?;
            Ok(state)
        }
        Err(error) => Err(error.into()),
    }
}

pub(super) struct Work {
    door: Arc<Door>,
    forward: Forward,
    client: ForwardClient,
    runtime: Handle,
    path: PathBuf,
    state: State,
    watch: Watch,
    /// The progress stored in the file.
    saved_ms: i64,
    /// The requests are not in the file: it could not be written.
    is_unsaved: bool,
    pause: Duration,
    /// The last problem, which is reported once.
    said: Option<String>,
}

impl Work {
    /// Called within the runtime.
    pub(super) fn new(
        door: Arc<Door>,
        forward: Forward,
        client: ForwardClient,
        path: PathBuf,
        state: State,
        watch: Watch,
    ) -> Self {
        let saved_ms = state.until_ms;
        let runtime = Handle::current();
        Self {
            door,
            forward,
            client,
            runtime,
            path,
            state,
            watch,
            saved_ms,
            is_unsaved: false,
            pause: PAUSE,
            said: None,
        }
    }

    pub(super) fn run(&mut self, stopped: &Receiver<()>) {
        loop {
            let pause = self.turn().unwrap_or_else(|error| {
                self.say(&format!("{error:#}"));
                self.again(None)
            });
            let lag_ms = self.door.clock.wall().div_euclid(1_000_000) - self.state.until_ms;
            self.change(|figure| figure.lag_seconds = lag_ms as f64 / 1e3);
            if self.is_stopped(stopped, pause) {
                break;
            }
        }
        // Late samples and delivered requests must not be read again.
        if let Err(error) = self.absorb_late().and_then(|_| self.save()) {
            self.say(&format!("{error:#}"));
        }
    }

    /// The watch for late samples, for a successor.
    pub(super) fn into_watch(self) -> Watch {
        self.watch
    }

    /// Waits; late samples that arrive meanwhile are written to the file.
    fn is_stopped(&mut self, stopped: &Receiver<()>, mut pause: Duration) -> bool {
        loop {
            let slice = pause.min(SLICE);
            if !matches!(stopped.recv_timeout(slice), Err(RecvTimeoutError::Timeout)) {
                return true;
            }
            pause -= slice;
            match self.absorb_late() {
                // There is something to send, and no other reason to wait.
                Ok(true) if self.state.requests.len() == 1 && self.pause == PAUSE => return false,
                Err(error) => self.say(&format!("{error:#}")),
                Ok(_) => {}
            }
            if pause.is_zero() {
                return false;
            }
        }
    }

    /// Makes requests of late samples, where the remote server merges them with what it has, and counts them; true when
    /// there are some.
    fn absorb_late(&mut self) -> anyhow::Result<bool> {
        let (late, mut dropped) = self.watch.take(self.state.sequence);
        if late.is_empty() && dropped == 0 {
            return Ok(false);
        }
        let found = self.resolved(late);
        let (mut corrected, mut left_out) = (0, 0);
        if self.forward.form == Form::Batch {
            let mut requests = cells::late(found, &self.forward.tenant, self.state.next())?;
            let room = state::REQUESTS_MAX - self.state.requests.len().min(state::REQUESTS_MAX);
            dropped += requests.drain(room.min(requests.len())..).map(|one| u64::from(one.samples)).sum::<u64>();
            corrected = requests.iter().map(|one| u64::from(one.samples)).sum();
            self.state.sequence += requests.len() as u64;
            self.state.requests.extend(requests);
        } else {
            left_out = found.len() as u64;
        }
        self.change(|figure| {
            figure.late_corrected += corrected;
            figure.late_left_out += left_out;
            figure.late_dropped += dropped;
        });
        if corrected > 0 {
            self.save()?;
        }
        self.watch.settle_taken();
        Ok(corrected > 0)
    }

    /// The samples of series that are forwarded, with their labels: those of known series are looked up.
    fn resolved(&self, late: Vec<LateSample>) -> Vec<(SeriesDef, ogive_model::Sample)> {
        let times: Vec<i64> =
            late.iter().filter(|late| matches!(late.key, Key::Known(_))).map(|late| late.sample.time_ms()).collect();
        let mut known: HashMap<SeriesId, SeriesDef> = HashMap::new();
        if let (Some(first), Some(last)) = (times.iter().min(), times.iter().max()) {
            let found = self.select(*first - 1, *last, true);
            let found = found.unwrap_or_else(|error| {
                tracing::warn!("forward {}: late samples are not forwarded: {error}", self.forward.name);
                Vec::new()
            });
            for series in found {
                if let Ok(def) = SeriesDef::new(series.labels.iter(), series.meta) {
                    known.insert(def.id(&self.forward.tenant), def);
                }
            }
        }
        let of = |late: LateSample| match late.key {
            Key::Declared(def) => Some((def, late.sample)),
            Key::Known(id) => known.get(&id).map(|def| (def.clone(), late.sample)),
        };
        late.into_iter().filter_map(of).collect()
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

    /// How long to wait until the next attempt.
    fn again(&mut self, after: Option<Duration>) -> Duration {
        self.change(|figure| figure.failures += 1);
        let pause = after.unwrap_or(self.pause).min(PAUSE_MAX);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        pause
    }

    /// Sends what is waiting, or reads what has closed; returns how long to wait then.
    fn turn(&mut self) -> anyhow::Result<Duration> {
        self.absorb_late()?;
        if self.is_unsaved {
            self.save()?;
        }
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
        let (requests, unfit) = cells::requests(series, *form, tenant, self.state.next())?;
        self.change(|figure| figure.samples_unfit += unfit);
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
        // Nothing is sent that is not saved.
        self.save()?;
        Ok(Duration::ZERO)
    }

    fn save(&mut self) -> anyhow::Result<()> {
        self.is_unsaved = true;
        RealDisk
            .replace(&self.path, &self.state.encode())
            .with_context(|| format!("cannot write {}", self.path.display()))?;
        self.saved_ms = self.state.until_ms;
        self.is_unsaved = false;
        Ok(())
    }

    /// The cells of (from, to], or of fewer seconds where those are too many.
    fn read(&self, from_ms: i64, to_ms: i64) -> anyhow::Result<(i64, Vec<SeriesData>)> {
        let read = self.try_read(from_ms, to_ms);
        if read.is_err() {
            self.watch.begin(WallMs(from_ms), WallMs(from_ms));
        }
        read
    }

    fn try_read(&self, from_ms: i64, mut to_ms: i64) -> anyhow::Result<(i64, Vec<SeriesData>)> {
        let mut attempt = 1;
        loop {
            self.watch.begin(WallMs(from_ms), WallMs(to_ms));
            self.watch.settle();
            match self.select(from_ms, to_ms, false) {
                Ok(series) if self.watch.commit(attempt == ATTEMPTS) => return Ok((to_ms, series)),
                Ok(_) => attempt += 1,
                Err(SelectError::TooManySamples { .. }) if to_ms - from_ms > SECOND_MS => {
                    to_ms = from_ms + ((to_ms - from_ms) / 2).div_euclid(SECOND_MS).max(1) * SECOND_MS;
                }
                Err(error @ SelectError::TooManySamples { .. }) => {
                    tracing::warn!("forward {}: second {} is skipped: {error}", self.forward.name, to_ms / SECOND_MS);
                    self.change(|figure| figure.seconds_skipped += 1);
                    self.watch.begin(WallMs(to_ms), WallMs(to_ms));
                    return Ok((to_ms, Vec::new()));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn select(&self, from_ms: i64, to_ms: i64, labels_only: bool) -> Result<Vec<SeriesData>, SelectError> {
        let (mut out, mut known) = (Vec::new(), HashSet::new());
        for matchers in &self.forward.matchers {
            let selection = Selection {
                matchers: matchers.clone(),
                range: TimeRange::from_ms(from_ms, to_ms),
                samples_max: SAMPLES_MAX,
                labels_only,
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
        let samples = u64::from(request.samples);
        let outcome = self.said(&request.body);
        match outcome {
            FarReply::Taken { refused, detail } => {
                if refused > 0 {
                    self.say(&format!("{} refuses {refused} cells for good: {detail}", self.forward.url));
                }
                self.change(|figure| {
                    figure.samples += samples.saturating_sub(refused);
                    figure.samples_refused += refused;
                });
                self.taken()
            }
            FarReply::Refused { detail } => {
                self.say(&format!("{} refuses cells for good: {detail}", self.forward.url));
                self.change(|figure| figure.samples_refused += samples);
                self.taken()
            }
            FarReply::Later { after, detail } => {
                self.say(&detail);
                Ok(self.again(after))
            }
        }
    }

    /// The remote server's answer to a request of `bytes`.
    fn said(&self, bytes: &[u8]) -> FarReply {
        let (kind, encoding, headers): (_, _, &[_]) = match self.forward.form {
            Form::RemoteWrite => (
                "application/x-protobuf;proto=io.prometheus.write.v2.Request",
                Some("snappy"),
                &[("x-prometheus-remote-write-version", "2.0.0")],
            ),
            Form::Otlp | Form::OtlpGrpc => ("application/x-protobuf", None, &[]),
            Form::Batch => (FRAME, None, &[]),
        };
        let client = match &self.client {
            ForwardClient::Http(client) => client,
            ForwardClient::Grpc(caller) => {
                let ended = caller.call(&self.runtime, bytes, self.forward.timeout);
                return ended.map_or_else(|detail| FarReply::Later { after: None, detail }, FarReply::from_call);
            }
        };
        let body = Body { kind, encoding, bytes };
        let sent = client.post_with(&self.forward.url, self.forward.timeout, body, headers);
        match sent {
            Ok(reply) => FarReply::from_reply(&reply, self.forward.form),
            Err(outcome) => outcome.into(),
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

/// A remote server's answer to a request.
enum FarReply {
    /// It accepted all but `refused` samples.
    Taken { refused: u64, detail: String },
    /// It will never accept it.
    Refused { detail: String },
    /// It may accept it later.
    Later { after: Option<Duration>, detail: String },
}

impl FarReply {
    fn from_reply(reply: &Reply, form: Form) -> Self {
        let text = || String::from_utf8_lossy(&reply.body[..reply.body.len().min(300)]).trim().to_owned();
        match form {
            // Another Ogive's refusals are final.
            Form::Batch => reply.outcome().into(),
            // The response has no body.
            Form::RemoteWrite if (200..300).contains(&reply.status) => {
                Self::Taken { refused: 0, detail: String::new() }
            }
            Form::Otlp | Form::OtlpGrpc if (200..300).contains(&reply.status) => Self::partly(&reply.body),
            _ if reply.status == 400 => Self::Refused { detail: text() },
            Form::RemoteWrite | Form::Otlp | Form::OtlpGrpc => reply.outcome().into(),
        }
    }

    /// The response of an OTLP receiver states how much it accepted.
    fn partly(answer: &[u8]) -> Self {
        match PartialSuccess::read(answer) {
            Ok(answer) => Self::Taken { refused: answer.rejected, detail: answer.message },
            // It accepted the request, in a response that is not OTLP.
            Err(_) => Self::Taken { refused: 0, detail: String::new() },
        }
    }

    fn from_call(ended: CallResult) -> Self {
        match ended.code {
            0 => Self::partly(&ended.message),
            INVALID_ARGUMENT => Self::Refused { detail: ended.said },
            // Also for missing permissions or a missing service: that can be fixed there, and the store keeps the
            // cells.
            code => Self::Later { after: None, detail: format!("the far side says {code}: {}", ended.said) },
        }
    }
}

impl From<Outcome> for FarReply {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Answered(answer) => {
                let detail = answer.rejected.first().map(|first| format!("{first:?}")).unwrap_or_default();
                Self::Taken { refused: answer.rejected.len() as u64, detail }
            }
            Outcome::Refused { detail, .. } => Self::Refused { detail },
            Outcome::Busy { after, detail } | Outcome::Later { after, detail, .. } => Self::Later { after, detail },
            other => Self::Later { after: None, detail: format!("{other:?}") },
        }
    }
}
