//! A notification of SNMP, already decoded, as the text of a sample.
//!
//! Format of what is stored: a series `log` with the labels `job` ([`JOB`]) and `instance` (the agent's address); the
//! text is a record as docs/formats/log.md has it, whose body is the notification's name or OID. Numbers are numbers;
//! times in hundredths of a second are seconds.
//! Invariants: every binding is an attribute under its OID, in the order in which they came.
//! Limits: [`BINDINGS_MAX`].

use std::fmt::Write as _;
use std::net::IpAddr;

use crate::Gather;
use crate::event::{Origin, Record};
use crate::lines::Fault;
use crate::otlp::quoted;

/// The label `job` of every notification.
pub const JOB: &str = "snmp";

/// 1,024 bindings, as many as a record of other listeners has fields: notifications in MIBs have some ten.
pub const BINDINGS_MAX: usize = 1_024;

/// `snmpTraps` and the names below it, from 1: RFC 3418 and RFC 1157.
const GENERIC: &str = "1.3.6.1.6.3.1.1.5.";
const GENERIC_NAMES: [&str; 6] =
    ["coldStart", "warmStart", "linkDown", "linkUp", "authenticationFailure", "egpNeighborLoss"];

/// What an agent reports, whatever the version of SNMP.
#[derive(Clone, Debug, PartialEq)]
pub struct Notification {
    /// Whom it is about.
    pub agent: IpAddr,
    /// Who sent the datagram.
    pub sender: IpAddr,
    /// `1`, `2c` or `3`.
    pub version: &'static str,
    /// Of version 3.
    pub user: Option<String>,
    /// The context's name; empty for the default one.
    pub context: String,
    /// snmpTrapOID.
    pub trap: String,
    /// sysUpTime, in hundredths of a second.
    pub uptime_ticks: u32,
    /// Of version 1, or from snmpTrapEnterprise.
    pub enterprise: Option<String>,
    /// Generic and specific trap of version 1.
    pub codes: Option<(i32, i32)>,
    /// The other objects.
    pub bindings: Vec<Binding>,
}

/// An object and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Binding {
    /// In numbers with dots.
    pub oid: String,
    /// What it is.
    pub value: Scalar,
}

/// A value of SNMP.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// No value.
    Null,
    /// A whole number.
    Integer(i64),
    /// A counter.
    Unsigned(u64),
    /// Hundredths of a second.
    Ticks(u32),
    /// A finite number.
    Float(f64),
    /// A text, an address or an OID; bytes that are no text in hexadecimal.
    Text(String),
}

impl Notification {
    /// The stored text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut record = Record::new(name(&self.trap).unwrap_or(&self.trap));
        quoted(record.attribute("snmpTrapOID"), &self.trap);
        ticks(record.attribute("uptime"), self.uptime_ticks);
        if let Some(enterprise) = &self.enterprise {
            quoted(record.attribute("enterprise"), enterprise);
        }
        if let Some((generic, specific)) = self.codes {
            plain(record.attribute("generic"), generic);
            plain(record.attribute("specific"), specific);
        }
        quoted(record.attribute("version"), self.version);
        if self.sender != self.agent {
            quoted(record.attribute("sender"), &self.sender.to_string());
        }
        if let Some(user) = &self.user {
            quoted(record.attribute("user"), user);
        }
        if !self.context.is_empty() {
            quoted(record.attribute("context"), &self.context);
        }
        for Binding { oid, value } in &self.bindings {
            value.write(record.attribute(oid));
        }
        record.into_text()
    }

    /// Adds it to `gather`, received at `now_ns`; gives the bytes of its text.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn feed(&self, now_ns: i64, gather: &mut Gather) -> Result<usize, Fault> {
        if self.bindings.len() > BINDINGS_MAX {
            return Err(Fault::Fields);
        }
        let (text, host) = (self.text(), self.agent.to_string());
        let bytes = text.len();
        Origin { job: JOB, host: &host, facility: "", severity: "" }.push(now_ns, text, gather)?;
        Ok(bytes)
    }
}

/// What a generic notification is called.
fn name(trap: &str) -> Option<&'static str> {
    let number: usize = trap.strip_prefix(GENERIC)?.parse().ok()?;
    GENERIC_NAMES.get(number.checked_sub(1)?).copied()
}

fn plain(out: &mut String, number: impl std::fmt::Display) {
    write!(out, "{number}").expect("writes to memory");
}

fn ticks(out: &mut String, ticks: u32) {
    write!(out, "{}.{:02}", ticks / 100, ticks % 100).expect("writes to memory");
}

impl Scalar {
    fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Integer(number) => plain(out, number),
            Self::Unsigned(number) => plain(out, number),
            Self::Ticks(number) => ticks(out, *number),
            Self::Float(number) if number.is_finite() => write!(out, "{number:?}").expect("writes to memory"),
            Self::Float(number) => quoted(out, &number.to_string()),
            Self::Text(text) => quoted(out, text),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use ogive_model::Value;

    use super::*;

    fn notification(count: usize) -> Notification {
        let binding = |at: usize| Binding { oid: format!("1.3.{at}"), value: Scalar::Integer(-7) };
        Notification {
            agent: Ipv4Addr::new(192, 0, 2, 7).into(),
            sender: Ipv4Addr::new(192, 0, 2, 7).into(),
            version: "2c",
            user: None,
            context: String::new(),
            trap: "1.3.6.1.6.3.1.1.5.3".into(),
            uptime_ticks: 12_305,
            enterprise: None,
            codes: None,
            bindings: (0..count).map(binding).collect(),
        }
    }

    #[test]
    fn numbers_are_numbers_and_texts_are_texts() {
        assert_eq!(
            notification(1).text(),
            r#"{"body":"linkDown","attributes":{"snmpTrapOID":"1.3.6.1.6.3.1.1.5.3","uptime":123.05,"version":"2c","1.3.0":-7}}"#
        );
        let values = [
            Scalar::Null,
            Scalar::Unsigned(u64::MAX),
            Scalar::Ticks(7),
            Scalar::Float(0.5),
            Scalar::Float(2.0),
            Scalar::Text("a \"b\"".into()),
        ];
        let mut more = notification(0);
        more.bindings = values.map(|value| Binding { oid: "1.3".into(), value }).into();
        let text = more.text();
        let expected = r#","1.3":null,"1.3":18446744073709551615,"1.3":0.07,"1.3":0.5,"1.3":2.0,"1.3":"a \"b\""}}"#;
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn what_a_version_has_beside_the_bindings_is_stored_too() {
        let mut first = notification(0);
        first.sender = Ipv4Addr::new(192, 0, 2, 8).into();
        (first.version, first.trap, first.codes) = ("1", "1.3.6.1.4.1.9.0.5".into(), Some((6, 5)));
        (first.enterprise, first.user, first.context) = (Some("1.3.6.1.4.1.9".into()), Some("u".into()), "c".into());
        assert_eq!(
            first.text(),
            concat!(
                r#"{"body":"1.3.6.1.4.1.9.0.5","attributes":{"snmpTrapOID":"1.3.6.1.4.1.9.0.5","uptime":123.05,"#,
                r#""enterprise":"1.3.6.1.4.1.9","generic":6,"specific":5,"version":"1","sender":"192.0.2.8","#,
                r#""user":"u","context":"c"}}"#
            )
        );
        assert_eq!(
            (name("1.3.6.1.6.3.1.1.5.1"), name("1.3.6.1.6.3.1.1.5.6")),
            (Some("coldStart"), Some("egpNeighborLoss"))
        );
        for other in ["1.3.6.1.6.3.1.1.5.0", "1.3.6.1.6.3.1.1.5.7", "1.3.6.1.6.3.1.1.5.1.1", "1.3"] {
            assert_eq!(name(other), None, "{other}");
        }
    }

    #[test]
    fn a_notification_has_a_limit_of_bindings() {
        let mut gather = Gather::default();
        assert_eq!(notification(BINDINGS_MAX + 1).feed(1, &mut gather), Err(Fault::Fields));
        let most = notification(BINDINGS_MAX);
        assert_eq!(most.feed(1, &mut gather), Ok(most.text().len()));
        let batch = gather.take(Default::default(), 0, &Default::default());
        let sample = batch.samples[0].as_ref().unwrap();
        assert_eq!((sample.time_ns, &sample.value), (1, &Value::Text(most.text())));
    }
}
