//! CloudWatch: `GetMetricData` for a list of metrics, in the JSON form of its API, with signed requests.
//!
//! Format: a series `aws_<namespace>_<metric>` in snake case (without `AWS/`) with the labels `statistic`, `region` and
//! `dimension_<Name>`; each value at the end of its period. `ogive_check_cloudwatch_points` is the number of values
//! received for a series; 0 is not a failure, since many metrics are idle.
//! Limits: [`QUERIES_MAX`] per request, all of one resolution; [`METRICS_MAX`] per check, [`PAGES_MAX`] and
//! [`VALUES_MAX`] per run. Each run requests the last [`WINDOW`] periods again: a value received twice counts once, and
//! the next run fetches what an earlier one missed.

use std::collections::BTreeMap;
use std::time::Duration;

use hyper::{Request, Uri, header};
use ogive_outgoing::Body;
use serde::Deserialize;
use serde_json::json;

use super::net::Network;
use super::raw::{Metric, Raw, secret};
use super::readings::snake;
use super::run::{Failure, Reason, Run};
use super::sigv4::{SignedRequest, Signer, date};
use super::target::Trust;
use super::{http, run};
use ogive_model::{Value, WallNs};
use ogive_outgoing::{AGENT, Origin, Secret, authority, target};
use ogive_text::duration;

/// 500 queries of one request, as the API has it.
const QUERIES_MAX: usize = 500;
/// 5,000 series of one check: ten requests.
const METRICS_MAX: usize = 5_000;
/// 100 pages of up to 100,800 values each.
const PAGES_MAX: usize = 100;
/// 500,000 values of a run, as many as a batch may have: some 200 MB while they are reported. 5,000 series have 25,000.
const VALUES_MAX: usize = 500_000;
/// 16 MiB of a page.
const PAGE_BYTES_MAX: usize = 16 << 20;
/// 5 periods: what comes minutes late is there, and a run that failed leaves no hole.
const WINDOW: u32 = 5;
/// Values of the last two minutes still change.
const DELAY: Duration = Duration::from_secs(120);
const TARGET: &str = "GraniteServiceVersion20100801.GetMetricData";
const KIND: &str = "application/x-amz-json-1.0";

/// What is asked.
#[derive(Clone, Debug)]
pub(super) struct MetricQuery {
    url: Uri,
    region: String,
    access_key_id: String,
    secret: Secret,
    session_token: Option<String>,
    delay: Duration,
    queries: Vec<Query>,
}

/// One series.
#[derive(Clone, Debug, PartialEq)]
struct Query {
    metric: String,
    statistic: String,
    seconds: u32,
    namespace: String,
    name: String,
    dimensions: Vec<(String, String)>,
}

#[derive(Debug, Deserialize)]
struct Page {
    #[serde(rename = "MetricDataResults", default)]
    results: Vec<Series>,
    #[serde(rename = "NextToken")]
    next: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Series {
    #[serde(rename = "Id")]
    id: String,
    #[serde(rename = "Timestamps", default)]
    times: Vec<f64>,
    #[serde(rename = "Values", default)]
    values: Vec<f64>,
}

impl MetricQuery {
    /// What a table of this kind says.
    pub(super) fn from_raw(raw: &mut Raw) -> Result<Self, String> {
        let region =
            raw.region.take().filter(|region| is_word(region)).ok_or("region is missing, such as eu-west-1")?;
        let url = raw.endpoint.take().unwrap_or_else(|| format!("https://monitoring.{region}.amazonaws.com/"));
        let url: Uri = url.parse().map_err(|error| format!("endpoint {url:?}: {error}"))?;
        Origin::from_url(&url).map_err(|sentence| format!("endpoint: {sentence}"))?;
        let from_environment = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let given = secret("secret_access_key", raw.secret_access_key.take(), raw.secret_access_key_file.take())?;
        let (access_key_id, secret, session_token) = match (raw.access_key_id.take(), given) {
            (Some(id), Some(secret)) => (Some(id), Some(secret), None),
            (None, None) => (
                from_environment("AWS_ACCESS_KEY_ID"),
                from_environment("AWS_SECRET_ACCESS_KEY").map(Secret::Here),
                from_environment("AWS_SESSION_TOKEN"),
            ),
            _ => return Err("give both access_key_id and secret_access_key (or secret_access_key_file)".into()),
        };
        let missing = "access_key_id is missing, and there is no AWS_ACCESS_KEY_ID in the environment";
        let (Some(access_key_id), Some(secret)) = (access_key_id, secret) else { return Err(missing.into()) };
        let delay = match raw.delay.take() {
            Some(text) => duration::parse(&text).ok_or_else(|| format!("delay {text:?} is no duration"))?,
            None => DELAY,
        };
        let metrics = raw.metric.take().filter(|metrics| !metrics.is_empty());
        let metrics = metrics.ok_or("there is no [[check.metric]] table")?;
        let mut queries = Vec::new();
        for metric in metrics {
            queries.extend(metric.queries()?);
        }
        if queries.len() > METRICS_MAX {
            return Err(format!("there are {} series, above {METRICS_MAX}", queries.len()));
        }
        Ok(Self { url, region, access_key_id, secret, session_token, delay, queries })
    }
}

impl Metric {
    fn queries(self) -> Result<Vec<Query>, String> {
        let resolution = self.resolution.unwrap_or_else(|| "1m".into());
        let seconds = duration::parse(&resolution).map_or(0, |resolution| resolution.as_secs());
        let is_minutes = seconds > 0 && seconds.is_multiple_of(60) && seconds <= 86_400;
        if !is_minutes && !matches!(seconds, 1 | 5 | 10 | 20 | 30) {
            return Err(format!(
                "resolution {resolution:?} is none; there are 1s, 5s, 10s, 20s, 30s and whole minutes"
            ));
        }
        if let Some(wrong) = self.statistics.iter().find(|statistic| !is_statistic(statistic)) {
            return Err(format!(
                "statistic {wrong:?} is none; there are Average, Sum, Minimum, Maximum, SampleCount and p99.9"
            ));
        }
        let space = self.namespace.strip_prefix("AWS/").unwrap_or(&self.namespace);
        let metric = format!("aws_{}_{}", snake(space), snake(&self.name));
        let dimensions: Vec<(String, String)> = self.dimensions.into_iter().collect();
        let of = |statistic: String| Query {
            metric: metric.clone(),
            statistic,
            seconds: seconds as u32,
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            dimensions: dimensions.clone(),
        };
        Ok(self.statistics.into_iter().map(of).collect())
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn is_statistic(text: &str) -> bool {
    const NAMES: [&str; 6] = ["Average", "Sum", "Minimum", "Maximum", "SampleCount", "IQM"];
    let percent = ["tm", "wm", "tc", "ts", "p"].iter().find_map(|name| text.strip_prefix(name)?.parse::<f64>().ok());
    NAMES.contains(&text) || percent.is_some_and(|percent| (0.0..=100.0).contains(&percent))
}

pub(super) async fn run(network: &Network, run: &mut Run, ask: &MetricQuery, wall: WallNs) -> Result<(), Failure> {
    let secret = network.words(&ask.secret).await?;
    let (mut points, mut values) = (vec![0_u64; ask.queries.len()], 0);
    for chunk in &requests(&ask.queries) {
        let queries: Vec<&Query> = chunk.iter().map(|at| &ask.queries[*at]).collect();
        let mut counts = vec![0_u64; queries.len()];
        let mut next = None;
        for _ in 0..PAGES_MAX {
            let body = question(ask, &queries, wall, next.as_deref());
            let page = page(network, run, ask, &secret, wall, &body).await?;
            values = page.counted(values)?;
            page.tell(run, ask, &queries, &mut counts);
            next = page.next.filter(|token| !token.is_empty());
            if next.is_none() {
                break;
            }
        }
        if next.is_some() {
            return Err(Failure::new(Reason::Limit, format!("the answer has more than {PAGES_MAX} pages")));
        }
        for (at, count) in chunk.iter().zip(counts) {
            points[*at] += count;
        }
    }
    for (query, points) in ask.queries.iter().zip(points) {
        let labels = [("metric", query.metric.as_str()), ("statistic", query.statistic.as_str())];
        let mut labels: Vec<(&str, &str)> = labels.to_vec();
        let named: Vec<(String, &str)> = query.labels();
        labels.extend(named.iter().map(|(name, value)| (name.as_str(), *value)));
        run.labelled("ogive_check_cloudwatch_points", "", &labels, points as f64);
    }
    Ok(())
}

/// Which queries go together: those of one resolution, as a request has one range of time. The five days of a daily
/// metric would be 7,200 values of one by the minute.
fn requests(queries: &[Query]) -> Vec<Vec<usize>> {
    let mut by_resolution = BTreeMap::<u32, Vec<usize>>::new();
    for (at, query) in queries.iter().enumerate() {
        by_resolution.entry(query.seconds).or_default().push(at);
    }
    by_resolution.values().flat_map(|all| all.chunks(QUERIES_MAX).map(<[usize]>::to_vec)).collect()
}

impl Query {
    fn labels(&self) -> Vec<(String, &str)> {
        self.dimensions.iter().map(|(name, value)| (format!("dimension_{name}"), value.as_str())).collect()
    }
}

impl Page {
    /// How many values there are with the ones `before` it.
    fn counted(&self, before: usize) -> Result<usize, Failure> {
        let all = before + self.results.iter().map(|series| series.values.len()).sum::<usize>();
        let too_many = || Failure::new(Reason::Limit, format!("the answer has more than {VALUES_MAX} values"));
        if all > VALUES_MAX { Err(too_many()) } else { Ok(all) }
    }

    /// Reports the values of `queries`, and adds how many there were of each to `points`.
    fn tell(&self, run: &mut Run, ask: &MetricQuery, queries: &[&Query], points: &mut [u64]) {
        for series in &self.results {
            let at = series.id.strip_prefix('m').and_then(|at| at.parse::<usize>().ok());
            let Some((query, points)) = at.and_then(|at| queries.get(at).zip(points.get_mut(at))) else { continue };
            *points += reported(run, ask, query, series);
        }
    }
}

/// Any bytes as a page.
#[cfg(any(test, feature = "fuzz"))]
pub(super) fn fuzz(run: &mut Run, ask: &MetricQuery, bytes: &[u8]) {
    if let Ok(page) = decoded(bytes)
        && page.counted(0).is_ok()
    {
        page.tell(run, ask, &ask.queries.iter().collect::<Vec<_>>(), &mut vec![0; ask.queries.len()]);
    }
}

/// The request of one page.
fn question(ask: &MetricQuery, queries: &[&Query], wall: WallNs, next: Option<&str>) -> String {
    let period = queries.first().map_or(60, |query| i64::from(query.seconds));
    // On whole periods, so that each has all of its values.
    let end = (wall.0 / 1_000_000_000 - ask.delay.as_secs() as i64).div_euclid(period) * period;
    let start = end - period * i64::from(WINDOW);
    let queries: Vec<serde_json::Value> = queries
        .iter()
        .enumerate()
        .map(|(at, query)| {
            let dimensions: Vec<serde_json::Value> =
                query.dimensions.iter().map(|(name, value)| json!({"Name": name, "Value": value})).collect();
            let metric = json!({"Namespace": query.namespace, "MetricName": query.name, "Dimensions": dimensions});
            let stat = json!({"Metric": metric, "Period": query.seconds, "Stat": query.statistic});
            json!({"Id": format!("m{at}"), "MetricStat": stat, "ReturnData": true})
        })
        .collect();
    let mut body = json!({
        "StartTime": start, "EndTime": end, "ScanBy": "TimestampAscending", "MetricDataQueries": queries,
    });
    if let Some(token) = next {
        body["NextToken"] = token.into();
    }
    body.to_string()
}

async fn page(
    network: &Network,
    run: &mut Run,
    ask: &MetricQuery,
    secret: &str,
    wall: WallNs,
    body: &str,
) -> Result<Page, Failure> {
    let request = request(ask, secret, wall, body)?;
    let response = http::send(network, run, &ask.url, &Trust::default(), request).await?;
    let status = response.status();
    run.phase("body");
    let read = http::body(response, PAGE_BYTES_MAX).await?;
    if read.is_cut {
        return Err(Failure::new(Reason::Limit, format!("the answer has more than {PAGE_BYTES_MAX} bytes")));
    }
    if !status.is_success() {
        let text = String::from_utf8_lossy(&read.bytes);
        let is_login =
            ["AccessDenied", "Signature", "Token", "MissingAuthentication"].iter().any(|word| text.contains(word));
        let reason = if is_login { Reason::Login } else { Reason::Status };
        return Err(Failure::new(reason, format!("CloudWatch answers {status}: {text}")));
    }
    decoded(&read.bytes)
}

fn decoded(bytes: &[u8]) -> Result<Page, Failure> {
    serde_json::from_slice(bytes)
        .map_err(|error| Failure::new(Reason::Protocol, format!("the answer is none of GetMetricData: {error}")))
}

fn request(ask: &MetricQuery, secret: &str, wall: WallNs, body: &str) -> Result<Request<Body>, Failure> {
    let (host, date) = (authority(&ask.url), date(wall));
    let mut headers = vec![("content-type", KIND), ("host", host), ("x-amz-date", date.as_str())];
    headers.extend(ask.session_token.as_deref().map(|token| ("x-amz-security-token", token)));
    headers.push(("x-amz-target", TARGET));
    let signer = Signer {
        access_key_id: &ask.access_key_id,
        secret_access_key: secret,
        region: &ask.region,
        service: "monitoring",
    };
    let requested = SignedRequest { method: "POST", path: ask.url.path(), headers: &headers, body: body.as_bytes() };
    let authorization = signer.authorization(&requested, &date);
    let mut request = Request::post(target(&ask.url)).header(header::USER_AGENT, AGENT);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.header(header::AUTHORIZATION, authorization).body(Body::from(body.to_owned()));
    request.map_err(|error| Failure::new(Reason::Local, error.to_string()))
}

/// Reports the values of a series, and how many there were.
fn reported(run: &mut run::Run, ask: &MetricQuery, query: &Query, series: &Series) -> u64 {
    let dimensions = query.labels();
    let mut labels = vec![("statistic", query.statistic.as_str()), ("region", ask.region.as_str())];
    labels.extend(dimensions.iter().map(|(name, value)| (name.as_str(), *value)));
    let pairs = series.times.iter().zip(&series.values);
    for (time, value) in pairs.clone() {
        // A time is where the period begins, and a sample is at the end of what it covers.
        let time_ns = (time + f64::from(query.seconds)) * 1e9;
        run.figure(&query.metric, "", &labels, Some(WallNs(time_ns as i64)), Value::Float(*value));
    }
    pairs.count() as u64
}

#[cfg(test)]
mod tests {
    use ogive_probe::Clock;
    use proptest::prelude::*;

    use super::*;
    use crate::config::Config;

    const TABLE: &str = "
        [[check]]
        name = 'queues'
        kind = 'cloudwatch'
        region = 'eu-west-1'
        access_key_id = 'id'
        secret_access_key = 'secret'
        [[check.metric]]
        namespace = 'AWS/SQS'
        name = 'ApproximateAgeOfOldestMessage'
        dimensions = {QueueName = 'orders'}
        statistics = ['Maximum', 'p99.9']
        resolution = '5m'
    ";

    fn ask(table: &str) -> Result<MetricQuery, String> {
        let mut config = Config::parse(table)?;
        match config.check.remove(0).ask {
            crate::config::Probe::CloudWatch(ask) => Ok(*ask),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_request_asks_for_whole_periods_of_each_statistic() {
        let ask = ask(TABLE).unwrap();
        assert_eq!(ask.url.to_string(), "https://monitoring.eu-west-1.amazonaws.com/");
        // 12:34:56, less two minutes: periods of five minutes end at 12:30.
        let wall = WallNs((1_700_000_000 / 86_400 * 86_400 + 12 * 3_600 + 34 * 60 + 56) * 1_000_000_000);
        let queries: Vec<&Query> = ask.queries.iter().collect();
        let body: serde_json::Value = serde_json::from_str(&question(&ask, &queries, wall, Some("t"))).unwrap();
        let (start, end) = (body["StartTime"].as_i64().unwrap(), body["EndTime"].as_i64().unwrap());
        assert_eq!((end % 86_400, end - start), (12 * 3_600 + 30 * 60, 1_500));
        assert_eq!(body["NextToken"], "t");
        assert_eq!(
            body["MetricDataQueries"][1],
            json!({"Id": "m1", "ReturnData": true, "MetricStat": {"Period": 300, "Stat": "p99.9", "Metric": {
                "Namespace": "AWS/SQS", "MetricName": "ApproximateAgeOfOldestMessage",
                "Dimensions": [{"Name": "QueueName", "Value": "orders"}]}}})
        );
        let request = request(&ask, "secret", wall, "{}").unwrap();
        let signed = request.headers()["authorization"].to_str().unwrap();
        assert!(signed.contains("SignedHeaders=content-type;host;x-amz-date;x-amz-target,"), "{signed}");
    }

    /// One request for a metric by the day and others by the minute asked for five days of minutes: 7,200 values of
    /// each.
    #[test]
    fn each_resolution_is_asked_for_by_itself() {
        let query = |seconds| Query { seconds, ..ask(TABLE).unwrap().queries.remove(0) };
        let mut queries = vec![query(86_400), query(60), query(86_400)];
        assert_eq!(requests(&queries), [vec![1], vec![0, 2]]);
        queries.resize(2 * QUERIES_MAX + 1, query(60));
        let sizes: Vec<usize> = requests(&queries).iter().map(Vec::len).collect();
        assert_eq!(sizes, [QUERIES_MAX, QUERIES_MAX - 1, 2]);
    }

    #[test]
    fn mistakes_are_reported() {
        for (from, to, sentence) in [
            ("region = 'eu-west-1'", "", "region is missing"),
            ("resolution = '5m'", "resolution = '7s'", "resolution \"7s\" is none"),
            ("p99.9", "p101", "statistic \"p101\" is none"),
            ("access_key_id = 'id'", "", "give both access_key_id"),
            ("namespace", "nmaespace", "unknown field `nmaespace`"),
        ] {
            let found = ask(&TABLE.replace(from, to)).unwrap_err();
            assert!(found.contains(sentence), "{found}");
        }
    }

    const ANSWER: &str = r#"{"MetricDataResults":[{"Id":"m0","Label":"x","Timestamps":[1.7e9,1700000300],
        "Values":[1.5,-2e3],"StatusCode":"Complete"},{"Id":"m1"}],"NextToken":null,"Messages":[]}"#;

    #[test]
    fn values_are_reported_as_they_came() {
        let (ask, page) = (ask(TABLE).unwrap(), decoded(ANSWER.as_bytes()).unwrap());
        let mut run = Run::begin(Clock::manual(1_000, 1_700_000_000_000_000_000));
        let counts: Vec<u64> =
            page.results.iter().map(|series| reported(&mut run, &ask, &ask.queries[0], series)).collect();
        assert_eq!((counts, page.results[1].id.as_str(), page.next), (vec![2, 0], "m1", None));
    }

    /// A page of 16 MiB has four million values, and a run may have a hundred of them: all would be in memory at once.
    #[test]
    fn a_run_has_so_many_values() {
        let page = decoded(ANSWER.as_bytes()).unwrap();
        assert_eq!(page.counted(VALUES_MAX - 2), Ok(VALUES_MAX));
        assert_eq!(page.counted(VALUES_MAX - 1).unwrap_err().reason, Reason::Limit);
    }

    proptest! {
        #[test]
        fn a_damaged_answer_may_come(at in 0..ANSWER.len(), byte: u8, cut in 0..ANSWER.len()) {
            let ask = ask(TABLE).unwrap();
            let mut bytes = ANSWER.as_bytes().to_vec();
            bytes[at] = byte;
            for bytes in [&bytes[..], &bytes[..cut]] {
                for series in decoded(bytes).into_iter().flat_map(|page| page.results) {
                    let mut run = Run::begin(Clock::manual(1_000, 1_700_000_000_000_000_000));
                    let count = reported(&mut run, &ask, &ask.queries[0], &series);
                    prop_assert_eq!(count as usize, series.times.len().min(series.values.len()));
                }
            }
        }
    }
}
