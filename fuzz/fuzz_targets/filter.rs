//! Any text as a file of filters, and any as a line: read or refused, and what comes of a batch can be stored.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_filter::{File, Filtered, Stage};
use ogive_model::{Batch, Kind, MonoNs, Sample, SeriesDef, SeriesMeta, Temporality, Value};

fuzz_target!(|text: &str| {
    let (filters, line) = text.split_once('\u{1}').unwrap_or((text, text));
    let Ok(file) = File::parse(filters) else { return };
    let Ok(stage) = Stage::new(file.filters) else { return };
    for (_, case) in &file.cases {
        let _ = case.run(&stage);
    }
    let meta = SeriesMeta { kind: Kind::Text, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    let series = SeriesDef::new([("__name__", "log"), ("job", "nginx")], meta);
    let sample = |time_ns| Ok(Sample { series: 0, time_ns, start_ns: None, value: Value::Text(line.to_owned()) });
    let batch = Batch { series: vec![series], samples: vec![sample(1), sample(2)], ..Batch::default() };
    if let Filtered::Changed(parts) = stage.apply(batch, MonoNs(0)) {
        for part in parts {
            assert_eq!(part.batch.samples.len(), part.origins.len());
            let _ = part.batch.encode();
        }
    }
});
