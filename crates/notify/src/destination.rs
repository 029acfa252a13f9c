//! Who hears of alerts, and how they are reached.

use std::io;
use std::path::{Path, PathBuf};

/// Reads a complete file: used for secrets.
pub type ReadFile = fn(&Path) -> io::Result<Vec<u8>>;

/// A receiver of alerts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// API v2 of an Alertmanager: every state of an alert is sent repeatedly.
    Alertmanager {
        /// Its address, without the path of the API.
        url: String,
    },
    /// Groups, as an Alertmanager's webhook sends them.
    Webhook {
        /// The complete URL.
        url: String,
        /// File with a token for `Authorization: Bearer`.
        token_file: Option<PathBuf>,
    },
    /// Groups, in the form of Slack's incoming webhooks.
    Slack {
        /// File with the address, which is a secret.
        url_file: PathBuf,
        /// The channel of the messages, unless the URL determines it.
        channel: Option<String>,
    },
    /// Groups, as text.
    Email(Email),
}

/// The recipients, the sender and the server of mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Email {
    /// Name or address of the server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How the connection is secured.
    pub security: Security,
    /// The user for the login; no login when missing.
    pub user: Option<String>,
    /// File with the password of `user`.
    pub password_file: Option<PathBuf>,
    /// The certificate authorities (PEM) for the server, in place of the usual ones.
    pub ca_file: Option<PathBuf>,
    /// Address of the sender.
    pub from: String,
    /// Addresses of the receivers.
    pub to: Vec<String>,
}

/// How a connection to a mail server is secured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// No encryption.
    Plain,
    /// STARTTLS, or no mail.
    StartTls,
    /// TLS from the first byte.
    Tls,
}

/// What is wrong with a destination.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DestinationError(pub String);

impl Destination {
    /// Whether it gets groups, for people, rather than every state of each alert.
    #[must_use]
    pub const fn is_grouped(&self) -> bool {
        !matches!(self, Self::Alertmanager { .. })
    }

    /// Its name in figures and in the stored state: contains no secret.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Alertmanager { url } | Self::Webhook { url, .. } => url.clone(),
            Self::Slack { url_file, .. } => format!("slack:{}", url_file.display()),
            Self::Email(email) => format!("mailto:{}", email.to.join(",")),
        }
    }

    /// An HTTP address without a slash at its end.
    ///
    /// # Errors
    /// Why it is not one.
    pub fn address(text: &str) -> Result<String, DestinationError> {
        let wrong = |why: &dyn std::fmt::Display| DestinationError(format!("{text} is no address: {why}"));
        let parsed: ureq::http::Uri = text.parse().map_err(|error| wrong(&error))?;
        let scheme = parsed.scheme_str().unwrap_or_default();
        if !matches!(scheme, "http" | "https") || parsed.host().is_none() {
            return Err(wrong(&"give http://HOST:PORT"));
        }
        Ok(text.trim_end_matches('/').to_owned())
    }
}

impl Email {
    /// The server of `smtp://[USER@]HOST[:PORT]` (STARTTLS), `smtps://` (TLS from the start) or `smtp+plain://` (no
    /// encryption).
    ///
    /// # Errors
    /// What is wrong with an address.
    pub fn new(server: &str, from: &str, to: &[String]) -> Result<Self, DestinationError> {
        let wrong = |why: &str| DestinationError(format!("{server} is no mail server: {why}"));
        let (scheme, rest) = server.split_once("://").ok_or_else(|| wrong("give smtp://HOST:PORT"))?;
        let (security, usual_port) = match scheme {
            "smtp" => (Security::StartTls, 587),
            "smtps" => (Security::Tls, 465),
            "smtp+plain" => (Security::Plain, 25),
            _ => return Err(wrong("give smtp://, smtps:// or smtp+plain://")),
        };
        let rest = rest.trim_end_matches('/');
        let (user, rest) = rest.rsplit_once('@').map_or((None, rest), |(user, rest)| (Some(user), rest));
        if user.is_some_and(|user| user.contains(':')) {
            return Err(wrong("a password belongs into a file"));
        }
        let (host, port) = match rest.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
            Some((host, port)) => (host, port.parse().map_err(|_| wrong("its port is no number"))?),
            None => (rest, usual_port),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || host.contains(['/', ' ']) {
            return Err(wrong("it has no host"));
        }
        if to.is_empty() {
            return Err(DestinationError("mail needs at least one receiver".to_owned()));
        }
        for address in to.iter().map(String::as_str).chain([from]) {
            address
                .parse::<lettre::message::Mailbox>()
                .map_err(|error| DestinationError(format!("{address}: {error}")))?;
        }
        Ok(Self {
            host: host.to_owned(),
            port,
            security,
            user: user.map(str::to_owned),
            password_file: None,
            ca_file: None,
            from: from.to_owned(),
            to: to.to_vec(),
        })
    }
}

/// The words of a file with a secret.
pub(crate) fn secret(path: &Path, read: ReadFile) -> Result<String, String> {
    let bytes = read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let text = String::from_utf8(bytes).map_err(|_| format!("{}: the file is not UTF-8", path.display()))?;
    let words = text.trim();
    // A file that is being written, or was truncated.
    if words.is_empty() {
        return Err(format!("{}: the file is empty, and a secret should be in it", path.display()));
    }
    Ok(words.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_servers_are_read() {
        let to = ["a@example.org".to_owned()];
        let of = |server: &str| Email::new(server, "Ogive <o@example.org>", &to);
        let email = of("smtp://me@mail.example.org").unwrap();
        assert_eq!((email.port, email.security, email.user.as_deref()), (587, Security::StartTls, Some("me")));
        assert_eq!(of("smtps://[::1]:2465").unwrap().host, "::1");
        assert_eq!(of("smtp+plain://localhost:2525/").unwrap().port, 2525);
        for bad in ["localhost", "http://a", "smtp://", "smtp://u:secret@h", "smtp://h:port", "smtp://a b"] {
            assert!(of(bad).is_err(), "{bad}");
        }
        assert!(Email::new("smtp://h", "nobody", &to).is_err());
        assert!(Email::new("smtp://h", "o@example.org", &[]).is_err());
        assert!(Email::new("smtp://h", "o@example.org\r\nBcc: x@y.z", &to).is_err());
    }
}
