//! The bits of Prometheus's chunks, written most significant first.
//!
//! Format: `tsdb/docs/format/chunks.md` of github.com/prometheus/prometheus.

/// Bytes under construction.
#[derive(Debug, Default)]
pub(super) struct Bits {
    bytes: Vec<u8>,
    /// Bits of the last byte that are not written yet.
    free: u32,
}

/// Bits of a number, and of the prefix in front of it: as many ones as there are shorter forms, and a zero.
const SIZES: [u32; 7] = [3, 6, 9, 12, 18, 25, 56];

impl Bits {
    /// Behind `head`, which ends with a whole byte.
    pub(super) const fn behind(head: Vec<u8>) -> Self {
        Self { bytes: head, free: 0 }
    }

    /// The bytes; what is free of the last one is zero.
    pub(super) fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// The lowest `count` bits of `value`.
    pub(super) fn put(&mut self, value: u64, count: u32) {
        let mut left = count;
        while left > 0 {
            if self.free == 0 {
                self.bytes.push(0);
                self.free = 8;
            }
            let taken = left.min(self.free);
            let piece = (value >> (left - taken)) & ((1 << taken) - 1);
            self.free -= taken;
            *self.bytes.last_mut().expect("there is a byte") |= (piece as u8) << self.free;
            left -= taken;
        }
    }

    /// A number in seven bits a byte, the lowest first.
    pub(super) fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.put(value & 0x7f | 0x80, 8);
            value >>= 7;
        }
        self.put(value, 8);
    }

    /// A number that is mostly small and of either sign.
    pub(super) fn signed(&mut self, value: i64) {
        let fits = |size: u32| (-((1 << (size - 1)) - 1)..=1 << (size - 1)).contains(&value);
        self.sized(value as u64, fits);
    }

    /// A number that is mostly small.
    pub(super) fn unsigned(&mut self, value: u64) {
        self.sized(value, |size| value < 1 << size);
    }

    fn sized(&mut self, value: u64, fits: impl Fn(u32) -> bool) {
        if value == 0 {
            return self.put(0, 1);
        }
        match (1..).zip(SIZES).find(|(_, size)| fits(*size)) {
            Some((ones, size)) => {
                self.put(((1 << ones) - 1) << 1, ones + 1);
                self.put(value, size);
            }
            None => {
                self.put(0xff, 8);
                self.put(value, 64);
            }
        }
    }
}

/// A double among others, of which those that follow share most bits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Xor {
    bits: u64,
    /// Zero bits before and behind those that were written last; `None` before there were any.
    window: Option<(u32, u32)>,
}

impl Xor {
    /// The first one, which was written whole.
    pub(super) const fn new(value: f64) -> Self {
        Self { bits: value.to_bits(), window: None }
    }

    /// Writes the next one.
    pub(super) fn put(&mut self, out: &mut Bits, value: f64) {
        let difference = value.to_bits() ^ self.bits;
        self.bits = value.to_bits();
        if difference == 0 {
            return out.put(0, 1);
        }
        // Five bits hold the zeros in front.
        let (front, behind) = (difference.leading_zeros().min(31), difference.trailing_zeros());
        if let Some((kept_front, kept_behind)) = self.window
            && front >= kept_front
            && behind >= kept_behind
        {
            out.put(0b10, 2);
            return out.put(difference >> kept_behind, 64 - kept_front - kept_behind);
        }
        self.window = Some((front, behind));
        let count = 64 - front - behind;
        out.put(0b11, 2);
        out.put(u64::from(front), 5);
        // 64 does not fit into six bits: it is written as 0, which cannot be meant.
        out.put(u64::from(count), 6);
        out.put(difference >> behind, count);
    }
}
