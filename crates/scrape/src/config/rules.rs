//! From what a file says of a job to the job: defaults, checks, and what cannot be done.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ogive_model::Tenant;
use serde::Deserialize;

use super::super::relabel::{Action, Rule, anchored};
use super::job::{Access, BODY_BYTES_MAX, HttpSource, INTERVAL, Job, Limits, Login, Pem, Protocol, TIMEOUT, Tls};
use super::raw::{self, Bytes, Global, Scrape, Text, Time};
use ogive_outgoing::Secret;
use ogive_text::duration;
use ogive_text::near::nearest;

/// A file of `scrape_config_files`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MoreJobs {
    #[serde(default)]
    pub(super) scrape_configs: Vec<Scrape>,
}

/// The job that `scrape` describes. File names are relative to `directory`.
pub(super) fn job(scrape: Scrape, global: &Global, directory: &Path) -> Result<Job, String> {
    if scrape.job_name.0.is_empty() {
        return Err("job_name is empty".into());
    }
    let (interval, timeout) = times(&scrape, global)?;
    possible(&scrape, global)?;
    let natives = scrape.scrape_native_histograms.or(global.scrape_native_histograms);
    let protocols = protocols(scrape.scrape_protocols.as_ref().or(global.scrape_protocols.as_ref()), natives)?;
    let fallback = scrape.fallback_scrape_protocol.as_deref().filter(|name| !name.is_empty());
    let scheme = scrape.scheme.unwrap_or_else(|| "http".into());
    if !matches!(scheme.as_str(), "http" | "https") {
        return Err(format!("scheme {scheme:?} is neither http nor https"));
    }
    let limit = |own: Option<u64>, of_all: Option<u64>| own.or(of_all).unwrap_or(0);
    let body_bytes = scrape.body_size_limit.or(global.body_size_limit).map_or(0, |Bytes(bytes)| bytes);
    let paths = scrape.file_sd_configs.into_iter().flat_map(|file| file.files);
    let tenant = scrape.tenant.as_ref().or(global.tenant.as_ref());
    let tenant = tenant.map_or_else(|| Ok(Tenant::default()), |name| Tenant::new(&name.0));
    Ok(Job {
        name: scrape.job_name.0,
        tenant: tenant.map_err(|error| error.to_string())?,
        interval,
        timeout,
        protocols,
        fallback: fallback.map(Protocol::named).transpose()?,
        natives: natives != Some(false),
        classics: scrape.always_scrape_classic_histograms.or(global.always_scrape_classic_histograms) == Some(true),
        metrics_path: scrape.metrics_path.unwrap_or_else(|| "/metrics".into()),
        scheme,
        params: scrape
            .params
            .into_iter()
            .map(|(name, values)| (name, values.into_iter().map(|text| text.0).collect()))
            .collect(),
        honor_labels: scrape.honor_labels,
        honor_timestamps: scrape.honor_timestamps != Some(false),
        track_timestamps: scrape.track_timestamps_staleness,
        compression: scrape.enable_compression != Some(false),
        limits: Limits {
            body_bytes: if body_bytes == 0 { BODY_BYTES_MAX } else { body_bytes },
            samples: limit(scrape.sample_limit, global.sample_limit),
            targets: limit(scrape.target_limit, global.target_limit),
            labels: limit(scrape.label_limit, global.label_limit),
            label_name_bytes: limit(scrape.label_name_length_limit, global.label_name_length_limit),
            label_value_bytes: limit(scrape.label_value_length_limit, global.label_value_length_limit),
            bins: scrape.native_histogram_bucket_limit.unwrap_or(0),
        },
        relabel: rules("relabel_configs", scrape.relabel_configs)?,
        metric_relabel: rules("metric_relabel_configs", scrape.metric_relabel_configs)?,
        groups: scrape.static_configs,
        files: paths.map(|file| pattern(&directory.join(file))).collect::<Result<_, _>>()?,
        http: scrape.http_sd_configs.into_iter().map(|source| http(source, directory)).collect::<Result<_, _>>()?,
        access: Access {
            login: login(
                scrape.basic_auth,
                scrape.authorization,
                scrape.bearer_token,
                scrape.bearer_token_file,
                directory,
            )?,
            tls: tls(scrape.tls_config.unwrap_or_default(), directory)?,
            redirects: scrape.follow_redirects != Some(false),
            headers: headers(scrape.http_headers, directory)?,
        },
        labels: Vec::new(),
    })
}

/// Refuses what Prometheus supports but Ogive does not.
fn possible(scrape: &Scrape, global: &Global) -> Result<(), String> {
    if scrape.convert_classic_histograms_to_nhcb.or(global.convert_classic_histograms_to_nhcb) == Some(true) {
        return Err("convert_classic_histograms_to_nhcb cannot be done here: what comes in is stored as it came".into());
    }
    if scrape.proxy_url.as_ref().is_some_and(|url| !url.is_empty()) || scrape.proxy_from_environment == Some(true) {
        return Err("a proxy cannot be used here; scrape its targets directly".into());
    }
    if scrape.oauth2.is_some() {
        return Err("oauth2 cannot be used here; basic_auth, authorization and tls_config can".into());
    }
    if scrape.native_histogram_min_bucket_factor.is_some_and(|factor| factor > 0.0) {
        return Err("native_histogram_min_bucket_factor cannot be used here: histograms are stored as they come".into());
    }
    Ok(())
}

fn times(scrape: &Scrape, global: &Global) -> Result<(Duration, Duration), String> {
    let time = |time: Option<Time>| time.map(|Time(time)| time).filter(|time| !time.is_zero());
    let interval = time(scrape.scrape_interval).or_else(|| time(global.scrape_interval)).unwrap_or(INTERVAL);
    let (own, of_all) = (time(scrape.scrape_timeout), time(global.scrape_timeout));
    if let Some(own) = own.filter(|own| *own > interval) {
        return Err(format!(
            "scrape_timeout {} is longer than the scrape_interval of {}",
            duration::write(own),
            duration::write(interval)
        ));
    }
    // A timeout that was set for all jobs is not a mistake in one that scrapes more often.
    Ok((interval, own.or(of_all).unwrap_or(TIMEOUT).min(interval)))
}

fn protocols(named: Option<&Vec<String>>, natives: Option<bool>) -> Result<Vec<Protocol>, String> {
    use Protocol::{OpenMetrics0, OpenMetrics1, Protobuf, Text0, Text1};
    let Some(named) = named else {
        let first = (natives == Some(true)).then_some(Protobuf);
        return Ok(first.into_iter().chain([OpenMetrics1, OpenMetrics0, Text1, Text0]).collect());
    };
    let mut out: Vec<Protocol> = Vec::new();
    for name in named {
        let protocol = Protocol::named(name)?;
        if out.contains(&protocol) {
            return Err(format!("scrape_protocols names {name} twice"));
        }
        out.push(protocol);
    }
    if out.is_empty() { Err("scrape_protocols is empty".into()) } else { Ok(out) }
}

fn rules(key: &str, raw: Vec<raw::Relabel>) -> Result<Vec<Rule>, String> {
    let rules = raw.into_iter().enumerate();
    rules.map(|(at, raw)| rule(raw).map_err(|sentence| format!("{key}, rule {}: {sentence}", at + 1))).collect()
}

fn rule(raw: raw::Relabel) -> Result<Rule, String> {
    let or = |text: Option<Text>, other: &str| text.map_or_else(|| other.to_owned(), |text| text.0);
    let name = raw.action.as_deref().unwrap_or("replace").to_lowercase();
    let action = Action::ALL.iter().find(|(known, _)| *known == name).map(|(_, action)| *action);
    let action = action.ok_or_else(|| {
        let names: Vec<&str> = Action::ALL.iter().map(|(known, _)| *known).collect();
        match nearest(names.iter().copied(), &name) {
            Some(meant) => format!("unknown action {name}; did you mean {meant}?"),
            None => format!("unknown action {name}; there are {}", names.join(", ")),
        }
    })?;
    let rule = Rule {
        source: raw.source_labels,
        separator: or(raw.separator, ";"),
        target: or(raw.target_label, ""),
        regex: anchored(&or(raw.regex, "(.*)"))?,
        modulus: raw.modulus.unwrap_or(0),
        replacement: or(raw.replacement, "$1"),
        action,
    };
    rule.check().map(|()| rule)
}

/// A file's pattern: an asterisk is allowed only in its last part.
fn pattern(path: &Path) -> Result<PathBuf, String> {
    let ending = path.extension().and_then(|ending| ending.to_str());
    if !matches!(ending, Some("json" | "yml" | "yaml")) {
        return Err(format!("file_sd_configs: {} ends in neither .json, .yml nor .yaml", path.display()));
    }
    if path.parent().is_some_and(|parent| parent.to_string_lossy().contains('*')) {
        return Err(format!("file_sd_configs: {} has an asterisk before its last part", path.display()));
    }
    Ok(path.to_owned())
}

fn http(raw: raw::HttpSd, directory: &Path) -> Result<HttpSource, String> {
    let _ = raw.enable_http2;
    if !raw.url.starts_with("http://") && !raw.url.starts_with("https://") {
        return Err(format!("http_sd_configs: {:?} is no http or https address", raw.url));
    }
    Ok(HttpSource {
        url: raw.url,
        refresh: raw.refresh_interval.map_or(INTERVAL, |Time(time)| time).max(Duration::from_secs(1)),
        access: Access {
            login: login(raw.basic_auth, raw.authorization, None, None, directory)?,
            tls: tls(raw.tls_config.unwrap_or_default(), directory)?,
            redirects: raw.follow_redirects != Some(false),
            headers: headers(raw.http_headers, directory)?,
        },
    })
}

/// A secret that is given directly or in a file.
fn secret(key: &str, here: Option<Text>, file: Option<String>, directory: &Path) -> Result<Option<Secret>, String> {
    match (here, file) {
        (Some(_), Some(_)) => Err(format!("{key} and {key}_file are both there; keep one")),
        (Some(Text(text)), None) => Ok(Some(Secret::Here(text))),
        (None, Some(file)) => Ok(Some(Secret::In(directory.join(file)))),
        (None, None) => Ok(None),
    }
}

fn login(
    basic: Option<raw::BasicAuth>,
    authorization: Option<raw::Authorization>,
    token: Option<Text>,
    token_file: Option<String>,
    directory: &Path,
) -> Result<Login, String> {
    let token = secret("bearer_token", token, token_file, directory)?;
    if usize::from(basic.is_some()) + usize::from(authorization.is_some()) + usize::from(token.is_some()) > 1 {
        return Err("at most one of basic_auth, authorization and bearer_token may be there".into());
    }
    if let Some(raw::BasicAuth { username, username_file, password, password_file }) = basic {
        let user = secret("username", username, username_file, directory)?;
        let password = secret("password", password, password_file, directory)?;
        let none = || Secret::Here(String::new());
        return Ok(Login::Basic { user: user.unwrap_or_else(none), password: password.unwrap_or_else(none) });
    }
    if let Some(raw::Authorization { kind, credentials, credentials_file }) = authorization {
        let kind = kind.filter(|kind| !kind.is_empty()).unwrap_or_else(|| "Bearer".into());
        if kind.eq_ignore_ascii_case("basic") {
            return Err("authorization of type basic: use basic_auth".into());
        }
        let credentials = secret("credentials", credentials, credentials_file, directory)?;
        return Ok(credentials.map_or(Login::None, |secret| Login::Authorization(kind, secret)));
    }
    Ok(token.map_or(Login::None, |secret| Login::Authorization("Bearer".into(), secret)))
}

fn headers(
    raw: std::collections::BTreeMap<String, raw::Header>,
    directory: &Path,
) -> Result<Vec<(String, Secret)>, String> {
    const OWN: [&str; 5] = ["accept", "accept-encoding", "authorization", "host", "user-agent"];
    let mut out = Vec::new();
    for (name, header) in raw {
        if OWN.contains(&name.to_ascii_lowercase().as_str()) || name.to_ascii_lowercase().starts_with("x-prometheus-") {
            return Err(format!("http_headers: {name} is set by the scrape itself"));
        }
        let here = header.values.into_iter().chain(header.secrets).map(|Text(text)| Secret::Here(text));
        let files = header.files.into_iter().map(|file| Secret::In(directory.join(file)));
        out.extend(here.chain(files).map(|secret| (name.clone(), secret)));
    }
    Ok(out)
}

fn tls(raw: raw::Tls, directory: &Path) -> Result<Tls, String> {
    let pem = |key: &str, here: Option<String>, file: Option<String>| match (here, file) {
        (Some(_), Some(_)) => Err(format!("tls_config: {key} and {key}_file are both there; keep one")),
        (Some(text), None) => Ok(Some(Pem::Here(text))),
        (None, Some(file)) if file.is_empty() => Ok(None),
        (None, Some(file)) => Ok(Some(Pem::In(directory.join(file)))),
        (None, None) => Ok(None),
    };
    let certificate = (pem("cert", raw.cert, raw.cert_file)?, pem("key", raw.key, raw.key_file)?);
    let certificate = match certificate {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => return Err("tls_config: a client certificate needs both cert_file and key_file".into()),
    };
    let version = |name: Option<&str>| match name {
        None => Ok(None),
        Some("TLS12") => Ok(Some(2)),
        Some("TLS13") => Ok(Some(3)),
        Some(name @ ("TLS10" | "TLS11")) => {
            Err(format!("tls_config: {name} is not safe any more; TLS12 and TLS13 are there"))
        }
        Some(name) => Err(format!("tls_config: {name:?} is no version; TLS12 and TLS13 are there")),
    };
    let only = match (version(raw.min_version.as_deref())?, version(raw.max_version.as_deref())?) {
        (Some(3), Some(2)) => return Err("tls_config: min_version is above max_version".into()),
        (Some(3), _) => Some(3),
        (_, Some(2)) => Some(2),
        _ => None,
    };
    Ok(Tls {
        authorities: pem("ca", raw.ca, raw.ca_file)?,
        certificate,
        server_name: raw.server_name.filter(|name| !name.is_empty()),
        insecure: raw.insecure_skip_verify,
        only,
    })
}
