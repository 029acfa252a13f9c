//! Configuration: the `[[check]]` tables of a TOML file (docs/checks.md).
//!
//! Invariants: a file is accepted as a whole or not at all; a key that is unknown, or that does not apply to the
//! check's kind, is an error.
//! Limits: [`FILE_BYTES_MAX`], [`CHECKS_MAX`], [`PERIOD_MIN`], [`PERIOD_MAX`].
//! Failure: a message with the line of the table or of the key.

use std::collections::BTreeSet;
use std::time::Duration;

use ogive_model::Labels;
use serde::Deserialize;

use super::brokers::Brokers;
use super::command::External;
use super::dns::Dns;
use super::elasticsearch::Elasticsearch;
use super::greeting::{self, Greeting};
use super::grpc::Grpc;
use super::haproxy::HaProxy;
use super::jolokia::Jolokia;
use super::ldap::Ldap;
use super::mongodb::MongoDb;
use super::plan::GAP_MIN;
use super::raw::{QueryKey, Raw};
use super::request::Http;
use super::snmp::Snmp;
use super::sql::Database;
use super::steps::Steps;
use super::target::{HostAndPort, Login, OWN_LABELS, Trust, login, place, target, tls, trust};
use super::varnish::Varnish;
use super::websocket::WebSocket;
use ogive_text::duration;
use ogive_text::mistake::{Mistake, Step};
use ogive_text::near::suggestion;

/// 4 MiB: ten thousand checks with some labels.
pub(super) const FILE_BYTES_MAX: usize = 4 << 20;
/// 10,000 checks, at most [`super::RUNNING_MAX`] of them at once.
const CHECKS_MAX: usize = 10_000;
/// A second: the width of a cell.
const PERIOD_MIN: Duration = Duration::from_secs(1);
/// A week: certificates are looked at more often.
const PERIOD_MAX: Duration = Duration::from_secs(7 * 86_400);
const PERIOD: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(10);
/// 10 pings of one run.
const COUNT_MAX: u32 = 10;
const KINDS: [&str; 27] = [
    "http",
    "grpc",
    "websocket",
    "tcp",
    "tls",
    "dns",
    "icmp",
    "ntp",
    "snmp",
    "ssh",
    "smtp",
    "imap",
    "pop3",
    "ldap",
    "postgres",
    "mysql",
    "mongodb",
    "redis",
    "memcached",
    "haproxy",
    "varnish",
    "jolokia",
    "elasticsearch",
    "nagios",
    "command",
    "cloudwatch",
    "lua",
];

/// The tables of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// By the names that they were given.
    pub(super) check: Vec<Check>,
    /// The file says that there are none.
    pub(super) is_empty_list: bool,
}

/// As they are written, each with its place.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    check: Option<Vec<toml::Spanned<Raw>>>,
}

/// One check.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Raw")]
pub struct Check {
    /// Its name, which no other has.
    pub name: String,
    /// All labels that its series have.
    pub(super) labels: Vec<(String, String)>,
    pub(super) period: Duration,
    pub(super) timeout: Duration,
    pub(super) ask: Probe,
    /// What the file says, to notice a change.
    raw: Raw,
}

impl PartialEq for Check {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

/// What is asked of whom.
#[derive(Clone, Debug)]
pub(super) enum Probe {
    Http(Box<Http>),
    Steps(Box<Steps>),
    Grpc(Box<Grpc>),
    WebSocket(Box<WebSocket>),
    Tcp(HostAndPort),
    Tls(HostAndPort, Trust),
    Dns(Dns),
    Icmp {
        host: String,
        count: u32,
    },
    Postgres(Box<Database>),
    MySql(Box<Database>),
    MongoDb(Box<MongoDb>),
    Redis(Login),
    Memcached(HostAndPort, Option<Trust>),
    Ntp(HostAndPort),
    Snmp(Box<Snmp>),
    Greeting(Greeting),
    Ldap(Box<Ldap>),
    HaProxy(HaProxy),
    Varnish(Varnish),
    Jolokia(Box<Jolokia>),
    Elasticsearch(Elasticsearch),
    Command(External),
    #[cfg(feature = "lua")]
    Lua(super::lua::Script),
    CloudWatch(Box<super::cloudwatch::MetricQuery>),
}

impl Config {
    /// Reads the tables.
    pub fn parse(text: &str) -> Result<Self, String> {
        let tables: Tables = toml::from_str(text).map_err(|error| Mistake::from_toml(text, &error).to_string())?;
        let check = |raw: toml::Spanned<Raw>| {
            let at = raw.span().start;
            let check = Check::try_from(raw.into_inner());
            let check = check.and_then(|check| check.runs_alone().map(|()| check));
            check.map_err(|sentence| Mistake::at(text, at, sentence).to_string())
        };
        let is_empty_list = tables.check.as_ref().is_some_and(Vec::is_empty);
        let checks = tables.check.unwrap_or_default().into_iter().map(check).collect::<Result<_, _>>()?;
        let config = Self::new(checks).map_err(|clash| clash.mistake(text).to_string())?;
        Ok(Self { is_empty_list, ..config })
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.check.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.check.len()
    }

    /// The same checks with more labels; a check's own win.
    ///
    /// # Errors
    /// A label that is not allowed.
    pub fn with_labels(&self, labels: &[(String, String)]) -> Result<Self, String> {
        let labelled = |check: &Check| {
            let mut raw = check.raw.clone();
            for (name, value) in labels {
                raw.labels.entry(name.clone()).or_insert_with(|| value.clone());
            }
            Check::try_from(raw)
        };
        Ok(Self { check: self.check.iter().map(labelled).collect::<Result<_, _>>()?, ..*self })
    }

    /// The same checks; those that do not say how many brokers of a group run them run on `brokers`.
    #[must_use]
    pub fn with_brokers(mut self, brokers: Brokers) -> Self {
        for check in &mut self.check {
            check.raw.brokers = check.raw.brokers.or(Some(brokers));
        }
        self
    }

    /// The checks that only some of the brokers of a group run: names, and how many brokers.
    pub fn spread(&self) -> impl Iterator<Item = (&str, usize)> {
        self.check.iter().filter_map(|check| Some((check.name.as_str(), check.spread()?)))
    }

    /// What one broker of a group runs: the checks that run everywhere, and those others that `is_own` names.
    #[must_use]
    pub fn of_broker(&self, is_own: impl Fn(&str) -> bool) -> Self {
        let runs = |check: &&Check| check.spread().is_none() || is_own(&check.name);
        Self { check: self.check.iter().filter(runs).cloned().collect(), ..*self }
    }

    /// Each check's name, and why it needs a permission to come from elsewhere, if it does: it runs a program
    /// (`command`), or reads a file of this machine (`file`).
    pub fn needs(&self) -> impl Iterator<Item = (&str, &'static str)> {
        self.check.iter().flat_map(|check| {
            let (runs_program, reads_file) = match &check.ask {
                Probe::Varnish(_) => (true, false),
                Probe::HaProxy(proxy) => (false, proxy.is_local()),
                _ => (false, false),
            };
            let command = (runs_program || check.raw.command.is_some()).then_some("command");
            let file = (reads_file || check.raw.names_files()).then_some("file");
            command.into_iter().chain(file).map(|need| (check.name.as_str(), need))
        })
    }

    /// Checks of one file, when what holds for all of them together does.
    pub fn new(check: Vec<Check>) -> Result<Self, Clash> {
        let mut names = BTreeSet::new();
        if let Some((index, twice)) = check.iter().enumerate().find(|(_, check)| !names.insert(&check.name)) {
            let message = format!("check {:?} is there twice; series of both would be the same", twice.name);
            return Err(Clash { index, message });
        }
        if check.len() > CHECKS_MAX {
            let message = format!("there are {} checks, above {CHECKS_MAX}", check.len());
            return Err(Clash { index: CHECKS_MAX, message });
        }
        Ok(Self { check, is_empty_list: false })
    }
}

/// Checks that are good each by itself and cannot be together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clash {
    /// The first that is too much.
    index: usize,
    message: String,
}

impl Clash {
    /// Where it is in the file `text`.
    pub fn mistake(self, text: &str) -> Mistake {
        Mistake::at_path(text, &[Step::Key("check"), Step::Index(self.index)], self.message)
    }
}

impl TryFrom<Raw> for Check {
    type Error = String;

    fn try_from(raw: Raw) -> Result<Self, String> {
        let name = raw.name.clone();
        Self::from_raw(raw).map_err(|sentence| format!("check {name:?}: {sentence}"))
    }
}

impl Check {
    /// How many brokers of a group run it, where not all of them do.
    pub(super) fn spread(&self) -> Option<usize> {
        match self.raw.brokers {
            Some(Brokers::Some(count)) => Some(usize::from(count)),
            Some(Brokers::All) | None => None,
        }
    }

    /// Whether it can be in a file that one process alone reads.
    ///
    /// # Errors
    /// It says how many brokers run it, and there is only this process.
    pub fn runs_alone(&self) -> Result<(), String> {
        match self.raw.brokers {
            Some(_) => Err(format!("check {:?}: brokers means nothing here; it is for the file of a group", self.name)),
            None => Ok(()),
        }
    }

    fn from_raw(raw: Raw) -> Result<Self, String> {
        if raw.name.is_empty() {
            return Err("give it a name".into());
        }
        let time = |key: &str, text: &Option<String>| match text {
            None => Ok(None),
            Some(text) => {
                let found = duration::parse(text).filter(|time| !time.is_zero());
                found.map(Some).ok_or_else(|| format!("{key} {text:?} is no duration; write 30s, 1m30s or 500ms"))
            }
        };
        let period = time("period", &raw.period)?.unwrap_or(PERIOD);
        if !(PERIOD_MIN..=PERIOD_MAX).contains(&period) {
            let (least, most) = (duration::write(PERIOD_MIN), duration::write(PERIOD_MAX));
            return Err(format!("period {} is not between {least} and {most}", duration::write(period)));
        }
        let most = Duration::from_millis((period.as_millis() as f64 * GAP_MIN) as u64);
        let timeout = time("timeout", &raw.timeout)?.unwrap_or(TIMEOUT.min(most));
        if timeout > most {
            return Err(format!(
                "timeout {} is above {}: two runs may be half a period apart",
                duration::write(timeout),
                duration::write(most)
            ));
        }
        let mut left = raw.clone();
        let ask = ask(&mut left)?;
        if let Some(key) = left.left() {
            let with_steps = if raw.step.is_some() { " with steps; it belongs in a [[check.step]]" } else { "" };
            return Err(format!("{key} means nothing to the kind {}{with_steps}", raw.kind));
        }
        let labels = labels(&raw)?;
        Ok(Self { name: raw.name.clone(), labels, period, timeout, ask, raw })
    }
}

fn labels(raw: &Raw) -> Result<Vec<(String, String)>, String> {
    if let Some(own) = raw.labels.keys().find(|name| OWN_LABELS.contains(&name.as_str())) {
        return Err(format!("the label {own} is the check's own"));
    }
    let program = || raw.command.as_ref()?.first().cloned();
    let target =
        raw.target.clone().or_else(|| raw.region.clone()).or_else(|| raw.query.as_ref()?.name()).or_else(program);
    let target = target.unwrap_or_default();
    let own = [("check", raw.name.clone()), ("kind", raw.kind.clone()), ("target", without_login(&target))];
    let mut out: Vec<(String, String)> = own.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    out.extend(raw.labels.clone());
    Labels::new(out.iter().map(|(name, value)| (name.as_str(), value.as_str()))).map_err(|error| error.to_string())?;
    Ok(out)
}

/// A URL without the name and the password in it.
fn without_login(target: &str) -> String {
    match target.split_once("://") {
        Some((scheme, rest)) => {
            let end = rest.find('/').unwrap_or(rest.len());
            let host = rest[..end].rfind('@').map_or(0, |at| at + 1);
            format!("{scheme}://{}", &rest[host..])
        }
        None => target.to_owned(),
    }
}

/// What the kind makes of its keys; it takes those that it knows.
fn ask(raw: &mut Raw) -> Result<Probe, String> {
    match raw.kind.as_str() {
        "http" if raw.step.is_some() => Steps::from_raw(raw).map(|steps| Probe::Steps(Box::new(steps))),
        "http" => Http::from_raw(raw).map(|http| Probe::Http(Box::new(http))),
        "grpc" => Grpc::from_raw(raw).map(|grpc| Probe::Grpc(Box::new(grpc))),
        "websocket" => WebSocket::from_raw(raw).map(|socket| Probe::WebSocket(Box::new(socket))),
        "tcp" => Ok(Probe::Tcp(place(&target(raw)?, None)?)),
        "tls" => Ok(Probe::Tls(place(&target(raw)?, Some(443))?, trust(raw))),
        "dns" => dns(raw).map(Probe::Dns),
        "icmp" => {
            let count = raw.count.take().unwrap_or(3);
            if !(1..=COUNT_MAX).contains(&count) {
                return Err(format!("count {count} is not between 1 and {COUNT_MAX}"));
            }
            Ok(Probe::Icmp { host: target(raw)?, count })
        }
        "postgres" => Database::from_raw(raw, 5432, Some("postgres")).map(|server| Probe::Postgres(Box::new(server))),
        "mysql" => Database::from_raw(raw, 3306, None).map(|server| Probe::MySql(Box::new(server))),
        "mongodb" => MongoDb::from_raw(raw).map(|server| Probe::MongoDb(Box::new(server))),
        "redis" => login(raw, 6379).map(Probe::Redis),
        "memcached" => Ok(Probe::Memcached(place(&target(raw)?, Some(11_211))?, tls(raw))),
        "ntp" => Ok(Probe::Ntp(place(&target(raw)?, Some(123))?)),
        "snmp" => Snmp::from_raw(raw).map(|snmp| Probe::Snmp(Box::new(snmp))),
        "ssh" => Greeting::from_raw(raw, greeting::Protocol::Ssh).map(Probe::Greeting),
        "smtp" => Greeting::from_raw(raw, greeting::Protocol::Smtp).map(Probe::Greeting),
        "imap" => Greeting::from_raw(raw, greeting::Protocol::Imap).map(Probe::Greeting),
        "pop3" => Greeting::from_raw(raw, greeting::Protocol::Pop3).map(Probe::Greeting),
        "ldap" => Ldap::from_raw(raw).map(|ldap| Probe::Ldap(Box::new(ldap))),
        "haproxy" => HaProxy::from_raw(raw).map(Probe::HaProxy),
        "varnish" => Varnish::from_raw(raw).map(Probe::Varnish),
        "jolokia" => Jolokia::from_raw(raw).map(|agent| Probe::Jolokia(Box::new(agent))),
        "elasticsearch" => Elasticsearch::from_raw(raw).map(Probe::Elasticsearch),
        "nagios" | "command" => External::from_raw(raw).map(Probe::Command),
        "cloudwatch" => super::cloudwatch::MetricQuery::from_raw(raw).map(|ask| Probe::CloudWatch(Box::new(ask))),
        #[cfg(feature = "lua")]
        "lua" => super::lua::Script::from_raw(raw).map(Probe::Lua),
        #[cfg(not(feature = "lua"))]
        "lua" => Err("this ogive was built without Lua; build it with --features lua".into()),
        other => {
            let meant = suggestion(KINDS, other);
            Err(format!("there is no kind {other:?}; there are {}{meant}", KINDS.join(", ")))
        }
    }
}

fn dns(raw: &mut Raw) -> Result<Dns, String> {
    let server = raw.target.take().map(|target| place(&target, Some(53))).transpose()?;
    let Some(QueryKey::Name(query)) = raw.query.take() else {
        return Err("query is missing: the name that is asked for".into());
    };
    let record = raw.record.take().unwrap_or_else(|| "A".into());
    let record = super::dns::Record::parse(&record).ok_or_else(|| {
        format!("record {record:?} is none; there are {}", super::dns::Record::NAMES.map(|(name, _)| name).join(", "))
    })?;
    super::dns::check_name(&query)?;
    Ok(Dns { server, query, record, expect: raw.expect.take().unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Config::parse(text).unwrap_err()
    }

    const TCP: &str = "[[check]]\nname = \"a\"\nkind = \"tcp\"\ntarget = \"h:1\"\n";

    #[test]
    fn a_table_of_each_kind_is_read() {
        let text = "
            [[check]]
            name = 'shop'
            kind = 'http'
            target = 'https://shop.example.com/health'
            period = '30s'
            timeout = '5s'
            labels = {team = 'shop'}
            status = [200, 204]
            body_regex = 'ok'
            headers = {accept = 'text/plain'}
            [[check]]
            name = 'port'
            kind = 'tcp'
            target = '[::1]:80'
            [[check]]
            name = 'certificate'
            kind = 'tls'
            target = 'example.com'
            [[check]]
            name = 'name'
            kind = 'dns'
            target = '192.0.2.1'
            query = 'example.com'
            record = 'MX'
            [[check]]
            name = 'ping'
            kind = 'icmp'
            target = 'example.com'
            [[check]]
            name = 'database'
            kind = 'postgres'
            target = 'db'
            database = 'shop'
            password = 'x'
            tls = true
            ca_file = '/ca.pem'
            [[check]]
            name = 'cache'
            kind = 'redis'
            target = 'cache'
        ";
        let checks = Config::parse(text).unwrap().check;
        let names: Vec<&str> = checks.iter().map(|check| check.name.as_str()).collect();
        assert_eq!(names, ["shop", "port", "certificate", "name", "ping", "database", "cache"]);
        assert_eq!((checks[0].period, checks[0].timeout), (Duration::from_secs(30), Duration::from_secs(5)));
        assert_eq!((checks[1].period, checks[1].timeout), (PERIOD, TIMEOUT));
        let Probe::Tcp(place) = &checks[1].ask else { panic!("{:?}", checks[1].ask) };
        assert_eq!((place.host.as_str(), place.port), ("::1", 80));
        let Probe::Tls(place, _) = &checks[2].ask else { panic!("{:?}", checks[2].ask) };
        assert_eq!(place.port, 443);
        let Probe::Postgres(database) = &checks[5].ask else { panic!("{:?}", checks[5].ask) };
        let login = &database.login;
        assert_eq!((login.place.port, login.user.as_deref()), (5432, Some("postgres")));
        assert_eq!(login.database.as_deref(), Some("shop"));
        assert!(login.trust.is_some());
        assert!(!format!("{checks:?}").contains("\"x\""), "a password is shown");
        assert_eq!(checks[0].labels.last(), Some(&("team".into(), "shop".into())));
        assert!(Config::parse("").unwrap().check.is_empty());
    }

    #[test]
    fn kinds_have_their_usual_ports() {
        for (kind, keys, port) in [
            ("ntp", "", 123),
            ("ssh", "", 22),
            ("smtp", "", 25),
            ("smtp", "tls = true\ninsecure = true", 465),
            ("imap", "starttls = true\nca_file = '/ca.pem'", 143),
            ("imap", "tls = true", 993),
            ("pop3", "", 110),
            ("pop3", "tls = true", 995),
            ("memcached", "", 11_211),
            ("postgres", "", 5432),
            ("mysql", "user = 'u'", 3306),
        ] {
            let text = format!("[[check]]\nname = 'a'\nkind = '{kind}'\ntarget = 'h'\n{keys}");
            let ask = Config::parse(&text).unwrap().check.remove(0).ask;
            assert!(format!("{ask:?}").contains(&format!("port: {port} ")), "{kind} {keys}: {ask:?}");
        }
    }

    #[test]
    fn mistakes_are_reported_with_their_line() {
        for (text, sentence) in [
            ("\n\n[[check]]\nnmae = 'a'", "line 4: unknown field `nmae`"),
            ("[[chekc]]\nname = 'a'", "line 1: unknown field `chekc`"),
            ("[[check]]\nname = 'a'\nkind = 'tcp'", "line 1: check \"a\": target is missing"),
            ("x = [", "line 1: "),
        ] {
            let found = error(text);
            assert!(found.starts_with(sentence), "{found}");
        }
        let more = |line: &str| error(&format!("{TCP}{line}"));
        for (line, sentence) in [
            ("count = 3", "count means nothing to the kind tcp"),
            ("period = '1x'", "period \"1x\" is no duration"),
            ("period = '999ms'", "period 999ms is not between 1s and 1w"),
            ("period = '10s'\ntimeout = '6s'", "timeout 6s is above 5s100ms"),
            ("labels = {check = 'x'}", "the label check is the check's own"),
            ("labels = {'' = 'x'}", "label"),
        ] {
            assert!(more(line).contains(sentence), "{}", more(line));
        }
        assert!(error(&format!("{TCP}{TCP}")).contains("\"a\" is there twice"));
        for (kind, keys, sentence) in [
            ("nothing", "", "there is no kind \"nothing\""),
            ("http", "target = 'ftp://x/'", "is no http or https address"),
            ("http", "target = 'http://u:p@x/'", "a password does not belong"),
            ("http", "target = 'http://x/'\nbody_regex = '('", "body_regex: "),
            ("http", "target = 'http://x/'\nstatus = [99]", "status 99 is none"),
            ("http", "target = 'http://x/'\nredirects = 11", "redirects 11 is above 10"),
            ("dns", "target = 'x'", "query is missing"),
            ("redis", "target = 'h'\ncommunity = 'c'", "community means nothing to the kind redis"),
            ("dns", "query = 7", "expected a name to ask for, or [[check.query]] tables"),
            ("dns", "[[check.query]]\nmetric = 'm'\nsql = 'x'", "query is missing"),
            (
                "redis",
                "target = 'x'\n[[check.query]]\nmetric = 'm'\nsql = 'x'",
                "query means nothing to the kind redis",
            ),
            ("mysql", "target = 'x'", "user is missing"),
            ("mysql", "target = 'x'\nuser = 'u'\ninsecure = true", "insecure means nothing to the kind mysql"),
            ("mysql", "target = 'x'\nuser = 'u'\npassword = 'a'\npassword_file = '/b'", "not both"),
            ("dns", "query = 'x'\nexpect = true", "expected a string or a list of strings"),
            ("tcp", "target = 'x:1'\nservice = 's'", "service means nothing to the kind tcp"),
            ("http", "target = 'http://x/'\nexpect_regex = 'x'", "expect_regex means nothing to the kind http"),
            ("dns", "query = 'x'\nrecord = 'Q'", "record \"Q\" is none"),
            ("dns", "query = 'a..b'", "query"),
            ("tcp", "target = 'x'", "is not HOST:PORT"),
            ("icmp", "target = 'x'\ncount = 11", "count 11 is not between"),
            ("redis", "target = 'x'\npassword = 'a'\npassword_file = '/b'", "not both"),
            ("redis", "target = 'x'\nca_file = '/b'", "ca_file means nothing"),
            ("memcached", "target = 'x'\nuser = 'u'", "user means nothing to the kind memcached"),
            ("ssh", "target = 'x'\ntls = true", "tls means nothing to the kind ssh"),
            ("smtp", "target = 'x'\ntls = true\nstarttls = true", "not both"),
            ("imap", "target = 'x'\ninsecure = true", "insecure means nothing to the kind imap"),
            // It was taken and never used: PING asks no database.
            ("redis", "target = 'x'\ndatabase = '1'", "database means nothing to the kind redis"),
        ] {
            let found = error(&format!("[[check]]\nname = 'a'\nkind = '{kind}'\n{keys}"));
            assert!(found.contains(sentence), "{found}");
        }
    }

    #[test]
    fn mistakes_of_kinds_that_read_statistics_are_reported() {
        for (kind, keys, sentence) in [
            ("redis", "target = 'x'\nfields = ['a']", "fields means nothing to the kind redis"),
            ("haproxy", "", "target is missing"),
            ("haproxy", "target = 'h'", "is not HOST:PORT"),
            ("haproxy", "target = '/s'\nuser = 'u'", "user means nothing to the kind haproxy"),
            ("haproxy", "target = 'http://h/'\nuser = 'u'", "give both user and password"),
            ("haproxy", "target = '/s'\nfields = []", "fields is empty"),
            ("haproxy", "target = '/s'\nlabels = {server = 'x'}", "the label server is one that the kind stores"),
            ("varnish", "command = ['varnishstat']", "write the whole path"),
            ("varnish", "labels = {ident = 'x'}", "the label ident is one that the kind stores"),
            ("elasticsearch", "target = 'http://h/?x'", "target has a query"),
            ("elasticsearch", "target = 'http://h'\nhealth = 'blue'", "health \"blue\" is none of green, yellow, red"),
            ("elasticsearch", "target = 'http://h'\nfields = ['a/b']", "\"a/b\" is no part of the statistics"),
            ("jolokia", "target = 'http://h/jolokia'", "there is no [[check.read]] table"),
            ("mongodb", "target = 'http://h'", "target is no mongodb address"),
            ("mongodb", "target = 'mongodb://u:p@h'", "a login does not belong in the target"),
            ("mongodb", "target = 'a,b:1'", "several servers; write a check for each"),
            ("mongodb", "target = 'mongodb+srv://h'", "several servers; write a check for each"),
            ("mongodb", "target = 'mongodb://h/shop?tls=true'", "write them as keys of the check"),
            ("mongodb", "target = 'h'\nuser = 'u'", "give both user and password"),
            ("mongodb", "target = 'h'\ndatabase = 'shop'", "there is no user"),
            ("mongodb", "target = 'h'\nuser = 'u'\npassword = 'p'\ndatabase = 'a.b'", "\"a.b\" is no name of one"),
            ("mongodb", "target = 'h'\nca_file = '/b'", "ca_file means nothing"),
            ("mongodb", "target = 'h'\nlabels = {member = 'x'}", "the label member is one that the kind stores"),
            ("redis", "target = 'h'\nreplica_set = true", "replica_set means nothing to the kind redis"),
        ] {
            let found = error(&format!("[[check]]\nname = 'a'\nkind = '{kind}'\n{keys}"));
            assert!(found.contains(sentence), "{found}");
        }
    }

    #[test]
    fn limits_hold() {
        let tables = |count: usize| {
            let one = |at| format!("[[check]]\nname = '{at}'\nkind = 'tcp'\ntarget = 'h:1'\n");
            Config::parse(&(0..count).map(one).collect::<String>())
        };
        assert_eq!(tables(CHECKS_MAX).unwrap().check.len(), CHECKS_MAX);
        assert!(tables(CHECKS_MAX + 1).unwrap_err().contains("above 10000"));
    }

    #[test]
    fn a_check_may_be_for_some_of_the_brokers() {
        let of = |line: &str| {
            let table: toml::Table = toml::from_str(&format!("{TCP}{line}")).unwrap();
            let check = table["check"].as_array().unwrap()[0].clone().try_into::<Check>();
            check.map_err(|error| error.to_string()).map(|check| Config::new(vec![check]).unwrap())
        };
        let spread = |line: &str| {
            let config = of(line).unwrap();
            config.spread().map(|(_, count)| count).next()
        };
        assert_eq!((spread(""), spread("brokers = 'all'")), (None, None));
        assert_eq!(
            (spread("brokers = 1"), spread("brokers = 'one'"), spread("brokers = 16")),
            (Some(1), Some(1), Some(16))
        );
        for line in ["brokers = 0", "brokers = 17", "brokers = -1", "brokers = 'some'", "brokers = true"] {
            let said = of(line).unwrap_err();
            assert!(said.contains("\"all\", or a number from 1 to 16"), "{said}");
        }
        let by_default = |line: &str| of(line).unwrap().with_brokers(Brokers::Some(2));
        assert_eq!(by_default("").spread().collect::<Vec<_>>(), [("a", 2)]);
        assert_eq!(by_default("brokers = 1").spread().collect::<Vec<_>>(), [("a", 1)]);
        assert!(by_default("brokers = 'all'").spread().next().is_none());
        assert!(by_default("").of_broker(|_| false).is_empty());
        assert_eq!(by_default("").of_broker(|name| name == "a").len(), 1);
        assert_eq!(by_default("brokers = 'all'").of_broker(|_| false).len(), 1);
        // A server or a broker alone has nobody to divide it with.
        assert!(error(&format!("{TCP}brokers = 1")).contains("line 1: check \"a\": brokers means nothing here"));
    }

    #[test]
    fn a_password_in_an_address_is_no_label() {
        assert_eq!(without_login("amqp://u:p@h:1/x"), "amqp://h:1/x");
        assert_eq!(without_login("wss://u:p@h/x?y@z"), "wss://h/x?y@z");
        assert_eq!(without_login("h:1"), "h:1");
        assert_eq!(without_login("http://h/a@b"), "http://h/a@b");
    }
}
