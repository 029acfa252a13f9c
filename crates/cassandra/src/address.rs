//! The address of a cluster and its options: `cassandra://HOST[:PORT],HOST/KEYSPACE?name=value&…`.

use std::path::PathBuf;
use std::time::Duration;

use ogive_text::{duration, size};

use crate::{Error, RetentionPeriods, Tls};

/// What an address says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// `HOST:PORT` of nodes to begin with; the others are found through them.
    pub hosts: Vec<String>,
    /// Of our tables.
    pub keyspace: String,
    /// Name to log in with.
    pub user: Option<String>,
    /// File whose first line is the password.
    pub password_file: Option<PathBuf>,
    /// How nodes are believed; without it connections are in the clear.
    pub tls: Option<Tls>,
    /// Datacentre whose nodes are asked first, and which holds the copies of a new keyspace.
    pub datacentre: String,
    /// Copies of each row of a new keyspace.
    pub replicas: u8,
    /// How long fragments of a minute and series wait for each other before they become a row.
    pub collect: Duration,
    /// How often what this node wrote is compared with what each copy holds; zero is never.
    pub audit: Duration,
    /// How long the tables keep rows; None leaves them as they are, and keeps those of new ones for ever.
    pub retention: Option<RetentionPeriods>,
    /// Queries of the last so long are answered by whichever copy is first; zero is none.
    pub live: Duration,
    /// What happens when the spool is full.
    pub overflow: Overflow,
    /// Most bytes of the spool on this node's disk.
    pub spool_bytes_max: u64,
    /// Most bytes of fragments in memory that the cluster does not have yet.
    pub pending_bytes_max: u64,
}

/// What a node does when its spool holds as much as it may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// Batches are refused, and senders try again.
    #[default]
    Refuse,
    /// The spool lets go of what a majority has, and the minutes are marked: they need repair.
    Release,
}

const SCHEME: &str = "cassandra://";
const PARAMETERS: &str = "user, password-file, tls, ca-file, cert-file, key-file, datacentre, replicas, collect, audit, retention, spool, overflow, live and pending";
/// The port of CQL.
const PORT: u16 = 9042;
/// 48 bytes: what Cassandra takes as the name of a keyspace.
const KEYSPACE_BYTES_MAX: usize = 48;
/// 10 s: what another node sees at the latest after that, and six rows a minute and series at most.
const COLLECT: Duration = Duration::from_secs(10);
/// 50 ms: more often than that groups have no company.
const COLLECT_MIN: Duration = Duration::from_millis(50);
/// A row belongs to one minute, so waiting longer makes no larger rows.
const COLLECT_MAX: Duration = Duration::from_secs(60);
/// 10 min: a partition is read once for ten minutes of rows, which costs far less than writing them.
const AUDIT: Duration = Duration::from_secs(600);
/// An hour: what a start audits again.
const AUDIT_MAX: Duration = Duration::from_secs(3_600);
/// 1 s: more often nothing new is settled.
const AUDIT_MIN: Duration = Duration::from_secs(1);
/// 8 GiB: an hour of 50,000 series with a cell of 40 bytes a second.
const SPOOL_BYTES_MAX: u64 = 8 << 30;
/// 256 MiB: a minute of the same with the index of what waits.
const PENDING_BYTES_MAX: u64 = 256 << 20;

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// [`Error::Address`] with what is wrong.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |what: String| Error::Address(format!("--store {text}: {what}"));
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| wrong(format!("it does not begin with {SCHEME}")))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, keyspace) =
            place.split_once('/').ok_or_else(|| wrong("a keyspace is missing: cassandra://HOST/KEYSPACE".into()))?;
        let hosts: Result<Vec<String>, String> = hosts.split(',').map(host).collect();
        let mut address = Self {
            hosts: hosts.map_err(&wrong)?,
            keyspace: self::keyspace(keyspace).map_err(&wrong)?,
            user: None,
            password_file: None,
            tls: None,
            datacentre: "dc1".into(),
            replicas: 3,
            collect: COLLECT,
            audit: AUDIT,
            retention: None,
            overflow: Overflow::Refuse,
            live: Duration::ZERO,
            spool_bytes_max: SPOOL_BYTES_MAX,
            pending_bytes_max: PENDING_BYTES_MAX,
        };
        let mut parts = TlsParts::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or_else(|| wrong(format!("{pair} has no value")))?;
            if !parts.set(name, value).map_err(&wrong)? {
                address.set(name, value).map_err(&wrong)?;
            }
        }
        address.tls = parts.tls().map_err(&wrong)?;
        if address.user.is_some() != address.password_file.is_some() {
            return Err(wrong("user and password-file belong together".into()));
        }
        Ok(address)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let time = || duration::parse(value).ok_or_else(|| format!("{name}={value} is no duration such as 10s"));
        match name {
            "user" => self.user = Some(value.into()),
            "password-file" => self.password_file = Some(value.into()),
            "datacentre" if is_name(value) => self.datacentre = value.into(),
            "datacentre" => return Err(format!("{value} is no name of a datacentre: letters, digits, - and _")),
            "replicas" => {
                let replicas = value.parse().ok().filter(|count| (1..=9).contains(count));
                self.replicas = replicas.ok_or_else(|| format!("replicas={value} is not from 1 to 9"))?;
            }
            "collect" => {
                self.collect = time()?;
                if !(COLLECT_MIN..=COLLECT_MAX).contains(&self.collect) {
                    return Err(format!("collect={value} is not from 50ms to a minute"));
                }
            }
            "audit" => {
                self.audit = time()?;
                if !self.audit.is_zero() && !(AUDIT_MIN..=AUDIT_MAX).contains(&self.audit) {
                    return Err(format!("audit={value} is neither 0s nor from 1s to an hour"));
                }
            }
            "live" => self.live = time()?,
            "retention" => self.retention = Some(RetentionPeriods::parse(value)?),
            "overflow" => {
                self.overflow = match value {
                    "refuse" => Overflow::Refuse,
                    "release" => Overflow::Release,
                    _ => return Err(format!("overflow={value} is neither refuse nor release")),
                };
            }
            "spool" => self.spool_bytes_max = size::parse(value)?,
            "pending" => self.pending_bytes_max = size::parse(value)?,
            _ => return Err(format!("nothing is called {name}; there are {PARAMETERS}")),
        }
        Ok(())
    }
}

/// What an address says of TLS.
#[derive(Default)]
struct TlsParts {
    is_on: Option<bool>,
    ca_file: Option<PathBuf>,
    cert_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
}

impl TlsParts {
    /// Takes a parameter; whether it is one of these.
    fn set(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "tls" => match value {
                "on" => self.is_on = Some(true),
                "off" => self.is_on = Some(false),
                _ => return Err(format!("tls={value} is neither on nor off")),
            },
            "ca-file" => self.ca_file = Some(value.into()),
            "cert-file" => self.cert_file = Some(value.into()),
            "key-file" => self.key_file = Some(value.into()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn tls(self) -> Result<Option<Tls>, String> {
        let Self { is_on, ca_file, cert_file, key_file } = self;
        let has_files = ca_file.is_some() || cert_file.is_some() || key_file.is_some();
        if !is_on.unwrap_or(has_files) {
            return if has_files { Err("tls=off and a file of TLS exclude each other".into()) } else { Ok(None) };
        }
        match (cert_file, key_file) {
            (None, None) => Ok(Some(Tls { ca_file, identity_files: None })),
            (Some(certificate), Some(key)) => Ok(Some(Tls { ca_file, identity_files: Some((certificate, key)) })),
            _ => Err("cert-file and key-file belong together".into()),
        }
    }
}

fn host(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c == '@') {
        return Err(format!("{text:?} is no host; give HOST or HOST:PORT, with commas between"));
    }
    match text.rsplit_once(':') {
        Some((name, port)) if !name.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0) => Ok(text.into()),
        Some(_) => Err(format!("{text} has no port that can be")),
        None => Ok(format!("{text}:{PORT}")),
    }
}

fn keyspace(text: &str) -> Result<String, String> {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let is_good = text.len() <= KEYSPACE_BYTES_MAX
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(is_letter);
    let sentence = || format!("{text:?} is no keyspace: small letters, digits and _, at most {KEYSPACE_BYTES_MAX}");
    if is_good { Ok(text.into()) } else { Err(sentence()) }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_hosts_a_keyspace_and_what_differs() {
        let plain = Address::parse("cassandra://a,b:9142,[::1]:9042/ogive").unwrap();
        assert_eq!(plain.hosts, ["a:9042", "b:9142", "[::1]:9042"]);
        assert_eq!((plain.keyspace.as_str(), plain.replicas, plain.collect), ("ogive", 3, COLLECT));
        let full = "cassandra://a/k_2?user=u&password-file=/p&replicas=1&collect=1s&retention=1s=30d,1h=1y&spool=1GiB&pending=1MiB&overflow=release";
        let full = Address::parse(full).unwrap();
        assert_eq!((full.user.as_deref(), full.replicas), (Some("u"), 1));
        assert_eq!((full.collect, full.overflow), (Duration::from_secs(1), Overflow::Release));
        assert_eq!(full.retention, Some(RetentionPeriods::parse("1s=30d,1h=1y").unwrap()));
        assert_eq!((plain.retention, plain.overflow), (None, Overflow::Refuse));
        assert_eq!((full.spool_bytes_max, full.pending_bytes_max), (1 << 30, 1 << 20));
    }

    #[test]
    fn a_file_of_tls_switches_it_on() {
        let tls = |query: &str| Address::parse(&format!("cassandra://a/k?{query}")).unwrap().tls;
        assert_eq!((tls(""), tls("tls=off"), tls("tls=on")), (None, None, Some(Tls::default())));
        let full = Tls { ca_file: Some("/ca".into()), identity_files: Some(("/c".into(), "/k".into())) };
        assert_eq!(tls("ca-file=/ca&cert-file=/c&key-file=/k"), Some(full));
    }

    #[test]
    fn a_wrong_address_says_what_is_wrong() {
        for (text, part) in [
            ("http://a/k", "does not begin"),
            ("cassandra://a", "keyspace is missing"),
            ("cassandra://a,/k", "no host"),
            ("cassandra://a:0/k", "no port"),
            ("cassandra://u@a/k", "no host"),
            ("cassandra://a/K", "no keyspace"),
            ("cassandra://a/k;drop", "no keyspace"),
            ("cassandra://a/k?replicas=0", "not from 1 to 9"),
            ("cassandra://a/k?collect=61s", "to a minute"),
            ("cassandra://a/k?collect=49ms", "not from 50ms"),
            ("cassandra://a/k?collect=x", "no duration"),
            ("cassandra://a/k?audit=999ms", "from 1s to an hour"),
            ("cassandra://a/k?audit=3601s", "from 1s to an hour"),
            ("cassandra://a/k?overflow=x", "neither refuse nor release"),
            ("cassandra://a/k?retention=1d=1d", "there are 1s"),
            ("cassandra://a/k?user=u", "belong together"),
            ("cassandra://a/k?cert-file=/c", "belong together"),
            ("cassandra://a/k?tls=yes", "neither on nor off"),
            ("cassandra://a/k?tls=off&ca-file=/c", "exclude each other"),
            ("cassandra://a/k?datacentre=a'b", "no name of a datacentre"),
            ("cassandra://a/k?colect=1s", "nothing is called colect"),
            ("cassandra://a/k?collect", "has no value"),
        ] {
            let error = Address::parse(text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
