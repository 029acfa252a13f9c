//! Queries, the lines that they find, and what is said of those that are wrong.

use ogive_model::Labels;
use ogive_search::{Line, Query};

fn labels() -> Labels {
    Labels::new([("__name__", "log"), ("job", "api"), ("severity", "ERROR")]).unwrap()
}

fn check(query: &str, line: &str, expected: bool) {
    let parsed = Query::parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    assert_eq!(parsed.matches(&Line::new(&labels(), line)), expected, "{query} on {line}");
    let printed = parsed.to_string();
    let again = Query::parse(&printed).unwrap_or_else(|error| panic!("{query} printed as {printed}: {error}"));
    assert_eq!(again.to_string(), printed, "{query}");
    assert_eq!(again.matches(&Line::new(&labels(), line)), expected, "{query} printed as {printed} on {line}");
}

#[test]
fn words_and_phrases() {
    let line = "10.0.0.1 Connection refused by peer-7: \"no (route)\"";
    for (query, expected) in [
        ("", true),
        ("   ", true),
        ("connection", true),
        ("REFUSED connection", true),
        ("connect", false),
        ("connect*", true),
        ("*fused", true),
        ("*nnec*", true),
        ("\"connection refused\"", true),
        ("\"connection  refused\"", false),
        ("\"connection ref\"", false),
        ("\"connection ref\"*", true),
        ("*\"nection ref\"*", true),
        ("10.0.0.1", true),
        ("10.0.0", true),
        ("10.0.0.2", false),
        ("\"no (route)\"", true),
        ("\"\\\"no\"", true),
        ("peer-7:", true),
        ("*", true),
    ] {
        check(query, line, expected);
    }
}

#[test]
fn connectives() {
    for (query, expected) in [
        ("a b", true),
        ("a AND b", true),
        ("a x", false),
        ("a OR x", true),
        ("x OR y", false),
        ("NOT x", true),
        ("NOT a", false),
        ("NOT NOT a", true),
        ("a NOT x", true),
        ("a AND NOT b", false),
        ("x y OR a b", true),
        ("x (y OR a)", false),
        ("(x OR a) (y OR b)", true),
        ("NOT (x OR y)", true),
        ("NOT x OR NOT a", true),
        ("\"OR\"", false),
        ("or", false),
        ("((a))", true),
    ] {
        check(query, "a b c", expected);
    }
}

#[test]
fn regular_expressions() {
    for (query, expected) in [
        (r"/or\w+s/", true),
        ("/Orders/", false),
        ("/(?i)Orders/", true),
        (r"/GET \/api\/orders\/\d+/", true),
        (r"(/x/ OR /y/)", false),
        (r"/^GET/", true),
        (r"/\\/", false),
    ] {
        check(query, "GET /api/orders/17 200", expected);
    }
}

#[test]
fn fields() {
    let json = r#"{"level":"Error","status":503,"took":"1.5s","http":{"path":"/api/orders"},"tags":["a","b"],"msg":"x\ty","e":""}"#;
    let logfmt = r#"level=Error status=503 took=1.5s http.path=/api/orders tags=a tags=b msg="x	y" e="""#;
    for line in [json, logfmt] {
        for (query, expected) in [
            ("level=error", true),
            ("level = \"ERROR\"", true),
            ("level=err", false),
            ("level=err*", true),
            ("level!=info", true),
            ("level!=error", false),
            ("missing!=error", false),
            ("NOT missing=error", true),
            ("status=503", true),
            ("status=50*", true),
            ("status>=500", true),
            ("status>503", false),
            ("status<5e3 status<=503", true),
            ("took>900ms", true),
            ("took>2", false),
            ("took>\"1s\"", true),
            ("http.path=/api/orders", true),
            ("http.path=/api/*", true),
            ("http.path=*orders", true),
            ("http.path=~/\\/api\\/.*/", true),
            ("http.path=~\"/api\"", false),
            ("http.path!~\"/other.*\"", true),
            ("missing!~\"x\"", false),
            ("tags=a tags=b", true),
            ("tags!=c", true),
            ("tags!=a", false),
            ("msg=\"x\\ty\"", true),
            ("e=\"\"", true),
            ("e=*", true),
            ("missing=*", false),
            ("\"level\"=error", true),
            ("(level=error)", true),
            ("level=error OR x", true),
        ] {
            check(query, line, expected);
        }
    }
}

#[test]
fn labels_of_the_series() {
    for (query, expected) in [
        ("{job=\"api\"}", true),
        ("{job=\"api\", severity=~\"ERR.*|WARN\"} x", true),
        ("{job!=\"api\"}", false),
        ("{job!~\"a.*\"}", false),
        ("log{job=\"api\"}", true),
        ("other{}", false),
        ("{}", true),
        ("{missing=\"\",}", true),
        ("NOT {job=\"web\"}", true),
        ("{\"job\"=\"api\"}", true),
    ] {
        check(query, "x", expected);
    }
    let names = |query: &str| {
        let matchers = Query::parse(query).unwrap().matchers();
        matchers.into_iter().map(|matcher| matcher.name).collect::<Vec<_>>()
    };
    assert_eq!(names("{a=\"1\"} x log{b=\"2\"}"), ["a", "__name__", "b"]);
    assert_eq!(names("({a=\"1\"} x) y"), ["a"]);
    assert!(names("{a=\"1\"} OR x").is_empty() && names("NOT {a=\"1\"}").is_empty());
}

#[test]
fn what_is_wrong_has_a_column_and_says_what_to_do() {
    for (query, column, word) in [
        ("a )", 3, "closes none"),
        ("(a", 1, "not closed"),
        ("a (b", 3, "not closed"),
        ("()", 2, "must stand"),
        ("a AND", 6, "must stand"),
        ("OR a", 1, "quotes"),
        ("a OR OR b", 6, "quotes"),
        ("NOT", 4, "must stand"),
        ("ä \"b", 3, "quote is not closed"),
        ("/a", 1, "no end"),
        ("/api/orders", 5, "ends at this slash"),
        ("/(/", 1, "unclosed group"),
        ("x /a{1000}{1000}{10}/", 3, "wrong"),
        ("=5", 1, "field before it"),
        ("a != ", 6, "value behind it"),
        ("a=", 3, "value behind it"),
        ("a==b", 3, "quotes"),
        ("a>b", 3, "no number"),
        ("a=~\"(\"", 4, "unclosed group"),
        ("a=~\"b)|(c\"", 4, "wrong"),
        ("!=5", 1, "field before it"),
        ("\"\"=5", 1, "name"),
        ("{job=\"a\"", 9, "or }"),
        ("{job", 1, "not closed"),
        ("{job}", 5, "behind a label"),
        ("{job=api}", 6, "quotes"),
        ("{=\"a\"}", 2, "a label"),
        ("{a=\"b\" c=\"d\"}", 8, "comma"),
        ("{a=~\"(\"}", 5, "missing"),
        ("{a>\"b\"}", 4, "behind a label"),
        ("}", 1, "field before it"),
    ] {
        let error = Query::parse(query).expect_err(query);
        assert!(error.message.contains(word), "{query}: {error}");
        assert_eq!(error.column, column, "{query}: {error}");
    }
}

#[test]
fn limits_hold_at_their_value_and_one_above() {
    let terms = |count: usize| vec!["a"; count].join(" ");
    assert!(Query::parse(&terms(ogive_search::TERMS_MAX)).is_ok());
    assert!(Query::parse(&terms(ogive_search::TERMS_MAX + 1)).unwrap_err().message.contains("terms"));
    let deep = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Query::parse(&deep(ogive_search::DEPTH_MAX)).is_ok());
    assert!(Query::parse(&deep(ogive_search::DEPTH_MAX + 1)).unwrap_err().message.contains("levels"));
    assert!(Query::parse(&format!("{}a", "NOT ".repeat(ogive_search::DEPTH_MAX))).is_ok());
    assert!(Query::parse(&format!("{}a", "NOT ".repeat(ogive_search::DEPTH_MAX + 1))).is_err());
    let expressions = |count: usize| vec!["/a/"; count].join(" ");
    assert!(Query::parse(&expressions(16)).is_ok());
    assert!(Query::parse(&expressions(17)).unwrap_err().message.contains("regular expressions"));
    assert!(Query::parse(&"x".repeat(ogive_search::QUERY_BYTES_MAX)).is_ok());
    assert!(Query::parse(&"x".repeat(ogive_search::QUERY_BYTES_MAX + 1)).unwrap_err().message.contains("shorter"));
}
