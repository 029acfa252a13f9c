//! Blocks against a model that looks at every sample, and against damage.

use std::path::{Path, PathBuf};

use ogive_journal::{Disk, SimulatedDisk};
use ogive_model::{MatchOp, Matcher, Selection, SeriesData, TimeRange};
use proptest::prelude::*;

use crate::testing::{any_source, bits, model_select};
use crate::{Block, BlockId, Budget, Error, block};

const DIRECTORY: &str = "/store";

fn write(disk: &dyn Disk, series: &[SeriesData]) -> Option<PathBuf> {
    disk.create_dir_all(Path::new(DIRECTORY)).unwrap();
    let id = BlockId(7);
    let meta = block::write(disk, Path::new(DIRECTORY), id, series.iter().cloned().map(Ok)).unwrap()?;
    let path = Path::new(DIRECTORY).join(block::file_name(id));
    assert_eq!(disk.length(&path).unwrap(), meta.bytes);
    Some(path)
}

fn everything() -> Selection {
    Selection { matchers: Vec::new(), range: TimeRange::ALL, samples_max: usize::MAX, labels_only: false }
}

fn select(block: &Block, selection: &Selection) -> Result<Vec<SeriesData>, Error> {
    block.select(selection, &mut Budget::new(selection.samples_max))
}

fn any_matcher() -> impl Strategy<Value = Matcher> {
    let op = prop_oneof![Just(MatchOp::Equal), Just(MatchOp::NotEqual), Just(MatchOp::Regex), Just(MatchOp::NotRegex)];
    let name = prop_oneof![Just("__name__"), Just("a"), Just("b"), Just("absent")];
    let value =
        prop_oneof![Just(""), Just("v1"), Just("v2"), Just("m1"), Just("v1|v3"), Just(".+"), Just(".*"), Just("m[01]")];
    (name, op, value).prop_map(|(name, op, value)| Matcher::new(name, op, value).unwrap())
}

fn any_selection() -> impl Strategy<Value = Selection> {
    let range = (-60_000..200_000_i64, 0..100_000_i64, any::<bool>());
    (proptest::collection::vec(any_matcher(), 0..3), range, any::<bool>()).prop_map(
        |(matchers, (start, length, all), labels_only)| {
            let range = if all { TimeRange::ALL } else { TimeRange { start_ms: start, end_ms: start + length } };
            Selection { matchers, range, samples_max: usize::MAX, labels_only }
        },
    )
}

proptest! {
    #[test]
    fn a_block_answers_as_the_model_does(source in any_source(12, 60), selections in proptest::collection::vec(any_selection(), 1..6)) {
        let disk = SimulatedDisk::new(0);
        if let Some(path) = write(&disk, &source) {
            let block = Block::open(&disk, &path).unwrap();
            block.verify().unwrap();
            for selection in selections.iter().chain([&everything()]) {
                let found = select(&block, selection).unwrap();
                prop_assert_eq!(bits(&found), bits(&model_select(&source, selection)), "{:?}", selection);
            }
        } else {
            prop_assert!(model_select(&source, &everything()).is_empty());
        }
    }
}
