//! The scrape configuration that is in force, as a file would have it: with every default, and without secrets.
//!
//! Format: `scrape_configs` of a prometheus.yml. What it says can be read again: the jobs are the same but for their
//! secrets.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Access, ConsulSource, DnsSource, Group, HttpSource, Job, Login, Pem, Protocol, RecordKind, Secret};
use crate::relabel::{Action, Rule};
use ogive_text::duration;

/// The replacement for a secret.
const SECRET: &str = "<secret>";

/// A piece of YAML, its keys in order.
enum Node {
    One(Value),
    List(Vec<Self>),
    Map(Vec<(String, Self)>),
}

/// The jobs as YAML; empty when there are none.
pub(crate) fn yaml<'a>(jobs: impl Iterator<Item = &'a Job>) -> String {
    let jobs: Vec<Node> = jobs.map(job).collect();
    let mut out = String::new();
    if !jobs.is_empty() {
        put(&mut out, 0, &Node::Map(vec![("scrape_configs".into(), Node::List(jobs))]));
    }
    out
}

fn put(out: &mut String, indent: usize, node: &Node) {
    let space = " ".repeat(indent);
    match node {
        Node::One(value) => out.push_str(&format!("{space}{value}\n")),
        // An item of a list must be written even if it is empty.
        Node::Map(pairs) if pairs.is_empty() => out.push_str(&format!("{space}{{}}\n")),
        Node::Map(pairs) => {
            for (key, node) in pairs {
                // A JSON text is a text in YAML too.
                let is_plain = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
                let key = if is_plain { key.clone() } else { json!(key).to_string() };
                match node {
                    Node::One(value) => out.push_str(&format!("{space}{key}: {value}\n")),
                    Node::List(items) => {
                        out.push_str(&format!("{space}{key}:\n"));
                        items.iter().for_each(|item| put_item(out, indent, item));
                    }
                    Node::Map(_) => {
                        out.push_str(&format!("{space}{key}:\n"));
                        put(out, indent + 2, node);
                    }
                }
            }
        }
        Node::List(items) => items.iter().for_each(|item| put_item(out, indent, item)),
    }
}

fn put_item(out: &mut String, indent: usize, item: &Node) {
    let from = out.len();
    put(out, indent + 2, item);
    out.replace_range(from + indent..from + indent + 1, "-");
}

/// Keys of a map; empty values are left out.
#[derive(Default)]
struct Keys(Vec<(String, Node)>);

impl Keys {
    fn one(&mut self, key: &str, value: impl Into<Value>) {
        self.0.push((key.into(), Node::One(value.into())));
    }

    /// Unless it is zero, which means no limit.
    fn limit(&mut self, key: &str, value: u64) {
        if value > 0 {
            self.one(key, value);
        }
    }

    fn texts(&mut self, key: &str, texts: impl Iterator<Item = String>) {
        self.list(key, texts.map(|text| Node::One(text.into())).collect());
    }

    fn list(&mut self, key: &str, items: Vec<Node>) {
        if !items.is_empty() {
            self.0.push((key.into(), Node::List(items)));
        }
    }

    fn map(&mut self, key: &str, keys: Self) {
        if !keys.0.is_empty() {
            self.0.push((key.into(), Node::Map(keys.0)));
        }
    }

    /// `key`, or `key_file` for a secret in a file.
    fn secret(&mut self, key: &str, secret: &Secret) {
        match secret {
            Secret::Here(words) if words.is_empty() => {}
            Secret::Here(_) => self.one(key, SECRET),
            Secret::In(path) => self.one(&format!("{key}_file"), path.display().to_string()),
        }
    }

    fn pem(&mut self, key: &str, pem: &Pem, is_secret: bool) {
        match pem {
            Pem::Here(_) if is_secret => self.one(key, SECRET),
            Pem::Here(text) => self.one(key, text.as_str()),
            Pem::In(path) => self.one(&format!("{key}_file"), path.display().to_string()),
        }
    }
}

fn job(job: &Job) -> Node {
    let mut keys = Keys::default();
    let time = |time: Duration| duration::write(time);
    keys.one("job_name", job.name.as_str());
    if !job.tenant.is_default() {
        keys.one("tenant", job.tenant.as_str());
    }
    keys.one("honor_labels", job.honor_labels);
    keys.one("honor_timestamps", job.honor_timestamps);
    keys.one("track_timestamps_staleness", job.track_timestamps);
    let mut params = Keys::default();
    job.params.iter().for_each(|(name, values)| params.texts(name, values.iter().cloned()));
    keys.map("params", params);
    keys.one("scrape_interval", time(job.interval));
    keys.one("scrape_timeout", time(job.timeout));
    keys.texts("scrape_protocols", job.protocols.iter().map(|protocol| name(*protocol)));
    if let Some(fallback) = job.fallback {
        keys.one("fallback_scrape_protocol", name(fallback));
    }
    keys.one("scrape_native_histograms", job.natives);
    keys.one("always_scrape_classic_histograms", job.classics);
    keys.one("metrics_path", job.metrics_path.as_str());
    keys.one("scheme", job.scheme.as_str());
    keys.one("enable_compression", job.compression);
    let limits = &job.limits;
    keys.one("body_size_limit", format!("{}B", limits.body_bytes));
    keys.limit("sample_limit", limits.samples);
    keys.limit("target_limit", limits.targets);
    keys.limit("label_limit", limits.labels);
    keys.limit("label_name_length_limit", limits.label_name_bytes);
    keys.limit("label_value_length_limit", limits.label_value_bytes);
    keys.limit("native_histogram_bucket_limit", limits.bins);
    access(&mut keys, &job.access);
    keys.list("relabel_configs", job.relabel.iter().map(rule).collect());
    keys.list("metric_relabel_configs", job.metric_relabel.iter().map(rule).collect());
    keys.list("static_configs", job.groups.iter().map(group).collect());
    if !job.files.is_empty() {
        let mut files = Keys::default();
        files.texts("files", job.files.iter().map(|path| path.display().to_string()));
        keys.list("file_sd_configs", vec![Node::Map(files.0)]);
    }
    keys.list("http_sd_configs", job.http.iter().map(source).collect());
    keys.list("dns_sd_configs", job.dns.iter().map(dns).collect());
    keys.list("consul_sd_configs", job.consul.iter().map(consul).collect());
    Node::Map(keys.0)
}

fn name(protocol: Protocol) -> String {
    let found = Protocol::ALL.iter().find(|(_, other)| *other == protocol);
    found.map_or("", |(name, _)| name).to_owned()
}

fn access(keys: &mut Keys, access: &Access) {
    let mut login = Keys::default();
    match &access.login {
        Login::None => {}
        Login::Basic { user, password } => {
            match user {
                Secret::Here(user) => login.one("username", user.as_str()),
                Secret::In(_) => login.secret("username", user),
            }
            login.secret("password", password);
            keys.map("basic_auth", login);
        }
        Login::Authorization(kind, credentials) => {
            login.one("type", kind.as_str());
            login.secret("credentials", credentials);
            keys.map("authorization", login);
        }
    }
    let (tls, mut reported) = (&access.tls, Keys::default());
    if let Some(authorities) = &tls.authorities {
        reported.pem("ca", authorities, false);
    }
    if let Some((certificate, key)) = &tls.certificate {
        reported.pem("cert", certificate, false);
        reported.pem("key", key, true);
    }
    if let Some(name) = &tls.server_name {
        reported.one("server_name", name.as_str());
    }
    if tls.insecure {
        reported.one("insecure_skip_verify", true);
    }
    if let Some(version) = tls.only {
        reported.one(if version == 3 { "min_version" } else { "max_version" }, format!("TLS1{version}"));
    }
    keys.map("tls_config", reported);
    keys.one("follow_redirects", access.redirects);
    let mut headers = Keys::default();
    for (name, secret) in &access.headers {
        let mut header = Keys::default();
        match secret {
            // A value may be a secret as well as not.
            Secret::Here(_) => header.texts("secrets", std::iter::once(SECRET.to_owned())),
            Secret::In(path) => header.texts("files", std::iter::once(path.display().to_string())),
        }
        headers.map(name, header);
    }
    keys.map("http_headers", headers);
}

fn rule(rule: &Rule) -> Node {
    let mut keys = Keys::default();
    keys.texts("source_labels", rule.source.iter().cloned());
    keys.one("separator", rule.separator.as_str());
    let regex = rule.regex.as_str();
    keys.one("regex", regex.strip_prefix("^(?s:").and_then(|regex| regex.strip_suffix(")$")).unwrap_or(regex));
    keys.limit("modulus", rule.modulus);
    if !rule.target.is_empty() {
        keys.one("target_label", rule.target.as_str());
    }
    keys.one("replacement", rule.replacement.as_str());
    keys.one("action", Action::ALL.iter().find(|(_, action)| *action == rule.action).map_or("", |(name, _)| name));
    Node::Map(keys.0)
}

fn group(group: &Group) -> Node {
    let mut keys = Keys::default();
    keys.texts("targets", group.targets.iter().map(|target| without_password(&target.0)));
    let mut labels = Keys::default();
    group.labels.iter().for_each(|(name, value)| labels.one(name, value.0.as_str()));
    keys.map("labels", labels);
    Node::Map(keys.0)
}

fn source(source: &HttpSource) -> Node {
    let mut keys = Keys::default();
    keys.one("url", without_password(&source.url));
    keys.one("refresh_interval", duration::write(source.refresh));
    access(&mut keys, &source.access);
    Node::Map(keys.0)
}

fn dns(source: &DnsSource) -> Node {
    let mut keys = Keys::default();
    keys.texts("names", source.names.iter().cloned());
    keys.one("type", RecordKind::ALL.iter().find(|(_, kind)| *kind == source.kind).map_or("", |(name, _)| name));
    keys.limit("port", source.port.into());
    keys.one("refresh_interval", duration::write(source.refresh));
    Node::Map(keys.0)
}

fn consul(source: &ConsulSource) -> Node {
    let mut keys = Keys::default();
    let (scheme, rest) = source.url.split_once("://").unwrap_or(("http", &source.url));
    let (server, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    keys.one("server", server);
    keys.one("scheme", scheme);
    for (key, text) in [
        ("path_prefix", prefix),
        ("datacenter", source.datacenter.as_str()),
        ("namespace", source.namespace.as_str()),
        ("partition", source.partition.as_str()),
        ("filter", source.filter.as_str()),
        ("health_filter", source.health_filter.as_str()),
    ] {
        if !text.is_empty() {
            keys.one(key, text);
        }
    }
    if let Some(token) = &source.token {
        keys.secret("token", token);
    }
    keys.texts("services", source.services.iter().cloned());
    keys.texts("tags", source.tags.iter().cloned());
    keys.one("tag_separator", source.tag_separator.as_str());
    let mut meta = Keys::default();
    source.node_meta.iter().for_each(|(key, value)| meta.one(key, value.as_str()));
    keys.map("node_meta", meta);
    keys.one("allow_stale", source.allow_stale);
    keys.one("refresh_interval", duration::write(source.refresh));
    access(&mut keys, &source.access);
    Node::Map(keys.0)
}

/// An address that may contain a password: `http://user:password@host`.
fn without_password(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").map_or(("", address), |(scheme, rest)| (scheme, rest));
    let host = rest.find('/').unwrap_or(rest.len());
    let Some((user, behind)) = rest[..host].rsplit_once('@') else { return address.to_owned() };
    let user = user.split_once(':').map_or_else(|| user.to_owned(), |(user, _)| format!("{user}:{SECRET}"));
    let scheme = if scheme.is_empty() { String::new() } else { format!("{scheme}://") };
    format!("{scheme}{user}@{behind}{}", &rest[host..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_addresses_are_not_reported() {
        for (address, expected) in [
            ("http://a:b/c@d", "http://a:b/c@d"),
            ("http://u:p@a:80/x", "http://u:<secret>@a:80/x"),
            ("https://u@a", "https://u@a"),
            ("u:p:q@a:80", "u:<secret>@a:80"),
            ("a:80", "a:80"),
        ] {
            assert_eq!(without_password(address), expected);
        }
    }
}
