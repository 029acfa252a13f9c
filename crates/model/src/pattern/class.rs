//! Classes of characters: `[a-z]`, `\d`, `[[:alpha:]]`, `\p{Greek}`.

use super::escape::{character, wrong};

/// Go's error for an invalid class.
const RANGE: &str = "invalid character class range";

/// The bracket expression at the start of `rest`, which begins with one: its length, and its form for the engine.
pub(super) fn bracket(rest: &str) -> Result<(usize, String), String> {
    let mut out = "[".to_owned();
    let mut at = 1;
    if rest[at..].starts_with('^') {
        out.push('^');
        at += 1;
    }
    let mut first = true;
    // A bracket in the first position does not close.
    while first || !rest[at..].starts_with(']') {
        first = false;
        let tail = &rest[at..];
        if let Some((length, class)) = posix(tail)? {
            out.push_str(class);
            at += length;
        } else if let Some((length, inside)) = escaped(tail)? {
            out.push_str(&format!("[{inside}]"));
            at += length;
        } else {
            at += range(tail, rest, &mut out)?;
        }
    }
    out.push(']');
    Ok((at + 1, out))
}

/// Writes the character or the range at the start of `tail`; returns its length. `whole` is the bracket expression from
/// its start.
fn range(tail: &str, whole: &str, out: &mut String) -> Result<usize, String> {
    let one = |text: &str| match text.chars().next() {
        None => Err(wrong("missing closing ]", whole)),
        Some('\\') => character(text),
        Some(c) => Ok((c.len_utf8(), c)),
    };
    let (mut length, low) = one(tail)?;
    let mut high = low;
    let behind = &tail[length..];
    if behind.len() >= 2 && behind.starts_with('-') && !behind.starts_with("-]") {
        let (more, found) = one(&behind[1..])?;
        length += 1 + more;
        high = found;
    }
    if high < low {
        return Err(wrong(RANGE, &tail[..length]));
    }
    out.push_str(&literal(low));
    if high > low {
        out.push('-');
        out.push_str(&literal(high));
    }
    Ok(length)
}

/// `c` as a literal, inside brackets and outside.
pub(super) fn literal(c: char) -> String {
    if c.is_alphanumeric() { c.to_string() } else { format!("\\x{{{:x}}}", u32::from(c)) }
}

/// A class such as `[:alpha:]` at the start of `tail`: its length and its name in the engine.
fn posix(tail: &str) -> Result<Option<(usize, &str)>, String> {
    const NAMES: [&str; 14] = [
        "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper",
        "word", "xdigit",
    ];
    // No name is longer: a pattern of brackets is read in linear time.
    const NAME_BYTES_MAX: usize = 32;
    let Some(behind) = tail.strip_prefix("[:") else { return Ok(None) };
    let near = &behind.as_bytes()[..behind.len().min(NAME_BYTES_MAX)];
    let Some(end) = near.windows(2).position(|two| two == b":]") else { return Ok(None) };
    let class = &tail[..end + 4];
    let name = &class[2..class.len() - 2];
    if !NAMES.contains(&name.strip_prefix('^').unwrap_or(name)) {
        return Err(wrong(RANGE, class));
    }
    Ok(Some((class.len(), class)))
}

/// The class that the escape at the start of `tail` is, when it is one: its length, and the inside of a bracket
/// expression.
pub(super) fn escaped(tail: &str) -> Result<Option<(usize, String)>, String> {
    let Some(letter) = tail.strip_prefix('\\').and_then(|behind| behind.chars().next()) else { return Ok(None) };
    let ascii = match letter {
        'd' => "0-9",
        'D' => "^0-9",
        's' => "\\t\\n\\x0C\\r ",
        'S' => "^\\t\\n\\x0C\\r ",
        'w' => "0-9A-Za-z_",
        'W' => "^0-9A-Za-z_",
        'p' | 'P' => return unicode(tail, letter == 'P').map(Some),
        _ => return Ok(None),
    };
    Ok(Some((2, ascii.to_owned())))
}

/// `\pN`, `\p{Greek}`, `\P{^Lu}`: its length, and the inside of a bracket expression.
fn unicode(tail: &str, negative: bool) -> Result<(usize, String), String> {
    let (length, name) = match tail[2..].strip_prefix('{') {
        Some(behind) => match behind.find('}') {
            Some(end) => (end + 4, &behind[..end]),
            None => return Err(wrong(RANGE, tail)),
        },
        None => match tail[2..].chars().next() {
            Some(c) => (2 + c.len_utf8(), &tail[2..2 + c.len_utf8()]),
            None => return Err(wrong("invalid escape sequence", tail)),
        },
    };
    let (name, negated) = name.strip_prefix('^').map_or((name, false), |name| (name, true));
    let class = property(name).ok_or_else(|| wrong(RANGE, &tail[..length]))?;
    Ok((length, if negative != negated { format!("^{class}") } else { class }))
}

/// The characters of the category or script with Go's `name`.
fn property(name: &str) -> Option<String> {
    const CATEGORIES: [&str; 34] = [
        "Cc", "Cf", "Co", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl", "No", "P", "Pc",
        "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs",
    ];
    match name {
        "Any" => Some("\\x{0}-\\x{10FFFF}".to_owned()),
        // Go's category C excludes unassigned characters; no text has surrogates.
        "C" => Some("\\p{Cc}\\p{Cf}\\p{Co}".to_owned()),
        "Cs" => Some("[^\\x{0}-\\x{10FFFF}]".to_owned()),
        _ if CATEGORIES.contains(&name) => Some(format!("\\p{{gc={name}}}")),
        _ if is_script(name) => Some(format!("\\p{{sc={name}}}")),
        _ => None,
    }
}

/// Whether `name` is a script's full name in Unicode's spelling. The engine knows which exist; it also accepts short
/// names, which Go does not.
fn is_script(name: &str) -> bool {
    const OF_FOUR: [&str; 8] = ["Ahom", "Cham", "Kawi", "Lisu", "Modi", "Newa", "Thai", "Toto"];
    let mut parts = name.split('_');
    let is_part = |part: &str| {
        let mut chars = part.chars();
        chars.next().is_some_and(|c| c.is_ascii_uppercase()) && chars.all(|c| c.is_ascii_lowercase())
    };
    let is_short = name.len() == 4 && !OF_FOUR.contains(&name);
    let plain = name == "SignWriting" || parts.all(is_part);
    let known = || regex::Regex::new(&format!("\\p{{sc={name}}}")).is_ok();
    plain && !is_short && !matches!(name, "Unknown" | "Katakana_Or_Hiragana") && known()
}
