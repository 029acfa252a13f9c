//! The parts of one message.

use std::borrow::Cow;

use ogive_text::quoted::closing_quote;

/// A message; what it does not say is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message<'m> {
    /// Facility times eight, and severity.
    pub priority: u8,
    /// When, if it says so with its zone.
    pub time_ns: Option<i64>,
    /// Who sent it.
    pub host: &'m str,
    /// Which program wrote it.
    pub program: &'m str,
    /// The id of its process.
    pub process: &'m str,
    /// Its kind.
    pub message_id: &'m str,
    /// Structured data, with their brackets.
    pub data: &'m str,
    /// What it says.
    pub body: &'m str,
}

impl<'m> Message<'m> {
    /// Reads it; none when it does not begin with a priority.
    #[must_use]
    pub fn parse(text: &'m str) -> Option<Self> {
        let (priority, rest) = text.strip_prefix('<')?.split_once('>')?;
        let is_number = (1..=3).contains(&priority.len()) && priority.bytes().all(|byte| byte.is_ascii_digit());
        let priority = priority.parse().ok().filter(|priority| is_number && *priority < 192)?;
        let rest = rest.trim_end_matches(['\n', '\r', '\0']);
        let found = Self { priority, ..Self::default() };
        Some(match rest.strip_prefix("1 ") {
            Some(fields) => found.standard(fields).unwrap_or(Self { body: rest, ..found }),
            None => found.usual(rest),
        })
    }

    /// RFC 5424 behind its version; none when fields are missing.
    fn standard(self, rest: &'m str) -> Option<Self> {
        let mut fields = rest.splitn(6, ' ');
        let mut next = || fields.next().map(|field| if field == "-" { "" } else { field });
        let (time, host, program) = (next()?, next()?, next()?);
        let (process, message_id) = (next()?, next()?);
        let rest = fields.next()?;
        let end = if rest.starts_with('-') { Some(1) } else { data_end(rest) };
        // Something else stands where structured data belong: it is a part of the message.
        let end = end.filter(|end| rest.len() == *end || rest.as_bytes()[*end] == b' ').unwrap_or(0);
        let (data, body) = rest.split_at(end);
        let body = if end == 0 { body } else { body.strip_prefix(' ').unwrap_or(body) };
        Some(Self {
            time_ns: instant(time),
            host,
            program,
            process,
            message_id,
            data: if data == "-" { "" } else { data },
            body: body.strip_prefix('\u{feff}').unwrap_or(body),
            ..self
        })
    }

    /// What RFC 3164 found in use: `TIME HOST TAG: MESSAGE`, of which everything may be missing. Its time has neither
    /// year nor zone.
    fn usual(self, rest: &'m str) -> Self {
        let (time_ns, rest) = match short_time(rest) {
            Some(rest) => (None, rest),
            None => match rest.split_once(' ').map(|(word, after)| (instant(word), after)) {
                Some((Some(time_ns), after)) => (Some(time_ns), after),
                _ => return Self { body: rest, ..self },
            },
        };
        let (host, rest) = match rest.split_once(' ') {
            Some((host, after)) if !host.is_empty() && tag(rest).is_none() => (host, after),
            _ => ("", rest),
        };
        match tag(rest) {
            Some((program, process, body)) => Self { time_ns, host, program, process, body, ..self },
            None => Self { time_ns, host, body: rest, ..self },
        }
    }

    /// Element, name and value of the structured data; an element without parameters has an empty name.
    pub fn elements(&self) -> impl Iterator<Item = (&'m str, &'m str, Cow<'m, str>)> {
        let (mut rest, mut element, mut is_first) = (self.data, "", false);
        std::iter::from_fn(move || {
            loop {
                if let Some(after) = rest.strip_prefix('[') {
                    let end = after.find([' ', ']'])?;
                    (element, rest, is_first) = (&after[..end], &after[end..], true);
                } else if let Some(after) = rest.strip_prefix(']') {
                    rest = after;
                    if std::mem::take(&mut is_first) {
                        return Some((element, "", Cow::Borrowed("")));
                    }
                } else {
                    let (name, after) = rest.strip_prefix(' ')?.split_once("=\"")?;
                    let end = closing_quote(after)?;
                    let value = &after[..end];
                    rest = &after[end + 1..];
                    is_first = false;
                    return Some((element, name, plain(value)));
                }
            }
        })
    }
}

/// A time with its zone, as nanoseconds.
fn instant(text: &str) -> Option<i64> {
    let begins = text.len() >= 20 && text.as_bytes()[4] == b'-' && text.as_bytes()[10] == b'T';
    begins.then(|| ogive_text::calendar::rfc3339_ns(text)).flatten()
}

/// What stands behind `Mmm dd hh:mm:ss `.
fn short_time(text: &str) -> Option<&str> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (time, rest) = text.split_at_checked(15)?;
    let bytes = time.as_bytes();
    let is_digit = |at: usize| bytes[at].is_ascii_digit();
    let fits = MONTHS.contains(&time.get(..3)?)
        && [3, 6].iter().all(|at| bytes[*at] == b' ')
        && [9, 12].iter().all(|at| bytes[*at] == b':')
        && (bytes[4] == b' ' || is_digit(4))
        && [5, 7, 8, 10, 11, 13, 14].into_iter().all(is_digit);
    rest.strip_prefix(' ').filter(|_| fits)
}

/// `PROGRAM: MESSAGE` or `PROGRAM[PROCESS]: MESSAGE`; a program has no space and at most 48 letters, as in RFC 5424.
fn tag(text: &str) -> Option<(&str, &str, &str)> {
    let end = text.find([':', '[', ' ']).filter(|end| (1..=48).contains(end))?;
    let (program, rest) = text.split_at(end);
    let (process, rest) = match rest.strip_prefix('[') {
        Some(rest) => rest.split_once(']').filter(|(process, _)| process.len() <= 128 && !process.contains(' '))?,
        None => ("", rest),
    };
    let body = rest.strip_prefix(':')?;
    Some((program, process, body.strip_prefix(' ').unwrap_or(body)))
}

/// Where structured data end that begin here: behind the last `]` of `[id name="value"...]...`.
fn data_end(text: &str) -> Option<usize> {
    let mut at = 0;
    while text.as_bytes().get(at) == Some(&b'[') {
        at += 1 + text[at + 1..].find([' ', ']'])?;
        while text.as_bytes().get(at) == Some(&b' ') {
            let name = text[at + 1..].find("=\"")?;
            if name == 0 || text[at + 1..at + 1 + name].contains([' ', ']', '"', '=']) {
                return None;
            }
            at += 1 + name + 2;
            at += closing_quote(&text[at..])? + 1;
        }
        if text.as_bytes().get(at) != Some(&b']') {
            return None;
        }
        at += 1;
    }
    (at > 0).then_some(at)
}

/// The value without the backslashes before `"`, `\` and `]`.
fn plain(value: &str) -> Cow<'_, str> {
    if !value.contains('\\') {
        return Cow::Borrowed(value);
    }
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some(next @ ('"' | '\\' | ']'))) => {
                out.push(*next);
                chars.next();
            }
            _ => out.push(c),
        }
    }
    Cow::Owned(out)
}
