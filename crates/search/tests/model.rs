//! Queries beside a model that is slow and plain: conditions made at random, printed, parsed, and asked about lines
//! made at random.

use std::collections::BTreeSet;

use ogive_model::Labels;
use ogive_model::words::each_word;
use ogive_search::{Line, Query, each_field};
use proptest::prelude::*;

/// A condition as the model knows it.
#[derive(Clone, Debug)]
enum Condition {
    /// A word without stars.
    Word(String),
    /// A part of the line.
    Part(String),
    /// A field has this value.
    Field(String, String),
    /// A field is a number of at least so much.
    AtLeast(String, i32),
    Job(String),
    Not(Box<Condition>),
    All(Vec<Condition>),
    Any(Vec<Condition>),
}

impl Condition {
    fn write(&self) -> String {
        let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        let list = |parts: &[Self], sign: &str| {
            let parts: Vec<String> = parts.iter().map(|part| format!("({})", part.write())).collect();
            parts.join(sign)
        };
        match self {
            Self::Word(word) => quoted(word),
            Self::Part(part) => format!("*{}*", quoted(part)),
            Self::Field(name, value) => format!("{name}={}", quoted(value)),
            Self::AtLeast(name, least) => format!("{name}>={least}"),
            Self::Job(job) => format!("{{job={}}}", quoted(job)),
            Self::Not(part) => format!("NOT ({})", part.write()),
            Self::All(parts) => list(parts, " "),
            Self::Any(parts) => list(parts, " OR "),
        }
    }

    /// The line's words and fields are made by the test, so that nothing of the crate is asked.
    fn holds(&self, record: &Record) -> bool {
        match self {
            Self::Word(word) => record.words().contains(&word.to_lowercase()),
            Self::Part(part) => record.line().to_lowercase().contains(&part.to_lowercase()),
            Self::Field(name, value) => {
                record.fields.iter().any(|(n, v)| n == name && v.to_lowercase() == value.to_lowercase())
            }
            Self::AtLeast(name, least) => {
                record.fields.iter().any(|(n, v)| n == name && v.parse::<i32>().is_ok_and(|number| number >= *least))
            }
            Self::Job(job) => record.job == *job,
            Self::Not(part) => !part.holds(record),
            Self::All(parts) => parts.iter().all(|part| part.holds(record)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(record)),
        }
    }
}

/// A line as it was made.
#[derive(Clone, Debug)]
struct Record {
    is_json: bool,
    job: String,
    fields: Vec<(String, String)>,
}

impl Record {
    fn line(&self) -> String {
        if self.is_json {
            let member =
                |(name, value): &(String, String)| format!("{}:{}", serde_json::json!(name), serde_json::json!(value));
            return format!("{{{}}}", self.fields.iter().map(member).collect::<Vec<_>>().join(","));
        }
        let pairs = self.fields.iter().map(|(name, value)| format!("{name}={}", serde_json::json!(value)));
        pairs.collect::<Vec<_>>().join(" ")
    }

    /// As they stand in the line: letters, digits and underscores.
    fn words(&self) -> BTreeSet<String> {
        let line = self.line().to_lowercase();
        line.split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    }
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["level", "status", "msg", "a.b"]).prop_map(str::to_owned)
}

fn value() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "error",
        "Error",
        "info",
        "500",
        "404",
        "-3",
        "x y",
        "a\tb",
        "C:\\new",
        "say \"hi\"",
        "ä",
        "Ä-1",
    ]);
    prop_oneof![3 => known.prop_map(str::to_owned), 1 => "[a-c\\\\\" ä_\n\u{1f600}]{0,6}"]
}

fn record() -> impl Strategy<Value = Record> {
    let job = prop::sample::select(vec!["api", "web"]).prop_map(str::to_owned);
    (any::<bool>(), job, prop::collection::vec((name(), value()), 0..5)).prop_map(|(is_json, job, fields)| Record {
        is_json,
        job,
        fields,
    })
}

fn condition() -> impl Strategy<Value = Condition> {
    let word =
        prop::sample::select(vec!["error", "ERROR", "info", "500", "x", "a", "b", "hi", "ä", "level", "nb", "tb"]);
    let leaf = prop_oneof![
        word.prop_map(|word| Condition::Word(word.to_owned())),
        "[a-e0\\\\\" ]{1,3}".prop_map(Condition::Part),
        (name(), value()).prop_map(|(name, value)| Condition::Field(name, value)),
        (name(), -5..600_i32).prop_map(|(name, least)| Condition::AtLeast(name, least)),
        prop::sample::select(vec!["api", "web"]).prop_map(|job| Condition::Job(job.to_owned())),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|part| Condition::Not(Box::new(part))),
            prop::collection::vec(inner.clone(), 1..4).prop_map(Condition::All),
            prop::collection::vec(inner, 1..4).prop_map(Condition::Any),
        ]
    })
}

/// What holds of every query and line.
fn check(query: &Query, job: &str, line: &str) {
    let labels = Labels::new([("job", job)]).unwrap();
    let line_of = Line::new(&labels, line);
    let matches = query.matches(&line_of);
    let printed = query.to_string();
    let again = Query::parse(&printed).unwrap_or_else(|error| panic!("{printed}: {error}"));
    assert_eq!(again.to_string(), printed);
    assert_eq!(again.matches(&line_of), matches, "{printed} on {line}");
    if matches {
        let mut words = BTreeSet::new();
        each_word(line, |word| words.extend([word.to_owned()]));
        assert!(query.words().may_match(&|word| words.contains(word)), "{printed} on {line}: {:?}", query.words());
        assert!(labels.match_all(&query.matchers()), "{printed}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_query_finds_what_the_model_finds(condition in condition(), records in prop::collection::vec(record(), 1..6)) {
        let query = Query::parse(&condition.write()).unwrap();
        for record in &records {
            let line = record.line();
            let labels = Labels::new([("job", &*record.job)]).unwrap();
            prop_assert_eq!(query.matches(&Line::new(&labels, &line)), condition.holds(record), "{} on {}", query, line);
            check(&query, &record.job, &line);
        }
    }

    #[test]
    fn fields_are_those_that_were_written(record in record()) {
        let mut found = Vec::new();
        each_field(&record.line(), &mut |name, value| {
            found.push((name.to_owned(), value.to_owned()));
            std::ops::ControlFlow::Continue(())
        });
        prop_assert_eq!(found, record.fields);
    }

    #[test]
    fn any_text_is_a_query_or_an_error_with_a_column(text in "[ab\"/\\\\(){}=!~<>*, \nANDORNT5.ä-]{0,40}", line in "[ab\"/\\\\{}=:,5.äı İ\n-]{0,40}") {
        match Query::parse(&text) {
            Ok(query) => check(&query, "api", &line),
            Err(error) => prop_assert!((1..=text.chars().count() + 1).contains(&error.column), "{}", error),
        }
    }
}

/// The seeded smoke of the fuzz target `search`: changed copies of queries and lines that use everything.
#[test]
fn changed_queries_and_lines_break_nothing() {
    let query = r#"log{job=~"a.*", x!="y"} (error OR "no route"*) NOT /[a-z]+\/\d{2}/ level!=info took>=1.5ms path=/api/* m=~"x|y" m!~/z/"#;
    let line = r#"{"level":"error","msg":"no route\nto \u00e4\ud83d\ude00","took":"2ms","path":"/api/x","m":["x",{"y":null}],"l":[[1]]} a="b c"#;
    let mut rng = fastrand::Rng::with_seed(1);
    let mut random = move |below: usize| rng.usize(..below);
    let signs: Vec<char> = " \"\\/(){}[]=!~<>*,:ä\u{1f600}\0nNOTu".chars().collect();
    let mut change = |text: &str| {
        let mut chars: Vec<char> = text.chars().collect();
        for _ in 0..=random(4) {
            let (at, sign) = (random(chars.len() + 1), signs[random(signs.len())]);
            match random(4) {
                0 => chars.truncate(at),
                1 if at < chars.len() => drop(chars.remove(at)),
                _ => chars.insert(at, sign),
            }
        }
        chars.into_iter().collect::<String>()
    };
    let mut parsed = 0;
    for _ in 0..20_000 {
        let (query, line) = (change(query), change(line));
        if let Ok(query) = Query::parse(&query) {
            parsed += 1;
            check(&query, "api", &line);
        }
    }
    assert!(parsed > 1_000, "{parsed} of the changed queries are queries");
}
