//! The cases of the filters that come with Ogive.

use ogive_filter::{File, NAMES, Stage, text};

#[test]
fn every_shipped_filter_does_what_its_cases_say() {
    for name in NAMES {
        let file = File::parse(text(name).unwrap()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(file.cases.len() > 1, "{name} has cases");
        let stage = Stage::new(file.filters).unwrap();
        for (line, case) in &file.cases {
            let failures = case.run(&stage).unwrap();
            assert!(failures.is_empty(), "{name}, line {line}: {failures:#?}");
        }
    }
}

#[test]
fn the_shipped_filters_stand_beside_each_other() {
    let filters = NAMES.iter().flat_map(|name| File::parse(text(name).unwrap()).unwrap().filters).collect();
    assert!(Stage::new(filters).is_ok());
}

/// A case that does not hold is found: a runner that finds nothing proves nothing.
#[test]
fn a_case_that_is_wrong_fails_by_name() {
    let check = |expected: &str, what: &str| {
        let text = format!(
            "[[filter]]\nname = 'a'\nwhere = ''\nparse = 'logfmt'\n[[filter.number]]\nname = 'took'\nfield = 'took'\n\
             [[filter.count]]\nname = 'seen'\n[[case]]\nline = 'took=2 to=x'\n{expected}"
        );
        let file = File::parse(&text).unwrap();
        let failures = file.cases[0].1.run(&Stage::new(file.filters).unwrap()).unwrap();
        assert_eq!(failures.iter().map(|failure| &*failure.what).collect::<Vec<_>>(), [what], "{expected}");
    };
    check("fields = { to = 'y' }", "the field to");
    check("stored = 'z'", "the stored line");
    check("stored = false", "whether it is stored");
    check("numbers = { took = [2, 2] }", "the numbers took");
    check("numbers = { took = [2.001] }", "the numbers took");
    check("counts = { seen = 2 }", "the count seen");
    check("series = { job = 'x' }", "the label job");
    check("tenant = 'x'", "the tenant");
}
