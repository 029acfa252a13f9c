//! Responses to senders, as protobuf.

use super::any::messages;
use crate::Error;
use crate::protobuf::Fields;
use crate::protobuf::write::{bytes, number};

/// 300 bytes of a far side's sentence are kept.
const MESSAGE_BYTES_MAX: usize = 300;

/// What [`partial_success`] wrote, read by a sender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartialSuccess {
    /// How many points were rejected.
    pub rejected: u64,
    /// Why, or what else the far side says; at most 300 bytes of it.
    pub message: String,
}

impl PartialSuccess {
    /// Reads an `ExportMetricsServiceResponse`.
    ///
    /// # Errors
    /// When it is no protobuf, or a field has another type.
    pub fn read(body: &[u8]) -> Result<Self, Error> {
        let mut out = Self::default();
        for message in messages(body, 1, "a partial success is not a message") {
            for field in Fields::new(message?) {
                match field? {
                    (1, value) => out.rejected = value.varint("the rejected points are not a number")?,
                    (2, value) => {
                        let text = String::from_utf8_lossy(value.bytes("the sentence is not a text")?).into_owned();
                        text[..text.floor_char_boundary(MESSAGE_BYTES_MAX)].trim().clone_into(&mut out.message);
                    }
                    _ => {}
                }
            }
        }
        Ok(out)
    }
}

/// Field 1 of `ExportMetricsServiceResponse` and of `ExportLogsServiceResponse`, which have one shape: how many points
/// or records were rejected, and a sentence. Nothing when there is nothing to say.
#[must_use]
pub fn partial_success(rejected: u64, message: &str) -> Vec<u8> {
    let mut out = Vec::new();
    if rejected == 0 && message.is_empty() {
        return out;
    }
    let mut inner = Vec::new();
    if rejected > 0 {
        number(&mut inner, 1, rejected);
    }
    bytes(&mut inner, 2, message.as_bytes());
    bytes(&mut out, 1, &inner);
    out
}

/// The type of [`status`]' detail that says when to come back.
pub const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";

/// A `google.rpc.Status`; with `retry_seconds`, when to send again.
#[must_use]
pub fn status(code: u32, message: &str, retry_seconds: Option<u64>) -> Vec<u8> {
    let mut out = Vec::new();
    number(&mut out, 1, u64::from(code));
    bytes(&mut out, 2, message.as_bytes());
    if let Some(seconds) = retry_seconds {
        let (mut duration, mut info, mut any) = (Vec::new(), Vec::new(), Vec::new());
        number(&mut duration, 1, seconds);
        bytes(&mut info, 1, &duration);
        bytes(&mut any, 1, RETRY_INFO.as_bytes());
        bytes(&mut any, 2, &info);
        bytes(&mut out, 3, &any);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_back_and_a_long_sentence_is_cut() {
        assert_eq!(PartialSuccess::read(b"").unwrap(), PartialSuccess::default());
        let read = PartialSuccess::read(&partial_success(3, " why ")).unwrap();
        assert_eq!(read, PartialSuccess { rejected: 3, message: "why".into() });
        let long = PartialSuccess::read(&partial_success(0, &"ü".repeat(400))).unwrap();
        assert_eq!((long.rejected, long.message.len()), (0, 300));
    }

    /// Any bytes are an answer or an error, in bounded memory.
    #[test]
    fn any_bytes_are_read_or_refused() {
        let (mut rng, good) = (fastrand::Rng::with_seed(1), partial_success(70_000, "points are too old"));
        let mut read = 0;
        for _ in 0..20_000 {
            let mut bytes = good.clone();
            for _ in 0..3 {
                let at = rng.usize(..bytes.len());
                bytes[at] = rng.u8(..);
            }
            bytes.truncate(rng.usize(..=good.len()));
            if let Ok(answer) = PartialSuccess::read(&bytes) {
                assert!(answer.message.len() <= MESSAGE_BYTES_MAX);
                read += 1;
            }
        }
        assert!(read > 0, "changed bytes are sometimes an answer");
    }
}
