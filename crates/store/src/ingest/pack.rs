//! How each kind of value is compressed in full parts of the head.
//!
//! Invariants: values are restored bit for bit.

use ogive_model::HistogramValue;

use crate::codec::histograms;
use crate::ingest::apply::Started;
use crate::ingest::column::Pack;
use crate::ingest::packed::{Columns, Packed, PackedRows};
use crate::ingest::packed_histograms as packed;
use crate::ingest::packed_texts;

/// 32 samples: as rows they take 512 bytes, packed some 130 with what a part takes by itself. A first part of 128 had 2
/// KiB of rows for each series that does not get as many until it is in a block; 16 would take more packed than they
/// save open.
const FLOATS_FIRST: usize = 32;

impl Pack for f64 {
    const FIRST_SAMPLES: usize = FLOATS_FIRST;

    fn pointed(&self) -> usize {
        0
    }

    fn pack(rows: &[(i64, Self)]) -> Option<Packed> {
        let (times, values) = rows.iter().copied().unzip();
        Some(Packed::from_columns(&Columns { times, values, starts: Vec::new() }))
    }

    fn unpack(packed: &Packed) -> Vec<(i64, Self)> {
        let Columns { times, values, .. } = packed.columns();
        assert_eq!(times.len(), values.len(), "each time has its float");
        times.into_iter().zip(values).collect()
    }
}

impl Pack for Started<f64> {
    const FIRST_SAMPLES: usize = FLOATS_FIRST;

    fn pointed(&self) -> usize {
        0
    }

    fn pack(rows: &[(i64, Self)]) -> Option<Packed> {
        let mut columns = Columns::default();
        for (time, row) in rows {
            columns.times.push(*time);
            columns.values.push(row.value);
            columns.starts.push(row.start);
        }
        debug_assert!(columns.times.is_sorted(), "a full part is in the order of its times");
        Some(Packed::from_columns(&columns))
    }

    fn unpack(packed: &Packed) -> Vec<(i64, Self)> {
        let Columns { times, values, starts } = packed.columns();
        assert_eq!(times.len(), values.len(), "each time has its float");
        assert_eq!(starts.len(), values.len(), "each float has its start");
        let rows = values.into_iter().zip(starts).map(|(value, start)| Self { start, value });
        times.into_iter().zip(rows).collect()
    }
}

/// 64 cells, of some 500 bytes each while they are rows: 32 would take a fifth more once they are packed, 128 leave
/// more in rows than they save.
const CELLS: usize = 64;
/// A cell of a second is open for its fragments that long, in seconds.
const CELLS_OPEN: usize = 8;

impl Pack for HistogramValue {
    const PART_SAMPLES: usize = CELLS;
    const OPEN_SAMPLES: usize = CELLS_OPEN;

    /// Its columns, and what allocating them costs.
    fn pointed(&self) -> usize {
        histograms::bins_of(self) * 12 + 32
    }

    fn pack(rows: &[(i64, Self)]) -> Option<Packed> {
        let times: Vec<i64> = rows.iter().map(|row| row.0).collect();
        let values: Vec<&Self> = rows.iter().map(|row| &row.1).collect();
        debug_assert!(times.is_sorted(), "a full part is in the order of its times");
        Some(Packed::new(&times, &[], |out| packed::put(out, &values)))
    }

    fn unpack(packed: &Packed) -> Vec<(i64, Self)> {
        let PackedRows { times, values: cursor, .. } = packed.open();
        let values = packed::get(cursor, times.len());
        assert_eq!(times.len(), values.len(), "each time has its histogram");
        times.into_iter().zip(values).collect()
    }
}

impl Pack for Started<HistogramValue> {
    const PART_SAMPLES: usize = CELLS;
    const OPEN_SAMPLES: usize = CELLS_OPEN;

    fn pointed(&self) -> usize {
        self.value.pointed()
    }

    fn pack(rows: &[(i64, Self)]) -> Option<Packed> {
        let times: Vec<i64> = rows.iter().map(|row| row.0).collect();
        let starts: Vec<i64> = rows.iter().map(|row| row.1.start).collect();
        let values: Vec<&HistogramValue> = rows.iter().map(|row| &row.1.value).collect();
        Some(Packed::new(&times, &starts, |out| packed::put(out, &values)))
    }

    fn unpack(packed: &Packed) -> Vec<(i64, Self)> {
        let PackedRows { times, starts, values: cursor } = packed.open();
        let values = packed::get(cursor, times.len());
        assert_eq!(times.len(), values.len(), "each time has its histogram");
        assert_eq!(starts.len(), values.len(), "each histogram has its start");
        let rows = values.into_iter().zip(starts).map(|(value, start)| Self { start, value });
        times.into_iter().zip(rows).collect()
    }
}

/// 1 MiB, the longest text: a reader of one unpacks its whole part, and a sender waits while one is packed.
pub(crate) const TEXT_BYTES_MAX: usize = 1 << 20;

impl Pack for String {
    fn pointed(&self) -> usize {
        self.len()
    }

    fn pack(rows: &[(i64, Self)]) -> Option<Packed> {
        let times: Vec<i64> = rows.iter().map(|row| row.0).collect();
        debug_assert!(times.is_sorted(), "a full part is in the order of its times");
        if rows.iter().map(|row| row.1.len()).sum::<usize>() > TEXT_BYTES_MAX {
            return None;
        }
        let mut is_whole = false;
        let packed = Packed::new(&times, &[], |out| {
            is_whole = packed_texts::put(out, rows.iter().map(|row| row.1.as_str()));
        });
        is_whole.then_some(packed)
    }

    fn unpack(packed: &Packed) -> Vec<(i64, Self)> {
        let PackedRows { times, values: cursor, .. } = packed.open();
        let texts = packed_texts::get(cursor, times.len());
        assert_eq!(times.len(), texts.len(), "each time has its text");
        times.into_iter().zip(texts).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ogive_hist::Histogram;
    use ogive_model::TimeRange;
    use proptest::prelude::*;

    use super::*;
    use crate::ingest::apply::{Applied, Measured, apply, apply_started};
    use crate::ingest::column::{Column, Part};

    fn cell(value: u8, scale: Option<i8>) -> HistogramValue {
        let mut histogram = match scale {
            None => Histogram::log_linear(),
            Some(scale) => Histogram::new(ogive_hist::Scheme::Exp2 { scale }),
        };
        histogram.record_n(f64::from(value) / 8.0, u64::from(value) % 5 + 1);
        HistogramValue::Integer(histogram)
    }

    fn rows<V: Pack>(column: &Column<V>) -> Vec<(i64, V)> {
        column.read(TimeRange::ALL).iter().flat_map(|part| part.rows(TimeRange::ALL).into_owned()).collect()
    }

    fn packed<V: Pack>(column: &Column<V>) -> usize {
        column.read(TimeRange::ALL).iter().filter(|part| matches!(&***part, Part::Packed(_))).count()
    }

    /// Cells that come in order, and some late: how far back each is.
    fn any_times() -> impl Strategy<Value = Vec<i64>> {
        let late = prop_oneof![12 => Just(0), 2 => 0..10_i64, 1 => 0..500_i64];
        prop::collection::vec(late, 0..700).prop_map(|late| {
            let times = (0_i64..).zip(late).map(|(at, late)| at / 2 - late);
            times.collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        /// Fragments of delta cells, and cumulative histograms of which the greater stays, against a map of what was
        /// never packed.
        #[test]
        fn cells_in_packed_parts_are_a_map(
            times in any_times(), values in prop::collection::vec(1..200_u8, 700), delta in any::<bool>(), change in 0..700_usize,
        ) {
            let mut column = Column::default();
            let mut model: BTreeMap<i64, HistogramValue> = BTreeMap::new();
            let (mut bytes, mut late) = (0, Vec::new());
            let mut held = None;
            for (at, (time, value)) in times.iter().zip(&values).enumerate() {
                let value = cell(*value, (at > change).then_some(3));
                let Applied { inserted, met, .. } = apply(&mut column, *time, value.clone(), delta);
                bytes += inserted.grown;
                late.extend(inserted.late_rows);
                if at % 3 == 0
                    && let Some(rows) = late.pop()
                {
                    bytes += column.pack_late(rows.times);
                }
                prop_assert_eq!(met, model.contains_key(time));
                match model.get_mut(time) {
                    Some(there) if delta => {
                        there.add(value);
                    }
                    Some(there) if value.order(there).is_le() => {}
                    _ => {
                        model.insert(*time, value);
                    }
                }
                if at == 300 {
                    held = Some((column.read(TimeRange::ALL), rows(&column)));
                }
            }
            prop_assert_eq!(bytes, column.bytes() as i64, "what grew is what is there");
            prop_assert_eq!(rows(&column), model.into_iter().collect::<Vec<_>>());
            if let Some((parts, then)) = held {
                let now: Vec<_> = parts.iter().flat_map(|part| part.rows(TimeRange::ALL).into_owned()).collect();
                prop_assert_eq!(now, then, "what a reader holds does not change");
            }
        }

        /// Points with starts are a set, however late they come, and get room for their starts when the first has one.
        #[test]
        fn points_in_packed_parts_are_a_set(times in any_times(), values in prop::collection::vec((1..4_u8, 0..3_i64), 700)) {
            let mut column = Column::default();
            let mut model = std::collections::BTreeSet::new();
            let mut bytes = 0;
            for (time, (value, start)) in times.iter().zip(&values) {
                let point = Started { start: time - 1000 + start, value: cell(*value, None) };
                let applied = apply_started(&mut column, *time, point, true);
                bytes += applied.inserted.grown;
                if let Some(rows) = applied.inserted.late_rows.filter(|_| *value > 1) {
                    bytes += column.pack_late(rows.times);
                }
                prop_assert_eq!(applied.known, !model.insert((*time, *start, *value)));
            }
            prop_assert_eq!(bytes, column.bytes() as i64, "what grew is what is there");
            let of = |(time, row): (i64, Started<HistogramValue>)| (time, row.start, row.value);
            let model = model.into_iter().map(|(time, start, value)| (time, time - 1000 + start, cell(value, None)));
            prop_assert_eq!(rows(&column).into_iter().map(of).collect::<Vec<_>>(), model.collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_first_parts_of_floats_are_short() {
        let mut column = Column::default();
        let mut bytes = 0;
        for time in 0..1000 {
            bytes += apply(&mut column, time, time as f64 / 4.0, false).inserted.grown;
            assert_eq!(bytes, column.bytes() as i64);
            let most = 32.max(time as usize / 3) * size_of::<(i64, f64)>() + 16 * (time as usize + 32);
            assert!(column.bytes() <= most, "{} bytes of {time} samples", column.bytes());
        }
        let lengths: Vec<usize> = column.read(TimeRange::ALL).iter().map(|part| part.len()).collect();
        assert_eq!(lengths, [32, 32, 32, 32, 64, 64, 64, 64, 128, 128, 128, 128, 104]);
        assert_eq!(packed(&column), 12);
        assert!(rows(&column).into_iter().eq((0..1000).map(|time| (time, time as f64 / 4.0))));
    }

    #[test]
    fn texts_of_no_bytes_and_of_many_come_back() {
        let mut long = "x".repeat(TEXT_BYTES_MAX - "é".len());
        let rows = |texts: Vec<String>| (0..).zip(texts).collect::<Vec<(i64, String)>>();
        for texts in [vec![String::new(); 128], vec![String::new(), long.clone(), "é".into()]] {
            let rows = rows(texts);
            let packed = <String as Pack>::pack(&rows).unwrap();
            assert_eq!(<String as Pack>::unpack(&packed), rows);
        }
        long.push('x');
        assert!(<String as Pack>::pack(&rows(vec![long, "é".into()])).is_none(), "one byte too many stays rows");
    }

    #[test]
    fn a_series_of_cells_is_packed_but_for_the_newest_and_what_late_fragments_change() {
        let mut column = Column::default();
        let mut bytes = 0;
        let mut add = |column: &mut Column<HistogramValue>, time, before: &mut Option<[i64; 2]>| {
            let inserted = apply(column, time, cell((time % 200) as u8 + 1, None), true).inserted;
            bytes += inserted.grown;
            if let Some(rows) = inserted.late_rows
                && let Some(times) = before.replace(rows.times)
            {
                bytes += column.pack_late(times);
            }
            assert_eq!(bytes, column.bytes() as i64);
        };
        let mut late = None;
        (0..1000).for_each(|time| add(&mut column, time, &mut late));
        let sealed = (1000 - CELLS_OPEN) / CELLS;
        assert_eq!(packed(&column), sealed);
        assert!(column.bytes() < 1000 * 20 + (CELLS + CELLS_OPEN) * 500, "{} bytes", column.bytes());
        // The fragments of the newest cells find them open.
        (990..1000).for_each(|time| add(&mut column, time, &mut late));
        assert_eq!((packed(&column), late), (sealed, None));
        // A second sender brings all cells once more: only where it is now is unpacked.
        for time in 0..900 {
            add(&mut column, time, &mut late);
            assert_eq!(packed(&column), sealed - 1, "{time}");
        }
    }
}
