//! The parts of a line: names, labels in braces, quoted text.

use std::borrow::Cow;

use ogive_model::METRIC_NAME;

/// What a line breaks.
pub(super) type LineResult<T> = Result<T, &'static str>;

/// A line as far as it is not read.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    pub(super) rest: &'a str,
    /// Whether spaces and tabs may stand around every part, and a comma behind the last label.
    is_tolerant: bool,
}

/// A quoted text as it lies, without its quotes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quoted<'a> {
    raw: &'a str,
    has_escapes: bool,
}

impl<'a> Quoted<'a> {
    pub(super) fn text(self) -> Cow<'a, str> {
        if self.has_escapes { unescape(self.raw, true) } else { Cow::Borrowed(self.raw) }
    }
}

/// `text` with `\\`, `\n` and, where quotes are escaped, `\"` as what they stand for. Another backslash stays.
pub(super) fn unescape(text: &str, quotes: bool) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let (stands_for, length) = match rest.as_bytes().get(at + 1) {
            Some(b'\\') => ('\\', 2),
            Some(b'n') => ('\n', 2),
            Some(b'"') if quotes => ('"', 2),
            _ => ('\\', 1),
        };
        out.push(stands_for);
        rest = &rest[at + length..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

impl<'a> Cursor<'a> {
    pub(super) fn tolerant(rest: &'a str) -> Self {
        Self { rest, is_tolerant: true }
    }

    pub(super) fn strict(rest: &'a str) -> Self {
        Self { rest, is_tolerant: false }
    }

    /// Spaces and tabs, where they may stand.
    pub(super) fn skip(&mut self) {
        if self.is_tolerant {
            self.rest = self.rest.trim_start_matches([' ', '\t']);
        }
    }

    pub(super) fn take(&mut self, sign: &str) -> bool {
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// What stands before the next space, tab or the end.
    pub(super) fn word(&mut self) -> &'a str {
        let end = self.rest.find([' ', '\t']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// A name without quotes; empty when there is none.
    fn bare(&mut self, colons: bool) -> &'a str {
        let belongs = |at: usize, byte: u8| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => true,
            b':' => colons,
            b'0'..=b'9' => at > 0,
            _ => false,
        };
        let bytes = self.rest.as_bytes();
        let end = (0..bytes.len()).find(|at| !belongs(*at, bytes[*at])).unwrap_or(bytes.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        name
    }

    /// A quoted text; the cursor stands at its first quote.
    fn quoted(&mut self) -> LineResult<Quoted<'a>> {
        if !self.take("\"") {
            return Err("a label's value is not quoted");
        }
        let bytes = self.rest.as_bytes();
        let (mut at, mut has_escapes) = (0, false);
        while at < bytes.len() {
            match bytes[at] {
                b'"' => {
                    let raw = &self.rest[..at];
                    self.rest = &self.rest[at + 1..];
                    return Ok(Quoted { raw, has_escapes });
                }
                b'\\' => {
                    has_escapes = true;
                    at += 2;
                }
                _ => at += 1,
            }
        }
        Err("a quote is not closed")
    }

    /// A metric's name as it stands behind `# TYPE`: bare or quoted.
    pub(super) fn described(&mut self) -> LineResult<Cow<'a, str>> {
        if self.rest.starts_with('"') {
            return Ok(self.quoted()?.text());
        }
        match self.bare(true) {
            "" => Err("a metric's name is missing, or has characters that need quotes"),
            name => Ok(Cow::Borrowed(name)),
        }
    }

    /// Name and labels of a series, each handed to `each`, the name as label `__name__`; and their bytes as they lie.
    pub(super) fn series(
        &mut self,
        mut each: impl FnMut(Cow<'a, str>, Quoted<'a>) -> LineResult<()>,
    ) -> LineResult<&'a str> {
        let all = self.rest;
        let bare = self.bare(true);
        let mut is_named = !bare.is_empty();
        if is_named {
            each(Cow::Borrowed(METRIC_NAME), Quoted { raw: bare, has_escapes: false })?;
        }
        let mut end = self.rest;
        self.skip();
        if self.take("{") {
            self.labels(&mut is_named, &mut each)?;
            end = self.rest;
        } else {
            self.rest = end;
        }
        if !is_named {
            return Err("a series has no name; a line begins with a metric's name, or with a quoted one in braces");
        }
        Ok(&all[..all.len() - end.len()])
    }

    /// The labels of an exemplar, which have braces and no name.
    pub(super) fn event(&mut self, mut each: impl FnMut(Cow<'a, str>, Quoted<'a>) -> LineResult<()>) -> LineResult<()> {
        if !self.take("{") {
            return Err("an exemplar begins with its labels in braces");
        }
        self.labels(&mut true, &mut each)
    }

    fn labels(
        &mut self,
        is_named: &mut bool,
        each: &mut impl FnMut(Cow<'a, str>, Quoted<'a>) -> LineResult<()>,
    ) -> LineResult<()> {
        let mut after_comma = false;
        loop {
            self.skip();
            if self.take("}") {
                return if after_comma && !self.is_tolerant {
                    Err("a comma stands before a closing brace")
                } else {
                    Ok(())
                };
            }
            let quoted = if self.rest.starts_with('"') { Some(self.quoted()?) } else { None };
            let bare = if quoted.is_none() { self.bare(false) } else { "" };
            self.skip();
            match quoted {
                Some(name) if !self.rest.starts_with('=') => {
                    if std::mem::replace(is_named, true) {
                        return Err("a quoted label has no value, and the series has a name already");
                    }
                    each(Cow::Borrowed(METRIC_NAME), name)?;
                }
                None if bare.is_empty() => return Err("a label's name is missing, or has characters that need quotes"),
                _ => {
                    if !self.take("=") {
                        return Err("a label has no value");
                    }
                    self.skip();
                    let name = quoted.map_or(Cow::Borrowed(bare), Quoted::text);
                    each(name, self.quoted()?)?;
                }
            }
            self.skip();
            after_comma = self.take(",");
            if !after_comma && !self.rest.starts_with('}') {
                return Err("labels are not separated by a comma, or a brace is not closed");
            }
        }
    }
}
