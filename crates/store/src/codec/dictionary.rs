//! Compression of texts: its level, and its dictionary. A block of many short texts has one dictionary, which is
//! trained on the first of them and holds what they share, so that each of a thousand series of twenty lines compresses
//! as if the others preceded it.
//!
//! Format: docs/formats/block.md, "Dictionary".
//! Limits: [`DICTIONARY_BYTES_MAX`] in memory for each block that is read, and [`SAMPLE_BYTES`] while one is written.

use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::DecoderDictionary;
use zstd::zstd_safe::CParameter;

use crate::bytes::Broken;

/// 64 KiB: of 16, 32, 64 and 110 KiB what left least together with the dictionary itself, for 1,000 series of 5, 20 and
/// 100 log lines each.
pub(crate) const DICTIONARY_BYTES_MAX: usize = 64 << 10;
/// 1 MiB of texts to learn from: trained in some 0.2 s, and more of them changed the size by less than 1 %.
pub(crate) const SAMPLE_BYTES: usize = 1 << 20;
/// 16 KiB of each: the training set holds 64 series at least.
pub(crate) const SAMPLE_BYTES_EACH: usize = 16 << 10;
const _: () = assert!(SAMPLE_BYTES / SAMPLE_BYTES_EACH >= 64);
/// Fewer chunks, or fewer bytes, have nothing to share that is worth a dictionary.
const SAMPLES_MIN: usize = 8;
const SAMPLE_BYTES_MIN: usize = 8 << 10;
/// How hard a dictionary is packed itself: there is one in a block.
const DICTIONARY_LEVEL: i32 = 19;

/// How hard texts are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// As they come. zstd's level 9: log lines take a fifth less than at the library's own default of 3, so that a
    /// chunk with its times and lengths stays below the plain file at that level; it is read as fast.
    Quick,
    /// Once they are old: level 17, which takes a tenth less than level 9 and is read as fast; some 5 MB/s of one core,
    /// once for each text. Level 19 takes another hundredth and half as long again.
    Hard,
}

impl Effort {
    const fn level(self) -> i32 {
        match self {
            Self::Quick => 9,
            Self::Hard => 17,
        }
    }
}

/// Packs texts.
pub(crate) struct Packer {
    effort: Effort,
    compressor: Option<Compressor<'static>>,
    has_dictionary: bool,
    /// Without the dictionary, where the other has one.
    alone: Option<Compressor<'static>>,
}

impl Packer {
    /// One without a dictionary.
    pub(crate) const fn new(effort: Effort) -> Self {
        Self { effort, compressor: None, has_dictionary: false, alone: None }
    }

    /// One with `dictionary`; `None` when the library does not take it.
    fn with(effort: Effort, dictionary: &[u8]) -> Option<Self> {
        let mut compressor = Compressor::with_dictionary(effort.level(), dictionary).ok()?;
        // A block has one dictionary: four bytes a chunk that name it are saved.
        compressor.set_parameter(CParameter::DictIdFlag(false)).ok()?;
        Some(Self { effort, compressor: Some(compressor), has_dictionary: true, alone: None })
    }

    pub(crate) const fn effort(&self) -> Effort {
        self.effort
    }

    pub(crate) const fn has_dictionary(&self) -> bool {
        self.has_dictionary
    }

    /// `bytes` as a zstd frame, if the library makes one.
    pub(crate) fn pack(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        if self.compressor.is_none() {
            self.compressor = Compressor::new(self.effort.level()).ok();
        }
        self.compressor.as_mut()?.compress(bytes).ok()
    }

    /// As [`Packer::pack`], without the dictionary.
    pub(crate) fn pack_alone(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        if !self.has_dictionary {
            return self.pack(bytes);
        }
        if self.alone.is_none() {
            self.alone = Compressor::new(self.effort.level()).ok();
        }
        self.alone.as_mut()?.compress(bytes).ok()
    }
}

/// A dictionary for `texts`, the first chunks of a block: as it is stored, beside a packer that uses it. `None` when
/// they are not smaller with it, the dictionary itself counted.
pub(crate) fn train(texts: &[Vec<u8>], effort: Effort) -> Option<(Vec<u8>, Packer)> {
    let (mut samples, mut lengths) = (Vec::new(), Vec::new());
    for text in texts {
        let length = text.len().min(SAMPLE_BYTES_EACH).min(SAMPLE_BYTES - samples.len());
        samples.extend_from_slice(&text[..length]);
        lengths.extend((length > 0).then_some(length));
    }
    debug_assert_eq!(lengths.iter().sum::<usize>(), samples.len(), "the lengths are those of the samples");
    if lengths.len() < SAMPLES_MIN || samples.len() < SAMPLE_BYTES_MIN {
        return None;
    }
    let dictionary =
        zstd::dict::from_continuous(&samples, &lengths, DICTIONARY_BYTES_MAX.min(samples.len() / 4)).ok()?;
    assert!(dictionary.len() <= DICTIONARY_BYTES_MAX, "a reader takes no dictionary of {} bytes", dictionary.len());
    let stored = zstd::bulk::compress(&dictionary, DICTIONARY_LEVEL).ok()?;
    // As many of them are looked at as cost no more than the training.
    let mut left = SAMPLE_BYTES;
    let looked_at = texts.iter().take_while(|text| {
        let fits = left > 0;
        left = left.saturating_sub(text.len());
        fits
    });
    let looked_at: Vec<&Vec<u8>> = looked_at.collect();
    let size = |mut packer: Packer| -> usize {
        looked_at.iter().map(|text| packer.pack(text).map_or(text.len(), |packed| packed.len())).sum()
    };
    let (plain, with) = (size(Packer::new(Effort::Quick)), size(Packer::with(Effort::Quick, &dictionary)?));
    let own = stored.len() * looked_at.len() / texts.len();
    if with + own >= plain { None } else { Some((stored, Packer::with(effort, &dictionary)?)) }
}

/// A block's dictionary, ready to read with.
pub(crate) struct Dictionary {
    prepared: DecoderDictionary<'static>,
}

impl Dictionary {
    /// The dictionary that a block has stored.
    pub(crate) fn parse(stored: &[u8]) -> Result<Self, Broken> {
        let bytes = zstd::bulk::decompress(stored, DICTIONARY_BYTES_MAX);
        let broken = |problem: String| Broken { offset: 0, problem: format!("no dictionary: {problem}") };
        let bytes = bytes.map_err(|error| broken(error.to_string()))?;
        if bytes.is_empty() {
            return Err(broken("it is empty".into()));
        }
        Ok(Self { prepared: DecoderDictionary::copy(&bytes) })
    }

    /// Unpacks at most `length_max` bytes.
    pub(crate) fn unpack(&self, packed: &[u8], length_max: usize) -> std::io::Result<Vec<u8>> {
        Decompressor::with_prepared_dictionary(&self.prepared)?.decompress(packed, length_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(series: usize) -> Vec<Vec<u8>> {
        let line = |at: usize| {
            format!("GET /api/v2/orders/{} 200 in {} ms by worker-{}\n", at * 7919 % 1000, at % 97, at % 13)
        };
        (0..series).map(|series| (0..20).flat_map(|at| line(series * 31 + at).into_bytes()).collect()).collect()
    }

    #[test]
    fn what_short_texts_share_is_stored_once() {
        let samples = lines(200);
        let mut plain = Packer::new(Effort::Quick);
        let without: usize = samples.iter().map(|sample| plain.pack(sample).unwrap().len()).sum();
        let (stored, mut packer) = train(&samples, Effort::Quick).expect("it pays");
        let packed: Vec<Vec<u8>> = samples.iter().map(|sample| packer.pack(sample).unwrap()).collect();
        let with: usize = packed.iter().map(Vec::len).sum();
        assert!(with * 5 < without * 4 && with + stored.len() < without, "{with} + {} of {without}", stored.len());
        let dictionary = Dictionary::parse(&stored).unwrap();
        for (packed, sample) in packed.iter().zip(&samples) {
            assert_eq!(dictionary.unpack(packed, sample.len()).unwrap(), *sample);
        }
    }

    #[test]
    fn there_is_none_where_it_does_not_pay() {
        assert!(train(&lines(SAMPLES_MIN - 1), Effort::Hard).is_none(), "too few");
        let mut state = 1_u64;
        let noise = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_be_bytes()
        };
        let noise: Vec<u8> = (0..4096).flat_map(noise).collect();
        assert!(train(&noise.chunks(1024).map(<[u8]>::to_vec).collect::<Vec<_>>(), Effort::Quick).is_none());
    }

    #[test]
    fn bytes_that_are_no_dictionary_are_an_error() {
        let (stored, _) = train(&lines(100), Effort::Quick).expect("it pays");
        for cut in [0, 1, stored.len() / 2, stored.len() - 1] {
            assert!(Dictionary::parse(&stored[..cut]).is_err(), "cut at {cut}");
        }
        assert!(Dictionary::parse(b"not a frame").is_err());
    }
}
