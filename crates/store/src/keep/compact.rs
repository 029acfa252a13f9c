//! Compaction: several blocks of one window become one, and blocks of neighbouring windows become one of a longer
//! window.
//!
//! Invariants: the merged block gives the same answers as its inputs; all inputs are of one tenant and one resolution,
//! with windows inside its own. Deletions are carried out on the way. A long chunk of one block in whose time no other
//! has samples is copied and not encoded again.
//! Limits: one piece of a series, at most of the shortest window, in memory: 7,200 cells of 1 s are 15 MiB of
//! histograms, decoded, from each of [`INPUTS_MAX`] blocks at worst, and 48 bytes for each chunk of a series;
//! [`BYTES_MAX`] read in one go.
//! Failure: the blocks stay as they are; the maintenance thread retries later.

use std::collections::{BTreeMap, VecDeque};

use ogive_model::{Kind, Labels, Ms, SeriesData, SeriesMeta, Tenant, TimeRange, WallMs};

use crate::block::{ChunkEntry, Piece, Walk};
use crate::class::Classes;
use crate::codec::chunk;
use crate::tombstone::{Tombstone, is_empty};
use crate::window::{Ladder, Window};
use crate::{Block, BlockId, BlockMeta, Error, merge};

/// 1 GiB: four minutes of one core at 4 MB/s where everything is encoded again, once each step of the ladder.
pub(crate) const BYTES_MAX: u64 = 1 << 30;
/// 64 blocks with their indexes open at once.
pub(crate) const INPUTS_MAX: usize = 64;

/// When blocks become one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) ladder: Ladder,
    /// Blocks of like size in a window that still gets data; below 2 nothing is compacted.
    pub(crate) fan: usize,
    /// Windows that end at or before this get no more data but late data.
    pub(crate) closed: WallMs,
}

/// Blocks that should become one of `window`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) blocks: Vec<BlockId>,
    pub(crate) window: Window,
}

/// What should be compacted first: short windows before long ones, early ones before late ones. `apart` says of a block
/// that it must stay by itself, `whole` of a window whether a block like the given one may be made for it.
pub(crate) fn plan(
    blocks: &[BlockMeta],
    rules: &Rules,
    apart: impl Fn(&BlockMeta) -> bool,
    whole: impl Fn(&BlockMeta, Window) -> bool,
) -> Option<Job> {
    if rules.fan < 2 {
        return None;
    }
    let mut groups: BTreeMap<(&Tenant, u32, Classes), Vec<&BlockMeta>> = BTreeMap::new();
    for meta in blocks.iter().filter(|meta| meta.window.has_length() && !apart(meta)) {
        groups.entry((&meta.tenant, meta.resolution_ms, meta.dropped())).or_default().push(meta);
    }
    groups.iter().find_map(|((_, resolution, _), group)| {
        rules.ladder.lengths(*resolution).into_iter().find_map(|length| plan_step(group, length, rules, &whole))
    })
}

fn plan_step(
    group: &[&BlockMeta],
    length: Ms,
    rules: &Rules,
    whole: impl Fn(&BlockMeta, Window) -> bool,
) -> Option<Job> {
    let mut windows: BTreeMap<Window, Vec<&BlockMeta>> = BTreeMap::new();
    for meta in group.iter().filter(|meta| meta.window.length <= length) {
        let window = Window::containing(meta.window.end(), length);
        // One that was cut by other windows, before they were configured anew, may begin in the window before.
        if meta.window.start >= window.start {
            windows.entry(window).or_default().push(meta);
        }
    }
    windows.into_iter().find_map(|(window, blocks)| {
        let least = match (window.end() <= rules.closed, length == rules.ladder.base()) {
            (true, _) => 2,
            (false, true) => rules.fan,
            (false, false) => return None,
        };
        let chosen = choose(blocks, least)?;
        // A few late blocks of one window stay in it.
        let own = chosen[0].window;
        let window = if chosen.iter().all(|meta| meta.window == own) { own } else { window };
        debug_assert!(
            chosen.iter().all(|meta| meta.window == window || window.holds(&meta.window)),
            "what becomes a block of {window:?} is inside of it: {chosen:?}"
        );
        whole(chosen[0], window).then(|| Job { blocks: chosen.iter().map(|meta| meta.id).collect(), window })
    })
}

/// The most of the smallest blocks of which the greatest is at most as large as the others together: so a byte is
/// written again at most some `log2` of the number of blocks times, and a late sample does not rewrite a day.
fn choose(mut blocks: Vec<&BlockMeta>, least: usize) -> Option<Vec<&BlockMeta>> {
    blocks.sort_by_key(|meta| (meta.bytes, meta.id));
    blocks.truncate(INPUTS_MAX);
    let (mut sum, mut fitting) = (0, 0);
    for (at, meta) in blocks.iter().enumerate() {
        if at > 0 && meta.bytes <= sum && sum + meta.bytes <= BYTES_MAX {
            fitting = at + 1;
        }
        sum += meta.bytes;
    }
    blocks.truncate(fitting);
    assert!(blocks.len() <= INPUTS_MAX, "{} blocks are open at once", blocks.len());
    (fitting >= least.max(2)).then_some(blocks)
}

/// A block of which a part is read, without what `tombstones` delete.
pub(crate) struct Source<'a> {
    pub(crate) block: &'a Block,
    pub(crate) resolution_ms: u32,
    pub(crate) range: TimeRange,
    pub(crate) tombstones: Vec<Tombstone>,
}

struct Open<'a> {
    walk: Walk<'a>,
    resolution_ms: u32,
    range: TimeRange,
    tombstones: Vec<Tombstone>,
}

/// All series of several blocks, merged, ascending by (labels, kind), each in pieces that ascend in time.
pub(crate) struct Pieces<'a> {
    sources: Vec<Open<'a>>,
    piece: Ms,
    /// Series that it says yes to are passed over.
    without: &'a dyn Fn(&Labels, Kind) -> bool,
    stop: &'a dyn Fn() -> bool,
    /// Hears of what cannot be kept.
    clash: &'a dyn Fn(merge::Clash),
    copies_chunks: bool,
    /// The series that is read now, and up to when it was read.
    current: Option<CurrentSeries>,
    after: WallMs,
}

/// A series in the making.
struct CurrentSeries {
    labels: Labels,
    meta: SeriesMeta,
    /// The sources that have it.
    having: Vec<usize>,
    /// Chunks to copy that are still to come, each with its source, ascending in time.
    copies: VecDeque<(usize, ChunkEntry)>,
}

impl<'a> Pieces<'a> {
    /// Pieces of at most `piece`, aligned, decoded. `stop` is asked before each one and ends it all with an error.
    ///
    /// # Errors
    /// When an index cannot be read; the items have their own.
    pub(crate) fn new(
        sources: Vec<Source<'a>>,
        piece: Ms,
        without: &'a dyn Fn(&Labels, Kind) -> bool,
        stop: &'a dyn Fn() -> bool,
        clash: &'a dyn Fn(merge::Clash),
    ) -> Result<Self, Error> {
        let open = |source: Source<'a>| {
            let Source { block, resolution_ms, range, tombstones } = source;
            Ok(Open { walk: block.walk()?, resolution_ms, range, tombstones })
        };
        let sources = sources.into_iter().map(open).collect::<Result<Vec<_>, Error>>()?;
        Ok(Self { sources, piece, without, stop, clash, copies_chunks: false, current: None, after: WallMs::MIN })
    }

    /// With chunks as they are where they need no merge; other pieces end where these begin.
    pub(crate) fn with_chunks(self) -> Self {
        Self { copies_chunks: true, ..self }
    }

    /// The least series that any source stands at.
    fn find(&mut self) -> Result<Option<CurrentSeries>, Error> {
        let mut least: Option<CurrentSeries> = None;
        for (at, source) in self.sources.iter_mut().enumerate() {
            while source.walk.series()?.is_some_and(|def| (self.without)(&def.labels, def.meta.kind)) {
                source.walk.advance();
            }
            let Some(def) = source.walk.series()? else { continue };
            let key: (&Labels, Kind) = (&def.labels, def.meta.kind);
            match &mut least {
                Some(CurrentSeries { labels, meta, having, .. }) if (&*labels, meta.kind) == key => {
                    merge::merge_meta(meta, def.meta.clone());
                    having.push(at);
                }
                Some(current) if (&current.labels, current.meta.kind) < key => {}
                _ => {
                    let (labels, meta) = (def.labels.clone(), def.meta.clone());
                    least = Some(CurrentSeries { labels, meta, having: vec![at], copies: VecDeque::new() });
                }
            }
        }
        if let Some(current) = &mut least
            && self.copies_chunks
        {
            current.copies = copies(&mut self.sources, current)?;
        }
        Ok(least)
    }

    fn step(&mut self) -> Result<Option<Piece>, Error> {
        loop {
            if (self.stop)() {
                return Err(Error::Ending);
            }
            if self.current.is_none() {
                self.after = WallMs::MIN;
                self.current = self.find()?;
            }
            let Some(CurrentSeries { meta, having, copies, .. }) = &mut self.current else { return Ok(None) };
            let mut next: Option<WallMs> = None;
            for at in &*having {
                let Open { walk, range, .. } = &mut self.sources[*at];
                let time = walk.next_time(self.after.max(range.start))?.filter(|time| *time <= range.end);
                next = [next, time].into_iter().flatten().min();
            }
            let Some(next) = next else {
                assert!(copies.is_empty(), "{copies:?} come after everything");
                having.iter().for_each(|at| self.sources[*at].walk.advance());
                self.current = None;
                continue;
            };
            debug_assert!(!having.is_empty(), "a series is one of a source");
            let copied = copies.front().map(|(_, chunk)| WallMs(chunk.time_min));
            if copied == Some(next)
                && let Some((at, chunk)) = copies.pop_front()
            {
                self.after = WallMs(chunk.time_max);
                return Ok(Some(Piece::Chunk(self.sources[at].walk.whole(chunk)?)));
            }
            let mut piece = Window::containing(next, self.piece).range();
            piece.start = piece.start.max(self.after);
            piece.end = copied.map_or(piece.end, |begin| piece.end.min(begin.saturating_sub(Ms(1))));
            let mut whole: Option<SeriesData> = None;
            for at in &*having {
                if let Some(part) = self.sources[*at].read(piece)? {
                    match &mut whole {
                        Some(whole) => (self.clash)(merge::add(whole, part)),
                        None => whole = Some(part),
                    }
                }
            }
            assert!(next <= piece.end, "pieces ascend: {piece:?} comes behind {} and holds {next}", self.after);
            self.after = piece.end;
            if let Some(mut whole) = whole.filter(|whole| !is_empty(whole)) {
                whole.meta = meta.clone();
                return Ok(Some(Piece::Samples(whole)));
            }
        }
    }
}

/// The chunks of a series that a merge copies: long ones that are alone in their time. There are none where sources
/// differ in what they say of the series, since a chunk of one is then no chunk of another.
fn copies(sources: &mut [Open<'_>], series: &CurrentSeries) -> Result<VecDeque<(usize, ChunkEntry)>, Error> {
    let CurrentSeries { labels, meta, having, .. } = series;
    if meta.kind == Kind::Text {
        return Ok(VecDeque::new());
    }
    // Each with whether it may be copied.
    let mut chunks: Vec<(usize, ChunkEntry, bool)> = Vec::new();
    let mut have_aggregates = [false; 2];
    for at in having {
        let is_unchanged = sources[*at].keeps(labels);
        let Open { walk, range, .. } = &mut sources[*at];
        if walk.series()?.is_none_or(|def| def.meta != *meta) {
            return Ok(VecDeque::new());
        }
        let entry = walk.entry()?;
        have_aggregates[usize::from(entry.aggregates)] = true;
        let touching = entry.chunks.iter().filter(|chunk| chunk.touches(*range));
        chunks.extend(touching.map(|chunk| {
            let is_inside = range.contains_ms(chunk.time_min) && range.contains_ms(chunk.time_max);
            let is_long = chunk::is_long(meta.kind, chunk.samples as usize, chunk.length as usize);
            (*at, *chunk, is_unchanged && is_inside && is_long)
        }));
    }
    if have_aggregates == [true; 2] {
        return Ok(VecDeque::new());
    }
    chunks.sort_by_key(|(_, chunk, _)| chunk.time_min);
    let mut copied = VecDeque::new();
    let mut before = None;
    for (number, (at, chunk, may_copy)) in chunks.iter().enumerate() {
        let is_behind = before.is_none_or(|before| before < chunk.time_min);
        let is_before = chunks.get(number + 1).is_none_or(|(_, next, _)| chunk.time_max < next.time_min);
        before = before.max(Some(chunk.time_max));
        if *may_copy && is_behind && is_before {
            copied.push_back((*at, *chunk));
        }
    }
    Ok(copied)
}

impl Open<'_> {
    /// Whether the samples of a series are kept as they are encoded: none is deleted, and the encoding is of today.
    fn keeps(&self, labels: &Labels) -> bool {
        self.walk.is_of_today() && !self.tombstones.iter().any(|tombstone| tombstone.matches(labels))
    }

    fn read(&mut self, piece: TimeRange) -> Result<Option<SeriesData>, Error> {
        let range = TimeRange { start: piece.start.max(self.range.start), end: piece.end.min(self.range.end) };
        let Some(mut data) = self.walk.read(range)? else { return Ok(None) };
        self.tombstones.iter().for_each(|tombstone| tombstone.strip(&mut data, self.resolution_ms));
        Ok(Some(data))
    }
}

impl Iterator for Pieces<'_> {
    type Item = Result<Piece, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ogive_hist::{Histogram, Scheme};
    use ogive_journal::{Disk, SimulatedDisk};
    use ogive_model::{Aggregate, HistogramValue, MatchOp, Matcher, Selection, Temporality};
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{any_source, bits, meta};
    use crate::{Budget, block};

    const HOUR: i64 = 3_600_000;

    fn rules(fan: usize, closed_hour: i64) -> Rules {
        Rules { ladder: Ladder::new(Ms(2 * HOUR)), fan, closed: WallMs(closed_hour * HOUR) }
    }

    /// A block of `bytes` in the window of `hours` that ends at `end`.
    fn block(id: u64, bytes: u64, end: i64, hours: i64) -> BlockMeta {
        BlockMeta { window: Window::containing(WallMs(end * HOUR), Ms(hours * HOUR)), bytes, ..meta(id) }
    }

    fn planned(blocks: &[BlockMeta], rules: &Rules) -> Option<(Vec<u64>, i64, i64)> {
        let job = plan(blocks, rules, |_| false, |_, _| true)?;
        Some((job.blocks.iter().map(|id| id.0).collect(), job.window.start.0 / HOUR, job.window.length.0 / HOUR))
    }

    #[test]
    fn blocks_of_like_size_in_one_window_are_planned() {
        let check = |sizes: &[u64], fan, closed| {
            let blocks: Vec<_> = sizes.iter().zip(0..).map(|(bytes, id)| block(id, *bytes, 2, 2)).collect();
            planned(&blocks, &rules(fan, closed)).map(|job| job.0)
        };
        assert_eq!(check(&[5, 5], 3, 0), None, "the window is open");
        assert_eq!(check(&[5, 5], 3, 2), Some(vec![0, 1]), "the window is closed");
        assert_eq!(check(&[5, 5, 5], 3, 0), Some(vec![0, 1, 2]));
        assert_eq!(check(&[100, 5, 5, 5], 3, 2), Some(vec![1, 2, 3]));
        assert_eq!(check(&[11, 5, 5], 3, 0), None);
        assert_eq!(check(&[10, 5, 5], 3, 0), Some(vec![1, 2, 0]));
        assert_eq!(check(&[5, 5, 5], 1, 2), None, "it is off");
        // At the limit and one above.
        let third = BYTES_MAX / 3 + 1;
        assert_eq!(check(&[BYTES_MAX - 2 * third, third, third], 3, 0), Some(vec![0, 1, 2]));
        assert_eq!(check(&[BYTES_MAX - 2 * third + 1, third, third], 3, 0), None);
    }

    #[test]
    fn blocks_that_were_cut_by_other_windows_stay_as_they_are() {
        // Three hours a block before, two now: the first begins in one window of eight hours and ends in the next.
        let blocks = [block(0, 5, 9, 3), block(1, 5, 12, 2), block(2, 5, 14, 2)];
        assert_eq!(planned(&blocks, &rules(3, 16)), Some((vec![1, 2], 8, 8)));
        assert_eq!(planned(&blocks[..2], &rules(3, 16)), None);
    }

    #[test]
    fn neighbouring_windows_become_a_longer_one_when_it_is_closed() {
        let blocks = [block(0, 5, 2, 2), block(1, 5, 4, 2), block(2, 5, 6, 2), block(3, 5, 8, 2), block(4, 5, 10, 2)];
        assert_eq!(planned(&blocks, &rules(3, 7)), None);
        assert_eq!(planned(&blocks, &rules(3, 8)), Some((vec![0, 1, 2, 3], 0, 8)));
        let eights = [block(0, 5, 8, 8), block(1, 5, 16, 8), block(2, 6, 24, 8), block(3, 1, 26, 2)];
        assert_eq!(planned(&eights, &rules(3, 24)), Some((vec![0, 1, 2], 0, 24)));
        // A day is as long as it gets.
        assert_eq!(planned(&[block(0, 5, 24, 24), block(1, 5, 48, 24)], &rules(3, 900)), None);
        // Others' blocks, and other resolutions, stay apart.
        let mut apart = [block(0, 5, 2, 2), block(1, 5, 2, 2), block(2, 5, 2, 2)];
        apart[1].tenant = Tenant::new("other").unwrap();
        apart[2].resolution_ms = 60_000;
        assert_eq!(planned(&apart, &rules(2, 900)), None);
        assert_eq!(planned(&[block(0, 5, 2, 2), BlockMeta { window: Window::NONE, ..meta(1) }], &rules(2, 900)), None);
    }

    #[test]
    fn a_late_block_does_not_rewrite_the_day() {
        let day = block(0, 1_000_000, 24, 24);
        assert_eq!(planned(&[day.clone(), block(1, 10, 2, 2)], &rules(6, 900)), None);
        assert_eq!(
            planned(&[day.clone(), block(1, 10, 2, 2), block(2, 10, 2, 2)], &rules(6, 900)),
            Some((vec![1, 2], 0, 2))
        );
        assert_eq!(planned(&[day, block(1, 10, 2, 2), block(2, 10, 20, 2)], &rules(6, 900)), Some((vec![1, 2], 0, 24)));
    }

    #[test]
    fn a_week_of_flushes_leaves_few_blocks_and_little_written_again() {
        let mut blocks: Vec<BlockMeta> = Vec::new();
        let (mut next, mut written, mut flushed) = (0, 0, 0);
        for flush in 0..7 * 144_i64 {
            let end = (flush + 1) * 600_000;
            blocks.push(BlockMeta { window: Window::containing(WallMs(end), Ms(2 * HOUR)), bytes: 1000, ..meta(next) });
            (next, flushed) = (next + 1, flushed + 1000);
            let rules = Rules { ladder: Ladder::new(Ms(2 * HOUR)), fan: 6, closed: WallMs(end) };
            while let Some(job) = plan(&blocks, &rules, |_| false, |_, _| true) {
                let chosen = blocks.extract_if(.., |meta| job.blocks.contains(&meta.id));
                let bytes = chosen.map(|meta| meta.bytes).sum();
                blocks.push(BlockMeta { window: job.window, bytes, ..meta(next) });
                (next, written) = (next + 1, written + bytes);
            }
        }
        assert!(blocks.len() <= 12, "{} blocks", blocks.len());
        assert!(written <= 5 * flushed, "{written} bytes for {flushed}");
    }

    fn source(block: &Block) -> Source<'_> {
        Source { block, resolution_ms: 0, range: TimeRange::ALL, tombstones: Vec::new() }
    }

    const DIRECTORY: &str = "/store";

    /// A disk with the directory of the blocks.
    fn disk() -> SimulatedDisk {
        let disk = SimulatedDisk::new(0);
        disk.create_dir_all(Path::new(DIRECTORY)).unwrap();
        disk
    }

    /// A block of what `series` gives, if that is anything.
    fn written<P: Into<Piece>>(
        disk: &SimulatedDisk,
        id: u64,
        series: impl IntoIterator<Item = Result<P, Error>>,
    ) -> Option<Block> {
        let meta = block::write(disk, Path::new(DIRECTORY), BlockId(id), series).unwrap()?;
        Some(Block::open(disk, &Path::new(DIRECTORY).join(block::file_name(meta.id))).unwrap())
    }

    /// The block that `several` become.
    fn merged(disk: &SimulatedDisk, several: &[Block], piece_ms: i64) -> Option<Block> {
        let sources = several.iter().map(source).collect();
        let pieces = Pieces::new(sources, Ms(piece_ms), &|_, _| false, &|| false, &|_| ()).unwrap().with_chunks();
        written(disk, 99, pieces)
    }

    fn all(block: &Block) -> Vec<SeriesData> {
        let all = Selection::new(Vec::new(), TimeRange::ALL);
        block.select(&all, &mut Budget::new(usize::MAX)).unwrap()
    }

    proptest! {
        #[test]
        fn one_block_answers_as_several_did(
            sources in proptest::collection::vec(any_source(8, 40), 1..5), piece_ms in 3_000..400_000_i64,
        ) {
            let disk = disk();
            let written = sources.iter().zip(0..).filter_map(|(source, id)| written(&disk, id, source.iter().cloned().map(Ok)));
            let several: Vec<Block> = written.collect();
            let expected = merge(several.iter().map(all).collect());
            let found = merged(&disk, &several, piece_ms).map(|block| all(&block)).unwrap_or_default();
            prop_assert_eq!(bits(&found), bits(&expected));
        }
    }

    /// Cells each second from `begin` on, some of them missing.
    fn cells(number: u8, begin: i64, count: usize, holes: u64) -> SeriesData {
        let labels = Labels::new([("__name__", "m"), ("number", &number.to_string())]).unwrap();
        let mut data = crate::testing::empty(labels, Kind::Histogram, Temporality::Delta);
        for at in begin..begin + count as i64 {
            if (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) % 64 < holes {
                continue;
            }
            let mut cell = Histogram::log_linear();
            cell.record((1 + at % 7) as f64);
            data.histograms.times.push(at * 1000);
            data.histograms.values.push(HistogramValue::Integer(cell));
        }
        data
    }

    /// Samples and checksum of the chunks of a block's first series.
    fn chunks(block: &Block) -> Vec<(u32, u32)> {
        let mut walk = block.walk().unwrap();
        walk.entry().unwrap().chunks.iter().map(|chunk| (chunk.samples, chunk.checksum)).collect()
    }

    fn samples(block: &Block) -> Vec<u32> {
        chunks(block).into_iter().map(|(samples, _)| samples).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
        /// Of blocks with long chunks, apart and over each other.
        #[test]
        fn copied_chunks_answer_as_merged_ones(
            sources in proptest::collection::vec((0..3_u8, 0..1500_i64, 1..700_usize, 0..8_u64), 1..5),
            (from, to) in (0..2000_i64, 0..2000_i64), piece_ms in 3_000..900_000_i64, deletes in any::<bool>(),
        ) {
            let disk = disk();
            let make = |((number, begin, count, holes), id)| written(&disk, id, [Ok(cells(number, begin, count, holes))]);
            let several: Vec<Block> = sources.into_iter().zip(0..).filter_map(make).collect();
            // A part of the time, of which something may be deleted.
            let range = TimeRange { start: WallMs(from.min(to) * 1000), end: WallMs(from.max(to) * 1000) };
            let tombstone = Tombstone {
                generation: 1,
                tenant: Tenant::default(),
                matchers: vec![Matcher::new("number", MatchOp::Equal, "1").unwrap()],
                range: TimeRange { start: WallMs(500_000), end: WallMs(900_000) },
            };
            let tombstones: Vec<Tombstone> = deletes.then_some(tombstone).into_iter().collect();
            let sources = || several.iter().map(|block| Source { block, resolution_ms: 0, range, tombstones: tombstones.clone() }).collect();
            let pieces = || Pieces::new(sources(), Ms(piece_ms), &|_, _| false, &|| false, &|_| ()).unwrap();
            let ask = |block: Option<Block>| block.map(|block| all(&block)).unwrap_or_default();
            let expected = ask(written(&disk, 98, pieces()));
            let found = ask(written(&disk, 99, pieces().with_chunks()));
            prop_assert_eq!(bits(&found), bits(&expected));
        }
    }

    #[test]
    fn long_chunks_are_copied_and_short_ones_joined_once() {
        let disk = disk();
        let several: Vec<Block> =
            (0..4).filter_map(|id| written(&disk, id as u64, [Ok(cells(0, 600 * id, 600, 0))])).collect();
        assert_eq!(samples(&several[0]), [256, 256, 88]);
        let one = merged(&disk, &several, 7_200_000).unwrap();
        assert_eq!(samples(&one), [256, 256, 172, 172, 256, 172, 172, 256, 172, 172, 256, 88]);
        assert_eq!(chunks(&one)[..2], chunks(&several[0])[..2]);
        // From now on everything but the end is copied.
        let more = written(&disk, 5, [Ok(cells(0, 2400, 600, 0))]).unwrap();
        let two = merged(&disk, &[one, more], 7_200_000).unwrap();
        let one = merged(&disk, &several, 7_200_000).unwrap();
        assert_eq!(chunks(&two)[..11], chunks(&one)[..11]);
        assert_eq!(samples(&two)[11..], [172, 172, 256, 88]);
    }

    /// Cells of another scale, which share no chunk with those of [`cells`].
    #[test]
    fn a_short_chunk_of_another_scheme_leaves_the_next_one_as_it_is() {
        let disk = disk();
        let mut coarse = cells(0, 0, 10, 0);
        for value in &mut coarse.histograms.values {
            let mut cell = Histogram::new(Scheme::Exp2 { scale: 3 });
            cell.record(2.0);
            *value = HistogramValue::Integer(cell);
        }
        let several =
            [written(&disk, 0, [Ok(coarse)]).unwrap(), written(&disk, 1, [Ok(cells(0, 10, 300, 0))]).unwrap()];
        let one = merged(&disk, &several, 7_200_000).unwrap();
        assert_eq!(samples(&one), [10, 256, 44]);
        assert_eq!(chunks(&one)[1], chunks(&several[1])[0]);
        assert_eq!(bits(&all(&one)), bits(&merge(several.iter().map(all).collect())));
    }

    #[test]
    fn chunks_of_like_length_share_no_time() {
        let disk = disk();
        // Three points end at each time.
        let points = |begin: usize, count: usize| {
            let mut points = cells(0, begin as i64, count, 0);
            points.histograms.times = (begin..begin + count).map(|at| (at / 3) as i64 * 1000).collect();
            points.histograms.starts = (begin..begin + count).map(|at| 1 + at as i64).collect();
            points
        };
        let several =
            [written(&disk, 0, [Ok(points(0, 60))]).unwrap(), written(&disk, 1, [Ok(points(60, 255))]).unwrap()];
        let one = merged(&disk, &several, 7_200_000).unwrap();
        assert_eq!(samples(&one), [156, 159]);
        assert_eq!(bits(&all(&one)), bits(&merge(several.iter().map(all).collect())));
    }

    #[test]
    fn chunks_that_begin_at_the_time_at_which_another_ends_are_not_copied() {
        let disk = disk();
        // Points of a delta with starts: several may end at one time, and a chunk in between.
        let mut points = cells(0, 0, 300, 0);
        points.histograms.times[256] = points.histograms.times[255];
        points.histograms.starts = (1..=300).collect();
        let block = written(&disk, 0, [Ok(points.clone())]).unwrap();
        assert_eq!(samples(&block), [256, 44]);
        let again = merged(&disk, &[block], 7_200_000).unwrap();
        assert_eq!(bits(&all(&again)), bits(&[points]));
    }

    #[test]
    fn chunks_wait_behind_texts_as_samples_do() {
        let disk = disk();
        let block = |id: u64, begin: i64| {
            let labels = Labels::new([("__name__", "a log")]).unwrap();
            let mut log = crate::testing::empty(labels, Kind::Text, Temporality::Gauge);
            log.texts.times = vec![begin * 1000];
            log.texts.values = vec!["a line".to_owned()];
            written(&disk, id, [Ok(log), Ok(cells(0, begin, 600, 0)), Ok(cells(1, begin, 600, 0))]).unwrap()
        };
        let several = [block(0, 0), block(1, 600)];
        let one = merged(&disk, &several, 7_200_000).unwrap();
        assert_eq!(bits(&all(&one)), bits(&merge(several.iter().map(all).collect())));
        let mut walk = one.walk().unwrap();
        walk.advance();
        let copied: Vec<u32> = walk.entry().unwrap().chunks.iter().map(|chunk| chunk.samples).collect();
        assert_eq!(copied, [256, 256, 172, 172, 256, 88]);
    }

    #[test]
    fn floats_and_their_aggregates_are_copied() {
        let disk = disk();
        let block = |id: u64, begin: i64| {
            let labels = Labels::new([("__name__", "m")]).unwrap();
            let mut data = crate::testing::empty(labels, Kind::Float, Temporality::Gauge);
            data.floats.times = (begin..begin + 5000).map(|at| at * 1000).collect();
            data.floats.values = data.floats.times.iter().map(|time| (time % 977) as f64).collect();
            let samples = data.floats.times.iter().zip(&data.floats.values);
            data.floats.aggregates = samples.map(|(time, value)| Aggregate::from_sample(*time, *value, 0)).collect();
            written(&disk, id, [Ok(data)]).unwrap()
        };
        let several = [block(0, 0), block(1, 5000)];
        let one = merged(&disk, &several, 7_200_000).unwrap();
        assert_eq!(samples(&one), [4096, 2500, 2500, 904]);
        assert_eq!(chunks(&one)[0], chunks(&several[0])[0]);
        assert_eq!(bits(&all(&one)), bits(&merge(several.iter().map(all).collect())));
    }

    #[test]
    fn a_broken_block_ends_the_merge_with_its_error_and_so_does_the_end() {
        let (disk, directory) = (disk(), Path::new(DIRECTORY));
        let mut data =
            crate::testing::empty(Labels::new([("__name__", "up")]).unwrap(), Kind::Float, Temporality::Gauge);
        (data.floats.times, data.floats.values) = (vec![1], vec![1.0]);
        for id in 0..2 {
            block::write(&disk, directory, BlockId(id), [Ok(data.clone())]).unwrap();
        }
        let path = directory.join(block::file_name(BlockId(1)));
        // The first chunk begins behind the header.
        disk.flip_bit(&path, 16 * 8);
        let open = |id| Block::open(&disk, &directory.join(block::file_name(BlockId(id)))).unwrap();
        let (good, bad) = (open(0), open(1));
        let merge = |stop: &dyn Fn() -> bool| {
            let pieces =
                Pieces::new(vec![source(&good), source(&bad)], Ms(HOUR), &|_, _| false, stop, &|_| ()).unwrap();
            block::write(&disk, directory, BlockId(2), pieces)
        };
        assert!(matches!(merge(&|| false), Err(Error::Corrupt { path: named, .. }) if named == path));
        assert!(matches!(merge(&|| true), Err(Error::Ending)));
        assert_eq!(disk.list(directory).unwrap().len(), 2, "nothing was left behind");
    }
}
