//! What the detectors judge.

use ogive_model::Matcher;
use ogive_query::ast::ExprKind;

/// What is looked at.
#[derive(clap::Args, Clone, Debug)]
#[group(id = "detection")]
pub struct Options {
    /// Series that the detectors judge as their seconds close, about 1 KiB each; 0 switches them off (docs/detect.md).
    #[arg(long, value_name = "COUNT", default_value_t = 20_000, env = "OGIVE_DETECT_SERIES", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub detect_series: u32,
    /// Which series the detectors judge.
    #[arg(
        long,
        value_name = "SELECTOR",
        default_value = r#"{__name__=~".+",__name__!~"ogive_.*"}"#,
        env = "OGIVE_DETECT"
    )]
    pub detect: String,
    /// How late samples may be for the detectors.
    #[arg(long, value_name = "MS", default_value_t = 5_000, env = "OGIVE_DETECT_LATENESS_MS", value_parser = clap::value_parser!(u32).range(0..=600_000))]
    pub detect_lateness_ms: u32,
}

/// The matchers of a plain selector.
pub fn selector(text: &str) -> Result<Vec<Matcher>, String> {
    match ogive_query::parse(text).map_err(|error| error.to_string())?.kind {
        ExprKind::VectorSelector(selector) => Ok(selector.matchers),
        _ => Err(format!("{text:?} is not a plain selector such as up{{job=\"a\"}}")),
    }
}
