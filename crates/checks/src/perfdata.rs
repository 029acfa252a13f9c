//! The output of a Nagios plugin: its first line, for people, and the performance data after `|`.
//!
//! Format: `TEXT | 'label'=VALUE[UNIT][;WARNING[;CRITICAL[;MINIMUM[;MAXIMUM]]]] ...`, also after a `|` in the lines
//! below, as monitoring-plugins.org/doc/guidelines.html specifies. Times are converted to seconds, sizes to bytes
//! (units of 1,024, as plugins count).
//! Limits: [`ITEMS_MAX`] numbers per run.

/// 500 numbers: a plugin that looks at every disk of a large machine.
pub(super) const ITEMS_MAX: usize = 500;
/// The names of what stands behind a value.
const LIMITS: [&str; 4] = ["warning", "critical", "minimum", "maximum"];

/// A number of a plugin.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item<'a> {
    pub(super) label: String,
    pub(super) value: f64,
    pub(super) unit: &'a str,
    /// Those limits that are single numbers, each with its name.
    pub(super) limits: Vec<(&'static str, f64)>,
}

/// The line for people.
pub(super) fn headline(output: &str) -> &str {
    let line = output.lines().next().unwrap_or_default();
    line.split('|').next().unwrap_or_default().trim()
}

/// The numbers, each as it is read; a sentence for a word that is none.
pub(super) fn items(output: &str) -> Result<Vec<Item<'_>>, String> {
    let (first, below) = output.split_once('\n').unwrap_or((output, ""));
    let mut out = Vec::new();
    for part in [behind(first), behind(below)] {
        let mut left = part.trim_start();
        while !left.is_empty() {
            let (item, rest) = item(left)?;
            if let Some(item) = item {
                if out.len() == ITEMS_MAX {
                    return Err(format!("there are more than {ITEMS_MAX} numbers"));
                }
                out.push(item);
            }
            left = rest.trim_start();
        }
    }
    Ok(out)
}

fn behind(text: &str) -> &str {
    text.split_once('|').map_or("", |(_, numbers)| numbers)
}

/// The first item of what is left, if its value is known, and the rest.
fn item(text: &str) -> Result<(Option<Item<'_>>, &str), String> {
    let wrong = || {
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        format!("{:?} behind | is no 'label'=value", &text[..end])
    };
    let (label, rest) = label(text).ok_or_else(wrong)?;
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let mut fields = rest[..end].split(';');
    let value = fields.next().unwrap_or_default();
    let rest = &rest[end..];
    // The plugin does not know it.
    if value == "U" {
        return Ok((None, rest));
    }
    let (value, unit) = number(value).ok_or_else(wrong)?;
    let (unit, factor) = unit_of(unit);
    let limit = |(name, text): (&'static str, &str)| {
        let (value, own) = number(text)?;
        // Some plugins repeat the unit.
        let factor = if own.is_empty() { factor } else { unit_of(own).1 };
        let is_range = own.contains(|letter: char| !letter.is_alphabetic() && letter != '%');
        (!is_range).then_some((name, value * factor))
    };
    let limits = LIMITS.into_iter().zip(fields).filter_map(limit).collect();
    Ok((Some(Item { label, value: value * factor, unit, limits }), rest))
}

/// The label before `=`, and what stands behind that. Two quotes in a quoted label are one.
fn label(text: &str) -> Option<(String, &str)> {
    let Some(mut left) = text.strip_prefix('\'') else {
        let (label, rest) = text.split_once('=')?;
        return (!label.is_empty() && !label.contains(char::is_whitespace)).then(|| (label.to_owned(), rest));
    };
    let mut label = String::new();
    loop {
        let (part, rest) = left.split_once('\'')?;
        label.push_str(part);
        match rest.strip_prefix('\'') {
            Some(rest) => {
                label.push('\'');
                left = rest;
            }
            None => return Some((label, rest.strip_prefix('=')?)).filter(|(label, _)| !label.is_empty()),
        }
    }
}

/// A number and what stands behind it; a comma may be the point.
fn number(text: &str) -> Option<(f64, &str)> {
    let is_of = |letter: char| letter.is_ascii_digit() || matches!(letter, '.' | ',' | '-' | '+');
    let mut end = text.find(|letter| !is_of(letter)).unwrap_or(text.len());
    // `1e-05`, but not the `E` of a unit.
    if let Some(power) = text[end..].strip_prefix(['e', 'E']) {
        let digits = power.find(|letter| !is_of(letter)).unwrap_or(power.len());
        end += if digits > 0 { 1 + digits } else { 0 };
    }
    let value = text[..end].replace(',', ".").parse().ok().filter(|value: &f64| value.is_finite())?;
    Some((value, &text[end..]))
}

/// The unit in which a value is stored, and by what it is multiplied for that.
fn unit_of(unit: &str) -> (&str, f64) {
    let size = |power: i32| ("By", 1024_f64.powi(power));
    match unit {
        "s" => ("s", 1.0),
        "ms" => ("s", 1e-3),
        "us" => ("s", 1e-6),
        "ns" => ("s", 1e-9),
        "B" => size(0),
        "KB" | "kB" | "KiB" => size(1),
        "MB" | "MiB" => size(2),
        "GB" | "GiB" => size(3),
        "TB" | "TiB" => size(4),
        "PB" | "PiB" => size(5),
        // A count that only rises.
        "c" => ("", 1.0),
        other => (other, 1.0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_of_plugins_are_read() {
        let load = "LOAD OK - total load average: 0.52, 0.31, 0.20|load1=0.520;1.500;4.000;0; load5=0.310;10:20;;0;\n";
        let found = items(load).unwrap();
        assert_eq!(headline(load), "LOAD OK - total load average: 0.52, 0.31, 0.20");
        assert_eq!((found[0].label.as_str(), found[0].value, found[0].unit), ("load1", 0.52, ""));
        assert_eq!(found[0].limits, [("warning", 1.5), ("critical", 4.0), ("minimum", 0.0)]);
        assert_eq!(found[1].limits, [("minimum", 0.0)], "a range is no number");
        let long = "DISK OK\nmore| /=2MB;3;4 'it''s a disk'=50%;;;0;100\n rta=1.5ms t=U c=7c s=1e-05s\nx=1,5KB";
        let found = items(long).unwrap().into_iter().map(|item| (item.label, item.value, item.unit));
        let found: Vec<(String, f64, &str)> = found.collect();
        let expected = [
            ("/", 2_097_152.0, "By"),
            ("it's a disk", 50.0, "%"),
            ("rta", 0.0015, "s"),
            ("c", 7.0, ""),
            ("s", 1e-5, "s"),
            ("x", 1536.0, "By"),
        ];
        assert_eq!(found, expected.map(|(label, value, unit)| (label.to_owned(), value, unit)));
        assert!(items("OK\n").unwrap().is_empty());
        assert!(items("OK|  \n").unwrap().is_empty());
        assert!(items("").unwrap().is_empty());
    }

    #[test]
    fn what_is_none_is_reported() {
        for text in ["OK|x", "OK|=1", "OK|'x=1", "OK|x=", "OK|x=y", "OK|''=1", "OK|a b=1"] {
            assert!(items(text).unwrap_err().ends_with("behind | is no 'label'=value"), "{text}");
        }
        let many = |count: usize| format!("OK|{}", "a=1 ".repeat(count));
        assert_eq!(items(&many(ITEMS_MAX)).unwrap().len(), ITEMS_MAX);
        assert!(items(&many(ITEMS_MAX + 1)).unwrap_err().contains("more than 500"));
    }

    proptest! {
        #[test]
        fn any_output_may_come(text in r#"(OK|\||'|=|;|a|1|\.|e|-|,|ms| |\n|é){0,30}"#) {
            let _ = (headline(&text), items(&text));
        }

        #[test]
        fn what_is_written_is_read(label in "[a-z' =|é]{1,8}", value in -1e9..1e9_f64) {
            // A | ends the text and begins the numbers; one in a label belongs to the numbers.
            let text = format!("OK|'{}'={value}", label.replace('\'', "''"));
            let found = items(&text).unwrap();
            prop_assert_eq!((found[0].label.as_str(), found[0].value), (label.as_str(), value));
        }
    }
}
