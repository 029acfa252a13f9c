//! Targets from an address that answers groups as JSON: `http_sd_configs`.
//!
//! Limits: [`FILE_BYTES_MAX`] of an answer, [`ANSWER`] until it is there.

use std::path::Path;
use std::sync::Arc;

use rustls::ClientConfig;
use tokio::sync::watch;

use super::answers::{ANSWER, Answers, Task, Watcher, ticks};
use super::listing::groups;
use crate::client::{Client, FetchOptions};
use crate::config::{FILE_BYTES_MAX, Group, HttpSource};
use ogive_outgoing::Files;

/// Requests `source` at its interval.
pub(super) fn watch(source: &HttpSource, job: &str, files: Files, tls: Arc<ClientConfig>) -> Watcher {
    // What is above a job's targets is left out there.
    let mut answers = Answers::new(job, usize::MAX);
    answers.expect(&source.url);
    let (sender, receiver) = watch::channel(answers);
    let (source, mut client) = (source.clone(), Client::new(source.access.clone(), files, tls));
    let task = Task::spawn(async move {
        let mut ticks = ticks(source.refresh);
        loop {
            ticks.tick().await;
            let found = requested(&source, &mut client).await;
            // It is asked again in any case.
            sender.send_modify(|answers| _ = answers.take(&source.url, found.map(Some)));
        }
    });
    Watcher::new(receiver, vec![task])
}

async fn requested(source: &HttpSource, client: &mut Client) -> Result<Vec<Group>, String> {
    let ask = FetchOptions {
        accept: "application/json",
        compression: true,
        bytes_max: FILE_BYTES_MAX as u64,
        headers: &[("x-prometheus-refresh-interval-seconds", source.refresh.as_secs().to_string())],
    };
    let address = source.url.parse().map_err(|error| format!("{error}"))?;
    let answer = tokio::time::timeout(ANSWER, client.get(&address, &ask)).await;
    let answer = answer.map_err(|_| format!("no answer within {} s", ANSWER.as_secs()))??;
    groups(Path::new(&source.url), &answer.body, "__meta_url")
}
