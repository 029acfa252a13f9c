//! From what a file says of a job to the job: defaults, checks, and what cannot be done.

use std::path::Path;
use std::time::Duration;

use ogive_model::Tenant;
use serde::Deserialize;

use super::super::relabel::{Action, Rule, anchored};
use super::access::{headers, login, no_proxy, tls};
use super::job::{Access, BODY_BYTES_MAX, INTERVAL, Job, Limits, Protocol, TIMEOUT};
use super::raw::{self, Bytes, Global, Scrape, Text, Time};
use super::sources::{consul, dns, http, pattern};
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
        http: all(scrape.http_sd_configs, |source| http(source, directory))?,
        dns: all(scrape.dns_sd_configs, dns)?,
        consul: all(scrape.consul_sd_configs, |source| consul(source, directory))?,
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

fn all<T, U>(raw: Vec<T>, source: impl FnMut(T) -> Result<U, String>) -> Result<Vec<U>, String> {
    raw.into_iter().map(source).collect()
}

/// Refuses what Prometheus supports but Ogive does not.
fn possible(scrape: &Scrape, global: &Global) -> Result<(), String> {
    if scrape.convert_classic_histograms_to_nhcb.or(global.convert_classic_histograms_to_nhcb) == Some(true) {
        return Err("convert_classic_histograms_to_nhcb cannot be done here: what comes in is stored as it came".into());
    }
    no_proxy(scrape.proxy_url.as_deref(), scrape.proxy_from_environment, scrape.oauth2.is_some())?;
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
