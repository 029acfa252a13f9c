//! Any text as a query of tags, a pattern and a tag query of Graphite, a query of CAQL and, as bytes, a request of /fetch.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_irondb::caql::{self, PipelineInput, Source};
use ogive_irondb::fetch::{COUNT_MAX, Request};
use ogive_irondb::frame::{Column, Grid, Output};
use ogive_irondb::graphite::{names, tags};
use ogive_irondb::{name, tag_query};

/// Two columns, whatever is looked for.
struct Two;

impl Source for Two {
    fn find(&self, wanted: &PipelineInput<'_>) -> Result<Vec<Output>, String> {
        let column = |at: usize| Column::Numbers((0..wanted.grid.count).map(|slot| Some((slot * at) as f64)).collect());
        Ok((1..3).map(|at| Output { label: at.to_string(), tags: Vec::new(), column: column(at) }).collect())
    }
}

fuzz_target!(|bytes: &[u8]| {
    for request in [Request::from_json(bytes), Request::from_flatbuffer(bytes)].into_iter().flatten() {
        assert!((1..=COUNT_MAX).contains(&request.grid.count));
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = (tag_query::parse(text), name::parse(text));
    let _ = (
        names::Search::parse("a.", text).and_then(|search| search.query()),
        tags::parse(text),
        names::Name::parse(text),
    );
    if let Ok(pipeline) = caql::parse(text) {
        let grid = Grid { start_ms: 0, period_ms: 60_000, count: 3 };
        let _ = caql::evaluate(&pipeline, grid, &Two);
    }
});
