//! Why a datagram is no notification.

/// See the module. The text form is a label value of `ogive_ingest_unreadable_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// No message of SNMP, or one that breaks the rules of BER.
    Undecodable,
    /// A community that is not listed.
    Community,
    /// A user that is not listed.
    User,
    /// An inform, or a request that nobody answers, for another engine.
    Engine,
    /// Another level of security than the user has.
    Level,
    /// A digest that another password, or another protocol, made.
    Digest,
    /// Too old, or of an engine that started again since.
    Time,
    /// What does not decrypt to a message.
    Decryption,
    /// A message that is no notification.
    Kind,
    /// A notification without sysUpTime and snmpTrapOID.
    Fields,
    /// More bindings than a notification may have.
    Bindings,
}

impl Refusal {
    /// Name in counters.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Undecodable => "ber_invalid",
            Self::Community => "community_unknown",
            Self::User => "user_unknown",
            Self::Engine => "engine_unknown",
            Self::Level => "level_unsupported",
            Self::Digest => "digest_wrong",
            Self::Time => "time_window",
            Self::Decryption => "decryption_failed",
            Self::Kind => "type_unknown",
            Self::Fields => "fields",
            Self::Bindings => "bindings_limit",
        }
    }
}
