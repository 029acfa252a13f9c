//! The spool as the listeners see it: a backend that acknowledges when a batch is durable here.
//!
//! Invariants: a reply comes after the fsync; batches that wait together become durable with one.
//! Threads: one writer owns the spool; it also gives up what is beyond the limits. A background thread saves the
//! cursors and notifies the writer which segments nobody needs.
//! Limits: those of the group commit (`ogive_spooling`). More is answered 429.
//! Failure: a full disk is reported to senders; a failed fsync refuses the whole group.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use ogive_broker::{Appended, GapReason, Prepared, Refusal as SpoolRefusal, Spool};
use ogive_journal::{Disk, RealDisk};
use ogive_model::{
    Batch, Matcher, MonoNs, Ms, Ns, Opening, Select, SelectError, Selection, SeriesData, Tenant, TimeRange, WallMs,
};

use super::shared::Broker;
use super::view;
use ogive_door::backend::{Backend, Fact, Reader, Refusal, Reply, Stamps};
use ogive_door::meters::Meters;
use ogive_door::own_value::OwnValue;
use ogive_spooling::{Committed, Queue, TURN};
use ogive_storage::disk_space;

/// See the module.
pub(super) struct Spooling {
    pub(super) broker: Arc<Broker>,
    queue: Queue,
}

impl Spooling {
    /// Starts the writer.
    pub(super) fn start(
        spool: Spool,
        broker: Arc<Broker>,
        meters: Arc<Meters>,
    ) -> anyhow::Result<(Self, std::thread::JoinHandle<()>)> {
        let (queue, writer) = Queue::new(spool, broker.context.clock);
        let owner = Owner { age_clock: age_clock(&broker), broker: Arc::clone(&broker), meters, problem: None };
        let thread = std::thread::Builder::new().name("spool".into()).spawn(move || writer.run(owner));
        Ok((Self { broker, queue }, thread.context("cannot start a thread")?))
    }

    /// Stops the writer after what was submitted.
    pub(super) fn end(&self) {
        self.queue.end();
    }
}

impl Backend for Spooling {
    fn submit(
        &self,
        batch: Batch,
        frame: Option<Vec<u8>>,
        stamps: Arc<dyn Stamps>,
        reply: Reply,
    ) -> Result<(), Refusal> {
        self.queue.submit(batch, frame, stamps, reply)
    }

    fn of<'a>(&'a self, _tenant: &'a Tenant) -> Box<dyn Reader + 'a> {
        Box::new(NoData(&self.broker))
    }

    fn facts(&self) -> Vec<Fact> {
        let board = &self.broker.context.board;
        // ORDERING: Relaxed; figures for people.
        let figure = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        [
            ("spool_bytes", board.bytes() as f64),
            ("spool_bytes_max", self.broker.limits().bytes_max as f64),
            ("spool_segments", board.segments().len() as f64),
            ("spool_records", board.end().saturating_sub(board.first()) as f64),
            ("spool_records_total", board.end() as f64),
            ("spool_series", figure(&self.broker.series)),
            ("spool_fsync_failures_total", figure(&self.broker.fsync_failures)),
            ("destinations", self.broker.destinations().len() as f64),
        ]
        .map(|(name, value)| Fact { name, value })
        .into()
    }

    fn own_values(&self) -> Vec<OwnValue> {
        // The cursors are beside the journal, in the directory of the spool.
        let cursors = &*self.broker.context.cursors;
        let directory = cursors.parent().unwrap_or(cursors);
        let mut out = disk_space::own_values([(directory, RealDisk.space(directory).ok())]);
        out.extend(view::own_values(&self.broker));
        out
    }

    fn own_label(&self) -> Option<(&'static str, String)> {
        Some(("broker", self.broker.context.name.clone()))
    }

    fn page(&self) -> &'static str {
        "broker.html"
    }

    fn broker(&self, tenant: Option<&Tenant>) -> Option<serde_json::Value> {
        Some(view::json(&self.broker, tenant))
    }
}

/// A broker's response to requests for data: where to send them instead.
struct NoData<'a>(&'a Broker);

impl NoData<'_> {
    fn word(&self) -> SelectError {
        let all = self.0.destinations();
        let places: Vec<&str> = all
            .iter()
            .filter_map(|one| one.config.endpoints.first().map(String::as_str))
            .filter(|url| url.starts_with("http"))
            .collect();
        let whom = if places.is_empty() { "a server".into() } else { places.join(" or ") };
        SelectError::Unavailable(format!("a broker keeps no data; ask {whom}"))
    }
}

impl Select for NoData<'_> {
    fn select(&self, _selection: &Selection) -> Result<Vec<SeriesData>, SelectError> {
        Err(self.word())
    }
}

impl Reader for NoData<'_> {
    fn label_names(&self, _: &[Matcher], _: TimeRange, _: &Opening<'_>) -> Result<Vec<String>, SelectError> {
        Err(self.word())
    }

    fn label_values(
        &self,
        _: &str,
        _: &[Matcher],
        _: TimeRange,
        _: usize,
        _: &Opening<'_>,
    ) -> Result<Vec<String>, SelectError> {
        Err(self.word())
    }
}

/// The clock of `age-max`: the wall clock, but on its own it advances no faster than twice the time that passes. A
/// clock that is set forward by mistake therefore drops an extra hour for each hour that it goes unnoticed, not the
/// whole spool, and a downtime is caught up with.
struct AgeClock {
    at: WallMs,
    looked: MonoNs,
    is_reported: bool,
}

/// 10 minutes ahead are worth reporting.
const NOTABLE: Ms = Ms::from_secs(600);

impl AgeClock {
    /// From the newest batch of the spool on, which is not ahead of the wall clock.
    fn new(newest: Option<WallMs>, now: MonoNs, wall: WallMs) -> Self {
        Self { at: newest.unwrap_or(wall).min(wall), looked: now, is_reported: false }
    }

    /// Its instant; and whether it was not reported yet that the wall clock is far ahead.
    fn look(&mut self, now: MonoNs, wall: WallMs) -> (WallMs, bool) {
        let passed = now.since(self.looked).to_ms();
        if passed > Ms::ZERO {
            let alone = self.at.saturating_add(passed.saturating_mul(2));
            (self.at, self.looked) = (alone.min(wall).max(self.at), now);
        }
        let is_far = wall.since(self.at) >= NOTABLE;
        let is_new = is_far && !self.is_reported;
        self.is_reported = is_far;
        (self.at.min(wall), is_new)
    }
}

fn age_clock(broker: &Broker) -> AgeClock {
    let newest = broker.context.board.segments().iter().filter_map(|segment| segment.arrival_last).max();
    AgeClock::new(newest, broker.context.now(), broker.context.wall())
}

/// The work of the group commit for a broker's spool.
struct Owner {
    age_clock: AgeClock,
    broker: Arc<Broker>,
    meters: Arc<Meters>,
    /// Why limits could not be enforced, as last reported.
    problem: Option<String>,
}

impl ogive_spooling::Owner for Owner {
    fn append(&mut self, spool: &mut Spool, batch: Prepared) -> Result<Appended, SpoolRefusal> {
        let reserved = self.broker.reserved();
        let now = self.broker.context.wall();
        if *reserved { spool.append(now, batch) } else { Err(SpoolRefusal::DiskFull) }
    }

    fn synced(&mut self, spool: &Spool, took_ns: u64, is_durable: bool) {
        self.meters.fsync.record_ns(took_ns);
        // ORDERING: Relaxed; figures for people.
        self.broker.series.store(spool.series() as u64, Ordering::Relaxed);
        self.broker.fsync_failures.fetch_add(u64::from(!is_durable), Ordering::Relaxed);
    }

    fn durable(&mut self, group: Vec<Committed>) {
        group.into_iter().for_each(|Committed { reply, verdict }| reply(Ok(verdict)));
        self.broker.bell().ring();
    }

    /// Removes what no destination needs, and drops what is beyond the limits.
    fn turn(&mut self, spool: &mut Spool) {
        let broker = Arc::clone(&self.broker);
        let done = broker.on_full_disk(|| self.truncate(spool)).and_then(|()| self.limit(spool));
        let problem = done.err().map(|error| format!("{error:#}"));
        if problem != self.problem {
            let said = problem.as_deref().unwrap_or("the spool is within its limits again");
            tracing::warn!("spool: {said}");
            self.problem = problem;
        }
    }
}

impl Owner {
    fn truncate(&self, spool: &mut Spool) -> anyhow::Result<()> {
        // ORDERING: Relaxed; see `save`.
        ogive_spooling::truncate(spool, self.broker.floor.load(Ordering::Relaxed))?;
        Ok(spool.rotate_by_age(self.broker.context.wall(), self.broker.limits())?)
    }

    fn limit(&mut self, spool: &mut Spool) -> anyhow::Result<()> {
        let context = &self.broker.context;
        let until = context.now().saturating_add(Ns::from(TURN));
        let (now, is_new) = self.age_clock.look(context.now(), context.wall());
        if is_new && self.broker.limits().age_max.is_some() {
            tracing::warn!(
                "spool: the clock is far ahead of the newest batches; by it alone age-max gives up an hour more for each hour \
                 that passes, until it is caught up with"
            );
        }
        while let Some((segment, is_age)) = spool.excess(now, self.broker.limits()) {
            if segment.positions().end >= self.broker.context.board.end() {
                spool.rotate()?;
            }
            // What every destination has is removed silently.
            let mut floor = self.broker.save();
            if floor < segment.positions().end {
                let why = if is_age { GapReason::SpoolAge } else { GapReason::SpoolBytes };
                for destination in self.broker.destinations() {
                    destination.give_up(&segment, why);
                }
                floor = self.broker.save();
            }
            spool.truncate_before(floor)?;
            // Submitters are not blocked for long.
            if self.broker.context.board.first() < segment.positions().end || self.broker.context.now() > until {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The wall clock jumped thirty days ahead, and the whole spool was older than `age-max`.
    #[test]
    fn a_clock_that_jumps_ages_the_spool_no_faster_than_time_passes() {
        let mono = |hours: i64| MonoNs(0).saturating_add(Ns::from_secs(3_600 * hours));
        let wall = |hours: i64| WallMs(0) + Ms::from_secs(3_600 * hours);
        let mut clock = AgeClock::new(Some(wall(10)), mono(0), wall(10));
        assert_eq!(clock.look(mono(1), wall(11)), (wall(11), false));
        assert_eq!(clock.look(mono(1), wall(700)), (wall(11), true));
        assert_eq!(clock.look(mono(2), wall(701)), (wall(13), false), "reported once");
        assert_eq!(clock.look(mono(2), wall(12)), (wall(12), false), "never ahead of the wall clock");
        // A broker that was down for a day goes on where its spool ends.
        let mut late = AgeClock::new(Some(wall(10)), mono(0), wall(34));
        assert_eq!(late.look(mono(12), wall(46)), (wall(34), true));
        assert_eq!(late.look(mono(24), wall(58)), (wall(58), false));
    }
}
