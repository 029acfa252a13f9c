//! Texts with the values of fields in them: `{status}`, `{status}-{method}`; `{{` and `}}` are braces.

use std::fmt::Write as _;

/// 4 KiB for a template: labels and lines that people write are short.
const TEMPLATE_BYTES_MAX: usize = 4 << 10;

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Field(String),
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Piece>);

impl Template {
    /// Reads it; a sentence when a brace is open or a name is missing.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > TEMPLATE_BYTES_MAX {
            return Err(format!("a text with fields has {TEMPLATE_BYTES_MAX} bytes at most"));
        }
        let (mut pieces, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let (brace, after) = rest[at..].split_at(1);
            if let Some(after) = after.strip_prefix(brace) {
                plain.push_str(brace);
                rest = after;
                continue;
            }
            let name = if brace == "{" { after.split_once('}') } else { None };
            let Some((name, after)) = name.filter(|(name, _)| !name.is_empty() && !name.contains('{')) else {
                return Err(format!(
                    "{text:?}: a field is written as {{name}}, and a brace that is one as {{{{ or }}}}"
                ));
            };
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(Piece::Field(name.to_owned()));
            rest = after;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Self(pieces))
    }

    /// The value of the field `name`, and nothing else.
    pub(crate) fn field(name: &str) -> Self {
        Self(vec![Piece::Field(name.to_owned())])
    }

    /// The fields that it names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Field(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        })
    }

    /// Appends its text to `out`. A missing field is empty; returns false when it has fields and all of them are
    /// missing.
    pub(crate) fn write<'v>(&self, out: &mut String, value: impl Fn(&str) -> Option<&'v str>) -> bool {
        let (mut fields, mut found) = (0, 0);
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Field(name) => {
                    fields += 1;
                    if let Some(text) = value(name) {
                        found += 1;
                        let _ = out.write_str(text);
                    }
                }
            }
        }
        fields == 0 || found > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_between_braces() {
        let check = |text: &str, expected: (&str, bool)| {
            let mut out = String::new();
            let found = Template::parse(text).unwrap().write(&mut out, |name| match name {
                "a" => Some("1"),
                "b.c" => Some("two"),
                _ => None,
            });
            assert_eq!((out.as_str(), found), expected, "{text}");
        };
        check("", ("", true));
        check("plain", ("plain", true));
        check("{a}", ("1", true));
        check("x{a}-{b.c}y", ("x1-twoy", true));
        check("{{{a}}}", ("{1}", true));
        check("{gone}", ("", false));
        check("{gone}{a}", ("1", true));
        for wrong in ["{", "}", "{}", "a{b", "a}b", "{a{b}"] {
            assert!(Template::parse(wrong).is_err(), "{wrong}");
        }
        assert!(Template::parse(&"x".repeat(TEMPLATE_BYTES_MAX + 1)).is_err());
    }
}
