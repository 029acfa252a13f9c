//! Trees, positions and error texts.

use ogive_model::WallMs;

use super::*;
use crate::ast::{AggregateOp, AtModifier, BinaryOp, Cardinality, Edges, ValueType};

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
    let matching = binary.matching.clone().unwrap();
    assert_eq!((binary.op, binary.return_bool), (BinaryOp::Equal, true));
    assert_eq!((matching.cardinality, matching.on, matching.labels.len()), (Cardinality::OneToMany, true, 2));
    assert_eq!((matching.include, matching.fill_left, matching.fill_right), (vec!["z".to_owned()], Some(16.0), None));
    let ExprKind::Binary(binary) = parse("a and b").unwrap().kind else { panic!("not binary") };
    assert_eq!(binary.matching.clone().unwrap().cardinality, Cardinality::ManyToMany);
    let ExprKind::Binary(binary) = parse("a + 1").unwrap().kind else { panic!("not binary") };
    assert_eq!(binary.matching, None);
}

#[test]
fn selectors_have_their_modifiers() {
    let tree = parse("x{a!~\"b\"}[5m] anchored @ 1.0005 offset -1m").unwrap();
    let ExprKind::MatrixSelector(matrix) = tree.kind else { panic!("not a matrix") };
    assert_eq!(
        (matrix.selector.shift.at, matrix.selector.edges),
        (Some(AtModifier::Time(WallMs(1001))), Edges::Anchored)
    );
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
    check("a +", 4, "unexpected end of input");
    check("a b", 3, "unexpected identifier \"b\"");
    check("a + on", 5, "unexpected <on>");
    check("{a:b=\"c\"}", 3, "unexpected character inside braces: ':'");
    check("foo(1)", 1, "unknown function with name \"foo\"");
    check("{}", 1, "vector selector must contain at least one non-empty matcher");
    check("x{__name__=\"y\"}", 1, "metric name must not be set twice: \"x\" or \"y\"");
    check("1 == 1", 3, "comparisons between scalars must use BOOL modifier");
    check("1 + bool x", 3, "bool modifier can only be used on comparison operators");
    check("1 and x", 1, "set operator \"and\" not allowed in binary scalar expression");
    check("a and on(x) group_left b", 1, "no grouping allowed for \"and\" operation");
    check("a + on(x) group_left(x) b", 3, "label \"x\" must not occur in ON and GROUP clause at once");
    check("a + on(x) 1", 1, "vector matching only allowed between instant vectors");
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

/// Texts and columns of Prometheus 3, from its grammar.
#[test]
fn patterns_hold_at_their_limit_and_not_above() {
    let text = |count: usize| format!("x{{{}}}", "a=~\"b.c\",d=~\"e|f\",".repeat(count));
    assert!(parse(&text(PATTERNS_MAX)).is_ok());
    let error = parse(&text(PATTERNS_MAX + 1)).unwrap_err();
    assert!(error.message.contains("more than 256 regular expressions"), "{error}");
}

#[test]
fn unexpected_tokens_are_named_as_in_prometheus() {
    let check = |text: &str, column: usize, message: &str| {
        let error = parse(text).expect_err(text);
        assert_eq!((error.column, error.message.as_str()), (column, message), "{text}");
    };
    check("sum(", 5, "unclosed left parenthesis");
    check("((1)", 5, "unclosed left parenthesis");
    check("(1))", 4, "unexpected right parenthesis ')'");
    check("a[5m", 5, "unclosed left bracket");
    check("a]", 2, "unexpected right bracket ']'");
    check("a{", 3, "unexpected end of input inside braces");
    check("a}", 2, "unexpected character: '}'");
    check("a ? b", 3, "unexpected character: '?'");
    check("a ! b", 3, "unexpected character after '!': ' '");
    check("a =~ b", 3, "unexpected character after '=': '~'");
    check("*1", 1, "unexpected <op:*>");
    check("a or or or", 11, "unexpected end of input");
    check("a b or", 3, "unexpected identifier \"b\"");
    check("a + (or and)", 12, "unexpected \")\"");
    check("a = b", 3, "unexpected \"=\"");
    check("a \"x\"", 3, "unexpected string \"\\\"x\\\"\"");
    check("a 'a long text'", 3, "unexpected string \"'a long te\"...");
    check("a 5m", 3, "unexpected duration \"5m\"");
    check("a 1", 3, "unexpected number \"1\"");
    check("a a:b", 3, "unexpected metric identifier \"a:b\"");
    check("sum(a b)", 7, "unexpected identifier \"b\" in aggregation");
    check("rate(a b)", 8, "unexpected identifier \"b\"");
    check("sum(a) by b", 11, "unexpected identifier \"b\" in grouping opts, expected \"(\"");
    check("sum(a) by (1)", 12, "unexpected number \"1\" in grouping opts, expected label");
    check("sum(a) by (a b)", 14, "unexpected identifier \"b\" in grouping opts, expected \",\" or \")\"");
    check("a{b}", 4, "unexpected \"}\" in label matching, expected label matching operator");
    check("a{b=c}", 5, "unexpected identifier \"c\" in label matching, expected string");
    check("a{b==\"c\"}", 5, "unexpected \"=\" in label matching, expected string");
    check("a{=\"c\"}", 3, "unexpected \"=\" in label matching, expected identifier or \"}\"");
    check("a{b=\"c\" d}", 9, "unexpected identifier \"d\" in label matching, expected \",\" or \"}\"");
    check("a{1}", 3, "unexpected character inside braces: '1'");
    check("a{{", 3, "unexpected left brace '{'");
    check("a offset b", 10, "unexpected identifier \"b\" in offset, expected number, duration, step(), or range()");
    check("a @ b", 5, "unexpected identifier \"b\" in @, expected timestamp");
    check(
        "a[b]",
        3,
        "unexpected identifier \"b\" in subquery or range selector, expected number, duration, step(), or range()",
    );
    check("a[5m b]", 6, "unexpected identifier \"b\" in subquery or range, expected \":\" or \"]\"");
    check("a[5m:5m b]", 9, "unexpected identifier \"b\" in subquery selector, expected \"]\"");
    // The first error in the text is reported.
    check("a b ?", 3, "unexpected identifier \"b\"");
    let error = parse("1 +\n  +* é").unwrap_err();
    assert_eq!(error.to_string(), "2:4: parse error: unexpected <op:*>");
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
    let powers = |n: usize| deep(format!("1{}", "^1".repeat(n)));
    for shape in [&parens as &dyn Fn(usize) -> Result<Expr, String>, &signs, &powers] {
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

/// A generated query of 129 alternatives, `a or b or ..`, was refused as nested too deep: the parser counted each
/// operator of a chain as a level. A chain adds no level, however long, up to the limit of operators; the contents of
/// parentheses still do.
#[test]
fn a_run_of_operators_is_no_nesting() {
    let run = |op: &str, n: usize| format!("x0{}", (1..=n).map(|at| format!(" {op} x{at}")).collect::<String>());
    for op in ["or", "and", "+", "*", "==", "> bool"] {
        for length in [129, 1_000, OPERATORS_MAX] {
            let text = run(op, length);
            let tree = parse(&text).unwrap_or_else(|error| panic!("{length} times {op}: {error}"));
            assert_eq!(tree.to_string(), text);
            assert_eq!(tree.nodes().count(), 2 * length + 1);
        }
        let error = parse(&run(op, OPERATORS_MAX + 1)).unwrap_err();
        assert!(error.message.contains("more than 8192 binary operators"), "{error}");
    }
    let nested = |n: usize| format!("{}x{}", "(x or ".repeat(n), ")".repeat(n));
    assert!(parse(&nested(60)).is_ok());
    assert!(parse(&nested(200)).unwrap_err().message.contains("nested deeper"));
    let numbers = run("+", 300).replace('x', "");
    assert_eq!(parse(&numbers).unwrap().value_type(), ValueType::Scalar);
    assert_eq!(parse(&format!("y + {numbers}")).unwrap().value_type(), ValueType::Vector);
    // A long one is broken into lines without more indentation than the depth limit.
    let pretty = parse(&run("or", 2_000)).unwrap().pretty();
    assert_eq!(parse(&pretty).unwrap().to_string(), run("or", 2_000));
}
