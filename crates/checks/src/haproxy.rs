//! HAProxy: the statistics of its proxies and servers, from the stats socket (`show info` and `show stat`) or from the
//! HTTP page.
//!
//! Format: `# pxname,svname,...` and a row of CSV for each frontend, backend, server and listener, as HAProxy's
//! management guide describes ("CSV format"). A column of numbers is `haproxy_COLUMN{proxy,server,type}`; a line
//! `NAME: NUMBER` of `show info` is `haproxy_process_NAME`. `haproxy_up` is 1 where the status is `UP`, `OPEN` or `no
//! check`, otherwise 0. [`is_counter`] is the rule by which a column is a counter.
//! Limits: [`COLUMNS_MAX`], [`ROWS_MAX`], [`BACKENDS_MAX`] with a minimum, those of `readings`.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::http;
use super::net::{Network, Stream};
use super::raw::Raw;
use super::readings::{ANSWER_BYTES_MAX, Metric, Readings, fields, refuse_labels};
use super::request::{Http, url};
use super::rows::word;
use super::run::{Failure, Reason, Run, cut};
use super::target::{HostAndPort, place, target};

/// 500 columns; HAProxy 3.0 has some 200 with those of its modules.
const COLUMNS_MAX: usize = 500;
/// 5,000 rows: more than have room in [`ANSWER_BYTES_MAX`] with the usual columns.
const ROWS_MAX: usize = 5_000;
/// 100 backends with a minimum of servers.
const BACKENDS_MAX: usize = 100;
/// How the line of names begins.
const HEAD: &str = "# pxname,";
const LABELS: [&str; 3] = ["proxy", "server", "type"];
/// Columns that are texts, or numbers that identify something.
const TEXTS: [&str; 20] = [
    "pxname",
    "svname",
    "status",
    "pid",
    "iid",
    "sid",
    "tracked",
    "type",
    "check_status",
    "last_chk",
    "last_agt",
    "agent_status",
    "check_desc",
    "agent_desc",
    "addr",
    "cookie",
    "mode",
    "algo",
    "srid",
    "-",
];
/// Columns that count since HAProxy's start, and have none of [`COUNTER_WORDS`].
const COUNTERS: [&str; 43] = [
    "stot",
    "bin",
    "bout",
    "dreq",
    "dresp",
    "ereq",
    "econ",
    "eresp",
    "wretr",
    "wredis",
    "chkfail",
    "chkdown",
    "hanafail",
    "downtime",
    "lbtot",
    "hrsp_1xx",
    "hrsp_2xx",
    "hrsp_3xx",
    "hrsp_4xx",
    "hrsp_5xx",
    "hrsp_other",
    "cli_abrt",
    "srv_abrt",
    "comp_in",
    "comp_out",
    "comp_byp",
    "comp_rsp",
    "intercepted",
    "dcon",
    "dses",
    "wrew",
    "connect",
    "reuse",
    "cache_lookups",
    "cache_hits",
    "eint",
    "h1sess",
    "h2sess",
    "h3sess",
    "req_other",
    "h1req",
    "h2req",
    "h3req",
];
/// A name with one of these words between its `_` counts.
const COUNTER_WORDS: [&str; 8] = ["tot", "total", "rcvd", "resp", "errors", "bytes", "sess", "handshake"];
/// Numbers of `show info` that count, beside those that begin with `cum` or `total`.
const PROCESS_COUNTERS: [&str; 5] =
    ["droppedlogs", "failedresolutions", "poolfailed", "sslcachelookups", "sslcachemisses"];

/// Where statistics come from, and which of them are wanted.
#[derive(Clone, Debug)]
pub(super) struct HaProxy {
    from: Source,
    /// Columns; all where it is empty.
    fields: Vec<String>,
    /// How many servers are to be up, by the name of their backend.
    servers_up_min: BTreeMap<String, u32>,
}

#[derive(Clone, Debug)]
enum Source {
    Socket(PathBuf),
    Tcp(HostAndPort),
    Page(Box<Http>),
}

impl HaProxy {
    /// What a table of this kind says.
    pub(super) fn from_raw(raw: &mut Raw) -> Result<Self, String> {
        refuse_labels(raw, &LABELS)?;
        let mut text = target(raw)?;
        let from = if text.starts_with('/') {
            Source::Socket(text.into())
        } else if text.starts_with("http://") || text.starts_with("https://") {
            if !text.contains(";csv") {
                text.push_str(";csv");
            }
            raw.target = Some(text);
            let url = url(raw)?;
            Source::Page(Box::new(Http::statistics(raw, url)?))
        } else {
            Source::Tcp(place(&text, None)?)
        };
        let servers_up_min = raw.servers_up_min.take().unwrap_or_default();
        if servers_up_min.len() > BACKENDS_MAX {
            return Err(format!("servers_up_min has {} backends, above {BACKENDS_MAX}", servers_up_min.len()));
        }
        Ok(Self { from, fields: fields(raw, |_| true)?, servers_up_min })
    }

    /// Whether it reads a socket among the files of this machine.
    pub(super) fn is_local(&self) -> bool {
        matches!(self.from, Source::Socket(_))
    }
}

pub(super) async fn run(network: &Network, run: &mut Run, proxy: &HaProxy) -> Result<(), Failure> {
    let text = match &proxy.from {
        Source::Socket(path) => {
            run.phase("connect");
            let stream = UnixStream::connect(path).await.map_err(|error| {
                let is_missing = error.kind() == ErrorKind::NotFound;
                let Failure { reason, sentence } = Failure::from(error);
                let reason = if is_missing { Reason::Refused } else { reason };
                Failure::new(reason, format!("{}: {sentence}", path.display()))
            })?;
            run.phase("query");
            ask(stream).await?
        }
        Source::Tcp(place) => {
            let stream = network.connect(run, place).await?;
            run.phase("query");
            ask(stream).await?
        }
        Source::Page(http) => http::text(network, run, http).await?,
    };
    report(run, proxy, &text)
}

/// What the stats socket answers until it closes.
async fn ask(mut stream: impl Stream) -> Result<String, Failure> {
    stream.write_all(b"show info;show stat\n").await?;
    let mut out = Vec::new();
    stream.take(ANSWER_BYTES_MAX as u64 + 1).read_to_end(&mut out).await?;
    if out.len() > ANSWER_BYTES_MAX {
        return Err(Failure::new(Reason::Limit, format!("the answer has more than {ANSWER_BYTES_MAX} bytes")));
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// Reports what an answer says.
pub(super) fn report(run: &mut Run, proxy: &HaProxy, text: &str) -> Result<(), Failure> {
    let from = if text.starts_with(HEAD) { Some(0) } else { text.find(&format!("\n{HEAD}")).map(|at| at + 1) };
    let Some(from) = from else {
        let first = text.lines().find(|line| !line.is_empty()).unwrap_or_default();
        let sentence = format!("the answer has no line {HEAD:?}; it begins with {:?}", cut(first, 200));
        return Err(Failure::new(Reason::Protocol, sentence));
    };
    let (info, table) = text.split_at(from);
    let mut readings = Readings::new(run);
    process(info, proxy, &mut readings)?;
    let up = rows(table, proxy, &mut readings)?;
    readings.end()?;
    for (backend, least) in &proxy.servers_up_min {
        let sentence = match up.get(backend) {
            None => format!("there is no backend {backend:?} with servers"),
            Some((up, all)) if up < least => {
                format!("{up} of {all} servers of the backend {backend:?} are up, fewer than {least}")
            }
            Some(_) => continue,
        };
        return Err(Failure::new(Reason::Content, sentence));
    }
    Ok(())
}

/// Reports the numbers of the process.
fn process(info: &str, proxy: &HaProxy, readings: &mut Readings<'_>) -> Result<(), Failure> {
    if !proxy.fields.is_empty() {
        return Ok(());
    }
    for (name, value) in info.lines().filter_map(|line| line.split_once(": ")) {
        let Ok(value) = value.trim().parse::<f64>() else { continue };
        let name = word(name);
        let is_counter =
            name.starts_with("cum") || name.starts_with("total") || PROCESS_COUNTERS.contains(&name.as_str());
        let unit = match name.rsplit('_').next() {
            Some("sec") => "s",
            Some("bytes") => "By",
            _ => "",
        };
        readings.add(&Metric { name: format!("haproxy_process_{name}"), unit: unit.into(), is_counter }, &[], value)?;
    }
    Ok(())
}

/// Whether a column counts since the start. One that is not known does when a word of its name says so.
fn is_counter(column: &str) -> bool {
    COUNTERS.contains(&column) || column.split('_').any(|word| COUNTER_WORDS.contains(&word))
}

fn unit(column: &str) -> &'static str {
    match column {
        "bin" | "bout" | "comp_in" | "comp_out" | "comp_byp" => "By",
        "downtime" | "lastchg" | "lastsess" => "s",
        "qtime" | "ctime" | "rtime" | "ttime" | "check_duration" | "agent_duration" => "ms",
        "qt_max" | "ct_max" | "rt_max" | "tt_max" | "qtime_max" | "ctime_max" | "rtime_max" | "ttime_max" => "ms",
        _ if column.split('_').any(|word| word == "bytes") => "By",
        _ => "",
    }
}

/// How many servers are up, and how many there are, by the name of their backend.
type Up = BTreeMap<String, (u32, u32)>;

/// Where the columns are that identify a row.
struct Head {
    proxy: usize,
    server: usize,
    status: usize,
    kind: usize,
    /// The columns of numbers that are wanted.
    numbers: Vec<(usize, Metric)>,
    columns: usize,
}

impl Head {
    fn new(columns: &[String], wanted: &[String]) -> Result<Self, Failure> {
        let at = |name: &str| {
            let found = columns.iter().position(|column| column.trim_start_matches("# ") == name);
            found.ok_or_else(|| Failure::new(Reason::Protocol, format!("the answer has no column {name:?}")))
        };
        for wanted in wanted {
            at(wanted).map_err(|failure| Failure::new(Reason::Content, failure.sentence))?;
        }
        let number = |(at, column): (usize, &String)| {
            let is_wanted = wanted.is_empty() || wanted.contains(column);
            let is_number = !column.is_empty() && !column.starts_with("# ") && !TEXTS.contains(&column.as_str());
            let name = format!("haproxy_{}", word(column));
            (is_wanted && is_number)
                .then(|| (at, Metric { name, unit: unit(column).into(), is_counter: is_counter(column) }))
        };
        let numbers = columns.iter().enumerate().filter_map(number).collect();
        let (proxy, server, status, kind) = (at("pxname")?, at("svname")?, at("status")?, at("type")?);
        Ok(Self { proxy, server, status, kind, numbers, columns: columns.len() })
    }
}

/// Reports the numbers of the rows.
fn rows(table: &str, proxy: &HaProxy, readings: &mut Readings<'_>) -> Result<Up, Failure> {
    let (columns, mut left) = record(table)?;
    let head = Head::new(&columns, &proxy.fields)?;
    let mut up = Up::new();
    let state = Metric { name: "haproxy_up".into(), unit: String::new(), is_counter: false };
    for count in 0.. {
        left = left.trim_start_matches(['\n', '\r']);
        if left.is_empty() {
            break;
        }
        if count == ROWS_MAX {
            return Err(Failure::new(Reason::Limit, format!("there are more than {ROWS_MAX} rows")));
        }
        let (fields, rest) = record(left)?;
        left = rest;
        let ends = [head.proxy, head.server, head.status, head.kind].map(|at| fields.get(at).map(String::as_str));
        let ([Some(name), Some(server), Some(status), Some(kind)], true) = (ends, fields.len() <= head.columns) else {
            let sentence = format!("a row has {} fields in {} columns", fields.len(), head.columns);
            return Err(Failure::new(Reason::Protocol, sentence));
        };
        let is_up = is_up(status);
        let (kind, server) = match kind {
            "0" => ("frontend", ""),
            "1" => ("backend", ""),
            "2" => ("server", server),
            "3" => ("listener", server),
            _ => return Err(Failure::new(Reason::Protocol, format!("a row has the type {:?}", cut(kind, 64)))),
        };
        if kind == "server" {
            let (count, all) = up.entry(name.to_owned()).or_default();
            *count += u32::from(is_up);
            *all += 1;
        }
        let labels = [("proxy", name), ("server", server), ("type", kind)];
        readings.add(&state, &labels, f64::from(u8::from(is_up)))?;
        for (at, metric) in &head.numbers {
            if let Some(value) = fields.get(*at).and_then(|field| field.parse().ok()) {
                readings.add(metric, &labels, value)?;
            }
        }
    }
    Ok(up)
}

/// Whether new connections are taken: not in maintenance, draining, or at the limit of connections.
fn is_up(status: &str) -> bool {
    // `UP 1/3` is on its way down and still used.
    matches!(status.split(' ').next(), Some("UP" | "OPEN")) || status == "no check"
}

/// The fields of a row, and what stands behind its line. A comma ends each of HAProxy's fields, also the last.
fn record(text: &str) -> Result<(Vec<String>, &str), Failure> {
    let (mut fields, mut left) = (Vec::new(), text);
    loop {
        let cut_off = || Failure::new(Reason::Protocol, "the table is cut off within a row");
        let (field, rest) = field(left).ok_or_else(cut_off)?;
        if fields.len() == COLUMNS_MAX {
            return Err(Failure::new(Reason::Limit, format!("a row has more than {COLUMNS_MAX} fields")));
        }
        fields.push(field);
        match (rest.strip_prefix(','), rest.strip_prefix('\n')) {
            (Some(rest), _) => left = rest,
            (_, Some(rest)) => {
                fields.pop_if(|last| last.is_empty());
                return Ok((fields, rest));
            }
            _ if rest.is_empty() => return Err(cut_off()),
            _ => return Err(Failure::new(Reason::Protocol, format!("{:?} is behind a quote", cut(rest, 64)))),
        }
    }
}

/// The first field, and what stands behind it; two quotes in a quoted one are one. None where its end is missing.
fn field(text: &str) -> Option<(String, &str)> {
    let Some(mut left) = text.strip_prefix('"') else {
        let end = text.find([',', '\n'])?;
        return Some((text[..end].trim_end_matches('\r').to_owned(), &text[end..]));
    };
    let mut out = String::new();
    loop {
        let (part, rest) = left.split_once('"')?;
        out.push_str(part);
        match rest.strip_prefix('"') {
            Some(rest) => {
                out.push('"');
                left = rest;
            }
            None => return Some((out, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use ogive_model::{Temporality, Value};
    use ogive_probe::Clock;

    use super::*;
    use crate::config::{Config, Probe};

    const TABLE: &str = "# pxname,svname,scur,stot,bin,status,pid,type,last_chk,rtime,-,h2_data_rcvd,\n\
                         web,FRONTEND,1,7,900,OPEN,1,0,,,-,3,\n\
                         shop,\"a,\"\"1\"\"\",0,4,500,UP 1/2,1,2,\"7, ok\n\",12,-,,\n\
                         shop,b,0,0,0,DOWN,1,2,,,-,,\n\
                         shop,BACKEND,0,4,500,UP,1,1,,12,-,0,\n";

    fn proxy(keys: &str) -> HaProxy {
        let text = format!("[[check]]\nname = 'a'\nkind = 'haproxy'\ntarget = '/stats'\n{keys}\n");
        let Probe::HaProxy(proxy) = Config::parse(&text).unwrap().check.remove(0).ask else { unreachable!() };
        proxy
    }

    /// How a run ends, and each series with its value, counters with a `+`.
    fn found(keys: &str, text: &str) -> (Result<(), Failure>, Vec<String>) {
        let mut run = Run::begin(Clock::manual(1_000, 1_700_000_000_000_000_000));
        let end = report(&mut run, &proxy(keys), text);
        let batch = run.batch(&Ok(()), &[], std::time::Duration::from_secs(60));
        let shown = batch.samples.iter().flatten().filter_map(|sample| {
            let series = batch.series[sample.series as usize].as_ref().unwrap();
            let Value::Float(value) = sample.value else { return None };
            let label = |name: &str| series.labels.get(name).to_owned();
            let sign = if series.meta.temporality == Temporality::Cumulative { "+" } else { "" };
            let of = [label("proxy"), label("server"), label("type")].join("/");
            Some(format!("{} {of} {sign}{value}", label("__name__")))
        });
        (end, shown.filter(|line| line.starts_with("haproxy_")).collect())
    }

    #[test]
    fn rows_become_series() {
        let text = format!("Name: HAProxy\nUptime: 0d 0h00m05s\nUptime_sec: 5\nCumReq: 9\n\n{TABLE}\n");
        let (end, lines) = found("", &text);
        assert_eq!(end, Ok(()));
        for line in [
            "haproxy_process_uptime_sec // 5",
            "haproxy_process_cumreq // +9",
            "haproxy_up web//frontend 1",
            "haproxy_scur web//frontend 1",
            "haproxy_stot web//frontend +7",
            "haproxy_h2_data_rcvd web//frontend +3",
            "haproxy_up shop/a,\"1\"/server 1",
            "haproxy_bin shop/a,\"1\"/server +500",
            "haproxy_rtime shop/a,\"1\"/server 12",
            "haproxy_up shop/b/server 0",
            "haproxy_up shop//backend 1",
        ] {
            assert!(lines.iter().any(|found| found == line), "{line}: {lines:#?}");
        }
        assert!(!lines.iter().any(|line| line.contains("_pid ") || line.contains("last_chk")), "{lines:?}");
        let (end, lines) = found("fields = ['stot']", &text);
        assert_eq!((end, lines.len()), (Ok(()), 8));
    }

    #[test]
    fn servers_that_are_down_fail_a_run_that_wants_them() {
        assert_eq!(found("servers_up_min = {shop = 1}", TABLE).0, Ok(()));
        for (keys, sentence) in [
            ("servers_up_min = {shop = 2}", "1 of 2 servers of the backend \"shop\" are up, fewer than 2"),
            ("servers_up_min = {none = 1}", "there is no backend \"none\" with servers"),
            ("fields = ['sbad']", "the answer has no column \"sbad\""),
        ] {
            assert_eq!(found(keys, TABLE).0, Err(Failure::new(Reason::Content, sentence)));
        }
    }

    #[test]
    fn what_is_no_table_is_refused() {
        for (text, reason) in [
            (String::new(), Reason::Protocol),
            ("Permission denied\n".into(), Reason::Protocol),
            ("# pxname,svname,\n".into(), Reason::Protocol),
            (format!("{TABLE}shop,c,"), Reason::Protocol),
            (format!("{TABLE}shop,\"c"), Reason::Protocol),
            (format!("{TABLE}shop,\"c\"d,\n"), Reason::Protocol),
            (format!("{TABLE}shop,c\n"), Reason::Protocol),
            (format!("{TABLE}{}\n", ",".repeat(20)), Reason::Protocol),
            (format!("{TABLE}shop,b,0,0,0,DOWN,1,9,\n"), Reason::Protocol),
            (format!("{TABLE}shop,b,0,0,0,DOWN,1,2,\n"), Reason::Content),
            (format!("{TABLE}{}\n", ",".repeat(COLUMNS_MAX + 1)), Reason::Limit),
        ] {
            assert_eq!(found("", &text).0.unwrap_err().reason, reason, "{text}");
        }
        let rows = |count: usize| {
            let row = |at: usize| format!("p{at},FRONTEND,,,,OPEN,1,0,\n");
            found("", &(TABLE.lines().next().unwrap().to_owned() + "\n" + &(0..count).map(row).collect::<String>())).0
        };
        assert_eq!(rows(ROWS_MAX), Ok(()));
        assert_eq!(rows(ROWS_MAX + 1).unwrap_err().reason, Reason::Limit);
    }

    #[test]
    fn a_table_that_ends_anywhere_is_whole_or_refused() {
        for end in 0..TABLE.len() {
            let is_whole = TABLE.is_char_boundary(end) && found("", &TABLE[..end]).0.is_ok();
            // Whole rows are a table; the quoted line break of one ends none.
            assert!(!is_whole || TABLE[..end].ends_with(",\n"), "{:?}", &TABLE[..end]);
        }
    }

    #[test]
    fn sources_are_known_by_their_targets() {
        let at = |target: &str| {
            let text = format!("[[check]]\nname = 'a'\nkind = 'haproxy'\ntarget = '{target}'\n");
            format!("{:?}", Config::parse(&text).unwrap().check.remove(0).ask)
        };
        assert!(at("/run/haproxy/admin.sock").contains("Socket(\"/run/haproxy/admin.sock\")"));
        assert!(at("[::1]:9999").contains("port: 9999"));
        for target in ["http://h:8404/stats", "http://h:8404/stats;csv"] {
            assert!(at(target).contains("http://h:8404/stats;csv"), "{}", at(target));
        }
    }
}
