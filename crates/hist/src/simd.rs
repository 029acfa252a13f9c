//! Flat bins of many durations at a time, eight in a register, where the CPU has AVX-512 (with VBMI, so Ice Lake or Zen
//! 4 and newer); elsewhere one by one.
//!
//! How: the exponent of a duration as a double names its decade or the one below (64 bytes, one permutation of a
//! register), one comparison with a power of ten decides (16 doubles in two registers), and a multiplication with the
//! power's reciprocal gives the two digits. No gather: those cost more here than the table look-up that they replace.
//!
//! Invariants: the bins are those of [`NanosecondIndex::bin`]. A reciprocal is taken a little too large, by 2 to 6
//! parts in 2^53: enough that a quotient that is whole stays so, too little to reach the next whole number, which is at
//! least eight parts in 2^53 away for a duration below 2^50 ns (13 days). Longer ones go one by one.
//!
//! All `unsafe` of this crate is here: calling what the CPU was asked for, and loads and stores within slices.
#![allow(unsafe_code)]

use crate::NanosecondIndex;

/// A summary of some durations in addition to their bins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    /// Nanoseconds in all.
    pub sum: u128,
    /// The minimum; `u64::MAX` if empty.
    pub min: u64,
    /// The maximum; 0 if empty.
    pub max: u64,
}

impl Digest {
    /// Of no durations.
    pub const EMPTY: Self = Self { sum: 0, min: u64::MAX, max: 0 };

    /// Merges another summary.
    pub fn merge(&mut self, other: Self) {
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    #[inline(always)]
    fn add(&mut self, nanoseconds: u64) {
        self.sum += u128::from(nanoseconds);
        self.min = self.min.min(nanoseconds);
        self.max = self.max.max(nanoseconds);
    }
}

impl NanosecondIndex {
    /// The flat bin of each of some durations, in order, and their summary. Where the CPU has AVX-512, half
    /// the time of looking up each.
    ///
    /// # Panics
    /// When `bins` has fewer elements than `nanoseconds`.
    #[inline]
    pub fn bins(nanoseconds: &[u64], bins: &mut [u16]) -> Digest {
        let bins = &mut bins[..nanoseconds.len()];
        #[cfg(target_arch = "x86_64")]
        if is_wide() {
            // SAFETY: `is_wide` has asked the CPU for every feature that the function is compiled with.
            return unsafe { wide::bins(nanoseconds, bins) };
        }
        one_by_one(nanoseconds, bins)
    }

    /// True when many durations are looked up eight at a time on this CPU.
    #[must_use]
    #[inline]
    pub fn is_wide() -> bool {
        is_wide()
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn is_wide() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vbmi")
}

#[cfg(not(target_arch = "x86_64"))]
fn is_wide() -> bool {
    false
}

fn one_by_one(nanoseconds: &[u64], bins: &mut [u16]) -> Digest {
    let mut digest = Digest::EMPTY;
    for (nanoseconds, bin) in nanoseconds.iter().zip(bins) {
        digest.add(*nanoseconds);
        *bin = NanosecondIndex::bin(*nanoseconds) as u16;
    }
    digest
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use super::{Digest, one_by_one};
    use std::arch::x86_64::*;

    /// Durations from here on go one by one.
    const END: f64 = (1_u64 << 50) as f64;

    /// Groups of eight whose eight sums are far from overflow; if one duration of a part is too long, the whole part is
    /// processed one by one.
    const PART: usize = 1 << 6;

    /// `floor(log10(2^e))`, by the low six bits of a double's biased exponent: e = 0 has 63, e = 1 has 0.
    const DECADES: [u8; 64] = {
        let mut decades = [0; 64];
        let mut exponent = 0;
        while exponent < 64 {
            decades[(exponent + 63) % 64] = (1_u64 << exponent).ilog10() as u8;
            exponent += 1;
        }
        decades
    };

    /// The first number of the decade above.
    const NEXT: [f64; 16] = {
        let mut powers = [10.0; 16];
        let mut at = 1;
        while at < 16 {
            powers[at] = powers[at - 1] * 10.0;
            at += 1;
        }
        powers
    };

    /// The factors that give the two leading digits of a number in the decade, by truncation.
    const SCALES: [f64; 16] = {
        const LARGER: f64 = 1.0 + 2.0 * f64::EPSILON;
        let mut scales = [10.0 * LARGER; 16];
        let mut at = 1;
        while at < 16 {
            scales[at] = 10.0 / NEXT[at - 1] * LARGER;
            at += 1;
        }
        scales
    };

    /// As [`super::NanosecondIndex::bins`].
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vbmi")]
    pub(super) fn bins(nanoseconds: &[u64], bins: &mut [u16]) -> Digest {
        assert_eq!(nanoseconds.len(), bins.len());
        let (eights, rest) = nanoseconds.as_chunks::<8>();
        let (eights_of_bins, bins_of_rest) = bins.as_chunks_mut::<8>();
        let mut digest = one_by_one(rest, bins_of_rest);
        for (part, bins) in eights.chunks(PART).zip(eights_of_bins.chunks_mut(PART)) {
            let found = bins_of_eights(part, bins);
            digest.merge(found.unwrap_or_else(|| one_by_one(part.as_flattened(), bins.as_flattened_mut())));
        }
        digest
    }

    /// Finds the bins of durations, eight at a time; `None` when one is too long. At most [`PART`] groups of eight.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vbmi")]
    fn bins_of_eights(nanoseconds: &[[u64; 8]], bins: &mut [[u16; 8]]) -> Option<Digest> {
        let (tables, mut sum) = (Tables::new(), _mm512_setzero_si512());
        // As doubles, which compare in one step of either unit.
        let (mut min, mut max) = (_mm512_set1_pd(f64::INFINITY), _mm512_setzero_pd());
        for (eight, bins) in nanoseconds.iter().zip(bins) {
            // SAFETY: eight numbers of 8 bytes are 64 bytes; no alignment is needed.
            let values = unsafe { _mm512_loadu_epi64(eight.as_ptr().cast()) };
            let doubles = _mm512_cvtepu64_pd(values);
            sum = _mm512_add_epi64(sum, values);
            min = _mm512_min_pd(min, doubles);
            max = _mm512_max_pd(max, doubles);
            let flat = _mm512_cvtepi64_epi16(tables.flat_bins(doubles));
            // SAFETY: eight bins of 2 bytes are 16 bytes; no alignment is needed.
            unsafe { _mm_storeu_si128(bins.as_mut_ptr().cast(), flat) };
        }
        let max = _mm512_reduce_max_pd(max);
        if max >= END {
            return None;
        }
        let (sum, min) = (_mm512_reduce_add_epi64(sum) as u64, _mm512_reduce_min_pd(min));
        Some(Digest { sum: u128::from(sum), min: min as u64, max: max as u64 })
    }

    /// The tables, in registers.
    struct Tables {
        decades: __m512i,
        next: [__m512d; 2],
        scales: [__m512d; 2],
    }

    impl Tables {
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw")]
        fn new() -> Self {
            // SAFETY: each table has as many bytes as the registers that it is loaded into.
            unsafe {
                Self {
                    decades: _mm512_loadu_epi8(DECADES.as_ptr().cast()),
                    next: [_mm512_loadu_pd(NEXT.as_ptr()), _mm512_loadu_pd(NEXT.as_ptr().add(8))],
                    scales: [_mm512_loadu_pd(SCALES.as_ptr()), _mm512_loadu_pd(SCALES.as_ptr().add(8))],
                }
            }
        }

        /// The flat bins of eight integers below [`END`].
        #[inline]
        #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vbmi")]
        fn flat_bins(&self, doubles: __m512d) -> __m512i {
            let exponents = _mm512_srli_epi64::<52>(_mm512_castpd_si512(doubles));
            // The lowest byte of each lane is looked up, the others become zero.
            let decade = _mm512_maskz_permutexvar_epi8(0x0101_0101_0101_0101, exponents, self.decades);
            let next = _mm512_permutex2var_pd(self.next[0], decade, self.next[1]);
            let above = _mm512_cmp_pd_mask::<_CMP_GE_OQ>(doubles, next);
            let decade = _mm512_mask_add_epi64(decade, above, decade, _mm512_set1_epi64(1));
            let scale = _mm512_permutex2var_pd(self.scales[0], decade, self.scales[1]);
            // Flat bin 1 has the digits 10. Nothing has digits 9, which 0.9 gives: so zero has flat bin 0.
            let positive = _mm512_max_pd(doubles, _mm512_set1_pd(0.9));
            let digits_less_9 = _mm512_cvttpd_epi64(_mm512_fmadd_pd(positive, scale, _mm512_set1_pd(-9.0)));
            _mm512_add_epi64(digits_less_9, _mm512_mul_epu32(decade, _mm512_set1_epi64(90)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bins and the digest of the durations, all at once, in parts of every small length, and from odd places.
    fn check(nanoseconds: &[u64]) {
        let (mut bins, mut model) = (vec![u16::MAX; nanoseconds.len()], vec![0; nanoseconds.len()]);
        let expected = one_by_one(nanoseconds, &mut model);
        assert_eq!(NanosecondIndex::bins(nanoseconds, &mut bins), expected);
        assert!(bins == model, "{:?}", bins.iter().zip(&model).position(|(bin, model)| bin != model));
        for length in 0..20.min(nanoseconds.len()) {
            let part = &nanoseconds[length / 2..][..length.min(nanoseconds.len() - length / 2)];
            let mut bins = vec![0; part.len()];
            assert_eq!(NanosecondIndex::bins(part, &mut bins), one_by_one(part, &mut vec![0; part.len()]));
            assert_eq!(bins, &model[length / 2..][..part.len()]);
        }
    }

    #[test]
    fn edges_of_every_decade_have_their_bins() {
        println!("eight at a time: {}", NanosecondIndex::is_wide());
        let (mut values, mut unit) = (vec![0], 1_u64);
        while unit < 1 << 50 {
            values.extend((1..=100).flat_map(|digits| [digits * unit - 1, digits * unit, digits * unit + 1]));
            unit *= 10;
        }
        values.retain(|value| *value < 1 << 50);
        values.extend([(1 << 50) - 1, (1 << 50) - 2]);
        check(&values);
        check(&[]);
        check(&(0..20_000).collect::<Vec<_>>());
    }

    #[test]
    fn multiples_of_bins_have_their_bins() {
        // The greatest and least number of each bin and their neighbours, near 2^50 above all: where a rounding would
        // show.
        let mut values = Vec::new();
        for digits in 10..100_u64 {
            for power in 0..15 {
                let edge = digits * 10_u64.pow(power);
                values.extend((0..3).flat_map(|off| [edge + off, edge.saturating_sub(off)]));
            }
        }
        values.retain(|value| *value < 1 << 50);
        check(&values);
    }

    #[test]
    fn random_durations_of_every_size_have_their_bins() {
        let mut rng = fastrand::Rng::with_seed(5);
        let mut random = || rng.u64(..);
        let values: Vec<u64> = (0..200_000).map(|round| random() >> (14 + round % 50)).collect();
        check(&values);
        // One that is too long for eight at a time.
        for at in [0, 7, 8, 9, 8_191, 8_192, 20_000] {
            let mut values = values[..20_001].to_vec();
            for long in [1 << 50, 1 << 53, u64::MAX] {
                values[at] = long;
                check(&values);
            }
        }
    }
}
