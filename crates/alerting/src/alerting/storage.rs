//! The server's store as rules see it.

use std::cell::RefCell;
use std::collections::HashMap;

use ogive_detect::rules::{Sample as RuleSample, Storage};
use ogive_hist::CounterReset;
use ogive_model::{Batch, BatchId, Kind, Sample, Select, SeriesDef, SeriesMeta, Temporality, Tenant, Value};
use ogive_query::value::Point;

use ogive_door::Door;
use ogive_door::counters::Protocol;
use ogive_door::submission::stored;

/// Samples in a batch: enough to make the cost of an fsync negligible.
const BATCH_SAMPLES: usize = 5_000;

/// See the module. What is appended is durable and visible to the next query.
pub(super) struct ServerStorage<'a> {
    /// The tenant whose series rules read and write.
    pub(super) tenant: &'a Tenant,
    pub(super) select: &'a dyn Select,
    pub(super) door: &'a Door,
    pub(super) runtime: &'a tokio::runtime::Handle,
    /// Samples that the store rejected.
    pub(super) rejected: RefCell<u64>,
}

impl Storage for ServerStorage<'_> {
    fn select(&self) -> &dyn Select {
        self.select
    }

    fn append(&self, samples: Vec<RuleSample>) -> Result<(), String> {
        let most = BATCH_SAMPLES.min(self.door.batch_series_max).max(1);
        let mut samples = samples.into_iter().peekable();
        while samples.peek().is_some() {
            let BatchId { source, sequence } = self.door.numbers.next();
            let mut batch = Batch { source, sequence, tenant: self.tenant.clone(), ..Batch::default() };
            let mut places = HashMap::new();
            for sample in samples.by_ref().take(most) {
                let (kind, temporality, value) = match sample.value {
                    Point::Float(value) => (Kind::Float, Temporality::Gauge, Value::Float(value)),
                    Point::Histogram(histogram) => {
                        let is_gauge = histogram.reset == CounterReset::Gauge;
                        let temporality = if is_gauge { Temporality::Gauge } else { Temporality::Cumulative };
                        (Kind::Histogram, temporality, Value::FloatHistogram(Box::new((*histogram).clone())))
                    }
                };
                let meta = SeriesMeta { kind, temporality, unit: String::new(), width_ms: 0 };
                let place = *places.entry((sample.labels.clone(), kind)).or_insert_with(|| {
                    batch.series.push(Ok(SeriesDef { labels: sample.labels, meta }));
                    batch.series.len() as u32 - 1
                });
                batch.samples.push(Ok(Sample { series: place, time_ns: sample.time.to_ns().0, start_ns: None, value }));
            }
            let way = self.door.meters.ingest.begin_made();
            let frame = batch.encode().map_err(|error| error.to_string())?;
            let verdict = self.runtime.block_on(stored(self.door, Protocol::Rules, batch, frame, &way));
            let verdict = verdict.map_err(|refusal| refusal.to_string())?;
            *self.rejected.borrow_mut() += verdict.rejected.len() as u64;
        }
        Ok(())
    }
}
