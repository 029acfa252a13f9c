//! Definitions of series, to complete batches that name series by identity alone.
//!
//! Limits: [`Registry::SERIES_MAX`] in each of two generations. When the younger is full the older is dropped; a series
//! that is named moves to the younger. A sender that names a dropped series is answered `unknown` and declares it
//! again.

use std::collections::HashMap;
use std::sync::Arc;

use ogive_model::{Batch, Error, SeriesDef, SeriesId};

/// See the module.
#[derive(Debug, Default)]
pub struct Registry {
    young: HashMap<SeriesId, Arc<SeriesDef>>,
    old: HashMap<SeriesId, Arc<SeriesDef>>,
}

impl Registry {
    /// 200,000 series of some 400 bytes: 80 MB in each generation in the worst case.
    pub const SERIES_MAX: usize = 200_000;

    /// Remembers a series.
    pub fn learn(&mut self, id: SeriesId, def: &SeriesDef) {
        if self.young.contains_key(&id) {
            return;
        }
        let def = self.old.remove(&id).unwrap_or_else(|| Arc::new(def.clone()));
        self.put(id, def);
    }

    fn put(&mut self, id: SeriesId, def: Arc<SeriesDef>) {
        if self.young.len() >= Self::SERIES_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(id, def);
        assert!(self.young.len() <= Self::SERIES_MAX && self.old.len() <= Self::SERIES_MAX, "two bounded generations");
    }

    /// The definition of a series that a batch names by identity.
    pub fn named(&mut self, id: SeriesId) -> Option<Arc<SeriesDef>> {
        if let Some(def) = self.young.get(&id) {
            return Some(def.clone());
        }
        let def = self.old.remove(&id)?;
        self.put(id, def.clone());
        Some(def)
    }

    /// How many it remembers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The frame of a batch with every series declared that it only names, under the same source and sequence; `None` when
/// `definition` lacks one.
///
/// # Errors
/// Those of decoding the frame, or [`Error::TooLarge`] for the completed one.
pub(crate) fn complete(
    frame: &[u8],
    definition: impl Fn(SeriesId) -> Option<SeriesDef>,
) -> Result<Option<Vec<u8>>, Error> {
    let mut batch = Batch::decode(frame)?;
    // Samples number the named series after the declared ones: in that order they keep their indices.
    for id in std::mem::take(&mut batch.known) {
        let Some(def) = definition(id) else { return Ok(None) };
        batch.series.push(Ok(def));
    }
    batch.encode().map(Some)
}

#[cfg(test)]
mod tests {
    use ogive_model::{Kind, Sample, SeriesMeta, SourceId, Temporality, Tenant, Value};

    use super::*;

    fn def(name: &str) -> SeriesDef {
        let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
        SeriesDef::new([("__name__", name)], meta).unwrap()
    }

    #[test]
    fn a_batch_is_made_whole_or_not_at_all() {
        let tenant = Tenant::default();
        let (declared, named) = (def("declared"), def("named"));
        let sample = |series| Ok(Sample { series, time_ns: 5_000_000, start_ns: None, value: Value::Float(1.0) });
        let batch = Batch {
            source: SourceId(7),
            sequence: 3,
            series: vec![Ok(declared.clone())],
            known: vec![named.id(&tenant)],
            samples: vec![sample(0), sample(1)],
            ..Batch::default()
        };
        let frame = batch.encode().unwrap();
        assert_eq!(complete(&frame, |_| None).unwrap(), None);
        let whole = complete(&frame, |id| (id == named.id(&tenant)).then(|| named.clone())).unwrap().unwrap();
        let read = Batch::decode(&whole).unwrap();
        assert_eq!((read.source, read.sequence), (SourceId(7), 3));
        assert_eq!(read.series, [Ok(declared), Ok(named)]);
        assert_eq!((read.known.len(), read.samples), (0, batch.samples));
        assert!(complete(b"no frame", |_| None).is_err());
    }

    #[test]
    fn what_is_named_stays_and_the_rest_makes_room() {
        let mut registry = Registry::default();
        let def = def("m");
        (0..Registry::SERIES_MAX as u128).for_each(|id| registry.learn(SeriesId(id), &def));
        assert!(registry.named(SeriesId(0)).is_some());
        registry.learn(SeriesId(u128::MAX), &def);
        // A generation on, what was named since is young again.
        assert!(registry.named(SeriesId(1)).is_some());
        (0..Registry::SERIES_MAX as u128).for_each(|id| registry.learn(SeriesId(1 << 64 | id), &def));
        assert!(registry.named(SeriesId(1)).is_some() && registry.named(SeriesId(2)).is_none());
        assert!(registry.len() <= 2 * Registry::SERIES_MAX && !registry.is_empty());
    }
}
