//! Servers that greet with lines of text: SSH, SMTP, IMAP and POP3. The greeting is read and verified; with mail
//! servers the check can also start TLS, and the session is closed as the protocol requires.
//!
//! Format: RFC 4253 section 4.2 (SSH), RFC 5321 (SMTP), RFC 9051 (IMAP), RFC 1939 (POP3); STARTTLS: RFC 3207, RFC 9051
//! section 6.2.1, RFC 2595.
//! Invariants: bytes that arrive before TLS is established are never taken for bytes that arrived after it.
//! Limits: [`LINE_BYTES_MAX`], [`LINES_MAX`].

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use super::net::{Network, Stream};
use super::raw::Raw;
use super::run::{Failure, Reason, Run};
use super::target::{HostAndPort, Trust, place, target, trust};

/// 2 KiB: four times what SMTP allows for a line of a reply.
const LINE_BYTES_MAX: u64 = 2 << 10;
/// 100 lines before the one that is waited for: banners of SSH, capabilities of SMTP.
const LINES_MAX: usize = 100;

/// The tag of IMAP commands.
const TAG: &str = "a1";

/// How a server greets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Ssh,
    Smtp,
    Imap,
    Pop3,
}

/// When TLS begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Encryption {
    None,
    /// As soon as the connection is open.
    Implicit(Trust),
    /// On demand, within the protocol.
    StartTls(Trust),
}

/// A server whose greeting is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    protocol: Protocol,
    place: HostAndPort,
    encryption: Encryption,
}

impl Greeting {
    pub(super) fn from_raw(raw: &mut Raw, protocol: Protocol) -> Result<Self, String> {
        let (plain, encrypted) = match protocol {
            Protocol::Ssh => (22, 22),
            Protocol::Smtp => (25, 465),
            Protocol::Imap => (143, 993),
            Protocol::Pop3 => (110, 995),
        };
        let has_tls = protocol != Protocol::Ssh;
        let (implicit, on_demand) = match has_tls {
            true => (raw.tls.take().unwrap_or(false), raw.starttls.take().unwrap_or(false)),
            false => (false, false),
        };
        if implicit && on_demand {
            return Err("give tls or starttls, not both".into());
        }
        let place = place(&target(raw)?, Some(if implicit { encrypted } else { plain }))?;
        let encryption = match (implicit, on_demand) {
            (true, _) => Encryption::Implicit(trust(raw)),
            (_, true) => Encryption::StartTls(trust(raw)),
            _ => Encryption::None,
        };
        Ok(Self { protocol, place, encryption })
    }
}

pub(super) async fn run(network: &Network, run: &mut Run, greeting: &Greeting) -> Result<(), Failure> {
    let Greeting { protocol, place, encryption } = greeting;
    let implicit = if let Encryption::Implicit(trust) = encryption { Some(trust) } else { None };
    let mut stream = BufReader::new(network.open(run, place, implicit).await?);
    run.phase("greeting");
    greet(&mut stream, *protocol).await?;
    if let Encryption::StartTls(trust) = encryption {
        run.phase("starttls");
        start_tls(&mut stream, *protocol).await?;
        stream = BufReader::new(network.tls(run, stream.into_inner(), &place.host, trust).await?);
    }
    // The answer is known; a server that is gone by now was there.
    let _ = stream.write_all(farewell(*protocol).as_bytes()).await;
    let _ = stream.flush().await;
    Ok(())
}

/// Reads what the server says first.
pub(super) async fn greet(stream: &mut BufReader<Box<dyn Stream>>, protocol: Protocol) -> Result<(), Failure> {
    match protocol {
        Protocol::Ssh => {
            for _ in 0..LINES_MAX {
                let line = line(stream).await?;
                if line.starts_with("SSH-2.0-") || line.starts_with("SSH-1.99-") {
                    return Ok(());
                }
                if line.starts_with("SSH-") {
                    return Err(unexpected("a greeting of SSH 2", &line));
                }
            }
            Err(Failure::new(Reason::Protocol, format!("no greeting of SSH in {LINES_MAX} lines")))
        }
        Protocol::Smtp => reply(stream, "220").await.map(drop),
        Protocol::Imap => {
            let line = line(stream).await?;
            if has_word(&line, "* OK") || has_word(&line, "* PREAUTH") { Ok(()) } else { Err(refused("* BYE", &line)) }
        }
        Protocol::Pop3 => {
            let line = line(stream).await?;
            if has_word(&line, "+OK") { Ok(()) } else { Err(refused("-ERR", &line)) }
        }
    }
}

/// Asks for TLS; whatever follows is its handshake.
pub(super) async fn start_tls(stream: &mut BufReader<Box<dyn Stream>>, protocol: Protocol) -> Result<(), Failure> {
    match protocol {
        Protocol::Ssh => unreachable!("a check of SSH has no such key"),
        Protocol::Smtp => {
            command(stream, "EHLO localhost").await?;
            let capabilities = reply(stream, "250").await?;
            if !capabilities.iter().any(|line| line.trim().eq_ignore_ascii_case("STARTTLS")) {
                return Err(Failure::new(Reason::Tls, "the server does not offer STARTTLS"));
            }
            command(stream, "STARTTLS").await?;
            reply(stream, "220").await?;
        }
        Protocol::Imap => {
            command(stream, &format!("{TAG} STARTTLS")).await?;
            for _ in 0..LINES_MAX {
                let line = line(stream).await?;
                if has_word(&line, &format!("{TAG} OK")) {
                    return nothing_behind(stream);
                }
                if !line.starts_with("* ") {
                    return Err(Failure::new(Reason::Status, format!("the server says {line:?}")));
                }
            }
            return Err(Failure::new(Reason::Protocol, format!("no answer to STARTTLS in {LINES_MAX} lines")));
        }
        Protocol::Pop3 => {
            command(stream, "STLS").await?;
            let line = line(stream).await?;
            if !has_word(&line, "+OK") {
                return Err(refused("-ERR", &line));
            }
        }
    }
    nothing_behind(stream)
}

/// What was sent before TLS could be anybody's.
pub(super) fn nothing_behind(stream: &BufReader<Box<dyn Stream>>) -> Result<(), Failure> {
    match stream.buffer().len() {
        0 => Ok(()),
        more => Err(Failure::new(Reason::Protocol, format!("{more} bytes arrived before TLS began"))),
    }
}

/// Ends a session, so that the server does not log a broken one.
fn farewell(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Ssh => "SSH-2.0-Ogive\r\n",
        Protocol::Smtp | Protocol::Pop3 => "QUIT\r\n",
        Protocol::Imap => "a2 LOGOUT\r\n",
    }
}

async fn command(stream: &mut BufReader<Box<dyn Stream>>, line: &str) -> Result<(), Failure> {
    stream.write_all(format!("{line}\r\n").as_bytes()).await?;
    Ok(stream.flush().await?)
}

/// The texts of a reply of SMTP, which may have several lines, with this code.
async fn reply(stream: &mut BufReader<Box<dyn Stream>>, code: &str) -> Result<Vec<String>, Failure> {
    let mut texts = Vec::new();
    while texts.len() < LINES_MAX {
        let line = line(stream).await?;
        let Some((found, rest)) = line.split_at_checked(3).filter(|(found, _)| is_code(found)) else {
            return Err(unexpected("a reply of SMTP", &line));
        };
        if found != code {
            return Err(Failure::new(Reason::Status, format!("the server says {line:?}")));
        }
        let is_last = !rest.starts_with('-');
        texts.push(rest.get(1..).unwrap_or_default().to_owned());
        if is_last {
            return Ok(texts);
        }
    }
    Err(Failure::new(Reason::Protocol, format!("a reply of more than {LINES_MAX} lines")))
}

fn is_code(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A line without its end.
async fn line(stream: &mut BufReader<Box<dyn Stream>>) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    stream.take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes).await?;
    let Some(line) = bytes.strip_suffix(b"\n") else {
        return Err(match bytes.len() as u64 {
            0 => Failure::new(Reason::Closed, "the server closed the connection"),
            LINE_BYTES_MAX => Failure::new(Reason::Protocol, format!("a line of more than {LINE_BYTES_MAX} bytes")),
            _ => Failure::new(Reason::Closed, "the server closed the connection within a line"),
        });
    };
    Ok(String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned())
}

/// Whether a line begins with `words`, in any case, and a space or nothing behind them.
fn has_word(line: &str, words: &str) -> bool {
    line.split_at_checked(words.len())
        .is_some_and(|(head, rest)| head.eq_ignore_ascii_case(words) && (rest.is_empty() || rest.starts_with(' ')))
}

/// A line that is not the right one: the server's refusal when it begins with `no`.
fn refused(no: &str, line: &str) -> Failure {
    if has_word(line, no) {
        Failure::new(Reason::Status, format!("the server says {line:?}"))
    } else {
        unexpected("an answer of the protocol", line)
    }
}

fn unexpected(what: &str, line: &str) -> Failure {
    Failure::new(Reason::Protocol, format!("{line:?} is not {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> BufReader<Box<dyn Stream>> {
        let bytes = std::io::Cursor::new(text.as_bytes().to_vec());
        BufReader::new(Box::new(tokio::io::join(bytes, tokio::io::sink())))
    }

    async fn greeted(protocol: Protocol, text: &str) -> Result<(), Reason> {
        greet(&mut said(text), protocol).await.map_err(|failure| failure.reason)
    }

    #[tokio::test]
    async fn greetings_are_judged() {
        use Protocol::{Imap, Pop3, Smtp, Ssh};
        for (protocol, text, expected) in [
            (Ssh, "SSH-2.0-OpenSSH_9.2p1 Debian\r\n", Ok(())),
            (Ssh, "Keep out.\nSSH-1.99-x\n", Ok(())),
            (Ssh, "SSH-1.5-old\r\n", Err(Reason::Protocol)),
            (Ssh, &"banner\n".repeat(LINES_MAX), Err(Reason::Protocol)),
            (Ssh, "", Err(Reason::Closed)),
            (Ssh, "SSH-2.0-x", Err(Reason::Closed)),
            (Smtp, "220 mail ready\r\n", Ok(())),
            (Smtp, "220-mail\r\n220-is\r\n220\r\n", Ok(())),
            (Smtp, "554 no service\r\n", Err(Reason::Status)),
            (Smtp, "220-mail\r\n421 gone\r\n", Err(Reason::Status)),
            (Smtp, "22\r\n", Err(Reason::Protocol)),
            (Smtp, "22é\r\n", Err(Reason::Protocol)),
            (Smtp, &"220-x\r\n".repeat(LINES_MAX), Err(Reason::Protocol)),
            (Imap, "* OK ready\r\n", Ok(())),
            (Imap, "* preauth you\r\n", Ok(())),
            (Imap, "* BYE busy\r\n", Err(Reason::Status)),
            (Imap, "* OKAY\r\n", Err(Reason::Protocol)),
            (Pop3, "+OK\r\n", Ok(())),
            (Pop3, "-ERR [SYS/TEMP] later\r\n", Err(Reason::Status)),
            (Pop3, "HTTP/1.1 400 Bad Request\r\n", Err(Reason::Protocol)),
        ] {
            assert_eq!(greeted(protocol, text).await, expected, "{protocol:?} {text:?}");
        }
        let endless = "x".repeat(LINE_BYTES_MAX as usize + 1);
        assert_eq!(greeted(Ssh, &endless).await, Err(Reason::Protocol));
    }

    #[tokio::test]
    async fn tls_begins_only_where_it_is_offered_and_nothing_came_before_it() {
        use Protocol::{Imap, Pop3, Smtp};
        for (protocol, text, expected) in [
            (Smtp, "250-mail\r\n250-SIZE 10\r\n250 starttls\r\n220 go\r\n", Ok(())),
            (Smtp, "250-mail\r\n250 SIZE 10\r\n220 go\r\n", Err(Reason::Tls)),
            (Smtp, "250 STARTTLS\r\n454 not now\r\n", Err(Reason::Status)),
            (Smtp, "250 STARTTLS\r\n220 go\r\n250 injected\r\n", Err(Reason::Protocol)),
            (Imap, "* CAPABILITY x\r\na1 OK go\r\n", Ok(())),
            (Imap, "a1 BAD no\r\n", Err(Reason::Status)),
            (Imap, "a1 OK go\r\n* injected\r\n", Err(Reason::Protocol)),
            (Pop3, "+OK go\r\n", Ok(())),
            (Pop3, "-ERR no\r\n", Err(Reason::Status)),
            (Pop3, "+OK go\r\n+OK injected\r\n", Err(Reason::Protocol)),
        ] {
            let found = start_tls(&mut said(text), protocol).await.map_err(|failure| failure.reason);
            assert_eq!(found, expected, "{protocol:?} {text:?}");
        }
    }
}
