//! How services and classes are called, in the table as in labels.

use ogive_wire::{Class, Endpoint};

use super::services::OTHER_SERVICE;

/// `host:port`.
pub(super) fn service(endpoint: Endpoint) -> String {
    if endpoint == OTHER_SERVICE {
        return "other".to_owned();
    }
    std::net::SocketAddr::new(endpoint.ip, endpoint.port).to_string()
}

pub(super) fn class(class: Class) -> &'static str {
    match class {
        Class::Ok => "ok",
        Class::ClientError => "client error",
        Class::Error => "error",
    }
}
