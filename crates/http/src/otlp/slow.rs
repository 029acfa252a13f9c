//! A slow span as a slow trace, the text that `/v1/traces` reads.
//!
//! Format: docs/formats/trace.md. The path is the operation, the publisher the ids of trace and span; the stages are
//! the times between its events, the last of which ends where the span does. Times are the sender's, in nanoseconds.

use ogive_probe::{Class, ClockNote, SlowStage, SlowTrace};
use ogive_protocol::otlp::SlowSpan;

/// 64 bytes of a name, as the format has it.
const NAME_BYTES_MAX: usize = 64;

/// The name of the last stage.
const END: &str = "end";

/// The line of a slow span.
pub(super) fn text(span: &SlowSpan<'_>) -> String {
    let mut from_ns = span.start_ns;
    let points = span.points.iter().copied().chain([(END, span.end_ns)]);
    let stages = points.map(|(name, time_ns)| {
        let ns = time_ns - from_ns;
        from_ns = time_ns;
        SlowStage { name: beginning(name), class: Class::Logic, ns, ticks: ns }
    });
    let stages: Vec<SlowStage> = stages.collect();
    let total_ns = span.end_ns - span.start_ns;
    let clock = ClockNote {
        mode: "os".into(),
        source: "os".into(),
        frequency_hz: 1_000_000_000,
        err_ns: 0,
        read_ns: 0.0,
        epoch: 0,
    };
    SlowTrace {
        path: beginning(span.name),
        publisher: format!("{}/{}", span.trace_id, span.span_id),
        published_ns: i64::try_from(span.end_ns).unwrap_or(i64::MAX),
        total_ns,
        total_ticks: total_ns,
        limit_ns: span.limit_ns,
        gap_ns: None,
        epoch: 0,
        clamped: 0,
        missing: Vec::new(),
        stages,
        listed: 0,
        listed_lost: 0,
        marks: Vec::new(),
        clock,
    }
    .to_string()
}

fn beginning(name: &str) -> String {
    name[..name.floor_char_boundary(NAME_BYTES_MAX)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_span_reads_as_a_slow_trace() {
        let name = "größe ".repeat(20);
        let points: Vec<(&str, u64)> = (0..10).map(|at| ("an event", 1_010 + at)).collect();
        let (trace_id, span_id) = ("ab".repeat(16), "cd".repeat(8));
        let span = SlowSpan { name: &name, trace_id, span_id, start_ns: 1_000, end_ns: 2_000, limit_ns: 500, points };
        let trace: SlowTrace = text(&span).parse().unwrap();
        assert_eq!((trace.total_ns, trace.published_ns, trace.limit_ns), (1_000, 2_000, 500));
        assert_eq!((trace.stages.len(), trace.stages[0].ns, &*trace.stages[10].name), (11, 10, "end"));
        assert_eq!(trace.publisher, format!("{}/{}", "ab".repeat(16), "cd".repeat(8)));
        assert!(trace.path.len() <= NAME_BYTES_MAX && name.starts_with(&trace.path));
        let alone = SlowSpan { name: "", points: Vec::new(), ..span };
        assert_eq!(text(&alone).parse::<SlowTrace>().unwrap().stages[0].ns, 1_000);
    }
}
