//! The broker's answer to what somebody wants of it through its server: a connection to the server, or why there is
//! none.
//!
//! Format: docs/formats/fleet.md. Limits: [`ANSWER`] until the server has answered.

use std::time::Duration;

use ogive_fleet::{Connect, Declined, Home};
use ogive_outgoing::{Reply, UpgradeOptions, Upgrader};
use tokio::io::{AsyncRead, AsyncWrite};

/// 10 s until the server has answered: it waits no longer.
const ANSWER: Duration = Duration::from_secs(10);
/// 300 bytes of what the server calls whoever asks, in the log.
const ASKER_BYTES_MAX: usize = 300;

/// Who wants something, for the log.
pub(super) fn asker(request: &Connect) -> String {
    request.by[..request.by.floor_char_boundary(ASKER_BYTES_MAX)].to_owned()
}

/// See the module.
pub(super) struct Callback {
    server: Upgrader,
    path: String,
}

impl Callback {
    /// For the request `id` of the server at `home`.
    ///
    /// # Errors
    /// A sentence when the server cannot be reached in this way at all.
    pub(super) fn new(home: &Home, id: &str) -> Result<Self, String> {
        let options = UpgradeOptions {
            token: Some(&home.token),
            ca_pem: home.ca_pem.as_deref(),
            identity_pem: home.identity_pem.as_ref().map(|(chain, key)| (&chain[..], &key[..])),
        };
        let server = Upgrader::new(&home.url, options)?;
        Ok(Self { server, path: format!("/v1/fleet/stream?id={}", escaped(id)) })
    }

    /// Opens the connection that was asked for.
    ///
    /// # Errors
    /// A sentence when there is none.
    pub(super) async fn open(&self) -> Result<impl AsyncRead + AsyncWrite + Unpin, String> {
        match answered(self.server.post(&self.path, Some("ogive-stream"), Vec::new())).await? {
            Reply::Upgraded(stream) => Ok(stream),
            Reply::Answered { status, body } => {
                Err(format!("the server refuses ({status}): {:?}", String::from_utf8_lossy(&body)))
            }
        }
    }

    /// Reports that there is no connection.
    pub(super) async fn decline(&self, reason: &str, text: String) {
        let declined = Declined { reason: reason.into(), text };
        let body = serde_json::to_vec(&declined).expect("it is JSON");
        if let Err(why) = answered(self.server.post(&self.path, None, body)).await {
            tracing::warn!("fleet: the server does not know that there is no connection: {why}");
        }
    }
}

/// The answer to a request, within [`ANSWER`].
async fn answered(request: impl Future<Output = Result<Reply, String>>) -> Result<Reply, String> {
    let late = |_| format!("the server has not answered within {} s", ANSWER.as_secs());
    tokio::time::timeout(ANSWER, request).await.map_err(late)?
}

/// What may stand in an address; ids of a server have nothing else.
fn escaped(id: &str) -> String {
    id.chars().filter(char::is_ascii_alphanumeric).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_letters_and_digits() {
        assert_eq!(escaped("1f&x=/\r\n "), "1fx");
    }
}
