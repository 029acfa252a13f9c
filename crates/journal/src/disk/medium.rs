//! The simulated file's durable content as opposed to what readers see, and what a power cut leaves of it.
//!
//! Invariants: `durable` with `pending` applied in order is `live`, unless a failed fsync has lost changes.

/// Disks write whole sectors: the unit in which unsynced bytes survive or not.
const SECTOR_BYTES: usize = 512;

/// What happens to the changes that no fsync has covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// None reached the medium.
    Everything,
    /// All of them did.
    Nothing,
    /// They went down in order, up to a point inside one of them.
    Tail,
    /// The device wrote them in any order: each sector by itself.
    Scattered,
}

impl Loss {
    pub(super) fn any(random: &mut fastrand::Rng) -> Self {
        [Self::Everything, Self::Nothing, Self::Tail, Self::Scattered][random.usize(..4)]
    }
}

enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Cut { length: usize },
}

/// A simulated file.
#[derive(Default)]
pub(super) struct Medium {
    pub(super) live: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Change>,
}

impl Medium {
    /// A file that is wholly durable.
    pub(super) fn durable(bytes: Vec<u8>) -> Self {
        Self { live: bytes.clone(), durable: bytes, pending: Vec::new() }
    }

    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.pending.push(Change::Write { offset: self.live.len(), bytes: bytes.to_vec() });
        self.live.extend_from_slice(bytes);
    }

    pub(super) fn cut(&mut self, length: usize) {
        assert!(length <= self.live.len(), "a cut to {length} of {} bytes", self.live.len());
        self.pending.push(Change::Cut { length });
        self.live.truncate(length);
    }

    /// A good fsync.
    pub(super) fn sync(&mut self) {
        for change in self.pending.drain(..) {
            match change {
                Change::Write { offset, bytes } => write(&mut self.durable, offset, &bytes),
                Change::Cut { length } => self.durable.truncate(length),
            }
        }
    }

    /// A failed fsync: some of the pending changes reached the medium, the rest never will, and readers still
    /// see them all, as Linux has it.
    pub(super) fn sync_failed(&mut self, random: &mut fastrand::Rng) {
        self.settle(Loss::any(random), random);
    }

    /// A power cut: what is left is what everybody sees.
    pub(super) fn power_cut(&mut self, loss: Loss, random: &mut fastrand::Rng) {
        self.settle(loss, random);
        assert!(self.pending.is_empty(), "a power cut leaves nothing to come");
        self.live.clone_from(&self.durable);
    }

    /// Flips one bit, on the medium and for readers.
    pub(super) fn flip(&mut self, bit: usize) {
        for copy in [&mut self.live, &mut self.durable] {
            if let Some(byte) = copy.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
        }
    }

    /// Overwrites bytes, on the medium and for readers.
    pub(super) fn overwrite(&mut self, offset: usize, bytes: &[u8]) {
        write(&mut self.live, offset, bytes);
        write(&mut self.durable, offset, bytes);
    }

    fn settle(&mut self, loss: Loss, random: &mut fastrand::Rng) {
        let pending = std::mem::take(&mut self.pending);
        let total: usize = pending.iter().map(Change::weight).sum();
        let mut left = match loss {
            Loss::Everything => 0,
            Loss::Nothing | Loss::Scattered => total,
            Loss::Tail => random.usize(..=total),
        };
        for change in pending {
            let weight = change.weight().min(left);
            left -= weight;
            match change {
                Change::Write { offset, bytes } if loss == Loss::Scattered => {
                    self.scatter(offset, &bytes, random);
                }
                Change::Write { offset, bytes } if weight > 0 => write(&mut self.durable, offset, &bytes[..weight]),
                Change::Cut { length } if weight > 0 && (loss != Loss::Scattered || random.u32(..1000) < 500) => {
                    self.durable.truncate(length);
                }
                Change::Write { .. } | Change::Cut { .. } => {}
            }
        }
        assert_eq!(left, 0, "the changes that reached the medium are among the pending ones");
    }

    /// Writes the sectors of `bytes` that survive; a lost sector below a surviving one reads as what was there
    /// before: zeros, or an older file's bytes.
    fn scatter(&mut self, offset: usize, bytes: &[u8], random: &mut fastrand::Rng) {
        let mut from = 0;
        while from < bytes.len() {
            let to = ((offset + from) / SECTOR_BYTES + 1) * SECTOR_BYTES - offset;
            let to = to.min(bytes.len());
            assert!(from < to && to - from <= SECTOR_BYTES, "{from}..{to} is a sector or a part of one");
            if random.u32(..1000) < 600 {
                write(&mut self.durable, offset + from, &bytes[from..to]);
            } else if random.u32(..1000) < 100 {
                let garbage: Vec<u8> = (from..to).map(|_| random.u8(..)).collect();
                write(&mut self.durable, offset + from, &garbage);
            }
            from = to;
        }
    }
}

impl Change {
    /// Its share of a [`Loss::Tail`]: bytes, one for a cut.
    fn weight(&self) -> usize {
        match self {
            Self::Write { bytes, .. } => bytes.len(),
            Self::Cut { .. } => 1,
        }
    }
}

/// Writes at `offset`, filling a hole before it with zeros as file systems do.
fn write(file: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[offset..end].copy_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every loss keeps what was synced, and over many seeds each kind of outcome happens.
    #[test]
    fn synced_bytes_survive_and_unsynced_ones_may_not() {
        let (mut whole, mut nothing, mut torn, mut hole) = (0, 0, 0, 0);
        for seed in 0..400 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut medium = Medium::default();
            medium.append(&[1; 700]);
            medium.sync();
            medium.append(&[2; 1000]);
            medium.append(&[3; 1000]);
            let loss = Loss::any(&mut random);
            medium.power_cut(loss, &mut random);
            assert_eq!(&medium.live[..700], &[1; 700], "seed {seed}");
            assert!(medium.live.len() <= 2700, "seed {seed}");
            let rest = &medium.live[700..];
            match rest.len() {
                0 => nothing += 1,
                2000 if rest[..1000] == [2; 1000] && rest[1000..] == [3; 1000] => whole += 1,
                _ if rest.contains(&0) => hole += 1,
                _ => torn += 1,
            }
        }
        assert!(whole > 20 && nothing > 20 && torn > 20 && hole > 20, "{whole} {nothing} {torn} {hole}");
    }

    #[test]
    fn what_a_failed_fsync_lost_no_later_fsync_brings_back() {
        let mut lost = 0;
        for seed in 0..100 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut medium = Medium::default();
            medium.append(&[1; 100]);
            medium.sync_failed(&mut random);
            assert_eq!(medium.live, [1; 100]);
            medium.sync();
            medium.power_cut(Loss::Nothing, &mut random);
            lost += u32::from(medium.live != [1; 100]);
        }
        assert!(lost > 20, "{lost}");
    }
}
