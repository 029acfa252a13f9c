//! Deletion: a record that hides samples everywhere, and the removal of their rows.
//!
//! Invariants: the record is at a majority of every cluster before a deletion is answered, and hides by itself; rows
//! are removed afterwards, as often as it takes. Rows of minutes that are deleted in part stay, and what is deleted of
//! them stays hidden.
//! Failure: without a majority of each cluster nothing is deleted.

use ogive_model::{Matcher, Ms, Tenant, TimeRange, WallMs};

use crate::Error;
use crate::cluster::Cluster;
use crate::deletions::{Deletion, RECORDS_MAX};
use crate::rollup::HOUR;
use crate::schema::{BUCKET_MINUTES, DAY_MINUTES, Table, day};
use crate::shared::Shared;
use crate::site::Site;
use crate::spans::spans_of_days;
use crate::waiting::all_of;

/// 48 partitions at once.
const PARTITIONS: usize = 48;

/// Records a deletion in every cluster.
pub(crate) async fn record(
    shared: &Shared,
    tenant: &Tenant,
    selectors: &[Vec<Matcher>],
    range: TimeRange,
) -> Result<(), Error> {
    let mut clusters = Vec::new();
    for site in &shared.sites {
        let away =
            || Error::Unavailable(format!("{} is away, and nothing was deleted: all have to take it", site.name()));
        let cluster = site.present().ok_or_else(away)?;
        site.refresh(cluster, shared.clock).await?;
        if site.deletions.count() >= RECORDS_MAX {
            return Err(Error::Local(format!(
                "{RECORDS_MAX} deletions are in force, as many as there may be; give several match[] in one"
            )));
        }
        clusters.push((site, cluster));
    }
    for (site, cluster) in clusters {
        let one = Deletion { at_us: cluster.now_us(), tenant: tenant.clone(), selectors: selectors.to_vec(), range };
        cluster.put_deletion(&one).await?;
        site.deletions.learn(vec![one]);
    }
    Ok(())
}

/// Removes the rows of everything that was deleted from a cluster.
pub(crate) async fn remove_all(shared: &Shared, site: &Site, cluster: &Cluster) -> Result<(), Error> {
    for deletion in site.deletions.list() {
        remove(shared, site, cluster, &deletion).await?;
    }
    Ok(())
}

/// Removes the rows of a deletion.
async fn remove(shared: &Shared, site: &Site, cluster: &Cluster, deletion: &Deletion) -> Result<(), Error> {
    let TimeRange { start, end } = deletion.range;
    // A minute holds the samples from its beginning on; a range those after its start.
    let first = minute_up(start.saturating_add(Ms(1)));
    let last = minute_up(end.saturating_add(Ms(1))).saturating_sub(1);
    let days = day(first.saturating_sub(60))..=day(last.saturating_add(60));
    site.index.refresh(cluster, &days, &site.figures, shared.clock).await?;
    let mut found = Vec::new();
    for matchers in &deletion.selectors {
        found.extend(site.index.find(&deletion.tenant, matchers, &days));
    }
    let (hour_first, hour_last) = (hour(start), hour(end.saturating_sub(Ms(1))));
    for some in found.chunks(PARTITIONS) {
        let removing = some.iter().map(async |(known, days)| {
            let table = Table::from_series(&known.def);
            for span in spans_of_days(days, &(first..=last), BUCKET_MINUTES, DAY_MINUTES) {
                cluster.remove_minutes(table, known.id, span, deletion.at_us).await?;
            }
            if table != Table::Numbers {
                return Ok(());
            }
            for table in Table::ROLLED {
                for span in spans_of_days(days, &(hour_first..=hour_last), table.bucket_hours(), 24) {
                    cluster.remove_rollups(table, known.id, span).await?;
                }
            }
            // What is left of the first and of the last hour.
            [hour_first, hour_last].into_iter().filter(|hour| days.contains(&hour.div_euclid(24))).for_each(|hour| {
                site.rolling.note(known, hour);
            });
            Ok::<(), Error>(())
        });
        all_of(removing.collect()).await.into_iter().collect::<Result<Vec<()>, Error>>()?;
    }
    Ok(())
}

/// The minute that begins at a time or after it.
fn minute_up(WallMs(time): WallMs) -> i32 {
    let up = time.div_euclid(60_000) + i64::from(time.rem_euclid(60_000) != 0);
    up.clamp(i64::from(i32::MIN / 2), i64::from(i32::MAX / 2)) as i32
}

/// The hour that a time is in.
fn hour(time: WallMs) -> i32 {
    time.0.div_euclid(HOUR.0).clamp(i64::from(i32::MIN / 64), i64::from(i32::MAX / 64)) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_minutes_of_a_range_are_removed() {
        // From 30 s, which is not deleted itself, to the end of the second minute.
        assert_eq!((minute_up(WallMs(30_001)), minute_up(WallMs(179_999 + 1)) - 1), (1, 2));
        let ends = (minute_up(WallMs::MAX) > 1_000_000, minute_up(WallMs::MIN) < 0);
        assert_eq!((minute_up(WallMs(0)), ends), (0, (true, true)));
        assert_eq!((hour(WallMs(HOUR.0 - 1)), hour(WallMs(HOUR.0))), (0, 1));
    }
}
