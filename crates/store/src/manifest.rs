//! Manifest: the live blocks, and the position from which the journal must be replayed.
//!
//! Invariants: block ids are distinct and below `next_block`; a block that no manifest names does not exist, whatever
//! files are present; written bytes can be read again, because `Manifest::to_file` decodes them before anything is
//! changed. `manifest_files` writes them to the disk, twice.
//! Format: docs/formats/manifest.md.
//! Limits: `BLOCKS_MAX`, `HORIZONS_MAX`, [`TOMBSTONES_MAX`], `BODY_BYTES_MAX`; the writer and the reader of a manifest
//! both check them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use ogive_journal::Position;
use ogive_model::{Ms, Tenant, WallMs};

use crate::block::{BlockId, BlockMeta};
use crate::bytes::{Broken, Cursor, get_tenant, put_bytes, put_signed, put_tenant, put_varint};
use crate::tombstone::{TOMBSTONES_MAX, Tombstone};
use crate::window::Window;
use crate::{Error, block};

use crate::layout::MANIFEST_FILE;

const MAGIC: [u8; 8] = *b"OGIVEMAN";
const VERSION: u32 = 3;
/// The version of a manifest without [`Manifest::read_before`], which earlier builds read.
const VERSION_PLAIN: u32 = 2;
/// Magic, version, length of the body, checksum of the body.
const HEADER_BYTES: usize = 8 + 4 + 4 + 4;
const _: () = assert!(HEADER_BYTES == 20);
/// 1 Mi blocks: a block an hour for a century. Tests reach a smaller one in time.
const BLOCKS_MAX: usize = if cfg!(test) { 1 << 12 } else { 1 << 20 };
/// 1 GiB: a megabyte of windows beside a million blocks is far below it, and a torn length is far above.
const BODY_BYTES_MAX: usize = 1 << 30;

/// 64 Ki: a thousand tenants with a few resolutions each, many times over.
const HORIZONS_MAX: usize = 1 << 16;

/// Up to where the data of a tenant in one resolution was dropped for its age or its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Horizon {
    /// Whose.
    pub tenant: Tenant,
    /// Which.
    pub resolution_ms: u32,
    /// Samples at and before this are gone.
    pub until: WallMs,
}

/// The state of a store beside its journal. Each change is a whole new manifest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manifest {
    /// Rises by one with each change.
    pub generation: u64,
    /// The live blocks.
    pub blocks: Vec<BlockMeta>,
    /// Deletions that are not carried out in every block.
    pub tombstones: Vec<Tombstone>,
    /// What was dropped.
    pub horizons: Vec<Horizon>,
    /// The id that the next block gets.
    pub next_block: u64,
    /// Where in the journal the replay begins: everything before it is in the blocks.
    pub replay_from: Position,
    /// How many records before `replay_from` a replay reads too: their samples are in the blocks, but they bind numbers
    /// of series that records behind it use.
    pub read_before: u64,
    /// What ingest remembers of each source's sequence numbers at `replay_from`, in its own coding.
    pub windows: Vec<u8>,
}

impl Manifest {
    /// Where a block of `id` lies.
    #[must_use]
    pub fn block_path(directory: &Path, id: BlockId) -> PathBuf {
        directory.join(block::file_name(id))
    }

    /// The first record of the journal that a start reads.
    #[must_use]
    pub const fn read_from(&self) -> Position {
        Position(self.replay_from.0.saturating_sub(self.read_before))
    }

    /// Takes blocks out that something else stands for now.
    ///
    /// # Panics
    /// When one of them is not live: what was made of it would be there twice.
    pub(crate) fn remove_blocks(&mut self, ids: &[BlockId]) {
        let before = self.blocks.len();
        self.blocks.retain(|meta| !ids.contains(&meta.id));
        assert_eq!(self.blocks.len() + ids.len(), before, "each block that is replaced is live: {ids:?}");
    }

    const fn version(&self) -> u32 {
        if self.read_before > 0 { VERSION } else { VERSION_PLAIN }
    }

    /// The bytes of the file, which were decoded again: what no reader would take is never written.
    ///
    /// # Errors
    /// [`Error::Refused`] with the limit that it is beyond.
    pub(crate) fn to_file(&self) -> Result<Vec<u8>, Error> {
        let refused = |problem: String| Error::Refused {
            problem: format!("the store cannot keep this change, because no start would read it again: {problem}"),
        };
        // Before anything of that size is made.
        if self.blocks.len() > BLOCKS_MAX {
            return Err(refused(format!("{} blocks where at most {BLOCKS_MAX} can be", self.blocks.len())));
        }
        let too_long =
            |bytes| Err(refused(format!("a manifest of {bytes} bytes where at most {BODY_BYTES_MAX} can be")));
        if self.windows.len() > BODY_BYTES_MAX {
            return too_long(self.windows.len());
        }
        let body = self.encode_body();
        if body.len() > BODY_BYTES_MAX {
            return too_long(body.len());
        }
        let bytes = seal(&body, self.version());
        match Self::decode(&bytes, Path::new(MANIFEST_FILE)) {
            Ok(back) if back == *self => Ok(bytes),
            Ok(_) => Err(refused("it comes back as another one".into())),
            Err(Error::Corrupt { problem, .. }) => Err(refused(problem)),
            Err(error) => Err(error),
        }
    }

    /// The bytes of the file, unchecked.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        seal(&self.encode_body(), self.version())
    }

    fn encode_body(&self) -> Vec<u8> {
        let mut body = Vec::new();
        put_varint(&mut body, self.next_block);
        put_varint(&mut body, self.replay_from.0);
        put_bytes(&mut body, &self.windows);
        put_varint(&mut body, self.generation);
        put_varint(&mut body, self.blocks.len() as u64);
        for meta in &self.blocks {
            put_varint(&mut body, meta.id.0);
            put_signed(&mut body, meta.time_min.0);
            put_signed(&mut body, meta.time_max.0);
            for number in [meta.series, meta.samples, meta.bytes] {
                put_varint(&mut body, number);
            }
            put_tenant(&mut body, &meta.tenant);
            put_varint(&mut body, u64::from(meta.resolution_ms));
            put_signed(&mut body, meta.window.start.0);
            put_varint(&mut body, meta.window.length.0.cast_unsigned());
            for number in [meta.arrived, meta.cleaned, meta.rolled] {
                put_varint(&mut body, number);
            }
        }
        put_varint(&mut body, self.tombstones.len() as u64);
        self.tombstones.iter().for_each(|tombstone| tombstone.put(&mut body));
        put_varint(&mut body, self.horizons.len() as u64);
        for horizon in &self.horizons {
            put_tenant(&mut body, &horizon.tenant);
            put_varint(&mut body, u64::from(horizon.resolution_ms));
            put_signed(&mut body, horizon.until.0);
        }
        if self.read_before > 0 {
            put_varint(&mut body, self.read_before);
        }
        body
    }

    /// Reads the bytes of a file; `path` is for the error.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or [`Error::TooNew`].
    pub fn decode(bytes: &[u8], path: &Path) -> Result<Self, Error> {
        let corrupt =
            |offset: usize, problem: String| Error::Corrupt { path: path.into(), offset: offset as u64, problem };
        let at = |broken: Broken| corrupt(broken.offset, broken.problem);
        let mut header = Cursor::new(bytes);
        if header.take(MAGIC.len()).map_err(at)? != MAGIC {
            return Err(corrupt(0, "it does not begin as a manifest does".into()));
        }
        let version = header.u32().map_err(at)?;
        if version > VERSION {
            return Err(Error::TooNew { path: path.into(), found: version, known: VERSION });
        }
        let (length, expected) = (header.u32().map_err(at)? as usize, header.u32().map_err(at)?);
        let body = header.rest();
        if version == 0 || length > BODY_BYTES_MAX || body.len() != length {
            return Err(corrupt(12, format!("version {version} with {} bytes where it says {length}", body.len())));
        }
        let found = crc32c::crc32c(body);
        if found != expected {
            return Err(corrupt(HEADER_BYTES, format!("checksum {found:08x} where {expected:08x} was written")));
        }
        Self::decode_body(body, version).map_err(|broken| corrupt(HEADER_BYTES + broken.offset, broken.problem))
    }

    fn decode_body(body: &[u8], version: u32) -> Result<Self, Broken> {
        let mut cursor = Cursor::new(body);
        let (next_block, replay_from) = (cursor.varint()?, Position(cursor.varint()?));
        let windows = cursor.length_and_bytes()?.to_vec();
        let generation = if version < 2 { 0 } else { cursor.varint()? };
        let mut manifest = Self { generation, next_block, replay_from, windows, ..Self::default() };
        let mut met = HashSet::new();
        for _ in 0..cursor.count(BLOCKS_MAX, "blocks")? {
            let meta = get_block(&mut cursor, version)?;
            if !met.insert(meta.id) || meta.id.0 >= next_block {
                return Err(cursor.broken(format!("block {} is listed twice or too new", meta.id.0)));
            }
            manifest.blocks.push(meta);
        }
        if version >= 2 {
            for _ in 0..cursor.count(TOMBSTONES_MAX, "tombstones")? {
                manifest.tombstones.push(Tombstone::get(&mut cursor)?);
            }
            for _ in 0..cursor.count(HORIZONS_MAX, "horizons")? {
                let (tenant, resolution_ms) = (get_tenant(&mut cursor)?, get_resolution(&mut cursor)?);
                manifest.horizons.push(Horizon { tenant, resolution_ms, until: WallMs(cursor.signed()?) });
            }
        }
        if version >= 3 {
            manifest.read_before = cursor.varint()?;
            if manifest.read_before == 0 || manifest.read_before > replay_from.0 {
                return Err(cursor.broken(format!("{} records before {}", manifest.read_before, replay_from.0)));
            }
        }
        if !cursor.is_empty() {
            return Err(cursor.broken("bytes follow the last entry"));
        }
        Ok(manifest)
    }
}

/// The file of a body.
fn seal(body: &[u8], version: u32) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("a manifest is far below 4 GiB");
    let mut out = Vec::with_capacity(HEADER_BYTES + body.len());
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&version.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&crc32c::crc32c(body).to_le_bytes());
    out.extend_from_slice(body);
    assert_eq!(out.len(), HEADER_BYTES + body.len(), "a reader looks for the body behind the header");
    out
}

fn get_block(cursor: &mut Cursor<'_>, version: u32) -> Result<BlockMeta, Broken> {
    let mut meta = BlockMeta {
        id: BlockId(cursor.varint()?),
        time_min: WallMs(cursor.signed()?),
        time_max: WallMs(cursor.signed()?),
        series: cursor.varint()?,
        samples: cursor.varint()?,
        bytes: cursor.varint()?,
        tenant: Tenant::default(),
        resolution_ms: 0,
        window: Window::NONE,
        arrived: 0,
        cleaned: 0,
        rolled: 0,
    };
    if version >= 2 {
        (meta.tenant, meta.resolution_ms) = (get_tenant(cursor)?, get_resolution(cursor)?);
        let start = WallMs(cursor.signed()?);
        let length = Ms(cursor.count(WINDOW_MS_MAX, "milliseconds of a window")? as i64);
        meta.window = Window { start, length };
        (meta.arrived, meta.cleaned, meta.rolled) = (cursor.varint()?, cursor.varint()?, cursor.varint()?);
    }
    Ok(meta)
}

/// A century: no window is longer.
const WINDOW_MS_MAX: usize = 100 * 366 * 24 * 3_600_000;

fn get_resolution(cursor: &mut Cursor<'_>) -> Result<u32, Broken> {
    Ok(cursor.count(u32::MAX as usize, "milliseconds of a cell")? as u32)
}

#[cfg(test)]
pub(crate) mod tests {
    use ogive_model::{MatchOp, Matcher, TimeRange};
    use proptest::prelude::*;

    use super::*;
    use crate::tombstone::MATCHERS_MAX;

    pub(crate) fn sample(blocks: u64) -> Manifest {
        let block = |id| BlockMeta {
            id: BlockId(id * 3),
            time_min: WallMs(-5),
            time_max: WallMs(i64::MAX),
            series: 1,
            samples: id,
            bytes: 900,
            tenant: if id == 1 { Tenant::new("team-7").unwrap() } else { Tenant::default() },
            resolution_ms: 60_000,
            window: Window::containing(WallMs(9_000_000), Ms(7_200_000)),
            arrived: 4,
            cleaned: 5,
            rolled: 6,
        };
        let matchers = [(MatchOp::Equal, "a"), (MatchOp::NotRegex, "a|b.*")];
        let matchers = matchers.map(|(op, value)| Matcher::new("host", op, value).unwrap()).to_vec();
        let range = TimeRange::from_ms(-7, i64::MAX);
        Manifest {
            generation: 9,
            blocks: (0..blocks).map(block).collect(),
            tombstones: vec![Tombstone { generation: 3, tenant: Tenant::default(), matchers, range }],
            horizons: vec![Horizon { tenant: Tenant::default(), resolution_ms: 0, until: WallMs(7_200_000) }],
            next_block: blocks * 3 + 1,
            replay_from: Position(77),
            read_before: 0,
            windows: vec![1, 2, 3],
        }
    }

    #[test]
    fn a_manifest_comes_back_and_damage_is_found() {
        let path = Path::new("/store/MANIFEST");
        let bytes = sample(3).encode();
        assert_eq!(Manifest::decode(&bytes, path).unwrap(), sample(3));
        for length in 0..bytes.len() {
            assert!(matches!(Manifest::decode(&bytes[..length], path), Err(Error::Corrupt { .. })), "cut at {length}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let found = Manifest::decode(&flipped, path);
            assert!(matches!(found, Err(Error::Corrupt { .. } | Error::TooNew { .. })), "bit {bit}");
        }
    }

    #[test]
    fn records_before_the_replay_are_in_a_version_of_their_own() {
        let path = Path::new("/store/MANIFEST");
        assert_eq!(sample(1).encode()[8], 2, "earlier builds read it");
        for (read_before, first) in [(1, 76), (77, 0)] {
            let manifest = Manifest { read_before, ..sample(1) };
            let bytes = manifest.encode();
            assert_eq!((bytes[8], manifest.read_from()), (3, Position(first)));
            assert_eq!(Manifest::decode(&bytes, path).unwrap(), manifest);
        }
        let before_all = Manifest { read_before: 78, ..sample(1) };
        assert!(matches!(Manifest::decode(&before_all.encode(), path), Err(Error::Corrupt { .. })));
    }

    #[test]
    fn a_block_named_twice_or_above_the_next_is_an_error() {
        let decode = |change: fn(&mut Manifest)| {
            let mut manifest = sample(2);
            change(&mut manifest);
            Manifest::decode(&manifest.encode(), Path::new(MANIFEST_FILE))
        };
        assert!(decode(|manifest| manifest.blocks.reverse()).is_ok());
        assert!(matches!(decode(|manifest| manifest.blocks[0].id = BlockId(3)), Err(Error::Corrupt { .. })));
        assert!(matches!(decode(|manifest| manifest.next_block = 3), Err(Error::Corrupt { .. })));
    }

    /// `delete_series` with 257 matchers was answered as done, and no start read the manifest again: limits were
    /// checked where bytes are read and not where they are written. Now each is refused by the writer at one above its
    /// value.
    #[test]
    fn what_no_reader_would_take_is_not_written() {
        let written = |change: &dyn Fn(&mut Manifest)| {
            let mut manifest = sample(2);
            change(&mut manifest);
            let bytes = manifest.to_file();
            let read = bytes.as_ref().ok().map(|bytes| Manifest::decode(bytes, Path::new(MANIFEST_FILE)).unwrap());
            assert!(read.is_none_or(|read| read == manifest), "what is written comes back");
            bytes.map(drop)
        };
        let refused = |change: &dyn Fn(&mut Manifest), limit: &str| match written(change) {
            Err(Error::Refused { problem }) => assert!(problem.contains(limit), "{problem}"),
            other => panic!("{limit}: {other:?}"),
        };
        let matcher = Matcher::new("host", MatchOp::Equal, "a").unwrap();
        let matchers = |count| {
            let matcher = matcher.clone();
            move |manifest: &mut Manifest| manifest.tombstones[0].matchers = vec![matcher.clone(); count]
        };
        written(&matchers(MATCHERS_MAX)).unwrap();
        refused(&matchers(MATCHERS_MAX + 1), "257 matchers where at most 256");
        let tombstones = |count| {
            let matchers = vec![matcher.clone()];
            move |manifest: &mut Manifest| {
                let one = Tombstone { matchers: matchers.clone(), ..manifest.tombstones[0].clone() };
                manifest.tombstones = vec![one; count];
            }
        };
        written(&tombstones(TOMBSTONES_MAX)).unwrap();
        refused(&tombstones(TOMBSTONES_MAX + 1), "4097 tombstones where at most 4096");
        let horizons =
            |count| move |manifest: &mut Manifest| manifest.horizons = vec![manifest.horizons[0].clone(); count];
        written(&horizons(HORIZONS_MAX)).unwrap();
        refused(&horizons(HORIZONS_MAX + 1), "65537 horizons where at most 65536");
        let window = |length_ms| {
            move |manifest: &mut Manifest| manifest.blocks[0].window = Window { start: WallMs(0), length: length_ms }
        };
        written(&window(Ms(WINDOW_MS_MAX as i64))).unwrap();
        refused(&window(Ms(WINDOW_MS_MAX as i64 + 1)), "milliseconds of a window");
        let blocks = |count: u64| {
            move |manifest: &mut Manifest| {
                manifest.next_block = count;
                let meta = manifest.blocks[0].clone();
                manifest.blocks = (0..count).map(|id| BlockMeta { id: BlockId(id), ..meta.clone() }).collect();
            }
        };
        written(&blocks(BLOCKS_MAX as u64)).unwrap();
        refused(&blocks(BLOCKS_MAX as u64 + 1), "4097 blocks where at most 4096");
        refused(&|manifest| manifest.next_block = 3, "too new");
        // A body of 1 GiB and one byte, of zeros that nobody touches.
        let above = Manifest { windows: vec![0; BODY_BYTES_MAX + 1], ..Manifest::default() };
        assert!(matches!(above.to_file(), Err(Error::Refused { .. })));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_manifest_or_an_error(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            (1..=VERSION).for_each(|version| _ = Manifest::decode_body(&body, version));
        }
    }

    /// The bytes that docs/formats/manifest.md shows.
    #[test]
    fn the_example_of_the_format_page_is_what_is_written_and_read() {
        let block = |id, start_ms, resolution_ms| BlockMeta {
            id: BlockId(id),
            time_min: start_ms + Ms(1000),
            time_max: start_ms + Ms(7_200_000),
            series: 2,
            samples: 14_400,
            bytes: 5_000,
            tenant: if id == 9 { Tenant::new("team-7").unwrap() } else { Tenant::default() },
            resolution_ms,
            window: Window { start: start_ms, length: Ms(7_200_000) },
            arrived: 3,
            cleaned: 4,
            rolled: if resolution_ms == 0 { 0 } else { 3 },
        };
        let host = Matcher::new("host", MatchOp::Equal, "a").unwrap();
        let manifest = Manifest {
            generation: 5,
            blocks: vec![block(7, WallMs(1_699_999_200_000), 0), block(9, WallMs(1_699_999_200_000), 60_000)],
            tombstones: vec![Tombstone {
                generation: 4,
                tenant: Tenant::default(),
                matchers: vec![host],
                range: TimeRange::from_ms(0, 1000),
            }],
            horizons: vec![Horizon { tenant: Tenant::default(), resolution_ms: 0, until: WallMs(7_200_000) }],
            next_block: 10,
            replay_from: Position(4711),
            read_before: 0,
            windows: vec![1, 2, 3],
        };
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let kept = std::fs::read(root.join("vectors/manifest/MANIFEST")).unwrap();
        assert_eq!(manifest.encode(), kept, "the format changed: its version must rise");
        assert_eq!(Manifest::decode(&kept, Path::new(MANIFEST_FILE)).unwrap(), manifest);
        let page = std::fs::read_to_string(root.join("docs/formats/manifest.md")).unwrap();
        crate::testing::check_page(&page, &kept);
    }

    /// What version 1 wrote: blocks without a window.
    #[test]
    fn a_manifest_of_version_1_is_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let kept = std::fs::read(root.join("vectors/manifest/MANIFEST.1")).unwrap();
        let manifest = Manifest::decode(&kept, Path::new(MANIFEST_FILE)).unwrap();
        let found: Vec<_> = manifest.blocks.iter().map(|meta| (meta.id.0, meta.time_min, meta.window)).collect();
        assert_eq!(found, [(7, WallMs(1_700_000_001_000), Window::NONE), (9, WallMs(1_700_007_201_000), Window::NONE)]);
        assert_eq!((manifest.next_block, manifest.replay_from, manifest.generation), (10, Position(4711), 0));
    }
}
