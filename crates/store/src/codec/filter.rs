//! A Bloom filter of the words in the texts of a chunk, so that a search skips chunks that cannot match.
//!
//! Invariants: a word of the texts is always found; any other word is found in one of [`FALSE_ONE_IN`] chunks.
//! Format: docs/formats/block.md, "Filter".

use std::collections::HashSet;

use ogive_model::words::each_word;
use twox_hash::XxHash3_64;

/// Of each word. 8 bits would find one chunk in 46 for nothing, 4 one in 7.
const BITS_EACH: usize = 6;
/// Bits that a word sets: the best number for so many bits of each.
const BITS_SET: u64 = 4;
/// What that comes to.
#[cfg(test)]
const FALSE_ONE_IN: usize = 17;
/// 64 KiB: every word of a chunk is another one of two letters, a few times over.
pub(super) const BYTES_MAX: usize = 64 << 10;
/// 16 KiB of texts are read as soon as their filter is.
const TEXT_BYTES_MIN: usize = 16 << 10;

/// The filter of `values`; `None` where reading them is as quick, or where it would be larger than it may be.
pub(crate) fn build(values: &[String]) -> Option<Vec<u8>> {
    if values.iter().map(String::len).sum::<usize>() < TEXT_BYTES_MIN {
        return None;
    }
    let mut hashes = HashSet::new();
    for value in values {
        each_word(value, |word| {
            hashes.insert(hash(word));
        });
    }
    let bytes = (hashes.len() * BITS_EACH).div_ceil(8);
    if bytes == 0 || bytes > BYTES_MAX {
        return None;
    }
    let mut filter = vec![0; bytes];
    for at in hashes.into_iter().flat_map(|hash| places(hash, bytes)) {
        filter[at / 8] |= 1 << (at % 8);
    }
    debug_assert!(values.iter().all(|value| has_words(&filter, value)), "a filter of {bytes} bytes finds every word");
    Some(filter)
}

/// Whether every word of `value` is found.
fn has_words(filter: &[u8], value: &str) -> bool {
    let mut all = true;
    each_word(value, |word| all &= may_have(filter, word));
    all
}
/// Whether the texts of a filter may have a word, folded.
pub(crate) fn may_have(filter: &[u8], word: &str) -> bool {
    places(hash(word), filter.len()).all(|at| filter.get(at / 8).is_none_or(|byte| byte & 1 << (at % 8) != 0))
}

fn hash(word: &str) -> u64 {
    XxHash3_64::oneshot(word.as_bytes())
}

/// The bits of a word in a filter of `bytes`.
fn places(hash: u64, bytes: usize) -> impl Iterator<Item = usize> {
    let (first, step) = (hash & 0xffff_ffff, hash >> 32 | 1);
    let place = move |at: u64| ((first.wrapping_add(at.wrapping_mul(step)) & 0xffff_ffff) * (8 * bytes as u64)) >> 32;
    (0..BITS_SET).map(move |at| place(at) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_found_and_few_others() {
        let lines: Vec<String> = (0..2_000).map(|at| format!("GET /orders/{} took {at} ms", at * 7919)).collect();
        let filter = build(&lines).unwrap();
        let mut words = HashSet::new();
        lines.iter().for_each(|line| each_word(line, |word| words.extend([word.to_owned()])));
        assert!(words.iter().all(|word| may_have(&filter, word)));
        assert!(filter.len() <= words.len() * BITS_EACH / 8 + 1);
        let others = (0..10_000).filter(|at| may_have(&filter, &format!("other{at}"))).count();
        assert!((1..10_000 * 3 / 2 / FALSE_ONE_IN).contains(&others), "{others} of 10,000");
    }

    #[test]
    fn few_texts_and_texts_without_words_have_none() {
        assert_eq!(build(&["a word".to_owned()]), None);
        assert_eq!(build(&vec!["--- !!!".to_owned(); 10_000]), None);
        let many: Vec<String> = (0..100_000).map(|at| format!("w{at}")).collect();
        assert_eq!(build(&many), None, "it would be larger than it may be");
    }

    /// The places of words are on disks: they stay where they are.
    #[test]
    fn the_places_of_words_are_those_of_the_format_page() {
        assert_eq!(hash("error"), 0x22ee27259be28863);
        assert_eq!(places(hash("error"), 1_000).collect::<Vec<_>>(), [4871, 5962, 7054, 146]);
    }
}
