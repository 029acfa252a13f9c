//! One target, scraped each interval.
//!
//! Invariants: scrapes lie on a line of times that the target's number fixes, so that a restart goes on at the same
//! ones. What was fetched is stored before the next scrape begins. Each scrape is reported (`up` and its neighbours),
//! also one that failed.
//! Limits: [`BATCH_SAMPLES_MAX`] samples a batch; a store that is busy is asked [`TRIES`] times.

use std::sync::Arc;
use std::time::Duration;

use ogive_model::{Ns, Tenant, Verdict, WallNs};
use ogive_probe::Recorder;
use ogive_protocol::exposition::{Exposition, Format, decode};
use tokio::sync::watch;

use super::client::{Answer, Client, FetchOptions};
use super::config::{Job, Protocol};
use super::context::Context;
use super::series::{Cache, Item, Report, Rules, batch, flipped};
use super::target::Target;
use super::view::{Family, Last, PoolView, TargetView};
use ogive_door::backend::Refusal;
use ogive_door::counters::{self, MALFORMED};
use ogive_door::ingest_path::Publisher;
use ogive_door::senders::sent_by;
use ogive_door::submission::stored;

/// 20,000 samples: a batch of some 1 MB.
const BATCH_SAMPLES_MAX: usize = 20_000;
/// 6 attempts, 0.1 s apart and then twice as long each: 3 s.
const TRIES: u32 = 6;
/// 64 KiB are parsed in a millisecond; larger pages are parsed while other tasks move to another thread.
const INLINE_BYTES_MAX: usize = 64 << 10;
/// A scrape that started up to this much late is reported at its due time: equal distances take less space.
const TOLERANCE: Ns = Ns(2_000_000);

/// Whether a target, or a job, continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Not,
    /// Another takes over.
    HandOver,
    /// Its series end.
    End,
}

/// See the module.
pub(super) struct Scrape {
    context: Arc<Context>,
    job: Arc<Job>,
    pool: Arc<PoolView>,
    view: Arc<TargetView>,
    client: Client,
    accept: String,
    recorder: Recorder,
    cache: Cache,
}

/// A scrape that failed: the error to report, and the reason to count if there was a response.
struct Failure(String, Option<&'static str>);

impl Scrape {
    pub(super) fn new(
        context: Arc<Context>,
        job: Arc<Job>,
        tls: Arc<rustls::ClientConfig>,
        pool: Arc<PoolView>,
        view: Arc<TargetView>,
    ) -> Self {
        let client = Client::new(job.access.clone(), context.files, tls);
        let recorder = Recorder::default();
        let cache = Cache::new(&view.target.labels, view.target.interval);
        Self { accept: accept(&job.protocols), context, job, pool, view, client, recorder, cache }
    }

    /// Scrapes until it is stopped.
    pub(super) async fn run(
        mut self,
        cache: Option<Cache>,
        mut stopping: watch::Receiver<Stop>,
        forced: watch::Receiver<Option<String>>,
    ) -> Cache {
        if let Some(cache) = cache {
            self.cache = cache;
        }
        let (job, view) = (self.job.clone(), self.view.clone());
        let labels = [("job", job.name.as_str()), ("instance", view.target.label("instance"))];
        self.context.door.meters.scrape(&labels, &self.recorder);
        let mut due = None;
        loop {
            let next = self.next(due);
            let wait = next.since(WallNs(self.context.door.clock.wall())).to_duration();
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                _ = stopping.wait_for(|stop| *stop != Stop::Not) => break,
            }
            due = Some(next);
            let forced = forced.borrow().clone();
            let from = self.context.door.clock.now();
            // A fetch in flight at the end is abandoned; what was fetched is stored.
            let fetched = tokio::select! {
                fetched = self.fetch(forced) => fetched,
                _ = stopping.wait_for(|stop| *stop != Stop::Not) => break,
            };
            self.scraped(fetched, from, next).await;
        }
        self.context.door.meters.scrape_ended(&labels);
        let stop = *stopping.borrow();
        if stop == Stop::End {
            Self::end_of(&self.context, &self.job, &self.view.target, &mut self.cache).await;
        }
        self.cache
    }

    /// When the next scrape is due, in wall time, behind the one at `due`.
    fn next(&self, due: Option<WallNs>) -> WallNs {
        let interval = Ns::from(self.view.target.interval).max(Ns(1));
        let offset = Ns((self.view.target.number() % interval.0 as u64) as i64);
        let now = WallNs(self.context.door.clock.wall());
        let behind = due.filter(|due| now.since(*due).saturating_abs() < interval).map_or(now, |due| now.max(due));
        // The first time on the target's line behind it.
        (behind - offset).align_down(interval).saturating_add(interval).saturating_add(offset)
    }

    async fn fetch(&mut self, forced: Option<String>) -> Result<Answer, Failure> {
        if let Some(sentence) = forced {
            return Err(Failure(sentence, None));
        }
        let timeout = self.view.target.timeout;
        let headers = [("x-prometheus-scrape-timeout-seconds", timeout.as_secs_f64().to_string())];
        let ask = FetchOptions {
            accept: &self.accept,
            compression: self.job.compression,
            bytes_max: self.job.limits.body_bytes,
            headers: &headers,
        };
        match tokio::time::timeout(timeout, self.client.get(&self.view.target.url, &ask)).await {
            Ok(answer) => answer.map_err(|sentence| Failure(sentence, None)),
            Err(_) => Err(Failure(format!("no answer within {}", ogive_text::duration::write(timeout)), None)),
        }
    }

    /// Stores the result of a fetch, or its failure, and the report about it.
    async fn scraped(&mut self, fetched: Result<Answer, Failure>, from: u64, due: WallNs) {
        let clock = self.context.door.clock;
        let took_ns = clock.now().saturating_sub(from);
        self.recorder.record_ns(took_ns);
        let began = WallNs(clock.wall()) - Ns(took_ns as i64);
        let time = if began.since(due).saturating_abs() <= TOLERANCE { due } else { began };
        // Times are stored in milliseconds.
        let time = time.to_ms().to_ns();
        let mut report = Report { seconds: took_ns as f64 / 1e9, ..Report::default() };
        let mut last = Last { time, took: Duration::from_nanos(took_ns), ..self.view.last() };
        last.error.clear();
        let context = self.context.clone();
        let ledger = context.door.counters.of(counters::Protocol::Scrape);
        let done = match fetched {
            Err(failure) => Err(failure),
            Ok(answer) => {
                ledger.bytes.add(answer.body.len() as u64);
                self.page(&answer, time, &mut report, &mut last).await
            }
        };
        if let Err(Failure(sentence, reason)) = done {
            if let Some(reason) = reason {
                ledger.unreadable(reason, 1);
            }
            last.error = sentence;
            let items = self.cache.end_all(self.job.track_timestamps, time);
            store(&self.context, &self.job, &self.view.target, &mut self.cache, items, None).await;
        }
        report.is_up = last.error.is_empty();
        let items = self.cache.report(&self.job.tenant, Some(report), time);
        store(&self.context, &self.job, &self.view.target, &mut self.cache, items, None).await;
        self.view.set(last);
    }

    async fn page(
        &mut self,
        answer: &Answer,
        time: WallNs,
        report: &mut Report,
        last: &mut Last,
    ) -> Result<(), Failure> {
        let format = format(answer, self.job.fallback)?;
        let _turn = self.context.decoding.acquire().await;
        let read = if answer.body.len() <= INLINE_BYTES_MAX {
            decode(format, &answer.body)
        } else {
            tokio::task::block_in_place(|| decode(format, &answer.body))
        };
        let read = read.map_err(|error| Failure(explained(&error, format), Some(MALFORMED)))?;
        let rules = Rules {
            job: &self.job,
            labels: &self.view.target.labels,
            tenant: &self.job.tenant,
            interval: self.view.target.interval,
        };
        report.scraped = read.points.len() as u64;
        let round = self.cache.take(&rules, &read, time).map_err(|sentence| Failure(sentence, Some("limit")))?;
        (report.scraped, report.kept, report.added) = (round.scraped, round.kept, round.added);
        let ledger = self.context.door.counters.of(counters::Protocol::Scrape);
        for (reason, count) in [("duplicate_series", round.duplicates), ("exemplar", round.bad_events)] {
            if count > 0 {
                ledger.unreadable(reason, count);
            }
        }
        self.learn(&read, last);
        store(&self.context, &self.job, &self.view.target, &mut self.cache, round.items, Some(&read)).await;
        Ok(())
    }

    /// Records the metadata of the metrics.
    fn learn(&self, read: &Exposition<'_>, last: &mut Last) {
        let families = read.families.iter().map(|family| Family {
            name: family.name.clone().into_owned(),
            kind: family.kind,
            help: family.help.clone().into_owned(),
            unit: family.unit.clone().into_owned(),
        });
        let families: Vec<Family> = families.collect();
        let is_new = *last.families != families;
        if is_new {
            last.families = self.pool.share(families);
        }
        let metadata = &self.context.door.metadata;
        for family in last.families.iter() {
            metadata.learn(&self.job.tenant, &family.name, family.kind, &family.help, &family.unit);
        }
    }

    /// Ends the series of a target that was removed.
    pub(super) async fn end(context: &Context, job: &Job, target: &Target, mut cache: Cache) {
        Self::end_of(context, job, target, &mut cache).await;
    }

    async fn end_of(context: &Context, job: &Job, target: &Target, cache: &mut Cache) {
        let now = WallNs(context.door.clock.wall()).to_ms().to_ns();
        let mut items = cache.end_all(job.track_timestamps, now);
        items.extend(cache.report(&job.tenant, None, now));
        store(context, job, target, cache, items, None).await;
    }
}

/// The `Accept` header for `protocols`, in order of preference.
fn accept(protocols: &[Protocol]) -> String {
    let of = |(at, protocol): (usize, &Protocol)| {
        let weight = protocols.len() + 1 - at;
        format!("{};q=0.{weight}", protocol.content_type())
    };
    let named: Vec<String> = protocols.iter().enumerate().map(of).collect();
    format!("{},*/*;q=0.1", named.join(","))
}

/// The format of a response.
fn format(answer: &Answer, fallback: Option<Protocol>) -> Result<Format, Failure> {
    let found = Format::from_content_type(&answer.content_type)
        .or_else(|| fallback.and_then(|protocol| Format::from_content_type(protocol.content_type())));
    match found {
        Some(Format::Text { .. }) => Ok(Format::Text { is_whole: answer.is_whole }),
        Some(format) => Ok(format),
        None => Err(Failure(
            format!(
                "the answer's content type is {:?}, which is no exposition; fallback_scrape_protocol says what to take it for",
                answer.content_type
            ),
            Some("content_type"),
        )),
    }
}

fn explained(error: &ogive_protocol::Error, format: Format) -> String {
    match format {
        Format::OpenMetrics { .. } => {
            format!(
                "{error} (OpenMetrics refuses the whole answer; scrape_protocols: [PrometheusText0.0.4] asks for a tolerant form)"
            )
        }
        _ => error.to_string(),
    }
}

/// Stores items, in as many batches as they need.
async fn store(
    context: &Context,
    job: &Job,
    target: &Target,
    cache: &mut Cache,
    items: Vec<Item>,
    read: Option<&Exposition<'_>>,
) {
    let rules = Rules { job, labels: &target.labels, tenant: &job.tenant, interval: target.interval };
    for chunk in items.chunks(BATCH_SAMPLES_MAX) {
        let mut chunk = chunk.to_vec();
        // Once more for series that the store has forgotten, once for those that it knows with another temporality.
        for _ in 0..3 {
            if chunk.is_empty() {
                break;
            }
            match sent_by(target.url.to_string().into(), submit(context, &job.tenant, &chunk)).await {
                Ok(verdict) => {
                    if verdict.folded == 0 {
                        cache.stored(&chunk, &verdict.rejected);
                    }
                    chunk = flipped(&chunk, &verdict.rejected);
                }
                Err(Refusal::UnknownSeries { unknown, .. }) => {
                    cache.declare_again(&rules, read, &mut chunk, &unknown);
                }
                // It is counted as refused.
                Err(_) => break,
            }
        }
    }
}

async fn submit(context: &Context, tenant: &Tenant, items: &[Item]) -> Result<Verdict, Refusal> {
    let door = &context.door;
    let mut pause = Duration::from_millis(100);
    for _ in 1..TRIES {
        match submit_once(context, tenant, items).await {
            Err(Refusal::Busy) if !*door.ending.borrow() => tokio::time::sleep(pause).await,
            done => return done,
        }
        pause *= 2;
    }
    submit_once(context, tenant, items).await
}

async fn submit_once(context: &Context, tenant: &Tenant, items: &[Item]) -> Result<Verdict, Refusal> {
    let door = &context.door;
    let way = door.meters.ingest.begin_made();
    let batch = batch(items, tenant, door.numbers.next());
    let frame = batch.encode().map_err(|error| Refusal::TooLarge(error.to_string()))?;
    let verdict = stored(door, counters::Protocol::Scrape, batch, frame, &way).await?;
    door.meters.ingest.finish(way, Publisher::Of(counters::Protocol::Scrape));
    Ok(verdict)
}
