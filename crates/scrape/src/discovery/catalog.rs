//! What Consul answers: the names of services, and their instances with labels as Prometheus makes them.
//!
//! Format: JSON of Consul's HTTP API: `/v1/agent/self`, `/v1/catalog/services`, `/v1/health/service/NAME`. Keys that no
//! label needs are skipped; `null` stands for an empty list or map.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::config::{Group, Text};
use crate::target::host_and_port;

type Texts = Option<BTreeMap<String, String>>;

/// The services of a datacenter and their tags.
pub(super) type Services = BTreeMap<String, Option<Vec<String>>>;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Agent {
    config: AgentConfig,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AgentConfig {
    datacenter: String,
}

/// An instance of a service, the node that it runs on, and the checks of both.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Instance {
    node: Node,
    service: Service,
    #[serde(default)]
    checks: Option<Vec<Check>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Node {
    node: String,
    address: String,
    meta: Texts,
    tagged_addresses: Texts,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Service {
    #[serde(rename = "ID")]
    id: String,
    address: String,
    port: i64,
    tags: Option<Vec<String>>,
    meta: Texts,
    namespace: String,
    partition: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Check {
    #[serde(rename = "CheckID")]
    id: String,
    status: String,
}

/// The datacenter of an agent.
pub(super) fn datacenter(bytes: &[u8]) -> Result<String, String> {
    json::<Agent>(bytes).map(|agent| agent.config.datacenter)
}

/// The services of a datacenter.
pub(super) fn services(bytes: &[u8]) -> Result<Services, String> {
    json(bytes)
}

/// The instances of the service `name`, a group each.
pub(super) fn instances(bytes: &[u8], name: &str, datacenter: &str, separator: &str) -> Result<Vec<Group>, String> {
    let instances: Vec<Instance> = json(bytes)?;
    Ok(instances.into_iter().map(|instance| group(instance, name, datacenter, separator)).collect())
}

fn json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("the answer is not what Consul sends: {error}"))
}

fn group(instance: Instance, name: &str, datacenter: &str, separator: &str) -> Group {
    let Instance { node, service, checks } = instance;
    let health = health(&checks.unwrap_or_default());
    // Of a service that runs elsewhere, the node is only where it was registered.
    let host = if service.address.is_empty() { &node.address } else { &service.address };
    let address = host_and_port(host, service.port);
    // The separator also stands around the tags, so that rules need not care for the first and the last.
    let tags = format!("{separator}{}{separator}", service.tags.unwrap_or_default().join(separator));
    let fixed = [
        ("address", node.address),
        ("dc", datacenter.to_owned()),
        ("health", health.to_owned()),
        ("namespace", service.namespace),
        ("node", node.node),
        ("partition", service.partition),
        ("service", name.to_owned()),
        ("service_address", service.address),
        ("service_id", service.id),
        ("service_port", service.port.to_string()),
        ("tags", tags),
    ];
    let mut labels: BTreeMap<String, Text> = BTreeMap::new();
    for (prefix, texts) in
        [("metadata_", node.meta), ("service_metadata_", service.meta), ("tagged_address_", node.tagged_addresses)]
    {
        for (key, value) in texts.unwrap_or_default() {
            labels.insert(format!("__meta_consul_{prefix}{}", label(&key)), Text(value));
        }
    }
    labels.extend(fixed.map(|(name, value)| (format!("__meta_consul_{name}"), Text(value))));
    labels.retain(|_, value| !value.0.is_empty());
    Group { targets: vec![Text(address)], labels }
}

/// `key` as a part of a label's name.
fn label(key: &str) -> String {
    key.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect()
}

/// The worst state of an instance's checks, by Consul's rules; empty for one that Consul does not know.
fn health(checks: &[Check]) -> &'static str {
    const KNOWN: [&str; 4] = ["passing", "warning", "critical", "maintenance"];
    let mut worst = 0;
    for check in checks {
        let is_maintained = check.id == "_node_maintenance" || check.id.starts_with("_service_maintenance:");
        let status = if is_maintained { "maintenance" } else { check.status.as_str() };
        match KNOWN.iter().position(|known| *known == status) {
            Some(at) if is_maintained || status != "maintenance" => worst = worst.max(at),
            _ => return "",
        }
    }
    KNOWN[worst]
}

/// Reads an answer to each query, for fuzzing.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn replay(bytes: &[u8]) {
    let _ = (datacenter(bytes), services(bytes), instances(bytes, "web", "dc1", ","));
}

/// An instance as Consul's documentation of `/v1/health/service/NAME` has it.
#[cfg(test)]
pub(crate) const EXAMPLE: &str = r#"[{
  "Node": {"ID": "40e4a748", "Node": "foobar", "Address": "10.1.10.12", "Datacenter": "dc1",
    "TaggedAddresses": {"lan": "10.1.10.12", "wan_ipv4": "192.0.2.1"}, "Meta": {"instance-type": "t2.medium"}},
  "Service": {"ID": "redis1", "Service": "redis", "Tags": ["primary", "v1"], "Address": "10.1.10.13",
    "TaggedAddresses": {"lan": {"address": "10.1.10.13", "port": 8000}}, "Meta": {"redis_version": "4.0"},
    "Port": 8000, "Weights": {"Passing": 10, "Warning": 1}, "Namespace": "team", "Partition": "part"},
  "Checks": [
    {"Node": "foobar", "CheckID": "service:redis1", "Name": "Service 'redis' check", "Status": "passing"},
    {"Node": "foobar", "CheckID": "serfHealth", "Name": "Serf Health Status", "Status": "warning"}]
}]"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_has_the_labels_that_prometheus_gives_it() {
        let found = instances(EXAMPLE.as_bytes(), "redis", "dc1", ",").unwrap();
        let [group] = &found[..] else { panic!("{found:?}") };
        assert_eq!(group.targets, [Text("10.1.10.13:8000".into())]);
        let labels: Vec<_> = group.labels.iter().map(|(name, value)| (name.as_str(), value.0.as_str())).collect();
        let expected = [
            ("__meta_consul_address", "10.1.10.12"),
            ("__meta_consul_dc", "dc1"),
            ("__meta_consul_health", "warning"),
            ("__meta_consul_metadata_instance_type", "t2.medium"),
            ("__meta_consul_namespace", "team"),
            ("__meta_consul_node", "foobar"),
            ("__meta_consul_partition", "part"),
            ("__meta_consul_service", "redis"),
            ("__meta_consul_service_address", "10.1.10.13"),
            ("__meta_consul_service_id", "redis1"),
            ("__meta_consul_service_metadata_redis_version", "4.0"),
            ("__meta_consul_service_port", "8000"),
            ("__meta_consul_tagged_address_lan", "10.1.10.12"),
            ("__meta_consul_tagged_address_wan_ipv4", "192.0.2.1"),
            ("__meta_consul_tags", ",primary,v1,"),
        ];
        assert_eq!(labels, expected);
    }

    #[test]
    fn what_an_instance_lacks_comes_from_its_node_or_is_empty() {
        let text = r#"[{"Node": {"Node": "n", "Address": "2001:db8::1", "Meta": null, "TaggedAddresses": null},
            "Service": {"ID": "a", "Address": "", "Port": 80, "Tags": null, "Meta": null}, "Checks": null}]"#;
        let found = instances(text.as_bytes(), "a", "dc1", ";").unwrap();
        assert_eq!(found[0].targets, [Text("[2001:db8::1]:80".into())]);
        assert_eq!(found[0].labels["__meta_consul_tags"].0, ";;");
        assert_eq!(found[0].labels["__meta_consul_health"].0, "passing");
        assert!(!found[0].labels.contains_key("__meta_consul_service_address"));
    }

    #[test]
    fn the_worst_check_decides() {
        let of = |checks: &[(&str, &str)]| {
            let check = |(id, status): &(&str, &str)| Check { id: (*id).into(), status: (*status).into() };
            health(&checks.iter().map(check).collect::<Vec<_>>())
        };
        for (checks, expected) in [
            (&[][..], "passing"),
            (&[("a", "passing"), ("b", "critical"), ("c", "warning")], "critical"),
            (&[("a", "passing"), ("b", "warning")], "warning"),
            (&[("a", "critical"), ("_node_maintenance", "critical")], "maintenance"),
            (&[("_service_maintenance:redis1", "critical")], "maintenance"),
            (&[("a", "passing"), ("b", "maintenance")], ""),
            (&[("a", "new")], ""),
        ] {
            assert_eq!(of(checks), expected, "{checks:?}");
        }
    }

    #[test]
    fn the_catalog_and_the_agent_are_read() {
        let found = services(br#"{"consul": [], "web": ["a", "b"], "old": null}"#).unwrap();
        assert_eq!(found["web"].as_deref(), Some(&["a".to_owned(), "b".to_owned()][..]));
        assert_eq!(found.len(), 3);
        assert_eq!(datacenter(br#"{"Config": {"Datacenter": "dc7", "NodeName": "x"}, "Member": {}}"#).unwrap(), "dc7");
        for bytes in [&b""[..], b"[]", b"{\"Config\": {}}", b"rpc error"] {
            assert!(datacenter(bytes).unwrap_err().contains("Consul"));
        }
    }
}
