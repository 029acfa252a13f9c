//! Manifest: which blocks are live, and from where the journal must be replayed.
//!
//! Invariants: a file named `MANIFEST` is always whole (it is replaced by rename, after an fsync of the new
//! bytes and before one of the directory); block ids are distinct and below `next_block`; a block that no
//! manifest names does not exist, whatever files lie about.
//! Format: docs/formats/manifest.md.
//! Failure: a manifest that fails its checksum stops the start with [`Error::Corrupt`]: guessing which blocks
//! are live would lose or double samples.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use ogive_journal::{Disk, DiskFile, Position};
use ogive_model::Tenant;

use crate::block::{BLOCK_SUFFIX, BlockId, BlockMeta};
use crate::bytes::{Broken, Cursor, put_bytes, put_signed, put_varint};
use crate::tombstone::{TOMBSTONES_MAX, Tombstone};
use crate::window::Window;
use crate::{Error, block};

/// Name of the file in the store's directory.
pub const MANIFEST_FILE: &str = "MANIFEST";
const MAGIC: [u8; 8] = *b"OGIVEMAN";
const VERSION: u32 = 2;
/// Magic, version, length of the body, checksum of the body.
const HEADER_BYTES: usize = 8 + 4 + 4 + 4;
const _: () = assert!(HEADER_BYTES == 20);
/// 1 Mi blocks: a block an hour for a century.
const BLOCKS_MAX: usize = 1 << 20;
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
    pub until_ms: i64,
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
    /// What ingest remembers of each source's sequence numbers at `replay_from`, in its own coding.
    pub windows: Vec<u8>,
}

impl Manifest {
    /// The manifest of `directory`, or an empty one when there is none, and removes what no manifest names:
    /// half-written blocks and blocks that were replaced.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::TooNew`], or the disk's.
    pub fn open(disk: &dyn Disk, directory: &Path) -> Result<Self, Error> {
        // What is read may have been renamed by a process that ended before it was durable. A power cut could bring
        // the manifest before it back, which names other files: so nothing is removed until that is ruled out.
        disk.sync_dir(directory)?;
        let (manifest, agreed) = Self::read(disk, directory)?.unwrap_or((Self::default(), true));
        if !agreed {
            manifest.replace(disk, directory)?;
        }
        manifest.remove_orphans(disk, directory)?;
        Ok(manifest)
    }

    /// Reads the manifest of `directory`, and whether every copy of it says the same; `None` when there is none. After a
    /// crash one copy may be of the change that was not finished: that one counts, and [`Manifest::open`] finishes it.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::TooNew`], or the disk's: of the first copy, when none can be read.
    pub(crate) fn read(disk: &dyn Disk, directory: &Path) -> Result<Option<(Self, bool)>, Error> {
        let file = match disk.open_read(&directory.join(MANIFEST_FILE)) {
            Ok(file) => file,
            Err(ogive_journal::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let (mut best, mut agreed, mut first) = (None::<Self>, true, None);
        for copy in 0..file.copies() {
            match Self::read_copy(&*file, copy) {
                Ok(found) => {
                    agreed &= best.as_ref().is_none_or(|best| *best == found);
                    let is_newer = |best: &Self| best.generation < found.generation;
                    if best.as_ref().is_none_or(is_newer) {
                        best = Some(found);
                    }
                }
                Err(Error::Disk(ogive_journal::Error::NoCopy { .. })) => {}
                Err(error) => {
                    agreed = false;
                    first = first.or(Some(error));
                }
            }
        }
        match (best, first) {
            (Some(best), _) => Ok(Some((best, agreed))),
            (None, Some(error)) => Err(error),
            (None, None) => Ok(None),
        }
    }

    /// One copy of the file.
    pub(crate) fn read_copy(file: &dyn DiskFile, copy: usize) -> Result<Self, Error> {
        let length = usize::try_from(file.copy_length(copy)?).expect("a file fits the address space");
        let mut bytes = vec![0; length];
        let read = file.read_copy_at(copy, 0, &mut bytes)?;
        Self::decode(&bytes[..read], &file.copy_path(copy))
    }

    /// Puts this manifest in place of the one in `directory`. Durable when it returns; on an error the old one
    /// or the new one is there, whole.
    ///
    /// # Errors
    /// The disk's.
    pub fn replace(&self, disk: &dyn Disk, directory: &Path) -> Result<(), Error> {
        self.check();
        Ok(disk.replace(&directory.join(MANIFEST_FILE), &self.encode())?)
    }

    /// Where a block of `id` lies.
    #[must_use]
    pub fn block_path(directory: &Path, id: BlockId) -> PathBuf {
        directory.join(block::file_name(id))
    }

    fn check(&self) {
        let mut met = HashSet::new();
        for BlockMeta { id, .. } in &self.blocks {
            assert!(met.insert(*id), "block {id:?} is listed twice");
            assert!(id.0 < self.next_block, "block {id:?} is not below {}", self.next_block);
        }
    }

    fn remove_orphans(&self, disk: &dyn Disk, directory: &Path) -> Result<(), Error> {
        let live: HashSet<BlockId> = self.blocks.iter().map(|meta| meta.id).collect();
        for path in disk.list(directory)? {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let unfinished = name.ends_with(".new") && (name.contains(BLOCK_SUFFIX) || name.starts_with(MANIFEST_FILE));
            let dead = block::parse_file_name(name).is_some_and(|id| !live.contains(&id));
            if unfinished || dead {
                disk.remove(&path)?;
            }
        }
        Ok(())
    }

    /// The bytes of the file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let body = self.encode_body();
        let length = u32::try_from(body.len()).expect("a manifest is far below 4 GiB");
        let mut out = Vec::with_capacity(HEADER_BYTES + body.len());
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&crc32c::crc32c(&body).to_le_bytes());
        out.extend_from_slice(&body);
        out
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
            put_signed(&mut body, meta.time_min);
            put_signed(&mut body, meta.time_max);
            for number in [meta.series, meta.samples, meta.bytes] {
                put_varint(&mut body, number);
            }
            put_tenant(&mut body, &meta.tenant);
            put_varint(&mut body, u64::from(meta.resolution_ms));
            put_signed(&mut body, meta.window.start_ms);
            put_varint(&mut body, meta.window.length_ms.cast_unsigned());
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
            put_signed(&mut body, horizon.until_ms);
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
                manifest.horizons.push(Horizon { tenant, resolution_ms, until_ms: cursor.signed()? });
            }
        }
        if !cursor.is_empty() {
            return Err(cursor.broken("bytes follow the last entry"));
        }
        Ok(manifest)
    }
}

fn get_block(cursor: &mut Cursor<'_>, version: u32) -> Result<BlockMeta, Broken> {
    let mut meta = BlockMeta {
        id: BlockId(cursor.varint()?),
        time_min: cursor.signed()?,
        time_max: cursor.signed()?,
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
        let start_ms = cursor.signed()?;
        let length_ms = cursor.count(WINDOW_MS_MAX, "milliseconds of a window")? as i64;
        meta.window = Window { start_ms, length_ms };
        (meta.arrived, meta.cleaned, meta.rolled) = (cursor.varint()?, cursor.varint()?, cursor.varint()?);
    }
    Ok(meta)
}

/// A century: no window is longer.
const WINDOW_MS_MAX: usize = 100 * 366 * 24 * 3_600_000;

/// Appends a tenant's name; the default one's is left empty.
pub(crate) fn put_tenant(out: &mut Vec<u8>, tenant: &Tenant) {
    put_bytes(out, if tenant.is_default() { &[] } else { tenant.as_str().as_bytes() });
}

pub(crate) fn get_tenant(cursor: &mut Cursor<'_>) -> Result<Tenant, Broken> {
    match cursor.text()? {
        "" => Ok(Tenant::default()),
        name => Tenant::new(name).map_err(|error| cursor.broken(error.to_string())),
    }
}

fn get_resolution(cursor: &mut Cursor<'_>) -> Result<u32, Broken> {
    Ok(cursor.count(u32::MAX as usize, "milliseconds of a cell")? as u32)
}

#[cfg(test)]
mod tests {
    use ogive_journal::SimulatedDisk;
    use ogive_model::{MatchOp, Matcher, TimeRange};
    use proptest::prelude::*;

    use super::*;

    fn sample(blocks: u64) -> Manifest {
        let block = |id| BlockMeta {
            id: BlockId(id * 3),
            time_min: -5,
            time_max: i64::MAX,
            series: 1,
            samples: id,
            bytes: 900,
            tenant: if id == 1 { Tenant::new("team-7").unwrap() } else { Tenant::default() },
            resolution_ms: 60_000,
            window: Window::of(9_000_000, 7_200_000),
            arrived: 4,
            cleaned: 5,
            rolled: 6,
        };
        let matchers = [(MatchOp::Equal, "a"), (MatchOp::NotRegex, "a|b.*")];
        let matchers = matchers.map(|(op, value)| Matcher::new("host", op, value).unwrap()).to_vec();
        let range = TimeRange { start_ms: -7, end_ms: i64::MAX };
        Manifest {
            generation: 9,
            blocks: (0..blocks).map(block).collect(),
            tombstones: vec![Tombstone { generation: 3, tenant: Tenant::default(), matchers, range }],
            horizons: vec![Horizon { tenant: Tenant::default(), resolution_ms: 0, until_ms: 7_200_000 }],
            next_block: blocks * 3 + 1,
            replay_from: Position(77),
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

    #[test]
    fn replacing_is_whole_whenever_the_power_goes() {
        let directory = Path::new("/store");
        for run in 0_u64.. {
            let changes = 1 + run / 8;
            let disk = SimulatedDisk::new(run);
            disk.create_dir_all(directory).unwrap();
            sample(1).replace(&disk, directory).unwrap();
            disk.cut_power_after(changes);
            let replaced = sample(2).replace(&disk, directory);
            let powered = disk.is_powered();
            disk.cut_power();
            disk.restart();
            let found = Manifest::open(&disk, directory).unwrap();
            assert!(found == sample(2) || (replaced.is_err() && found == sample(1)), "{changes}: {found:?}");
            if powered && run % 8 == 7 {
                assert!(changes > 4, "{changes} changes are too few to replace a file");
                break;
            }
        }
    }

    /// A process replaced two blocks by one, renamed its manifest, and was killed before it had fsynced the
    /// directory. The next one read that manifest and removed the two blocks; then the power went, and the manifest
    /// before it was back without its blocks. Now nothing is removed before what was read is durable.
    #[test]
    fn blocks_of_the_manifest_before_are_removed_only_when_it_cannot_come_back() {
        let directory = Path::new("/store");
        let named = |id| Manifest {
            blocks: vec![BlockMeta { id: BlockId(id), ..sample(1).blocks[0].clone() }],
            next_block: 9,
            ..sample(0)
        };
        for seed in 0..50 {
            let disk = SimulatedDisk::new(seed);
            disk.create_dir_all(directory).unwrap();
            (1..3).for_each(|id| disk.put(&Manifest::block_path(directory, BlockId(id)), vec![1]));
            named(1).replace(&disk, directory).unwrap();
            let new = directory.join("MANIFEST.new");
            let mut file = disk.create(&new).unwrap();
            file.write_all(&named(2).encode()).unwrap();
            file.sync().unwrap();
            disk.rename(&new, &directory.join(MANIFEST_FILE)).unwrap();
            disk.kill_process();
            assert_eq!(Manifest::open(&disk, directory).unwrap(), named(2));
            disk.cut_power();
            disk.restart();
            let found = Manifest::open(&disk, directory).unwrap();
            let path = Manifest::block_path(directory, found.blocks[0].id);
            assert!(disk.length(&path).is_ok(), "seed {seed}: {} is gone", path.display());
        }
    }

    #[test]
    fn files_that_no_manifest_names_are_removed_and_others_stay() {
        let (disk, directory) = (SimulatedDisk::new(0), Path::new("/store"));
        disk.create_dir_all(directory).unwrap();
        sample(2).replace(&disk, directory).unwrap();
        let names = [
            ("0000000000000003.block", true),
            ("0000000000000004.block", false),
            ("0000000000000005.block.new", false),
            ("MANIFEST.new", false),
            ("LOCK", true),
            ("000000000000000A.block", true),
            ("notes.new", true),
        ];
        names.iter().for_each(|(name, _)| disk.put(&directory.join(name), Vec::new()));
        Manifest::open(&disk, directory).unwrap();
        let left = disk.list(directory).unwrap();
        for (name, stays) in names {
            assert_eq!(left.contains(&directory.join(name)), stays, "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_manifest_or_an_error(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (Manifest::decode_body(&body, 1), Manifest::decode_body(&body, 2));
        }
    }

    /// The bytes that docs/formats/manifest.md shows.
    #[test]
    fn the_example_of_the_format_page_is_what_is_written_and_read() {
        let block = |id, start_ms, resolution_ms| BlockMeta {
            id: BlockId(id),
            time_min: start_ms + 1000,
            time_max: start_ms + 7_200_000,
            series: 2,
            samples: 14_400,
            bytes: 5_000,
            tenant: if id == 9 { Tenant::new("team-7").unwrap() } else { Tenant::default() },
            resolution_ms,
            window: Window { start_ms, length_ms: 7_200_000 },
            arrived: 3,
            cleaned: 4,
            rolled: if resolution_ms == 0 { 0 } else { 3 },
        };
        let host = Matcher::new("host", MatchOp::Equal, "a").unwrap();
        let manifest = Manifest {
            generation: 5,
            blocks: vec![block(7, 1_699_999_200_000, 0), block(9, 1_699_999_200_000, 60_000)],
            tombstones: vec![Tombstone {
                generation: 4,
                tenant: Tenant::default(),
                matchers: vec![host],
                range: TimeRange { start_ms: 0, end_ms: 1000 },
            }],
            horizons: vec![Horizon { tenant: Tenant::default(), resolution_ms: 0, until_ms: 7_200_000 }],
            next_block: 10,
            replay_from: Position(4711),
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
        assert_eq!(found, [(7, 1_700_000_001_000, Window::NONE), (9, 1_700_007_201_000, Window::NONE)]);
        assert_eq!((manifest.next_block, manifest.replay_from, manifest.generation), (10, Position(4711), 0));
    }
}
