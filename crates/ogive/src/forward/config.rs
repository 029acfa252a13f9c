//! `[[forward]]` tables: which cells go where.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use ogive_model::{Matcher, Tenant};
use ogive_text::duration;
use ogive_text::mistake::Mistake;
use serde::{Deserialize, Deserializer};

/// 1 MiB: thousands of tables; there may be 16.
pub(super) const FILE_BYTES_MAX: usize = 1 << 20;
/// 16: each reads its cells of every second from the store.
const FORWARDS_MAX: usize = 16;
/// 64 selectors of one: names can be joined in one.
const SELECTORS_MAX: usize = 64;
/// 5 s: a sender that flushes every second, and its way here.
const LATENESS: Duration = Duration::from_secs(5);
/// 1 h: whoever needs a longer delay reads the store.
const LATENESS_MAX: Duration = Duration::from_secs(3_600);
/// 10 s for a response.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How cells are written.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Form {
    /// Prometheus remote write 2.0, with native histograms.
    #[default]
    #[serde(rename = "remote-write")]
    RemoteWrite,
    /// OTLP over HTTP, with exponential histograms.
    Otlp,
    /// The same messages over gRPC.
    OtlpGrpc,
    /// Batches, for another Ogive.
    Batch,
}

/// As it is written in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Raw {
    name: String,
    to: String,
    #[serde(default)]
    form: Form,
    r#match: Vec<String>,
    #[serde(default)]
    tenant: Option<String>,
    #[serde(default, deserialize_with = "time")]
    lateness: Option<Duration>,
    #[serde(default, deserialize_with = "time")]
    timeout: Option<Duration>,
    #[serde(default)]
    token_file: Option<PathBuf>,
    #[serde(default)]
    ca_file: Option<PathBuf>,
    #[serde(default)]
    cert_file: Option<PathBuf>,
    #[serde(default)]
    key_file: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    #[serde(default)]
    forward: Vec<toml::Spanned<Raw>>,
}

/// One table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Forward {
    /// Its name in figures, and of its file.
    pub(crate) name: String,
    /// Where requests go, with the path.
    pub(crate) url: String,
    pub(crate) form: Form,
    pub(crate) matchers: Vec<Vec<Matcher>>,
    /// Whose cells.
    pub(crate) tenant: Tenant,
    /// How long after its end a second is read, whole seconds.
    pub(crate) lateness: Duration,
    pub(crate) timeout: Duration,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) cert_file: Option<PathBuf>,
    pub(crate) key_file: Option<PathBuf>,
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    let read = duration::parse(&text);
    read.map(Some).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is no time; give one such as 5s")))
}

/// Whether a file states that nothing is forwarded: `forward = []`.
pub(super) fn is_empty_list(text: &str) -> bool {
    let table: Result<toml::Table, _> = toml::from_str(text);
    table.is_ok_and(|table| table.get("forward").and_then(toml::Value::as_array).is_some_and(Vec::is_empty))
}

/// The tables of a file.
///
/// # Errors
/// The first mistake with its line.
pub(crate) fn parse(text: &str) -> Result<Vec<Forward>, String> {
    let tables: Tables = toml::from_str(text).map_err(|error| Mistake::from_toml(text, &error).to_string())?;
    let mut names = BTreeSet::new();
    let mut out = Vec::new();
    for raw in tables.forward {
        let at = raw.span().start;
        let wrong = |message: String| Mistake::at(text, at, message).to_string();
        let forward = Forward::new(raw.into_inner()).map_err(wrong)?;
        if !names.insert(forward.name.clone()) {
            return Err(wrong(format!("forward {:?} is there twice; both would have one file", forward.name)));
        }
        out.push(forward);
    }
    if out.len() > FORWARDS_MAX {
        return Err(format!("there are {} forwards, above {FORWARDS_MAX}", out.len()));
    }
    Ok(out)
}

impl Forward {
    fn new(raw: Raw) -> Result<Self, String> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let name = raw.name;
        if name.is_empty() || name.len() > 64 || !name.bytes().all(is_plain) || name.starts_with('.') {
            return Err(format!("{name:?} is no name; give letters, digits, -, _ and ., at most 64 and no . in front"));
        }
        if !raw.to.starts_with("http://") && !raw.to.starts_with("https://") {
            return Err(format!("to = {:?} begins with neither http:// nor https://", raw.to));
        }
        if raw.r#match.is_empty() || raw.r#match.len() > SELECTORS_MAX {
            return Err(format!("match has {} selectors; give 1 to {SELECTORS_MAX}", raw.r#match.len()));
        }
        let matchers = raw.r#match.iter().map(|text| selector(text)).collect::<Result<_, _>>()?;
        let tenant = raw.tenant.map_or(Ok(Tenant::default()), |name| Tenant::new(&name));
        let lateness = raw.lateness.unwrap_or(LATENESS);
        if lateness > LATENESS_MAX {
            return Err(format!("lateness is above {} s; read the store", LATENESS_MAX.as_secs()));
        }
        if raw.cert_file.is_some() != raw.key_file.is_some() {
            return Err("cert-file and key-file belong together".into());
        }
        let url = match raw.form {
            Form::RemoteWrite | Form::Otlp | Form::OtlpGrpc => raw.to,
            Form::Batch => format!("{}/v1/batch", raw.to.trim_end_matches('/')),
        };
        Ok(Self {
            name,
            url,
            form: raw.form,
            matchers,
            tenant: tenant.map_err(|error| error.to_string())?,
            lateness,
            timeout: raw.timeout.filter(|timeout| !timeout.is_zero()).unwrap_or(TIMEOUT),
            token_file: raw.token_file,
            ca_file: raw.ca_file,
            cert_file: raw.cert_file,
            key_file: raw.key_file,
        })
    }
}

fn selector(text: &str) -> Result<Vec<Matcher>, String> {
    ogive_query::parse_plain_selector(text).map_err(|error| format!("match: {text:?}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_and_mistakes_have_their_line() {
        let good =
            "[[forward]]\nname = 'central'\nto = 'http://a:9090/api/v1/write'\nmatch = ['up', '{job=~\"a|b\"}']\n";
        let read = parse(good).unwrap();
        assert_eq!((read.len(), read[0].form, read[0].matchers.len()), (1, Form::RemoteWrite, 2));
        assert_eq!((read[0].url.as_str(), read[0].lateness), ("http://a:9090/api/v1/write", LATENESS));
        let batch = format!("{good}form = 'batch'\nlateness = '2s'\ntenant = 't'\n").replace("/api/v1/write", "/");
        assert_eq!(parse(&batch).unwrap()[0].url, "http://a:9090/v1/batch");
        assert_eq!(parse(&format!("{good}form = 'otlp'\n")).unwrap()[0].form, Form::Otlp);
        assert_eq!(parse(&format!("{good}form = 'otlp-grpc'\n")).unwrap()[0].form, Form::OtlpGrpc);
        assert!(is_empty_list("forward = []\n") && !is_empty_list("") && !is_empty_list(good));
        for (change, word) in [
            (("'central'", "'../x'"), "no name"),
            (("http://a", "ftp://a"), "neither http"),
            (("['up', ", "['rate(up[1m])', "), "plain selector"),
            (("['up', ", "['up offset 5m', "), "leave out offset"),
            (("['up', ", "['up @ 0', "), "leave out offset"),
            (("match = ['up', '{job=~\"a|b\"}']", "match = []"), "1 to 64"),
            (("match", "macht"), "line 4"),
            (("name", "lateness = '2h'\nname"), "lateness"),
            (("name", "key-file = 'k'\nname"), "belong together"),
        ] {
            let error = parse(&good.replace(change.0, change.1)).unwrap_err();
            assert!(error.contains(word) && error.contains("line"), "{error}");
        }
        assert!(parse(&good.repeat(2)).is_err_and(|error| error.contains("twice")));
        let many: String = (0..=FORWARDS_MAX).map(|at| good.replace("central", &at.to_string())).collect();
        assert!(parse(&many).is_err_and(|error| error.contains("above 16")));
    }
}
