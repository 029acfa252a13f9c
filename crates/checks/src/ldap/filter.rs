//! Filters of searches, from text to bytes.
//!
//! Format: the text of RFC 4515, with `(&)` and `(|)` of RFC 4526; the bytes of RFC 4511, 4.5.1.7.
//! Limits: [`FILTER_BYTES_MAX`], [`DEPTH_MAX`].
//! Failure: a sentence with the byte of the text at which no filter goes on.

use super::messages::{element, octets};

/// 8 KiB: some hundred names.
const FILTER_BYTES_MAX: usize = 8 << 10;
/// 32 filters within each other; a tree of conditions has some five levels.
const DEPTH_MAX: usize = 32;

const AND: u8 = 0xa0;
const OR: u8 = 0xa1;
const NOT: u8 = 0xa2;
const EQUALITY: u8 = 0xa3;
const SUBSTRINGS: u8 = 0xa4;
const GREATER_OR_EQUAL: u8 = 0xa5;
const LESS_OR_EQUAL: u8 = 0xa6;
const PRESENT: u8 = 0x87;
const APPROXIMATE: u8 = 0xa8;
const EXTENSIBLE: u8 = 0xa9;
const SEQUENCE: u8 = 0x30;

/// Which entries are searched for, as bytes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filter(Vec<u8>);

impl Filter {
    /// Reads the text of a filter.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > FILTER_BYTES_MAX {
            return Err(format!("filter has more than {FILTER_BYTES_MAX} bytes"));
        }
        let mut parser = Parser { text: text.as_bytes(), at: 0 };
        let filter = parser.filter(1)?;
        match parser.peek() {
            None => Ok(Self(filter)),
            Some(_) => Err(parser.wrong("the end of the filter is expected")),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn wrong(&self, what: &str) -> String {
        format!("filter {:?}, byte {}: {what}", String::from_utf8_lossy(self.text), self.at + 1)
    }

    /// Goes on behind `text` if it is next.
    fn skip(&mut self, text: &[u8]) -> bool {
        let is_next = self.text[self.at..].starts_with(text);
        self.at += if is_next { text.len() } else { 0 };
        is_next
    }

    fn filter(&mut self, depth: usize) -> Result<Vec<u8>, String> {
        if depth > DEPTH_MAX {
            return Err(self.wrong(&format!("more than {DEPTH_MAX} filters are within each other")));
        }
        if !self.skip(b"(") {
            return Err(self.wrong("( is expected"));
        }
        let filter = if self.skip(b"&") {
            self.list(AND, depth)?
        } else if self.skip(b"|") {
            self.list(OR, depth)?
        } else if self.skip(b"!") {
            element(NOT, &[&self.filter(depth + 1)?])
        } else {
            self.item()?
        };
        if self.skip(b")") { Ok(filter) } else { Err(self.wrong(") is expected")) }
    }

    fn list(&mut self, tag: u8, depth: usize) -> Result<Vec<u8>, String> {
        let mut filters = Vec::new();
        while self.peek() == Some(b'(') {
            filters.extend(self.filter(depth + 1)?);
        }
        Ok(element(tag, &[&filters]))
    }

    fn item(&mut self) -> Result<Vec<u8>, String> {
        let attribute = self.name();
        if self.peek() == Some(b':') {
            return self.extensible(attribute);
        }
        if attribute.is_empty() {
            return Err(self.wrong("the name of an attribute is expected"));
        }
        if self.skip(b"=") {
            return self.equality(attribute);
        }
        let compared = [(&b">="[..], GREATER_OR_EQUAL), (b"<=", LESS_OR_EQUAL), (b"~=", APPROXIMATE)];
        match compared.into_iter().find(|(text, _)| self.skip(text)) {
            Some((_, tag)) => Ok(element(tag, &[&octets(attribute), &octets(&self.whole_value()?)])),
            None => Err(self.wrong("=, >=, <=, ~= or := is expected")),
        }
    }

    /// A name or an OID, with options; empty if none is next.
    fn name(&mut self) -> &'a [u8] {
        let rest = &self.text[self.at..];
        let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b".-;_".contains(byte);
        let length = rest.iter().position(|byte| !is_of_name(byte)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// A value, a presence, or parts of a value with `*` between them.
    fn equality(&mut self, attribute: &[u8]) -> Result<Vec<u8>, String> {
        let mut parts = vec![self.value()?];
        while self.skip(b"*") {
            parts.push(self.value()?);
        }
        match parts.as_slice() {
            [value] => Ok(element(EQUALITY, &[&octets(attribute), &octets(value)])),
            [first, last] if first.is_empty() && last.is_empty() => Ok(element(PRESENT, &[attribute])),
            [first, middle @ .., last] => {
                if middle.iter().any(Vec::is_empty) {
                    return Err(self.wrong("there is nothing between two *"));
                }
                let mut out = Vec::new();
                if !first.is_empty() {
                    out.extend(element(0x80, &[first]));
                }
                out.extend(middle.iter().flat_map(|part| element(0x81, &[part])));
                if !last.is_empty() {
                    out.extend(element(0x82, &[last]));
                }
                Ok(element(SUBSTRINGS, &[&octets(attribute), &element(SEQUENCE, &[&out])]))
            }
            [] => unreachable!("there is a first part"),
        }
    }

    /// `attribute:dn:rule:=value`, of which `:dn` and either the attribute or `:rule` may be missing.
    fn extensible(&mut self, attribute: &[u8]) -> Result<Vec<u8>, String> {
        let (mut has_dn, mut rule) = (false, None);
        while !self.skip(b":=") {
            if !self.skip(b":") {
                return Err(self.wrong(":= is expected"));
            }
            match self.name() {
                word if word.eq_ignore_ascii_case(b"dn") && !has_dn && rule.is_none() => has_dn = true,
                word if !word.is_empty() && rule.is_none() => rule = Some(word),
                _ => return Err(self.wrong("a matching rule is expected, and only one")),
            }
        }
        if attribute.is_empty() && rule.is_none() {
            return Err(self.wrong("an attribute or a matching rule is expected"));
        }
        let mut out = rule.map(|rule| element(0x81, &[rule])).unwrap_or_default();
        if !attribute.is_empty() {
            out.extend(element(0x82, &[attribute]));
        }
        out.extend(element(0x83, &[&self.whole_value()?]));
        if has_dn {
            out.extend(element(0x84, &[&[0xff]]));
        }
        Ok(element(EXTENSIBLE, &[&out]))
    }

    /// A value without `*`.
    fn whole_value(&mut self) -> Result<Vec<u8>, String> {
        let value = self.value()?;
        if self.peek() == Some(b'*') { Err(self.wrong("* is expected as \\2a")) } else { Ok(value) }
    }

    /// A value until its end or the next `*`.
    fn value(&mut self) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        while let Some(byte) = self.peek() {
            match byte {
                b')' | b'*' => break,
                b'(' => return Err(self.wrong("( within a value is expected as \\28")),
                0 => return Err(self.wrong("a zero byte is expected as \\00")),
                b'\\' => {
                    let digits = self.text.get(self.at + 1..self.at + 3).and_then(hex);
                    out.push(digits.ok_or_else(|| self.wrong("two hexadecimal digits are expected behind \\"))?);
                    self.at += 3;
                }
                byte => {
                    out.push(byte);
                    self.at += 1;
                }
            }
        }
        Ok(out)
    }
}

/// The byte of two digits.
fn hex(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let [high, low] = digits else { return None };
    u8::try_from((digit(*high)? << 4) | digit(*low)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_become_bytes() {
        for (text, expected) in [
            ("(cn=*)", &b"\x87\x02cn"[..]),
            ("(cn=a)", b"\xa3\x07\x04\x02cn\x04\x01a"),
            ("(cn=)", b"\xa3\x06\x04\x02cn\x04\0"),
            ("(cn=\\28\\2a\\C3\\a9\u{e9})", b"\xa3\x0c\x04\x02cn\x04\x06(*\xc3\xa9\xc3\xa9"),
            ("(cn=a*)", b"\xa4\x09\x04\x02cn\x30\x03\x80\x01a"),
            ("(cn=*b*c*)", b"\xa4\x0c\x04\x02cn\x30\x06\x81\x01b\x81\x01c"),
            ("(cn=a*b*c)", b"\xa4\x0f\x04\x02cn\x30\x09\x80\x01a\x81\x01b\x82\x01c"),
            ("(n>=1)", b"\xa5\x06\x04\x01n\x04\x011"),
            ("(n<=1)", b"\xa6\x06\x04\x01n\x04\x011"),
            ("(n~=1)", b"\xa8\x06\x04\x01n\x04\x011"),
            ("(!(cn=*))", b"\xa2\x04\x87\x02cn"),
            ("(&(cn=*)(|(sn;lang-en=*)))", b"\xa0\x12\x87\x02cn\xa1\x0c\x87\x0asn;lang-en"),
            ("(&)", b"\xa0\0"),
            ("(1.2:=x)", b"\xa9\x08\x82\x031.2\x83\x01x"),
            ("(f:1.2.3:=2)", b"\xa9\x0d\x81\x051.2.3\x82\x01f\x83\x012"),
            ("(o:DN:r:=x)", b"\xa9\x0c\x81\x01r\x82\x01o\x83\x01x\x84\x01\xff"),
            ("(:dn:r:=x)", b"\xa9\x09\x81\x01r\x83\x01x\x84\x01\xff"),
        ] {
            let found = Filter::parse(text).unwrap();
            assert_eq!(found.bytes(), expected, "{text}");
        }
    }

    #[test]
    fn mistakes_are_reported_with_their_place() {
        for (text, words) in [
            ("", "byte 1: ( is expected"),
            ("cn=a", "byte 1: ( is expected"),
            ("(cn=a", "byte 6: ) is expected"),
            ("(cn=a))", "byte 7: the end of the filter"),
            ("(cn=a)(cn=b)", "byte 7: the end of the filter"),
            ("( cn=a)", "byte 2: the name of an attribute"),
            ("(cn)", "byte 4: =, >=, <=, ~= or := is expected"),
            ("(c n=a)", "byte 3: =, >="),
            ("(=a)", "byte 2: the name of an attribute"),
            ("(cn=a(b)", "byte 6: ( within a value"),
            ("(cn=\\2)", "byte 5: two hexadecimal digits"),
            ("(cn=\\+1)", "byte 5: two hexadecimal digits"),
            ("(cn=\\", "byte 5: two hexadecimal digits"),
            ("(cn=a\0)", "byte 6: a zero byte"),
            ("(cn=a**b)", "nothing between two *"),
            ("(n>=1*)", "byte 6: * is expected as \\2a"),
            ("(&(cn=a)b)", "byte 9: ) is expected"),
            ("(!)", "byte 3: ( is expected"),
            ("(:=x)", "an attribute or a matching rule"),
            ("(a:b:c:=x)", "a matching rule is expected, and only one"),
            ("(a::=x)", "a matching rule is expected"),
            ("(a:b=x)", "byte 5: := is expected"),
        ] {
            let found = Filter::parse(text).unwrap_err();
            assert!(found.contains(words), "{text}: {found}");
        }
    }

    #[test]
    fn limits_hold_at_their_values() {
        let nested = |depth: usize| format!("{}(cn=*){}", "(!".repeat(depth - 1), ")".repeat(depth - 1));
        assert!(Filter::parse(&nested(DEPTH_MAX)).is_ok());
        assert!(Filter::parse(&nested(DEPTH_MAX + 1)).unwrap_err().contains("more than 32 filters"));
        let long = |bytes: usize| format!("(cn={})", "x".repeat(bytes - "(cn=)".len()));
        assert!(Filter::parse(&long(FILTER_BYTES_MAX)).is_ok());
        assert!(Filter::parse(&long(FILTER_BYTES_MAX + 1)).unwrap_err().contains("more than 8192 bytes"));
    }
}
