//! Postings: for each label, the numbers of the series that carry it.
//!
//! Invariants: a list ascends.
//! Format: docs/formats/block.md, "Postings". Short lists are differences as varints, long ones a roaring bitmap in its
//! portable form; whichever is smaller.

use roaring::RoaringBitmap;

use crate::Error;
use crate::bytes::{Broken, Cursor, put_bytes, put_varint};

const LIST: u8 = 0;
const BITMAP: u8 = 1;
/// Above this many series a bitmap is always smaller or quicker.
pub(crate) const LIST_MAX: usize = 32;
/// 64 Mi labels in a block: past it a block should be several.
const LABELS_MAX: usize = 1 << 26;

/// Whether a block may have so many labels: what [`Postings::parse`] reads.
///
/// # Errors
/// [`Error::Refused`]: a block that has more would be written and never read again.
pub(crate) fn check(labels: usize) -> Result<(), Error> {
    if labels > LABELS_MAX {
        let problem =
            format!("a block would have {labels} labels where at most {LABELS_MAX} can be read; keep fewer series");
        return Err(Error::Refused { problem });
    }
    Ok(())
}

/// Appends the postings of all labels, by ascending label; each list ascends.
pub(crate) fn put<'a>(out: &mut Vec<u8>, lists: impl ExactSizeIterator<Item = &'a [u32]>) {
    assert!(lists.len() <= LABELS_MAX, "a reader takes no {} labels", lists.len());
    put_varint(out, lists.len() as u64);
    let mut one = Vec::new();
    for list in lists {
        one.clear();
        put_one(&mut one, list);
        put_bytes(out, &one);
    }
}

fn put_one(out: &mut Vec<u8>, list: &[u32]) {
    if list.len() <= LIST_MAX {
        out.push(LIST);
        let mut last = 0;
        for series in list {
            assert!(last <= *series, "series {series} follows {last} in the list of a label");
            put_varint(out, u64::from(series - last));
            last = *series;
        }
        return;
    }
    let mut bitmap = RoaringBitmap::from_sorted_iter(list.iter().copied()).expect("a list ascends");
    bitmap.optimize();
    out.push(BITMAP);
    bitmap.serialize_into(out).expect("memory takes every write");
}

/// The postings section, in memory, with the place of each list.
pub(crate) struct Postings {
    bytes: Vec<u8>,
    /// Start and length of each list. A section is below 4 GiB.
    lists: Vec<(u32, u32)>,
}

impl Postings {
    /// Finds the lists in the bytes of a section.
    pub(crate) fn parse(bytes: Vec<u8>) -> Result<Self, Broken> {
        let mut cursor = Cursor::new(&bytes);
        let count = cursor.count(LABELS_MAX.min(bytes.len()), "labels")?;
        let mut lists = Vec::with_capacity(count);
        for _ in 0..count {
            let list = cursor.length_and_bytes()?;
            lists.push(((cursor.position() - list.len()) as u32, list.len() as u32));
        }
        if !cursor.is_empty() {
            return Err(cursor.broken("bytes follow the last list"));
        }
        Ok(Self { bytes, lists })
    }

    /// Number of labels.
    pub(crate) fn len(&self) -> usize {
        self.lists.len()
    }

    /// Bytes held in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.lists.len() * size_of::<(u32, u32)>()
    }

    /// Adds the series of `label`, all below `series`, to `into`.
    pub(crate) fn add_to(&self, into: &mut RoaringBitmap, label: u32, series: u32) -> Result<(), Broken> {
        let Some(&(start, length)) = self.lists.get(label as usize) else {
            return Err(Broken { offset: 0, problem: format!("label {label} of {}", self.lists.len()) });
        };
        let start = start as usize;
        let list = get_one(&self.bytes[start..start + length as usize]);
        let list = list.and_then(|list| match list.max() {
            Some(last) if last >= series => Err(Broken { offset: 0, problem: format!("series {last} of {series}") }),
            _ => Ok(list),
        });
        *into |= list.map_err(|broken| Broken { offset: start + broken.offset, problem: broken.problem })?;
        Ok(())
    }
}

fn get_one(bytes: &[u8]) -> Result<RoaringBitmap, Broken> {
    let mut cursor = Cursor::new(bytes);
    match cursor.byte()? {
        LIST => {
            let mut list = RoaringBitmap::new();
            let mut last = 0_u32;
            while !cursor.is_empty() {
                last = last.saturating_add(cursor.count(u32::MAX as usize, "as a series")? as u32);
                list.insert(last);
            }
            Ok(list)
        }
        BITMAP => RoaringBitmap::deserialize_from(cursor.rest()).map_err(|error| cursor.broken(error.to_string())),
        tag => Err(cursor.broken(format!("{tag} is no coding of postings"))),
    }
}

#[cfg(test)]
mod limit_tests {
    use super::*;

    /// The reader's limit was not the writer's: a block of more labels was written, and then no start could read it.
    #[test]
    fn as_many_labels_as_may_be_come_back_and_one_more_is_refused() {
        let mut out = Vec::new();
        let last: &[u32] = &[7];
        put(&mut out, (0..LABELS_MAX).map(|label| if label + 1 == LABELS_MAX { last } else { &[] }));
        assert!(check(LABELS_MAX).is_ok());
        let postings = Postings::parse(out).unwrap();
        let mut series = RoaringBitmap::new();
        postings.add_to(&mut series, LABELS_MAX as u32 - 1, 8).unwrap();
        assert_eq!((postings.len(), series.iter().collect::<Vec<_>>()), (LABELS_MAX, vec![7]));
        // One more than that: its count alone is refused, whatever follows.
        let Postings { bytes, .. } = postings;
        let mut more = Vec::new();
        put_varint(&mut more, LABELS_MAX as u64 + 1);
        let old = Cursor::new(&bytes).varint().map(|_| more.len()).unwrap();
        let more = [&more[..], &bytes[old..], &[2, LIST, 7]].concat();
        let problem = Postings::parse(more).err().unwrap().problem;
        assert!(problem.contains("at most 67108864"), "{problem}");
        assert!(matches!(check(LABELS_MAX + 1), Err(Error::Refused { .. })));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_lists_come_back(lists in proptest::collection::vec(proptest::collection::btree_set(0..70_000_u32, 0..200), 0..9)) {
            let lists: Vec<Vec<u32>> = lists.into_iter().map(|list| list.into_iter().collect()).collect();
            let mut out = Vec::new();
            put(&mut out, lists.iter().map(Vec::as_slice));
            let postings = Postings::parse(out).unwrap();
            prop_assert_eq!(postings.len(), lists.len());
            for (label, list) in lists.iter().enumerate() {
                let mut back = RoaringBitmap::new();
                postings.add_to(&mut back, label as u32, 70_000).unwrap();
                prop_assert!(back.iter().eq(list.iter().copied()));
                if let Some(last) = list.last() {
                    prop_assert!(postings.add_to(&mut back, label as u32, *last).is_err());
                }
            }
        }

        #[test]
        fn any_bytes_are_postings_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(postings) = Postings::parse(bytes) {
                for label in 0..=postings.len() {
                    let _ = postings.add_to(&mut RoaringBitmap::new(), label as u32, 1000);
                }
            }
        }
    }
}
