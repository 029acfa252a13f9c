//! How a forward speaks with its far side: HTTP, or calls of gRPC.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use ogive_door::reload::Marks;
use ogive_export::{Client, ClientOptions};
use ogive_outgoing::Files;
use ogive_outgoing::grpc::{CallOptions, Caller};

use super::config::{Form, Forward};

/// 16 MiB: an error for each of many samples.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// The method of OTLP over gRPC.
const EXPORT: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

/// How the far side is spoken with.
pub(super) enum ForwardClient {
    Http(Client),
    Grpc(Caller),
}

/// The client of `forward`, and the fingerprints of the files that it uses.
pub(super) fn client(forward: &Forward, files: Files) -> anyhow::Result<(ForwardClient, Marks)> {
    let mut marks = Marks::default();
    let mut file = |path: &Option<PathBuf>| -> anyhow::Result<Option<Vec<u8>>> {
        let Some(path) = path else { return Ok(None) };
        let bytes = (files.read)(path).with_context(|| format!("cannot read {}", path.display()))?;
        if bytes.trim_ascii().is_empty() {
            bail!("forward {}: {} is empty", forward.name, path.display());
        }
        marks.note(path, &bytes);
        Ok(Some(bytes))
    };
    let (ca, chain, key) = (file(&forward.ca_file)?, file(&forward.cert_file)?, file(&forward.key_file)?);
    let token = file(&forward.token_file)?.map(|token| String::from_utf8_lossy(&token).trim().to_owned());
    if forward.form == Form::OtlpGrpc {
        let options = CallOptions {
            token: token.as_deref(),
            ca_pem: ca.as_deref(),
            identity_pem: chain.as_deref().zip(key.as_deref()),
            answer_bytes_max: ANSWER_BYTES_MAX as usize,
        };
        let caller = Caller::new(&forward.url, EXPORT, options);
        let caller = caller.map_err(|error| anyhow::anyhow!("forward {}: {error}", forward.name))?;
        return Ok((ForwardClient::Grpc(caller), marks));
    }
    let client = Client::new(&ClientOptions {
        token: token.as_deref(),
        ca_pem: ca.as_deref(),
        identity_pem: chain.as_deref().zip(key.as_deref()),
        user_agent: concat!("ogive-forward/", env!("CARGO_PKG_VERSION")),
        idle_connections: 1,
        answer_bytes_max: ANSWER_BYTES_MAX,
    });
    let client = client.with_context(|| {
        format!("forward {}: its token, authorities, certificate or key are of no use", forward.name)
    })?;
    Ok((ForwardClient::Http(client), marks))
}
