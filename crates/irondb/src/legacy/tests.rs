use ogive_model::{BatchId, SourceId, Tenant, Value};

use super::*;

const CHECK: &str = "ae0f7f90-2a6b-481c-9cf5-21a31837020e";

fn taken(form: Form, body: &str) -> Result<crate::intake::ParsedBody, Refused> {
    let mut intake = Intake::new(body.len());
    read(form, body.as_bytes(), &mut intake)?;
    Ok(intake.finish(&Tenant::default(), BatchId { source: SourceId(1), sequence: 1 }))
}

/// Each sample as `labels @ seconds (its start) = value`.
fn lines(form: Form, body: &str) -> Vec<String> {
    let taken = taken(form, body).expect("it is taken");
    let line = |sample: &ogive_model::Sample| {
        let labels = taken.batch.series[sample.series as usize].as_ref().unwrap().labels.to_string();
        let labels = labels.replace(&format!("check_uuid=\"{CHECK}\""), "");
        let value = match &sample.value {
            Value::Float(number) => number.to_string(),
            Value::Text(text) => text.clone(),
            Value::Histogram(histogram) => format!("{} values", histogram.total()),
            Value::FloatHistogram(_) => unreachable!("nobody writes one"),
        };
        let start = sample.start_ns.map_or(String::new(), |start| format!(" from {}", start as f64 / 1e9));
        format!("{labels} @ {}{start} = {value}", sample.time_ns as f64 / 1e9)
    };
    taken.batch.samples.iter().map(|sample| line(sample.as_ref().unwrap())).collect()
}

#[test]
fn texts_numbers_and_histograms_are_read() {
    let body = format!(
        r#"[{{"metric":"t","id":"{CHECK}","offset":"1408724400","value":"on"}},{{"metric":"t","id":"{CHECK}","offset":1408724401.5,"value":"off"}}]"#
    );
    assert_eq!(lines(Form::Text, &body), ["t{} @ 1408724400 = on", "t{} @ 1408724401.5 = off"]);
    let body = format!(
        r#"[{{"metric":"n","id":"{CHECK}","offset":1408724400,"count":5,"value":100,"stddev":0,"derivative":2,"counter":0,"parts":[60,null]}},
            {{"metric":"p","id":"{CHECK}","offset":60,"count":2,"value":5,"parts":[30,[{{"count":1,"value":4}},{{"count":1,"value":6}}]]}}]"#
    );
    assert_eq!(
        lines(Form::Numeric, &body),
        [
            "n{} @ 1408724400 = 100",
            "n{, rollup_part=\"count\"} @ 1408724400 = 5",
            "n{, rollup_part=\"derivative\"} @ 1408724400 = 2",
            "p{} @ 60 = 4",
            "p{} @ 90 = 6"
        ]
    );
    let body = format!(
        r#"[{{"account_id":1,"metric":"h","id":"{CHECK}","offset":1408724400,"period":60,"histogram":"AAFQ/gAB"}},
            {{"metric":"h","id":"{CHECK}","offset":60,"period":1,"histogram":{{"+23e-004":3}}}}]"#
    );
    assert_eq!(
        lines(Form::Histogram, &body),
        ["h{account_id=\"1\", } @ 1408724460 from 1408724400 = 1 values", "h{} @ 60 from 59.999 = 3 values"]
    );
}

#[test]
fn a_bad_item_spoils_only_itself_and_no_json_everything() {
    let body = format!(
        r#"[{{"metric":"t","id":"nobody","offset":1,"value":"x"}},{{"metric":"t","id":"{CHECK}","offset":-1,"value":"x"}},
        {{"metric":"","id":"{CHECK}","offset":1,"value":"x"}},{{"metric":"t","id":"{CHECK}","offset":1,"value":"x"}}]"#
    );
    let taken = taken(Form::Text, &body).unwrap();
    assert_eq!((taken.records, taken.faults.total()), (1, 3));
    let faults: Vec<_> = taken.details.iter().map(|(_, fault)| *fault).collect();
    assert_eq!(faults, [Fault::Fields, Fault::Time, Fault::Name]);
    for body in ["", "7", "{}", "[{}]", "[1]", "[", r#"[{"metric":1}]"#] {
        assert!(matches!(super::tests::taken(Form::Text, body), Err(Refused::Malformed(_))), "{body}");
    }
}
