//! Any bytes as a block, and any changes to a good one, behind checksums that fit: it is refused, or what is read of it is checked.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use ogive_hist::Histogram;
use ogive_journal::{Disk, SimulatedDisk};
use ogive_model::{HistogramValue, Kind, Labels, Selection, SeriesData, SeriesMeta, Temporality, TimeRange};
use ogive_store::{Block, BlockId, Budget, block};

fn read(bytes: Vec<u8>) {
    let disk = SimulatedDisk::new(1);
    let path = Path::new("/0000000000000001.block");
    disk.put(path, bytes);
    if let Ok(block) = Block::open(&disk, path) {
        let selection = Selection {
            matchers: Vec::new(),
            range: TimeRange::ALL,
            samples_max: 100_000,
            labels_only: false,
            resolution: Default::default(),
        };
        let _ = block.verify();
        let _ = block.label_names(&[]);
        let _ = block.histogram_names();
        let _ = block.select(&selection, &mut Budget::new(selection.samples_max));
    }
}

fn series(name: &str, kind: Kind, temporality: Temporality) -> SeriesData {
    SeriesData {
        labels: Labels::new([("__name__", name), ("host", "a")]).expect("good labels"),
        meta: SeriesMeta { kind, temporality, unit: "s".into(), width_ms: 1_000 },
        floats: Default::default(),
        histograms: Default::default(),
        texts: Default::default(),
        rollup_ms: 0,
    }
}

/// A block with a series of each kind.
fn good() -> Vec<u8> {
    let mut gauge = series("gauge", Kind::Float, Temporality::Gauge);
    gauge.floats.times = (0..40).map(|at| at * 1_000).collect();
    gauge.floats.values = (0..40).map(|at| f64::from(at).sqrt()).collect();
    let mut latency = series("latency", Kind::Histogram, Temporality::Delta);
    for at in 0..5 {
        let mut histogram = Histogram::log_linear();
        (1..=at + 1).for_each(|value| histogram.record(f64::from(value) / 1e3));
        latency.histograms.times.push(i64::from(at) * 1_000);
        latency.histograms.values.push(HistogramValue::Integer(histogram));
    }
    let mut log = series("log", Kind::Text, Temporality::Gauge);
    log.texts.times = vec![7, 7, 9];
    log.texts.values = vec!["started ".repeat(12), String::new(), "stopped".into()];
    let disk = SimulatedDisk::new(1);
    disk.create_dir_all(Path::new("/")).expect("a disk has a root");
    let written = block::write(&disk, Path::new("/"), BlockId(1), [gauge, latency, log].into_iter().map(Ok));
    written.expect("the disk is sound").expect("there are series");
    disk.read(Path::new("/0000000000000001.block")).expect("it was written")
}

fuzz_target!(|bytes: &[u8]| {
    static GOOD: OnceLock<Vec<u8>> = OnceLock::new();
    read(bytes.to_vec());
    read(block::sealed(bytes));
    let mut changed = GOOD.get_or_init(good).clone();
    for change in bytes.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % changed.len();
        changed[at] = change[2];
    }
    read(block::sealed(&changed));
});
