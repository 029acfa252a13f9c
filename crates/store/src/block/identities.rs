//! The identities of a block's series, and single series by number, for ingest, which knows series by identity.
//!
//! Invariants: an identity is that of the series' labels as stored; nothing is used before its checksum was verified.
//! The label texts are laid out once, as identities need them, instead of building a label set for each series.

use ogive_model::{SeriesDef, SeriesId, Temporality, Tenant};

use crate::Error;
use crate::block::format::SectionId;
use crate::block::index::Index;
use crate::block::reader::Block;
use crate::block::series_reader::SeriesReader;
use crate::bytes::Broken;

/// All labels of a block by number, each as the canonical bytes of a label set have it.
struct LabelBytes {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<u32>,
}

impl LabelBytes {
    fn from_index(index: &Index) -> Result<Self, Broken> {
        let mut all = Self { bytes: Vec::new(), ends: Vec::new() };
        index.each_label(|name, value| {
            for text in [name, value] {
                all.bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
                all.bytes.extend_from_slice(text);
            }
            // A section is at most 1 GiB, but a transducer shares what its keys have in common.
            let end = u32::try_from(all.bytes.len());
            all.ends.push(end.map_err(|_| Broken { offset: 0, problem: "4 GiB of labels".into() })?);
            Ok(())
        })?;
        Ok(all)
    }

    fn get(&self, number: u32) -> Option<&[u8]> {
        let number = number as usize;
        let end = *self.ends.get(number)?;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.bytes[start as usize..end as usize])
    }
}

impl Block {
    /// Calls `each` with the number, the identity and the temporality of every series, those of `tenant`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or the disk's.
    pub(crate) fn each_identity(
        &self,
        tenant: &Tenant,
        mut each: impl FnMut(u32, SeriesId, Temporality),
    ) -> Result<(), Error> {
        let index = self.index()?;
        let labels =
            LabelBytes::from_index(&index).map_err(|broken| self.corrupt_section(SectionId::Labels, broken))?;
        // The bytes of the labels of a series, and where each of them ends.
        let (mut canonical, mut ends) = (Vec::new(), Vec::new());
        self.each_described(&index, |number, own, shared, (kind, temporality)| {
            ends.truncate(shared);
            canonical.truncate(ends.last().copied().unwrap_or(0));
            for label in &own[shared..] {
                let bytes = labels.get(*label).ok_or_else(|| {
                    let problem = format!("label {label} of {}", labels.ends.len());
                    Broken { offset: 0, problem }
                })?;
                canonical.extend_from_slice(bytes);
                ends.push(canonical.len());
            }
            debug_assert_eq!(ends.len(), own.len(), "each label of series {number} ends somewhere");
            each(number, SeriesId::from_canonical(tenant, kind, &canonical), temporality);
            Ok(())
        })
    }

    /// Calls `each` with what each of `numbers`, which ascend, is.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or the disk's.
    pub(crate) fn series_at(
        &self,
        numbers: impl Iterator<Item = u32>,
        mut each: impl FnMut(SeriesDef),
    ) -> Result<(), Error> {
        let mut reader = None;
        for number in numbers {
            let reader = match &mut reader {
                Some(reader) => reader,
                none => none.insert(SeriesReader::new(self, self.index()?)),
            };
            each(reader.def(number)?);
        }
        Ok(())
    }
}
