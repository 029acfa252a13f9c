//! What requests of OTLP have in common.

use std::sync::Arc;

use ogive_model::Ns;
use ogive_protocol::otlp::{self as protocol, SpanTable};

/// State shared by requests.
pub struct Otlp {
    /// Names and labels.
    pub(super) options: protocol::Options,
    /// The recent spans, and their usual durations.
    pub(super) spans: Arc<SpanTable>,
    /// A span that takes at least this long is slow.
    pub(super) slow_span: Ns,
}

impl Otlp {
    /// Points become series by `options`; a span of `slow_span` or more is slow.
    pub fn new(options: protocol::Options, slow_span: Ns) -> Self {
        Self { options, spans: Arc::default(), slow_span }
    }
}
