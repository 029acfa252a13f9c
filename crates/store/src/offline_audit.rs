//! Actions on a data directory while no server ran, kept until the next server has stored them.
//!
//! Invariants: an entry is in the file before the command does anything, with the status [`UNFINISHED`] until the
//! command ends; entry numbers are never reused, so an entry that a server stores twice counts once.
//! Format: docs/formats/audit.md.
//! Threads: the writer holds the directory's lock.
//! Limits: [`ENTRIES_MAX`] entries of [`TEXT_BYTES_MAX`] bytes; further ones are counted.

use std::path::Path;

use ogive_journal::{Disk, Error as DiskError};
use ogive_model::{SourceId, WallNs};

use crate::Error;
use crate::bytes::{Broken, Cursor, put_bytes, put_signed, put_varint};
use crate::frame::{FRAME_BYTES_MAX, frame, read_frame};

/// The file in the store's directory.
const AUDIT_FILE: &str = "AUDIT";
const MAGIC: [u8; 8] = *b"OGIVEAUD";
/// 1,000 commands between two starts: three years of one a day.
pub const ENTRIES_MAX: usize = 1000;
/// 3,000 bytes: a command line with several long paths. A thousand of them fit into a frame.
pub const TEXT_BYTES_MAX: usize = 3000;
/// 64 bytes: `snapshot rollback` and the like.
const ACTION_BYTES_MAX: usize = 64;
const _: () = assert!(ENTRIES_MAX * (TEXT_BYTES_MAX + ACTION_BYTES_MAX + 40) + 40 < FRAME_BYTES_MAX);
/// The status of a command that has not ended, or was killed.
pub const UNFINISHED: &str = "did not end";

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfflineEntry {
    /// When it began, nanoseconds since 1970.
    pub time: WallNs,
    /// Which command.
    pub action: String,
    /// Who, and in further lines what.
    pub text: String,
    /// How it ended.
    pub status: String,
}

/// All commands since the last server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfflineAudit {
    /// Drawn with the file: with an entry's place it is the entry's number among all batches.
    pub source: SourceId,
    /// Oldest first.
    pub entries: Vec<OfflineEntry>,
    /// Commands beyond [`ENTRIES_MAX`].
    pub dropped: u64,
}

impl OfflineAudit {
    /// With nothing in it.
    #[must_use]
    pub const fn new(source: SourceId) -> Self {
        Self { source, entries: Vec::new(), dropped: 0 }
    }

    /// Reads that of `directory`; none when nothing was done.
    ///
    /// # Errors
    /// [`Error::Corrupt`], or the disk's.
    pub fn read(disk: &dyn Disk, directory: &Path) -> Result<Option<Self>, Error> {
        match read_frame(disk, &directory.join(AUDIT_FILE), MAGIC, parse) {
            Ok(found) => Ok(Some(found)),
            Err(Error::Disk(DiskError::NotFound { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Adds a command that begins now; false when there is no place and it is only counted.
    pub fn begin(&mut self, time: WallNs, action: &str, text: &str) -> bool {
        if self.entries.len() >= ENTRIES_MAX {
            self.dropped += 1;
            return false;
        }
        let (action, text) = (cut(action, ACTION_BYTES_MAX), cut(text, TEXT_BYTES_MAX / 2));
        self.entries.push(OfflineEntry { time, action, text, status: UNFINISHED.to_owned() });
        true
    }

    /// The last command ended so.
    pub fn end(&mut self, status: &str) {
        let last = self.entries.last_mut().expect("a command that ends has begun");
        last.status = cut(status, TEXT_BYTES_MAX / 2);
    }

    /// Writes it, by rename.
    ///
    /// # Errors
    /// The disk's; then the file is what it was.
    pub fn write(&self, disk: &dyn Disk, directory: &Path) -> Result<(), Error> {
        Ok(disk.replace(&directory.join(AUDIT_FILE), &self.encode())?)
    }

    /// Removes the file, of which everything is stored.
    ///
    /// # Errors
    /// The disk's.
    pub fn remove(disk: &dyn Disk, directory: &Path) -> Result<(), Error> {
        disk.remove(&directory.join(AUDIT_FILE))?;
        Ok(disk.sync_dir(directory)?)
    }

    fn encode(&self) -> Vec<u8> {
        assert!(self.entries.len() <= ENTRIES_MAX, "{} entries", self.entries.len());
        let mut body = self.source.0.to_le_bytes().to_vec();
        put_varint(&mut body, self.dropped);
        put_varint(&mut body, self.entries.len() as u64);
        for OfflineEntry { time, action, text, status } in &self.entries {
            assert!(action.len() <= ACTION_BYTES_MAX, "a reader takes no action of {} bytes", action.len());
            let length = text.len() + status.len();
            assert!(length <= TEXT_BYTES_MAX, "a reader takes no {length} bytes of text and status");
            put_signed(&mut body, time.0);
            [action, text, status].iter().for_each(|text| put_bytes(&mut body, text.as_bytes()));
        }
        frame(MAGIC, &body)
    }
}

fn parse(cursor: &mut Cursor<'_>) -> Result<OfflineAudit, Broken> {
    let (low, high) = (cursor.u64()?, cursor.u64()?);
    let mut audit = OfflineAudit::new(SourceId(u128::from(high) << 64 | u128::from(low)));
    audit.dropped = cursor.varint()?;
    for _ in 0..cursor.count(ENTRIES_MAX, "entries")? {
        let time = WallNs(cursor.signed()?);
        let [action, text, status] = [cursor.text()?, cursor.text()?, cursor.text()?].map(str::to_owned);
        if action.len() > ACTION_BYTES_MAX || text.len() + status.len() > TEXT_BYTES_MAX {
            return Err(cursor.broken("an entry is too long"));
        }
        audit.entries.push(OfflineEntry { time, action, text, status });
    }
    if cursor.is_empty() { Ok(audit) } else { Err(cursor.broken("bytes follow the last entry")) }
}

/// At most so many bytes of a text, cut between two letters.
fn cut(text: &str, bytes: usize) -> String {
    text[..text.floor_char_boundary(bytes)].to_owned()
}

#[cfg(test)]
mod tests {
    use ogive_journal::SimulatedDisk;

    use super::*;

    fn example() -> OfflineAudit {
        let mut audit = OfflineAudit::new(SourceId(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10));
        assert!(audit.begin(WallNs(1_700_000_000_000_000_000), "snapshot delete", "uid 0\nmonday"));
        audit.end("done");
        audit
    }

    fn directory(disk: &SimulatedDisk) -> &'static Path {
        disk.create_dir_all(Path::new("/s")).unwrap();
        Path::new("/s")
    }

    #[test]
    fn what_was_noted_is_read_until_it_is_removed() {
        let disk = SimulatedDisk::new(1);
        let at = directory(&disk);
        assert_eq!(OfflineAudit::read(&disk, at).unwrap(), None);
        let mut audit = example();
        assert!(audit.begin(WallNs(5), "scrub", "uid 0\n/s"));
        audit.write(&disk, at).unwrap();
        let read = OfflineAudit::read(&disk, at).unwrap().unwrap();
        assert_eq!(read, audit);
        assert_eq!((read.entries[0].status.as_str(), read.entries[1].status.as_str()), ("done", UNFINISHED));
        OfflineAudit::remove(&disk, at).unwrap();
        assert_eq!(OfflineAudit::read(&disk, at).unwrap(), None);
    }

    #[test]
    fn as_many_as_may_be_are_read_again_and_one_more_is_counted() {
        let disk = SimulatedDisk::new(1);
        let at = directory(&disk);
        let mut audit = OfflineAudit::new(SourceId(7));
        for _ in 0..ENTRIES_MAX {
            assert!(audit.begin(WallNs(i64::MAX), &"a".repeat(100), &"ä".repeat(TEXT_BYTES_MAX)));
            audit.end(&"e".repeat(TEXT_BYTES_MAX));
        }
        assert!(!audit.begin(WallNs(1), "one", "more"));
        audit.write(&disk, at).unwrap();
        assert_eq!(OfflineAudit::read(&disk, at).unwrap(), Some(audit.clone()));
        assert_eq!((audit.entries.len(), audit.dropped), (ENTRIES_MAX, 1));
    }

    #[test]
    fn a_file_that_is_cut_or_has_a_flipped_bit_is_corrupt() {
        let disk = SimulatedDisk::new(1);
        let at = directory(&disk);
        let good = example().encode();
        let read = |bytes: &[u8]| {
            disk.replace(&at.join(AUDIT_FILE), bytes).unwrap();
            OfflineAudit::read(&disk, at)
        };
        for end in 0..good.len() {
            assert!(matches!(read(&good[..end]), Err(Error::Corrupt { .. })), "cut at {end}");
        }
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(read(&bytes), Err(Error::Corrupt { .. })), "bit {bit}");
        }
    }

    /// Bytes whose checksum fits and whose body is anything.
    #[test]
    fn any_body_is_an_audit_or_corrupt() {
        let disk = SimulatedDisk::new(1);
        let at = directory(&disk);
        let good = example().encode()[20..].to_vec();
        let mut random = 0x6f67_6976_u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        let mut taken = 0;
        for _ in 0..2000 {
            let mut body = good.clone();
            for _ in 0..1 + next() % 4 {
                let place = next() as usize % body.len();
                body[place] = next() as u8;
            }
            body.truncate(1 + next() as usize % (2 * body.len()));
            disk.replace(&at.join(AUDIT_FILE), &frame(MAGIC, &body)).unwrap();
            match OfflineAudit::read(&disk, at) {
                Ok(Some(audit)) => taken += usize::from(audit.entries.len() <= ENTRIES_MAX),
                Ok(None) => panic!("it is there"),
                Err(Error::Corrupt { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert!(taken > 0);
    }

    #[test]
    fn the_example_of_the_format_page_is_what_is_written_and_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let kept = std::fs::read(root.join("vectors/audit/AUDIT")).unwrap();
        assert_eq!(kept, example().encode());
        let page = std::fs::read_to_string(root.join("docs/formats/audit.md")).unwrap();
        crate::testing::check_page(&page, &kept);
    }
}
