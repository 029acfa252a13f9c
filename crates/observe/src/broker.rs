//! Own series of a broker.

/// Own series of a broker and what they mean.
pub const HELP: [(&str, &str); 11] = [
    ("ogive_broker_lag_seconds", "Age of the oldest batch that a destination does not have."),
    ("ogive_broker_lag_bytes", "Bytes in the spool that a destination does not have."),
    ("ogive_broker_lag_batches", "Batches that a destination does not have."),
    ("ogive_broker_acknowledged_batches_total", "Batches that a destination has acknowledged."),
    ("ogive_broker_acknowledged_bytes_total", "Bytes of their frames."),
    ("ogive_broker_sent_bytes_total", "Bytes of bodies sent to a destination, also in vain."),
    ("ogive_broker_failures_total", "Sends that had no answer, or none that helps."),
    ("ogive_broker_busy_total", "Sends that an endpoint answered with 429."),
    ("ogive_broker_refused_batches_total", "Batches that a destination refused for good."),
    ("ogive_broker_refused_samples_total", "Samples that a destination refused."),
    ("ogive_broker_gap_samples_total", "Samples that were given up; each is in a gap."),
];
