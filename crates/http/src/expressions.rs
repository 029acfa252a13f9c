//! `/api/v1/format_query` and `/api/v1/parse_query`: an expression's canonical text and its tree, for editors.
//!
//! Format: the tree as Prometheus 3 answers it. Durations that need a query to have a value (`step()`) are 0 in it, as
//! nobody asks a query here; the arguments of a function are its fewest and one more, and `variadic` shows how many may
//! follow (-1: any number).

use axum::extract::State;
use axum::response::Response;
use ogive_model::{Matcher, Ms, float};
use ogive_query::ParseError;
use ogive_query::ast::{
    Aggregate, AtModifier, Binary, Call, Cardinality, DurationExpr, DurationScope, Edges, Expr, ExprKind, Matching,
    Subquery, TimeShift, UnaryOp, ValueType, VectorSelector,
};
use ogive_query::functions::Function;
use serde_json::{Value, json};

use super::App;
use super::ask::ask;
use super::error::{ApiError, success};
use super::params::Params;

/// 400 levels: a chain of operators is as deep in JSON as it is long, and JSON parsers stop at some hundreds to a
/// thousand.
const TREE_DEPTH_MAX: usize = 400;

pub(super) async fn format(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    read(&app, params, |expr| Some(json!(expr.pretty()))).await
}

pub(super) async fn parse(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    read(&app, params, |expr| shallow(expr).then(|| tree(expr))).await
}

/// Whether no node is deeper than a tree of JSON may be.
fn shallow(expr: &Expr) -> bool {
    let mut waiting = vec![(expr, 1)];
    while let Some((node, depth)) = waiting.pop() {
        if depth > TREE_DEPTH_MAX {
            return false;
        }
        waiting.extend(node.children().into_iter().map(|child| (child, depth + 1)));
    }
    true
}

/// An expression may be a megabyte long: it is read where queries are, within their limits.
async fn read(app: &App, params: Params, show: fn(&Expr) -> Option<Value>) -> Result<Response, ApiError> {
    let shown = ask(app, None, move |_, _| {
        let wrong = |error: ParseError| ApiError::bad_data(format!("invalid parameter \"query\": {error}"));
        let deep = || {
            ApiError::bad_data(format!(
                "invalid parameter \"query\": its tree is deeper than {TREE_DEPTH_MAX} levels, more than is shown; ask for parts of it"
            ))
        };
        show(&ogive_query::parse(params.need("query")?).map_err(wrong)?).ok_or_else(deep)
    });
    Ok(success(&shown.await?))
}

fn tree(expr: &Expr) -> Value {
    match &expr.kind {
        ExprKind::Number(number) => json!({"type": "numberLiteral", "val": float::plain(number.value)}),
        ExprKind::String(text) => json!({"type": "stringLiteral", "val": text}),
        ExprKind::VectorSelector(selector) => {
            let mut out = selected(selector);
            out["type"] = "vectorSelector".into();
            out
        }
        ExprKind::MatrixSelector(matrix) => {
            let mut out = selected(&matrix.selector);
            out["type"] = "matrixSelector".into();
            out["range"] = milliseconds(Some(&matrix.range)).into();
            out
        }
        ExprKind::Subquery(subquery) => of_subquery(subquery),
        ExprKind::Unary(op, inner) => match (&inner.kind, op) {
            // A sign is part of its number.
            (ExprKind::Number(_), UnaryOp::Plus) => tree(inner),
            (ExprKind::Number(number), UnaryOp::Minus) => {
                json!({"type": "numberLiteral", "val": float::plain(-number.value)})
            }
            _ => json!({"type": "unaryExpr", "op": op.text(), "expr": tree(inner)}),
        },
        ExprKind::Binary(binary) => of_binary(binary),
        ExprKind::Aggregate(aggregate) => of_aggregate(aggregate),
        ExprKind::Call(call) => of_call(call),
        ExprKind::Paren(inner) => json!({"type": "parenExpr", "expr": tree(inner)}),
    }
}

fn selected(selector: &VectorSelector) -> Value {
    let matcher = |matcher: &Matcher| {
        let op = matcher.op.as_str();
        json!({"name": matcher.name, "value": matcher.value, "type": op})
    };
    let matchers: Vec<Value> = selector.matchers.iter().map(matcher).collect();
    let (timestamp, start_or_end) = at(&selector.shift);
    json!({
        "name": selector.name.as_deref().unwrap_or(""), "matchers": matchers,
        "offset": milliseconds(selector.shift.offset.as_ref()),
        "timestamp": timestamp, "startOrEnd": start_or_end,
        "anchored": selector.edges == Edges::Anchored, "smoothed": selector.edges == Edges::Smoothed,
    })
}

fn of_subquery(subquery: &Subquery) -> Value {
    let (timestamp, start_or_end) = at(&subquery.shift);
    json!({
        "type": "subquery", "expr": tree(&subquery.expr), "range": milliseconds(Some(&subquery.range)),
        "offset": milliseconds(subquery.shift.offset.as_ref()), "step": milliseconds(subquery.step.as_ref()),
        "timestamp": timestamp, "startOrEnd": start_or_end, "alignEvalTime": true,
    })
}

fn at(shift: &TimeShift) -> (Value, Value) {
    match shift.at {
        None => (Value::Null, Value::Null),
        Some(AtModifier::Time(time)) => (time.0.into(), Value::Null),
        Some(AtModifier::Start) => (Value::Null, "start".into()),
        Some(AtModifier::End) => (Value::Null, "end".into()),
    }
}

/// 0 when there is none, or when its value depends on the query.
fn milliseconds(duration: Option<&DurationExpr>) -> i64 {
    let known = duration.filter(|duration| duration.is_constant());
    let scope = DurationScope { step: Ms::ZERO, range: Ms::ZERO };
    known.and_then(|duration| duration.signed(scope).ok()).map_or(0, |span| span.0)
}

fn of_binary(binary: &Binary) -> Value {
    json!({
        "type": "binaryExpr", "op": binary.op.text(), "lhs": tree(&binary.left), "rhs": tree(&binary.right),
        "matching": binary.matching.as_ref().map(matching), "bool": binary.return_bool,
    })
}

fn matching(matching: &Matching) -> Value {
    let card = match matching.cardinality {
        Cardinality::OneToOne => "one-to-one",
        Cardinality::ManyToOne => "many-to-one",
        Cardinality::OneToMany => "one-to-many",
        Cardinality::ManyToMany => "many-to-many",
    };
    json!({
        "card": card, "labels": matching.labels, "on": matching.on, "include": matching.include,
        "fillValues": {"lhs": matching.fill_left, "rhs": matching.fill_right},
    })
}

fn of_aggregate(aggregate: &Aggregate) -> Value {
    json!({
        "type": "aggregation", "op": aggregate.op.name(), "expr": tree(&aggregate.expr),
        "param": aggregate.parameter.as_ref().map(tree), "grouping": aggregate.grouping,
        "without": aggregate.without,
    })
}

fn of_call(call: &Call) -> Value {
    let function = call.function;
    let arguments: Vec<Value> = call.arguments.iter().map(tree).collect();
    let (types, variadic) = signature(function);
    json!({
        "type": "call", "args": arguments,
        "func": {
            "name": function.name, "argTypes": types, "variadic": variadic,
            "returnType": type_name(function.returns),
        },
    })
}

/// The types of its arguments and how many more there may be than all but the last.
fn signature(function: &Function) -> (Vec<&'static str>, i64) {
    let (least, most) = (function.arguments_min, function.arguments_max);
    let count = if most == Some(least) { least } else { least + 1 };
    let last = function.arguments.len().saturating_sub(1);
    let types = (0..count).map(|at| type_name(function.arguments[at.min(last)]));
    (types.collect(), most.map_or(-1, |most| (most - least) as i64))
}

const fn type_name(kind: ValueType) -> &'static str {
    match kind {
        ValueType::Scalar => "scalar",
        ValueType::String => "string",
        ValueType::Vector => "vector",
        ValueType::Matrix => "matrix",
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Server;
    use axum::http::StatusCode;

    use super::*;

    async fn parsed(server: &Server, query: &str) -> Value {
        let query: String = form_urlencoded::byte_serialize(query.as_bytes()).collect();
        let (status, body) = server.get(&format!("/api/v1/parse_query?query={query}")).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        body["data"].clone()
    }

    fn selector(name: &str) -> Value {
        json!({
            "type": "vectorSelector", "name": name, "offset": 0, "timestamp": null, "startOrEnd": null,
            "matchers": [{"name": "__name__", "value": name, "type": "="}], "anchored": false, "smoothed": false,
        })
    }

    #[tokio::test]
    async fn trees_are_those_of_prometheus() {
        let server = Server::new();
        assert_eq!(parsed(&server, "-Inf").await, json!({"type": "numberLiteral", "val": "-Inf"}));
        assert_eq!(parsed(&server, "-a").await, json!({"type": "unaryExpr", "op": "-", "expr": selector("a")}));
        let text = json!({"type": "stringLiteral", "val": "x"});
        assert_eq!(parsed(&server, "(\"x\")").await, json!({"type": "parenExpr", "expr": text}));
        let sum = json!({
            "type": "aggregation", "op": "sum", "expr": selector("a"), "param": null, "grouping": ["b"],
            "without": true,
        });
        assert_eq!(parsed(&server, "sum without(b)(a)").await, sum);
        let range = parsed(&server, "a{b!~\"c\"}[5m] @ 12.5 offset -1m").await;
        assert_eq!(
            (&range["type"], &range["range"], &range["offset"]),
            (&json!("matrixSelector"), &json!(300_000), &json!(-60_000))
        );
        assert_eq!((&range["timestamp"], &range["startOrEnd"]), (&json!(12_500), &Value::Null));
        assert_eq!(range["matchers"][0], json!({"name": "b", "value": "c", "type": "!~"}));
        let subquery = parsed(&server, "a[1h:5m] @ end()").await;
        assert_eq!(
            (&subquery["step"], &subquery["startOrEnd"], &subquery["expr"]),
            (&json!(300_000), &json!("end"), &selector("a"))
        );
        assert_eq!(parsed(&server, "a[step() * 2]").await["range"], 0);
    }

    #[tokio::test]
    async fn operators_and_calls_tell_how_they_match() {
        let server = Server::new();
        let joined = parsed(&server, "a / on(x) group_left(y) fill_right(2) b").await;
        let matching = json!({
            "card": "many-to-one", "labels": ["x"], "on": true, "include": ["y"],
            "fillValues": {"lhs": null, "rhs": 2.0},
        });
        assert_eq!((&joined["op"], &joined["bool"], &joined["matching"]), (&json!("/"), &json!(false), &matching));
        assert_eq!(parsed(&server, "1 > bool 2").await["matching"], Value::Null);
        let check = async |query: &str, types: Value, variadic: i64| {
            let function = parsed(&server, query).await["func"].clone();
            assert_eq!((&function["argTypes"], &function["variadic"]), (&types, &json!(variadic)), "{query}");
        };
        check("time()", json!([]), 0).await;
        check("rate(a[5m])", json!(["matrix"]), 0).await;
        check("round(a)", json!(["vector", "scalar"]), 1).await;
        check("minute()", json!(["vector"]), 1).await;
        check("label_join(a, \"b\", \"c\", \"d\", \"e\")", json!(["vector", "string", "string", "string"]), -1).await;
    }

    #[tokio::test]
    async fn a_tree_is_shown_to_its_depth_and_no_deeper() {
        let server = Server::new();
        let run = |operands: usize| vec!["x"; operands].join("%2B");
        let ask = async |operands: usize| server.get(&format!("/api/v1/parse_query?query={}", run(operands))).await;
        assert_eq!(ask(TREE_DEPTH_MAX).await.0, StatusCode::OK);
        let (status, body) = ask(TREE_DEPTH_MAX + 1).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(body["error"].as_str().unwrap().contains("deeper than 400 levels"), "{body}");
    }

    #[tokio::test]
    async fn text_is_made_canonical_or_told_to_be_wrong() {
        let server = Server::new();
        let (status, body) = server.get("/api/v1/format_query?query=sum(x)by(a)").await;
        assert_eq!((status, body), (StatusCode::OK, json!({"status": "success", "data": "sum by (a) (x)"})));
        for path in ["/api/v1/format_query?query=sum(", "/api/v1/parse_query?query=1%2B", "/api/v1/parse_query"] {
            let (status, body) = server.get(path).await;
            assert_eq!((status, &body["errorType"]), (StatusCode::BAD_REQUEST, &json!("bad_data")), "{path}: {body}");
        }
    }
}
