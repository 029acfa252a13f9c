//! Packets of the protocol of MySQL and MariaDB, and the errors in them.
//!
//! Format: 3 bytes of length, low first, a number that rises by one within an exchange, and the bytes.
//! Limits: [`PACKET_BYTES_MAX`] of a packet of the server.

use mysql_common::constants::CapabilityFlags;
use mysql_common::io::ParseBuf;
use mysql_common::packets::ErrPacket;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::net::Stream;
use crate::run::{Failure, Reason};

/// 64 KiB of a packet: a row of a result, as of PostgreSQL.
const PACKET_BYTES_MAX: usize = 64 << 10;

/// A connection, and the number of its next packet.
pub(crate) struct Packets {
    pub(crate) stream: Box<dyn Stream>,
    pub(crate) sequence: u8,
}

impl Packets {
    pub(crate) fn new(stream: Box<dyn Stream>) -> Self {
        Self { stream, sequence: 0 }
    }

    /// The server's next packet.
    pub(crate) async fn next(&mut self) -> Result<Vec<u8>, Failure> {
        let [first, second, third, sequence] = self.stream.read_u32_le().await?.to_le_bytes();
        if sequence != self.sequence {
            return Err(strange());
        }
        let length = u32::from_le_bytes([first, second, third, 0]) as usize;
        if length > PACKET_BYTES_MAX {
            let sentence = format!("a packet of the server has more than {PACKET_BYTES_MAX} bytes");
            return Err(Failure::new(Reason::Limit, sentence));
        }
        self.sequence = sequence.wrapping_add(1);
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await?;
        Ok(body)
    }

    /// Sends a packet of the exchange that is in progress.
    pub(crate) async fn send(&mut self, body: &[u8]) -> Result<(), Failure> {
        let length = u32::try_from(body.len()).expect("what is sent is short");
        let [first, second, third, more] = length.to_le_bytes();
        assert_eq!(more, 0, "what is sent is shorter than 16 MiB");
        let packet = [&[first, second, third, self.sequence], body].concat();
        self.sequence = self.sequence.wrapping_add(1);
        self.stream.write_all(&packet).await?;
        Ok(self.stream.flush().await?)
    }

    /// Begins an exchange.
    pub(crate) async fn command(&mut self, command: u8, words: &[u8]) -> Result<(), Failure> {
        self.sequence = 0;
        self.send(&[&[command], words].concat()).await
    }
}

pub(crate) fn strange() -> Failure {
    Failure::new(Reason::Protocol, "what answers does not speak the protocol of MySQL")
}

/// What an error packet says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    code: u16,
    sentence: String,
}

impl Refusal {
    /// Reads a packet that begins with 0xff.
    pub(crate) fn parse(packet: &[u8]) -> Self {
        // Before the login a server does not know whether its client wants a state, and sends none.
        let has_state = packet.get(3) == Some(&b'#');
        let flags = if has_state { CapabilityFlags::CLIENT_PROTOCOL_41 } else { CapabilityFlags::empty() };
        let Ok(ErrPacket::Error(error)) = ParseBuf(packet).parse::<ErrPacket<'_>>(flags) else {
            return Self { code: 0, sentence: "the server says that there is an error".into() };
        };
        let code = error.error_code();
        Self { code, sentence: format!("the server says {:?} ({code})", error.message_str()) }
    }

    /// As the answer to a login.
    pub(crate) fn at_login(self) -> Failure {
        let reason = match self.code {
            // Access denied (three forms), unknown database, host blocked, host not allowed, ways of login.
            1044 | 1045 | 1698 | 1049 | 1129 | 1130 | 1251 | 1524 => Reason::Login,
            _ => Reason::Status,
        };
        Failure::new(reason, self.sentence)
    }

    /// As the answer to a statement.
    pub(crate) fn in_query(self) -> Failure {
        // Ended by max_statement_time of MariaDB, or max_execution_time of MySQL.
        let is_late = matches!(self.code, 1969 | 3024);
        Failure::new(if is_late { Reason::Timeout } else { Reason::Status }, self.sentence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(bytes: &[u8]) -> Packets {
        Packets::new(Box::new(tokio::io::join(std::io::Cursor::new(bytes.to_vec()), tokio::io::sink())))
    }

    #[tokio::test]
    async fn packets_are_counted_and_bounded() {
        let mut good = packets(b"\x02\0\0\0ok\0\0\0\x01\x01\0\0\x03x");
        assert_eq!(good.next().await.unwrap(), b"ok");
        assert_eq!(good.next().await.unwrap(), b"");
        assert_eq!(good.next().await.unwrap_err().reason, Reason::Protocol, "one is missing");
        let ended = |bytes: &'static [u8]| async move { packets(bytes).next().await.unwrap_err().reason };
        assert_eq!(ended(b"SSH-2.0-x\r\n").await, Reason::Protocol);
        assert_eq!(ended(b"\x03\0\0\0ok").await, Reason::Closed);
        assert_eq!(ended(b"\x01\0\x01\0").await, Reason::Limit);
        let most = [&b"\0\0\x01\0"[..], &vec![7_u8; PACKET_BYTES_MAX]].concat();
        assert_eq!(packets(&most).next().await.unwrap().len(), PACKET_BYTES_MAX);
    }

    #[test]
    fn errors_have_their_reasons() {
        let of = |code: u16, words: &[u8]| Refusal::parse(&[&[0xff][..], &code.to_le_bytes(), words].concat());
        let denied = of(1045, b"#28000Access denied").at_login();
        assert_eq!(denied, Failure::new(Reason::Login, "the server says \"Access denied\" (1045)"));
        assert_eq!(of(1040, b"Too many connections").at_login().reason, Reason::Status);
        assert_eq!(of(1146, b"#42S02no such table").in_query().reason, Reason::Status);
        assert_eq!(of(1969, b"#70100interrupted").in_query().reason, Reason::Timeout);
        assert_eq!(Refusal::parse(b"\xff").code, 0);
        assert_eq!(Refusal::parse(b"\xff\x15\x04#28").code, 0);
    }
}
