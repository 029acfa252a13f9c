//! What the detectors judge.

use ogive_model::Matcher;

/// What is looked at.
#[derive(clap::Args, Clone, Debug)]
#[group(id = "detection")]
pub struct Options {
    /// Number of series that the detectors judge as their seconds close, about 1 KiB each; 0 turns detection off
    /// (docs/detect.md).
    #[arg(long, value_name = "COUNT", default_value_t = 20_000, env = "OGIVE_DETECT_SERIES", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub detect_series: u32,
    /// Selector of the series that the detectors judge.
    #[arg(
        long,
        value_name = "SELECTOR",
        default_value = r#"{__name__=~".+",__name__!~"ogive_.*|ALERTS|ALERTS_FOR_STATE"}"#,
        env = "OGIVE_DETECT"
    )]
    pub detect: String,
    /// Limit to forecast, as SELECTOR=NUMBER: report when the numbers will reach it, judged by the last six
    /// hours. Repeatable.
    #[arg(
        long,
        value_name = "SELECTOR=NUMBER",
        default_values_t = ["ogive_disk_free_bytes=0".to_owned(), "node_filesystem_avail_bytes=0".to_owned()],
        env = "OGIVE_DETECT_LIMIT",
        value_delimiter = ';'
    )]
    pub detect_limit: Vec<String>,
    /// How late samples may arrive and still be judged by the detectors.
    #[arg(long, value_name = "MS", default_value_t = 5_000, env = "OGIVE_DETECT_LATENESS_MS", value_parser = clap::value_parser!(u32).range(0..=600_000))]
    pub detect_lateness_ms: u32,
}

/// 16 limits: each is a watch of the store.
const LIMITS_MAX: usize = 16;

impl Options {
    /// The selectors of the limits, and their numbers.
    ///
    /// # Errors
    /// An invalid one, or too many.
    pub(super) fn limits(&self) -> Result<Vec<(Vec<Matcher>, f64)>, String> {
        if self.detect_limit.len() > LIMITS_MAX {
            return Err(format!("--detect-limit: {} limits, more than {LIMITS_MAX}", self.detect_limit.len()));
        }
        let one = |text: &String| {
            let wrong = |why: String| format!("--detect-limit {text}: {why}");
            let (selected, number) = text
                .rsplit_once('=')
                .ok_or_else(|| wrong("write SELECTOR=NUMBER, such as disk_used_percent=100".into()))?;
            let number = number.trim().parse::<f64>().ok().filter(|number| number.is_finite());
            let number = number.ok_or_else(|| wrong("its end is no number".into()))?;
            Ok((selector(selected).map_err(wrong)?, number))
        };
        self.detect_limit.iter().map(one).collect()
    }
}

/// The matchers of a plain selector.
pub fn selector(text: &str) -> Result<Vec<Matcher>, String> {
    ogive_query::parse_plain_selector(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(texts: &[&str]) -> Result<Vec<f64>, String> {
        let options = Options {
            detect_series: 1,
            detect: "up".into(),
            detect_limit: texts.iter().map(|text| (*text).to_owned()).collect(),
            detect_lateness_ms: 0,
        };
        Ok(options.limits()?.into_iter().map(|(_, number)| number).collect())
    }

    #[test]
    fn a_limit_is_a_selector_and_a_number() {
        assert_eq!(limits(&["disk{dir=\"/a=b\"}=1e2", "free=-0.5"]), Ok(vec![100.0, -0.5]));
        for (text, part) in [
            ("disk", "SELECTOR=NUMBER"),
            ("disk=x", "no number"),
            ("disk=inf", "no number"),
            ("sum(a)=1", "plain selector"),
            ("a offset 1h=1", "leave out offset"),
        ] {
            let error = limits(&[text]).unwrap_err();
            assert!(error.contains(text) && error.contains(part), "{error}");
        }
        assert!(limits(&["a=1"; LIMITS_MAX]).is_ok());
        assert!(limits(&["a=1"; LIMITS_MAX + 1]).is_err());
    }
}
