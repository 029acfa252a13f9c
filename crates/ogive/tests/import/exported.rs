//! What is exported is read by others, and comes back.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::blocks::create;
use super::{T, cells, import, ogive, started};
use crate::common::clients::Client;
use crate::common::{SOURCE, Server, float, form, histogram};

/// Floats, cells of two schemes, a counter, texts; labels that are called as columns are.
fn fill(server: &Server) {
    let mut odd = float("try_odd");
    for label in ["time", "value", "le", "naïve \"x\""] {
        odd["labels"][label] = json!(format!("{label}'s\n"));
    }
    let mut counter = float("try_total");
    counter["temporality"] = json!("cumulative");
    let text = json!({"labels": {"__name__": "try_log"}, "kind": "text"});
    let bins = json!({"bins": {"1.2e-3": 4, "3.5e-2": 1, "-0.5": 2, "0": 3}, "sum": 0.25, "min": -0.55});
    let mut samples = Vec::new();
    for at in 0..50 {
        let time_ms = (T + at) * 1000 + 7;
        let value = (at - 25) as f64 / 3.0;
        samples
            .push(json!({"series": 0, "time_ms": time_ms, "float": if at == 3 { json!("NaN") } else { json!(value) }}));
        samples.push(json!({"series": 1, "time_ms": time_ms, "start_ms": time_ms - 1000, "histogram": bins}));
        samples.push(json!({"series": 2, "time_ms": time_ms, "float": 5e-324}));
        samples.push(json!({"series": 3, "time_ms": time_ms, "float": at * 7}));
    }
    samples.push(json!({"series": 4, "time_ms": T * 1000, "text": "a line"}));
    let series = json!([float("try_gauge"), histogram("try_seconds"), odd, counter, text]);
    let (status, body) = server.batch(SOURCE, 1, series, samples.into());
    assert_eq!((status, &body["accepted"]), (200, &json!(201)), "{body}");
}

fn export(server: &Server, format: &str, path: &Path) -> String {
    let path = path.to_str().unwrap();
    let output = ogive(&server.address, &["export", "{__name__=~'try_.+'}", "--format", format, "-o", path]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn tables_are_what_pyarrow_reads_and_come_back_whole() {
    let (directory, server) = started();
    fill(&server);
    // A sender of another scheme and of float counts.
    let frame = ogive_model::Batch {
        source: ogive_model::SourceId(7),
        sequence: 1,
        series: [ogive_model::Temporality::Cumulative, ogive_model::Temporality::Gauge]
            .map(|temporality| {
                let name = format!("try_{}_seconds", temporality.as_str());
                let meta = ogive_model::SeriesMeta {
                    kind: ogive_model::Kind::Histogram,
                    temporality,
                    unit: "s".into(),
                    width_ms: 0,
                };
                ogive_model::SeriesDef::new([("__name__", &*name)], meta)
            })
            .into(),
        samples: {
            let mut exp = ogive_hist::Histogram::new(ogive_hist::Scheme::exp2(3).unwrap());
            [0.001, 4.5, -2.0].iter().for_each(|value| exp.record_n(*value, 3));
            let mut custom = ogive_hist::Histogram::<f64>::new(ogive_hist::Scheme::custom([0.1, 1.0]).unwrap());
            [0.05, 4.5].iter().for_each(|value| custom.record_n(*value, 0.5));
            let sample =
                |series, value| Ok(ogive_model::Sample { series, time_ns: T * 1_000_000_000, start_ns: None, value });
            vec![
                sample(0, ogive_model::Value::Histogram(Box::new(exp))),
                sample(1, ogive_model::Value::FloatHistogram(Box::new(custom))),
            ]
        },
        ..ogive_model::Batch::default()
    };
    let (status, body) = server.post(crate::common::FRAME, &frame.encode().unwrap());
    assert_eq!((status, &body["accepted"]), (200, &json!(2)), "{body}");
    let files = directory.path().join("files");
    std::fs::create_dir(&files).unwrap();
    for format in ["parquet", "arrow"] {
        let said = export(&server, format, &files.join(format!("all.{format}")));
        assert!(said.contains("203 samples of 7 series written"), "{said}");
    }
    let (series, samples) = cells(&server, "{__name__=~'try_.+'}");
    std::fs::write(files.join("all.json"), json!({"series": series, "samples": samples}).to_string()).unwrap();
    let said = Client::start("samples.py", &[files.to_str().unwrap()]).finish();
    assert_eq!(said, ["all.arrow 203 rows 52 histograms", "all.parquet 203 rows 52 histograms"]);
    let other = Server::start(&directory.path().join("other"));
    let (found, code) = import(&other, &["parquet", files.join("all.parquet").to_str().unwrap()]);
    assert_eq!((&found[0]["accepted"], code), (&json!(203), 0), "{found}");
    // Bit for bit, schemes and starts among it.
    let whole = |server: &Server| {
        let body = super::frame_at(server, &format!("/v1/cells?match[]={}", form("{__name__=~'try_.+'}")));
        let batch = ogive_model::Batch::decode(&body).unwrap();
        let one = |sample: &ogive_model::Sample| {
            format!(
                "{:?} {} {:?} {:?}",
                batch.series[sample.series as usize], sample.time_ns, sample.start_ns, sample.value
            )
        };
        let mut all: Vec<String> = batch.samples.iter().flatten().map(one).collect();
        all.sort();
        all
    };
    assert_eq!(whole(&other), whole(&server));
}

/// Columns of somebody else's Parquet, made by pyarrow.
#[test]
fn a_table_of_pyarrow_is_read_by_its_columns() {
    let (directory, server) = started();
    Client::start("samples.py", &["make", directory.path().to_str().unwrap()]).finish();
    for (name, arguments) in [("snappy", &[][..]), ("zstd", &[]), ("gzip", &[]), ("none", &[])] {
        let path = directory.path().join(format!("{name}.parquet"));
        let (found, code) =
            import(&server, &[&["parquet", "--metric", name, path.to_str().unwrap()], arguments].concat());
        assert_eq!((&found[0]["accepted"], code), (&json!(5_000), 0), "{found}");
        let (series, samples) = cells(&server, &format!("{name}_load{{host='a'}}"));
        assert_eq!((series.len(), samples.len()), (1, 1_250));
        assert_eq!(series[0]["labels"]["zone"], "z\"1");
        let first = samples.iter().min_by_key(|one| one["time_ms"].as_i64()).unwrap();
        assert_eq!((&first["time_ms"], &first["float"]), (&json!(T * 1000), &json!(0.0)));
    }
    let path = directory.path().join("none.parquet");
    let mut bytes = std::fs::read(&path).unwrap();
    let end = bytes.len() - 20;
    bytes.truncate(end);
    std::fs::write(&path, &bytes).unwrap();
    let (found, code) = import(&server, &["parquet", path.to_str().unwrap()]);
    assert!(code == 1 && found[0]["broken"].as_str().unwrap().starts_with("parquet: "), "{found}");
}

#[test]
fn openmetrics_is_what_promtool_takes() {
    let (directory, server) = started();
    fill(&server);
    let path = directory.path().join("all.om");
    // The name with a space needs quotes, which the promtool of Debian does not know.
    let output = ogive(
        &server.address,
        &[
            "export",
            "{__name__=~'try_gauge|try_total|try_seconds|try_log'}",
            "--format",
            "openmetrics",
            "-o",
            path.to_str().unwrap(),
        ],
    );
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("1 texts and markers"), "{said}");
    let blocks = create(path.to_str().unwrap(), &directory.path().join("blocks"));
    // The dump reads a data directory, which has one of these.
    std::fs::create_dir(Path::new(&blocks).join("wal")).unwrap();
    let dump = Command::new("promtool").args(["tsdb", "dump", &blocks]).stderr(Stdio::inherit()).output().unwrap();
    let dump = String::from_utf8(dump.stdout).unwrap();
    let mut of_series: BTreeMap<&str, Vec<(i64, f64)>> = BTreeMap::new();
    for line in dump.lines() {
        let (rest, time) = line.rsplit_once(' ').unwrap();
        let (series, value) = rest.rsplit_once(' ').unwrap();
        of_series.entry(series).or_default().push((time.parse().unwrap(), value.parse().unwrap()));
    }
    let gauge = &of_series["{__name__=\"try_gauge\"}"];
    assert_eq!((gauge.len(), gauge[0]), (50, (T * 1000 + 7, -25.0 / 3.0)));
    assert!(gauge[3].1.is_nan());
    assert_eq!(of_series["{__name__=\"try_total\"}"][49], ((T + 49) * 1000 + 7, 343.0));
    let bucket = |le: &str| of_series[&*format!("{{__name__=\"try_seconds_bucket\", le=\"{le}\"}}")][7].1;
    assert_eq!(["-0.5", "0.0", "0.0013", "0.036", "+Inf"].map(bucket), [2.0, 5.0, 9.0, 10.0, 10.0]);
    assert_eq!(of_series["{__name__=\"try_seconds_gsum\"}"][7].1, 0.25);
    // And it comes back by the way in.
    let other = Server::start(&directory.path().join("other"));
    let (found, code) = import(&other, &["openmetrics", path.to_str().unwrap()]);
    let lines = dump.lines().count();
    assert_eq!((&found[0]["accepted"], code), (&json!(lines), 0), "{found}");
    let one =
        |server: &Server| cells(server, "try_total").1.iter().map(|one| one["float"].clone()).collect::<Vec<Value>>();
    assert_eq!(one(&other), one(&server));
    let refused = ogive(&server.address, &["export", "rate(up[1m])", "--format", "parquet", "-o", "/nowhere/x"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let unreachable = ogive("127.0.0.1:1", &["export", "up", "--format", "arrow", "-o", "/tmp/never.arrow"]);
    assert_eq!(unreachable.status.code(), Some(3), "{unreachable:?}");
}

/// More than one answer holds, a histogram counting as its bins: parts of time for tables, series for OpenMetrics;
/// nothing twice and nothing lost.
#[test]
fn more_than_one_answer_holds_is_read_in_parts() {
    let (directory, server) = started();
    let labels = (-10..2).flat_map(|exponent| (10..100).map(move |value| format!("\"+{value}e{exponent:+04}\":1")));
    let (bins, mut text) = (labels.collect::<Vec<_>>().join(","), String::new());
    for at in 0..400 {
        for host in ["a", "b", "c"] {
            let time = T + 60 * at;
            text += &format!(
                "{{\"time\":{time},\"period\":60,\"labels\":{{\"host\":\"{host}\"}},\"histogram\":{{{bins}}}}}\n"
            );
        }
    }
    let path = super::write(directory.path(), "wide.json", text);
    let (found, code) = import(&server, &["circllhist-json", "--metric", "wide", &path]);
    assert_eq!((&found[0]["accepted"], code), (&json!(1_200), 0), "{found}");
    let (status, body) = server.get("/v1/cells?match[]=wide");
    assert_eq!(status, 422, "one answer does not hold 1,200 histograms of 1,080 bins: {body}");
    for format in ["parquet", "openmetrics"] {
        let path = directory.path().join(format);
        let output = ogive(&server.address, &["export", "wide", "--format", format, "-o", path.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("1,200 samples of 3 series written"), "{said}");
    }
    let text = std::fs::read_to_string(directory.path().join("openmetrics")).unwrap();
    let hosts: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("wide_bucket{host=")?.get(..3)).collect();
    assert_eq!((hosts.len(), hosts.chunk_by(|a, b| a == b).count()), (1_200 * 1_081, 3), "series stand together");
    let other = Server::start(&directory.path().join("other"));
    let (found, _) = import(&other, &["parquet", directory.path().join("parquet").to_str().unwrap()]);
    assert_eq!(found[0]["accepted"], 1_200, "{found}");
    let count = other.number(&format!("sum(histogram_count(increase(wide[30d] @ {})))", T + 400 * 60));
    assert_eq!(count, Some(1_200.0 * 1_080.0));
}
