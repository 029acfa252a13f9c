//! Any body of IRONdb's ways to write, its encoding chosen by the first byte: read whole or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_irondb::body::{Encoding, read};
use ogive_irondb::graphite::lines::Sender;
use ogive_irondb::legacy::Form;
use ogive_model::{BatchId, SourceId, Tenant};

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, body)) = bytes.split_first() else { return };
    let all = [
        Encoding::Lines,
        Encoding::MetricList,
        Encoding::Rollups,
        Encoding::Json(Form::Text),
        Encoding::Json(Form::Numeric),
        Encoding::Json(Form::Histogram),
        Encoding::Graphite(Sender {
            account: 1,
            check: "8b9d2b4e-0c5a-4f0e-8f0d-5a2f6f0c1d2e".into(),
            name: "fuzz".into(),
        }),
    ];
    if let Ok(taken) = read(
        &all[usize::from(*kind) % all.len()],
        body,
        &Tenant::default(),
        BatchId { source: SourceId(1), sequence: 1 },
    ) {
        assert!(taken.batch.samples.iter().all(Result::is_ok));
    }
});
