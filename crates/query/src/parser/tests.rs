//! Trees, places and error texts.

use super::*;
use crate::ast::{AggregateOp, At, BinaryOp, Cardinality, Edges};

/// The tree with a parenthesis around every binary and unary operation.
fn grouped(expr: &Expr) -> String {
    match &expr.kind {
        ExprKind::Binary(binary) => {
            format!("({} {} {})", grouped(&binary.left), binary.op.text(), grouped(&binary.right))
        }
        ExprKind::Unary(UnaryOp::Minus, inner) => format!("(-{})", grouped(inner)),
        ExprKind::Unary(UnaryOp::Plus, inner) => format!("(+{})", grouped(inner)),
        ExprKind::Paren(inner) => grouped(inner),
        _ => expr.to_string(),
    }
}

#[test]
fn operators_bind_in_their_order() {
    let check = |text: &str, expected: &str| assert_eq!(grouped(&parse(text).unwrap()), expected, "{text}");
    check("a or b and c == d + e * f ^ g", "(a or (b and (c == (d + (e * (f ^ g))))))");
    check("a ^ b ^ c", "(a ^ (b ^ c))");
    check("a - b - c", "((a - b) - c)");
    check("-a ^ b", "(-(a ^ b))");
    check("-a * b", "((-a) * b)");
    check("a ^ -b * c", "((a ^ (-b)) * c)");
    check("a * b atan2 c % d", "(((a * b) atan2 c) % d)");
    check("a unless b and c", "((a unless b) and c)");
    check("a </ 1 + 2", "(a </ (1 + 2))");
    check("a offset 100 + 2", "(a offset 1m40s + 2)");
    check("a offset -2 ^ 2", "(a offset -2s ^ 2)");
    check("a offset -step()*2", "(a offset -step() * 2)");
    check("a offset --2 ^ 2", "(a offset --2s ^ 2)");
    check("a OFFSET (2 * 2)", "a offset (2s * 2s)");
}

#[test]
fn keywords_may_be_names() {
    for name in ["sum", "by", "offset", "and", "fill", "start", "step", "anchored"] {
        let tree = parse(&format!("{name} + {name}{{{name}=\"1\"}}"));
        let tree = tree.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(tree.to_string(), format!("{name} + {name}{{{name}=\"1\"}}"));
    }
    let tree = parse("sum by (sum, on, and, a:b) (by)").unwrap();
    let ExprKind::Aggregate(aggregate) = &tree.kind else { panic!("{tree}") };
    assert_eq!((aggregate.op, aggregate.grouping.join(" ")), (AggregateOp::Sum, "sum on and a:b".to_owned()));
}

#[test]
fn matching_has_its_parts() {
    let tree = parse("a == bool on(x, y) group_right(z) fill_left(0x10) b").unwrap();
    let ExprKind::Binary(binary) = tree.kind else { panic!("not binary") };
    let matching = binary.matching.unwrap();
    assert_eq!((binary.op, binary.return_bool), (BinaryOp::Equal, true));
    assert_eq!((matching.cardinality, matching.on, matching.labels.len()), (Cardinality::OneToMany, true, 2));
    assert_eq!((matching.include, matching.fill_left, matching.fill_right), (vec!["z".to_owned()], Some(16.0), None));
    let ExprKind::Binary(binary) = parse("a and b").unwrap().kind else { panic!("not binary") };
    assert_eq!(binary.matching.unwrap().cardinality, Cardinality::ManyToMany);
    let ExprKind::Binary(binary) = parse("a + 1").unwrap().kind else { panic!("not binary") };
    assert_eq!(binary.matching, None);
}

#[test]
fn selectors_have_their_modifiers() {
    let tree = parse("x{a!~\"b\"}[5m] anchored @ 1.0005 offset -1m").unwrap();
    let ExprKind::MatrixSelector(matrix) = tree.kind else { panic!("not a matrix") };
    assert_eq!((matrix.selector.shift.at, matrix.selector.edges), (Some(At::Time(1001)), Edges::Anchored));
    assert_eq!(matrix.selector.shift.offset.unwrap().to_string(), "-1m");
    assert_eq!(matrix.selector_span, Span::new(0, 9));
}

#[test]
fn spans_cover_the_text() {
    let text = "sum( rate(x{a=\"b\"}[5m] offset 1m)  ) by (a) + -2";
    let tree = parse(text).unwrap();
    let at = |expr: &Expr| &text[expr.span.start as usize..expr.span.end as usize];
    assert_eq!(at(&tree), text);
    assert_eq!(at(tree.children()[0]), "sum( rate(x{a=\"b\"}[5m] offset 1m)  ) by (a)");
    assert_eq!(at(tree.children()[1]), "-2");
    let rate = tree.children()[0].children()[0];
    assert_eq!((at(rate), at(rate.children()[0])), ("rate(x{a=\"b\"}[5m] offset 1m)", "x{a=\"b\"}[5m] offset 1m"));
}

#[test]
fn wrong_queries_say_what_and_where() {
    let check = |text: &str, column: usize, message: &str| {
        let error = parse(text).expect_err(text);
        assert_eq!((error.column, error.message.as_str()), (column, message), "{text}");
    };
    check("", 1, "no expression found in input");
    check("a +", 4, "unexpected end of input, expected an expression");
    check("a b", 3, "unexpected identifier \"b\", expected an operator or the end of the query");
    check("a + on", 5, "unexpected identifier \"on\", expected an expression");
    check("{a:b=\"c\"}", 2, "unexpected identifier \"a:b\", expected a label name");
    check("foo(1)", 1, "unknown function with name \"foo\"");
    check("{}", 1, "vector selector must contain at least one non-empty matcher");
    check("x{__name__=\"y\"}", 1, "metric name must not be set twice: \"x\" or \"y\"");
    check("1 == 1", 1, "comparisons between scalars must use BOOL modifier");
    check("1 + bool x", 3, "bool modifier can only be used on comparison operators");
    check("1 and x", 1, "set operator \"and\" not allowed in binary scalar expression");
    check("a and on(x) group_left b", 7, "no grouping allowed for \"and\" operation");
    check("a + on(x) group_left(x) b", 5, "label \"x\" must not occur in ON and GROUP clause at once");
    check("a + on(x) 1", 5, "vector matching only allowed between instant vectors");
    check("a[5m] + 1", 1, "binary expression must contain only scalar and instant vector types");
    check("rate(x)", 6, "expected type range vector in call to function \"rate\", got instant vector");
    check("rate()", 1, "expected 1 argument(s) in call to \"rate\", got 0");
    check("round(x, 1, 2)", 1, "expected at most 2 argument(s) in call to \"round\", got 3");
    check("abs(x,)", 6, "trailing commas not allowed in function call args");
    check("sum(x[5m])", 5, "expected type instant vector in aggregation expression, got range vector");
    check("topk(x)", 1, "wrong number of arguments for aggregate expression provided, expected 2, got 1");
    check("x[0s]", 3, "duration must be greater than 0");
    check("x offset 1m [5m]", 1, "no offset modifiers allowed before range");
    check("x offset 1m offset 2m", 1, "offset may not be set multiple times");
    check(
        "(x) offset 1m",
        1,
        "offset modifier must be preceded by an instant vector selector or range vector selector or a subquery",
    );
    check("x @ NaN", 5, "timestamp out of bounds for @ modifier: NaN");
    check("1[5m:]", 1, "subquery is only allowed on instant vector, got scalar instead");
    check("-\"a\"", 1, "unary expression only allowed on expressions of type scalar or instant vector, got \"string\"");
    check("info(x, y)", 9, "expected label selectors only, got vector selector instead");
    assert!(parse("info(x, {a=~\".*\"})").is_ok());
}

#[test]
fn text_and_depth_hold_at_their_limit_and_not_above() {
    let long = |bytes: usize| parse(&format!("1{}", " ".repeat(bytes - 1)));
    assert!(long(TEXT_BYTES_MAX).is_ok());
    assert!(long(TEXT_BYTES_MAX + 1).unwrap_err().message.contains("above the limit"));
    let deep = |text: String| parse(&text).map_err(|error| error.message);
    let message = Err(format!("the query is nested deeper than {DEPTH_MAX} levels"));
    let parens = |n: usize| deep(format!("{}1{}", "(".repeat(n), ")".repeat(n)));
    let signs = |n: usize| deep(format!("{}1", "-".repeat(n)));
    let chain = |n: usize| deep(format!("1{}", "+1".repeat(n)));
    let powers = |n: usize| deep(format!("1{}", "^1".repeat(n)));
    for shape in [&parens as &dyn Fn(usize) -> Result<Expr, String>, &signs, &chain, &powers] {
        assert!(shape(DEPTH_MAX - 1).is_ok());
        assert_eq!(shape(DEPTH_MAX), message);
        assert_eq!(shape(20_000), message);
    }
    assert_eq!(deep(format!("x offset {}1", "-".repeat(20_000))), message);
    let durations = |open: &str, close: &str| deep(format!("x[{}1{}]", open.repeat(20_000), close.repeat(20_000)));
    for (open, close) in [("(", ")"), ("-", ""), ("1+", ""), ("", "+1"), ("1^", "")] {
        assert_eq!(durations(open, close), message);
    }
}
