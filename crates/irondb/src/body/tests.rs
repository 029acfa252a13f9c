use super::*;
use crate::metric_list::tests::{bins, first, second};
use ogive_model::SourceId;

use crate::mutations::mutations;

/// Seeded changes of good bodies of every encoding end in records or in an error, and never in a panic.
#[test]
fn changed_bodies_never_panic() {
    let (tables, structs) = bins();
    let check = "8b9d2b4e-0c5a-4f0e-8f0d-5a2f6f0c1d2e";
    let lines = format!("M\t1.5\tx`c_1_2::http`{check}\tn|ST[a:b]\tn\t1\nH1\t2.0\t{check}\th\tAAFQ/gAB\n");
    let json = format!(
        r#"[{{"metric":"h","id":"{check}","offset":60,"period":60,"value":1,"count":2,"parts":[60,[{{"count":1}}]],"histogram":"AAFQ/gAB"}}]"#
    );
    let sender = graphite::Sender { account: 1, check: check.into(), name: "dev".into() };
    for (encoding, body) in [
        (Encoding::MetricList, first(7, tables)),
        (Encoding::MetricList, second(7, &structs)),
        (Encoding::Lines, lines.into_bytes()),
        (Encoding::Graphite(sender), b"a.b 1 2\na;c=d 3.5 4.25\n".to_vec()),
        (Encoding::Json(Form::Histogram), json.clone().into_bytes()),
        (Encoding::Json(Form::Numeric), json.into_bytes()),
    ] {
        let good = read(&encoding, &body, &Tenant::default(), BatchId { source: SourceId(1), sequence: 1 })
            .expect("it is good");
        assert!(good.records > 0 && good.faults.total() == 0, "{encoding:?}");
        mutations(&body, 20_000, 4, &[], |body| {
            if let Ok(taken) = read(&encoding, body, &Tenant::default(), BatchId { source: SourceId(1), sequence: 1 }) {
                assert!(taken.batch.samples.len() <= 64 + body.len() / 8);
            }
        });
    }
}
