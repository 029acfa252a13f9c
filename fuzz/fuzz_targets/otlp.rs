//! Any body: read as protobuf and as JSON it ends without a panic, and what the JSON becomes is a message as good as any.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_model::{SourceId, Tenant};
use ogive_protocol::otlp::{Context, Options, json, read_logs, read_metrics};

fn read(message: &[u8]) {
    let (tenant, options) = (Tenant::default(), Options::default());
    let context =
        Context { tenant: &tenant, source: SourceId(1), sequence: 1, options: &options, known: None, now_ns: 1 };
    for read in [read_metrics(message, &context), read_logs(message, &context)].into_iter().flatten() {
        assert_eq!(read.batch.samples.len(), read.origins.len());
        let _ = read.batch.encode();
    }
}

fuzz_target!(|body: &[u8]| {
    read(body);
    for schema in [&json::METRICS, &json::LOGS, &json::TRACES] {
        if let Ok(message) = json::protobuf(body, schema) {
            read(&message);
        }
    }
});
