//! How to get in: logins, secrets, headers and TLS, as jobs and their sources name them.

use std::path::Path;

use super::job::{Login, Pem, Tls};
use super::raw::{self, Text};
use ogive_outgoing::Secret;

/// Refuses ways that Prometheus knows and Ogive does not.
pub(super) fn no_proxy(url: Option<&str>, from_environment: Option<bool>, has_oauth2: bool) -> Result<(), String> {
    if url.is_some_and(|url| !url.is_empty()) || from_environment == Some(true) {
        return Err("a proxy cannot be used here; scrape its targets directly".into());
    }
    if has_oauth2 {
        return Err("oauth2 cannot be used here; basic_auth, authorization and tls_config can".into());
    }
    Ok(())
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

pub(super) fn login(
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

pub(super) fn headers(
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

pub(super) fn tls(raw: raw::Tls, directory: &Path) -> Result<Tls, String> {
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
