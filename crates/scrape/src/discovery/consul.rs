//! Targets from Consul: `consul_sd_configs`, with blocking queries as Prometheus sends them.
//!
//! A query carries the index of the last answer, and Consul answers once something is newer or [`WAIT`] is over. The
//! catalog shows which services there are; a query for each shows its instances. Services that the configuration names
//! are queried without the catalog, unless tags or a filter select among them.
//! Threads: a task for the catalog, and one for each service, each with a connection.
//! Limits: [`SERVICES_MAX`]; [`FILE_BYTES_MAX`] for an answer.
//! Failure: the targets stay as they were, and the query is repeated after [`RETRY`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use form_urlencoded::Serializer;
use hyper::Uri;
use hyper::http::uri::InvalidUri;
use rustls::ClientConfig;
use tokio::sync::watch;
use tokio::time::Interval;

use super::answers::{Answers, Outcome, Task, Watcher, ticks};
use super::catalog::{self, Services};
use crate::client::{Answer, Client, FetchOptions};
use crate::config::{ConsulSource, FILE_BYTES_MAX};
use crate::target::TARGETS_MAX;
use ogive_outgoing::Files;

/// 2 minutes, as in Prometheus: how long Consul may hold a query.
const WAIT: Duration = Duration::from_secs(120);
/// 15 s more for the answer: Consul adds up to a sixteenth to the wait.
const GRACE: Duration = Duration::from_secs(15);
/// 15 s after a failure, as in Prometheus.
const RETRY: Duration = Duration::from_secs(15);
/// 4,096 services: each holds a task and a connection, and Consul itself takes 200 connections of a client by default.
const SERVICES_MAX: usize = 4096;

/// What the tasks of one source share.
struct Consul {
    source: ConsulSource,
    files: Files,
    tls: Arc<ClientConfig>,
    answers: watch::Sender<Answers>,
}

/// Watches the services that `source` selects.
pub(super) fn watch(source: &ConsulSource, job: &str, files: Files, tls: Arc<ClientConfig>) -> Watcher {
    let mut answers = Answers::new(job, TARGETS_MAX);
    answers.expect(&source.url);
    let (sender, receiver) = watch::channel(answers);
    let consul = Arc::new(Consul { source: source.clone(), files, tls, answers: sender });
    Watcher::new(receiver, vec![Task::spawn(consul.run())])
}

impl Consul {
    async fn run(self: Arc<Self>) {
        let datacenter = self.datacenter().await;
        let mut tasks = BTreeMap::new();
        if !self.needs_catalog() {
            let all = self.source.services.iter().map(|name| (name.clone(), None)).collect();
            self.become_of(all, &datacenter, &mut tasks);
            return std::future::pending().await;
        }
        let mut query = self.query("/v1/catalog/services", &[], &self.source.filter);
        loop {
            match query.next().await.and_then(|bytes| bytes.map(|bytes| catalog::services(&bytes)).transpose()) {
                Ok(Some(services)) => {
                    if !self.become_of(services, &datacenter, &mut tasks) {
                        query.fail();
                    }
                }
                Ok(None) => _ = self.take(&self.source.url, Ok(None)),
                Err(error) => {
                    query.fail();
                    self.take(&self.source.url, Err(error));
                }
            }
        }
    }

    fn needs_catalog(&self) -> bool {
        self.source.services.is_empty() || !self.source.tags.is_empty() || !self.source.filter.is_empty()
    }

    /// The datacenter of the configuration, or the agent's.
    async fn datacenter(&self) -> String {
        if !self.source.datacenter.is_empty() {
            return self.source.datacenter.clone();
        }
        let mut client = self.client();
        let url = format!("{}/v1/agent/self", self.source.url);
        loop {
            let answer = fetch(&mut client, &url).await;
            match answer.and_then(|answer| catalog::datacenter(&answer.body)) {
                Ok(datacenter) => return datacenter,
                Err(error) => _ = self.take(&self.source.url, Err(error)),
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Watches exactly the selected ones of `services`; false if they are too many.
    fn become_of(self: &Arc<Self>, services: Services, datacenter: &str, tasks: &mut BTreeMap<String, Task>) -> bool {
        let selected: Vec<String> = self.selected(services).collect();
        if selected.len() > SERVICES_MAX {
            let count = selected.len();
            let error = format!("there are {count} services, above the limit of {SERVICES_MAX}; select some");
            return self.take(&self.source.url, Err(error));
        }
        let gone: Vec<String> = tasks.keys().filter(|name| selected.binary_search(name).is_err()).cloned().collect();
        gone.iter().for_each(|name| drop(tasks.remove(name)));
        // At once: nobody may take the catalog's answer for everything that is to be known.
        self.answers.send_modify(|answers| {
            gone.iter().for_each(|name| answers.forget(&self.name(name)));
            selected.iter().for_each(|name| answers.expect(&self.name(name)));
            answers.take(&self.source.url, Ok(None));
        });
        for name in selected {
            let consul = self.clone();
            let task = || Task::spawn(consul.watch_service(name.clone(), datacenter.to_owned()));
            tasks.entry(name.clone()).or_insert_with(task);
        }
        true
    }

    /// The names that the configuration selects, in order.
    fn selected(&self, services: Services) -> impl Iterator<Item = String> {
        let source = &self.source;
        let is_wanted = move |(name, tags): &(String, Option<Vec<String>>)| {
            let tags = tags.as_deref().unwrap_or_default();
            let is_named = source.services.is_empty() || source.services.contains(name);
            is_named && source.tags.iter().all(|wanted| tags.contains(wanted))
        };
        services.into_iter().filter(is_wanted).map(|(name, _)| name)
    }

    async fn watch_service(self: Arc<Self>, service: String, datacenter: String) {
        let name = self.name(&service);
        let tags: Vec<(&str, &str)> = self.source.tags.iter().map(|tag| ("tag", tag.as_str())).collect();
        let path = format!("/v1/health/service/{}", path_segment(&service));
        let mut query = self.query(&path, &tags, &self.source.health_filter);
        let separator = &self.source.tag_separator;
        loop {
            let found = query.next().await.and_then(|bytes| {
                let read = |bytes: Vec<u8>| catalog::instances(&bytes, &service, &datacenter, separator);
                bytes.map(read).transpose()
            });
            if !self.take(&name, found) {
                query.fail();
            }
        }
    }

    /// False if it is to be asked again.
    fn take(&self, name: &str, outcome: Outcome) -> bool {
        let mut is_taken = false;
        self.answers.send_modify(|answers| is_taken = answers.take(name, outcome));
        is_taken
    }

    /// What messages call the query for a service.
    fn name(&self, service: &str) -> String {
        format!("{}: service {service:?}", self.source.url)
    }

    fn client(&self) -> Client {
        let mut access = self.source.access.clone();
        access.headers.extend(self.source.token.iter().map(|token| ("X-Consul-Token".to_owned(), token.clone())));
        Client::new(access, self.files, self.tls.clone())
    }

    fn query(&self, path: &str, own: &[(&str, &str)], filter: &str) -> Query {
        let source = &self.source;
        let mut parameters = Serializer::new(String::new());
        parameters.append_pair("wait", &format!("{}ms", WAIT.as_millis()));
        let scope = [
            ("dc", source.datacenter.as_str()),
            ("ns", source.namespace.as_str()),
            ("partition", source.partition.as_str()),
            ("filter", filter),
        ];
        parameters.extend_pairs(scope.iter().filter(|(_, value)| !value.is_empty()));
        if source.allow_stale {
            parameters.append_pair("stale", "");
        }
        for (key, value) in &source.node_meta {
            parameters.append_pair("node-meta", &format!("{key}:{value}"));
        }
        parameters.extend_pairs(own);
        let url = format!("{}{path}?{}", source.url, parameters.finish());
        Query { client: self.client(), url, index: 0, ticks: ticks(source.refresh), has_failed: false }
    }
}

/// A blocking query: the same again and again, each from the index of the last answer on.
struct Query {
    client: Client,
    url: String,
    index: u64,
    ticks: Interval,
    has_failed: bool,
}

impl Query {
    /// The next answer; none when Consul had nothing newer. The refresh interval passes between two queries, and
    /// [`RETRY`] after a failure.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        if std::mem::take(&mut self.has_failed) {
            tokio::time::sleep(RETRY).await;
        }
        self.ticks.tick().await;
        let url = match self.index {
            0 => self.url.clone(),
            index => format!("{}&index={index}", self.url),
        };
        let answer = fetch(&mut self.client, &url).await?;
        let header = answer.headers.get("x-consul-index").and_then(|index| index.to_str().ok());
        let index = header.and_then(|index| index.parse().ok()).unwrap_or(0);
        let is_news = index == 0 || index != self.index;
        self.index = index_after(self.index, index);
        Ok(is_news.then_some(answer.body))
    }

    /// Begins over: the last answer could not be used, or did not come.
    fn fail(&mut self) {
        self.index = 0;
        self.has_failed = true;
    }
}

/// From which index the next query waits, by Consul's rules: one that goes backwards is reset, as after a restored
/// backup.
fn index_after(before: u64, answered: u64) -> u64 {
    if answered < before { 0 } else { answered }
}

/// One answer of Consul.
async fn fetch(client: &mut Client, url: &str) -> Result<Answer, String> {
    let ask =
        FetchOptions { accept: "application/json", compression: true, bytes_max: FILE_BYTES_MAX as u64, headers: &[] };
    let address: Uri = url.parse().map_err(|error: InvalidUri| error.to_string())?;
    let limit = WAIT + GRACE;
    let answer = tokio::time::timeout(limit, client.get(&address, &ask)).await;
    answer.map_err(|_| format!("no answer within {} s", limit.as_secs()))?
}

/// `text` as one part of a path.
fn path_segment(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Access;

    const FILES: Files = Files { read: |_| Ok(Vec::new()), list: |_| Ok(Vec::new()), owner: |_| String::new() };

    fn consul(change: fn(&mut ConsulSource)) -> Arc<Consul> {
        let mut source = ConsulSource {
            url: "http://c:8500".into(),
            token: None,
            datacenter: String::new(),
            namespace: String::new(),
            partition: String::new(),
            services: Vec::new(),
            tags: Vec::new(),
            tag_separator: ",".into(),
            node_meta: BTreeMap::new(),
            filter: String::new(),
            health_filter: String::new(),
            allow_stale: true,
            refresh: Duration::from_secs(30),
            access: Access::default(),
        };
        change(&mut source);
        let tls = crate::tls::config(&source.access.tls, FILES).unwrap();
        Arc::new(Consul { source, files: FILES, tls, answers: watch::channel(Answers::default()).0 })
    }

    fn url(consul: &Consul, own: &[(&str, &str)], filter: &str) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async { consul.query("/x", own, filter).url })
    }

    #[test]
    fn an_index_that_goes_backwards_is_reset() {
        for (before, answered, after) in [(0, 5, 5), (5, 5, 5), (5, 7, 7), (7, 5, 0), (7, 0, 0), (0, 0, 0)] {
            assert_eq!(index_after(before, answered), after, "{answered} after {before}");
        }
    }

    #[test]
    fn services_are_selected_by_name_and_tags() {
        let services = || catalog::services(br#"{"a": ["x", "y"], "b": ["x"], "c": null}"#).unwrap();
        let of = |change: fn(&mut ConsulSource)| consul(change).selected(services()).collect::<Vec<_>>();
        assert_eq!(of(|_| ()), ["a", "b", "c"]);
        assert_eq!(of(|source| source.tags = vec!["y".into(), "x".into()]), ["a"]);
        assert_eq!(of(|source| source.services = vec!["c".into(), "b".into(), "d".into()]), ["b", "c"]);
        assert!(!consul(|source| source.services = vec!["b".into()]).needs_catalog());
        assert!(consul(|source| source.filter = "x".into()).needs_catalog());
    }

    #[test]
    fn a_query_names_everything_that_selects() {
        assert_eq!(url(&consul(|_| ()), &[], ""), "http://c:8500/x?wait=120000ms&stale=");
        let all = consul(|source| {
            source.datacenter = "dc1".into();
            source.namespace = "n".into();
            source.partition = "p".into();
            source.allow_stale = false;
            source.node_meta = [("rack".to_owned(), "a b".to_owned())].into();
        });
        let expected =
            "http://c:8500/x?wait=120000ms&dc=dc1&ns=n&partition=p&filter=a+%3D%3D+1&node-meta=rack%3Aa+b&tag=t";
        assert_eq!(url(&all, &[("tag", "t")], "a == 1"), expected);
        assert_eq!(path_segment("a b/c+d"), "a%20b%2Fc%2Bd");
    }
}
