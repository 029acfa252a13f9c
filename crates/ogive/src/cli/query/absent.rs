//! Why an answer is empty: whether its series are there at all, when they last had a sample, and what was probably
//! meant.
//!
//! Limits: [`SELECTORS_MAX`] selectors of an expression are looked at, with at most four requests each.
//! Failure: a server that cannot answer one of these requests, such as a Prometheus without experimental functions,
//! costs that hint.

use std::collections::BTreeSet;

use ogive_model::{MatchOp, WallMs};
use ogive_query::ast::{Expr, ExprKind, VectorSelector};
use ogive_text::near::{did_you_mean, nearest, suggestion};
use serde_json::Value;

use crate::cli::client::Server;
use crate::cli::times;
use ogive_text::calendar::rfc3339;

/// Four: an expression seldom has more, and each costs requests.
const SELECTORS_MAX: usize = 4;

/// How many values of a label are listed when none is similar.
const NAMED_MAX: usize = 5;

/// How far back a last sample is searched for: data lost today is found at once.
const SPANS: [&str; 2] = ["1d", "400d"];

/// A sentence for each selector of `expr` that explains why nothing was found at `time`.
pub(super) fn reasons(expr: &str, time: Option<&str>, server: &Server) -> Vec<String> {
    let Ok(tree) = ogive_query::parse(expr) else { return Vec::new() };
    let mut found = Vec::new();
    selectors(&tree, &mut found);
    let mut seen = BTreeSet::new();
    found.retain(|selector| seen.insert(text(selector)));
    found.truncate(SELECTORS_MAX);
    found.into_iter().filter_map(|selector| reason(selector, time, server)).collect()
}

fn selectors<'e>(expr: &'e Expr, out: &mut Vec<&'e VectorSelector>) {
    match &expr.kind {
        ExprKind::VectorSelector(selector) => out.push(selector),
        ExprKind::MatrixSelector(matrix) => out.push(&matrix.selector),
        _ => expr.children().into_iter().for_each(|child| selectors(child, out)),
    }
}

/// The selector as PromQL, without its modifiers.
fn text(selector: &VectorSelector) -> String {
    let is_name = |label: &str| selector.name.is_some() && label == "__name__";
    let matchers: Vec<String> = (selector.matchers.iter())
        .filter(|matcher| !is_name(&matcher.name))
        .map(|matcher| {
            let op = matcher.op.as_str();
            format!("{}{op}{:?}", matcher.name, matcher.value)
        })
        .collect();
    match &selector.name {
        Some(name) if matchers.is_empty() => name.clone(),
        Some(name) => format!("{name}{{{}}}", matchers.join(",")),
        None => format!("{{{}}}", matchers.join(",")),
    }
}

fn reason(selector: &VectorSelector, time: Option<&str>, server: &Server) -> Option<String> {
    let shown = text(selector);
    for span in SPANS {
        let query = format!("max(ts_of_last_over_time({shown}[{span}]))");
        let mut params = vec![("query", &*query)];
        params.extend(time.map(|time| ("time", time)));
        let Ok(body) = server.get("/api/v1/query", &params) else { break };
        let answer: Value = serde_json::from_str(&body).ok()?;
        let last = answer["data"]["result"][0]["value"][1].as_str().and_then(|text| text.parse::<f64>().ok());
        if let Some(seconds) = last {
            #[allow(clippy::cast_possible_truncation, reason = "an instant of the server")]
            let ms = (seconds * 1e3) as i64;
            return Some(format!("{shown} had its last sample {}, at {}", times::ago(WallMs(ms)), rfc3339(ms)));
        }
    }
    let name = selector.name.as_deref()?;
    let names = values("__name__", None, server)?;
    if !names.iter().any(|known| known == name) {
        return Some(format!("no series is called {name:?}{}", suggestion(names.iter().map(String::as_str), name)));
    }
    selector.matchers.iter().filter(|matcher| matcher.op == MatchOp::Equal && matcher.name != "__name__").find_map(
        |matcher| {
            let known = values(&matcher.name, Some(name), server)?;
            (!known.contains(&matcher.value)).then(|| unknown_value(name, &matcher.name, &matcher.value, &known))
        },
    )
}

fn unknown_value(name: &str, label: &str, value: &str, known: &[String]) -> String {
    let near = nearest(known.iter().map(String::as_str), value);
    let others: Vec<String> = known.iter().take(NAMED_MAX).map(|value| format!("{value:?}")).collect();
    let more = if known.len() > NAMED_MAX { format!(" and {} more", known.len() - NAMED_MAX) } else { String::new() };
    let hint = match (near, others.is_empty()) {
        (Some(_), _) => did_you_mean(near),
        (None, true) => format!("; it has no label {label}"),
        (None, false) => format!("; there are {}{more}", others.join(", ")),
    };
    format!("{name} has no {label} {value:?}{hint}")
}

/// The values of a label, of all series or of those with a name.
fn values(label: &str, name: Option<&str>, server: &Server) -> Option<Vec<String>> {
    let path = format!("/api/v1/label/{label}/values");
    let params: Vec<(&str, &str)> = name.into_iter().map(|name| ("match[]", name)).collect();
    let answer: Value = serde_json::from_str(&server.get(&path, &params).ok()?).ok()?;
    let list = answer["data"].as_array()?.iter().filter_map(Value::as_str);
    Some(list.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_found_wherever_they_stand_and_lose_their_modifiers() {
        let tree = ogive_query::parse(r#"sum(rate(a{x="1",y=~"b|c"}[5m] offset 1h)) / on (z) {q="7"} + a"#).unwrap();
        let mut found = Vec::new();
        selectors(&tree, &mut found);
        let texts: Vec<String> = found.into_iter().map(text).collect();
        assert_eq!(texts, [r#"a{x="1",y=~"b|c"}"#, r#"{q="7"}"#, "a"]);
    }

    #[test]
    fn an_unknown_value_names_what_is_near_or_what_there_is() {
        let known = |list: &[&str]| list.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
        let check =
            |list: &[&str], expected: &str| assert_eq!(unknown_value("up", "job", "apo", &known(list)), expected);
        check(&["api", "db"], "up has no job \"apo\"; did you mean \"api\"?");
        check(&["frontend"], "up has no job \"apo\"; there are \"frontend\"");
        check(&[], "up has no job \"apo\"; it has no label job");
        check(
            &["11", "22", "33", "44", "55", "66"],
            "up has no job \"apo\"; there are \"11\", \"22\", \"33\", \"44\", \"55\" and 1 more",
        );
    }
}
