//! `printf` as Go's `fmt` has it.

use super::number::float_text;
use super::value::Value;

/// Widest field and highest precision that are obeyed; Go's own limit is a million, which no text needs.
const WIDTH_MAX: usize = 10_000;

/// The flags between `%` and the verb.
#[derive(Clone, Copy, Default)]
struct Flags {
    plus: bool,
    minus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

/// `format` with its verbs replaced by `arguments`.
pub(crate) fn sprintf(format: &str, arguments: &[Value]) -> String {
    let mut out = String::new();
    let (mut next, mut reordered) = (0, false);
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let mut reader = Reader { rest, next, arguments, reordered: false, bad: None };
        let flags = reader.flags();
        let verb = reader.rest.chars().next();
        rest = &reader.rest[verb.map_or(0, char::len_utf8)..];
        next = reader.next;
        reordered |= reader.reordered;
        match verb {
            None => out.push_str("%!(NOVERB)"),
            Some('%') => out.push('%'),
            Some(verb) => {
                out.push_str(reader.bad.unwrap_or(""));
                let text = if reader.bad == Some("BADINDEX") || next == usize::MAX {
                    format!("%!{verb}(BADINDEX)")
                } else {
                    let text = arguments
                        .get(next)
                        .map_or_else(|| format!("%!{verb}(MISSING)"), |value| one(value, verb, flags));
                    next += 1;
                    text
                };
                out.push_str(&text);
            }
        }
    }
    out.push_str(rest);
    if !reordered && next < arguments.len() {
        let extra: Vec<String> =
            arguments[next..].iter().map(|value| format!("{}={}", value.type_name(), value.print())).collect();
        out.push_str(&format!("%!(EXTRA {})", extra.join(", ")));
    }
    out
}

/// Reads flags, width and precision.
struct Reader<'f> {
    rest: &'f str,
    next: usize,
    arguments: &'f [Value],
    reordered: bool,
    bad: Option<&'static str>,
}

impl Reader<'_> {
    fn flags(&mut self) -> Flags {
        let mut flags = Flags::default();
        while let Some(c) = self.rest.chars().next() {
            match c {
                '+' => flags.plus = true,
                '-' => flags.minus = true,
                '#' => flags.sharp = true,
                ' ' => flags.space = true,
                '0' => flags.zero = true,
                _ => break,
            }
            self.rest = &self.rest[1..];
        }
        self.index();
        flags.width = self.number(&mut flags.minus, "%!(BADWIDTH)");
        if let Some(rest) = self.rest.strip_prefix('.') {
            self.rest = rest;
            self.index();
            let mut negative = false;
            let precision = self.number(&mut negative, "%!(BADPREC)");
            flags.precision = if negative { None } else { Some(precision.unwrap_or(0)) };
        }
        self.index();
        flags
    }

    /// `[n]`: the index of the next argument.
    fn index(&mut self) {
        let Some(inner) = self.rest.strip_prefix('[') else { return };
        let Some(end) = inner.find(']') else { return };
        self.reordered = true;
        let number = inner[..end].parse::<usize>().ok().filter(|number| (1..=self.arguments.len()).contains(number));
        self.next = number.map_or(usize::MAX, |number| number - 1);
        self.rest = &inner[end + 1..];
    }

    /// Digits, or `*` for the value of the next argument.
    fn number(&mut self, negative: &mut bool, bad: &'static str) -> Option<usize> {
        if let Some(rest) = self.rest.strip_prefix('*') {
            self.rest = rest;
            let value = self.arguments.get(self.next);
            self.next = self.next.saturating_add(1);
            let Some(Value::Int(value)) = value else {
                self.bad = Some(bad);
                return None;
            };
            *negative |= *value < 0;
            return usize::try_from(value.unsigned_abs()).ok().map(|value| value.min(WIDTH_MAX));
        }
        let length = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let digits = &self.rest[..length];
        self.rest = &self.rest[length..];
        if digits.is_empty() { None } else { Some(digits.parse().unwrap_or(WIDTH_MAX).min(WIDTH_MAX)) }
    }
}

fn one(value: &Value, verb: char, flags: Flags) -> String {
    match (verb, value) {
        ('T', _) => padded(value.type_name().to_owned(), flags),
        ('v', Value::Float(_)) => float(value, 'g', flags),
        ('v', Value::Int(_)) => integer(value, 'd', flags),
        ('v', Value::Text(text)) if flags.sharp => padded(quoted(text), flags),
        ('v', _) => padded(value.print(), flags),
        ('t', Value::Bool(truth)) => padded(truth.to_string(), flags),
        ('e' | 'E' | 'f' | 'F' | 'g' | 'G', Value::Float(_)) => float(value, verb, flags),
        ('d' | 'b' | 'o' | 'O' | 'x' | 'X' | 'c' | 'q' | 'U', Value::Int(_) | Value::Duration(_)) => {
            integer(value, verb, flags)
        }
        ('s', Value::Text(text)) => padded(cut(text, flags), flags),
        ('q', Value::Text(text)) => padded(quoted(&cut(text, flags)), flags),
        ('x', Value::Text(text)) => padded(text.bytes().map(|byte| format!("{byte:02x}")).collect(), flags),
        ('X', Value::Text(text)) => padded(text.bytes().map(|byte| format!("{byte:02X}")).collect(), flags),
        ('s', Value::Time(_) | Value::Duration(_) | Value::Texts(_) | Value::Map(_)) => padded(value.print(), flags),
        (_, Value::List(list)) => {
            format!("[{}]", list.iter().map(|value| one(value, verb, flags)).collect::<Vec<_>>().join(" "))
        }
        (_, Value::Missing | Value::Nil) => format!("%!{verb}(<nil>)"),
        _ => format!("%!{verb}({}={})", value.type_name(), value.print()),
    }
}

fn cut(text: &str, flags: Flags) -> String {
    text.chars().take(flags.precision.unwrap_or(usize::MAX)).collect()
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() && u32::from(c) < 0x80 => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn padded(text: String, flags: Flags) -> String {
    let missing = flags.width.unwrap_or(0).saturating_sub(text.chars().count());
    if missing == 0 {
        text
    } else if flags.minus {
        text + &" ".repeat(missing)
    } else {
        " ".repeat(missing) + &text
    }
}

/// Sign and digits, with zeros between them if requested.
fn signed(negative: bool, digits: &str, flags: Flags, zeros: bool) -> String {
    let sign = match (negative, flags.plus, flags.space) {
        (true, ..) => "-",
        (false, true, _) => "+",
        (false, false, true) => " ",
        _ => "",
    };
    let length = sign.len() + digits.chars().count();
    let width = flags.width.unwrap_or(0);
    if zeros && flags.zero && !flags.minus && length < width {
        return format!("{sign}{}{digits}", "0".repeat(width - length));
    }
    padded(format!("{sign}{digits}"), flags)
}

fn float(value: &Value, verb: char, flags: Flags) -> String {
    let Value::Float(value) = value else { unreachable!("the caller has looked") };
    let precision = flags.precision.or(if matches!(verb, 'g' | 'G') { None } else { Some(6) });
    let text = float_text(value.abs(), verb, precision);
    let digits = text.trim_start_matches('+');
    // Go prints the sign of an infinity when a plus was requested, and never pads it with zeros.
    let plus = flags.plus || (value.is_infinite() && *value > 0.0);
    signed(value.is_sign_negative() && !value.is_nan(), digits, Flags { plus, ..flags }, value.is_finite())
}

fn integer(value: &Value, verb: char, flags: Flags) -> String {
    let (Value::Int(value) | Value::Duration(value)) = value else { unreachable!("the caller has looked") };
    let size = value.unsigned_abs();
    let digits = match verb {
        'b' => format!("{}{size:b}", if flags.sharp { "0b" } else { "" }),
        'o' => format!("{}{size:o}", if flags.sharp { "0" } else { "" }),
        'O' => format!("0o{size:o}"),
        'x' => format!("{}{size:x}", if flags.sharp { "0x" } else { "" }),
        'X' => format!("{}{size:X}", if flags.sharp { "0X" } else { "" }),
        'c' | 'q' | 'U' => {
            let c = u32::try_from(*value).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER);
            return padded(
                match verb {
                    'c' => c.to_string(),
                    'q' => format!("'{}'", quoted(&c.to_string()).trim_matches('"')),
                    _ => format!("U+{:04X}", u32::from(c)),
                },
                flags,
            );
        }
        _ => size.to_string(),
    };
    let digits = match flags.precision {
        Some(precision) => format!("{}{digits}", "0".repeat(precision.saturating_sub(digits.len()))),
        None => digits,
    };
    signed(*value < 0, &digits, flags, flags.precision.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_give_what_go_gives() {
        let check = |format: &str, arguments: &[Value], expected: &str| {
            assert_eq!(sprintf(format, arguments), expected, "{format}")
        };
        let (float, int, text) = (Value::Float(1234.5678), Value::Int(-42), Value::text("hé\"y"));
        check("%.2f", std::slice::from_ref(&float), "1234.57");
        check(
            "%f|%e|%g|%v",
            &[float.clone(), float.clone(), float.clone(), float.clone()],
            "1234.567800|1.234568e+03|1234.5678|1234.5678",
        );
        check(
            "%8.1f|%-8.1f|%08.1f|%+.0f",
            &[float.clone(), float.clone(), float.clone(), float.clone()],
            "  1234.6|1234.6  |001234.6|+1235",
        );
        check(
            "%d|%5d|%-5d|%05d|%x|%#x",
            &[int.clone(), int.clone(), int.clone(), int.clone(), int.clone(), int.clone()],
            "-42|  -42|-42  |-0042|-2a|-0x2a",
        );
        check(
            "%s|%q|%.1s|%6s|%x",
            &[text.clone(), text.clone(), text.clone(), text.clone(), Value::text("ab")],
            "hé\"y|\"hé\\\"y\"|h|  hé\"y|6162",
        );
        check("%d", std::slice::from_ref(&float), "%!d(float64=1234.5678)");
        check("%s", std::slice::from_ref(&float), "%!s(float64=1234.5678)");
        check("%s", &[], "%!s(MISSING)");
        check("a", std::slice::from_ref(&int), "a%!(EXTRA int=-42)");
        check("100%", &[], "100%!(NOVERB)");
        check("%%|%t|%T|%v", &[Value::Bool(true), float.clone(), Value::Missing], "%|true|float64|<no value>");
        check("%[2]d %[1]d", &[Value::Int(1), Value::Int(2)], "2 1");
        check("%*d", &[Value::Int(4), Value::Int(2)], "   2");
        check("%c%U", &[Value::Int(0x41), Value::Int(0x41)], "AU+0041");
        check("%v", &[Value::Float(1e6)], "1e+06");
        check("%.3g|%5v", &[Value::Float(0.000_012_345), Value::text("ab")], "1.23e-05|   ab");
    }

    #[test]
    fn a_width_without_bounds_is_bounded() {
        assert_eq!(sprintf("%999999999999d", &[Value::Int(1)]).len(), WIDTH_MAX);
        assert_eq!(sprintf("%.999999999999f", &[Value::Float(1.0)]).len(), WIDTH_MAX + 2);
    }
}
