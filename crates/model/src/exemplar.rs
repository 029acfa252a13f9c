//! Exemplars: single measurements, with labels of their own that lead to the operation they were taken from (a trace
//! id).
//!
//! Format: docs/formats/exemplar.md. An exemplar of a series is a text sample, at the exemplar's time, of the text
//! series with that series' labels and [`SUFFIX`] behind its name.
//! Invariants: what [`Exemplar::to_text`] writes, [`Exemplar::from_text`] reads as the same, bit for bit but for the
//! payload of a NaN; equal exemplars have equal texts. Texts that come twice are one exemplar to whoever reads them.
//! Limits: those of [`Labels`]; [`Exemplar::TEXT_BYTES_MAX`].

use std::fmt::Write as _;

use crate::error::within;
use crate::{Error, Kind, Labels, METRIC_NAME, SeriesDef, SeriesMeta, Temporality, float};

/// The suffix of the names of exemplar series.
pub const SUFFIX: &str = "_exemplar";

/// One measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Exemplar {
    /// Identifies the operation: often `trace_id` and `span_id`. May be empty.
    pub labels: Labels,
    /// The measured value.
    pub value: f64,
}

impl Exemplar {
    /// 16 KiB: OpenMetrics allows 128 characters of labels; this leaves room for OTLP's attributes.
    pub const TEXT_BYTES_MAX: usize = 16 * 1024;

    /// The labels of the series that holds the exemplars of the series with `labels`.
    #[must_use]
    pub fn series_labels(labels: &Labels) -> Labels {
        labels.with(METRIC_NAME, &format!("{}{SUFFIX}", labels.metric_name()))
    }

    /// The series that holds the exemplars of the series with `labels`.
    #[must_use]
    pub fn series(labels: &Labels) -> SeriesDef {
        let meta = SeriesMeta { kind: Kind::Text, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
        SeriesDef { labels: Self::series_labels(labels), meta }
    }

    /// The labels of the series whose exemplars are in the series with `labels`; None when that is not an exemplar
    /// series.
    #[must_use]
    pub fn explained(labels: &Labels) -> Option<Labels> {
        let name = labels.metric_name().strip_suffix(SUFFIX).filter(|name| !name.is_empty())?;
        Some(labels.with(METRIC_NAME, name))
    }

    /// The stored text.
    ///
    /// # Errors
    /// [`Error::TooLarge`] when it would exceed the limit.
    pub fn to_text(&self) -> Result<String, Error> {
        let mut out = String::from("{\"labels\":{");
        for (at, (name, value)) in self.labels.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            put_string(&mut out, name);
            out.push(':');
            put_string(&mut out, value);
        }
        out.push_str("},\"value\":");
        let written = match float::word(self.value) {
            Some(word) => write!(out, "\"{word}\""),
            None => write!(out, "{:?}", self.value),
        };
        written.expect("writes to memory");
        out.push('}');
        within("an exemplar's bytes", out.len(), Self::TEXT_BYTES_MAX)?;
        Ok(out)
    }

    /// Parses a text.
    ///
    /// # Errors
    /// [`Error::Malformed`] when it violates the format, or the errors of [`Labels::new`].
    pub fn from_text(text: &str) -> Result<Self, Error> {
        within("an exemplar's bytes", text.len(), Self::TEXT_BYTES_MAX)?;
        let mut reader = Reader { rest: text.trim_start_matches(SPACE) };
        let (mut labels, mut value) = (None, None);
        reader.object(|reader, name| match &*name {
            "labels" if labels.is_none() => {
                let mut pairs = Vec::new();
                reader.object(|reader, name| {
                    pairs.push((name, reader.string()?));
                    Ok(())
                })?;
                labels = Some(Labels::new(pairs)?);
                Ok(())
            }
            "value" if value.is_none() => {
                value = Some(reader.number()?);
                Ok(())
            }
            _ => Err(malformed("a field is there twice, or is neither \"labels\" nor \"value\"")),
        })?;
        match (labels, value) {
            (Some(labels), Some(value)) if reader.rest.is_empty() => Ok(Self { labels, value }),
            (Some(_), Some(_)) => Err(malformed("something follows it")),
            _ => Err(malformed("\"labels\" or \"value\" is missing")),
        }
    }
}

const SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

fn malformed(what: &str) -> Error {
    Error::Malformed(format!("the text is no exemplar: {what}"))
}

/// Appends `text` as a JSON string.
fn put_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => write!(out, "\\u{:04x}", c as u32).expect("writes to memory"),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// As much of JSON as an exemplar needs.
struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    /// Consumes `token` and the space after it, if it is next.
    fn take(&mut self, token: char) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start_matches(SPACE);
                true
            }
            None => false,
        }
    }

    fn need(&mut self, token: char) -> Result<(), Error> {
        if self.take(token) { Ok(()) } else { Err(malformed(&format!("{token:?} is missing"))) }
    }

    /// An object; `field` parses each value.
    fn object(&mut self, mut field: impl FnMut(&mut Self, String) -> Result<(), Error>) -> Result<(), Error> {
        self.need('{')?;
        if self.take('}') {
            return Ok(());
        }
        loop {
            let name = self.string()?;
            self.need(':')?;
            field(self, name)?;
            if !self.take(',') {
                return self.need('}');
            }
        }
    }

    fn string(&mut self) -> Result<String, Error> {
        let Some(rest) = self.rest.strip_prefix('"') else { return Err(malformed("a string is missing")) };
        let mut out = String::new();
        let mut chars = rest.chars();
        loop {
            match chars.next() {
                Some('"') => break,
                Some('\\') => out.push(escaped(&mut chars)?),
                Some(c) if c >= ' ' => out.push(c),
                _ => return Err(malformed("a string has no end, or a bare control character")),
            }
        }
        self.rest = chars.as_str().trim_start_matches(SPACE);
        Ok(out)
    }

    fn number(&mut self) -> Result<f64, Error> {
        if self.rest.starts_with('"') {
            let value = float::from_word(&self.string()?);
            return value.ok_or_else(|| malformed("a value in quotes is \"NaN\", \"+Inf\" or \"-Inf\""));
        }
        let end = self.rest.find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
        let (number, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        let value = number.parse().map_err(|_| malformed("the value is not a number"))?;
        self.rest = rest.trim_start_matches(SPACE);
        Ok(value)
    }
}

/// The character after a backslash.
fn escaped(chars: &mut std::str::Chars<'_>) -> Result<char, Error> {
    Ok(match chars.next() {
        Some(c @ ('"' | '\\' | '/')) => c,
        Some('b') => '\u{8}',
        Some('f') => '\u{c}',
        Some('n') => '\n',
        Some('r') => '\r',
        Some('t') => '\t',
        Some('u') => {
            let first = hex(chars)?;
            let code = match first {
                // One half of a surrogate pair.
                0xd800..=0xdbff => {
                    let second = if (chars.next(), chars.next()) == (Some('\\'), Some('u')) { hex(chars)? } else { 0 };
                    if !(0xdc00..=0xdfff).contains(&second) {
                        return Err(malformed("a \\u escape is half a character"));
                    }
                    0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00)
                }
                code => code,
            };
            char::from_u32(code).ok_or_else(|| malformed("a \\u escape is half a character"))?
        }
        _ => return Err(malformed("a backslash escapes nothing that is known")),
    })
}

fn hex(chars: &mut std::str::Chars<'_>) -> Result<u32, Error> {
    let text = chars.as_str();
    let digits = text.get(..4).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
    let digits = digits.ok_or_else(|| malformed("\\u needs four hexadecimal digits"))?;
    *chars = text[4..].chars();
    Ok(u32::from_str_radix(digits, 16).expect("they are hexadecimal digits"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn exemplar(labels: &[(&str, &str)], value: f64) -> Exemplar {
        Exemplar { labels: Labels::new(labels.iter().copied()).unwrap(), value }
    }

    #[test]
    fn the_text_is_the_one_of_the_format_page() {
        let one = exemplar(&[("trace_id", "4bf92f3577b34da6"), ("note", "say \"a\\b\"\n\u{1}é")], 0.25);
        let text = r#"{"labels":{"note":"say \"a\\b\"\n\u0001é","trace_id":"4bf92f3577b34da6"},"value":0.25}"#;
        assert_eq!(one.to_text().unwrap(), text);
        assert_eq!(Exemplar::from_text(text).unwrap(), one);
        for (value, written) in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (1e300, "1e300"),
            (f64::INFINITY, "\"+Inf\""),
            (f64::NEG_INFINITY, "\"-Inf\""),
        ] {
            let text = exemplar(&[], value).to_text().unwrap();
            assert_eq!(text, format!("{{\"labels\":{{}},\"value\":{written}}}"));
            assert_eq!(Exemplar::from_text(&text).unwrap().value.to_bits(), value.to_bits());
        }
        let nan = exemplar(&[], f64::NAN).to_text().unwrap();
        assert!(nan.contains("\"NaN\"") && Exemplar::from_text(&nan).unwrap().value.is_nan());
    }

    #[test]
    fn the_example_of_the_format_page_is_read_and_written() {
        let text = include_str!("../../../vectors/exemplar/example.txt").trim_end();
        assert!(include_str!("../../../docs/formats/exemplar.md").contains(text));
        let read = Exemplar::from_text(text).unwrap();
        assert_eq!((read.labels.get("span_id"), read.value), ("00f067aa0ba902b7", 0.25));
        assert_eq!(read.to_text().unwrap(), text);
    }

    #[test]
    fn what_others_write_is_read() {
        let spaced = " { \"value\" : 1E1 , \"labels\" : { \"a\" : \"\\u0041\\/\\ud83c\\udf0d\" } } ";
        assert_eq!(Exemplar::from_text(spaced).unwrap(), exemplar(&[("a", "A/🌍")], 10.0));
    }

    #[test]
    fn what_is_no_exemplar_is_refused() {
        let long = format!("{{\"labels\":{{\"a\":\"{}\"}},\"value\":1}}", "x".repeat(Exemplar::TEXT_BYTES_MAX));
        assert!(matches!(Exemplar::from_text(&long), Err(Error::TooLarge { .. })));
        for text in [
            "",
            "{}",
            "1",
            "{\"labels\":{}}",
            "{\"value\":1}",
            "{\"labels\":{},\"value\":1}x",
            "{\"labels\":{},\"value\":}",
            "{\"labels\":{},\"value\":1,\"value\":1}",
            "{\"labels\":{},\"value\":\"Inf\"}",
            "{\"labels\":{},\"value\":1,\"t\":1}",
            "{\"labels\":{\"a\":1},\"value\":1}",
            "{\"labels\":{\"a\":\"\\ud800\"},\"value\":1}",
            "{\"labels\":{\"a\":\"\\u00+1\"},\"value\":1}",
            "{\"labels\":{\"a\":\"\n\"},\"value\":1}",
            "{\"labels\":{\"a\":\"b\"},\"value\":1",
            "{\"labels\":{\"a\":\"\\x\"},\"value\":1}",
        ] {
            assert!(matches!(Exemplar::from_text(text), Err(Error::Malformed(_))), "{text}");
        }
        let twice = Exemplar::from_text("{\"labels\":{\"a\":\"1\",\"a\":\"2\"},\"value\":1}");
        assert!(matches!(twice, Err(Error::DuplicateLabel { .. })));
    }

    #[test]
    fn a_series_and_its_exemplars_find_each_other() {
        let labels = Labels::new([("__name__", "rpc_seconds"), ("route", "/a")]).unwrap();
        let series = Exemplar::series(&labels);
        assert_eq!((series.labels.metric_name(), series.meta.kind), ("rpc_seconds_exemplar", Kind::Text));
        assert_eq!(Exemplar::explained(&series.labels), Some(labels.clone()));
        assert_eq!(Exemplar::explained(&labels), None);
        assert_eq!(Exemplar::explained(&Labels::new([("__name__", SUFFIX)]).unwrap()), None);
    }

    proptest! {
        #[test]
        fn texts_come_back(pairs in proptest::collection::btree_map("\\PC{1,9}", "(?s).{1,9}", 0..5), bits: u64) {
            let value = f64::from_bits(bits);
            let one = Exemplar { labels: Labels::new(pairs).unwrap(), value };
            let back = Exemplar::from_text(&one.to_text().unwrap()).unwrap();
            prop_assert_eq!(&back.labels, &one.labels);
            prop_assert!(back.value.to_bits() == bits || value.is_nan() && back.value.is_nan());
        }

        /// The seeded smoke of the decoder: any text, and any damage to a good one, is read or refused.
        #[test]
        fn any_text_ends(text in "(?s).{0,64}", at in 0_usize..64, c: char) {
            let _ = Exemplar::from_text(&text);
            let mut good: Vec<char> = "{\"labels\":{\"trace_id\":\"a\\u0041\\ud83c\\udf0d\"},\"value\":-1.5e3}".chars().collect();
            let at = at % good.len();
            good[at] = c;
            if let Ok(read) = Exemplar::from_text(&good.into_iter().collect::<String>()) {
                let again = Exemplar::from_text(&read.to_text().unwrap()).unwrap();
                prop_assert_eq!(again.to_text().unwrap(), read.to_text().unwrap());
            }
        }
    }
}
