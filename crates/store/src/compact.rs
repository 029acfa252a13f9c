//! Compaction: several blocks that follow each other become one, so that a question opens few.
//!
//! Invariants: the one block answers as the several did: parts of a delta cell merge exactly, of a gauge or
//! cumulative value the later block's stays. It stands where they stood in the order of arrival.
//! Limits: one series of the result at a time in memory, at most [`SPAN_MS_MAX`] of it; [`BYTES_MAX`] read in one go, so
//! that a flush waits some ten seconds at most.
//! Failure: the blocks stay as they are; they are left alone until the next start.

use std::collections::HashSet;
use std::ops::Range;

use ogive_model::{Kind, Labels, SeriesData};

use crate::{Block, BlockId, BlockMeta, Error, merge};

/// 8 hours: 28,800 cells of 1 s are 60 MiB of histograms of one series, decoded.
pub(crate) const SPAN_MS_MAX: i64 = 8 * 3600 * 1000;
/// 64 MiB: a million histograms, which take 16 s to decode, merge and encode.
pub(crate) const BYTES_MAX: u64 = 64 << 20;

/// Which of `blocks`, in the order of arrival, should become one: the first `fan` neighbours of like size. None of
/// them is in `left_alone`.
///
/// The greatest of them is at most as large as the others together, so that a byte is written again at most some
/// `log2` of the number of blocks times.
pub(crate) fn plan(blocks: &[BlockMeta], fan: usize, left_alone: &HashSet<BlockId>) -> Option<Range<usize>> {
    let fits = |window: &[BlockMeta]| {
        let bytes: u64 = window.iter().map(|meta| meta.bytes).sum();
        let greatest = window.iter().map(|meta| meta.bytes).max().unwrap_or(0);
        let first = window.iter().map(|meta| meta.time_min).min().unwrap_or(0);
        let last = window.iter().map(|meta| meta.time_max).max().unwrap_or(0);
        bytes <= BYTES_MAX
            && greatest <= bytes - greatest
            && last.saturating_sub(first) <= SPAN_MS_MAX
            && window.iter().all(|meta| meta.tenant == window[0].tenant && !left_alone.contains(&meta.id))
    };
    if fan < 2 {
        return None;
    }
    let at = blocks.windows(fan).position(fits)?;
    Some(at..at + fan)
}

/// All series of `blocks`, in the order of arrival, merged, one at a time, ascending by (labels, kind).
///
/// # Errors
/// When an index cannot be read; the items have their own.
pub(crate) fn series_of<'a>(
    blocks: &[&'a Block],
) -> Result<impl Iterator<Item = Result<SeriesData, Error>> + use<'a>, Error> {
    let mut sources = Vec::with_capacity(blocks.len());
    for block in blocks {
        sources.push(block.all()?.peekable());
    }
    Ok(std::iter::from_fn(move || {
        let mut least: Option<(Labels, Kind)> = None;
        for source in &mut sources {
            match source.peek() {
                Some(Ok(data)) => {
                    let key = (data.labels.clone(), data.meta.kind);
                    least = Some(match least {
                        Some(least) => least.min(key),
                        None => key,
                    });
                }
                Some(Err(_)) => return source.next(),
                None => {}
            }
        }
        let least = least?;
        let is_least = |next: &Result<SeriesData, Error>| {
            next.as_ref().is_ok_and(|data| data.labels == least.0 && data.meta.kind == least.1)
        };
        let mut parts = sources.iter_mut().filter_map(|source| source.next_if(is_least)).flatten();
        let mut whole = parts.next()?;
        parts.for_each(|part| merge::add(&mut whole, part));
        Some(Ok(whole))
    }))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ogive_journal::{Disk, SimulatedDisk};
    use ogive_model::{Selection, Tenant, TimeRange};
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{any_source, bits};
    use crate::{Budget, block};

    fn meta(id: u64, bytes: u64, hour: i64) -> BlockMeta {
        let time_min = hour * 3_600_000;
        BlockMeta {
            id: BlockId(id),
            tenant: Tenant::default(),
            time_min,
            time_max: time_min + 3_599_000,
            series: 1,
            samples: 1,
            bytes,
        }
    }

    #[test]
    fn neighbours_of_like_size_are_planned() {
        let none = HashSet::new();
        let check = |blocks: &[BlockMeta]| plan(blocks, 3, &none);
        let of =
            |sizes: &[u64]| sizes.iter().zip(0..).map(|(bytes, id)| meta(id, *bytes, id as i64)).collect::<Vec<_>>();
        assert_eq!(check(&of(&[5, 5])), None);
        assert_eq!(check(&of(&[5, 5, 5])), Some(0..3));
        assert_eq!(check(&of(&[100, 5, 5, 5])), Some(1..4));
        assert_eq!(check(&of(&[11, 5, 5])), None);
        assert_eq!(check(&of(&[10, 5, 5])), Some(0..3));
        assert_eq!(plan(&of(&[5, 5, 5]), 0, &none), None);
        assert_eq!(plan(&of(&[5, 5, 5, 5]), 3, &HashSet::from([BlockId(0)])), Some(1..4));
        let mut mixed = of(&[5, 5, 5, 5, 5]);
        mixed[1].tenant = Tenant::new("other").unwrap();
        assert_eq!(check(&mixed), Some(2..5), "tenants stay apart");
        // At the limits and one above.
        let third = BYTES_MAX / 3 + 1;
        assert_eq!(check(&of(&[BYTES_MAX - 2 * third, third, third])), Some(0..3));
        assert_eq!(check(&of(&[BYTES_MAX - 2 * third + 1, third, third])), None);
        let mut long = of(&[5, 5, 5]);
        long[2].time_max = SPAN_MS_MAX;
        assert_eq!(check(&long), Some(0..3));
        long[2].time_max += 1;
        assert_eq!(check(&long), None);
    }

    #[test]
    fn many_flushes_leave_few_blocks_and_little_written_again() {
        let mut blocks: Vec<BlockMeta> = Vec::new();
        let (mut next, mut written, mut flushed) = (0, 0, 0);
        for flush in 0..300_i64 {
            blocks.push(BlockMeta {
                time_min: flush * 60_000,
                time_max: flush * 60_000 + 59_000,
                ..meta(next, 1000, 0)
            });
            (next, flushed) = (next + 1, flushed + 1000);
            while let Some(window) = plan(&blocks, 8, &HashSet::new()) {
                let several: Vec<BlockMeta> = blocks.splice(window.clone(), []).collect();
                let bytes = several.iter().map(|meta| meta.bytes).sum();
                let (first, last) = (&several[0], &several[7]);
                blocks.insert(
                    window.start,
                    BlockMeta { time_min: first.time_min, time_max: last.time_max, ..meta(next, bytes, 0) },
                );
                (next, written) = (next + 1, written + bytes);
            }
        }
        assert!(blocks.len() <= 24, "{} blocks", blocks.len());
        assert!(written <= 4 * flushed, "{written} bytes for {flushed}");
    }

    proptest! {
        #[test]
        fn one_block_answers_as_several_did(sources in proptest::collection::vec(any_source(8, 40), 1..5)) {
            let (disk, directory) = (SimulatedDisk::new(0), Path::new("/store"));
            disk.create_dir_all(directory).unwrap();
            let write = |id: u64, series: Vec<Result<SeriesData, Error>>| {
                let meta = block::write(&disk, directory, BlockId(id), series).unwrap()?;
                Some(Block::open(&disk, &directory.join(block::file_name(meta.id))).unwrap())
            };
            let several: Vec<Block> = sources.iter().zip(0..).filter_map(|(source, id)| write(id, source.iter().cloned().map(Ok).collect())).collect();
            let series = series_of(&several.iter().collect::<Vec<_>>()).unwrap().collect();
            let all = Selection { matchers: Vec::new(), range: TimeRange::ALL, samples_max: usize::MAX, labels_only: false };
            let ask = |block: &Block| block.select(&all, &mut Budget::new(usize::MAX)).unwrap();
            let expected = merge(several.iter().map(ask).collect());
            let found = write(99, series).map(|block| ask(&block)).unwrap_or_default();
            prop_assert_eq!(bits(&found), bits(&expected));
        }
    }

    #[test]
    fn a_broken_block_ends_the_merge_with_its_error() {
        let (disk, directory) = (SimulatedDisk::new(0), Path::new("/store"));
        disk.create_dir_all(directory).unwrap();
        let mut data = crate::testing::empty(
            Labels::new([("__name__", "up")]).unwrap(),
            Kind::Float,
            ogive_model::Temporality::Gauge,
        );
        (data.floats.times, data.floats.values) = (vec![1], vec![1.0]);
        for id in 0..2 {
            block::write(&disk, directory, BlockId(id), [Ok(data.clone())]).unwrap();
        }
        let path = directory.join(block::file_name(BlockId(1)));
        // The first chunk begins behind the header.
        disk.flip_bit(&path, 16 * 8);
        let open = |id| Block::open(&disk, &directory.join(block::file_name(BlockId(id)))).unwrap();
        let (good, bad) = (open(0), open(1));
        let written = block::write(&disk, directory, BlockId(2), series_of(&[&good, &bad]).unwrap());
        assert!(matches!(written, Err(Error::Corrupt { path: named, .. }) if named == path));
        assert_eq!(disk.list(directory).unwrap().len(), 2, "nothing was left behind");
    }
}
