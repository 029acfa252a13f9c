//! The background task that audits what this node wrote.
//!
//! Invariants: a minute is audited repeatedly until every replica holds every row written in it.
//! Limits: those of [`crate::audited::Audited`].

use std::sync::Arc;
use std::time::Duration;

use ogive_probe::Clock;
use tokio::sync::watch;

use crate::audit::Audit;
use crate::cluster::Cluster;
use crate::schema::minute;
use crate::site::Site;

/// An hour of what was written before a start is audited again: what a killed node had not audited yet.
const START_MINUTES: i32 = 60;
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
        let now = self.minute(Duration::ZERO);
        (now - START_MINUTES..=now).for_each(|minute| self.site.audited.written(minute));
        loop {
            tokio::select! {
                () = tokio::time::sleep(self.site.address.audit) => {}
                _ = ending.wait_for(|ending| *ending) => return,
            }
            if let Some(cluster) = self.site.cluster.get() {
                tokio::select! {
                    () = self.round(cluster) => {}
                    _ = ending.wait_for(|ending| *ending) => return,
                }
            }
        }
    }

    async fn round(&self, cluster: &Cluster) {
        let minutes =
            self.site.audited.due(self.minute(Duration::ZERO), self.minute(SETTLED.min(self.site.address.audit)));
        if minutes.is_empty() {
            return;
        }
        let other = self.other.as_ref().and_then(|site| site.present());
        let audit = Audit { cluster, other, writer: Some(self.writer), refill: true };
        match audit.minutes(minutes.iter().copied()).await {
            Ok(found) => {
                if found.lost > 0 || found.manifests_corrupt > 0 {
                    tracing::error!("audit: {found:?}");
                }
                self.site.audited.ended(&minutes, found);
            }
            Err(error) => tracing::debug!("the audit is tried again: {error}"),
        }
    }

    /// The minute that was so long ago.
    fn minute(&self, ago: Duration) -> i32 {
        minute(self.clock.wall().div_euclid(1_000_000) - ago.as_millis() as i64)
    }
}
