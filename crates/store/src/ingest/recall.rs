//! Recall: the series with recent samples in the blocks when the store was opened. Opening reads none of them: they are
//! looked up when a batch first names one, or declares an unknown one.
//!
//! Invariants: a recalled series is exactly what its block says; an unreadable block hides only its own series, and is
//! counted.
//! Limits: about 40 bytes for each series of those blocks, from the first look-up on, for an hour; each block's pages
//! are read once.
//! Threads: the journal writer only.

use ogive_model::{Ms, Ns, SeriesDef, SeriesId, Temporality, Tenant};

use crate::Blocks;
use crate::ingest::table::{Table, halves};

/// An hour: longer than any usual interval between samples, so that only series that ended retire.
pub(crate) const IDLE: Ns = Ns::from_secs(3_600);
/// An hour, the time in which a series does not retire: samples of it came before the server ended.
const RECENT: Ms = IDLE.to_ms();

/// Where a series is described.
struct SeriesLocation {
    id: [u64; 2],
    series: u32,
    block: u32,
    temporality: Temporality,
}

const _: () = assert!(size_of::<SeriesLocation>() == 32);

/// The series of all blocks, once each.
struct SeriesCatalog {
    /// By identity, the number of the place.
    table: Table,
    places: Vec<SeriesLocation>,
}

impl SeriesCatalog {
    fn get(&self, id: SeriesId) -> Option<&SeriesLocation> {
        let number = self.table.find(halves(id), |number| self.places[number as usize].id)?;
        Some(&self.places[number as usize])
    }

    /// Puts a place in the place of an earlier one of its series.
    fn put(&mut self, place: SeriesLocation) {
        let places = &mut self.places;
        match self.table.find(place.id, |number| places[number as usize].id) {
            Some(number) => places[number as usize] = place,
            None => {
                let number = places.len() as u32;
                let id = place.id;
                places.push(place);
                self.table.insert(id, number, |number| places[number as usize].id);
                assert_eq!(self.table.len(), self.places.len(), "each place has one number");
            }
        }
    }
}

/// A series that was read from a block.
pub(crate) struct RecalledSeries {
    pub(crate) id: SeriesId,
    pub(crate) tenant: Tenant,
    pub(crate) def: SeriesDef,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Recall {
    blocks: Blocks,
    /// Made with the first question.
    known: Option<SeriesCatalog>,
    failures: u64,
}

impl Recall {
    /// The series of those of `blocks` that have recent samples.
    pub(crate) fn from_blocks(blocks: &Blocks) -> Self {
        Self { blocks: blocks.recent(RECENT), known: None, failures: 0 }
    }

    /// Blocks whose series could not be read since this was last asked.
    pub(crate) const fn take_failures(&mut self) -> u64 {
        std::mem::replace(&mut self.failures, 0)
    }

    /// The temporality of a series that is here.
    pub(crate) fn temporality(&mut self, id: SeriesId) -> Option<Temporality> {
        self.known().get(id).map(|place| place.temporality)
    }

    /// Those of `ids` that are here, read from their blocks.
    pub(crate) fn series(&mut self, ids: impl Iterator<Item = SeriesId>) -> Vec<RecalledSeries> {
        let known = self.known();
        // In the order in which they lie, so that a page is read once.
        let mut places: Vec<(u32, u32, SeriesId)> =
            ids.filter_map(|id| known.get(id).map(|place| (place.block, place.series, id))).collect();
        places.sort_unstable();
        let mut found = Vec::with_capacity(places.len());
        for (at, (meta, block)) in self.blocks.readable_all().enumerate() {
            let from = places.partition_point(|place| (place.0 as usize) < at);
            let here = &places[from..places.partition_point(|place| place.0 as usize <= at)];
            let mut ids = here.iter().map(|place| place.2);
            let read = block.series_at(here.iter().map(|place| place.1), |def| {
                let (id, tenant) = (ids.next().expect("one for each"), meta.tenant.clone());
                found.push(RecalledSeries { id, tenant, def });
            });
            debug_assert!(read.is_err() || ids.next().is_none(), "each series that was asked for is described");
            self.failures += u64::from(read.is_err());
        }
        found
    }

    fn known(&mut self) -> &SeriesCatalog {
        let (blocks, failures) = (&self.blocks, &mut self.failures);
        self.known.get_or_insert_with(|| {
            let series = blocks.metas().map(|meta| meta.series).max().unwrap_or(0);
            let room = usize::try_from(series).unwrap_or(0);
            let mut known = SeriesCatalog { table: Table::with_room(room), places: Vec::with_capacity(room) };
            // Ascending, so that what the newest block says counts.
            for ((meta, block), at) in blocks.readable_all().zip(0..) {
                let read = block.each_identity(&meta.tenant, |series, id, temporality| {
                    known.put(SeriesLocation { id: halves(id), series, block: at, temporality });
                });
                *failures += u64::from(read.is_err());
            }
            known
        })
    }
}
