//! Commands to a server of MongoDB's protocol and its answers, each a message with one document.
//!
//! Format: MongoDB's wire protocol, OP_MSG: the message's length, its id, the id of what it answers, and 2013, each 4
//! bytes little-endian; 4 bytes of flags; a section of kind 0, which is a document. A checksum at the end, which
//! clients that send none do not get, is left out.
//! Invariants: an answer is to the command before it.
//! Limits: [`ANSWER_BYTES_MAX`] of an answer. What a length announces takes memory when it has come, not before.

use bson::RawDocumentBuf;
use bson::raw::cstr;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};

use super::document;
use crate::net::Stream;
use crate::readings::{ANSWER_BYTES_MAX, text_of};
use crate::run::{Failure, Reason, cut};

const HEADER_BYTES: usize = 16;
/// The flags and the kind of the section.
const HEAD_BYTES: usize = 5;
/// The shortest message: with a document that has nothing.
const MESSAGE_BYTES_MIN: usize = HEADER_BYTES + HEAD_BYTES + 5;
/// 48,000,000 bytes, above which no server sends a message: a longer one is none of this protocol.
const MESSAGE_BYTES_MAX: usize = 48_000_000;
const OP_MSG: i32 = 2_013;
/// Flag: a checksum is at the end.
const CHECKSUM_PRESENT: u32 = 1;
/// Flags that a reader has to understand; those above may be ignored. One of them says that another answer follows,
/// which nobody asked for here.
const REQUIRED: u32 = 0xffff;
/// 512 bytes of what a server says.
const SHOWN_BYTES_MAX: usize = 512;

const COMMAND_NOT_FOUND: i64 = 59;

/// A connection to a server.
pub(crate) struct Session {
    stream: BufReader<Box<dyn Stream>>,
    /// The id of the last command.
    id: i32,
}

/// What a server answers to a command.
pub(crate) struct Reply(Value);

impl Session {
    pub(crate) fn new(stream: Box<dyn Stream>) -> Self {
        Self { stream: BufReader::new(stream), id: 0 }
    }

    /// The answer to a command for a database.
    pub(crate) async fn ask(&mut self, database: &str, mut command: RawDocumentBuf) -> Result<Reply, Failure> {
        command.append(cstr!("$db"), database);
        self.id += 1;
        self.stream.write_all(&message(self.id, command.as_bytes())).await?;
        self.stream.flush().await?;
        let body = self.body().await?;
        document::value(section(&body)?).map(Reply)
    }

    /// What follows the header of the next message.
    async fn body(&mut self) -> Result<Vec<u8>, Failure> {
        let length = self.stream.read_u32_le().await? as usize;
        if !(MESSAGE_BYTES_MIN..=MESSAGE_BYTES_MAX).contains(&length) {
            return Err(strange());
        }
        let _id = self.stream.read_i32_le().await?;
        let answered = self.stream.read_i32_le().await?;
        let code = self.stream.read_i32_le().await?;
        if answered != self.id || code != OP_MSG {
            return Err(strange());
        }
        if length > ANSWER_BYTES_MAX {
            let sentence = format!("the answer has {length} bytes, above {ANSWER_BYTES_MAX}");
            return Err(Failure::new(Reason::Limit, sentence));
        }
        let (length, mut body) = (length - HEADER_BYTES, Vec::new());
        AsyncReadExt::take(&mut self.stream, length as u64).read_to_end(&mut body).await?;
        if body.len() < length {
            return Err(Failure::new(Reason::Closed, "the connection ends within an answer"));
        }
        Ok(body)
    }
}

fn message(id: i32, document: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEADER_BYTES + HEAD_BYTES + document.len()).expect("a command is short").to_le_bytes();
    [&length[..], &id.to_le_bytes(), &[0; 4], &OP_MSG.to_le_bytes(), &[0; HEAD_BYTES], document].concat()
}

/// The document of a message, of which `body` is what follows the header.
fn section(body: &[u8]) -> Result<&[u8], Failure> {
    let (flags, rest) = body.split_first_chunk::<4>().ok_or_else(strange)?;
    let flags = u32::from_le_bytes(*flags);
    let checksum_bytes = if flags & CHECKSUM_PRESENT == 0 { 0 } else { 4 };
    let end = rest.len().checked_sub(checksum_bytes).ok_or_else(strange)?;
    match rest[..end].split_first() {
        Some((0, document)) if flags & REQUIRED & !CHECKSUM_PRESENT == 0 => Ok(document),
        _ => Err(strange()),
    }
}

fn strange() -> Failure {
    Failure::new(Reason::Protocol, "what answers does not speak the protocol of MongoDB")
}

impl Reply {
    /// Whether the server does not know the command: it is older, or another that speaks the protocol.
    pub(crate) fn is_unknown(&self) -> bool {
        self.code() == COMMAND_NOT_FOUND
    }

    /// The answer, where the command succeeded.
    ///
    /// # Errors
    /// Why the server refuses the command.
    pub(crate) fn judged(self) -> Result<Value, Failure> {
        match self.0.get("ok").and_then(Value::as_f64) {
            Some(1.0) => Ok(self.0),
            Some(_) => Err(self.refused()),
            None => Err(strange()),
        }
    }

    /// The answer to a part of a login.
    ///
    /// # Errors
    /// Why the server refuses it; one that does not know the command has no logins.
    pub(crate) fn judged_at_login(self) -> Result<Value, Failure> {
        let is_unknown = self.is_unknown();
        self.judged().map_err(|failure| if is_unknown { Failure { reason: Reason::Login, ..failure } } else { failure })
    }

    fn code(&self) -> i64 {
        self.0.get("code").and_then(Value::as_i64).unwrap_or_default()
    }

    fn refused(&self) -> Failure {
        let reason = match self.code() {
            // UserNotFound, Unauthorized, AuthenticationFailed, MechanismUnavailable, ReauthenticationRequired, and
            // AtlasError, which is a login too.
            11 | 13 | 18 | 334 | 391 | 8_000 => Reason::Login,
            // MaxTimeMSExpired, ExceededTimeLimit.
            50 | 262 => Reason::Timeout,
            _ => Reason::Status,
        };
        let text = cut(text_of(&self.0, "errmsg"), SHOWN_BYTES_MAX);
        let name = cut(text_of(&self.0, "codeName"), SHOWN_BYTES_MAX);
        let code = format!("{} {name}", self.code());
        Failure::new(reason, format!("the server says {text:?} ({})", code.trim_end()))
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// What is answered by a server that says `bytes` to a ping.
    async fn answered(bytes: &[u8]) -> Result<Value, Failure> {
        let stream = tokio::io::join(std::io::Cursor::new(bytes.to_vec()), tokio::io::sink());
        Session::new(Box::new(stream)).ask("admin", rawdoc! {"ping": 1_i32}).await?.judged()
    }

    /// A message that answers the first.
    fn answer(code: i32, flags: u32, rest: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEADER_BYTES + 4 + rest.len()).unwrap().to_le_bytes();
        [&length[..], &[9, 0, 0, 0, 1, 0, 0, 0], &code.to_le_bytes(), &flags.to_le_bytes(), rest].concat()
    }

    #[tokio::test]
    async fn a_command_and_its_answer_are_messages() {
        let (mut server, client) = tokio::io::duplex(1 << 10);
        let ok = [&[0][..], rawdoc! {"ok": 1.0}.as_bytes()].concat();
        server.write_all(&answer(OP_MSG, 0, &ok)).await.unwrap();
        let mut session = Session::new(Box::new(client));
        let reply = session.ask("admin", rawdoc! {"ping": 1_i32}).await.unwrap();
        assert_eq!(reply.judged(), Ok(json!({"ok": 1.0})));
        drop(session);
        let mut asked = Vec::new();
        server.read_to_end(&mut asked).await.unwrap();
        let document = rawdoc! {"ping": 1_i32, "$db": "admin"};
        let head = b"\x33\0\0\0\x01\0\0\0\0\0\0\0\xdd\x07\0\0\0\0\0\0\0";
        assert_eq!(asked, [&head[..], document.as_bytes()].concat());
    }

    #[tokio::test]
    async fn messages_are_bounded_and_answer_what_was_asked() {
        let ok = [&[0][..], rawdoc! {"ok": 1.0}.as_bytes()].concat();
        let good = answer(OP_MSG, 0, &ok);
        assert_eq!(answered(&good).await, Ok(json!({"ok": 1.0})));
        let summed = answer(OP_MSG, CHECKSUM_PRESENT, &[&ok[..], b"sums"].concat());
        assert_eq!(answered(&summed).await, Ok(json!({"ok": 1.0})));
        let ignored = answer(OP_MSG, 1 << 16, &ok);
        assert_eq!(answered(&ignored).await, Ok(json!({"ok": 1.0})));
        for end in 0..good.len() {
            assert_eq!(answered(&good[..end]).await.unwrap_err().reason, Reason::Closed, "{end}");
        }
        let with = |at: usize, bytes: [u8; 4]| [&good[..at], &bytes, &good[at + 4..]].concat();
        let length = |bytes: usize| with(0, u32::try_from(bytes).unwrap().to_le_bytes());
        for (bytes, reason) in [
            (b"SSH-2.0-x\r\n".to_vec(), Reason::Protocol),
            (length(MESSAGE_BYTES_MIN - 1), Reason::Protocol),
            (length(ANSWER_BYTES_MAX), Reason::Closed),
            (length(ANSWER_BYTES_MAX + 1), Reason::Limit),
            (length(MESSAGE_BYTES_MAX), Reason::Limit),
            (length(MESSAGE_BYTES_MAX + 1), Reason::Protocol),
            (with(8, [2, 0, 0, 0]), Reason::Protocol),
            (answer(1, 0, &ok), Reason::Protocol),
            // Another answer follows, and one that nothing is known of.
            (answer(OP_MSG, 2, &ok), Reason::Protocol),
            (answer(OP_MSG, 1 << 15, &ok), Reason::Protocol),
            (answer(OP_MSG, 0, &[&[1][..], &ok[1..]].concat()), Reason::Protocol),
            (answer(OP_MSG, 0, &[0; 6]), Reason::Protocol),
            (answer(OP_MSG, 0, &[&[0][..], rawdoc! {"x": 1.0}.as_bytes()].concat()), Reason::Protocol),
        ] {
            assert_eq!(answered(&bytes).await.unwrap_err().reason, reason, "{bytes:?}");
        }
    }

    #[tokio::test]
    async fn refusals_have_their_reasons() {
        for (code, reason) in
            [(13_i32, Reason::Login), (18, Reason::Login), (50, Reason::Timeout), (76, Reason::Status)]
        {
            let document = rawdoc! {"ok": 0.0, "errmsg": "no", "code": code, "codeName": "Name"};
            let found = answered(&answer(OP_MSG, 0, &[&[0][..], document.as_bytes()].concat())).await;
            assert_eq!(found, Err(Failure::new(reason, format!("the server says \"no\" ({code} Name)"))));
        }
        let reply = || Reply(json!({"ok": 0, "code": 59}));
        assert!(reply().is_unknown());
        assert_eq!(reply().judged_at_login().unwrap_err().reason, Reason::Login);
        assert_eq!(reply().judged().unwrap_err().reason, Reason::Status);
    }

    proptest! {
        #[test]
        fn anything_may_come(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            prop_assert!(runtime.block_on(answered(&bytes)).is_err());
            let _ = runtime.block_on(answered(&answer(OP_MSG, 0, &bytes)));
        }
    }
}
