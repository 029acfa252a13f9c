//! The configuration of a group of brokers: what it may say, and whether it is right.
//!
//! Format: `labels`, `[limits]`, `[spread]`, `[[check]]` and `[[filter]]` tables, most as in a broker.toml, and beside
//! it `scrape_configs` in Prometheus' format.
//! Invariants: server, command and broker validate it with the same function.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use ogive_checks as checks;
use ogive_filter::{Filter, Stage};
use ogive_fleet::{Contents, Spread};
use ogive_scrape::FedJobs;
use ogive_text::mistake::{Mistake, Step};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::broker::config::{age, size};
use crate::cli::files::FILES;

/// 16 labels of all checks and scrapes.
const LABELS_MAX: usize = 16;

/// Limits of the spool; those of the broker's own file win where they are lower.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct SpoolLimits {
    /// Bytes on the disk.
    #[serde(default, alias = "spool_bytes_max", deserialize_with = "some_size")]
    pub(crate) spool_bytes_max: Option<u64>,
    /// How long a batch waits for a destination.
    #[serde(default, alias = "spool_age_max", deserialize_with = "age")]
    pub(crate) spool_age_max: Option<Duration>,
}

fn some_size<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    size(from).map(Some)
}

/// How checks are divided among the brokers of the group.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct SpreadTable {
    /// Of checks that do not say it themselves.
    #[serde(default)]
    brokers: checks::Brokers,
    /// How long a broker runs such checks without word from the server.
    #[serde(default, deserialize_with = "age")]
    lease: Option<Duration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    limits: SpoolLimits,
    #[serde(default)]
    spread: SpreadTable,
    #[serde(default)]
    check: Vec<checks::Check>,
    #[serde(default)]
    filter: Option<IgnoredAny>,
    /// For `ogive filter test`.
    #[serde(default)]
    case: Option<IgnoredAny>,
}

/// What a group's configuration says.
#[derive(Debug)]
pub(crate) struct Document {
    /// Of all checks and scrapes.
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) limits: SpoolLimits,
    pub(crate) checks: checks::Config,
    /// Those of them that only some brokers run.
    pub(crate) spread: Spread,
    pub(crate) filters: Vec<Filter>,
}

impl Document {
    /// Reads a configuration. `toml` and `scrape` are the names of its files in messages.
    pub(crate) fn parse(contents: &Contents, toml: &str, scrape: &str) -> Result<Self, Vec<String>> {
        contents.check_size().map_err(|why| vec![why])?;
        let (document, mut mistakes) = match Self::parse_toml(&contents.toml) {
            Ok(document) => (Some(document), Vec::new()),
            Err(mistakes) => (None, mistakes.iter().map(|mistake| format!("{toml}, {mistake}")).collect()),
        };
        if let Some(text) = &contents.scrape
            && let Err(mistake) = FedJobs::parse(Path::new(scrape), text, &[], FILES)
        {
            mistakes.push(mistake);
        }
        document.filter(|_| mistakes.is_empty()).ok_or(mistakes)
    }

    fn parse_toml(text: &str) -> Result<Self, Vec<String>> {
        let tables: Tables =
            toml::from_str(text).map_err(|error| vec![Mistake::from_toml(text, &error).to_string()])?;
        let Tables { labels, limits, spread, check, filter, case } = tables;
        let wrong = |key: &str, message: String| vec![Mistake::at_path(text, &[Step::Key(key)], message).to_string()];
        if labels.len() > LABELS_MAX {
            return Err(wrong("labels", format!("there are {} labels; give at most {LABELS_MAX}", labels.len())));
        }
        if case.is_some() && filter.is_none() {
            return Err(wrong("case", "there are cases and no [[filter]] that they could test".into()));
        }
        let checks = checks::Config::new(check).map_err(|clash| vec![clash.mistake(text).to_string()])?;
        let checks = checks.with_brokers(spread.brokers);
        let lease = spread.lease.unwrap_or(Spread::default().lease);
        let divided = checks.spread().map(|(name, count)| (name.to_owned(), count)).collect();
        let spread = Spread { checks: divided, lease };
        spread.check().map_err(|why| wrong("spread", why))?;
        let labels: Vec<(String, String)> = labels.into_iter().collect();
        checks.with_labels(&labels).map_err(|why| wrong("labels", why))?;
        let filters = ogive_filter::File::parse_among(text).map_err(|mistake| vec![mistake])?;
        Stage::new(ogive_filter::File::parse_among(text).unwrap_or_default()).map_err(|why| wrong("filter", why))?;
        Ok(Self { labels, limits, checks, spread, filters })
    }
}

/// Whether brokers would take a configuration, and what of it is divided among them.
pub(crate) fn validate(contents: &Contents) -> Result<Spread, Vec<String>> {
    Document::parse(contents, "the TOML", "the scrape configuration").map(|document| document.spread)
}

/// Reads the TOML of a group, for who only wants to know whether it is good; what is wrong with it, a sentence each.
///
/// # Errors
/// It cannot be read as the configuration of a group.
pub fn group_file(text: &str) -> Result<(), Vec<String>> {
    validate(&Contents { toml: text.to_owned(), scrape: Some(text.to_owned()) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutations::mutations;

    #[test]
    fn a_changed_configuration_is_read_or_refused() {
        for text in [WHOLE, SCRAPE] {
            mutations(text.as_bytes(), 300, 5, b" -:[]{},.'\"#&*!|>=\n\tax0e\xff", |bytes| {
                if let Ok(text) = std::str::from_utf8(bytes) {
                    let _ = group_file(text);
                }
            });
        }
    }

    fn contents(toml: &str, scrape: Option<&str>) -> Contents {
        Contents { toml: toml.into(), scrape: scrape.map(str::to_owned) }
    }

    const WHOLE: &str = r#"
labels = {site = "fra"}

[limits]
spool-bytes-max = "20GiB"
spool-age-max = "7d"

[spread]
lease = "20s"

[[check]]
name = "shop"
kind = "http"
target = "https://shop.example.com/"

[[filter]]
name = "debug"
where = "level=debug"
drop = true
"#;
    const SCRAPE: &str = "scrape_configs:\n- job_name: node\n  static_configs:\n  - targets: [\"localhost:9100\"]\n";

    #[test]
    fn a_whole_configuration_is_read() {
        let document = Document::parse(&contents(WHOLE, Some(SCRAPE)), "a", "b").unwrap();
        assert_eq!(document.labels, [("site".to_owned(), "fra".to_owned())]);
        assert_eq!(document.limits.spool_bytes_max, Some(20 << 30));
        assert_eq!(document.limits.spool_age_max, Some(Duration::from_secs(7 * 86_400)));
        assert_eq!((document.checks.len(), document.filters.len()), (1, 1));
        assert!(document.spread.checks.is_empty() && document.spread.lease == Duration::from_secs(20));
        assert!(Document::parse(&contents("", None), "a", "b").is_ok());
    }

    #[test]
    fn checks_are_for_all_brokers_or_for_some() {
        let spread = |head: &str, key: &str| {
            let table = |name: &str, key: &str| {
                format!("[[check]]\nname = {name:?}\nkind = \"tcp\"\ntarget = \"h:1\"\n{key}\n")
            };
            let text = format!("{head}\n{}{}", table("a", key), table("b", ""));
            let spread = validate(&contents(&text, None)).unwrap();
            spread.checks.into_iter().map(|(name, count)| format!("{name}:{count}")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(spread("", ""), "");
        assert_eq!(spread("", "brokers = 1"), "a:1");
        assert_eq!(spread("[spread]\nbrokers = 2", ""), "a:2 b:2");
        assert_eq!(spread("[spread]\nbrokers = \"one\"", "brokers = \"all\""), "b:1");
    }

    #[test]
    fn mistakes_have_their_place_and_what_was_meant() {
        let check = |from: &str, to: &str, expected: &[&str]| {
            let text = WHOLE.replacen(from, to, 1);
            assert_ne!(text, WHOLE);
            let said = Document::parse(&contents(&text, None), "edge.toml", "").unwrap_err().join("\n");
            for word in expected {
                assert!(said.contains(word), "{word:?} is not in {said:?}");
            }
        };
        check("[[check]]", "[[chekc]]", &["edge.toml, line 11", "did you mean \"check\""]);
        check("kind = \"http\"", "kind = \"htp\"", &["line 11", "did you mean \"http\""]);
        check("kind = \"http\"", "kind = \"http\"\nbrokers = 0", &["1 to 16"]);
        check("lease = \"20s\"", "lease = \"2s\"", &["line 8", "lease is 2 s"]);
        check("lease =", "leese =", &["line 9", "did you mean"]);
        check("spool-bytes-max", "spool-byte-max", &["line 5", "did you mean"]);
        check("20GiB", "much", &["line 5", "no number of bytes"]);
        check("site =", "check =", &["line 2", "check"]);
        check("level=debug", "level=(", &["line 16"]);
        check("[[filter]]\nname = \"debug\"", "[[case]]\nline = \"x\"", &["line 16", "no [[filter]]"]);
        let said = Document::parse(&contents(WHOLE, Some(&SCRAPE.replace("job_name", "job_nam"))), "", "edge.yml");
        let said = said.unwrap_err().join("\n");
        assert!(said.contains("edge.yml:2:") && said.contains("job_name"), "{said}");
        let twice = format!("{WHOLE}[[check]]\nname = \"shop\"\nkind = \"tcp\"\ntarget = \"h:1\"\n");
        assert!(validate(&contents(&twice, None)).unwrap_err()[0].contains("shop\" is there twice"));
    }
}
