//! Lines of klog, which Kubernetes' own programs write: `LMMDD HH:MM:SS.UUUUUU THREAD FILE:LINE] MESSAGE`.
//!
//! Fields: `level` (`info`, `warning`, `error`, `fatal`), `clock` (month, day and time of the machine, without a year),
//! `thread`, `file`, `file_line`, `msg`. A structured message is quoted, and pairs follow it: they are fields, too.

use std::ops::ControlFlow;

use ogive_search::each_field;

use super::access::quoted;
use crate::fields::Fields;

pub(super) fn read(line: &str, fields: &mut Fields) -> Option<()> {
    let level = match line.as_bytes().first()? {
        b'I' => "info",
        b'W' => "warning",
        b'E' => "error",
        b'F' => "fatal",
        _ => return None,
    };
    let (head, message) = line.split_once("] ").or_else(|| Some((line.strip_suffix(']')?, "")))?;
    let mut words = head.get(1..)?.split_ascii_whitespace();
    let (day, time, thread, place) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let (file, file_line) = place.rsplit_once(':')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_time = time.len() == 15 && time.bytes().all(|byte| byte.is_ascii_digit() || b":.".contains(&byte));
    let is_head = day.len() == 4 && is_number(day) && is_time && is_number(thread) && is_number(file_line);
    if !is_head || words.next().is_some() || file.is_empty() {
        return None;
    }
    fields.push("level", level);
    fields.push("clock", head.get(1..)?.split_at_checked(20)?.0);
    fields.push("thread", thread);
    fields.push("file", file);
    fields.push("file_line", file_line);
    put_message(message, fields);
    Some(())
}

fn put_message(message: &str, fields: &mut Fields) {
    let Some((text, pairs)) = quoted(message) else {
        fields.push("msg", message);
        return;
    };
    fields.push("msg", &text.replace("\\\"", "\""));
    // A brace would be read as JSON.
    if !pairs.trim_start().starts_with('{') {
        each_field(pairs, &mut |name, value| {
            fields.push(name, value);
            ControlFlow::Continue(())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_and_structured_messages_are_read() {
        let check = |line: &str, expected: &str| {
            let mut fields = Fields::default();
            read(line, &mut fields).unwrap_or_else(|| panic!("{line}"));
            let found: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
            assert_eq!(found.join("|"), expected, "{line}");
        };
        check(
            "I0101 00:00:00.000000 1 file.go:12] msg",
            "level=info|clock=0101 00:00:00.000000|thread=1|file=file.go|file_line=12|msg=msg",
        );
        check(
            "E1224 13:14:15.123456   77 pod_workers.go:1298] \"Error \\\"x\\\"\" pod=\"a/b\" took=\"1.5s\"",
            "level=error|clock=1224 13:14:15.123456|thread=77|file=pod_workers.go|file_line=1298|msg=Error \"x\"|pod=a/b|took=1.5s",
        );
        check(
            "F0101 00:00:00.000000 1 a.go:1]",
            "level=fatal|clock=0101 00:00:00.000000|thread=1|file=a.go|file_line=1|msg=",
        );
        for other in [
            "",
            "I",
            "ä0101 00:00:00.000000 1 a.go:1] x",
            "X0101 00:00:00.000000 1 a.go:1] x",
            "I010 00:00:00.000000 1 a.go:1] x",
            "I0101 00:00:00 1 a.go:1] x",
            "I0101 00:00:00.000000 x a.go:1] x",
            "I0101 00:00:00.000000 1 a.go] x",
            "I0101 00:00:00.000000 1 a.go:1 x] x",
            "It is [done] now",
        ] {
            assert!(read(other, &mut Fields::default()).is_none(), "{other}");
        }
    }
}
