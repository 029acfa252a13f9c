//! Responses made of lines, as Redis and memcached send them.
//!
//! Limits: [`LINE_BYTES_MAX`] per response line.

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use super::net::Stream;
use super::run::{Failure, Reason};

/// 4 KiB: an error with its words.
const LINE_BYTES_MAX: u64 = 4 << 10;

/// The next line of `protocol`, without its CR and LF.
pub(super) async fn next(stream: &mut BufReader<Box<dyn Stream>>, protocol: &str) -> Result<String, Failure> {
    let mut line = Vec::new();
    stream.take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await?;
    read(&line, protocol)
}

fn read(line: &[u8], protocol: &str) -> Result<String, Failure> {
    match line.strip_suffix(b"\r\n") {
        Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
        None if line.is_empty() => Err(Failure::new(Reason::Closed, "the server closed the connection")),
        None => Err(Failure::new(Reason::Protocol, format!("the answer is no line of {protocol}"))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn answers_are_lines() {
        assert_eq!(read(b"+PONG\r\n", "x").unwrap(), "+PONG");
        assert_eq!(read(b"", "x").unwrap_err().reason, Reason::Closed);
        assert_eq!(read(b"+PONG\n", "x").unwrap_err().reason, Reason::Protocol);
    }

    proptest! {
        #[test]
        fn anything_may_come(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(read(&bytes, "x").is_ok(), bytes.ends_with(b"\r\n"));
        }
    }
}
