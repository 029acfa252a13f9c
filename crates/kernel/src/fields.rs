//! Numbers and names in records written by the kernel programs, in the machine's byte order.

use ogive_hist::{FLAT_BINS, Histogram, histogram_of_flat_bins};

/// Reads one field after the other.
///
/// # Panics
/// When there are fewer bytes than are read: the programs are ours.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (first, rest) = self.0.split_first_chunk::<N>().expect("a field of our own form");
        self.0 = rest;
        *first
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.take())
    }

    /// A name that ends with a zero byte.
    pub(crate) fn comm(&mut self) -> String {
        let bytes: [u8; 16] = self.take();
        let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }
}

/// Counts of flat bins since the last time, modulo 2^32: a program that counts more than 4 billion between two readings
/// would need to count one in less than a quarter of a nanosecond.
#[derive(Clone, Debug)]
pub(crate) struct Bins(Vec<u32>);

/// Bytes of `struct bins`.
pub(crate) const BINS_BYTES: usize = FLAT_BINS * 4;

impl Bins {
    pub(crate) fn new() -> Self {
        Self(vec![0; FLAT_BINS])
    }

    /// What was counted since the last call.
    pub(crate) fn since_last(&mut self, bytes: &[u8]) -> Vec<u64> {
        assert_eq!(bytes.len(), BINS_BYTES, "a histogram is one value");
        let numbers = bytes.chunks_exact(4).map(|four| u32::from_ne_bytes(four.try_into().expect("four bytes")));
        numbers
            .zip(&mut self.0)
            .map(|(now, before)| u64::from(now.wrapping_sub(std::mem::replace(before, now))))
            .collect()
    }
}

/// A histogram in seconds of counts of flat bins, with the sum that belongs to it.
pub(crate) fn histogram(counts: Vec<u64>, sum_ns: u64) -> Histogram {
    let mut histogram = histogram_of_flat_bins(counts);
    histogram.sum = Some(ogive_hist::seconds_of_nanoseconds(u128::from(sum_ns)));
    histogram
}
