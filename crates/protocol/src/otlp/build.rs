//! The batch of a request under construction: series by what distinguishes them on the wire, samples with the points
//! they came from.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use ogive_model::{Batch, Error as SeriesError, Reason, Sample, SeriesDef, Value};
use twox_hash::{XxHash3_64, XxHash3_128};

use super::points::Fault;
use super::{Context, DETAILS_MAX, DecodedRequest, Metadata, POINTS_MAX};
use crate::Error;
use crate::remote_write::known::{Declared, Ids, Key, LowHalfHasher};
use crate::room::{ENTRY_BYTES, Room, sample_bytes, series_bytes};

/// Marks the number of a known series until it is known how many are declared in front of them.
const KNOWN: u32 = 1 << 31;

/// Keeps the keys of this protocol apart from those of others in one table.
const DOMAIN: u64 = 0x4f54_4c50;

/// A batch that grows.
pub(super) struct Builder<'k> {
    pub(super) read: DecodedRequest,
    ids: Option<&'k Ids>,
    /// The number of each series that the request has named so far.
    here: HashMap<u128, u32, BuildHasherDefault<LowHalfHasher>>,
    seed: u64,
    room: Room,
}

/// What distinguishes a series from others: everything on the wire that its labels are made of, as one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity(u128);

impl Identity {
    /// What follows `self` in `part`.
    #[must_use]
    pub(super) fn with(self, part: &[u8]) -> Self {
        Self(XxHash3_128::oneshot_with_seed(self.0 as u64 ^ (self.0 >> 64) as u64, part) ^ self.0.rotate_left(1))
    }

    /// One of several series that the same bytes make.
    #[must_use]
    pub(super) fn part(self, number: u64) -> Self {
        self.with(&number.to_le_bytes())
    }
}

impl<'k> Builder<'k> {
    pub(super) fn new(context: &Context<'_>, ids: Option<&'k Ids>, body: usize) -> Self {
        let batch = Batch {
            source: context.source,
            sequence: context.sequence,
            tenant: context.tenant.clone(),
            ..Batch::default()
        };
        let read = DecodedRequest {
            batch,
            origins: Vec::new(),
            points: 0,
            unrecorded: 0,
            untimed: 0,
            fragments: 0,
            details: Vec::new(),
            declared: Declared::default(),
            metadata: Vec::new(),
            memory_bytes: 0,
        };
        let seed = XxHash3_64::oneshot_with_seed(DOMAIN, context.tenant.as_str().as_bytes());
        Self { read, ids, here: HashMap::default(), seed, room: Room::new(body) }
    }

    /// Where every identity begins.
    pub(super) fn root(&self) -> Identity {
        Identity(u128::from(self.seed))
    }

    /// The batch's number for a series; `define` is called when neither the request nor one before has named it.
    pub(super) fn series(
        &mut self,
        identity: Identity,
        define: impl FnOnce() -> Result<SeriesDef, SeriesError>,
    ) -> Result<u32, Error> {
        if let Some(number) = self.here.get(&identity.0) {
            return Ok(*number);
        }
        let number = if let Some(id) = self.ids.and_then(|ids| ids.get(&identity.0)) {
            self.room.take(size_of_val(id) + ENTRY_BYTES)?;
            self.read.batch.known.push(*id);
            KNOWN | (self.read.batch.known.len() as u32 - 1)
        } else {
            let series = define();
            self.room.take(series_bytes(series.as_ref().ok()) + ENTRY_BYTES)?;
            if let Ok(series) = &series {
                self.read.declared.0.push((Key(identity.0), series.id(&self.read.batch.tenant)));
            }
            self.read.batch.series.push(series);
            self.read.batch.series.len() as u32 - 1
        };
        self.here.insert(identity.0, number);
        Ok(number)
    }

    /// A sample of `series`, made of point `origin`.
    pub(super) fn push(
        &mut self,
        origin: Option<u32>,
        series: u32,
        start_ns: u64,
        time_ns: u64,
        value: Value,
    ) -> Result<(), Error> {
        let Ok(time_ns) = i64::try_from(time_ns) else {
            let fault = Fault { reason: Reason::TimeTooNew, text: "the time is beyond the year 2262".into() };
            return self.reject(origin, fault);
        };
        // A start that is not known is 0, or the time itself where a sender has no other.
        let start_ns = i64::try_from(start_ns).ok().filter(|start_ns| *start_ns != 0 && *start_ns != time_ns);
        let broken = self.read.batch.series.get(series as usize).and_then(|series| series.as_ref().err());
        if let Some(error) = broken {
            let sentence = error.to_string();
            self.detail(sentence);
        } else if start_ns.is_some_and(|start_ns| start_ns > time_ns) {
            self.detail("the point begins after it ends".into());
        }
        self.add(origin, Ok(Sample { series, time_ns, start_ns, value }))
    }

    /// A point that breaks a rule.
    pub(super) fn reject(&mut self, origin: Option<u32>, fault: Fault) -> Result<(), Error> {
        self.detail(fault.text);
        self.add(origin, Err(fault.reason))
    }

    /// The next point's number.
    pub(super) fn point(&mut self) -> u32 {
        self.read.points += 1;
        self.read.points - 1
    }

    fn add(&mut self, origin: Option<u32>, sample: Result<Sample, Reason>) -> Result<(), Error> {
        let found = self.read.batch.samples.len() + 1;
        if found > POINTS_MAX {
            return Err(Error::TooLarge { what: "the points", found: found as u64, limit: POINTS_MAX as u64 });
        }
        self.room.take(sample_bytes(sample.as_ref().map(|sample| &sample.value)) + size_of::<Option<u32>>())?;
        self.read.batch.samples.push(sample);
        self.read.origins.push(origin);
        Ok(())
    }

    /// What a metric is.
    pub(super) fn learn(&mut self, reported: Metadata) -> Result<(), Error> {
        self.room.take(size_of::<Metadata>() + reported.metric.len() + reported.help.len() + reported.unit.len())?;
        self.read.metadata.push(reported);
        Ok(())
    }

    /// What is wrong with the next sample.
    fn detail(&mut self, text: String) {
        if self.read.details.len() < DETAILS_MAX {
            self.read.details.push((self.read.batch.samples.len() as u32, text));
        }
    }

    pub(super) fn finish(mut self) -> DecodedRequest {
        let declared = self.read.batch.series.len() as u32;
        for sample in self.read.batch.samples.iter_mut().flatten().filter(|sample| sample.series & KNOWN != 0) {
            sample.series = declared + (sample.series ^ KNOWN);
        }
        self.read.memory_bytes = self.room.taken();
        self.read
    }
}
