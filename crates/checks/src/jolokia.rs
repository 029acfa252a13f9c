//! Jolokia: attributes of MBeans, which an agent in a Java process answers over HTTP.
//!
//! Format: one POST with a list of `read` requests, a `[[check.read]]` table each, and an answer to each in the same
//! order (Jolokia's reference manual, "Bulk requests" and "Reading attributes"). Every number becomes
//! `METRIC{domain,attribute,path,...}`, with the key properties of its MBean as further labels; `path` leads into a
//! composite value. A key property that is a label already is `mbean_PROPERTY`. `ogive_check_jolokia_errors{read}` is
//! how many requests or single attributes were answered with an error.
//! Limits: [`READS_MAX`] tables of [`ATTRIBUTES_MAX`] attributes, [`PROPERTIES_MAX`] of [`PROPERTY_BYTES_MAX`], those
//! of `readings`.
//! Failure: an error of one request fails the run, and what the others read is stored. An attribute that cannot be read
//! fails it only where the table names it.

use std::collections::BTreeMap;

use hyper::Method;
use ogive_model::{Labels, METRIC_NAME};
use serde_json::{Value, json};

use super::http;
use super::net::Network;
use super::raw::{Raw, ReadTable};
use super::readings::{Metric, Readings, json_of, numbers, refuse_labels};
use super::request::{Http, url};
use super::rows::word;
use super::run::{Failure, Reason, Run, cut};
use super::target::OWN_LABELS;

/// 100 tables: an application server has some 50 kinds of MBeans.
const READS_MAX: usize = 100;
/// 100 attributes of a table.
const ATTRIBUTES_MAX: usize = 100;
/// 40 key properties of an MBean, which has some five.
const PROPERTIES_MAX: usize = 40;
/// 128 bytes of a property's name.
const PROPERTY_BYTES_MAX: usize = 128;
/// 256 bytes of a name or of an error that is shown.
const SHOWN_BYTES_MAX: usize = 256;
/// 8 levels of a value; a composite value in a table has four.
const DEPTH_MAX: u32 = 8;
/// Labels that every series has.
const LABELS: [&str; 4] = ["attribute", "domain", "path", "read"];
/// How a value begins that is an error in place of an attribute.
const ERROR: &str = "ERROR: ";

/// What is read from an agent.
#[derive(Clone, Debug)]
pub(super) struct Jolokia {
    http: Http,
    reads: Vec<Read>,
    /// Labels that a key property may not become.
    taken: Vec<String>,
}

/// One request of the list.
#[derive(Clone, Debug)]
struct Read {
    mbean: String,
    /// All where it is empty.
    attributes: Vec<String>,
    metric: Metric,
}

/// What was answered with an error.
#[derive(Default)]
struct Errors {
    count: u32,
    /// The first that fails the run.
    failure: Option<String>,
}

impl Jolokia {
    /// What a table of this kind says.
    pub(super) fn from_raw(raw: &mut Raw) -> Result<Self, String> {
        refuse_labels(raw, &LABELS)?;
        let tables = raw.read.take().unwrap_or_default();
        if tables.is_empty() {
            return Err("there is no [[check.read]] table".into());
        }
        if tables.len() > READS_MAX {
            return Err(format!("there are {} [[check.read]] tables, above {READS_MAX}", tables.len()));
        }
        let reads = tables.into_iter().map(Read::from_table).collect::<Result<Vec<_>, _>>()?;
        let taken = OWN_LABELS.into_iter().chain(LABELS).map(str::to_owned);
        let taken = taken.chain(raw.labels.keys().cloned()).collect();
        let url = url(raw)?;
        let mut http = Http::statistics(raw, url)?;
        http.method = Method::POST;
        http.headers.push(("content-type".into(), "application/json".into()));
        http.body = Value::Array(reads.iter().map(Read::request).collect()).to_string();
        Ok(Self { http, reads, taken })
    }
}

pub(super) async fn run(network: &Network, run: &mut Run, agent: &Jolokia) -> Result<(), Failure> {
    let text = http::text(network, run, &agent.http).await?;
    report(run, agent, &text)
}

/// Reports what an answer to all requests says.
pub(super) fn report(run: &mut Run, agent: &Jolokia, text: &str) -> Result<(), Failure> {
    let answer = json_of(text)?;
    let Some(answers) = answer.as_array() else {
        return Err(Failure::new(Reason::Status, format!("the agent refuses the requests: {}", refusal(&answer))));
    };
    if answers.len() != agent.reads.len() {
        let sentence = format!("{} answers came to {} requests", answers.len(), agent.reads.len());
        return Err(Failure::new(Reason::Protocol, sentence));
    }
    let (mut errors, mut failure) = (BTreeMap::<&str, f64>::new(), None);
    let mut readings = Readings::new(run);
    for (read, answer) in agent.reads.iter().zip(answers) {
        let mut found = Errors::default();
        let end = read.take(answer, &agent.taken, &mut readings, &mut found);
        *errors.entry(&read.mbean).or_default() += f64::from(found.count);
        if let Err(Failure { reason, sentence }) = end {
            let error = Failure::new(reason, format!("read {:?}: {sentence}", cut(&read.mbean, SHOWN_BYTES_MAX)));
            if reason == Reason::Limit {
                return Err(error);
            }
            failure.get_or_insert(error);
        }
    }
    let end = readings.end();
    for (mbean, count) in errors {
        run.labelled("ogive_check_jolokia_errors", "", &[("read", cut(mbean, SHOWN_BYTES_MAX))], count);
    }
    failure.map_or(end, Err)
}

/// What an answer that is an error says.
fn refusal(answer: &Value) -> String {
    let status = answer.get("status").and_then(Value::as_u64).map_or("none".into(), |status| status.to_string());
    let error = answer.get("error").and_then(Value::as_str).unwrap_or("it gives no reason");
    format!("status {status}: {}", cut(error, SHOWN_BYTES_MAX))
}

impl Read {
    fn from_table(table: ReadTable) -> Result<Self, String> {
        let ReadTable { mbean, attributes, metric, unit, counter } = table;
        let wrong = |sentence: String| format!("read {mbean:?}: {sentence}");
        if ObjectName::parse(&mbean).is_none() {
            return Err(wrong("it is no name of an MBean such as java.lang:type=Memory".into()));
        }
        let attributes = match attributes {
            Some(attributes) if attributes.is_empty() => {
                return Err(wrong("attributes is empty; leave it out, and all are read".into()));
            }
            attributes => attributes.unwrap_or_default(),
        };
        if attributes.len() > ATTRIBUTES_MAX {
            return Err(wrong(format!("attributes has {} names, above {ATTRIBUTES_MAX}", attributes.len())));
        }
        if metric.is_empty() || metric.starts_with("ogive_") {
            let sentence = "give it a metric, and none that begins with ogive_: those are the server's own";
            return Err(wrong(sentence.into()));
        }
        Labels::new([(METRIC_NAME, metric.as_str())]).map_err(|error| wrong(error.to_string()))?;
        Ok(Self { mbean, attributes, metric: Metric { name: metric, unit, is_counter: counter } })
    }

    /// As an agent is asked.
    fn request(&self) -> Value {
        let config = json!({"ignoreErrors": true, "includeStackTrace": false, "maxDepth": DEPTH_MAX});
        let mut out = json!({"type": "read", "mbean": self.mbean, "config": config});
        if !self.attributes.is_empty() {
            out["attribute"] = json!(self.attributes);
        }
        out
    }

    /// Reports the numbers of an answer, and counts its errors.
    fn take(
        &self,
        answer: &Value,
        taken: &[String],
        readings: &mut Readings<'_>,
        errors: &mut Errors,
    ) -> Result<(), Failure> {
        if answer.get("status").and_then(Value::as_u64) != Some(200) {
            errors.count += 1;
            return Err(content(refusal(answer)));
        }
        let before = readings.count();
        let value = &answer["value"];
        if is_pattern(&self.mbean) {
            for (name, value) in value.as_object().into_iter().flatten() {
                self.one(name, value, taken, readings, errors)?;
            }
        } else {
            self.one(&self.mbean, value, taken, readings, errors)?;
        }
        match errors.failure.take() {
            Some(sentence) => Err(content(sentence)),
            None if readings.count() == before => Err(content("there is no number in the answer".into())),
            None => Ok(()),
        }
    }

    /// Reports the numbers of one MBean.
    fn one(
        &self,
        name: &str,
        value: &Value,
        taken: &[String],
        readings: &mut Readings<'_>,
        errors: &mut Errors,
    ) -> Result<(), Failure> {
        let Some(name) = ObjectName::parse(name) else {
            errors.count += 1;
            errors.failure.get_or_insert_with(|| format!("{:?} is no name of an MBean", cut(name, SHOWN_BYTES_MAX)));
            return Ok(());
        };
        let own = name.labels(taken);
        for (attribute, value) in self.attributes(value) {
            if let Some(error) = value.as_str().and_then(|text| text.strip_prefix(ERROR)) {
                errors.count += 1;
                if !self.attributes.is_empty() {
                    let sentence = || format!("attribute {attribute:?}: {}", cut(error, SHOWN_BYTES_MAX));
                    errors.failure.get_or_insert_with(sentence);
                }
                continue;
            }
            numbers(value, &mut Vec::new(), &mut |path: &[&str], number: f64| {
                let path = path.join(".");
                let mut labels = vec![("domain", name.domain), ("attribute", attribute), ("path", path.as_str())];
                labels.extend(own.iter().map(|(name, value)| (name.as_str(), value.as_str())));
                readings.add(&self.metric, &labels, number)
            })?;
        }
        Ok(())
    }

    /// The attributes in the value of one MBean, by their names. The only attribute of a request may stand by itself.
    fn attributes<'a>(&'a self, value: &'a Value) -> Vec<(&'a str, &'a Value)> {
        match (&self.attributes[..], value) {
            ([only], value) if value.get(only.as_str()).is_none() => vec![(only.as_str(), value)],
            (_, Value::Object(members)) => members.iter().map(|(name, value)| (name.as_str(), value)).collect(),
            _ => Vec::new(),
        }
    }
}

fn content(sentence: String) -> Failure {
    Failure::new(Reason::Content, sentence)
}

/// Whether it names several: it has a `*` or a `?` that no backslash takes as it is.
fn is_pattern(mbean: &str) -> bool {
    let mut is_escaped = false;
    mbean.chars().any(|letter| {
        let is_wild = !is_escaped && matches!(letter, '*' | '?');
        is_escaped = !is_escaped && letter == '\\';
        is_wild
    })
}

/// The name of an MBean: `DOMAIN:KEY=VALUE,KEY="VALUE"`.
#[derive(Debug, PartialEq, Eq)]
struct ObjectName<'a> {
    domain: &'a str,
    properties: Vec<(&'a str, String)>,
}

impl<'a> ObjectName<'a> {
    /// Reads a name, or a pattern of names. One with too many properties is none.
    fn parse(text: &'a str) -> Option<Self> {
        let (domain, mut left) = text.split_once(':')?;
        let mut properties = Vec::new();
        loop {
            let rest = match left.strip_prefix('*') {
                // Any other properties.
                Some(rest) => rest,
                None => {
                    let (name, rest) = left.split_once('=')?;
                    let (value, rest) = property(rest)?;
                    if name.is_empty() || name.contains(',') {
                        return None;
                    }
                    if properties.len() == PROPERTIES_MAX || name.len() > PROPERTY_BYTES_MAX {
                        return None;
                    }
                    properties.push((name, value));
                    rest
                }
            };
            match rest.strip_prefix(',') {
                Some(rest) => left = rest,
                None => return rest.is_empty().then_some(Self { domain, properties }),
            }
        }
    }

    /// Its key properties as labels, under names that none of `taken` and no other one has.
    fn labels(&self, taken: &[String]) -> Vec<(String, String)> {
        let mut out: Vec<(String, String)> = Vec::with_capacity(self.properties.len());
        for (name, value) in &self.properties {
            let mut name = word(name);
            while taken.contains(&name) || out.iter().any(|(other, _)| *other == name) {
                name.insert_str(0, "mbean_");
            }
            out.push((name, value.clone()));
        }
        out
    }
}

/// The value of a key property, without its quotes, and what stands behind it.
fn property(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(',').unwrap_or(text.len());
        return Some((text[..end].to_owned(), &text[end..]));
    };
    let mut out = String::new();
    let mut letters = quoted.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((out, &quoted[at + 1..])),
            '\\' => match letters.next()?.1 {
                'n' => out.push('\n'),
                letter => out.push(letter),
            },
            letter => out.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use ogive_model::Value as Sampled;
    use ogive_probe::Clock;
    use proptest::prelude::*;

    use super::*;
    use crate::config::{Config, Probe};

    fn check(keys: &str) -> Result<Jolokia, String> {
        let head = "[[check]]\nname = 'a'\nkind = 'jolokia'\ntarget = 'http://h:8778/jolokia'\n";
        let Probe::Jolokia(check) = Config::parse(&format!("{head}{keys}\n"))?.check.remove(0).ask else {
            unreachable!("it is of that kind")
        };
        Ok(*check)
    }

    /// How a run ends, and each series as it is shown.
    fn found(keys: &str, text: &str) -> (Result<(), Failure>, Vec<String>) {
        let mut run = Run::begin(Clock::manual(1_000, 1_700_000_000_000_000_000));
        let end = report(&mut run, &check(keys).unwrap(), text);
        let batch = run.batch(&Ok(()), &[], std::time::Duration::from_secs(60));
        let shown = batch.samples.iter().flatten().filter_map(|sample| {
            let labels = &batch.series[sample.series as usize].as_ref().unwrap().labels;
            let Sampled::Float(value) = sample.value else { return None };
            let shown: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
            Some(format!("{} {value}", shown.join(" ")))
        });
        (end, shown.filter(|line| !line.contains("ogive_check_up") && !line.contains("runs_total")).collect())
    }

    const READS: &str = "[[check.read]]\nmbean = 'java.lang:type=Memory'\nattributes = ['HeapMemoryUsage']\n\
                         [[check.read]]\nmbean = 'java.lang:type=GarbageCollector,name=*'\nmetric = 'gc'\ncounter = true\n\
                         attributes = ['CollectionCount']\n\
                         [[check.read]]\nmbean = 'gone:type=X'\n";

    #[test]
    fn answers_become_series_and_errors_are_counted() {
        let text = r#"[
            {"status": 200, "request": {}, "value": {"HeapMemoryUsage": {"used": 7, "max": -1}}},
            {"status": 200, "request": {}, "value": {
                "java.lang:name=G1 Young,type=GarbageCollector": {"CollectionCount": 3},
                "java.lang:name=Old,kind=x,type=GarbageCollector": {"CollectionCount": "ERROR: no"}}},
            {"status": 404, "request": {}, "error_type": "x.InstanceNotFoundException", "error": "no such bean"}]"#;
        let (end, lines) = found(READS, text);
        let sentence = "read \"java.lang:type=GarbageCollector,name=*\": attribute \"CollectionCount\": no";
        assert_eq!(end, Err(Failure::new(Reason::Content, sentence)));
        assert_eq!(
            lines,
            [
                "__name__=jmx attribute=HeapMemoryUsage domain=java.lang path=max type=Memory -1",
                "__name__=jmx attribute=HeapMemoryUsage domain=java.lang path=used type=Memory 7",
                "__name__=gc attribute=CollectionCount domain=java.lang name=G1 Young type=GarbageCollector 3",
                "__name__=ogive_check_jolokia_errors read=gone:type=X 1",
                "__name__=ogive_check_jolokia_errors read=java.lang:type=GarbageCollector,name=* 1",
                "__name__=ogive_check_jolokia_errors read=java.lang:type=Memory 0",
            ]
        );
    }

    #[test]
    fn an_attribute_that_nobody_named_may_fail() {
        let keys = "[[check.read]]\nmbean = 'a:type=X,kind=y'\n";
        let (end, lines) = found(keys, r#"[{"status": 200, "value": {"A": true, "B": "ERROR: no", "C": "words"}}]"#);
        assert_eq!(end, Ok(()));
        assert_eq!(
            lines,
            [
                "__name__=jmx attribute=A domain=a mbean_kind=y type=X 1",
                "__name__=ogive_check_jolokia_errors read=a:type=X,kind=y 1",
            ]
        );
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let keys = "[[check.read]]\nmbean = 'a:type=X'\nattributes = ['A']\n";
        for (text, expected) in [
            ("", "protocol: the answer is no JSON"),
            ("[]", "protocol: 0 answers came to 1 requests"),
            (
                r#"{"status": 403, "error": "not from there"}"#,
                "status: the agent refuses the requests: status 403: not from there",
            ),
            (
                r#"[{"status": 200, "value": {"A": "words"}}]"#,
                "content: read \"a:type=X\": there is no number in the answer",
            ),
            (r#"[{"status": 404}]"#, "content: read \"a:type=X\": status 404: it gives no reason"),
            ("[7]", "content: read \"a:type=X\": status none: it gives no reason"),
        ] {
            let failure = found(keys, text).0.unwrap_err().to_string();
            assert!(failure.starts_with(expected), "{failure}");
        }
        assert_eq!(found(keys, r#"[{"status": 200, "value": 7}]"#).0, Ok(()), "a value by itself");
        let twice = format!("{keys}{keys}");
        let failure = found(&twice, r#"[{"status": 200, "value": 7}, {"status": 200, "value": 7}]"#).0.unwrap_err();
        assert!(failure.sentence.starts_with("two numbers are jmx with the labels"), "{failure}");
    }

    #[test]
    fn names_are_read() {
        for (text, domain, expected) in [
            ("java.lang:type=Memory", "java.lang", &[("type", "Memory")][..]),
            ("a:b=\"c,\\\"d\\n\",e=f", "a", &[("b", "c,\"d\n"), ("e", "f")]),
            ("a*:*", "a*", &[]),
            ("a:b=c,*", "a", &[("b", "c")]),
            ("a:b=,c=d", "a", &[("b", ""), ("c", "d")]),
        ] {
            let found = ObjectName::parse(text).unwrap();
            let properties: Vec<(&str, &str)> =
                found.properties.iter().map(|(name, value)| (*name, value.as_str())).collect();
            assert_eq!((found.domain, &properties[..]), (domain, expected), "{text}");
        }
        for text in ["", "a", "a:", "a:b", "a:=c", "a:b=c,", "a:b=\"c", "a:b=\"c\"d", "a:*b"] {
            assert_eq!(ObjectName::parse(text), None, "{text}");
        }
        let many = |count: usize| format!("a:{}", vec!["b=c"; count].join(","));
        assert!(
            ObjectName::parse(&many(PROPERTIES_MAX)).is_some()
                && ObjectName::parse(&many(PROPERTIES_MAX + 1)).is_none()
        );
        assert_eq!(ObjectName::parse(&format!("a:{}=c", "b".repeat(PROPERTY_BYTES_MAX + 1))), None);
        let labels = ObjectName::parse("a:Type=1,type=2,domain=3").unwrap().labels(&["domain".to_owned()]);
        let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(labels, [("type", "1"), ("mbean_type", "2"), ("mbean_domain", "3")]);
        assert!(is_pattern("a:b=*") && is_pattern("a:b=\\\\*") && !is_pattern("a:b=\"\\*\""));
    }

    #[test]
    fn mistakes_are_refused() {
        for (keys, sentence) in [
            ("", "there is no [[check.read]] table"),
            ("[[check.read]]\nmbean = 'a'", "it is no name of an MBean"),
            ("[[check.read]]\nmbean = 'a:b=c'\nattributes = []", "attributes is empty"),
            ("[[check.read]]\nmbean = 'a:b=c'\nmetric = 'ogive_x'", "none that begins with ogive_"),
            ("labels = {path = 'x'}\n[[check.read]]\nmbean = 'a:b=c'", "the label path is one that the kind stores"),
            ("token_file = '/t'\nuser = 'u'\npassword = 'p'\n[[check.read]]\nmbean = 'a:b=c'", "not both"),
            ("user = 'u:v'\npassword = 'p'\n[[check.read]]\nmbean = 'a:b=c'", "a colon ends the name"),
        ] {
            let found = check(keys).unwrap_err();
            assert!(found.contains(sentence), "{found}");
        }
        let many = |count: usize| check(&"[[check.read]]\nmbean = 'a:b=c'\n".repeat(count));
        assert!(many(READS_MAX).is_ok());
        assert!(many(READS_MAX + 1).unwrap_err().contains("above 100"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_name_or_none(text in r#"(a|:|=|,|"|\\|\*|é){0,12}"#) {
            let _ = ObjectName::parse(&text);
        }
    }
}
