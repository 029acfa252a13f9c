//! What is reported of a TLS connection.

use super::version::TlsVersion;
use crate::span::Nanos;

/// How a handshake ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TlsEnd {
    /// Both sides sent their Finished.
    Done,
    /// A side sent an alert in clear, with this code (RFC 8446, 6).
    Alert(u8),
    /// The client of TLS 1.3 sent an alert where its Finished belongs; its code is encrypted.
    EncryptedAlert,
    /// The connection closed before.
    Closed,
    /// The connection was reset before.
    Reset,
}

impl TlsEnd {
    /// The name in the label `why`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Alert(code) => alert_name(code),
            Self::EncryptedAlert => "encrypted_alert",
            Self::Closed => "closed",
            Self::Reset => "rst",
        }
    }
}

fn alert_name(code: u8) -> &'static str {
    match code {
        0 => "close_notify",
        10 => "unexpected_message",
        20 => "bad_record_mac",
        40 => "handshake_failure",
        42 => "bad_certificate",
        43 => "unsupported_certificate",
        44 => "certificate_revoked",
        45 => "certificate_expired",
        46 => "certificate_unknown",
        47 => "illegal_parameter",
        48 => "unknown_ca",
        49 => "access_denied",
        50 => "decode_error",
        51 => "decrypt_error",
        70 => "protocol_version",
        71 => "insufficient_security",
        80 => "internal_error",
        86 => "inappropriate_fallback",
        90 => "user_canceled",
        109 => "missing_extension",
        112 => "unrecognized_name",
        116 => "certificate_required",
        120 => "no_application_protocol",
        _ => "other_alert",
    }
}

/// The observed properties of a handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsHandshake {
    /// When its last byte was captured.
    pub at: Nanos,
    /// From the first byte of the ClientHello to the last byte of the later Finished; for TLS 1.3 that is the client's.
    pub nanos: Nanos,
    /// How it ended.
    pub end: TlsEnd,
    /// The negotiated version; `None` when no ServerHello was seen.
    pub version: Option<TlsVersion>,
    /// The name that the client requested (SNI); empty when it named none.
    pub server_name: String,
    /// The protocol that was negotiated by ALPN, such as `h2`. In TLS 1.3 the server's choice is encrypted: then the
    /// client's offers, separated by commas. Empty without ALPN.
    pub alpn: String,
    /// Whether `alpn` is the server's choice.
    pub is_alpn_chosen: bool,
    /// When the server's certificate expires, in seconds after 1970; only visible up to TLS 1.2, and not when a session
    /// is resumed.
    pub expires: Option<i64>,
}

/// An event on a TLS connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsEvent<'a> {
    /// A handshake ended.
    Handshake(&'a TlsHandshake),
    /// The server's first byte after application data of the client.
    Turn {
        /// From the client's last byte to the server's first.
        nanos: Nanos,
        /// When the server's first byte was captured.
        at: Nanos,
        /// The handshake, if it was seen.
        handshake: Option<&'a TlsHandshake>,
    },
    /// Bytes on the stream since the last such event, of the client and of the server.
    Bytes([u64; 2]),
}
