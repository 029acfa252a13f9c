//! How two configurations differ, as everybody may read it.
//!
//! Invariants: what may be a secret in a check stands without its value (`SECRET_KEYS`).
//! Limits: [`TEXT_BYTES_MAX`] of lines; more are counted.

use std::fmt::Write as _;

/// 64 KiB of differences; more are counted.
pub const TEXT_BYTES_MAX: usize = 64 << 10;

/// Keys of a check whose values, or the values in tables of that name, may be secrets.
const SECRET_KEYS: [&str; 12] = [
    "password",
    "privacy_password",
    "community",
    "secret_access_key",
    "access_key_id",
    "headers",
    "body",
    "form",
    "send",
    "arguments",
    "command",
    "environment",
];

/// The keys with the part of their values that may be shown.
pub fn shown(flat: &[(String, String)]) -> Vec<(String, String)> {
    let is_secret = |key: &str| {
        // The name of a check may contain dots, so every word may be the key.
        let mut words = key.split('.');
        match words.next() {
            Some("check") => words.any(|word| SECRET_KEYS.contains(&word)),
            // HTTPTrap checks, each with its secret, and the key of Fluent Forward.
            first => matches!(first, Some("httptrap" | "fluent-shared-key")),
        }
    };
    let of = |(key, value): &(String, String)| {
        let value = if is_secret(key) { "(not shown)".to_owned() } else { value.clone() };
        (key.clone(), value)
    };
    flat.iter().map(of).collect()
}

/// One line for each key that differs; None when nothing does.
pub fn differences(before: &[(String, String)], after: &[(String, String)]) -> Option<String> {
    let of =
        |all: &[(String, String)], key: &str| all.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
    let mut keys: Vec<&str> = before.iter().chain(after).map(|(key, _)| &**key).collect();
    keys.sort_unstable();
    keys.dedup();
    let (mut out, mut more) = (String::new(), 0);
    for key in keys {
        let line = match (of(before, key), of(after, key)) {
            (before, after) if before == after => continue,
            (None, Some(after)) => format!("+ {key} = {after}\n"),
            (Some(before), None) => format!("- {key} = {before}\n"),
            (before, after) => format!("~ {key} = {} -> {}\n", before.unwrap_or_default(), after.unwrap_or_default()),
        };
        if out.len() + line.len() > TEXT_BYTES_MAX { more += 1 } else { out.push_str(&line) }
    }
    if more > 0 {
        writeln!(out, "and {more} more").expect("writes to memory");
    }
    (!out.is_empty()).then(|| out.trim_end().to_owned())
}
