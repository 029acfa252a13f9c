use ogive_model::Value;

use super::*;
use crate::mutations::mutations;

const NOW: i64 = 1_700_000_000_000_000_000;

/// The labels, the time in nanoseconds (none for now) and the text.
fn check(message: &str, labels: &str, time_ns: Option<i64>, text: &str) {
    let mut gather = Gather::default();
    feed(message.as_bytes(), NOW, &mut gather).unwrap_or_else(|fault| panic!("{message}: {fault}"));
    let batch = gather.take(Default::default(), 0, &Default::default());
    let sample = batch.samples[0].as_ref().unwrap();
    assert_eq!(batch.series[0].as_ref().unwrap().labels.to_string(), format!("log{{{labels}}}"), "{message}");
    assert_eq!(sample.time_ns, time_ns.unwrap_or(NOW), "{message}");
    assert_eq!(sample.value, Value::Text(text.into()), "{message}");
}

#[test]
fn fields_become_labels_and_attributes() {
    check(r#"{"version":"1.1","host":"h","short_message":"hello"}"#, r#"instance="h""#, None, "hello");
    check(
        r#"{"version":"1.1","host":"web-1","short_message":"a","full_message":"a\nat line 3","timestamp":1385053862.3072,
            "level":3,"facility":"shop","_user_id":9001,"_some info":"foo","_nested":{"a":[1,null]}}"#,
        r#"instance="web-1", job="shop", severity="error""#,
        Some(1_385_053_862_307_200_000),
        r#"{"body":"a\nat line 3","attributes":{"user_id":9001,"some info":"foo","nested":{"a":[1,null]}}}"#,
    );
    check(
        r#"{"host":"h","short_message":"a","full_message":"b","level":"6","timestamp":"1700000000.5","_app":"x","_app":1}"#,
        r#"instance="h", job="x", severity="info""#,
        Some(1_700_000_000_500_000_000),
        r#"{"body":"a","attributes":{"full_message":"b","app":"x","app":1}}"#,
    );
    // What says nothing that a label can hold stays with the message.
    check(
        r#"{"host":"h","short_message":"","level":8,"facility":7,"line":12,"timestamp":null}"#,
        r#"instance="h""#,
        None,
        r#"{"body":"","attributes":{"level":8,"facility":7,"line":12}}"#,
    );
}

#[test]
fn what_is_no_message_is_a_fault() {
    for (wrong, fault) in [
        ("", Fault::Fields),
        ("hello", Fault::Fields),
        ("[]", Fault::Fields),
        (r#"{"host":"h"}"#, Fault::Fields),
        (r#"{"short_message":"x"}"#, Fault::Fields),
        (r#"{"host":"","short_message":"x"}"#, Fault::Fields),
        (r#"{"host":1,"short_message":"x"}"#, Fault::Fields),
        (r#"{"host":"h","short_message":"x"} more"#, Fault::Fields),
        (r#"{"host":"h","short_message":"x","timestamp":-1}"#, Fault::Time),
        (r#"{"host":"h","short_message":"x","timestamp":"soon"}"#, Fault::Time),
        (r#"{"host":"h","short_message":"x","timestamp":1e300}"#, Fault::Time),
    ] {
        assert_eq!(feed(wrong.as_bytes(), NOW, &mut Gather::default()), Err(fault), "{wrong}");
    }
    let of = |size: usize| format!(r#"{{"host":"h","short_message":"{}"}}"#, "x".repeat(size - 31));
    assert_eq!(feed(of(MESSAGE_BYTES_MAX).as_bytes(), NOW, &mut Gather::default()), Ok(()));
    assert_eq!(feed(of(MESSAGE_BYTES_MAX + 1).as_bytes(), NOW, &mut Gather::default()), Err(Fault::TooLong));
}

#[test]
fn any_message_ends() {
    let good = br#"{"host":"h","short_message":"a","full_message":"a b","level":3,"timestamp":1.5,"_a":{"b":[1]}}"#;
    mutations(good, 20_000, 6, crate::mutations::TEXT, |bytes| {
        let mut gather = Gather::default();
        if feed(bytes, NOW, &mut gather).is_ok() {
            gather.take(Default::default(), 0, &Default::default()).encode().unwrap();
        }
    });
}
