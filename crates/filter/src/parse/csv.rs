//! Columns: values between separators, in quotes where they have one; two quotes inside are one (RFC 4180).

use std::borrow::Cow;

use serde::Deserialize;

use crate::fields::{FIELDS_MAX, Fields};

/// The columns of a line.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Csv {
    /// The names of the columns, from the first; an empty one is left out.
    columns: Vec<String>,
    #[serde(default = "comma")]
    separator: char,
}

fn comma() -> char {
    ','
}

impl Csv {
    pub(super) fn checked(self) -> Result<Self, String> {
        if self.columns.is_empty() || self.columns.len() > FIELDS_MAX {
            return Err(format!("csv names 1 to {FIELDS_MAX} columns"));
        }
        if matches!(self.separator, '"' | '\n' | '\r') {
            return Err("the separator of csv is neither a quote nor the end of a line".into());
        }
        Ok(self)
    }

    /// Adds the values of the columns; false when their number differs, or a quote is not closed.
    pub(super) fn read(&self, line: &str, fields: &mut Fields) -> bool {
        let mut rest = Some(line);
        for column in &self.columns {
            let Some((value, after)) = rest.and_then(|rest| self.value(rest)) else { return false };
            if !column.is_empty() {
                fields.push(column, &value);
            }
            rest = after;
        }
        rest.is_none()
    }

    /// The first value, and the text after its separator, if there is one.
    fn value<'t>(&self, text: &'t str) -> Option<(Cow<'t, str>, Option<&'t str>)> {
        let Some(body) = text.strip_prefix('"') else {
            return Some(match text.split_once(self.separator) {
                Some((value, rest)) => (value.into(), Some(rest)),
                None => (text.into(), None),
            });
        };
        let mut from = 0;
        loop {
            let at = from + body[from..].find('"')?;
            let after = &body[at + 1..];
            if after.starts_with('"') {
                from = at + 2;
                continue;
            }
            let value = &body[..at];
            let value = if value.contains('"') { value.replace("\"\"", "\"").into() } else { value.into() };
            return match after.strip_prefix(self.separator) {
                Some(rest) => Some((value, Some(rest))),
                None => after.is_empty().then_some((value, None)),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_were_meant() {
        let check = |separator: char, line: &str, expected: Option<[&str; 3]>| {
            let csv = Csv { columns: ["a", "b", "c"].map(String::from).into(), separator }.checked().unwrap();
            let mut fields = Fields::default();
            let fits = csv.read(line, &mut fields);
            let found: Vec<_> = fields.iter().map(|(_, value)| value.to_owned()).collect();
            assert_eq!(fits.then_some(found), expected.map(|found| found.map(String::from).to_vec()), "{line}");
        };
        check(',', "1,2,3", Some(["1", "2", "3"]));
        check(',', ",,", Some(["", "", ""]));
        check(';', "1;\"a;\"\"b\"\"\";ä", Some(["1", "a;\"b\"", "ä"]));
        check('\t', "1\t2\t\"\"", Some(["1", "2", ""]));
        for wrong in ["", "1,2", "1,2,3,4", "1,2,3,", "1,\"2,3", "1,\"2\"x,3"] {
            check(',', wrong, None);
        }
        assert!(Csv { columns: vec![], separator: ',' }.checked().is_err());
        assert!(Csv { columns: vec!["a".into()], separator: '"' }.checked().is_err());
        assert!(Csv { columns: vec!["a".into(); FIELDS_MAX + 1], separator: ',' }.checked().is_err());
    }
}
