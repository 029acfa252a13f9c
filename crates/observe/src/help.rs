//! What each own series says.

use ogive_door::ingest_path;
use ogive_door::metadata;
use ogive_door::meters::SCRAPE;
use ogive_storage::{disk_space, quantize};

use crate::clock::series;
use crate::{broker, memory};

/// Slow batches that are not there as texts.
pub(crate) const SLOW_DROPPED: &str = "ogive_ingest_slow_dropped_total";

/// Panics and fatal signals that left a report.
pub(crate) const CRASHES: &str = "ogive_crash_total";

/// What never became a sample.
pub const UNREADABLE: &str = "ogive_ingest_unreadable_total";

/// Requests and connections that may not.
pub const TURNED_AWAY: &str = "ogive_turned_away_total";

/// Own series and what they mean.
pub(crate) const HELP: [(&str, &str); 19] = [
    (CRASHES, "Crash reports of this role, earlier starts included."),
    ("ogive_hiccup_seconds", "How much longer a sleep of 10 ms took, on each CPU: what the machine adds to any wait."),
    ("ogive_http_request_seconds", "From a request's head to the head of its answer."),
    ("ogive_journal_fsync_seconds", "Making a group of batches durable."),
    ("ogive_query_seconds", "Evaluating a query and writing its answer."),
    (SCRAPE, "From a scrape's request to the end of its answer, of each target."),
    ("ogive_flush_seconds", "Writing the head's samples as a block."),
    (ingest_path::METRIC, "A batch from its first byte to its answer, in all and by stage."),
    ("ogive_ingest_slow", "Batches that took long, with every stage."),
    (SLOW_DROPPED, "Batches that took long and for whose stages there was no room."),
    ("ogive_ingest_unmeasured_total", "Batches whose way could not be measured."),
    ("ogive_ingest_samples_total", "Samples received, by protocol and by what became of them."),
    (metadata::SERIES, "What senders say of a metric: its type, its help, its unit."),
    (quantize::SAMPLES, "Samples of a quantizer's rule, by what became of them."),
    (quantize::CELLS, "Cells that a quantizer's rule wrote, wrote again, or could not write for the moment."),
    (quantize::WATERMARK, "Everything before it is in the cells of a quantizer's rule."),
    (TURNED_AWAY, "Requests and connections whose sender may not, by reason."),
    (UNREADABLE, "Requests, lines and points from which no sample could be made, by protocol and reason."),
    (
        "ogive_ingest_folded_samples_total",
        "Accepted samples beyond a limit of their tenant: they are in ogive_overflow.",
    ),
];

/// What a metric means; empty for those that are not Ogive's own.
pub fn help(metric: &str) -> &'static str {
    HELP.iter()
        .chain(&series::HELP)
        .chain(&broker::HELP)
        .chain(&memory::HELP)
        .chain(&disk_space::HELP)
        .chain(&ogive_door::doorkeeper::HELP)
        .chain(&ogive_door::reload::HELP)
        .chain(&ogive_door::forwarded::HELP)
        .chain(&ogive_door::fleet_figures::HELP)
        .find(|(name, _)| *name == metric)
        .map_or("", |(_, help)| help)
}
