//! Chooses where bits are flipped: two places that no checksum covers together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ogive_journal::{Disk, SimulatedDisk};

use crate::Manifest;

/// The directory of the store on disk `at`.
pub(super) fn root(at: usize) -> PathBuf {
    format!("/{at}").into()
}

/// The blocks of a store and their bytes. What a failed flush left behind is none of them.
pub(super) fn blocks(disk: &SimulatedDisk, at: usize) -> BTreeMap<PathBuf, Vec<u8>> {
    let manifest = Manifest::read(disk, &root(at)).unwrap().map(|(manifest, _)| manifest).unwrap_or_default();
    let ids = manifest.blocks.iter().map(|meta| meta.id);
    ids.map(|id| (Manifest::block_path(Path::new(""), id), disk.read(&Manifest::block_path(&root(at), id)).unwrap()))
        .collect()
}

/// The parts of a block that have a checksum each: header, sections, footer with trailer. See docs/formats/block.md.
fn sections(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let trailer = bytes.len() - 24;
    let footer = number(trailer);
    let mut parts = vec![0..16, footer..bytes.len()];
    parts.extend((footer..trailer).step_by(24).map(|at| number(at + 4)..number(at + 4) + number(at + 12)));
    parts.retain(|part| !part.is_empty());
    parts
}

/// Two bits: of two sections of one block, or of two blocks.
pub(super) fn pick_places(disk: &SimulatedDisk, mut random: fastrand::Rng) -> Option<[(PathBuf, usize); 2]> {
    let blocks: Vec<_> = blocks(disk, 0).into_iter().collect();
    let mut places = Vec::new();
    while places.len() < 2 && !blocks.is_empty() {
        let at = random.u64(..blocks.len() as u64) as usize;
        let parts = sections(&blocks[at].1);
        let part = random.u64(..parts.len() as u64) as usize;
        if places.first().is_none_or(|(other, _)| *other != (at, part)) {
            let bit = parts[part].start * 8 + random.u64(..parts[part].len() as u64 * 8) as usize;
            places.push(((at, part), (blocks[at].0.clone(), bit)));
        }
    }
    let places: Vec<_> = places.into_iter().map(|(_, place)| place).collect();
    places.try_into().ok()
}

/// A bit of the trailer of the first block, on either disk.
pub(super) fn pick_trailer(disk: &SimulatedDisk, bit: usize) -> Option<(PathBuf, usize)> {
    let (path, bytes) = blocks(disk, 0).pop_first()?;
    Some((path, (bytes.len() - 24) * 8 + bit))
}
