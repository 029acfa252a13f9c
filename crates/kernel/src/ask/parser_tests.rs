use super::*;

#[test]
fn questions_have_a_probe_a_filter_a_verb_a_value_and_keys() {
    let question =
        parse("tp_btf:sched_switch /prev.pid > 1 && (next->prio / 10) == 12/ hist a + 2ms by comm, x->y").unwrap();
    assert_eq!(question.probe, Probe::Point("sched_switch".to_owned()));
    assert_eq!(question.verb, Verb::Histogram);
    assert!(question.filter.is_some() && question.value.is_some());
    let keys: Vec<&str> = question.keys.iter().map(|(text, _)| text.as_str()).collect();
    assert_eq!(keys, ["comm", "x->y"]);
    let question = parse("uretprobe:/usr/lib/a:b.so:f count").unwrap();
    let (path, symbol) = ("/usr/lib/a:b.so".to_owned(), "f".to_owned());
    assert_eq!(question.probe, Probe::Function { path, symbol, at_return: true });
    let [path, provider, name] = ["/a:b/app", "app", "begins"].map(ToOwned::to_owned);
    assert_eq!(parse("usdt:/a:b/app:app:begins count").unwrap().probe, Probe::Usdt { path, provider, name });
    assert_eq!(parse("syscall:* count by call").unwrap().probe, Probe::Call(None));
    assert_eq!(parse(" profile:99 count").unwrap().probe, Probe::Profile(99));
    assert_eq!(parse("interval:10ms count").unwrap().probe, Probe::Interval(10_000_000));
    let [category, name] = ["sched", "sched_switch"].map(ToOwned::to_owned);
    assert_eq!(parse("tracepoint:sched:sched_switch count").unwrap().probe, Probe::Record { category, name });
}

#[test]
fn operators_bind_as_in_c() {
    let shape = |text: &str| parse(&format!("profile:9 hist {text}")).unwrap().value.map(without_places).unwrap();
    for (plain, bracketed) in [
        ("1 + 2 * 3", "1 + (2 * 3)"),
        ("1 - 2 - 3", "(1 - 2) - 3"),
        ("a & 1 == 0", "a & (1 == 0)"),
        ("a || b && c", "a || (b && c)"),
        ("-a * b", "(-a) * b"),
        ("1 << 2 + 3 < 4", "(1 << (2 + 3)) < 4"),
        ("8 / 2 % 3", "(8 / 2) % 3"),
    ] {
        assert_eq!(shape(plain), shape(bracketed), "{plain}");
    }
}

fn without_places(expression: Expression) -> Expression {
    let inner = |of: Box<Expression>| Box::new(without_places(*of));
    let form = match expression.form {
        Form::Field(base, name) => Form::Field(inner(base), name),
        Form::Function(name, of) => Form::Function(name, inner(of)),
        Form::Unary(operator, of) => Form::Unary(operator, inner(of)),
        Form::Binary(operator, left, right) => Form::Binary(operator, inner(left), inner(right)),
        form => form,
    };
    Expression { at: 0, form }
}

#[test]
fn mistakes_have_their_place_and_what_may_be_meant() {
    let deep = format!("profile:1 hist {}1", "(".repeat(100));
    let long = format!("profile:1 count by {}", "a".repeat(TEXT_MAX));
    for (text, at, said) in [
        ("", 0, "begins with a probe"),
        ("tpbtf:a count", 0, "did you mean \"tp_btf\"?"),
        ("tp_btf: count", 0, "tp_btf:NAME"),
        ("uprobe:libc.so.6 count", 0, "uprobe:FILE:FUNCTION"),
        ("usdt:app:begins count", 0, "usdt:FILE:PROVIDER:NAME"),
        ("usdt:/bin/app::begins count", 0, "usdt:FILE:PROVIDER:NAME"),
        ("tracepoint:sched_switch count", 0, "tracepoint:CATEGORY:NAME"),
        ("tracepoint:sched:a/../b count", 0, "tracepoint:CATEGORY:NAME"),
        ("interval:1 count", 9, "between 100us and 3600s"),
        ("interval:99us count", 9, "between 100us and 3600s"),
        ("interval:3601s count", 9, "between 100us and 3600s"),
        ("interval:10ms:0 count", 9, "between 100us and 3600s"),
        ("profile:0 count", 8, "1 to 5000"),
        ("profile:1 cuont", 10, "did you mean \"count\"?"),
        ("profile:1", 9, "the end where a `/FILTER/`"),
        ("profile:1 hist by comm", 15, "the value of the histogram"),
        ("profile:1 sum", 13, "the value to add up"),
        ("profile:1 /pid == 1 count", 20, "the `/` that ends the filter"),
        ("profile:1 /pid == 1", 10, "no `/` at its end"),
        ("profile:1 count by", 18, "the end where a value"),
        ("profile:1 count by a, b, c, d", 28, "at most 3 keys"),
        ("profile:1 count comm", 16, "`by KEYS`"),
        ("profile:1 hist 10mm", 17, "no unit"),
        ("profile:1 hist 99999999999999999999", 15, "64 bits"),
        ("profile:1 hist (1", 17, "`)`"),
        ("profile:1 hist a->", 18, "the name of a field"),
        ("profile:1 hist \"a", 15, "no second one"),
        ("profile:1 hist a ? b", 17, "no meaning"),
        ("profile:1 hist é", 15, "no meaning"),
        (&deep, 79, "levels deep"),
        (&long, 0, "at most 8192 bytes"),
    ] {
        let mistake = parse(text).unwrap_err();
        assert!(mistake.at == at && mistake.message.contains(said), "{text}: {mistake:?}");
        assert!(mistake.shown_in(text).contains(&mistake.message));
    }
    let mark = parse("profile:1 cuont").unwrap_err().shown_in("profile:1 cuont");
    assert!(mark.ends_with("\n  profile:1 cuont\n            ^"), "{mark}");
}
