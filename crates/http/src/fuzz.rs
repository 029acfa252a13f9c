//! The decoders of outside bytes in this crate, each for any bytes: what `fuzz/` runs with coverage, and `cargo test`
//! with seeded changes to good input.
//!
//! Invariants: none panics, waits or keeps anything of what it was given.

use std::cell::RefCell;
use std::path::Path;

use crate::params::Params;
use crate::web::Web;

thread_local! {
    /// The contents of the file that is read.
    static FILE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A web configuration; every path leads to the same bytes.
pub fn config_web(bytes: &[u8]) {
    FILE.replace(bytes.to_vec());
    let _ = Web::check(Path::new("web.yml"), |_| Ok(FILE.with_borrow(Vec::clone)));
}

/// A board.
pub fn board(bytes: &[u8]) {
    let _ = crate::board::parse(bytes);
}

/// The parameters of a query, and the times in them.
pub fn params(bytes: &[u8]) {
    let params = Params::parse(bytes);
    for name in ["time", "start", "end", "step", "timeout", "limit"] {
        let _ = (params.time(name), params.duration(name), params.number(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutations::{TEXT, smoke};

    #[test]
    fn files_may_hold_anything() {
        let web =
            b"http_server_config: {http2: true, headers: {X-Frame-Options: deny}}\nbasic_auth_users: {a: $2y$04$x}\n\
                    tokens:\n- {name: x, sha256: '00', allow: [write], expires: 2027-01-31T00:00:00Z}\n";
        smoke(config_web, web, 1_500, TEXT);
    }

    #[test]
    fn requests_may_hold_anything() {
        smoke(
            params,
            b"time=1700000000.5&start=2026-01-31T00%3A00:00.5Z&end=-1e3&step=1h5m&timeout=1y&limit=10",
            5_000,
            b"=&%+-.:TZ0129eymsd\xff",
        );
    }
}
