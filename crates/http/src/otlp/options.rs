//! Options of `ogive serve` about OTLP.

use std::time::Duration;

use ogive_model::Ns;
use ogive_protocol::otlp::{self, Translation};

/// What becomes of names and resources.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// How OTLP names are translated; the values are those of Prometheus's otlp.translation_strategy.
    #[arg(
        long,
        value_name = "STRATEGY",
        default_value = "UnderscoreEscapingWithSuffixes",
        env = "OGIVE_OTLP_TRANSLATION"
    )]
    otlp_translation: Strategy,
    /// OTLP resource attribute to add as a label to every series. Repeatable, or separated by commas.
    #[arg(long, value_name = "NAME", env = "OGIVE_OTLP_PROMOTE", value_delimiter = ',')]
    otlp_promote: Vec<String>,
    /// Add the name, version and attributes of OTLP scopes (otel_scope_*) as labels to every series.
    #[arg(long, env = "OGIVE_OTLP_SCOPE_LABELS")]
    otlp_scope_labels: bool,
    /// OTLP spans of this duration or longer are kept as slow traces, shorter ones when they are unusual for
    /// their operation (docs/otlp.md).
    #[arg(long, value_name = "MS", default_value_t = 1_000, env = "OGIVE_OTLP_SLOW_SPAN_MS", value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    otlp_slow_span_ms: u64,
}

/// See [`Translation`].
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
#[clap(rename_all = "PascalCase")]
enum Strategy {
    /// http.duration in s becomes http_duration_seconds.
    UnderscoreEscapingWithSuffixes,
    /// http.duration in s becomes http_duration.
    UnderscoreEscapingWithoutSuffixes,
    /// http.duration in s becomes http.duration_seconds.
    #[value(name = "NoUTF8EscapingWithSuffixes")]
    NoUtf8EscapingWithSuffixes,
    /// Names are not changed.
    NoTranslation,
}

impl Options {
    /// The duration from which a span is slow, whatever is usual.
    pub fn slow_span(&self) -> Ns {
        Ns::from(Duration::from_millis(self.otlp_slow_span_ms))
    }

    /// The options in the decoder's form.
    pub fn decoder(&self) -> otlp::Options {
        let (escape, suffixes) = match self.otlp_translation {
            Strategy::UnderscoreEscapingWithSuffixes => (true, true),
            Strategy::UnderscoreEscapingWithoutSuffixes => (true, false),
            Strategy::NoUtf8EscapingWithSuffixes => (false, true),
            Strategy::NoTranslation => (false, false),
        };
        otlp::Options {
            translation: Translation { escape, suffixes },
            promoted: self.otlp_promote.clone(),
            scope_labels: self.otlp_scope_labels,
        }
    }
}
