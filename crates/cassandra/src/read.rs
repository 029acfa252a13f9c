//! Reads: what is pending on this node and the rows of the clusters, merged as a set.
//!
//! Invariants: pending fragments are read before the clusters, so that fragments that move there meanwhile are not
//! missed. A row that fails its checksum is left out, counted and reported; an answer without a majority reports the
//! number of replicas it comes from. Every cluster that is not away is asked, and the answer is the union of theirs:
//! each may lack what another node has only brought to the other one. One that does not answer is named.
//! Limits: [`PARTITIONS`] partitions are read at once; the memory held is charged to the query's budget.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use ogive_model::{
    Charge, Kind, Labels, Matcher, Ms, Opening, Partial, ReadSeries, Reader, Select, SelectError, Selection,
    SeriesData, SeriesId, SeriesSet, Tenant, TimeRange, WallNs,
};

use crate::cluster::{Cluster, Consistent, Copies};
use crate::coarse::{self, QueryWindow, Usable};
use crate::columns::{self, Pieces};
use crate::fragment::Piece;
use crate::index::CatalogSeries;
use crate::keeping::RetentionPeriods;
use crate::rollup::HOUR;
use crate::schema::{BUCKET_MINUTES, DAY_MINUTES, Table, day, minute};
use crate::shared::Shared;
use crate::site::Site;
use crate::spans::{BucketSpan, spans_of_days};
use crate::stored::{self, CellRow};
use crate::waiting::all_of;
use crate::wanted::SeriesPlan;
use crate::{Error, fan_out};

/// 48 partitions at once: 16 for each of three copies.
const PARTITIONS: usize = 48;

/// One tenant's part of what a node sees.
pub(crate) struct View<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) tenant: &'a Tenant,
}

/// What is not as it should be about an answer.
#[derive(Default)]
struct Doubts {
    /// The fewest copies that answered, of how many.
    fewest: Option<(usize, usize)>,
    /// Clusters that did not answer, by number: their names, and why.
    silent: BTreeMap<usize, String>,
    corrupt: u64,
    conflicts: u64,
    cells: u64,
}

/// What one cluster has of some series.
struct Part {
    /// In their order.
    pieces: Vec<Pieces>,
    reached: Vec<Consistent>,
    corrupt: u64,
}

impl Doubts {
    fn reached(&mut self, consistent: Consistent) {
        if let Consistent::Union { answered, copies } = consistent
            && answered < copies
            && self.fewest.is_none_or(|(fewest, _)| answered < fewest)
        {
            self.fewest = Some((answered, copies));
        }
    }

    fn warnings(&self, unseen: u64) -> Vec<String> {
        let mut out: Vec<String> = self.silent.values().cloned().collect();
        if let Some((answered, copies)) = self.fewest {
            out.push(format!("only {answered} of {copies} copies answered; what only the others have is missing"));
        }
        if self.corrupt > 0 {
            out.push(format!(
                "{} stored rows failed their checksum; what other copies have of them is in the answer",
                self.corrupt
            ));
        }
        if self.conflicts > 0 {
            out.push(format!("{} batches came with different samples under one number", self.conflicts));
        }
        if self.cells > 0 {
            out.push(format!("{} cells are not whole: their parts have schemes that do not merge", self.cells));
        }
        if unseen > 0 {
            out.push(format!("{unseen} batches wait in this node's spool and are not in the answer"));
        }
        out
    }
}

fn unavailable(error: impl std::fmt::Display) -> SelectError {
    SelectError::Unavailable(error.to_string())
}

/// The minutes that hold samples of a range.
fn minutes(range: TimeRange) -> RangeInclusive<i32> {
    minute(range.start.saturating_add(Ms(1))).max(0)..=minute(range.end)
}

/// The sentence about a cluster that is not in an answer.
fn silent(site: &Site, why: &dyn std::fmt::Display) -> String {
    format!("{} did not answer; what only it has is missing ({why})", site.name())
}

/// What a cluster has of some series.
async fn part(
    at: usize,
    site: &Site,
    cluster: &Cluster,
    some: &[SeriesPlan],
    first_copies: Copies,
) -> Result<Part, Error> {
    let mut places: Vec<(usize, BucketSpan)> = Vec::new();
    for (number, one) in some.iter().enumerate() {
        let days: Vec<i32> = one.days_at(at).collect();
        for minutes in one.raw.iter().map(|range| minutes(*range)) {
            let spans = spans_of_days(&days, &minutes, BUCKET_MINUTES, DAY_MINUTES);
            places.extend(spans.map(|span| (number, span)));
        }
    }
    let pieces = some.iter().map(|_| Pieces::default()).collect();
    let mut part = Part { pieces, reached: Vec::new(), corrupt: 0 };
    for places in places.chunks(PARTITIONS) {
        let table = |number: usize| Table::from_series(&some[number].known.def);
        let reads = places
            .iter()
            .map(|(number, span)| cluster.cells(table(*number), some[*number].known.id, *span, first_copies));
        for ((number, span), read) in places.iter().zip(all_of(reads.collect()).await) {
            let (rows, consistent) = read?;
            part.reached.push(consistent);
            site.figures.unions.add(u64::from(consistent != Consistent::Majority));
            let series = some[*number].known.id;
            let bad = take(series, rows, &mut part.pieces[*number]);
            part.corrupt += bad;
            if bad > 0 && consistent == Consistent::Majority {
                // The others may have the rows as they were written.
                let (rows, consistent) = cluster.cells(table(*number), series, *span, Copies::All).await?;
                part.reached.push(consistent);
                take(series, rows, &mut part.pieces[*number]);
            }
        }
    }
    site.figures.corrupt.add(part.corrupt);
    Ok(part)
}

/// Takes up the rows that are what was written; gives how many are not.
fn take(series: SeriesId, rows: Vec<CellRow>, pieces: &mut Pieces) -> u64 {
    let mut corrupt = 0;
    for row in &rows {
        match stored::pieces(series, row) {
            Ok(all) => all.into_iter().for_each(|piece| pieces.add(piece)),
            Err(_) => corrupt += 1,
        }
    }
    corrupt
}

impl View<'_> {
    /// The clusters to ask, by number: those that are not away; all that were ever reached when every one is.
    fn asked(&self, doubts: &mut Doubts) -> Result<Vec<(usize, &Site, &Cluster)>, SelectError> {
        let all = || self.shared.sites.iter().enumerate();
        let present: Vec<_> =
            all().filter_map(|(at, site)| site.present().map(|cluster| (at, &**site, cluster))).collect();
        if present.is_empty() {
            let reached: Vec<_> =
                all().filter_map(|(at, site)| site.cluster.get().map(|cluster| (at, &**site, cluster))).collect();
            return if reached.is_empty() { Err(unavailable("the cluster was not reached yet")) } else { Ok(reached) };
        }
        for (at, site) in all().filter(|(at, _)| !present.iter().any(|(other, ..)| other == at)) {
            doubts.silent.insert(at, silent(site, &"it is away"));
        }
        Ok(present)
    }

    /// What those answer that do, by number; an error when nobody does.
    fn answered<T>(
        &self,
        asked: &[(usize, &Site, &Cluster)],
        doubts: &mut Doubts,
        ask: impl AsyncFn(usize, &Site, &Cluster) -> Result<T, Error>,
    ) -> Result<Vec<(usize, T)>, SelectError> {
        let asking = asked.iter().map(|(at, site, cluster)| ask(*at, site, cluster)).collect();
        let answers = self.shared.block_on(fan_out::answers(asking));
        let mut out = Vec::new();
        let mut failed = Vec::new();
        for ((at, site, _), answer) in asked.iter().zip(answers) {
            match answer {
                Ok(answer) => out.push((*at, answer)),
                Err(error) => failed.push((*at, *site, error)),
            }
        }
        if out.is_empty() {
            let error = failed.into_iter().next().map(|(.., error)| error);
            return Err(unavailable(error.expect("somebody was asked")));
        }
        for (at, site, error) in failed {
            site.set_away(true);
            doubts.silent.insert(at, silent(site, &error));
        }
        Ok(out)
    }

    /// The series that match, by labels and kind.
    fn wanted(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        doubts: &mut Doubts,
    ) -> Result<Vec<SeriesPlan>, SelectError> {
        // Before the clusters: see the module.
        let pending: Vec<_> =
            self.shared.sites.iter().flat_map(|site| site.pending.find(self.tenant, matchers)).collect();
        let minutes = minutes(range);
        let days = day(*minutes.start())..=day(*minutes.end());
        let asked = self.asked(doubts)?;
        let refreshed = self.answered(&asked, doubts, async |_, site, cluster| {
            site.refresh(cluster, self.shared.clock).await?;
            site.index.refresh(cluster, &days, &site.figures, self.shared.clock).await
        })?;
        let mut all: BTreeMap<(Labels, Kind), SeriesPlan> = BTreeMap::new();
        let key = |known: &CatalogSeries| (known.def.labels.clone(), known.def.meta.kind);
        for (at, reached) in refreshed {
            reached.into_iter().for_each(|one| doubts.reached(one));
            for (known, days) in self.shared.sites[at].index.find(self.tenant, matchers, &days) {
                all.entry(key(&known)).or_insert_with(|| SeriesPlan::new(&known)).days.push((at, days));
            }
        }
        for (known, pieces) in pending {
            let mut pieces: Vec<_> = pieces.into_iter().filter(|piece| minutes.contains(&piece.minute)).collect();
            if !pieces.is_empty() {
                all.entry(key(&known)).or_insert_with(|| SeriesPlan::new(&known)).pending.append(&mut pieces);
            }
        }
        let mut all: Vec<SeriesPlan> = all.into_values().collect();
        let sites = &self.shared.sites;
        all.iter_mut()
            .for_each(|one| one.hidden = sites.iter().flat_map(|site| site.deletions.hidden(&one.known)).collect());
        Ok(all)
    }

    /// Chooses what is read as rollups, and reads it.
    fn choose(&self, some: &mut [SeriesPlan], selection: &Selection, doubts: &mut Doubts) -> Result<(), SelectError> {
        let asked: Vec<_> = self.asked(doubts)?;
        let longest = |of: fn(&RetentionPeriods) -> Option<Duration>| {
            asked.iter().map(|(.., cluster)| of(&cluster.kept())).reduce(|one, other| Some(one?.max(other?))).flatten()
        };
        let kept = RetentionPeriods {
            numbers: longest(|kept| kept.numbers),
            minutes: longest(|kept| kept.minutes),
            hours: longest(|kept| kept.hours),
            logs: longest(|kept| kept.logs),
        };
        let now = asked[0].2.now();
        let (range, resolution) = (selection.range, selection.resolution);
        let want = QueryWindow { range, resolution, now, kept };
        let is_short = range.length() < HOUR;
        let mut answers: Vec<Vec<Usable>> = some.iter().map(|_| Vec::new()).collect();
        if !is_short {
            let answered = self.answered(&asked, doubts, async |at, _, cluster| {
                let each = some.iter().map(|one| coarse::usable(cluster, at, one, &want)).collect();
                all_of(each).await.into_iter().collect::<Result<Vec<Usable>, Error>>()
            })?;
            for (_, usable) in answered {
                answers.iter_mut().zip(usable).for_each(|(all, one)| all.push(one));
            }
        }
        for (one, usable) in some.iter_mut().zip(answers) {
            coarse::choose(one, usable, &want).map_err(|error| SelectError::Corrupt(error.to_string()))?;
        }
        Ok(())
    }

    fn read(
        &self,
        selection: &Selection,
        opening: &Opening<'_>,
    ) -> Result<(Vec<SeriesData>, Vec<String>, Charge), SelectError> {
        let mut doubts = Doubts::default();
        let mut wanted = self.wanted(&selection.matchers, selection.range, &mut doubts)?;
        let label_sets: BTreeSet<&Labels> = wanted.iter().map(|one| &one.known.def.labels).collect();
        opening.check(label_sets.len())?;
        (opening.counted)(label_sets.len());
        let (mut out, mut held, mut samples) = (Vec::new(), opening.held(), 0);
        for some in wanted.chunks_mut(PARTITIONS) {
            if (opening.cancelled)() {
                return Err(SelectError::Cancelled);
            }
            if selection.labels_only {
                out.extend(some.iter().map(|one| columns::empty(&one.known.def)));
                continue;
            }
            self.choose(some, selection, &mut doubts)?;
            let pieces = self.pieces(some, selection.range, &mut doubts)?;
            for (one, pieces) in some.iter_mut().zip(pieces) {
                held.grow(pieces.bytes())?;
                let found = pieces.samples(&one.raw, &one.hidden);
                let found = found.map_err(|error| SelectError::Corrupt(error.to_string()))?;
                samples += columns::weight(&found) + one.coarse.iter().map(columns::weight_of).sum::<usize>();
                if samples > selection.samples_max {
                    return Err(SelectError::TooManySamples { limit: selection.samples_max });
                }
                if !found.is_empty() || !one.coarse.is_empty() {
                    let (data, lost) = columns::with_cells(&one.known.def, found, std::mem::take(&mut one.coarse));
                    doubts.cells += lost;
                    out.push(data);
                }
            }
        }
        Ok((out, doubts.warnings(self.shared.spooling.unseen()), held))
    }

    /// Whether a range is only of what is watched as it comes: see `live` of the address.
    fn is_live(&self, range: TimeRange) -> bool {
        let live = self.shared.sites[0].address.live;
        let now = WallNs(self.shared.clock.wall()).to_ms();
        !live.is_zero() && range.start >= now.saturating_sub(Ms::from(live))
    }

    /// What the clusters have of some series, and what is pending of them.
    fn pieces(&self, some: &[SeriesPlan], range: TimeRange, doubts: &mut Doubts) -> Result<Vec<Pieces>, SelectError> {
        let mut out: Vec<Pieces> = some.iter().map(|_| Pieces::default()).collect();
        let holds = |at: usize| some.iter().any(|one| one.days.iter().any(|(holder, _)| *holder == at));
        let asked: Vec<_> = self.asked(doubts)?.into_iter().filter(|(at, ..)| holds(*at)).collect();
        if !asked.is_empty() {
            let copies = if self.is_live(range) { Copies::One } else { Copies::Majority };
            let parts =
                self.answered(&asked, doubts, async |at, site, cluster| part(at, site, cluster, some, copies).await)?;
            for (_, part) in parts {
                part.reached.into_iter().for_each(|one| doubts.reached(one));
                doubts.corrupt += part.corrupt;
                for (pieces, found) in out.iter_mut().zip(part.pieces) {
                    pieces.add_all(found);
                }
            }
        }
        for (one, pieces) in some.iter().zip(&mut out) {
            let ahead_us = self.shared.sites[0].cluster.get().map_or(0, Cluster::ahead_us);
            for piece in &one.pending {
                let arrived_us = piece.arrived_us.saturating_add(ahead_us);
                pieces.add(if ahead_us == 0 {
                    Arc::clone(piece)
                } else {
                    Arc::new(Piece { arrived_us, ..(**piece).clone() })
                });
            }
            doubts.conflicts += pieces.conflicts;
            self.shared.sites[0].figures.conflicts.add(pieces.conflicts);
        }
        Ok(out)
    }

    /// The labels of the series that match and have samples on a day of the range.
    fn labels(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        opening: &Opening<'_>,
    ) -> Result<BTreeSet<Labels>, SelectError> {
        let wanted = self.wanted(matchers, range, &mut Doubts::default())?;
        let labels: BTreeSet<Labels> = wanted.into_iter().map(|one| one.known.def.labels.clone()).collect();
        opening.check(labels.len())?;
        Ok(labels)
    }
}

impl Select for View<'_> {
    fn select(&self, selection: &Selection) -> Result<Vec<SeriesData>, SelectError> {
        Ok(self.read(selection, &Opening::UNBOUNDED)?.0)
    }

    fn select_partial(&self, selection: &Selection) -> Result<Partial, SelectError> {
        let (series, warnings, _) = self.read(selection, &Opening::UNBOUNDED)?;
        Ok(Partial { series, warnings })
    }

    fn open<'a>(
        &'a self,
        selection: &Selection,
        opening: &Opening<'_>,
    ) -> Result<Box<dyn SeriesSet + 'a>, SelectError> {
        let (series, warnings, held) = self.read(selection, opening)?;
        Ok(Box::new(ReadSeries::from(Partial { series, warnings }).holding(held)))
    }

    fn label_sets(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        limit: usize,
        opening: &Opening<'_>,
    ) -> Result<BTreeSet<Labels>, SelectError> {
        Ok(self.labels(matchers, range, opening)?.into_iter().take(limit).collect())
    }
}

impl Reader for View<'_> {
    fn label_names(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        opening: &Opening<'_>,
    ) -> Result<Vec<String>, SelectError> {
        let all = self.labels(matchers, range, opening)?;
        let names: BTreeSet<&str> = all.iter().flat_map(|one| one.iter().map(|(name, _)| name)).collect();
        Ok(names.into_iter().map(str::to_owned).collect())
    }

    fn label_values(
        &self,
        name: &str,
        matchers: &[Matcher],
        range: TimeRange,
        limit: usize,
        opening: &Opening<'_>,
    ) -> Result<Vec<String>, SelectError> {
        let all = self.labels(matchers, range, opening)?;
        let values: BTreeSet<&str> = all.iter().map(|one| one.get(name)).filter(|value| !value.is_empty()).collect();
        Ok(values.into_iter().take(limit).map(str::to_owned).collect())
    }
}
