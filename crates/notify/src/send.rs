//! Sends what is due.

use crate::answer::Answer;
use crate::destination::{Destination, ReadFile, secret};
use crate::outbox::Batch;
use crate::{body, email, http};

/// Sends to one destination.
pub struct Sender {
    agent: ureq::Agent,
    destination: Destination,
    read: ReadFile,
    external_url: String,
}

impl Sender {
    /// Sends to `destination`; secrets are read with `read` for each message. `external_url` is the address of this
    /// server for people.
    #[must_use]
    pub fn new(destination: Destination, read: ReadFile, external_url: &str) -> Self {
        Self { agent: http::agent(), destination, read, external_url: external_url.to_owned() }
    }

    /// Sends one batch and waits for the response.
    #[must_use]
    pub fn send(&self, batch: &Batch) -> Answer {
        let url = &self.external_url;
        match (&self.destination, batch) {
            (Destination::Alertmanager { url }, Batch::Alerts(alerts)) => {
                let api = format!("{url}/api/v2/alerts");
                http::post(&self.agent, &api, &api, None, &body::manager(alerts))
            }
            (Destination::Webhook { url: to, token_file }, Batch::Groups(groups)) => {
                let token = match token_file.as_deref().map(|path| secret(path, self.read)).transpose() {
                    Ok(token) => token,
                    Err(error) => return Answer::Failed(error),
                };
                let send = |group| http::post(&self.agent, to, to, token.as_deref(), &body::webhook(group, url));
                groups.iter().map(send).find(|answer| *answer != Answer::Taken).unwrap_or(Answer::Taken)
            }
            (Destination::Slack { url_file, channel }, Batch::Groups(groups)) => match secret(url_file, self.read) {
                Ok(to) => http::post(
                    &self.agent,
                    &to,
                    &self.destination.name(),
                    None,
                    &body::slack(groups, channel.as_deref(), url),
                ),
                Err(error) => Answer::Failed(error),
            },
            (Destination::Email(to), Batch::Groups(groups)) => email::send(to, groups, url, self.read),
            (destination, _) => unreachable!("{} does not get such a batch", destination.name()),
        }
    }
}
