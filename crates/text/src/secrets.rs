//! Values of options without what is secret in them, for whoever shows how a process was started.

/// `value` of the option `name` as it may be shown: not at all if the name indicates a secret; a URL without user,
/// password and query, and for webhooks without its path, which is often the secret. A check of HTTPTrap is shown
/// without its secret.
#[must_use]
pub fn without_secrets(name: &str, value: &str) -> String {
    let is_secret = ["password", "secret", "token", "credential", "key"].iter().any(|word| name.contains(word));
    if is_secret && !name.ends_with("file") {
        return "…".to_owned();
    }
    if name == "httptrap" {
        // [TENANT/]UUID:SECRET.
        let checks = value.split(',').map(|check| check.split_once(':').map_or(check, |(check, _)| check));
        return checks.map(|check| format!("{check}:<secret>")).collect::<Vec<_>>().join(",");
    }
    let parts = value.split(',').map(|part| {
        let Some((before, rest)) = part.split_once("://") else { return part.to_owned() };
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let host = authority.rsplit('@').next().unwrap_or_default();
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let path = if name.contains("webhook") && path.len() > 1 { "/…" } else { path };
        // The part before the scheme may be `name=`; a scheme has no secret.
        format!("{before}://{host}{path}")
    });
    parts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_do_not_stay() {
        let check = |name, value, shown| assert_eq!(without_secrets(name, value), shown, "{name} {value}");
        check("listen", "127.0.0.1:6448", "127.0.0.1:6448");
        check("token", "abc", "…");
        check("web-token-file", "/etc/token", "/etc/token");
        check("alerting-alertmanager", "https://me:pass@host:9093/a?key=1", "https://host:9093/a");
        check("alerting-webhook", "https://hooks.example/services/T0/B0/xyz", "https://hooks.example/…");
        check("httptrap", "team/8b9d:s3cret,9c0e:x", "team/8b9d:<secret>,9c0e:<secret>");
        check("forward", "http://a/x?k=v,http://u@b/y#z", "http://a/x,http://b/y");
    }
}
