//! Deletions made after a snapshot, kept next to the snapshot: a rollback lists them, and can apply them again.
//!
//! Format: docs/formats/snapshot.md, `DELETED` and `REDELETE`.
//! Limits: [`NAMED_MAX`] deletions are listed; all are kept as selectors while they take no more than
//! [`SELECTORS_BYTES_MAX`]. Beyond that the list is incomplete, and a rollback that must keep them is refused.

use std::path::Path;

use ogive_journal::{Disk, Error as DiskError};

use crate::bytes::{Broken, Cursor, put_bytes, put_varint};
use crate::frame::{FRAME_BYTES_MAX, frame, read_frame};
use crate::tombstone::TOMBSTONES_MAX;
use crate::{Error, Tombstone};

/// Deletions that came after the snapshot, and of which it may hold samples.
pub(crate) const DELETED_FILE: &str = "DELETED";
const DELETED_MAGIC: [u8; 8] = *b"OGIVEDEL";
/// Deletions that a rollback keeps, in the store's directory, until the next start has made them.
const REDELETE_FILE: &str = "REDELETE";
const REDELETE_MAGIC: [u8; 8] = *b"OGIVERDL";
/// 1,000 deletions are named to who rolls back; further ones are counted.
const NAMED_MAX: usize = 1000;
/// 1,000 bytes of each: a thousand of them are far below what a frame may have.
const NAME_BYTES_MAX: usize = 1000;
/// 2 MiB of selectors: 20,000 usual ones, beside which the names fit into a frame.
const SELECTORS_BYTES_MAX: usize = 2 << 20;
const _: () = assert!(NAMED_MAX * (NAME_BYTES_MAX + 10) + SELECTORS_BYTES_MAX + 100 < FRAME_BYTES_MAX);

/// What was deleted after a snapshot was made and may be in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Deletions {
    /// How many there were.
    pub count: u64,
    /// The first of them, as they were asked for.
    pub named: Vec<String>,
    /// All of them, one for each selector; none when they are not all known.
    pub(crate) whole: Option<Vec<Tombstone>>,
}

impl Deletions {
    /// What is known of the snapshot in `inside`.
    ///
    /// # Errors
    /// [`Error::Corrupt`], or the disk's.
    pub(crate) fn read(disk: &dyn Disk, inside: &Path) -> Result<Self, Error> {
        match read_frame(disk, &inside.join(DELETED_FILE), DELETED_MAGIC, parse) {
            Err(Error::Disk(DiskError::NotFound { .. })) => Ok(Self { whole: Some(Vec::new()), ..Self::default() }),
            read => read,
        }
    }

    /// Whether all of them can be made again.
    #[must_use]
    pub const fn can_be_kept(&self) -> bool {
        self.whole.is_some()
    }

    /// Adds one that was asked for as `what`, and is `made`.
    fn add(&mut self, what: &str, made: &[Tombstone]) {
        self.count += 1;
        if self.named.len() < NAMED_MAX {
            self.named.push(what[..what.floor_char_boundary(NAME_BYTES_MAX)].to_owned());
        }
        if let Some(whole) = &mut self.whole {
            whole.extend_from_slice(made);
        }
        let fits = |whole: &Vec<Tombstone>| whole.len() <= TOMBSTONES_MAX && bytes(whole).len() <= SELECTORS_BYTES_MAX;
        self.whole = self.whole.take().filter(fits);
    }

    fn encode(&self) -> Vec<u8> {
        assert!(self.named.len() <= NAMED_MAX, "a reader takes no {} names", self.named.len());
        let mut body = Vec::new();
        put_varint(&mut body, self.count);
        put_varint(&mut body, self.named.len() as u64);
        self.named.iter().for_each(|one| put_bytes(&mut body, one.as_bytes()));
        if let Some(whole) = &self.whole {
            body.extend_from_slice(&bytes(whole));
        }
        frame(DELETED_MAGIC, &body)
    }
}

/// How many, and each.
fn bytes(all: &[Tombstone]) -> Vec<u8> {
    assert!(all.len() <= TOMBSTONES_MAX, "a reader takes no {} deletions", all.len());
    let mut out = Vec::new();
    put_varint(&mut out, all.len() as u64);
    all.iter().for_each(|one| one.put(&mut out));
    out
}

fn parse(cursor: &mut Cursor<'_>) -> Result<Deletions, Broken> {
    let count = cursor.varint()?;
    let listed = cursor.count(NAMED_MAX, "deletions")?;
    let named = (0..listed).map(|_| cursor.text().map(str::to_owned)).collect::<Result<Vec<_>, Broken>>()?;
    let whole = if cursor.is_empty() { None } else { Some(parse_all(cursor)?) };
    Ok(Deletions { count, named, whole })
}

fn parse_all(cursor: &mut Cursor<'_>) -> Result<Vec<Tombstone>, Broken> {
    let count = cursor.count(TOMBSTONES_MAX, "selectors")?;
    (0..count).map(|_| Tombstone::get(cursor)).collect()
}

/// Notes in the snapshot in `inside` that `what` was deleted after it was made; `made` are the deletions that this was.
///
/// # Errors
/// The disk's.
pub(crate) fn note(disk: &dyn Disk, inside: &Path, what: &str, made: &[Tombstone]) -> Result<(), Error> {
    // What cannot be read any more is begun anew: that something was deleted is the point. It is not whole then.
    let mut all = Deletions::read(disk, inside).unwrap_or_default();
    all.add(what, made);
    Ok(disk.replace(&inside.join(DELETED_FILE), &all.encode())?)
}

/// Leaves `all` in the store's directory, for its next start.
pub(crate) fn leave(disk: &dyn Disk, directory: &Path, all: &[Tombstone]) -> Result<(), Error> {
    if all.is_empty() {
        return Ok(());
    }
    Ok(disk.replace(&directory.join(REDELETE_FILE), &frame(REDELETE_MAGIC, &bytes(all)))?)
}

/// What was left in the directory.
pub(crate) fn left(disk: &dyn Disk, directory: &Path) -> Result<Vec<Tombstone>, Error> {
    match read_frame(disk, &directory.join(REDELETE_FILE), REDELETE_MAGIC, parse_all) {
        Err(Error::Disk(DiskError::NotFound { .. })) => Ok(Vec::new()),
        read => read,
    }
}

/// It is done.
pub(crate) fn done(disk: &dyn Disk, directory: &Path) -> Result<(), Error> {
    disk.remove(&directory.join(REDELETE_FILE))?;
    Ok(disk.sync_dir(directory)?)
}

#[cfg(test)]
mod tests {
    use ogive_journal::SimulatedDisk;
    use ogive_model::{MatchOp, Matcher, Tenant, TimeRange};

    use super::*;

    fn one(value: &str) -> Tombstone {
        let matchers = vec![Matcher::new("host", MatchOp::Equal, value).unwrap()];
        let range = TimeRange::from_ms(1_700_000_000_000, 1_700_000_060_000);
        Tombstone { generation: 3, tenant: Tenant::default(), matchers, range }
    }

    #[test]
    fn deletions_are_whole_until_they_are_too_many_or_too_long() {
        let disk = SimulatedDisk::new(1);
        let inside = Path::new("/s");
        disk.create_dir_all(inside).unwrap();
        let read = || Deletions::read(&disk, inside).unwrap();
        assert_eq!((read().count, read().can_be_kept()), (0, true));
        note(&disk, inside, "{host=\"a\"}", &[one("a")]).unwrap();
        note(&disk, inside, "{host=\"b\"} and {host=\"c\"}", &[one("b"), one("c")]).unwrap();
        let found = read();
        assert_eq!((found.count, found.named.len()), (2, 2));
        assert_eq!(found.whole, Some(vec![one("a"), one("b"), one("c")]));
        note(&disk, inside, "long", &[one(&"x".repeat(SELECTORS_BYTES_MAX))]).unwrap();
        note(&disk, inside, "short", &[one("d")]).unwrap();
        let found = read();
        assert_eq!((found.count, found.named.len(), found.can_be_kept()), (4, 4, false));
        disk.replace(&inside.join(DELETED_FILE), b"broken").unwrap();
        note(&disk, inside, "again", &[one("d")]).unwrap();
        assert_eq!((read().count, read().can_be_kept()), (1, false), "nobody knows what was there");
    }

    #[test]
    fn as_many_as_may_be_are_read_again() {
        let disk = SimulatedDisk::new(1);
        let inside = Path::new("/s");
        disk.create_dir_all(inside).unwrap();
        note(&disk, inside, "most", &vec![one("a"); TOMBSTONES_MAX]).unwrap();
        assert!(Deletions::read(&disk, inside).unwrap().can_be_kept());
        note(&disk, inside, "more", &[one("a")]).unwrap();
        assert!(!Deletions::read(&disk, inside).unwrap().can_be_kept());
        leave(&disk, inside, &vec![one("a"); TOMBSTONES_MAX]).unwrap();
        assert_eq!(left(&disk, inside).unwrap().len(), TOMBSTONES_MAX);
        done(&disk, inside).unwrap();
        assert_eq!(left(&disk, inside).unwrap(), []);
    }

    /// Files of before had no selectors.
    #[test]
    fn a_list_without_selectors_is_not_whole() {
        let disk = SimulatedDisk::new(1);
        let mut body = Vec::new();
        put_varint(&mut body, 1);
        put_varint(&mut body, 1);
        put_bytes(&mut body, b"up");
        disk.put(&Path::new("/s").join(DELETED_FILE), frame(DELETED_MAGIC, &body));
        let found = Deletions::read(&disk, Path::new("/s")).unwrap();
        assert_eq!((found.count, found.named.as_slice(), found.can_be_kept()), (1, &["up".to_owned()][..], false));
    }

    #[test]
    fn damage_is_found_and_any_body_is_a_list_or_an_error() {
        let disk = SimulatedDisk::new(1);
        let path = Path::new("/s").join(DELETED_FILE);
        let mut all = Deletions { whole: Some(Vec::new()), ..Deletions::default() };
        all.add("{host=\"a\"}", &[one("a")]);
        let good = all.encode();
        for bit in 0..good.len() * 8 {
            disk.put(&path, good.clone());
            disk.flip_bit(&path, bit);
            assert!(matches!(Deletions::read(&disk, Path::new("/s")), Err(Error::Corrupt { .. })), "{bit}");
        }
        let mut cut = 0;
        for length in 0..good.len() - 20 {
            disk.put(&path, frame(DELETED_MAGIC, &good[20..20 + length]));
            cut += u32::from(Deletions::read(&disk, Path::new("/s")).is_ok());
        }
        assert_eq!(cut, 1, "the one that ends before the selectors");
    }
}
