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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutations::{TEXT, smoke};

    #[test]
    fn files_may_hold_anything() {
        let scrape = b"global: {scrape_interval: 15s}\nscrape_configs:\n- job_name: a\n  static_configs:\n  - targets: [b:1]\n    labels: {c: d}\n  \
                       - {targets: []}\n  relabel_configs: [{source_labels: [c], regex: '(.)', target_label: e}]\n";
        smoke(config, scrape, 1_500, TEXT);
    }
}
