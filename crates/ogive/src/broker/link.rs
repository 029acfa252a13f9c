//! The way to the endpoints of a destination: `POST /v1/batch` over connections that are kept, packed with zstd.
//!
//! Several batches go in one request, and each has its own answer. Who refuses such a body gets one at a time.
//!
//! Limits: [`ANSWER_BYTES_MAX`], and those of [`Client`], which shows what an answer means.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use ogive_broker::Target;
use ogive_export::{Body, Client, ClientOptions, FRAME, FRAMES, Outcome, Reply};
use ogive_model::{MonoNs, Ns};

use super::config::{Destination, Packing};

/// 16 MiB: a verdict on each of 100,000 samples.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// 10 minutes: by then, an endpoint that was upgraded gets several batches in a request.
const AGAIN: Ns = Ns::from_secs(600);
/// Smaller bodies are not compressed: there is nothing to gain.
const PACK_BYTES_MIN: usize = 512;
/// A server refuses a body that decompresses to 400 times its size or more; one with a high ratio is sent compressed
/// only up to a quarter of that.
const RATIO_MAX: usize = 100;
/// Level 1: 3 to 5 times smaller for a tenth of the processor time of the default level.
const LEVEL: i32 = 1;

/// See the module.
pub(super) struct Link {
    client: Client,
    /// Clients with connections to one address each.
    to: Mutex<HashMap<SocketAddr, Arc<Client>>>,
    packing: Packing,
    timeout: Duration,
    /// Endpoints that accept only one batch in a request, and until when that is assumed.
    single: Mutex<HashMap<String, MonoNs>>,
}

/// True when a body of `count` batches was refused because of its form.
fn is_about_the_body(reply: &Reply, count: usize) -> bool {
    matches!(reply.status, 400 | 413 | 415 | 422) && !reply.speaks_of(count)
}

impl Link {
    /// Reads the files that the destination names.
    pub(super) fn open(destination: &Destination, read: fn(&Path) -> std::io::Result<Vec<u8>>) -> anyhow::Result<Self> {
        let Destination { token_file, ca_file, cert_file, key_file, .. } = destination;
        let file = |path: &Option<std::path::PathBuf>| -> anyhow::Result<Option<Vec<u8>>> {
            let Some(path) = path else { return Ok(None) };
            read(path).map(Some).with_context(|| format!("cannot read {}", path.display()))
        };
        let (token, ca, chain, key) = (file(token_file)?, file(ca_file)?, file(cert_file)?, file(key_file)?);
        let token = token.map(|token| String::from_utf8_lossy(&token).trim().to_owned());
        // Files that are being written, or were cut.
        let is_empty = |text: &Option<Vec<u8>>| text.as_ref().is_some_and(|text| text.trim_ascii().is_empty());
        let empty = token.as_ref().is_some_and(String::is_empty) || [&ca, &chain, &key].into_iter().any(is_empty);
        anyhow::ensure!(
            !empty,
            "{}: one of its files for the token, authorities, certificate and key is empty",
            destination.name
        );
        let client = Client::new(&ClientOptions {
            token: token.as_deref(),
            ca_pem: ca.as_deref(),
            identity_pem: chain.as_deref().zip(key.as_deref()),
            user_agent: concat!("ogive-broker/", env!("CARGO_PKG_VERSION")),
            idle_connections: destination.connections(),
            answer_bytes_max: ANSWER_BYTES_MAX,
        });
        let files = || {
            let all = [token_file, ca_file, cert_file, key_file].into_iter().flatten();
            all.map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
        };
        let client = client.with_context(|| format!("{}: what is in {} is of no use", destination.name, files()))?;
        Ok(Self {
            client,
            to: Mutex::default(),
            packing: destination.packing,
            timeout: destination.timeout(),
            single: Mutex::default(),
        })
    }

    /// Closes the connections to addresses that no target has.
    pub(super) fn keep(&self, targets: &[Target]) {
        let is_kept = |address: &SocketAddr| targets.iter().any(|target| target.address == Some(*address));
        self.to.lock().unwrap_or_else(PoisonError::into_inner).retain(|address, _| is_kept(address));
    }

    /// Sends frames to an endpoint; returns its answer for each, and the bytes of the bodies.
    pub(super) fn send(&self, target: &Target, frames: &[Arc<[u8]>], now: MonoNs) -> (Vec<Outcome>, usize) {
        let url = format!("{}/v1/batch", target.url.trim_end_matches('/'));
        let to = Target { url: url.clone(), ..*target };
        if frames.len() > 1 && self.takes_several(&url, now) {
            let (reply, bytes) = self.post(&to, FRAMES, &frames.concat());
            match reply {
                // The error is about the body, not about a batch in it: an earlier version, or a proxy with a lower
                // limit.
                Ok(reply) if is_about_the_body(&reply, frames.len()) => {
                    let until = now.saturating_add(AGAIN);
                    self.single.lock().unwrap_or_else(PoisonError::into_inner).insert(url.clone(), until);
                    let (outcomes, more) = self.one_by_one(&to, frames);
                    return (outcomes, bytes + more);
                }
                Ok(reply) => return (reply.outcomes(frames.len()), bytes),
                Err(outcome) => return (vec![outcome; frames.len()], bytes),
            }
        }
        self.one_by_one(&to, frames)
    }

    /// Sends each frame in a request of its own, until one gets no useful answer.
    fn one_by_one(&self, to: &Target, frames: &[Arc<[u8]>]) -> (Vec<Outcome>, usize) {
        let (mut outcomes, mut sum): (Vec<Outcome>, usize) = (Vec::new(), 0);
        for frame in frames {
            let outcome = match outcomes.last() {
                Some(last @ (Outcome::Busy { .. } | Outcome::Later { .. })) => last.clone(),
                _ => {
                    let (reply, bytes) = self.post(to, FRAME, frame);
                    sum += bytes;
                    reply.map_or_else(|outcome| outcome, |reply| reply.outcome())
                }
            };
            outcomes.push(outcome);
        }
        (outcomes, sum)
    }

    fn takes_several(&self, url: &str, now: MonoNs) -> bool {
        let mut single = self.single.lock().unwrap_or_else(PoisonError::into_inner);
        single.retain(|_, until| *until > now);
        !single.contains_key(url)
    }

    fn post(&self, to: &Target, kind: &str, bytes: &[u8]) -> (Result<Reply, Outcome>, usize) {
        let packed = self.pack(bytes);
        let bytes = packed.as_deref().unwrap_or(bytes);
        let body = Body { kind, encoding: packed.as_ref().map(|_| "zstd"), bytes };
        let reply = match to.address {
            None => self.client.post(&to.url, self.timeout, body),
            Some(address) => self.at(address).post(&to.url, self.timeout, body).map_err(|outcome| match outcome {
                Outcome::Later { after, in_doubt, detail } => {
                    Outcome::Later { after, in_doubt, detail: format!("{detail} ({address})") }
                }
                other => other,
            }),
        };
        (reply, bytes.len())
    }

    fn at(&self, address: SocketAddr) -> Arc<Client> {
        let mut all = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(address).or_insert_with(|| Arc::new(self.client.to(address))))
    }

    fn pack(&self, frame: &[u8]) -> Option<Vec<u8>> {
        if self.packing == Packing::None || frame.len() < PACK_BYTES_MIN {
            return None;
        }
        let packed = zstd::bulk::compress(frame, LEVEL).ok()?;
        (packed.len() < frame.len() && packed.len() * RATIO_MAX >= frame.len()).then_some(packed)
    }
}

#[cfg(test)]
mod tests {
    use ogive_export::Answer;

    use super::*;

    #[test]
    fn a_status_says_what_to_do_with_the_batch() {
        let after = Some(Duration::from_secs(7));
        let of = |status, body: &str| Reply { status, after, body: body.into() }.outcome();
        let verdict = r#"{"accepted":1,"duplicate":2,"rejected":[{"sample":4,"reason":"time_too_new"}]}"#;
        let rejected = vec![(4, "time_too_new".into())];
        let taken = Outcome::Answered(Answer { accepted: Some(1), duplicate: Some(2), rejected, error: None });
        assert_eq!((of(200, verdict), of(400, verdict)), (taken.clone(), taken));
        let refused = Outcome::Refused { reason: "status_413".into(), detail: "status 413: too large".into() };
        assert_eq!(of(413, r#"{"error":"too large"}"#), refused);
        assert_eq!(of(429, ""), Outcome::Busy { after, detail: "status 429: ".into() });
        for (status, body) in
            [(200, "<html>"), (400, "<html>"), (401, "{}"), (404, "{}"), (409, "{}"), (503, "{}"), (507, "{}")]
        {
            assert!(matches!(of(status, body), Outcome::Later { .. }), "{status} {body}");
        }
    }

    #[test]
    fn what_packs_too_well_goes_as_it_is() {
        let options = ClientOptions {
            token: None,
            ca_pem: None,
            identity_pem: None,
            user_agent: "test",
            idle_connections: 1,
            answer_bytes_max: ANSWER_BYTES_MAX,
        };
        let client = Client::new(&options).unwrap();
        let to = Mutex::default();
        let link =
            Link { client, to, packing: Packing::Zstd, timeout: Duration::from_secs(1), single: Mutex::default() };
        assert_eq!(link.pack(&vec![0; 1 << 20]), None);
        assert_eq!(link.pack(&[1; PACK_BYTES_MIN - 1]), None);
        let words: Vec<u8> = (0..20_000_u32).flat_map(|at| (at * at % 1_000).to_le_bytes()).collect();
        let packed = link.pack(&words).expect("it is smaller");
        assert_eq!(zstd::bulk::decompress(&packed, words.len()).unwrap(), words);
        assert_eq!(Link { packing: Packing::None, ..link }.pack(&words), None);
    }
}
