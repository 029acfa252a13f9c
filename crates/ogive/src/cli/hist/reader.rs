//! A stream of text to tokens with their line numbers, at memory speed.
//!
//! Format: tokens are separated by white space, `,` or `;`; from `#` to the end of its line is a comment.
//! Limits: one buffer of [`BUFFER_BYTES`]; a token longer than [`TOKEN_BYTES_MAX`] is cut there and its rest skipped.

use std::io::{ErrorKind, Read};

use super::number::TOKEN_BYTES_MAX;

/// 256 KiB: fits the second-level cache, and is 65,536 reads for 16 GiB of input.
const BUFFER_BYTES: usize = 256 * 1024;
const _: () = assert!(BUFFER_BYTES > 4 * TOKEN_BYTES_MAX);

const fn separates(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\t' | b'\r' | b',' | b';')
}

/// Separator table: one load per byte instead of six compares.
const SEPARATOR: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = separates(byte as u8);
        byte += 1;
    }
    table
};

/// Where the reader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Tokens,
    /// Skipping to the end of the line.
    Comment,
    /// Skipping the rest of a token that was too long.
    TokenRest,
}

/// Calls `each(line, token)` for every token of `input` and `progress(bytes)` after each read; stops early when
/// `each` returns false.
pub(super) fn tokens(
    input: &mut dyn Read,
    token_bytes_max: usize,
    mut each: impl FnMut(u64, &[u8]) -> bool,
    mut progress: impl FnMut(usize),
) -> std::io::Result<()> {
    let mut buffer = vec![0u8; BUFFER_BYTES.max(2 * token_bytes_max)];
    let (mut held, mut line, mut state) = (0, 1, State::Tokens);
    loop {
        let read = match input.read(&mut buffer[held..]) {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        progress(read);
        let (end, last) = (held + read, read == 0);
        let Some(used) = scan(&buffer[..end], last, &mut line, &mut state, &mut each) else { return Ok(()) };
        if last {
            return Ok(());
        }
        let mut rest = end - used;
        if rest > token_bytes_max {
            if !each(line, &buffer[used..end]) {
                return Ok(());
            }
            (rest, state) = (0, State::TokenRest);
        }
        buffer.copy_within(end - rest..end, 0);
        held = rest;
    }
}

/// Handles the complete tokens of `text`, the last one only when it ends or `last` is set; returns the bytes used.
/// `None` when `each` wants no more.
fn scan(
    text: &[u8],
    last: bool,
    line: &mut u64,
    state: &mut State,
    each: &mut impl FnMut(u64, &[u8]) -> bool,
) -> Option<usize> {
    let mut at = 0;
    while at < text.len() {
        match state {
            State::Comment => match text[at..].iter().position(|byte| *byte == b'\n') {
                None => return Some(text.len()),
                Some(newline) => (at, *state) = (at + newline, State::Tokens),
            },
            State::TokenRest => match text[at..].iter().position(|byte| separates(*byte)) {
                None => return Some(text.len()),
                Some(separator) => (at, *state) = (at + separator, State::Tokens),
            },
            State::Tokens if SEPARATOR[text[at] as usize] => {
                *line += u64::from(text[at] == b'\n');
                at += 1;
            }
            State::Tokens if text[at] == b'#' => *state = State::Comment,
            State::Tokens => {
                let mut end = at + 1;
                while end < text.len() && !SEPARATOR[text[end] as usize] {
                    end += 1;
                }
                if end == text.len() && !last {
                    return Some(at);
                }
                if !each(*line, &text[at..end]) {
                    return None;
                }
                at = end;
            }
        }
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Hands out `text` in pieces of at most `step` bytes.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let take = self.1.min(buffer.len()).min(self.0.len());
            buffer[..take].copy_from_slice(&self.0[..take]);
            self.0 = &self.0[take..];
            Ok(take)
        }
    }

    fn read(text: &[u8], step: usize) -> Vec<(u64, String)> {
        let mut out = Vec::new();
        let each = |line, token: &[u8]| {
            out.push((line, String::from_utf8_lossy(token).into_owned()));
            true
        };
        tokens(&mut Pieces(text, step), TOKEN_BYTES_MAX, each, |_| ()).unwrap();
        out
    }

    #[test]
    fn tokens_carry_their_line() {
        let text = b"1 2,3\r\n# comment 9\n4;5 #six\n\n7";
        let expected: Vec<(u64, String)> =
            [(1, "1"), (1, "2"), (1, "3"), (3, "4"), (3, "5"), (5, "7")].map(|(l, t)| (l, t.to_string())).into();
        for step in 1..40 {
            assert_eq!(read(text, step), expected, "{step} bytes a read");
        }
    }

    #[test]
    fn a_token_without_end_is_handed_over_once_and_its_neighbours_live() {
        let mut text = vec![b'9'; 3 * BUFFER_BYTES];
        text.extend_from_slice(b" 5\n6");
        let got = read(&text, 10_000);
        assert_eq!(got.len(), 3);
        assert!(got[0].1.len() > TOKEN_BYTES_MAX && got[0].1.len() <= BUFFER_BYTES);
        assert_eq!(got[1..], [(1, "5".to_string()), (2, "6".to_string())]);
    }

    #[test]
    fn stopping_early_stops() {
        let mut seen = 0;
        let each = |_, _: &[u8]| {
            seen += 1;
            seen < 2
        };
        tokens(&mut &b"1 2 3 4"[..], TOKEN_BYTES_MAX, each, |_| ()).unwrap();
        assert_eq!(seen, 2);
    }

    proptest! {
        #[test]
        fn pieces_change_nothing(text in "[0-9 \n#,]{0,200}", step in 1usize..50) {
            let mut expected = Vec::new();
            for (at, line) in text.split('\n').enumerate() {
                for token in line.split([' ', ',']).filter(|token| !token.is_empty()) {
                    if token.starts_with('#') {
                        break;
                    }
                    expected.push((at as u64 + 1, token.to_string()));
                }
            }
            prop_assert_eq!(read(text.as_bytes(), step), expected);
        }
    }
}
