//! A shard: the one thread that writes its part of the head, fed through a bounded queue.
//!
//! Invariants: a read sees everything sent before it; a freeze splits the samples at one journal position, because the
//! writer sends it to every shard between two groups. Epochs rise, and each is frozen before it is released.
//! Threads: one for each shard; it ends when every sender is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ogive_model::Verdict;

use crate::ingest::Reply;
use crate::ingest::follow::{Audience, Follow, Following};
use crate::ingest::head::{Cursor, FloatRow, Frozen, Give, Head, Listed, Listing, Page, Placement};
use crate::ingest::owned::Owned;
use crate::ingest::request::ReadRequest;
use crate::ingest::stats::Stats;
use crate::sway::sway;

/// 8 messages wait for a shard: with groups of at most [`super::writer::GROUP_BYTES_MAX`] and one batch more,
/// some 100 MiB in the worst case; enough that a shard never waits for the writer.
pub(crate) const SHARD_QUEUE: usize = 8;

/// 16 rows are looked up at once: some three lines of cache each, 3 KiB of the innermost cache.
const TOUCHED_ROWS: usize = 16;
/// Three rows of a series: sorting costs less than looking two of them up again.
const ROWS_SORTED_MIN: usize = 3;

/// Messages to a shard.
pub(crate) enum ToShard {
    Apply {
        series: Vec<(u32, Arc<Owned>)>,
        samples: Placement,
        group: Arc<Group>,
    },
    Read {
        request: Arc<ReadRequest>,
        cursor: Cursor,
        give: Give,
        answer: Sender<Option<Page>>,
    },
    List {
        request: Arc<ReadRequest>,
        listing: Listing,
        /// Texts up to this one were listed.
        after: Option<String>,
        answer: Sender<Option<Listed>>,
    },
    /// `retired` are series without samples outside blocks; their slots may be given to others.
    Freeze {
        epoch: u64,
        retired: Vec<u32>,
        answer: Sender<Arc<Frozen>>,
    },
    Release {
        epoch: u64,
    },
    Follow(Audience, Follow),
}

/// Bytes and samples in all heads, frozen ones included.
#[derive(Default)]
pub(crate) struct HeadSize {
    pub(crate) bytes: AtomicU64,
    pub(crate) samples: AtomicU64,
    /// Of the bytes, those of frozen heads.
    pub(crate) frozen: AtomicU64,
    /// Bytes of the series themselves, beside those above.
    series: AtomicU64,
}

impl HeadSize {
    /// Sets what the series themselves take.
    pub(crate) fn set_series(&self, bytes: u64) {
        // ORDERING: Relaxed; a bound that is looked at again and again.
        self.series.store(bytes, Ordering::Relaxed);
    }

    /// What the series themselves take.
    pub(crate) fn series_bytes(&self) -> u64 {
        // ORDERING: Relaxed, as above.
        self.series.load(Ordering::Relaxed)
    }

    /// Everything.
    pub(crate) fn all_bytes(&self) -> u64 {
        // ORDERING: Relaxed, as above.
        self.bytes.load(Ordering::Relaxed) + self.series_bytes()
    }

    /// Whether the samples that a flush could move take half of what the series leave of `bytes_max`.
    pub(crate) fn is_half_full(&self, bytes_max: u64) -> bool {
        self.is_half_full_with(0, bytes_max)
    }

    /// As [`HeadSize::is_half_full`], with `more` bytes of samples.
    pub(crate) fn is_half_full_with(&self, more: u64, bytes_max: u64) -> bool {
        self.active_bytes().saturating_add(more) > bytes_max.saturating_sub(self.series_bytes()) / 2
    }

    /// So many bytes and samples of frozen heads are in blocks.
    fn release(&self, bytes: u64, samples: u64) {
        // ORDERING: Relaxed; sums that bounds and status look at, nothing else hangs on them.
        let all_bytes = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        let frozen = self.frozen.fetch_sub(bytes, Ordering::Relaxed);
        let all_samples = self.samples.fetch_sub(samples, Ordering::Relaxed);
        assert!(bytes <= all_bytes, "{bytes} bytes are released of {all_bytes}");
        assert!(bytes <= frozen, "{bytes} bytes are released of {frozen} that are frozen");
        assert!(samples <= all_samples, "{samples} samples are released of {all_samples}");
    }

    /// Bytes that a flush could move into a block, beside those that one is moving.
    fn active_bytes(&self) -> u64 {
        // ORDERING: Relaxed; a bound that is looked at again and again.
        self.bytes.load(Ordering::Relaxed).saturating_sub(self.frozen.load(Ordering::Relaxed))
    }
}

/// Batches that became durable together; the last shard to apply them counts their verdicts and sends their replies.
pub(crate) struct Group {
    left: AtomicUsize,
    replies: Mutex<Vec<(Reply, Verdict)>>,
    stats: Arc<Stats>,
}

impl Group {
    pub(crate) fn new(shards: usize, replies: Vec<(Reply, Verdict)>, stats: &Arc<Stats>) -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(shards), replies: Mutex::new(replies), stats: Arc::clone(stats) })
    }

    fn replies(&self) -> MutexGuard<'_, Vec<(Reply, Verdict)>> {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Points that were there already, by the number of their batch, once for each.
    fn known(&self, batches: &[u32]) {
        let mut replies = self.replies();
        for batch in batches {
            // What is replayed is answered to nobody.
            if let Some((_, verdict)) = replies.get_mut(*batch as usize).filter(|(_, verdict)| verdict.accepted > 0) {
                verdict.accepted -= 1;
                verdict.duplicate += 1;
            }
        }
    }

    fn applied(&self) {
        // ORDERING: AcqRel; the last one to count down sees what all others applied, and so do its replies.
        let left = self.left.fetch_sub(1, Ordering::AcqRel);
        assert!(left > 0, "each shard applies a group once");
        if left == 1 {
            for (reply, verdict) in std::mem::take(&mut *self.replies()) {
                self.stats.count(&verdict);
                reply(Ok(verdict));
            }
        }
    }
}

/// Starts a shard's thread.
pub(crate) fn start(number: usize, size: Arc<HeadSize>) -> (SyncSender<ToShard>, std::thread::JoinHandle<()>) {
    let (sender, receiver) = std::sync::mpsc::sync_channel(SHARD_QUEUE);
    let thread = std::thread::Builder::new().name(format!("shard-{number}"));
    let joined = thread.spawn(move || run(&receiver, &size)).expect("a thread can be started");
    (sender, joined)
}

fn run(receiver: &Receiver<ToShard>, size: &HeadSize) {
    let mut head = Head::default();
    let mut following = Following::default();
    let mut released = 0;
    while let Ok(message) = receiver.recv() {
        sway();
        match message {
            ToShard::Apply { series, samples, group } => {
                let before = (head.bytes, head.samples, head.clashes);
                for (index, owned) in series {
                    head.add_series(index, Arc::clone(&owned));
                    following.add_series(&mut head, index, &owned);
                }
                for rows in by_series(samples.floats, head.slots()).chunks(TOUCHED_ROWS) {
                    head.touch(rows);
                    rows.iter().for_each(|row| following.apply_float(&mut head, *row));
                }
                let mut known = Vec::new();
                for placed in samples.others {
                    let batch = placed.batch;
                    if !following.apply(&mut head, placed) {
                        known.push(batch);
                    }
                }
                if !known.is_empty() {
                    group.known(&known);
                }
                // ORDERING: Relaxed; sums that bounds and status look at, nothing else hangs on them. Wrapping
                // makes a cell that became smaller count down.
                size.bytes.fetch_add(head.bytes.wrapping_sub(before.0), Ordering::Relaxed);
                size.samples.fetch_add(head.samples - before.1, Ordering::Relaxed);
                // None, since the registry refuses such cells; were it not so, it would be seen.
                group.stats.written_clashes.add(head.clashes - before.2);
                group.applied();
            }
            ToShard::Read { request, cursor, give, answer } => {
                // A reader whose blocks are older than what was released would miss samples: it asks again.
                let known = request.flushed >= released;
                let page = known.then(|| head.select(&request, cursor, give));
                // A reader that went away does not want it.
                let _ = answer.send(page);
            }
            ToShard::List { request, listing, after, answer } => {
                // As above; its matchers are not looked at.
                let known = request.flushed >= released;
                let _ = answer.send(known.then(|| head.list(&request, &listing, after.as_deref())));
            }
            ToShard::Freeze { epoch, retired, answer } => {
                assert!(epoch > released, "epoch {epoch} was released with {released}");
                let frozen = head.freeze(epoch);
                head.retire(&retired);
                // ORDERING: Relaxed, as above.
                size.frozen.fetch_add(frozen.bytes, Ordering::Relaxed);
                let _ = answer.send(frozen);
            }
            ToShard::Release { epoch } => {
                assert!(epoch > released, "epoch {epoch} is released behind {released}");
                let (bytes, samples) = head.release(epoch);
                size.release(bytes, samples);
                released = epoch;
            }
            ToShard::Follow(audience, message) => following.obey(&mut head, audience, message),
        }
    }
}

/// Rows of one series behind each other, in their order, where a series has several on average, as in a replay: its
/// column is looked up in memory once then, which is most of what a row costs.
fn by_series(rows: Vec<FloatRow>, slots: usize) -> Vec<FloatRow> {
    if rows.len() < ROWS_SORTED_MIN * slots {
        return rows;
    }
    let mut places = vec![0_usize; slots];
    rows.iter().for_each(|row| places[row.index as usize] += 1);
    let mut end = 0;
    for place in &mut places {
        (end, *place) = (end + *place, end);
    }
    assert_eq!(end, rows.len(), "each row has a place");
    let mut sorted = vec![FloatRow { index: 0, time_ms: 0, value: 0.0 }; rows.len()];
    for row in rows {
        let place = &mut places[row.index as usize];
        sorted[*place] = row;
        *place += 1;
    }
    debug_assert!(sorted.is_sorted_by_key(|row| row.index), "rows of one series are behind each other");
    sorted
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use ogive_model::{Kind, Labels, SeriesDef, SeriesMeta, Temporality, Tenant, TimeRange};

    use super::*;
    use crate::ingest::owned::Family;

    #[test]
    fn rows_of_a_series_follow_each_other_in_their_order() {
        let row = |index, time_ms| FloatRow { index, time_ms, value: 0.5 };
        let of = |rows: Vec<FloatRow>| rows.iter().map(|row| (row.index, row.time_ms)).collect::<Vec<_>>();
        let mixed = vec![row(2, 5), row(0, 1), row(2, 3), row(0, 2), row(2, 5), row(0, 0)];
        assert_eq!(of(by_series(mixed.clone(), 3)), of(mixed.clone()), "too few to be worth it");
        assert_eq!(of(by_series([&mixed[..], &mixed[..3]].concat(), 3))[..4], [(0, 1), (0, 2), (0, 0), (0, 1)]);
        assert_eq!(of(by_series(Vec::new(), 0)), []);
    }

    /// A reader looked at the blocks, a flush published a new one and released its samples, and only then did the
    /// reader's question reach the shard: the samples are in neither, so it must look at the blocks again.
    #[test]
    fn a_reader_that_was_overtaken_by_a_flush_is_reported_so() {
        let (shard, thread) = start(0, Arc::new(HeadSize::default()));
        let labels = Labels::new([("__name__", "g")]).unwrap();
        let (kind, temporality) = (Kind::Float, Temporality::Gauge);
        let def = SeriesDef { labels, meta: SeriesMeta { kind, temporality, unit: String::new(), width_ms: 0 } };
        let owned = Arc::new(Owned::new(&Family::new(&Tenant::default(), &def), &def.labels));
        let row = FloatRow { index: 0, time_ms: 1, value: 1.0 };
        let (series, samples, group) = (
            vec![(0, owned)],
            Placement { floats: vec![row], ..Placement::default() },
            Group::new(1, Vec::new(), &Arc::default()),
        );
        shard.send(ToShard::Apply { series, samples, group }).unwrap();
        let ask = |flushed| {
            let (answer, found) = channel();
            let (tenant, matchers, range) = (Tenant::default(), Vec::new(), TimeRange::ALL);
            let request = Arc::new(ReadRequest { tenant, matchers, range, flushed });
            let (cursor, give) = (Cursor::default(), Give::Samples);
            shard.send(ToShard::Read { request, cursor, give, answer }).unwrap();
            found.recv().unwrap().map(|page| page.found.len())
        };
        assert_eq!(ask(0), Some(1), "active");
        let (answer, frozen) = channel();
        shard.send(ToShard::Freeze { epoch: 1, retired: Vec::new(), answer }).unwrap();
        assert_eq!(frozen.recv().unwrap().samples, 1);
        assert_eq!((ask(0), ask(1)), (Some(1), Some(0)), "frozen: for those who do not know the block");
        shard.send(ToShard::Release { epoch: 1 }).unwrap();
        assert_eq!((ask(0), ask(1)), (None, Some(0)), "released");
        drop(shard);
        thread.join().unwrap();
    }
}
