//! Redis and what speaks like it: login if there is one, then `PING`.
//!
//! Limits: [`LINE_BYTES_MAX`] of an answer.

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use super::net::{Network, Stream};
use super::run::{Failure, Reason, Run};
use super::target::Login;

/// 4 KiB: an error with its words.
const LINE_BYTES_MAX: u64 = 4 << 10;

pub(super) async fn run(network: &Network, run: &mut Run, login: &Login) -> Result<(), Failure> {
    let mut stream = BufReader::new(network.open(run, &login.place, login.trust.as_ref()).await?);
    if let Some(password) = &login.password {
        run.phase("login");
        let password = network.words(password).await?;
        let mut words = vec!["AUTH"];
        words.extend(login.user.as_deref());
        words.push(&password);
        let answer = ask(&mut stream, &words).await?;
        if answer != "+OK" {
            return Err(Failure::new(Reason::Login, refusal(&answer)));
        }
    }
    run.phase("query");
    let answer = ask(&mut stream, &["PING"]).await?;
    match answer.as_str() {
        "+PONG" => Ok(()),
        no if no.starts_with("-NOAUTH") || no.starts_with("-NOPERM") => Err(Failure::new(Reason::Login, refusal(no))),
        no if no.starts_with('-') => Err(Failure::new(Reason::Status, refusal(no))),
        other => Err(Failure::new(Reason::Protocol, format!("the answer to PING is {other:?}"))),
    }
}

fn refusal(answer: &str) -> String {
    format!("the server says {:?}", answer.trim_start_matches('-'))
}

pub(super) async fn ask(stream: &mut BufReader<Box<dyn Stream>>, words: &[&str]) -> Result<String, Failure> {
    stream.write_all(&command(words)).await?;
    stream.flush().await?;
    let mut line = Vec::new();
    stream.take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await?;
    read(&line)
}

/// An answer of one line.
fn read(line: &[u8]) -> Result<String, Failure> {
    match line.strip_suffix(b"\r\n") {
        Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
        None if line.is_empty() => Err(Failure::new(Reason::Closed, "the server closed the connection")),
        None => Err(Failure::new(Reason::Protocol, "the answer is no line of the Redis protocol")),
    }
}

/// A command as an array of strings.
fn command(words: &[&str]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len());
    for word in words {
        out.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn commands_are_arrays_of_strings() {
        assert_eq!(command(&["AUTH", "p\u{e4}"]), "*2\r\n$4\r\nAUTH\r\n$3\r\np\u{e4}\r\n".as_bytes());
    }

    #[test]
    fn answers_are_lines() {
        assert_eq!(read(b"+PONG\r\n").unwrap(), "+PONG");
        assert_eq!(read(b"").unwrap_err().reason, Reason::Closed);
        assert_eq!(read(b"+PONG\n").unwrap_err().reason, Reason::Protocol);
    }

    proptest! {
        #[test]
        fn anything_may_come(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(read(&bytes).is_ok(), bytes.ends_with(b"\r\n"));
        }
    }
}
