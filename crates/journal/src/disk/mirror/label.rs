//! The label of a mirror's member: its store, the last epoch it saw, and the members that were current then.
//!
//! Invariants: the epoch rises by one whenever the set of current members changes, and the new label is durable on
//! every remaining member before anything is acknowledged without the one that left.
//! Format: docs/formats/mirror.md: one record of [`RECORD_BYTES`], written twice, so that a flipped bit loses nothing.
//! Failure: if neither record is valid there is no label; see [`super::open`].

use std::path::{Path, PathBuf};

use crate::format::u32_at;
use crate::{Disk, Error};

/// Name of the label in a member's directory.
pub const MIRROR_FILE: &str = "MIRROR";
const MAGIC: [u8; 8] = *b"OGIVEMIR";
const VERSION: u32 = 1;
const RECORD_BYTES: usize = 4096;
const HEADER_BYTES: usize = 20;
/// 8 copies: three are many.
pub(super) const MEMBERS_MAX: usize = 8;
/// 256 bytes of a path help a person to find the directory; nothing else is done with it.
const PATH_BYTES_MAX: usize = 256;
/// 32 epochs back: who missed more changes of a mirror is rebuilt without a proof of when it parted.
const HISTORY_MAX: usize = 32;
const _: () = assert!(
    HEADER_BYTES + 16 + 8 + 8 + 4 + MEMBERS_MAX * (8 + 2 + PATH_BYTES_MAX) + 4 + HISTORY_MAX * 16 <= RECORD_BYTES
);

/// Set in the id of a member that was added while the mirror was in use: it is found again where it was then.
const ADDED: u64 = 1 << 63;

/// A drawn number as a member's id.
pub(super) const fn member_id(drawn: u64, is_added: bool) -> u64 {
    if is_added { drawn | ADDED } else { drawn & !ADDED }
}

pub(super) const fn is_added(id: u64) -> bool {
    id & ADDED != 0
}

/// What a label says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Label {
    /// The store, as long as it lives.
    pub(super) store: u128,
    /// The member that carries the label.
    pub(super) member: u64,
    /// 0: it was never current.
    pub(super) epoch: u64,
    /// The members that are current in this epoch, with where they were.
    pub(super) current: Vec<(u64, PathBuf)>,
    /// Epochs, this one last, each with a number drawn when it began: two members that went on without each other
    /// differ.
    pub(super) history: Vec<(u64, u64)>,
}

impl Label {
    /// This label as `member` carries it.
    pub(super) fn for_member(&self, member: u64) -> Self {
        Self { member, ..self.clone() }
    }

    /// The label of the epoch behind this one.
    pub(super) fn next(&self, current: Vec<(u64, PathBuf)>, drawn: u64) -> Self {
        let mut history = self.history.clone();
        history.push((self.epoch + 1, drawn));
        history.drain(..history.len().saturating_sub(HISTORY_MAX));
        assert!(current.len() <= MEMBERS_MAX, "{} members are current", current.len());
        Self { store: self.store, member: self.member, epoch: self.epoch + 1, current, history }
    }

    /// Whether a member with `old`, of an earlier epoch, has seen nothing that this one has not.
    pub(super) fn follows(&self, old: &Self) -> bool {
        let Some((_, drawn)) = old.history.last() else { return true };
        let known = self.history.iter().find(|(epoch, _)| *epoch == old.epoch);
        known.is_none_or(|(_, here)| here == drawn)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        assert!(self.current.len() <= MEMBERS_MAX && self.history.len() <= HISTORY_MAX);
        let mut body = Vec::new();
        body.extend_from_slice(&self.store.to_le_bytes());
        body.extend_from_slice(&self.member.to_le_bytes());
        body.extend_from_slice(&self.epoch.to_le_bytes());
        body.extend_from_slice(&(self.current.len() as u32).to_le_bytes());
        for (id, path) in &self.current {
            let path = path.as_os_str().as_encoded_bytes();
            let path = &path[..path.len().min(PATH_BYTES_MAX)];
            body.extend_from_slice(&id.to_le_bytes());
            body.extend_from_slice(&(path.len() as u16).to_le_bytes());
            body.extend_from_slice(path);
        }
        body.extend_from_slice(&(self.history.len() as u32).to_le_bytes());
        for (epoch, drawn) in &self.history {
            body.extend_from_slice(&epoch.to_le_bytes());
            body.extend_from_slice(&drawn.to_le_bytes());
        }
        let mut record = MAGIC.to_vec();
        record.extend_from_slice(&VERSION.to_le_bytes());
        record.extend_from_slice(&(body.len() as u32).to_le_bytes());
        record.extend_from_slice(&crc32c::crc32c_append(crc32c::crc32c(&record), &body).to_le_bytes());
        assert_eq!(record.len(), HEADER_BYTES, "the reader expects the body there");
        record.extend_from_slice(&body);
        assert!(record.len() <= RECORD_BYTES, "a label of {} bytes", record.len());
        record.resize(RECORD_BYTES, 0);
        record.repeat(2)
    }

    /// `None` when neither record is good.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.chunks(RECORD_BYTES).take(2).find_map(decode_record)
    }

    /// The label in `directory`; `Ok(None)` when there is none.
    pub(super) fn read(disk: &dyn Disk, directory: &Path) -> Result<Option<Self>, Error> {
        let path = directory.join(MIRROR_FILE);
        let bytes = match disk.read(&path) {
            Ok(bytes) => bytes,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let label = Self::decode(&bytes).ok_or_else(|| Error::Mirror {
            problem: format!(
                "both records of {} are corrupt, so nobody can tell whether this copy is current; if another directory \
                 of the mirror is good, empty this one: it is rebuilt",
                path.display()
            ),
        })?;
        if label.encode() != bytes {
            // One of the two records was bad. It is tried again at the next start.
            let _ = disk.replace(&path, &label.encode());
        }
        Ok(Some(label))
    }

    /// As [`Label::read`], without writing anything; `None` when it cannot be read.
    pub(super) fn peek(disk: &dyn Disk, directory: &Path) -> Option<Self> {
        Self::decode(&disk.read(&directory.join(MIRROR_FILE)).ok()?)
    }

    /// Makes this the label of `directory`, durably.
    pub(super) fn write(&self, disk: &dyn Disk, directory: &Path) -> Result<(), Error> {
        debug_assert_eq!(
            Self::decode(&self.encode()).map(|label| (label.store, label.member, label.epoch, label.history)),
            Some((self.store, self.member, self.epoch, self.history.clone())),
            "what is written is read again"
        );
        disk.replace(&directory.join(MIRROR_FILE), &self.encode())
    }
}

fn decode_record(record: &[u8]) -> Option<Label> {
    if record.len() < HEADER_BYTES || record[..8] != MAGIC || u32_at(record, 8) != VERSION {
        return None;
    }
    let body = record.get(HEADER_BYTES..)?.get(..u32_at(record, 12) as usize)?;
    if crc32c::crc32c_append(crc32c::crc32c(&record[..16]), body) != u32_at(record, 16) {
        return None;
    }
    let mut rest = body;
    let store = u128::from_le_bytes(take(&mut rest, 16)?.try_into().ok()?);
    let (member, epoch) = (take_u64(&mut rest)?, take_u64(&mut rest)?);
    let count = take_u32(&mut rest)? as usize;
    let mut current = Vec::new();
    for _ in 0..(count <= MEMBERS_MAX).then_some(count)? {
        let id = take_u64(&mut rest)?;
        let length = u16::from_le_bytes(take(&mut rest, 2)?.try_into().ok()?);
        let path = String::from_utf8_lossy(take(&mut rest, usize::from(length))?).into_owned();
        current.push((id, PathBuf::from(path)));
    }
    let count = take_u32(&mut rest)? as usize;
    let mut history = Vec::new();
    for _ in 0..(count <= HISTORY_MAX).then_some(count)? {
        history.push((take_u64(&mut rest)?, take_u64(&mut rest)?));
    }
    rest.is_empty().then_some(Label { store, member, epoch, current, history })
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}

fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(take(rest, 4)?.try_into().ok()?))
}

fn take_u64(rest: &mut &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(take(rest, 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Label {
        Label {
            store: 7,
            member: 3,
            epoch: 2,
            current: vec![(3, "/a".into()), (4, "/data/b".into())],
            history: vec![(1, 9), (2, 8)],
        }
    }

    #[test]
    fn one_flipped_bit_or_a_bad_record_loses_nothing_and_two_bad_records_are_no_label() {
        let bytes = sample().encode();
        assert_eq!(Label::decode(&bytes), Some(sample()));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Label::decode(&flipped), Some(sample()), "bit {bit}");
        }
        let mut bad = bytes;
        (bad[30], bad[RECORD_BYTES + 31]) = (99, 99);
        assert_eq!(Label::decode(&bad), None);
    }

    #[test]
    fn any_bytes_are_a_label_or_none() {
        let mut random = fastrand::Rng::with_seed(1);
        let good = sample().encode();
        for _ in 0..2000 {
            let mut bytes = good[..random.usize(..=good.len())].to_vec();
            for _ in 0..random.u64(..20) {
                let at = random.usize(..200);
                bytes.get_mut(at).into_iter().for_each(|byte| *byte = random.u8(..));
            }
            let _ = Label::decode(&bytes);
        }
    }

    #[test]
    fn a_label_follows_those_of_its_own_past_only() {
        let first = sample();
        let next = first.next(vec![(4, "/data/b".into())], 77);
        assert!(next.follows(&first) && !first.next(Vec::new(), 78).follows(&next));
        let mut long = first.clone();
        (0..40).for_each(|at| long = long.next(Vec::new(), at));
        assert_eq!((long.history.len(), long.epoch), (HISTORY_MAX, 42));
        assert!(Label::decode(&long.encode()).is_some());
    }

    /// The bytes that docs/formats/mirror.md describes.
    #[test]
    fn the_example_of_the_format_page_is_what_is_written_and_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let kept = std::fs::read(root.join("vectors/mirror/MIRROR")).unwrap();
        assert_eq!(sample().encode(), kept, "the format changed: its version must rise");
        assert_eq!(Label::decode(&kept), Some(sample()));
        let page = std::fs::read_to_string(root.join("docs/formats/mirror.md")).unwrap();
        for (at, line) in kept[..160].chunks(16).enumerate() {
            let groups: Vec<String> =
                line.chunks(4).map(|group| group.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
            let shown = format!("{:08x}: {}", at * 16, groups.join(" "));
            assert!(page.contains(&shown), "the page does not show {shown}");
        }
    }
}
