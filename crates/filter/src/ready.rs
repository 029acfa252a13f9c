//! The filters that come with Ogive (the directory `filters`), by name.

/// Their names.
pub const NAMES: [&str; 6] = ["nginx", "apache", "postgresql", "sshd", "systemd", "kubernetes"];

/// The text of the filter called `name`.
#[must_use]
pub fn text(name: &str) -> Option<&'static str> {
    Some(match name {
        "nginx" => include_str!("../../../filters/nginx.toml"),
        "apache" => include_str!("../../../filters/apache.toml"),
        "postgresql" => include_str!("../../../filters/postgresql.toml"),
        "sshd" => include_str!("../../../filters/sshd.toml"),
        "systemd" => include_str!("../../../filters/systemd.toml"),
        "kubernetes" => include_str!("../../../filters/kubernetes.toml"),
        _ => return None,
    })
}
