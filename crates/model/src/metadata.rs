//! What is known of a metric beside its series.

/// The metric types of Prometheus and OpenMetrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MetricKind {
    /// Not stated.
    Unknown,
    /// Only grows.
    Counter,
    /// A state.
    Gauge,
    /// A distribution of everything since a start.
    Histogram,
    /// A distribution of a state.
    GaugeHistogram,
    /// Quantiles that the sender computed.
    Summary,
    /// Only labels; the value is 1.
    Info,
    /// Which of several states applies.
    StateSet,
}

impl MetricKind {
    /// Every type.
    pub const ALL: [Self; 8] = [
        Self::Unknown,
        Self::Counter,
        Self::Gauge,
        Self::Histogram,
        Self::GaugeHistogram,
        Self::Summary,
        Self::Info,
        Self::StateSet,
    ];

    /// Name in responses and in `# TYPE` lines.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::GaugeHistogram => "gaugehistogram",
            Self::Summary => "summary",
            Self::Info => "info",
            Self::StateSet => "stateset",
        }
    }

    /// The type with that name; `untyped` is an old word for unknown.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        if name == "untyped" { Some(Self::Unknown) } else { Self::ALL.into_iter().find(|kind| kind.as_str() == name) }
    }

    /// The metric that a float series called `name` belongs to: the parts of a classic histogram or summary are series
    /// of their own names.
    #[must_use]
    pub fn family(self, name: &str) -> &str {
        let parts: &[&str] = match self {
            Self::Histogram | Self::GaugeHistogram => &["_bucket", "_sum", "_count", "_gsum", "_gcount"],
            Self::Summary => &["_sum", "_count"],
            _ => &[],
        };
        let family = parts.iter().find_map(|part| name.strip_suffix(part));
        family.filter(|family| !family.is_empty()).unwrap_or(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for kind in MetricKind::ALL {
            assert_eq!(MetricKind::parse(kind.as_str()), Some(kind));
        }
        assert_eq!((MetricKind::parse("untyped"), MetricKind::parse("Counter")), (Some(MetricKind::Unknown), None));
    }

    #[test]
    fn parts_belong_to_their_metric() {
        for (kind, name, family) in [
            (MetricKind::Histogram, "rpc_seconds_bucket", "rpc_seconds"),
            (MetricKind::Summary, "rpc_seconds_sum", "rpc_seconds"),
            (MetricKind::Summary, "rpc_seconds_bucket", "rpc_seconds_bucket"),
            (MetricKind::Counter, "jobs_count", "jobs_count"),
            (MetricKind::Histogram, "_sum", "_sum"),
        ] {
            assert_eq!(kind.family(name), family, "{kind:?}");
        }
    }
}
