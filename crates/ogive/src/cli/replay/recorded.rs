//! A recorded journal in memory, and its batches as items of live cells.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use ogive_journal::{Disk, RealDisk, read_journal};
use ogive_model::wire::{self, View};
use ogive_model::{Batch, SeriesDef, SeriesId, SourceId, Temporality, Tenant, Value};
use ogive_store::record::RecordReader;
use ogive_stream::cells::{Item, ItemValue};

/// 2 GiB of frames: the journal of a server with the default limits is a sixteenth of that.
const BYTES_MAX: u64 = 2 << 30;

/// The contents of a journal.
pub(crate) struct Recorded {
    /// Each is a batch, in the order of the journal.
    pub(crate) frames: Vec<Vec<u8>>,
    /// When each arrived, nanoseconds; empty when the journal does not record it.
    pub(crate) arrivals: Vec<i64>,
    pub(crate) bytes: u64,
    /// Every series, by its identity.
    pub(crate) known: HashMap<SeriesId, SeriesDef>,
    /// Samples of all kinds.
    pub(crate) samples: u64,
    /// First and last time of a sample, nanoseconds.
    pub(crate) first_ns: i64,
    pub(crate) last_ns: i64,
    /// What could not be read, as sentences.
    pub(crate) findings: Vec<String>,
}

/// The samples of a frame by what can be done with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// Items.
    pub(crate) items: u64,
    /// Texts, histograms that are not deltas, and those with float counts: no cell holds them.
    pub(crate) passed: u64,
}

/// The arrival of each frame; those before the first known one get its time. Empty when none is known.
fn filled(arrivals: Vec<Option<i64>>) -> Vec<i64> {
    let Some(first) = arrivals.iter().flatten().next().copied() else { return Vec::new() };
    arrivals.into_iter().map(|arrival| arrival.unwrap_or(first)).collect()
}

/// The journal below a data directory, or the directory itself.
fn journal_of(directory: &Path) -> PathBuf {
    let below = directory.join("journal");
    if below.is_dir() { below } else { directory.to_owned() }
}

impl Recorded {
    /// Reads the journal in `directory`; nothing is locked or changed.
    pub(crate) fn read(directory: &Path) -> anyhow::Result<Self> {
        let journal = journal_of(directory);
        let disk: &dyn Disk = &RealDisk;
        let (mut frames, mut known, mut bytes, mut findings) = (Vec::new(), HashMap::new(), 0, Vec::new());
        let (mut arrivals, mut arrived) = (Vec::new(), None);
        let mut reader = RecordReader::new();
        let replay = read_journal::<anyhow::Error>(disk, &journal, |position, record| {
            let frame = match reader.frame(record) {
                Ok(frame) => frame,
                Err(error) => {
                    findings.push(format!("record {}: {error}", position.0));
                    return Ok(());
                }
            };
            match wire::decode_definitions(&frame) {
                Ok(Some((_, series))) if series.is_empty() => arrived = wire::decode_arrival(&frame)?.or(arrived),
                Ok(Some((tenant, series))) => known.extend(series.into_iter().map(|def| (def.id(&tenant), def))),
                Ok(None) => {
                    bytes += frame.len() as u64;
                    if bytes > BYTES_MAX {
                        bail!(
                            "the journal has more than {} GiB of frames; replay a part of its segments",
                            BYTES_MAX >> 30
                        );
                    }
                    frames.push(frame.into_owned());
                    arrivals.push(arrived);
                }
                Err(error) => findings.push(format!("record {}: {error}", position.0)),
            }
            Ok(())
        });
        let replay = replay.with_context(|| format!("cannot read the journal in {}", journal.display()))?;
        let lost = reader.take_lost();
        if lost > 0 {
            findings.push(format!(
                "{lost} samples are of series that no record here names: a flush removed those, or they are damaged"
            ));
        }
        findings.extend(replay.corruptions.iter().map(ToString::to_string));
        let arrivals = filled(arrivals);
        let (first_ns, last_ns) = (i64::MAX, i64::MIN);
        let mut recorded = Self { frames, arrivals, bytes, known, samples: 0, first_ns, last_ns, findings };
        recorded.look();
        if recorded.samples == 0 {
            bail!(
                "the journal in {} holds no samples; a server that was stopped has written them to blocks: copy the journal of a running one",
                journal.display()
            );
        }
        Ok(recorded)
    }

    /// From its first sample to a second behind its last.
    pub(crate) fn span_ns(&self) -> i64 {
        self.last_ns.saturating_sub(self.first_ns).saturating_add(1_000_000_000)
    }

    /// Drops what is not a batch, counts, determines the time range, and registers the series that batches declare.
    fn look(&mut self) {
        let Self { frames, arrivals, known, samples, first_ns, last_ns, findings, .. } = self;
        let mut of_frames = std::mem::take(arrivals).into_iter();
        frames.retain(|frame| {
            let arrival = of_frames.next();
            let is_batch = match Batch::decode(frame) {
                Ok(batch) => {
                    for sample in batch.samples.iter().flatten() {
                        *samples += 1;
                        (*first_ns, *last_ns) = ((*first_ns).min(sample.time_ns), (*last_ns).max(sample.time_ns));
                    }
                    // Later ones may name them by their identity.
                    known.extend(batch.series.iter().flatten().map(|def| (def.id(&batch.tenant), def.clone())));
                    !batch.samples.is_empty()
                }
                Err(error) => {
                    findings.push(format!("a record is no batch: {error}"));
                    false
                }
            };
            arrivals.extend(arrival.filter(|_| is_batch));
            is_batch
        });
    }

    /// Whether a histogram of this series is a delta: what happened in its second, not everything since some start.
    fn is_delta(&self, batch: &Batch, series: u32) -> bool {
        let declared = batch.series.get(series as usize).map(|def| def.as_ref().ok());
        let def = declared
            .unwrap_or_else(|| batch.known.get(series as usize - batch.series.len()).and_then(|id| self.known.get(id)));
        def.is_some_and(|def| def.meta.temporality == Temporality::Delta)
    }

    /// Appends the samples of a frame to `items`, `shift_ns` later than they were. Gives the sender too.
    pub(crate) fn items(
        &self,
        frame: &[u8],
        shift_ns: i64,
        items: &mut Vec<Item>,
    ) -> Result<(SourceId, Decoded), ogive_model::Error> {
        // The journal's own checksum covers the frame.
        let view = View::read_trusted(frame)?;
        let before = items.len();
        if view.has_others()? || view.declared()? > 0 {
            return self.items_of_batch(&Batch::decode(frame)?, shift_ns, items);
        }
        let ids: Vec<SeriesId> = view.known()?.collect();
        if let Some(floats) = view.floats()? {
            items.reserve(floats.len());
            floats.each(|series, time_ns, value| {
                if let Some(series) = ids.get(series as usize) {
                    let time_ns = time_ns.saturating_add(shift_ns);
                    items.push(Item { series: *series, time_ns, what: ItemValue::Number(value) });
                }
            });
        }
        Ok((view.source()?, Decoded { items: (items.len() - before) as u64, passed: 0 }))
    }

    fn items_of_batch(
        &self,
        batch: &Batch,
        shift_ns: i64,
        items: &mut Vec<Item>,
    ) -> Result<(SourceId, Decoded), ogive_model::Error> {
        let ids = identities(batch);
        let mut decoded = Decoded::default();
        for sample in batch.samples.iter().flatten() {
            let what = match &sample.value {
                Value::Float(value) => Some(ItemValue::Number(*value)),
                Value::Histogram(part) if self.is_delta(batch, sample.series) => Some(ItemValue::Part(part.clone())),
                _ => None,
            };
            match what.zip(ids.get(sample.series as usize).copied().flatten()) {
                Some((what, series)) => {
                    items.push(Item { series, time_ns: sample.time_ns.saturating_add(shift_ns), what });
                    decoded.items += 1;
                }
                None => decoded.passed += 1,
            }
        }
        Ok((batch.source, decoded))
    }

    /// The batch with its series declared, for a store that knows none of them.
    pub(crate) fn declared(&self, mut batch: Batch) -> Batch {
        let known = std::mem::take(&mut batch.known);
        let def = |id: SeriesId| self.known.get(&id).cloned().ok_or(ogive_model::Error::NoMetricName);
        // They were numbered on behind the declared ones, and still are.
        batch.series.extend(known.into_iter().map(def));
        batch
    }
}

/// The identity of each series of a batch, declared or known.
fn identities(batch: &Batch) -> Vec<Option<SeriesId>> {
    let tenant: &Tenant = &batch.tenant;
    let declared = batch.series.iter().map(|def| def.as_ref().ok().map(|def| def.id(tenant)));
    declared.chain(batch.known.iter().copied().map(Some)).collect()
}
