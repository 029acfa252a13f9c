//! Lines of container runtimes: those of CRI (containerd, CRI-O), `TIME STREAM TAGS MESSAGE`, and Docker's json-file,
//! `{"log":"MESSAGE\n","stream":"STREAM","time":"TIME"}`.
//!
//! Fields: `time`, `stream`, `flag` (`P` when the message goes on in the next line, else `F`), `message`, and Docker's
//! `attrs.NAME`.
//! Invariants: a message that is put together from pieces reads as if it had been written in one line.

use std::ops::{ControlFlow, Range};

use ogive_search::each_field;

use crate::fields::Fields;

/// The beginning of a record whose body is a text.
const RECORD: &str = "{\"body\":\"";
/// The beginning of a line of Docker.
const DOCKER: &str = "{\"log\":\"";

/// Adds the fields of a line; false when it is none of a container runtime.
pub(super) fn read(line: &str, fields: &mut Fields) -> bool {
    if line.starts_with('{') { docker(line, fields) } else { cri(line, fields) }
}

/// The parts of a line of CRI, by where they begin and end.
struct Cri {
    time: Range<usize>,
    stream: Range<usize>,
    flag: usize,
    /// None when not even the space before it is there.
    message: Option<usize>,
}

impl Cri {
    fn parse(line: &str) -> Option<Self> {
        let time = 0..line.find(' ')?;
        let is_part = |byte: u8| byte.is_ascii_digit() || b"-:.+TZ".contains(&byte);
        let is_time =
            (20..=35).contains(&time.len()) && line.as_bytes()[10] == b'T' && line[time.clone()].bytes().all(is_part);
        let stream = time.end + 1..time.end + 7;
        if !is_time || !matches!(line.get(stream.clone())?, "stdout" | "stderr") {
            return None;
        }
        let flag = stream.end + 1;
        let tags = line.get(stream.end..)?.strip_prefix(' ')?;
        let (tags, has_message) = tags.split_once(' ').map_or((tags, false), |(tags, _)| (tags, true));
        let is_flagged = matches!(tags.split(':').next(), Some("P" | "F"));
        is_flagged.then(|| Self { time, stream, flag, message: has_message.then_some(flag + tags.len() + 1) })
    }
}

fn cri(line: &str, fields: &mut Fields) -> bool {
    let Some(Cri { time, stream, flag, message }) = Cri::parse(line) else { return false };
    fields.push("time", &line[time]);
    fields.push("stream", &line[stream]);
    fields.push("flag", &line[flag..=flag]);
    fields.push("message", message.map_or("", |at| &line[at..]));
    true
}

fn docker(line: &str, fields: &mut Fields) -> bool {
    let (mut has_log, mut has_stream, mut has_time) = (false, false, false);
    each_field(line, &mut |name, value| {
        match name {
            "log" => {
                has_log = true;
                let whole = value.strip_suffix('\n');
                fields.push("flag", if whole.is_some() { "F" } else { "P" });
                fields.push("message", whole.unwrap_or(value));
            }
            "stream" => {
                has_stream = true;
                fields.push(name, value);
            }
            "time" => {
                has_time = true;
                fields.push(name, value);
            }
            _ if name.starts_with("attrs.") => fields.push(name, value),
            _ => {}
        }
        ControlFlow::Continue(())
    });
    has_log && has_stream && has_time
}

/// How a piece is written. Only pieces of one shape can be put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PieceShape {
    /// A line of CRI.
    Cri,
    /// One in the body of a record.
    CriRecord,
    /// A line of Docker.
    Docker,
}

/// The piece of a message that a line holds.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) shape: PieceShape,
    pub(crate) is_stderr: bool,
    /// Whether the message ends with it.
    pub(crate) is_last: bool,
    /// Where CRI's flag is.
    flag: Option<usize>,
    /// Where the message is, with the escapes that it has there.
    message: Range<usize>,
}

impl Piece {
    /// The piece that a line is; None when it is none of a container runtime.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.starts_with(DOCKER) {
            return Self::parse_docker(text);
        }
        let (shape, from, end) = match text.starts_with(RECORD) {
            true => (PieceShape::CriRecord, RECORD.len(), closing_quote(text, RECORD.len())?),
            false => (PieceShape::Cri, 0, text.len()),
        };
        // Nothing before the message is ever escaped.
        let line = &text[from..end];
        let Cri { stream, flag, message, .. } = Cri::parse(line)?;
        Some(Self {
            shape,
            is_stderr: &line[stream] == "stderr",
            is_last: line.as_bytes()[flag] == b'F',
            flag: Some(from + flag),
            message: from + message?..end,
        })
    }

    fn parse_docker(text: &str) -> Option<Self> {
        let message = DOCKER.len()..closing_quote(text, DOCKER.len())?;
        let (_, stream) = text[message.end..].split_once("\"stream\":\"std")?;
        let is_stderr = match stream.get(..4)? {
            "out\"" => false,
            "err\"" => true,
            _ => return None,
        };
        let before = text[message.clone()].strip_suffix("\\n");
        // A backslash that is itself escaped does not escape the n.
        let is_last = before
            .is_some_and(|before| before.bytes().rev().take_while(|byte| *byte == b'\\').count().is_multiple_of(2));
        Some(Self { shape: PieceShape::Docker, is_stderr, is_last, flag: None, message })
    }

    /// Bytes of its message.
    pub(crate) fn len(&self) -> usize {
        self.message.len()
    }

    /// Puts the message of `piece`, which is in `line`, behind the one of this piece, which is in `text`.
    pub(crate) fn append(&mut self, text: &mut String, piece: &Self, line: &str) {
        assert_eq!(self.shape, piece.shape);
        text.insert_str(self.message.end, &line[piece.message.clone()]);
        self.message.end += piece.len();
        self.is_last = piece.is_last;
        if let Some(at) = self.flag.filter(|_| piece.is_last) {
            text.replace_range(at..=at, "F");
        }
    }
}

/// Where the quote is that closes the text which begins at `from`.
fn closing_quote(text: &str, from: usize) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().enumerate().skip(from).find_map(|(at, byte)| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end.then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &str) {
        let mut fields = Fields::default();
        assert!(read(line, &mut fields), "{line}");
        let found: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(found.join("|"), expected, "{line}");
    }

    #[test]
    fn both_forms_have_the_same_fields() {
        check(
            "2026-01-01T00:00:00.000000000Z stdout F a message",
            "time=2026-01-01T00:00:00.000000000Z|stream=stdout|flag=F|message=a message",
        );
        check(
            "2026-01-01T00:00:00.5+01:00 stderr P:x  a",
            "time=2026-01-01T00:00:00.5+01:00|stream=stderr|flag=P|message= a",
        );
        check("2026-01-01T00:00:00Z stdout F", "time=2026-01-01T00:00:00Z|stream=stdout|flag=F|message=");
        check(
            r#"{"log":"a \"b\"\n","stream":"stderr","attrs":{"tag":"x"},"time":"2026-01-01T00:00:00Z"}"#,
            r#"flag=F|message=a "b"|stream=stderr|attrs.tag=x|time=2026-01-01T00:00:00Z"#,
        );
        for other in [
            "",
            " ",
            "2026-01-01T00:00:00Z",
            "2026-01-01T00:00:00Z stdout",
            "2026-01-01T00:00:00Z stdout X a",
            "2026-01-01T00:00:00Z stdlog F a",
            "2026-01-01 00:00:00 stdout F a",
            "2026-01-01T00:00:00Z ä stdout F a",
            "a b c d",
            r#"{"log":"a","stream":"stdout"}"#,
            r#"{"log":{"a":1},"stream":"stdout","time":"x"}"#,
        ] {
            assert!(!read(other, &mut Fields::default()), "{other}");
        }
    }

    #[test]
    fn pieces_read_as_if_they_had_been_one_line() {
        let check = |lines: &[&str], expected: &str| {
            let mut text = lines[0].to_owned();
            let mut head = Piece::parse(&text).unwrap();
            for line in &lines[1..] {
                assert!(!head.is_last);
                head.append(&mut text, &Piece::parse(line).unwrap(), line);
            }
            assert_eq!(text, expected);
        };
        check(
            &["2026-01-01T00:00:00Z stdout P a ", "2026-01-01T00:00:01Z stdout P b", "2026-01-01T00:00:02Z stdout F c"],
            "2026-01-01T00:00:00Z stdout F a bc",
        );
        check(
            &[
                r#"{"body":"2026-01-01T00:00:00Z stdout P a\"","attributes":{"x":1}}"#,
                r#"{"body":"2026-01-01T00:00:00Z stdout F b\\","attributes":{"x":2}}"#,
            ],
            r#"{"body":"2026-01-01T00:00:00Z stdout F a\"b\\","attributes":{"x":1}}"#,
        );
        check(
            &[r#"{"log":"a\\n","stream":"stdout","time":"1"}"#, r#"{"log":"b\n","stream":"stdout","time":"2"}"#],
            r#"{"log":"a\\nb\n","stream":"stdout","time":"1"}"#,
        );
        for other in
            ["", "a", "2026-01-01T00:00:00Z stdout P", r#"{"log":"a"#, r#"{"log":"a","stream":"x"}"#, r#"{"body":"a"}"#]
        {
            assert!(Piece::parse(other).is_none(), "{other}");
        }
    }
}
