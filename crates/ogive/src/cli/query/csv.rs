//! An answer as comma-separated lines (RFC 4180).

use std::collections::BTreeMap;

use ogive_text::calendar::iso;

use super::answer::{Data, Series};

/// Comma-separated lines: time, every label that occurs, value, count, sum.
pub(super) fn csv(data: &Data) -> String {
    let scalar = |point: &(f64, String)| {
        let (metric, value) = (BTreeMap::new(), Some((point.0, point.1.clone())));
        vec![Series { metric, value, histogram: None, values: Vec::new(), histograms: Vec::new() }]
    };
    let made;
    let series = match data {
        Data::Scalar(point) | Data::String(point) => {
            made = scalar(point);
            &made
        }
        Data::Vector(series) | Data::Matrix(series) => series,
    };
    let mut labels: Vec<&str> = series.iter().flat_map(|one| one.metric.keys().map(String::as_str)).collect();
    labels.sort_unstable();
    labels.dedup();
    let mut out = String::new();
    let mut row = |cells: &[&str]| {
        let cells: Vec<String> = cells.iter().map(|cell| quoted(cell)).collect();
        out += &format!("{}\r\n", cells.join(","));
    };
    row(&[&["time"], &labels[..], &["value", "count", "sum"]].concat());
    for one in series {
        let own: Vec<&str> = labels.iter().map(|label| one.metric.get(*label).map_or("", String::as_str)).collect();
        let time = |seconds: f64| iso((seconds * 1000.0).round() as i64 * 1_000_000);
        for (seconds, value) in one.value.iter().chain(&one.values) {
            row(&[&[&*time(*seconds)], &own[..], &[value, "", ""]].concat());
        }
        for (seconds, distribution) in one.histogram.iter().chain(&one.histograms) {
            row(&[&[&*time(*seconds)], &own[..], &["", &distribution.count, &distribution.sum]].concat());
        }
    }
    out
}

/// A cell as RFC 4180 has it.
fn quoted(cell: &str) -> String {
    let plain = !cell.contains(['"', ',', '\r', '\n']);
    if plain { cell.to_owned() } else { format!("\"{}\"", cell.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::super::answer::Answer;
    use super::*;

    #[test]
    fn csv_has_a_column_for_each_label() {
        let body = r#"{"data":{"resultType":"matrix","result":[
            {"metric":{"__name__":"m","a":"x,\"y\""},"values":[[1700000000,"0.5"],[1700000001.5,"NaN"]]},
            {"metric":{"b":"z"},"histograms":[[1700000000,{"count":"4","sum":"1.5"}]]}]}}"#;
        let answer: Answer = serde_json::from_str(body).unwrap();
        let expected = [
            "time,__name__,a,b,value,count,sum",
            "2023-11-14T22:13:20.000Z,m,\"x,\"\"y\"\"\",,0.5,,",
            "2023-11-14T22:13:21.500Z,m,\"x,\"\"y\"\"\",,NaN,,",
            "2023-11-14T22:13:20.000Z,,,z,,4,1.5",
        ];
        assert_eq!(csv(&answer.data).lines().collect::<Vec<_>>(), expected);
        let scalar: Answer = serde_json::from_str(r#"{"data":{"resultType":"scalar","result":[1,"2"]}}"#).unwrap();
        assert_eq!(csv(&scalar.data), "time,value,count,sum\r\n1970-01-01T00:00:01.000Z,2,,\r\n");
    }
}
