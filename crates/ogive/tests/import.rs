//! `ogive import` and `ogive export` against a real server, with what other systems' own programs make and read.

mod blocks;
mod exported;
mod gate;

use std::path::Path;
use std::process::{Command, Output};

use crate::common::{Server, form};
use serde_json::{Value, json};

/// A second of the past that stays where it is.
const T: i64 = 1_780_000_000;

fn ogive(address: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ogive"));
    command.args(arguments).env("OGIVE_SERVER", format!("http://{address}")).output().unwrap()
}

/// What became of each file, and the exit code.
fn import(server: &Server, arguments: &[&str]) -> (Value, i32) {
    let output = ogive(&server.address, &[&["import", "--json"], arguments].concat());
    let said = String::from_utf8_lossy(&output.stdout);
    let parsed = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{arguments:?}: {output:?}"));
    (parsed, output.status.code().unwrap())
}

fn write(directory: &Path, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = directory.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The samples of a selector: series and samples of `/v1/cells`.
fn cells(server: &Server, selector: &str) -> (Vec<Value>, Vec<Value>) {
    let (status, body) = server.get(&format!("/v1/cells?match[]={}", form(selector)));
    assert_eq!(status, 200, "{body}");
    let list = |name: &str| body["data"][name].as_array().unwrap().clone();
    (list("series"), list("samples"))
}

fn started() -> (tempfile::TempDir, Server) {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("data"));
    (directory, server)
}

#[test]
fn openmetrics_is_read_line_by_line_and_stored_once() {
    let (directory, server) = started();
    let mut text = String::from("# TYPE jobs counter\n");
    for at in 0..45_000 {
        text += &format!("jobs_total{{host=\"h{}\"}} {at} {}\n", at % 3, T + at);
    }
    text += "# TYPE temp gauge\ntemp 21.5 1780000000.25\ntemp twenty 1780000001\ntemp 22\ntemp{a=\"b\",a=\"c\"} 1 1780000002\n# EOF\n";
    let path = write(directory.path(), "a.om.gz", crate::common::gzip(std::iter::once(text.into_bytes())));
    let notes = directory.path().join("bad.tsv");
    let (found, code) = import(&server, &["openmetrics", &path, "--bad", notes.to_str().unwrap()]);
    let bad = json!({"line_malformed": {"count": 2, "places": [45_004, 45_005]}, "labels_invalid": {"count": 1, "places": [45_006]}});
    let expected = json!([{"path": path, "samples": 45_001, "batches": 3, "accepted": 45_001, "duplicate": 0, "folded": 0,
        "bad": bad, "rejected": {}, "broken": null}]);
    assert_eq!((&found, code), (&expected, 1));
    let noted = std::fs::read_to_string(notes).unwrap();
    assert!(noted.contains("\t45004\tline_malformed\ta value is not a number\n"), "{noted}");
    let (found, _) = import(&server, &["openmetrics", &path]);
    assert_eq!((&found[0]["accepted"], &found[0]["duplicate"]), (&json!(0), &json!(45_001)), "{found}");
    let (series, samples) = cells(&server, "{__name__=~'jobs_total|temp'}");
    assert_eq!((series.len(), samples.len()), (4, 45_001));
    assert!(
        series.iter().all(|one| (one["labels"]["host"].is_null()) == (one["temporality"] == "gauge")),
        "{series:?}"
    );
    let output = ogive(&server.address, &["import", "openmetrics", &path, "--dry-run"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("45,001 samples read, 0 stored"), "{output:?}");
}

#[test]
fn tables_of_csv_are_wide_or_long() {
    let (directory, server) = started();
    let wide = format!(
        "time,host,cpu,\"load, 1m\"\n{T},\"a \"\"b\"\"\",0.5,1\n{}.5,c,,2\nsoon,c,1,2\n{},c,x,3\n{0},\"c,1\n{0},c\n",
        T + 1,
        T + 2
    );
    let path = write(directory.path(), "wide.csv", wide);
    let (found, code) = import(&server, &["csv", "--labels", "host", "--metric", "node", "--label", "zone=z", &path]);
    let bad = json!({
        "time_invalid": {"count": 1, "places": [4]}, "value_invalid": {"count": 1, "places": [5]},
        "line_malformed": {"count": 1, "places": [6]}, "fields": {"count": 1, "places": [7]},
    });
    assert_eq!((&found[0]["bad"], &found[0]["accepted"], code), (&bad, &json!(4), 1), "{found}");
    let (_, samples) = cells(&server, "{\"node_load, 1m\",zone='z',host='c'}");
    let shown: Vec<_> =
        samples.iter().map(|one| (one["time_ms"].as_i64().unwrap(), one["float"].as_f64().unwrap())).collect();
    assert_eq!(shown, [((T + 1) * 1000 + 500, 2.0), ((T + 2) * 1000, 3.0)]);
    assert_eq!(cells(&server, "node_cpu{host='a \"b\"'}").1[0]["float"], json!(0.5));
    let long = "metric\tvalue\ttimestamp\tdc\nup\t1\t2026-05-28T20:26:40Z\tx\njobs_total\t7\t1780000000000\t\n";
    let path = write(directory.path(), "long.tsv", long);
    let (found, code) = import(&server, &["csv", "--delimiter", "\\t", &path]);
    assert_eq!((&found[0]["accepted"], code), (&json!(2), 0), "{found}");
    assert_eq!(cells(&server, "up{dc='x'}").1[0]["time_ms"], cells(&server, "jobs_total{dc=''}").1[0]["time_ms"]);
    let output = ogive(&server.address, &["import", "csv", "--delimiter", "\\t", "--labels", "nobody", &path]);
    assert!(
        output.status.code() == Some(1) && String::from_utf8_lossy(&output.stdout).contains("no column is called"),
        "{output:?}"
    );
}

#[test]
fn interval_logs_become_cells_with_their_tags() {
    let (directory, server) = started();
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/hdrhistogram");
    let path = vectors.join("tagged.hlog");
    let text = std::fs::read_to_string(&path).unwrap();
    let intervals = text.lines().filter(|line| !line.starts_with(['#', '"']) && !line.trim().is_empty()).count();
    let path = write(directory.path(), "a.hlog", text + "1,2,not,base64\n");
    let arguments = ["hdr-log", "--metric", "rpc_seconds", "--label", "job=shop", "--unit", "us", &path];
    let (found, code) = import(&server, &arguments);
    assert_eq!((&found[0]["accepted"], code), (&json!(intervals), 1), "{found}");
    let (again, _) = import(&server, &arguments);
    assert_eq!((&again[0]["accepted"], &again[0]["duplicate"]), (&json!(0), &json!(intervals)));
    let (series, samples) = cells(&server, "rpc_seconds{job='shop'}");
    assert_eq!(samples.len(), intervals);
    assert!(series.iter().any(|one| one["labels"]["tag"].is_string()), "{series:?}");
    assert!(samples.iter().all(|one| one["start_ms"].as_i64() < one["time_ms"].as_i64()), "{samples:?}");
    let output = ogive(&server.address, &["import", "hdr-log", &path]);
    assert!(
        output.status.code() == Some(2) && String::from_utf8_lossy(&output.stderr).contains("--metric"),
        "{output:?}"
    );
}

#[test]
fn lines_of_victoriametrics_hold_series() {
    let (directory, server) = started();
    let text = format!(
        "{{\"metric\":{{\"__name__\":\"up\",\"job\":\"a\\\"b\"}},\"values\":[1,null,\"Infinity\"],\"timestamps\":[{0}000,{0}001,{0}002]}}\n\
         {{\"metric\":{{\"__name__\":\"up\"}},\"values\":[1],\"timestamps\":[]}}\nno\n\
         {{\"metric\":{{\"job\":\"nameless\"}},\"values\":[1],\"timestamps\":[{0}000]}}\n",
        T
    );
    let path = write(directory.path(), "export.jsonl", text);
    let (found, code) = import(&server, &["victoria-export", &path]);
    let bad = json!({"line_malformed": {"count": 2, "places": [2, 3]}, "labels_invalid": {"count": 1, "places": [4]}});
    assert_eq!((&found[0]["bad"], &found[0]["accepted"], code), (&bad, &json!(3), 1), "{found}");
    let (_, samples) = cells(&server, "up{job='a\"b'}");
    let shown: Vec<_> = samples.iter().map(|one| one["float"].clone()).collect();
    assert_eq!(shown, [json!(1.0), json!("NaN"), json!("+Inf")]);
}

/// What the documentation says makes the files, against the API that Ogive has of IRONdb.
#[test]
fn irondb_is_read_by_its_own_api() {
    let (directory, _) = started();
    let server =
        Server::try_start(&directory.path().join("old"), &["--listen", "127.0.0.1:0", "--irondb", "127.0.0.1:0"])
            .unwrap();
    let old = server.line_address("irondb", "tcp");
    let uuid = "8b9d2b4e-0c5a-4f0e-8f0d-5a2f6f0c1d2e";
    let id = format!("web`http`c_7_1::http`{uuid}");
    let mut lines = String::new();
    for at in 0..10 {
        lines += &format!("M\t{}.250\t{id}\tload|ST[host:a]\tn\t{}.5\n", T + at * 60, at);
        lines += &format!("H1\t{}.000\t{id}\tlat\tAAFQ/gAB\n", T + at * 60);
    }
    let path = write(directory.path(), "raw.tsv", lines + "M\tsoon\tx\ty\tn\t1\n");
    let new = Server::start(&directory.path().join("new"));
    let (found, code) = import(&new, &["irondb", &path]);
    assert_eq!(
        (&found[0]["accepted"], &found[0]["bad"], code),
        (&json!(20), &json!({"time_invalid": {"count": 1, "places": [21]}}), 1)
    );
    let (first, _) = import(&server, &["irondb", &path]);
    assert_eq!(first[0]["accepted"], 20);
    let guide = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/import.md")).unwrap();
    let script = |name: &str| {
        let (_, rest) =
            guide.split_once(&format!("# {name}\n")).unwrap_or_else(|| panic!("docs/import.md has no {name}"));
        rest.split("\n\n").next().unwrap().to_owned()
    };
    let run = |name: &str| {
        let mut command = Command::new("sh");
        command.args(["-euc", &script(name)]).current_dir(directory.path());
        command
            .env("IRONDB", format!("http://{old}"))
            .env("ACCOUNT", "7")
            .env("START", T.to_string())
            .env("END", (T + 600).to_string());
        let output = command.env("UUID", uuid).env("METRIC", "lat").output().unwrap();
        assert!(output.status.success(), "{name}: {output:?}");
    };
    run("raw.tsv");
    let other = Server::start(&directory.path().join("other"));
    let (found, code) = import(&other, &["irondb", directory.path().join("raw.tsv").to_str().unwrap()]);
    assert_eq!((&found[0]["accepted"], code), (&json!(10), 0), "{found}");
    assert_eq!(cells(&other, "load").1, cells(&new, "load").1);
    run("histograms.json");
    let path = directory.path().join("histograms.json");
    let (found, code) =
        import(&other, &["circllhist-json", "--metric", "lat", "--label", "host=a", path.to_str().unwrap()]);
    assert_eq!((&found[0]["accepted"], code), (&json!(10), 0), "{found}");
    let bins =
        |server: &Server| cells(server, "lat").1.iter().map(|one| one["histogram"]["bins"].clone()).collect::<Vec<_>>();
    assert_eq!(bins(&other), bins(&new));
    assert_eq!(bins(&other).len(), 10);
}

/// The body of an answer as bytes: a frame.
fn frame_at(server: &Server, path: &str) -> Vec<u8> {
    let agent = ureq::Agent::from(ureq::Agent::config_builder().proxy(None).build());
    let request = agent.get(format!("http://{}{path}", server.address)).header("accept", crate::common::FRAME);
    request.call().unwrap().body_mut().read_to_vec().unwrap()
}
