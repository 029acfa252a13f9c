//! The background task that audits what this node wrote.
//!
//! Invariants: a minute is audited repeatedly until every replica holds every row written in it.
//! Limits: those of [`crate::audited::Audited`].

use std::sync::Arc;
use std::time::Duration;

use ogive_model::Ms;
use ogive_probe::Clock;
use tokio::sync::watch;

use crate::Error;
use crate::audit::Audit;
use crate::cluster::Cluster;
use crate::keys::ManifestKey;
use crate::schema::minute;
use crate::site::Site;

/// An hour of what was written before a start is audited again: what a killed node had not audited yet.
const START_MINUTES: i32 = 60;
/// 1 s between two looks at whether the spool wants to let go.
const LOOK: Duration = Duration::from_secs(1);
/// 1 min: copies that did not take a row at once may have got it by a hint then.
const SETTLED: Duration = Duration::from_secs(60);

/// See the module.
pub(crate) struct Auditor {
    pub(crate) site: Arc<Site>,
    /// Of the node's other cluster, from which lost rows come back.
    pub(crate) other: Option<Arc<Site>>,
    pub(crate) writer: u128,
    pub(crate) clock: Clock,
}

impl Auditor {
    /// Audits until `ending` is true.
    pub(crate) async fn run(self, mut ending: watch::Receiver<bool>) {
        let (mut due, mut is_recalled) = (self.clock.now() + self.site.address.audit.as_nanos() as u64, false);
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK.min(self.site.address.audit)) => {}
                _ = ending.wait_for(|ending| *ending) => return,
            }
            let Some(cluster) = self.site.cluster.get() else { continue };
            is_recalled = is_recalled || self.recall(cluster).await.is_ok();
            self.release(cluster).await;
            if self.clock.now() >= due {
                due = self.clock.now() + self.site.address.audit.as_nanos() as u64;
                tokio::select! {
                    () = self.round(cluster) => {}
                    _ = ending.wait_for(|ending| *ending) => return,
                }
            }
        }
    }

    async fn round(&self, cluster: &Cluster) {
        let now = minute_ago(cluster, Duration::ZERO);
        let (minutes, old) = self.site.audited.due(now, minute_ago(cluster, SETTLED.min(self.site.address.audit)));
        // Nobody can tell any more which rows a copy lacks.
        for minute in old {
            let marked = cluster.put_repair(self.key(minute)).await;
            tracing::warn!(
                "a copy may lack what was written in minute {minute}, a day ago: nodetool repair -full ({marked:?})"
            );
            self.site.released(minute);
        }
        if minutes.is_empty() {
            return;
        }
        let other = self.other.as_ref().and_then(|site| site.present());
        let audit = Audit::new(cluster, other, Some(self.writer), true);
        match audit.minutes(minutes.iter().copied()).await {
            Ok(found) => {
                if found.lost > 0 || found.manifests_corrupt > 0 {
                    tracing::error!("audit: {found:?}");
                }
                self.site.audited.ended(&minutes, found);
                if found.is_whole() {
                    self.settled(cluster, &minutes).await;
                }
            }
            Err(error) => tracing::debug!("the audit is tried again: {error}"),
        }
    }

    /// Marks what the spool wants to let go of.
    async fn release(&self, cluster: &Cluster) {
        for minute in self.site.to_release() {
            match cluster.put_repair(self.key(minute)).await {
                Ok(()) => {
                    self.site.audited.written(minute);
                    self.site.released(minute);
                }
                Err(error) => {
                    tracing::debug!("what needs repair cannot be marked, and the spool keeps it: {error}");
                    return;
                }
            }
        }
    }

    /// Takes the marks off minutes of which every copy has everything.
    async fn settled(&self, cluster: &Cluster, minutes: &[i32]) {
        for minute in self.site.settle(minutes) {
            if let Err(error) = cluster.remove_repair(self.key(minute)).await {
                tracing::debug!("minute {minute} was repaired, and is still marked: {error}");
                self.site.released(minute);
            }
        }
    }

    /// What this node wrote, and had marked, before it was started.
    async fn recall(&self, cluster: &Cluster) -> Result<(), Error> {
        let now = minute_ago(cluster, Duration::ZERO);
        (now - START_MINUTES..=now).for_each(|minute| self.site.audited.written(minute));
        for ManifestKey { minute, .. } in cluster.repairs().await?.into_iter().filter(|key| key.writer == self.writer) {
            self.site.audited.written(minute);
            self.site.released(minute);
        }
        Ok(())
    }

    fn key(&self, minute: i32) -> ManifestKey {
        ManifestKey { minute, writer: self.writer }
    }
}

/// The minute that was so long ago, by the cluster's clock.
fn minute_ago(cluster: &Cluster, ago: Duration) -> i32 {
    minute(cluster.now() - Ms::from(ago))
}
