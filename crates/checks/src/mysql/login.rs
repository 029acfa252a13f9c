//! Login to MySQL and MariaDB: the server's greeting, the client's answer, and the proofs of a password.
//!
//! Invariants: the password itself is sent over TLS alone; elsewhere hashes with the server's random bytes are.
//! Limits: [`ROUNDS_MAX`].

use mysql_common::constants::{CapabilityFlags, UTF8MB4_GENERAL_CI};
use mysql_common::io::ParseBuf;
use mysql_common::packets::{AuthPlugin, AuthSwitchRequest, HandshakePacket, HandshakeResponse, SslRequest};
use mysql_common::proto::MySerialize;

use super::packets::{Packets, Refusal, strange};
use crate::run::{Failure, Reason};

/// 10 packets of the server until a login is done; the longest that is known has four.
const ROUNDS_MAX: usize = 10;
/// 16 MiB, what clients say; the limits of results are this side's own.
const SAID_BYTES_MAX: u32 = 16 << 20;
const PROTOCOL: u8 = 10;

/// What a server says first.
#[derive(Debug)]
pub(crate) struct Greeting {
    pub(crate) is_mariadb: bool,
    pub(crate) has_tls: bool,
    nonce: Vec<u8>,
    plugin: AuthPlugin<'static>,
}

/// Who logs in.
pub(crate) struct Account<'a> {
    pub(crate) user: &'a str,
    pub(crate) password: Option<&'a str>,
    pub(crate) database: Option<&'a str>,
    /// Over TLS.
    pub(crate) is_private: bool,
}

impl Greeting {
    pub(crate) fn parse(packet: &[u8]) -> Result<Self, Failure> {
        if packet.first() == Some(&0xff) {
            return Err(Refusal::parse(packet).at_login());
        }
        // The library calculates with this length as with a signed byte; servers send 21.
        if nonce_length(packet).is_some_and(|length| length > i8::MAX as u8) {
            return Err(strange());
        }
        let parsed = ParseBuf(packet).parse::<HandshakePacket<'_>>(());
        let packet = parsed.map_err(|_| strange())?;
        let needed = CapabilityFlags::CLIENT_PROTOCOL_41 | CapabilityFlags::CLIENT_SECURE_CONNECTION;
        if packet.protocol_version() != PROTOCOL || !packet.capabilities().contains(needed) {
            return Err(Failure::new(Reason::Protocol, "the server is older than MySQL 4.1"));
        }
        let plugin = packet.auth_plugin().unwrap_or(AuthPlugin::MysqlNativePassword).into_owned();
        Ok(Self {
            is_mariadb: packet.server_version_str().contains("MariaDB"),
            has_tls: packet.capabilities().contains(CapabilityFlags::CLIENT_SSL),
            nonce: packet.nonce(),
            plugin,
        })
    }
}

/// The byte of a greeting that says how long its random bytes are: 20 bytes behind the server's version.
fn nonce_length(packet: &[u8]) -> Option<u8> {
    let (_, rest) = packet.split_first()?;
    let version = rest.iter().position(|byte| *byte == 0)?;
    rest.get(version + 1 + 20).copied()
}

fn capabilities(is_private: bool) -> CapabilityFlags {
    let usual = CapabilityFlags::CLIENT_LONG_PASSWORD
        | CapabilityFlags::CLIENT_PROTOCOL_41
        | CapabilityFlags::CLIENT_TRANSACTIONS
        | CapabilityFlags::CLIENT_SECURE_CONNECTION
        | CapabilityFlags::CLIENT_PLUGIN_AUTH;
    if is_private { usual | CapabilityFlags::CLIENT_SSL } else { usual }
}

/// The packet behind which TLS begins.
pub(crate) fn tls_request() -> Vec<u8> {
    let mut out = Vec::new();
    // The number of this collation is a byte in this packet.
    SslRequest::new(capabilities(true), SAID_BYTES_MAX, UTF8MB4_GENERAL_CI as u8).serialize(&mut out);
    out
}

/// Proves who asks, until the server is ready.
pub(crate) async fn log_in(packets: &mut Packets, greeting: &Greeting, account: &Account<'_>) -> Result<(), Failure> {
    // One that is not known here need not be the account's: the server then asks for another.
    let mut plugin = match greeting.plugin {
        AuthPlugin::CachingSha2Password => AuthPlugin::CachingSha2Password,
        _ => AuthPlugin::MysqlNativePassword,
    };
    packets.send(&response(&plugin, greeting, account)).await?;
    for _ in 0..ROUNDS_MAX {
        let packet = packets.next().await?;
        match packet[..] {
            [0x00, ..] => return Ok(()),
            [0xff, ..] => return Err(Refusal::parse(&packet).at_login()),
            [0xfe] => return Err(unknown("mysql_old_password")),
            [0xfe, ..] => {
                let asked = ParseBuf(&packet).parse::<AuthSwitchRequest<'_>>(()).map_err(|_| strange())?;
                plugin = asked.auth_plugin().into_owned();
                packets.send(&proof(&plugin, asked.plugin_data(), account)?).await?;
            }
            // The server knows the hash, and says next that it is ready.
            [0x01, 0x03] if plugin == AuthPlugin::CachingSha2Password => {}
            [0x01, 0x04] if plugin == AuthPlugin::CachingSha2Password => {
                packets.send(&proof(&AuthPlugin::MysqlClearPassword, &[], account)?).await?;
            }
            _ => return Err(strange()),
        }
    }
    Err(strange())
}

/// The answer to a greeting.
fn response(plugin: &AuthPlugin<'static>, greeting: &Greeting, account: &Account<'_>) -> Vec<u8> {
    let hash = plugin.gen_data(account.password, &greeting.nonce).map(|hash| hash.to_vec());
    let response = HandshakeResponse::new(
        hash,
        // A version that has this character set of four bytes.
        (5, 5, 3),
        Some(account.user.as_bytes()),
        account.database.map(str::as_bytes),
        Some(plugin.borrow()),
        capabilities(account.is_private),
        None,
        SAID_BYTES_MAX,
    );
    let mut out = Vec::new();
    response.serialize(&mut out);
    out
}

/// The proof that a server asks for behind the first answer.
fn proof(plugin: &AuthPlugin<'static>, nonce: &[u8], account: &Account<'_>) -> Result<Vec<u8>, Failure> {
    match plugin {
        AuthPlugin::MysqlNativePassword | AuthPlugin::CachingSha2Password => {}
        AuthPlugin::MysqlClearPassword if account.is_private => {}
        AuthPlugin::MysqlClearPassword => {
            let sentence = "the server wants the password itself, which is sent over TLS alone: set tls = true";
            return Err(Failure::new(Reason::Login, sentence));
        }
        other => return Err(unknown(&String::from_utf8_lossy(other.as_bytes()))),
    }
    let mut out = Vec::new();
    if let Some(proof) = plugin.gen_data(account.password, nonce) {
        proof.serialize(&mut out);
    }
    Ok(out)
}

fn unknown(plugin: &str) -> Failure {
    let known = "mysql_native_password, caching_sha2_password, and over TLS mysql_clear_password";
    Failure::new(Reason::Login, format!("the server wants the login {plugin:?}, and the check knows {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A greeting of MariaDB 10.11, with `length` where the length of its random bytes stands.
    fn greeting(length: u8, plugin: &str) -> Vec<u8> {
        let head = b"\x0a5.5.5-10.11.6-MariaDB\0\x07\0\0\0abcdefgh\0\xfe\xff\x2d\x02\0\xff\x81";
        [&head[..], &[length], &[0; 10], b"ijklmnopqrst\0", plugin.as_bytes(), b"\0"].concat()
    }

    fn packet(sequence: u8, body: &[u8]) -> Vec<u8> {
        [&[u8::try_from(body.len()).unwrap(), 0, 0, sequence], body].concat()
    }

    /// What comes of a login to a server that says these packets behind its greeting.
    async fn outcome(said: &[&[u8]], is_private: bool) -> Result<(), Failure> {
        // The client's packets have the numbers between, but for those behind a 3.
        let mut bytes = Vec::new();
        let mut sequence = 2;
        for body in said {
            bytes.extend(packet(sequence, body));
            sequence += if *body == b"\x01\x03" { 1 } else { 2 };
        }
        let mut packets = Packets::new(Box::new(tokio::io::join(std::io::Cursor::new(bytes), tokio::io::sink())));
        packets.sequence = 1;
        let greeting = Greeting::parse(&greeting(21, "caching_sha2_password")).unwrap();
        let account = Account { user: "u", password: Some("p"), database: Some("d"), is_private };
        log_in(&mut packets, &greeting, &account).await
    }

    #[test]
    fn greetings_are_read() {
        let found = Greeting::parse(&greeting(21, "mysql_native_password")).unwrap();
        assert_eq!((found.is_mariadb, found.has_tls), (true, true));
        assert_eq!(found.nonce, b"abcdefghijklmnopqrst");
        assert_eq!(found.plugin, AuthPlugin::MysqlNativePassword);
        let busy = Greeting::parse(b"\xff\x10\x04Too many connections").unwrap_err();
        assert_eq!(busy, Failure::new(Reason::Status, "the server says \"Too many connections\" (1040)"));
        // The library subtracted 8 from -128.
        for length in [0x80, 0x87, 0xff] {
            assert_eq!(Greeting::parse(&greeting(length, "x")).unwrap_err().reason, Reason::Protocol);
        }
        let whole = greeting(21, "x");
        for end in 0..whole.len() - 3 {
            assert_eq!(Greeting::parse(&whole[..end]).unwrap_err().reason, Reason::Protocol, "{end}");
        }
    }

    #[tokio::test]
    async fn the_password_is_sent_over_tls_alone() {
        let ok: &[u8] = b"\0\0\0\x02\0\0\0";
        assert_eq!(outcome(&[ok], false).await, Ok(()));
        assert_eq!(outcome(&[b"\x01\x03", ok], false).await, Ok(()));
        assert_eq!(outcome(&[b"\x01\x04", ok], true).await, Ok(()));
        let clear = b"\xfemysql_clear_password\0";
        assert_eq!(outcome(&[clear, ok], true).await, Ok(()));
        for said in [&b"\x01\x04"[..], clear] {
            let failure = outcome(&[said, ok], false).await.unwrap_err();
            assert!(failure.reason == Reason::Login && failure.sentence.contains("set tls = true"), "{failure}");
        }
        let native = b"\xfemysql_native_password\0ABCDEFGHIJKLMNOPQRST\0";
        assert_eq!(outcome(&[native, ok], false).await, Ok(()));
    }

    #[tokio::test]
    async fn logins_that_are_not_known_and_servers_that_go_on_are_reported() {
        for said in
            [&b"\xfe"[..], b"\xfeclient_ed25519\0x", b"\xfeparsec\0x", b"\xfedialog\0x", b"\xfemysql_old_password\0x"]
        {
            let failure = outcome(&[said], true).await.unwrap_err();
            assert!(failure.reason == Reason::Login && failure.sentence.contains("the check knows"), "{failure}");
        }
        assert_eq!(outcome(&[b"\xff\x15\x04#28000no"], true).await.unwrap_err().reason, Reason::Login);
        for said in [&b""[..], b"\x01\x05", b"\xfeno end", b"\x07"] {
            assert_eq!(outcome(&[said], true).await.unwrap_err().reason, Reason::Protocol, "{said:?}");
        }
        let again = [&b"\xfemysql_native_password\0ABCDEFGHIJKLMNOPQRST\0"[..]; ROUNDS_MAX + 1];
        assert_eq!(outcome(&again, true).await.unwrap_err().reason, Reason::Protocol);
        assert_eq!(
            outcome(&again[..1], true).await.unwrap_err().reason,
            Reason::Closed,
            "what comes next is waited for"
        );
    }
}
