//! Hostile captures: seeded random bytes, mutated captures, mutated streams. Nothing panics, and what waits stays
//! within its limits.

mod common;

#[path = "../../../fuzz/capture_file.rs"]
mod capture_file;

use common::truth::{Report, captures, frames, observe};
use ogive_wire::frame::Link;
use ogive_wire::{Observer, Options, file};

/// A generator whose seed is all there is to repeat (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap()
    }
}

#[test]
fn random_bytes_are_no_capture_or_a_harmless_one() {
    let heads: [&[u8]; 4] = [b"", &[0x4d, 0x3c, 0xb2, 0xa1], &[0x0a, 0x0d, 0x0d, 0x0a], &[0xa1, 0xb2, 0xc3, 0xd4]];
    for seed in 1..=400 {
        let mut random = Random(seed);
        let mut bytes = heads[random.below(heads.len())].to_vec();
        let length = random.below(2_000);
        bytes.extend((0..length).map(|_| random.next().to_le_bytes()[3]));
        capture_file::observe(&bytes);
    }
}

/// Whole files with bytes changed, cut out and put in: what the fuzz target `wire_file` does with coverage.
#[test]
fn mutated_files_are_read_as_far_as_they_can_be() {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");
    let own = std::fs::read_dir(own).expect("the data of the tests").map(|entry| entry.expect("an entry").path());
    let files = own.filter(|path| path.extension().is_some_and(|end| end == "pcap"));
    let files: Vec<_> = files.chain(captures().into_iter().map(|(_, path, _)| path)).collect();
    let mut frames = 0;
    for path in files {
        let whole = std::fs::read(&path).expect("a capture");
        assert!(capture_file::observe(&whole).frames > 0, "{}", path.display());
        for seed in 1..=12 {
            let mut random = Random(seed);
            let mut bytes = whole.clone();
            for _ in 0..=random.below(40) {
                let at = random.below(bytes.len());
                match random.below(6) {
                    0 => bytes.truncate(at.max(24)),
                    1 => drop(bytes.drain(at..(at + random.below(60)).min(bytes.len()))),
                    2 => bytes.insert(at, 0xff),
                    _ => bytes[at] = random.next().to_le_bytes()[3],
                }
                if bytes.is_empty() {
                    bytes.push(0);
                }
            }
            frames += capture_file::observe(&bytes).frames;
        }
    }
    assert!(frames > 1_000, "mutated files are read in part: {frames}");
}

#[test]
fn mutated_captures_are_read_or_refused() {
    for (name, path, _) in captures() {
        let whole = frames(&path);
        for seed in 1..=6 {
            let mut random = Random(seed);
            let mut mutated = whole.clone();
            for _ in 0..mutated.len() / 4 {
                let at = random.below(mutated.len());
                match random.below(5) {
                    0 => {
                        let other = random.below(mutated.len());
                        mutated.swap(at, other);
                    }
                    1 => {
                        let copy = mutated[at].clone();
                        mutated.insert(random.below(whole.len()), copy);
                    }
                    2 => {
                        let keep = random.below(mutated[at].bytes.len() + 1);
                        mutated[at].bytes.truncate(keep);
                    }
                    _ if !mutated[at].bytes.is_empty() => {
                        let place = random.below(mutated[at].bytes.len());
                        mutated[at].bytes[place] = random.next().to_le_bytes()[5];
                    }
                    _ => {}
                }
            }
            let report = observe(&mutated, 0);
            assert!(report.summaries.iter().all(ogive_wire::Summary::is_conserved), "{name} seed {seed}");
        }
    }
}

#[test]
fn segments_at_random_places_of_a_stream_keep_the_limits() {
    for seed in 1..=30 {
        let mut random = Random(seed);
        let mut observer = Observer::new(Options::default());
        let mut report = Report::default();
        let mut at = 0;
        for _ in 0..2_000 {
            at += i64::try_from(random.next() % 5_000_000).unwrap();
            let is_to_server = random.below(2) == 0;
            let payload = vec![b'G'; random.below(300)];
            let flags = [16, 16, 24, 24, 24, 2, 18, 17, 20][random.below(9)];
            let mut bytes = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
            if !is_to_server {
                bytes[15] = 2;
                bytes[19] = 1;
            }
            let (from, to): (u16, u16) = if is_to_server { (40_000, 80) } else { (80, 40_000) };
            bytes.extend([from.to_be_bytes(), to.to_be_bytes()].concat());
            let near = u32::try_from(random.next() % 4_000).unwrap().wrapping_sub(1_000);
            bytes.extend(near.to_be_bytes());
            bytes.extend(u32::try_from(random.next() % 4_000).unwrap().to_be_bytes());
            bytes.extend([0x50, flags, 1, 0, 0, 0, 0, 0]);
            bytes.extend(payload);
            let length = u16::try_from(bytes.len()).unwrap();
            bytes[2..4].copy_from_slice(&length.to_be_bytes());
            let frame = file::Frame { at, link: Link::Raw, bytes: &bytes, length: bytes.len() };
            observer.frame(&frame, &mut report);
            assert!(observer.held_bytes() <= 2 * (1 << 20) + 1_024, "seed {seed}");
        }
        observer.finish(&mut report);
        assert_eq!(observer.held_bytes(), 0, "seed {seed}");
        assert!(report.summaries.iter().all(ogive_wire::Summary::is_conserved), "seed {seed}");
    }
}
