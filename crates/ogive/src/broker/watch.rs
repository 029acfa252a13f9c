//! What comes to this broker, shown each second to whoever watches at the server, for as long as they do.
//!
//! A watch reads the records that the spool has in memory, as a destination does that is not behind, and whatever the
//! destinations are doing: while nobody watches there is nothing to do on the way of a sample.
//!
//! Invariants: only with the permission of the broker's own file; what is shown is durable here, and each batch is
//! shown once, since a repeated one has no further record; nothing of the spool or of its cursors changes. A watch ends
//! when the connection to the server does, or is silent for [`SILENCE`].
//! Threads: a task of the runtime for each watch; batches are read on its blocking threads.
//! Limits: [`BROKER_WATCHES_MAX`]; [`WORK`] in each [`TURN`], and what goes from memory meanwhile is counted and not
//! shown; those of [`Cells`] and [`Callback`].

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ogive_broker::Board;
use ogive_door::counters::Counters;
use ogive_fleet::{BROKER_WATCHES_MAX, Connect, Home, Watch, send_line};
use ogive_model::{Batch, Matcher, MonoNs, Ns, Tenant};
use ogive_probe::Clock;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, split};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::callback::{Callback, asker};
use super::shared::Broker;
use super::watch_cells::Cells;

/// A column each second.
const COLUMN: Ns = Ns::from_secs(1);
/// 200 ms: a fifth of what comes in a second fits into the memory of any spool that keeps up at all.
const TURN: Duration = Duration::from_millis(200);
/// 80 ms: a watch takes two fifths of a processor at most.
const WORK: Duration = Duration::from_millis(80);
/// 10 s: the server answers each column.
const SILENCE: Duration = Duration::from_secs(10);

/// See the module.
pub(super) struct Watches {
    broker: Arc<Broker>,
    /// The broker's own file.
    file: String,
    is_allowed: bool,
    places: Arc<Semaphore>,
    counters: Arc<Counters>,
    runtime: Handle,
}

impl Watches {
    pub(super) fn new(
        broker: &Arc<Broker>,
        file: &Path,
        is_allowed: bool,
        counters: Arc<Counters>,
        runtime: Handle,
    ) -> Self {
        let places = Arc::new(Semaphore::new(BROKER_WATCHES_MAX));
        Self { broker: broker.clone(), file: file.display().to_string(), is_allowed, places, counters, runtime }
    }

    /// Begins a watch, or answers why not.
    pub(super) fn begin(self: &Arc<Self>, request: Connect, home: Home) {
        let this = self.clone();
        self.runtime.spawn(async move { this.serve(request, home).await });
    }

    async fn serve(&self, request: Connect, home: Home) {
        let by = asker(&request);
        let back = match Callback::new(&home, &request.id) {
            Ok(back) => back,
            Err(why) => return tracing::error!("fleet: no watch for {by:?}: {why}"),
        };
        let watch = request.watch.unwrap_or_default();
        let query = watch.query.clone();
        match self.admit(watch) {
            Ok((reader, place)) => {
                tracing::info!("fleet: {by:?} watches {query:?}");
                self.show();
                let why = self.run(&back, reader).await;
                drop(place);
                self.show();
                tracing::info!("fleet: {by:?} does not watch {query:?} any more: {why}");
            }
            Err((reason, text)) => {
                tracing::warn!("fleet: no watch of {query:?} for {by:?}: {text}");
                self.counters.fleet.count("ogive_fleet_connections_refused_total", ("reason", reason));
                back.decline(reason, text).await;
            }
        }
    }

    /// What reads for a watch that is permitted; a reason and a sentence otherwise.
    fn admit(&self, watch: Watch) -> Result<(Reader, OwnedSemaphorePermit), (&'static str, String)> {
        let name = &self.broker.context.name;
        if !self.is_allowed {
            let text = format!(
                "the broker {name:?} lets nobody watch what comes to it; it does once \"watch\" is in allow of [fleet] in \
                 its own file {}, and it was restarted",
                self.file
            );
            return Err(("not_allowed", text));
        }
        let wrong = |why: String| ("other", format!("the broker {name:?} cannot watch: {why}"));
        watch.check().map_err(wrong)?;
        let matchers = selector(&watch.query).map_err(wrong)?;
        let tenant = Tenant::new(&watch.tenant).map_err(|error| wrong(error.to_string()))?;
        let full = |_| ("limit", format!("{BROKER_WATCHES_MAX} people watch the broker {name:?}, and no more can"));
        let place = self.places.clone().try_acquire_owned().map_err(full)?;
        let board = self.broker.context.board.clone();
        Ok((Reader { next: board.end(), board, cells: Cells::new(tenant, matchers, watch.quantiles) }, place))
    }

    /// Connects to the server and sends columns until somebody ends it; returns why.
    async fn run(&self, back: &Callback, reader: Reader) -> String {
        let stream = match back.open().await {
            Ok(stream) => stream,
            Err(why) => return why,
        };
        let (from, to) = split(stream);
        tokio::select! {
            why = heard(from) => why,
            why = send(to, reader, self.broker.context.clock) => why,
        }
    }

    fn show(&self) {
        let open = BROKER_WATCHES_MAX - self.places.available_permits();
        self.counters.fleet.set("ogive_fleet_watches", ("", ""), open as f64);
    }
}

fn selector(text: &str) -> Result<Vec<Matcher>, String> {
    ogive_query::parse_plain_selector(text).map_err(|error| error.to_string())
}

/// Reads what the server answers; returns why nobody watches any more.
async fn heard(mut from: impl AsyncRead + Unpin) -> String {
    let mut bytes = [0; 256];
    loop {
        match tokio::time::timeout(SILENCE, from.read(&mut bytes)).await {
            Err(_) => return format!("the server has answered nothing for {} s", SILENCE.as_secs()),
            Ok(Err(error)) => return format!("the connection to the server broke: {error}"),
            Ok(Ok(0)) => return "the server has closed it".into(),
            Ok(Ok(_)) => {}
        }
    }
}

/// Sends columns; returns why it cannot any more. What cannot be sent in a second is in the next column.
async fn send(mut to: impl AsyncWrite + Unpin, mut reader: Reader, clock: Clock) -> String {
    let mut due = MonoNs(clock.now()).saturating_add(COLUMN);
    loop {
        tokio::time::sleep(TURN).await;
        let until = MonoNs(clock.now()).saturating_add(Ns::from(WORK));
        let read = tokio::task::spawn_blocking(move || {
            reader.read(clock, until);
            reader
        });
        reader = match read.await {
            Ok(reader) => reader,
            Err(error) => return format!("the reading failed: {error}"),
        };
        let now = MonoNs(clock.now());
        if now < due {
            continue;
        }
        due = due.saturating_add(COLUMN).max(now);
        let line = reader.cells.line(clock.wall().div_euclid(1_000_000_000));
        match tokio::time::timeout(SILENCE, send_line(&mut to, &line)).await {
            Err(_) => return format!("the server has taken nothing for {} s", SILENCE.as_secs()),
            Ok(Err(error)) => return format!("the connection to the server broke: {error}"),
            Ok(Ok(())) => {}
        }
    }
}

/// Reads the newest records of the spool.
struct Reader {
    board: Arc<Board>,
    /// The next record.
    next: u64,
    cells: Cells,
}

impl Reader {
    /// Reads what became durable, until an instant of the clock.
    fn read(&mut self, clock: Clock, until: MonoNs) {
        let end = self.board.end();
        while self.next < end && MonoNs(clock.now()) < until {
            match self.board.recent(self.next) {
                Some(entry) => {
                    match Batch::decode(&entry.frame) {
                        Ok(batch) => self.cells.add(batch),
                        Err(_) => self.cells.skip(1),
                    }
                    self.next += 1;
                }
                None => {
                    // What went from memory is behind the others that wait for destinations, and not read again.
                    let first = self.board.tail_first().max(self.next + 1);
                    self.cells.skip(first - self.next);
                    self.next = first;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ogive_broker::{Options, Prepared, Spool};
    use ogive_journal::RealDisk;
    use ogive_model::{Kind, Sample, SeriesDef, SeriesMeta, SourceId, Temporality, Value, WallMs};

    use super::*;

    fn batch(sequence: u64) -> Batch {
        let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Delta, unit: String::new(), width_ms: 0 };
        let series = vec![Ok(SeriesDef::new([("__name__", "up")], meta).unwrap())];
        let sample = Sample { series: 0, time_ns: 1_000_000_000, start_ns: None, value: Value::Float(1.0) };
        Batch { source: SourceId(1), sequence, series, samples: vec![Ok(sample)], ..Batch::default() }
    }

    fn append(spool: &mut Spool, sequence: u64) {
        let batch = batch(sequence);
        let frame = batch.encode().unwrap();
        spool.append(WallMs(1), Prepared::new(batch, frame)).unwrap();
        spool.sync().unwrap();
    }

    fn column(reader: &mut Reader) -> serde_json::Value {
        let clock = Clock::global();
        reader.read(clock, MonoNs(clock.now()).saturating_add(Ns::from_secs(60)));
        serde_json::from_slice(&reader.cells.line(1)).unwrap()
    }

    /// A spool with room in memory for `tail_bytes`, and what reads from where it is.
    fn opened(tail_bytes: usize) -> (tempfile::TempDir, Spool, Reader) {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { segment_bytes: 1 << 20, tail_bytes, mark: 1, first: 0 };
        let mut spool = Spool::open(Arc::new(RealDisk), directory.path(), options).unwrap().0;
        append(&mut spool, 1);
        let cells = Cells::new(Tenant::default(), selector("up").unwrap(), Vec::new());
        let board = spool.board();
        (directory, spool, Reader { next: board.end(), board, cells })
    }

    #[test]
    fn what_comes_is_read_once_and_what_came_before_is_not() {
        let (_directory, mut spool, mut reader) = opened(1 << 20);
        assert_eq!(column(&mut reader)["cells"], serde_json::json!([]));
        // The third is a batch that was there.
        [2, 3, 3].into_iter().for_each(|sequence| append(&mut spool, sequence));
        let found = column(&mut reader);
        assert_eq!((&found["cells"][0]["value"], &found["cells"][0]["samples"]), (&"2".into(), &2.into()), "{found}");
        append(&mut spool, 4);
        assert_eq!(column(&mut reader)["cells"][0]["value"], "1");
    }

    #[test]
    fn what_is_gone_from_memory_is_counted() {
        // The latest record is always there.
        let (_directory, mut spool, mut reader) = opened(1);
        (2..=6).for_each(|sequence| append(&mut spool, sequence));
        let found = column(&mut reader);
        assert_eq!((&found["left_out"]["batches"], &found["cells"][0]["value"]), (&4.into(), &"1".into()), "{found}");
    }

    #[test]
    fn only_plain_selectors_are_watched() {
        assert_eq!(selector("up{a=\"b\"}").unwrap().len(), 2);
        // The server permits it, too.
        assert_eq!(selector("((up))").unwrap().len(), 1);
        for wrong in ["rate(up[1m])", "up offset 5m", "up @ 7", "up{"] {
            assert!(selector(wrong).is_err(), "{wrong}");
        }
    }
}
