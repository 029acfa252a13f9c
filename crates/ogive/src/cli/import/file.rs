//! The files of an import: one that is read through, perhaps unpacked, or those of a block.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, bail};
use ogive_interchange::Error;
use ogive_interchange::blocks::{Block, Meta, ReadAt};

/// 1 MiB at a time.
const PIECE_BYTES: usize = 1 << 20;
/// 64 MiB: some five million deletions.
const TOMBSTONES_BYTES_MAX: u64 = 64 << 20;
/// 128 MiB: the largest window of zstd that is decompressed, as with `zstd -d`.
const WINDOW_LOG_MAX: u32 = 27;

/// What is imported under one source.
pub(super) struct Input {
    path: PathBuf,
    is_block: bool,
    bytes: u64,
    done: AtomicU64,
}

/// Counts the bytes that are read.
struct Counting<'i> {
    file: File,
    done: &'i AtomicU64,
}

impl Read for Counting<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        // ORDERING: Relaxed; a number for people, which nothing depends on.
        self.done.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// A file that is read at given offsets.
struct FileReader(File, u64);

impl ReadAt for FileReader {
    fn bytes(&self) -> u64 {
        self.1
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }
}

fn places(path: &Path) -> Result<FileReader, Error> {
    let file = File::open(path).map_err(|error| Error::Unreadable(format!("{}: {error}", path.display())))?;
    let bytes = file.metadata()?.len();
    Ok(FileReader(file, bytes))
}

/// The blocks in a directory, oldest first; itself when it is one.
pub(super) fn blocks(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if path.join("meta.json").is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))? {
        let block = entry?.path();
        if let Ok(json) = std::fs::read(block.join("meta.json")) {
            found.push((Meta::read(&json).with_context(|| block.display().to_string())?.min_time, block));
        }
    }
    if found.is_empty() {
        bail!("{} holds no block: none of its directories has a meta.json", path.display());
    }
    found.sort();
    Ok(found.into_iter().map(|(_, block)| block).collect())
}

impl Input {
    pub(super) fn open(path: &Path, is_block: bool) -> anyhow::Result<Self> {
        let mut out = Self { path: path.to_owned(), is_block, bytes: 0, done: AtomicU64::new(0) };
        for file in out.files()? {
            let found = std::fs::metadata(&file).with_context(|| format!("cannot read {}", file.display()))?;
            if !found.is_file() {
                bail!("{} is no file: its content is read twice, once to know it again", file.display());
            }
            out.bytes += found.len();
        }
        Ok(out)
    }

    /// All files, in one order.
    fn files(&self) -> anyhow::Result<Vec<PathBuf>> {
        if !self.is_block {
            return Ok(vec![self.path.clone()]);
        }
        let mut out = vec![self.path.join("index")];
        out.extend(self.segments()?);
        out.extend(Some(self.path.join("tombstones")).filter(|path| path.is_file()));
        Ok(out)
    }

    /// `chunks/000001` and so on, up to the first gap.
    fn segments(&self) -> io::Result<Vec<PathBuf>> {
        let path = |number: usize| self.path.join(format!("chunks/{number:06}"));
        Ok((1..).map(path).take_while(|path| path.is_file()).collect())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that were read since [`Input::each_piece`].
    pub(super) fn done(&self) -> u64 {
        // ORDERING: Relaxed; a number for people, which nothing depends on.
        self.done.load(Ordering::Relaxed).min(self.bytes)
    }

    pub(super) fn set_done(&self, thousandths: u64) {
        // ORDERING: Relaxed; a number for people, which nothing depends on.
        self.done.store(self.bytes / 1000 * thousandths.min(1000), Ordering::Relaxed);
    }

    /// Passes all bytes to `each`, with the number of bytes before and in total.
    pub(super) fn each_piece(&self, each: &mut dyn FnMut(&[u8], u64, u64)) -> anyhow::Result<()> {
        let (mut buffer, mut done) = (vec![0; PIECE_BYTES], 0);
        for path in self.files()? {
            let mut file = File::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
            loop {
                let read = file.read(&mut buffer).with_context(|| format!("cannot read {}", path.display()))?;
                if read == 0 {
                    break;
                }
                each(&buffer[..read], done, self.bytes);
                done += read as u64;
            }
        }
        Ok(())
    }

    pub(super) fn file(&self) -> Result<File, Error> {
        Ok(File::open(&self.path)?)
    }

    /// The file as text, decompressed if it begins like gzip or zstd.
    pub(super) fn lines(&self) -> Result<Box<dyn BufRead + '_>, Error> {
        let mut input = BufReader::with_capacity(PIECE_BYTES, Counting { file: self.file()?, done: &self.done });
        let head = input.fill_buf()?;
        let (is_gzip, is_zstd) = (head.starts_with(&[0x1f, 0x8b]), head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]));
        Ok(match (is_gzip, is_zstd) {
            (true, _) => Box::new(BufReader::with_capacity(PIECE_BYTES, flate2::bufread::MultiGzDecoder::new(input))),
            (_, true) => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(input)?;
                decoder.window_log_max(WINDOW_LOG_MAX)?;
                Box::new(BufReader::with_capacity(PIECE_BYTES, decoder))
            }
            _ => Box::new(input),
        })
    }

    /// Calls `read` with the block.
    pub(super) fn with_block(&self, read: impl FnOnce(&Block<'_>) -> Result<(), Error>) -> Result<(), Error> {
        let meta = Meta::read(&std::fs::read(self.path.join("meta.json"))?)?;
        let index = places(&self.path.join("index"))?;
        let segments: Vec<FileReader> = self.segments()?.iter().map(|path| places(path)).collect::<Result<_, _>>()?;
        let path = self.path.join("tombstones");
        let tombstones = match std::fs::metadata(&path) {
            Err(_) => None,
            Ok(found) if found.len() > TOMBSTONES_BYTES_MAX => {
                let limit = TOMBSTONES_BYTES_MAX;
                return Err(Error::Unreadable(format!("tombstones: {} bytes, above {limit}", found.len())));
            }
            Ok(_) => Some(std::fs::read(&path)?),
        };
        let segments = segments.iter().map(|segment| segment as &dyn ReadAt).collect();
        read(&Block { meta, index: &index, segments, tombstones })
    }
}
