//! Reads from the shards, page by page: between two pages of a large read a shard serves others, and a read that
//! matches too much is refused before anything is gathered.
//!
//! Invariants: an answer contains everything acknowledged before the read, and each sample once: a series is read in
//! one page, at one instant of its shard. If a flush released data that the reader's blocks do not hold, the read
//! starts over with the blocks that do.
//! Threads: any number of readers.
//! Limits: for one message a shard examines [`PAGE_SERIES`](crate::ingest::request::PAGE_SERIES) series. The first
//! [`GATHERED_FIRST`] series are gathered as they are found; if there are more, they are counted first.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};

use ogive_model::{Charge, Kind, Labels, Opening, SelectError, SeriesData, Tenant, TimeRange};

use crate::first::First;
use crate::ingest::head::{Give, HeadAnswer, Listed, Listing, Page};
use crate::ingest::request::ReadRequest;
use crate::ingest::shard::ToShard;
use crate::ledger::Ledger;
use crate::series_request::SeriesRequest;
use crate::sway::sway;
use crate::view::View;
use crate::{Budget, Error};

/// A reader that was overtaken by this many flushes in a row meets a store that is broken, not busy.
const READ_TRIES_MAX: usize = 100;

/// 10,000 series are some milliseconds and megabytes: gathering them costs hardly more than counting them.
const GATHERED_FIRST: usize = if cfg!(test) { 5 } else { 10_000 };

/// The heads of a store, and the blocks that hold the rest.
#[derive(Clone, Copy)]
pub(crate) struct Heads<'s> {
    pub(crate) shards: &'s [SyncSender<ToShard>],
    pub(crate) ledger: &'s Ledger,
}

/// Where a shard puts a page, or that a flush overtook it.
type Answer<P> = Sender<Option<P>>;

/// The series that are asked for.
pub(crate) struct FoundHeads {
    /// The blocks that hold the rest.
    pub(crate) view: Arc<View>,
    /// Ascending by (labels, kind).
    pub(crate) heads: Vec<HeadAnswer>,
    /// For the heads.
    pub(crate) held: Charge,
}

/// What was found so far.
#[derive(Default)]
struct Gathered {
    found: Vec<HeadAnswer>,
    kinds: [usize; Kind::COUNT],
    held: Charge,
}

impl Heads<'_> {
    /// Finds the series that are asked for. `check` looks at the blocks before many series are gathered.
    pub(crate) fn find(
        self,
        requested: SeriesRequest<'_>,
        opening: &Opening<'_>,
        check: impl FnOnce(&View) -> Result<(), Error>,
    ) -> Result<FoundHeads, SelectError> {
        let (mut view, mut all) = self.gather(requested, opening, GATHERED_FIRST)?;
        let counted = all.kinds.iter().sum::<usize>();
        if counted > all.found.len() {
            check(&view)?;
            (opening.counted)(counted);
            (view, all) = self.gather(requested, opening, usize::MAX)?;
            debug_assert_eq!(
                all.kinds.iter().sum::<usize>(),
                all.found.len(),
                "each series that was counted is gathered"
            );
        }
        let mut heads = all.found;
        heads.sort_by(|a, b| (&a.def().labels, a.def().meta.kind).cmp(&(&b.def().labels, b.def().meta.kind)));
        debug_assert!(
            heads.is_sorted_by(|a, b| (&a.def().labels, a.def().meta.kind) < (&b.def().labels, b.def().meta.kind)),
            "each series is in one shard"
        );
        Ok(FoundHeads { view, heads, held: all.held })
    }

    /// Counts what is asked for, and gathers the first `most` of it or a few more.
    fn gather(
        self,
        requested: SeriesRequest<'_>,
        opening: &Opening<'_>,
        most: usize,
    ) -> Result<(Arc<View>, Gathered), SelectError> {
        let message = |request: &Arc<ReadRequest>, cursor, answer, all: &Gathered| {
            let give = if all.found.len() < most { Give::Samples } else { Give::Nothing };
            ToShard::Read { request: Arc::clone(request), cursor, give, answer }
        };
        self.walk(requested, message, Gathered::default, |all, page: Page| {
            if (opening.cancelled)() {
                return Err(SelectError::Cancelled);
            }
            all.kinds.iter_mut().zip(page.kinds).for_each(|(all, more)| *all += more);
            // Series of one kind have as many label sets.
            opening.check(all.kinds.into_iter().max().unwrap_or(0))?;
            all.held.absorb(opening.charge(page.found.iter().map(HeadAnswer::memory_bytes).sum())?);
            all.found.extend(page.found);
            Ok(page.next)
        })
    }

    /// What the heads hold of a selection, ascending, and the blocks that hold the rest.
    pub(crate) fn read(
        self,
        requested: SeriesRequest<'_>,
        labels_only: bool,
        budget: &mut Budget,
    ) -> Result<(Arc<View>, Vec<SeriesData>), SelectError> {
        let FoundHeads { view, heads, .. } = self.find(requested, &Opening::UNBOUNDED, |_| Ok(()))?;
        let data = heads.iter().map(|found| found.data(requested.range, labels_only, budget));
        Ok((view, data.collect::<Result<Vec<SeriesData>, Error>>()?))
    }

    /// Calls `each` with the labels of every series that is asked for, in any order, and gives what it made of them.
    pub(crate) fn each_labels<A>(
        self,
        requested: SeriesRequest<'_>,
        opening: &Opening<'_>,
        begin: impl FnMut() -> A,
        each: impl Fn(&mut A, &Labels) -> Result<(), SelectError>,
    ) -> Result<(Arc<View>, A), SelectError> {
        let message = |request: &Arc<ReadRequest>, cursor, answer, _: &A| {
            let request = Arc::clone(request);
            ToShard::Read { request, cursor, give: Give::Definitions, answer }
        };
        let mut counted = 0;
        self.walk(requested, message, begin, |all, page: Page| {
            if (opening.cancelled)() {
                return Err(SelectError::Cancelled);
            }
            counted += page.found.len();
            (opening.counted)(counted);
            page.found.iter().try_for_each(|found| each(all, &found.def().labels))?;
            Ok(page.next)
        })
    }

    /// The first `limit` texts that the heads list of all series of a tenant, and the blocks that hold the rest.
    pub(crate) fn list(
        self,
        tenant: &Tenant,
        range: TimeRange,
        listing: &Listing,
        limit: usize,
        opening: &Opening<'_>,
    ) -> Result<(Arc<View>, First<String>), SelectError> {
        let message = |request: &Arc<ReadRequest>, after, answer, _: &First<String>| {
            let (request, listing) = (Arc::clone(request), listing.clone());
            ToShard::List { request, listing, after, answer }
        };
        let begin = || First::new(limit, opening.held());
        self.walk(SeriesRequest { tenant, matchers: &[], range }, message, begin, |all, page: Listed| {
            // A page ascends, and the next one goes on behind it.
            if (opening.cancelled)() {
                return Err(SelectError::Cancelled);
            }
            let goes_on = page.texts.iter().all(|text| all.add(text.as_str()));
            all.check()?;
            Ok(page.next.filter(|_| goes_on).map(Some))
        })
    }

    /// Has every shard answer page after page: `message` asks for the page at a place, `take` adds it to what is there
    /// and returns where the next one begins.
    fn walk<A, P, C: Default>(
        self,
        requested: SeriesRequest<'_>,
        message: impl Fn(&Arc<ReadRequest>, C, Answer<P>, &A) -> ToShard,
        mut begin: impl FnMut() -> A,
        mut take: impl FnMut(&mut A, P) -> Result<Option<C>, SelectError>,
    ) -> Result<(Arc<View>, A), SelectError> {
        let SeriesRequest { tenant, matchers, range } = requested;
        'tries: for _ in 0..READ_TRIES_MAX {
            let view = self.ledger.view();
            sway();
            let (tenant, matchers, flushed) = (tenant.clone(), matchers.to_vec(), view.flushed);
            let request = Arc::new(ReadRequest { tenant, matchers, range, flushed });
            let mut all = begin();
            let ask = |shard: &SyncSender<ToShard>, place: C, all: &A| {
                sway();
                let (answer, page) = channel();
                shard.send(message(&request, place, answer, all)).map_err(|_| gone())?;
                Ok::<Receiver<Option<P>>, SelectError>(page)
            };
            let mut waiting = VecDeque::new();
            for shard in self.shards {
                waiting.push_back((shard, ask(shard, C::default(), &all)?));
            }
            while let Some((shard, page)) = waiting.pop_front() {
                // One that has released what these blocks do not hold makes the reader look again.
                let Some(page) = page.recv().map_err(|_| gone())? else { continue 'tries };
                if let Some(next) = take(&mut all, page)? {
                    waiting.push_back((shard, ask(shard, next, &all)?));
                }
            }
            return Ok((view, all));
        }
        Err(SelectError::Unavailable("the store flushes without end".into()))
    }
}

fn gone() -> SelectError {
    SelectError::Unavailable("a thread of the store has ended; restart the server".into())
}
