//! Makes rollups: cells of a minute and of an hour from the rows of hours that are over.
//!
//! Invariants: a rollup is made of what a majority has, with the number of rows it was made of; one whose hour has got
//! rows since is not used (`coarse`) and is made again by whoever wrote them. Two nodes that make one make the same.
//! Limits: [`AT_ONCE`] hours of series are in memory at once.
//! Failure: an hour that cannot be read now waits for the next turn; one with a damaged row gets no rollup.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use ogive_model::Ms;
use ogive_probe::Clock;
use ogive_store::rolled;
use tokio::sync::watch;

use crate::Error;
use crate::cluster::{Cluster, Consistent, Copies};
use crate::columns::{self, Pieces};
use crate::deletions::Deletions;
use crate::index::{CatalogSeries, Index};
use crate::keys::ManifestKey;
use crate::manifest;
use crate::rolling::Rolling;
use crate::rollup::{HOUR, Place, Rollup, minutes_of, range_of};
use crate::schema::{BUCKET_MINUTES, Table, day};
use crate::site::Site;
use crate::spans::spans;
use crate::stored;
use crate::waiting::all_of;

/// 16 hours of series at once: 1 MB each with a cell of 300 bytes a second.
const AT_ONCE: usize = 16;
/// 1 min between two turns, and 1 s where rows are not collected for long.
const TURN_MAX: Duration = Duration::from_secs(60);
const TURN_MIN: Duration = Duration::from_secs(1);
/// 2 min after an hour has ended its last rows are there, unless a node is behind.
const SETTLED: Ms = Ms::from_secs(120);
/// 2 h: what a node wrote before it was started.
const START_MINUTES: i32 = 120;

/// What came of an hour.
enum RollOutcome {
    /// Cells of a minute and of an hour.
    Yes,
    /// There is nothing to be made of it.
    Nothing,
}

/// The background task of a node.
pub(crate) struct Roller {
    pub(crate) site: Arc<Site>,
    pub(crate) writer: u128,
    pub(crate) clock: Clock,
}

impl Roller {
    /// Makes rollups until `ending` is true.
    pub(crate) async fn run(self, mut ending: watch::Receiver<bool>) {
        let every = (self.site.address.collect * 6).clamp(TURN_MIN, TURN_MAX);
        let mut is_recalled = false;
        loop {
            tokio::select! {
                () = tokio::time::sleep(every) => {}
                _ = ending.wait_for(|ending| *ending) => return,
            }
            let Some(cluster) = self.site.cluster.get() else { continue };
            tokio::select! {
                () = async {
                    if !is_recalled {
                        is_recalled = self.recall(cluster).await.is_ok();
                    }
                    self.turn(cluster).await;
                } => {}
                _ = ending.wait_for(|ending| *ending) => return,
            }
        }
    }

    /// What this node wrote before it was started may have no rollup yet.
    async fn recall(&self, cluster: &Cluster) -> Result<(), Error> {
        let now = crate::schema::minute(cluster.now());
        note_manifests(cluster, &self.site.rolling, now - START_MINUTES..=now, Some(self.writer)).await
    }

    async fn turn(&self, cluster: &Cluster) {
        if let Err(error) = self.site.refresh(cluster, self.clock).await {
            tracing::debug!("rollups are tried again: {error}");
            return;
        }
        let before = settled_before(cluster);
        let waiting = self.site.rolling.waiting();
        let mut taken = 0;
        while taken < waiting {
            let some = self.site.rolling.take(before, AT_ONCE);
            if some.is_empty() {
                return;
            }
            taken += some.len();
            let making = some.iter().map(|(known, hour)| make(cluster, &self.site.deletions, known, *hour)).collect();
            for ((known, hour), made) in some.iter().zip(all_of(making).await) {
                match made {
                    Ok(RollOutcome::Yes) => self.site.rolling.made.add(1),
                    Ok(RollOutcome::Nothing) => {}
                    Err(Error::Corrupt(what)) => {
                        tracing::warn!("hour {hour} of {} has no rollup: {what}", known.def.labels)
                    }
                    Err(error) => {
                        tracing::debug!("the rollup of hour {hour} is tried again: {error}");
                        self.site.rolling.note(known, *hour);
                    }
                }
            }
        }
    }
}

/// Makes the rollups of what was written in some minutes, by all nodes; how many.
///
/// # Errors
/// [`Error::Unavailable`], and [`Error::Corrupt`] for an hour with a damaged row.
pub async fn make_rollups(cluster: &Cluster, minutes: RangeInclusive<i32>) -> Result<u64, Error> {
    let (rolling, deletions) = (Rolling::default(), Deletions::default());
    deletions.learn_stored(cluster.deletions_as_are().await?)?;
    note_manifests(cluster, &rolling, minutes, None).await?;
    let before = settled_before(cluster);
    let mut count = 0;
    loop {
        let some = rolling.take(before, AT_ONCE);
        if some.is_empty() {
            return Ok(count);
        }
        let making = some.iter().map(|(known, hour)| make(cluster, &deletions, known, *hour)).collect();
        for made in all_of(making).await {
            count += u64::from(matches!(made?, RollOutcome::Yes));
        }
    }
}

/// Hours before this one are over, and their rows have come.
fn settled_before(cluster: &Cluster) -> i32 {
    (cluster.now() - SETTLED).0.div_euclid(HOUR.0) as i32
}

/// Notes the hours of numbers that manifests name.
async fn note_manifests(
    cluster: &Cluster,
    rolling: &Rolling,
    minutes: RangeInclusive<i32>,
    writer: Option<u128>,
) -> Result<(), Error> {
    let (index, figures) = (Index::default(), crate::figures::Figures::default());
    for minute in minutes {
        for (of, digest) in cluster.manifests(minute).await?.0 {
            let Some(of) = stored::number(&of) else { continue };
            if writer.is_some_and(|writer| writer != of) {
                continue;
            }
            let (bodies, _) = cluster.manifest(minute, &of.to_be_bytes(), digest).await?;
            let named =
                bodies.iter().find_map(|(body,)| manifest::decode(ManifestKey { minute, writer: of }, body).ok());
            let Some((Table::Numbers, rows)) = named else { continue };
            for (key, _) in rows {
                if index.known(key.series).is_none() {
                    let day = day(key.minute);
                    index.refresh(cluster, &(day..=day), &figures, Clock::global()).await?;
                }
                if let Some(known) = index.known(key.series) {
                    rolling.written(&known, [key.minute]);
                }
            }
        }
    }
    Ok(())
}

async fn make(
    cluster: &Cluster,
    deletions: &Deletions,
    known: &Arc<CatalogSeries>,
    hour: i32,
) -> Result<RollOutcome, Error> {
    let made_us = cluster.now_us();
    let (mut pieces, mut rows) = (Pieces::default(), 0);
    let (first, last) = minutes_of(hour);
    for span in spans(first..=last, BUCKET_MINUTES) {
        let (found, consistent) = cluster.cells(Table::Numbers, known.id, span, Copies::Majority).await?;
        if consistent != Consistent::Majority {
            return Err(Error::Unavailable("no majority answers".into()));
        }
        rows += found.len() as u32;
        for row in &found {
            stored::pieces(known.id, row)?.into_iter().for_each(|piece| pieces.add(piece));
        }
    }
    let samples = pieces.samples(&[range_of(hour)], &deletions.hidden(known))?;
    if samples.is_empty() || pieces.conflicts > 0 {
        return Ok(RollOutcome::Nothing);
    }
    let (data, lost) = columns::series(&known.def, samples);
    let Some((minutes, lost_minutes)) = rolled::roll(data, Table::Minutes.width_ms()) else {
        return Ok(RollOutcome::Nothing);
    };
    let Some((hours, lost_hours)) = rolled::roll(minutes.clone(), Table::Hours.width_ms()) else {
        return Ok(RollOutcome::Nothing);
    };
    // Cells that are not whole: the samples show more.
    if lost + lost_minutes + lost_hours > 0 {
        return Ok(RollOutcome::Nothing);
    }
    for (table, data) in [(Table::Minutes, minutes), (Table::Hours, hours)] {
        let place = Place { series: known.id, table, hour };
        let Some(how) = cluster.written(table, last, 0) else { continue };
        let Ok(body) = Rollup::new(&data, rows, made_us).encode(&place) else { return Ok(RollOutcome::Nothing) };
        cluster.put_rollup(&place, &body, how.seconds).await?;
    }
    Ok(RollOutcome::Yes)
}
