//! Options of `ogive serve` about OTLP.

use ogive_protocol::otlp::{self, Translation};

/// What becomes of names and resources.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    /// How names of OTLP become names here; the words are those of Prometheus' otlp.translation_strategy.
    #[arg(
        long,
        value_name = "STRATEGY",
        default_value = "UnderscoreEscapingWithSuffixes",
        env = "OGIVE_OTLP_TRANSLATION"
    )]
    otlp_translation: Strategy,
    /// Attribute of OTLP resources that becomes a label of every series; named several times, or with commas between, each.
    #[arg(long, value_name = "NAME", env = "OGIVE_OTLP_PROMOTE", value_delimiter = ',')]
    otlp_promote: Vec<String>,
    /// Make name, version and attributes of OTLP's scopes labels (otel_scope_*) of every series.
    #[arg(long, env = "OGIVE_OTLP_SCOPE_LABELS")]
    otlp_scope_labels: bool,
}

/// See [`Translation`].
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
#[clap(rename_all = "PascalCase")]
enum Strategy {
    /// http.duration in s is http_duration_seconds.
    UnderscoreEscapingWithSuffixes,
    /// http.duration in s is http_duration.
    UnderscoreEscapingWithoutSuffixes,
    /// http.duration in s is http.duration_seconds.
    #[value(name = "NoUTF8EscapingWithSuffixes")]
    NoUtf8EscapingWithSuffixes,
    /// Names stay.
    NoTranslation,
}

impl Options {
    /// As the decoder takes them.
    pub(crate) fn decoder(&self) -> otlp::Options {
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
