//! Mail: one message for all groups that are due, as plain text.

use lettre::message::header::ContentType;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::{Message, SmtpTransport, Transport};

use crate::answer::{Answer, TIMEOUT};
use crate::destination::{Email, ReadFile, Security, secret};
use crate::grouping::Notification;
use crate::text::{lines, state, subject, title};

/// Sends one message. A 5xx reply of the server is final.
pub(crate) fn send(email: &Email, groups: &[Notification], external_url: &str, read: ReadFile) -> Answer {
    let message = match message(email, groups, external_url) {
        Ok(message) => message,
        Err(error) => return Answer::Refused(format!("{}: {error}", email.host)),
    };
    let transport = match transport(email, read) {
        Ok(transport) => transport,
        Err(error) => return Answer::Failed(error),
    };
    match transport.send(&message) {
        Ok(_) => Answer::Taken,
        Err(error) if error.is_permanent() => Answer::Refused(format!("{}: {error}", email.host)),
        Err(error) => Answer::Failed(format!("{}: {}", email.host, chain(&error))),
    }
}

fn message(email: &Email, groups: &[Notification], external_url: &str) -> Result<Message, String> {
    let said = |error: &dyn std::fmt::Display| error.to_string();
    let mut builder = Message::builder()
        .from(email.from.parse().map_err(|error| said(&error))?)
        .subject(subject(groups))
        .header(ContentType::TEXT_PLAIN);
    for to in &email.to {
        builder = builder.to(to.parse().map_err(|error| said(&error))?);
    }
    let mut text = String::new();
    for group in groups {
        text += &format!("[{}] {}\r\n\r\n", state(&group.alerts), title(group));
        for line in lines(group) {
            text += &format!("  {}\r\n", line.replace('\n', "\r\n    "));
        }
        text += "\r\n";
    }
    if !external_url.is_empty() {
        text += &format!("{external_url}\r\n");
    }
    builder.body(text).map_err(|error| said(&error))
}

fn transport(email: &Email, read: ReadFile) -> Result<SmtpTransport, String> {
    let said = |error: &dyn std::fmt::Display| format!("{}: {error}", email.host);
    let parameters = || -> Result<TlsParameters, String> {
        let mut builder = TlsParameters::builder(email.host.clone());
        if let Some(path) = &email.ca_file {
            let pem = read(path).map_err(|error| format!("{}: {error}", path.display()))?;
            let certificate = Certificate::from_pem(&pem).map_err(|error| format!("{}: {error}", path.display()))?;
            builder = builder.add_root_certificate(certificate);
        }
        builder.build().map_err(|error| said(&error))
    };
    let tls = match email.security {
        Security::Plain => Tls::None,
        Security::StartTls => Tls::Required(parameters()?),
        Security::Tls => Tls::Wrapper(parameters()?),
    };
    let mut builder = SmtpTransport::builder_dangerous(&email.host).port(email.port).tls(tls).timeout(Some(TIMEOUT));
    if let Some(user) = &email.user {
        let password = email.password_file.as_deref().map(|path| secret(path, read)).transpose()?;
        builder = builder.credentials(Credentials::new(user.clone(), password.unwrap_or_default()));
    }
    Ok(builder.build())
}

/// An error with its reasons.
fn chain(error: &dyn std::error::Error) -> String {
    let mut out = error.to_string();
    let mut source = error.source();
    while let Some(reason) = source {
        let reason_text = reason.to_string();
        if !out.contains(&reason_text) {
            out += &format!(": {reason_text}");
        }
        source = reason.source();
    }
    out
}
