//! The decoders of files, each for any bytes.

use std::cell::RefCell;
use std::path::PathBuf;

use ogive_outgoing::Files;

use crate::view::View;
use crate::{config, discovery};

thread_local! {
    /// The contents of the file that is read.
    static FILE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Every path leads to the same bytes, and no pattern to any.
const FILES: Files =
    Files { read: |_| Ok(FILE.with_borrow(Vec::clone)), list: |_| Ok(Vec::new()), owner: |_| String::new() };

/// Parses a scrape configuration and a list of targets from outside, and reports the configuration if it is valid.
pub fn config(bytes: &[u8]) {
    FILE.replace(bytes.to_vec());
    let path = PathBuf::from("scrape.yml");
    if let Ok(config) = config::load(std::slice::from_ref(&path), FILES) {
        View::default().tell(&config.jobs);
    }
    let _ = discovery::groups(&path, bytes, "origin");
}

/// An answer of a DNS server, and the file that names it.
pub fn dns(bytes: &[u8]) {
    discovery::replay_dns(bytes);
}

/// Answers of Consul.
pub fn consul(bytes: &[u8]) {
    discovery::replay_consul(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutations::{TEXT, smoke};

    #[test]
    fn servers_of_names_and_services_may_answer_anything() {
        smoke(dns, &discovery::example_of_dns(), 1_500, &[0, 1, 0x0c, 0xc0, 0x7f, 0xff]);
        smoke(dns, b"search a.example\nnameserver 192.0.2.1\noptions ndots:2\n", 500, TEXT);
        smoke(consul, discovery::EXAMPLE_OF_CONSUL.as_bytes(), 1_500, TEXT);
        smoke(consul, br#"{"consul": [], "web": ["a"], "Config": {"Datacenter": "dc1"}}"#, 500, TEXT);
    }

    #[test]
    fn files_may_hold_anything() {
        let scrape = b"global: {scrape_interval: 15s}\nscrape_configs:\n- job_name: a\n  static_configs:\n  - targets: [b:1]\n    labels: {c: d}\n  \
                       - {targets: []}\n  dns_sd_configs: [{names: [x], type: A, port: 1}]\n  \
                       consul_sd_configs: [{server: 'c:1', tags: [t], node_meta: {k: v}}]\n  relabel_configs: [{source_labels: [c], regex: '(.)', target_label: e}]\n";
        smoke(config, scrape, 1_500, TEXT);
    }
}
