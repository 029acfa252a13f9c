//! Labels, series, samples and batches: what every part of Ogive speaks of, and the traits between the parts.
#![deny(unsafe_code)]

mod error;
pub mod exemplar;
mod float_run;
mod labels;
mod matcher;
mod memory;
mod metadata;
mod reader;
mod sample;
mod select;
mod series;
mod series_columns;
mod series_data;
mod stale;
mod stamps;
mod tenant;
mod time;

pub mod batch;
pub mod float;
pub mod pattern;
pub mod sequence;
pub mod text_run;
pub mod verdict;
pub mod wire;
pub mod words;

pub use batch::{Batch, BatchId, SourceId};
pub use error::Error;
pub use exemplar::Exemplar;
pub use float_run::{FloatHead, FloatRun, RunTimes, RunValues};
pub use labels::{Labels, METRIC_NAME};
pub use matcher::{MatchOp, Matcher};
pub use memory::{Charge, Memory, MemoryExceeded, MemoryScope};
pub use metadata::MetricKind;
pub use reader::Reader;
pub use sample::{Sample, Value};
pub use select::{
    CounterReading, Opening, Partial, ReadSeries, Resolution, RollupUse, Select, SelectError, Selection, SeriesSet,
    TimeRange, restarted,
};
pub use series::{Kind, SeriesDef, SeriesId, SeriesMeta, Temporality};
pub use series_columns::{BinColumns, BinStretch, SeriesColumns, has_one_layout};
pub use series_data::{Aggregate, FloatColumn, HistogramColumn, HistogramValue, SeriesData, TextColumn};
pub use stale::STALE;
pub use stamps::{Stamps, Step};
pub use tenant::Tenant;
pub use time::{MonoNs, Ms, Ns, WallMs, WallNs};
pub use verdict::{Reason, Verdict};
pub use words::Words;
