//! Templates give what the language and its functions say: cases of our own, in vectors/templates.

use std::sync::Arc;

use ogive_detect::rules::template::{Queries, Site, Structure, Template, Value};
use ogive_model::{Labels, WallMs};

const VARIABLES: [&str; 4] = ["$labels", "$externalLabels", "$externalURL", "$value"];
const URL: &str = "http://ogive:6448";

struct Fixed;

impl Queries for Fixed {
    fn query(&self, text: &str, _: WallMs) -> Result<Vec<(Labels, f64)>, String> {
        let of = |instance: &str, value: f64| {
            (Labels::new([("__name__", "metric"), ("instance", instance)]).unwrap(), value)
        };
        match text {
            "metric" => Ok(vec![of("a", 11.0)]),
            "many" => Ok(vec![of("b", 21.0), of("a", 11.0)]),
            "none" => Ok(Vec::new()),
            "nan" => Ok(vec![of("a", f64::NAN)]),
            other => Err(format!("{other} is no query")),
        }
    }
}

fn expanded(text: &str) -> Result<String, String> {
    let template = Template::parse("case", text, &VARIABLES).map_err(|error| error.to_string())?;
    let labels = Labels::new([("instance", "host.example.org:80"), ("job", "x")]).unwrap();
    let external = Labels::new([("site", "s1")]).unwrap();
    let values = [Value::labels(&labels), Value::labels(&external), Value::text(URL), Value::Float(1_048_576.0)];
    let names = ["Labels", "ExternalLabels", "ExternalURL", "Value"];
    let fields = names.into_iter().zip(values.clone()).collect();
    let data = Value::Structure(Arc::new(Structure { type_name: "struct", fields }));
    let site = Site { time: WallMs(1_700_000_000_000), external_url: URL, queries: &Fixed };
    template.expand(&data, &values, &site).map_err(|error| error.to_string())
}

#[test]
fn every_case_gives_what_it_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/templates/cases.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let mut wrong = Vec::new();
    let mut count = 0;
    for case in text.split("\n== ").skip(1) {
        let (name, rest) = case.split_once('\n').expect("a name and a template");
        let (template, expected) = rest.split_once("\n-- ").expect("a template and what it gives");
        let expected = expected.strip_suffix('\n').unwrap_or(expected);
        count += 1;
        let found = expanded(template);
        let is_right = match (&found, expected.strip_prefix('!')) {
            (Ok(found), None) => found == expected,
            (Err(error), Some(part)) => error.contains(part),
            _ => false,
        };
        if !is_right {
            wrong.push(format!("{name}: {template}\n  gives {found:?}\n  where {expected:?} is said"));
        }
    }
    assert!(count >= 100, "{count} cases");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
