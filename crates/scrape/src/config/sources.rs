//! Where a job's targets come from: the sources of a file with their defaults, and what cannot be a source.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper::Uri;

use super::access::{headers, login, no_proxy, tls};
use super::job::{Access, ConsulSource, DnsSource, HttpSource, INTERVAL, RecordKind};
use super::raw::{self, Text, Time};
use ogive_outgoing::{Origin, Secret};
use ogive_text::near::nearest;

/// 30 s between two looks at DNS, and between two queries of Consul, as in Prometheus.
const REFRESH: Duration = Duration::from_secs(30);

/// A file's pattern: an asterisk is allowed only in its last part.
pub(super) fn pattern(path: &Path) -> Result<PathBuf, String> {
    let ending = path.extension().and_then(|ending| ending.to_str());
    if !matches!(ending, Some("json" | "yml" | "yaml")) {
        return Err(format!("file_sd_configs: {} ends in neither .json, .yml nor .yaml", path.display()));
    }
    if path.parent().is_some_and(|parent| parent.to_string_lossy().contains('*')) {
        return Err(format!("file_sd_configs: {} has an asterisk before its last part", path.display()));
    }
    Ok(path.to_owned())
}

pub(super) fn http(raw: raw::HttpSd, directory: &Path) -> Result<HttpSource, String> {
    let _ = raw.enable_http2;
    if !raw.url.starts_with("http://") && !raw.url.starts_with("https://") {
        return Err(format!("http_sd_configs: {:?} is no http or https address", raw.url));
    }
    Ok(HttpSource {
        url: raw.url,
        refresh: refresh(raw.refresh_interval, INTERVAL),
        access: Access {
            login: login(raw.basic_auth, raw.authorization, None, None, directory)?,
            tls: tls(raw.tls_config.unwrap_or_default(), directory)?,
            redirects: raw.follow_redirects != Some(false),
            headers: headers(raw.http_headers, directory)?,
        },
    })
}

fn refresh(raw: Option<Time>, usual: Duration) -> Duration {
    raw.map_or(usual, |Time(time)| time).max(Duration::from_secs(1))
}

pub(super) fn dns(raw: raw::DnsSd) -> Result<DnsSource, String> {
    let wrong = |sentence: &str| Err(format!("dns_sd_configs: {sentence}"));
    let name = raw.kind.unwrap_or_else(|| "SRV".into()).to_uppercase();
    let Some((_, kind)) = RecordKind::ALL.into_iter().find(|(known, _)| *known == name) else {
        let known = RecordKind::ALL.map(|(known, _)| known);
        return match nearest(known.iter().copied(), &name) {
            Some(meant) => wrong(&format!("unknown type {name}; did you mean {meant}?")),
            None => wrong(&format!("unknown type {name}; there are {}", known.join(", "))),
        };
    };
    let names: Vec<String> = raw.names.into_iter().map(|Text(name)| name).collect();
    if names.is_empty() || names.iter().any(|name| name.trim_matches('.').is_empty()) {
        return wrong("names has no name, or an empty one");
    }
    let port = raw.port.unwrap_or(0);
    if port == 0 && kind != RecordKind::Srv {
        return wrong(&format!("records of type {name} have no port; add one"));
    }
    Ok(DnsSource { names, kind, port, refresh: refresh(raw.refresh_interval, REFRESH) })
}

pub(super) fn consul(raw: raw::ConsulSd, directory: &Path) -> Result<ConsulSource, String> {
    consul_source(raw, directory).map_err(|sentence| format!("consul_sd_configs: {sentence}"))
}

fn consul_source(mut raw: raw::ConsulSd, directory: &Path) -> Result<ConsulSource, String> {
    no_proxy(raw.proxy_url.as_deref(), raw.proxy_from_environment, raw.oauth2.is_some())?;
    if let (user, password @ Some(_)) | (user @ Some(_), password) = (raw.username.take(), raw.password.take()) {
        if raw.basic_auth.is_some() {
            return Err("username and password are there as well as basic_auth; keep one".into());
        }
        raw.basic_auth = Some(raw::BasicAuth { username: user, username_file: None, password, password_file: None });
    }
    let text = |text: Option<Text>| text.map_or_else(String::new, |Text(text)| text);
    let token = Some(text(raw.token)).filter(|token| !token.is_empty());
    if token.is_some() && raw.authorization.is_some() {
        return Err("token and authorization are both there; keep one".into());
    }
    let texts = |all: Vec<Text>| all.into_iter().map(|Text(text)| text).collect();
    let server = raw.server.map(|Text(text)| text);
    let separator = raw.tag_separator.map(|Text(text)| text);
    Ok(ConsulSource {
        url: consul_url(raw.scheme.as_deref(), server.as_deref(), &text(raw.path_prefix))?,
        token: token.map(Secret::Here),
        datacenter: text(raw.datacenter),
        namespace: text(raw.namespace),
        partition: text(raw.partition),
        services: texts(raw.services),
        tags: texts(raw.tags),
        tag_separator: separator.unwrap_or_else(|| ",".into()),
        node_meta: raw.node_meta.into_iter().map(|(key, Text(value))| (key, value)).collect(),
        filter: text(raw.filter),
        health_filter: text(raw.health_filter),
        allow_stale: raw.allow_stale != Some(false),
        refresh: refresh(raw.refresh_interval, REFRESH),
        access: Access {
            login: login(raw.basic_auth, raw.authorization, None, None, directory)?,
            tls: tls(raw.tls_config.unwrap_or_default(), directory)?,
            redirects: raw.follow_redirects != Some(false),
            headers: headers(raw.http_headers, directory)?,
        },
    })
}

/// The address of Consul's API. Its own client also takes a server with a scheme, which then wins unless it is `http`.
fn consul_url(scheme: Option<&str>, server: Option<&str>, prefix: &str) -> Result<String, String> {
    let scheme = scheme.filter(|scheme| !scheme.is_empty()).unwrap_or("http");
    let server = server.unwrap_or("localhost:8500").trim().trim_end_matches('/');
    let (scheme, host) = match server.split_once("://") {
        None => (scheme, server),
        Some(("http", host)) => (scheme, host),
        Some((other, host)) => (other, host),
    };
    if !matches!(scheme, "http" | "https") {
        return Err(format!("scheme {scheme:?} is neither http nor https"));
    }
    if host.contains('@') {
        return Err("server has a user; write username and password as keys".into());
    }
    let prefix = prefix.trim_matches('/');
    let url = format!("{scheme}://{host}{}{prefix}", if prefix.is_empty() { "" } else { "/" });
    let parsed = url.parse::<Uri>().map_err(|error| error.to_string()).and_then(|url| Origin::from_url(&url));
    parsed.map(|_| url).map_err(|error| format!("server {server:?} cannot be reached: {error}"))
}
