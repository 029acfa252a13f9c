//! Batches that are durable in the spool but not yet at a majority: queries of this node include them.
//!
//! Invariants: a piece is here before its batch is acknowledged, unless the spool holds more than fits
//! ([`Pending::is_full`]); it is removed when a majority has every row of its group.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ogive_model::{Matcher, SeriesId, Tenant};

use crate::fragment::{Piece, Split};
use crate::index::CatalogSeries;

/// A series with its pieces.
pub(crate) type PendingPieces = (Arc<CatalogSeries>, Vec<Arc<Piece>>);

#[derive(Debug)]
struct Series {
    known: Arc<CatalogSeries>,
    /// Each with its batch's position in the spool, ascending.
    pieces: Vec<(u64, Arc<Piece>)>,
}

#[derive(Debug, Default)]
struct State {
    series: HashMap<SeriesId, Series>,
    bytes: u64,
    /// Behind the last position that is here or was.
    end: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Pending {
    state: Mutex<State>,
    bytes_max: u64,
}

/// What is to be written: everything before `end`.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) end: u64,
    pub(crate) series: Vec<PendingPieces>,
}

impl Pending {
    /// From the first position of the spool on.
    pub(crate) fn new(bytes_max: u64, first: u64) -> Self {
        let state = State { end: first, ..State::default() };
        Self { state: Mutex::new(state), bytes_max }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.state().bytes
    }

    /// The next position that is not here.
    pub(crate) fn end(&self) -> u64 {
        self.state().end
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes() >= self.bytes_max
    }

    /// Takes up the batch at `position`; those that are lost before it are passed over.
    pub(crate) fn add(&self, position: u64, tenant: &Tenant, split: &[Split]) {
        let mut state = self.state();
        assert!(position >= state.end, "batches come in order");
        for Split { id, def, pieces } in split {
            let bytes: u64 = pieces.iter().map(|piece| piece.bytes()).sum();
            state.bytes += bytes;
            let series = state.series.entry(*id).or_insert_with(|| Series {
                known: Arc::new(CatalogSeries { tenant: tenant.clone(), id: *id, def: def.clone() }),
                pieces: Vec::new(),
            });
            if series.known.def != *def {
                series.known = Arc::new(CatalogSeries { tenant: tenant.clone(), id: *id, def: def.clone() });
            }
            series.pieces.extend(pieces.iter().map(|piece| (position, Arc::clone(piece))));
        }
        state.end = position + 1;
    }

    /// Goes on behind what cannot be read.
    pub(crate) fn skip_to(&self, end: u64) {
        let mut state = self.state();
        state.end = state.end.max(end);
    }

    /// Everything that is here.
    pub(crate) fn group(&self) -> Group {
        let state = self.state();
        let held = |one: &Series| {
            (Arc::clone(&one.known), one.pieces.iter().map(|(_, piece)| Arc::clone(piece)).collect::<Vec<_>>())
        };
        Group { end: state.end, series: state.series.values().map(held).collect() }
    }

    /// A majority has everything before `end`.
    pub(crate) fn done(&self, end: u64) {
        let mut state = self.state();
        let mut freed = 0;
        state.series.retain(|_, one| {
            let gone = one.pieces.partition_point(|(position, _)| *position < end);
            freed += one.pieces.drain(..gone).map(|(_, piece)| piece.bytes()).sum::<u64>();
            !one.pieces.is_empty()
        });
        assert!(freed <= state.bytes, "{freed} bytes of {} go", state.bytes);
        state.bytes -= freed;
    }

    /// What is here of the series that `matchers` accept.
    pub(crate) fn find(&self, tenant: &Tenant, matchers: &[Matcher]) -> Vec<PendingPieces> {
        let state = self.state();
        let selected = state.series.values().filter(|one| one.known.is_selected(tenant, matchers));
        selected
            .map(|one| (Arc::clone(&one.known), one.pieces.iter().map(|(_, piece)| Arc::clone(piece)).collect()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ogive_model::{Kind, SeriesDef, SeriesMeta, SourceId, Temporality};

    fn split(sequence: u64) -> Vec<Split> {
        let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
        let def = SeriesDef::new([("__name__", "m")], meta).unwrap();
        let piece = Piece {
            source: SourceId(1),
            sequence,
            part: 0,
            minute: 1,
            arrived_us: 0,
            frame: [0; 72].as_slice().into(),
        };
        vec![Split { id: def.id(&Tenant::default()), def, pieces: vec![Arc::new(piece)] }]
    }

    #[test]
    fn what_is_done_goes_and_what_came_meanwhile_stays() {
        let pending = Pending::new(500, 5);
        pending.add(5, &Tenant::default(), &split(1));
        pending.add(7, &Tenant::default(), &split(2));
        assert_eq!((pending.bytes(), pending.end(), pending.is_full()), (400, 8, false));
        let group = pending.group();
        assert_eq!((group.end, group.series[0].1.len()), (8, 2));
        pending.add(8, &Tenant::default(), &split(3));
        assert!(pending.is_full());
        pending.done(group.end);
        let left = pending.find(&Tenant::default(), &[]);
        assert_eq!((pending.bytes(), left.len(), left[0].1[0].sequence), (200, 1, 3));
        pending.done(9);
        assert_eq!((pending.bytes(), pending.find(&Tenant::default(), &[]).len()), (0, 0));
    }
}
