use super::*;
use crate::identity::Identity;
use crate::mutations::mutations;

fn finds(query: &str) -> Result<bool, Wrong> {
    let identity =
        Identity::parse("8b9d2b4e-0c5a-4f0e-8f0d-5a2f6f0c1d2e", "cpu`user|ST[host:web1.a,dc:eu=1,lone]").unwrap();
    let check_tags = [("team".to_owned(), "a".to_owned())];
    let candidate =
        Candidate { identity: &identity, kinds: &["numeric"], check_tags: &check_tags, activity: Some((100, 200)) };
    Ok(parse(query)?.finds(&candidate))
}

#[test]
fn queries_find_what_they_say() {
    for query in [
        "",
        "and()",
        "and(__name:cpu`user)",
        "__name:cpu*",
        "and(host:web1.a,dc:eu=1)",
        "and(host:*, not(dc:us))",
        "or(host:nobody,and(team:a,lone:))",
        "host",
        "and(/^ho/:/web[0-9]+/)",
        "and(__name:/^cpu`(user|idle)$/)",
        "and(b\"aG9zdA==\":b\"d2ViMS5h\")",
        "and(__name:b/Y3B1Lio=/)",
        "host:[exact]web1.a",
        "host:[re]^web.*",
        "host:[graphite]web?.{a,b}",
        "__check_uuid:8b9d2b4e-*",
        "__type:numeric",
        "__check_tag:team:a",
        "and(__activity:150-300,host:*1.a)",
        "not(__activity:201-300)",
        "*:web1*",
    ] {
        assert_eq!(finds(query), Ok(true), "{query}");
    }
    for query in [
        "or()",
        "not(host)",
        "and(host:web1.a,dc:us)",
        "__name:cpu",
        "__name:/^user/",
        "host:[exact]web*",
        "host:[graphite]web*b",
        "__type:text",
        "__activity:201-300",
        "nothing",
        "host:web1",
    ] {
        assert_eq!(finds(query), Ok(false), "{query}");
    }
}

#[test]
fn what_is_no_query_says_where() {
    for (query, at) in [
        ("and(a:b", 7),
        ("and(a:b))", 8),
        ("not(a,b)", 8),
        ("not()", 5),
        ("a:/(/", 5),
        ("a:/x", 3),
        ("b\"***\":x", 2),
        ("__activity:x", 12),
        ("a:/(?=x)/", 9),
    ] {
        assert_eq!(finds(query).map_err(|wrong| wrong.at), Err(at), "{query}");
    }
    let nested = |levels: usize| format!("{}a{}", "not(".repeat(levels), ")".repeat(levels));
    assert!(finds(&nested(DEPTH_MAX - 1)).is_ok());
    assert!(finds(&nested(DEPTH_MAX)).is_err());
    let terms = |count: usize| format!("or({})", vec!["a"; count].join(","));
    assert!(finds(&terms(TERMS_MAX)).is_ok());
    assert!(finds(&terms(TERMS_MAX + 1)).is_err());
    assert!(finds(&"x".repeat(BYTES_MAX + 1)).is_err());
    assert!(finds(r"a:/(\pL{1000}){1000}/").is_err());
}

#[test]
fn changed_queries_never_panic() {
    let good = br#"and(__name:cpu*,or(b"aG9zdA==":/web[0-9]/,not(__activity:1-2)),[graphite]a{b,c}:b/Y3B1Lio=/,[re]x:[exact]y)"#;
    assert!(parse(std::str::from_utf8(good).unwrap()).is_ok());
    mutations(good, 5_000, 3, b"(),:/\"b[]*{}\\x", |bytes| {
        if let Ok(text) = std::str::from_utf8(bytes) {
            let _ = finds(text);
        }
    });
}

#[test]
fn what_a_query_needs_is_known() {
    let query = parse("and(__name:a,or(host:b))").unwrap();
    assert_eq!((query.required("__name"), query.required("host"), query.required("x")), (Some("a"), Some("b"), None));
    assert_eq!(parse("or(__name:a,__name:b)").unwrap().required("__name"), None);
}
