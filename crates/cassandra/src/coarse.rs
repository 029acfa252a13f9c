//! Which hours of a series a query reads from rollups, and their cells.
//!
//! Invariants: while samples as they came exist, a rollup answers only where the query's result stays the same, and
//! only if it was made of as many rows as each cluster has of its hour now: rows are only added, so late ones are never
//! left out. Where the samples are gone the finest rollup answers that is kept. One that was made before something of
//! its hour was deleted does not answer.

use std::collections::{BTreeMap, BTreeSet};

use ogive_model::{Kind, Resolution, RollupUse, SeriesMeta, Temporality, TimeRange, WallMs};

use crate::Error;
use crate::cluster::Cluster;
use crate::keeping::RetentionPeriods;
use crate::rollup::{HOUR, Place, Rollup, minutes_of, range_of};
use crate::schema::{BUCKET_MINUTES, Table};
use crate::spans::{BucketSpan, spans};
use crate::wanted::SeriesPlan;

/// What a query asks for.
#[derive(Clone, Copy)]
pub(crate) struct QueryWindow {
    pub(crate) range: TimeRange,
    pub(crate) resolution: Resolution,
    /// By the cluster's clock.
    pub(crate) now: WallMs,
    /// How long the clusters that are asked show samples.
    pub(crate) kept: RetentionPeriods,
}

/// Usable rollups by hour.
pub(crate) type Usable = BTreeMap<i32, (Table, Rollup)>;

impl QueryWindow {
    /// Samples as they came at and before this are not shown: at the end of an hour, where cells follow.
    pub(crate) fn horizon(&self, table: Table) -> WallMs {
        let horizon = self.kept.horizon(table, self.now);
        if table == Table::Numbers && horizon > WallMs::MIN + HOUR {
            return horizon.align_up(HOUR);
        }
        horizon
    }

    /// The tables that may answer where samples exist as they came, the coarsest first.
    fn allowed(&self, meta: &SeriesMeta) -> Vec<Table> {
        let (kind, is_delta) = (meta.kind, meta.temporality == Temporality::Delta);
        let all = [Table::Hours, Table::Minutes].into_iter();
        match self.resolution {
            Resolution::Finest => Vec::new(),
            Resolution::Width(width_ms) => all.filter(|table| table.width_ms() == width_ms).collect(),
            Resolution::Aligned { step, use_as } => {
                let is_same = match use_as {
                    RollupUse::Together => kind == Kind::Float || is_delta,
                    RollupUse::Numbers => kind == Kind::Float,
                    RollupUse::Last => kind == Kind::Float && !is_delta,
                };
                all.filter(|table| is_same && step.0 % i64::from(table.width_ms()) == 0).collect()
            }
        }
    }

    /// The hours of a series that lie in the range as a whole.
    fn hours(&self, days: &BTreeSet<i32>) -> Vec<i32> {
        let is_inside = |hour: &i32| {
            let hour = range_of(*hour);
            self.range.start <= hour.start && hour.end <= self.range.end
        };
        // The first sample of a day may end the hour before it.
        let of_days = days.iter().flat_map(|day| day * 24 - 1..day * 24 + 24);
        of_days.filter(is_inside).collect::<BTreeSet<i32>>().into_iter().collect()
    }

    /// The tables to look into for an hour, the best first.
    fn tables(&self, hour: i32, allowed: &[Table]) -> Vec<Table> {
        if range_of(hour).end > self.horizon(Table::Numbers) {
            return allowed.to_vec();
        }
        if self.resolution == Resolution::Width(0) {
            return Vec::new();
        }
        let is_kept = |table: &Table| range_of(hour).end > self.kept.horizon(*table, self.now);
        Table::ROLLED.into_iter().filter(is_kept).collect()
    }
}

/// The rollups of a series that a cluster has and that may be used.
pub(crate) async fn usable(
    cluster: &Cluster,
    at: usize,
    one: &SeriesPlan,
    asked: &QueryWindow,
) -> Result<Usable, Error> {
    let meta = &one.known.def.meta;
    if meta.kind == Kind::Text {
        return Ok(Usable::new());
    }
    let allowed = asked.allowed(meta);
    let hours = asked.hours(&one.days_at(at).collect());
    let plan: Vec<(i32, Vec<Table>)> = hours.into_iter().map(|hour| (hour, asked.tables(hour, &allowed))).collect();
    let mut found: BTreeMap<(Table, i32), Rollup> = BTreeMap::new();
    for table in Table::ROLLED {
        let wanted = plan.iter().filter(|(_, tables)| tables.contains(&table)).map(|(hour, _)| *hour);
        let mut buckets: BTreeMap<i32, BucketSpan> = BTreeMap::new();
        for hour in wanted {
            let bucket = table.bucket_of_hour(hour);
            buckets.entry(bucket).or_insert(BucketSpan { bucket, first: hour, last: hour }).last = hour;
        }
        for span in buckets.into_values() {
            for (hour, body) in cluster.rollups(table, one.known.id, span).await?.0 {
                // A damaged one is as good as none: the samples are there, or another copy of it.
                let Ok(rollup) = Rollup::decode(&Place { series: one.known.id, table, hour }, &body) else { continue };
                if is_usable(&rollup, one, hour)
                    && found.get(&(table, hour)).is_none_or(|had| had.made_us < rollup.made_us)
                {
                    found.insert((table, hour), rollup);
                }
            }
        }
    }
    let hours_found: BTreeSet<i32> = found.keys().map(|(_, hour)| *hour).collect();
    let horizon = asked.horizon(Table::Numbers);
    let counted = hours_found.into_iter().filter(|hour| range_of(*hour).end > horizon).collect();
    // Without a majority nothing is known to be whole, and the samples answer.
    let counts = counts(cluster, one, &counted).await.unwrap_or_default();
    let mut out = Usable::new();
    for (hour, tables) in plan {
        let is_whole = |rollup: &Rollup| {
            counts.get(&hour).map_or(!counted.contains(&hour), |rows| *rows == i64::from(rollup.rows))
        };
        let best = tables.into_iter().find_map(|table| Some((table, found.remove(&(table, hour))?)));
        if let Some((table, rollup)) = best.filter(|(_, rollup)| is_whole(rollup)) {
            out.insert(hour, (table, rollup));
        }
    }
    Ok(out)
}

/// Whether a rollup is of the series as it is known, and nothing of its hour was deleted after it was made.
fn is_usable(rollup: &Rollup, one: &SeriesPlan, hour: i32) -> bool {
    let range = range_of(hour);
    let meets = |other: &TimeRange| other.start < range.end && range.start < other.end;
    let is_deleted = one.hidden.iter().any(|(hidden, at_us)| *at_us >= rollup.made_us && meets(hidden));
    rollup.temporality == one.known.def.meta.temporality && !is_deleted
}

/// How many rows each of some hours has.
async fn counts(cluster: &Cluster, one: &SeriesPlan, hours: &BTreeSet<i32>) -> Result<BTreeMap<i32, i64>, Error> {
    let mut buckets: BTreeMap<i32, BucketSpan> = BTreeMap::new();
    for hour in hours {
        let (first, last) = minutes_of(*hour);
        for span in spans(first..=last, BUCKET_MINUTES) {
            buckets.entry(span.bucket).or_insert(span).last = span.last;
        }
    }
    let mut rows: BTreeMap<i32, i64> = BTreeMap::new();
    for span in buckets.into_values() {
        rows.extend(cluster.counts(one.known.id, span).await?);
    }
    let of = |hour: &i32| {
        let (first, last) = minutes_of(*hour);
        (*hour, rows.range(first..=last).map(|(_, count)| count).sum())
    };
    Ok(hours.iter().map(of).collect())
}

/// What all clusters that answered agree on, into cells and into the times that are left to samples as they came.
///
/// # Errors
/// [`Error::Corrupt`] for cells that cannot be decoded although their checksum is right.
pub(crate) fn choose(one: &mut SeriesPlan, mut answers: Vec<Usable>, asked: &QueryWindow) -> Result<(), Error> {
    let table = Table::from_series(&one.known.def);
    let horizon = asked.horizon(table);
    let first = answers.pop().unwrap_or_default();
    let mut hours = BTreeSet::new();
    for (hour, (table, rollup)) in first {
        let is_gone = range_of(hour).end <= horizon;
        let agrees = |other: &Usable| other.get(&hour).is_some_and(|(at, one)| *at == table && one.agrees(&rollup));
        let (from, to) = minutes_of(hour);
        let is_pending = one.pending.iter().any(|piece| (from..=to).contains(&piece.minute));
        if is_gone || answers.iter().all(agrees) && !is_pending {
            one.coarse.push(rollup.data(&one.known.def, table.width_ms())?);
            hours.insert(hour);
        }
    }
    let mut from = asked.range.start.max(horizon);
    for hour in hours {
        let hour = range_of(hour);
        if hour.start > from {
            one.raw.push(TimeRange { start: from, end: hour.start });
        }
        from = from.max(hour.end);
    }
    if from < asked.range.end {
        one.raw.push(TimeRange { start: from, end: asked.range.end });
    }
    Ok(())
}
