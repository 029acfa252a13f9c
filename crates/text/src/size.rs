//! Numbers of bytes as people write them.

/// Bytes with an optional unit, with or without B and `/s`: k, M, G, T are powers of 1000, Ki, Mi, Gi, Ti of 1024.
///
/// # Errors
/// A sentence for the command line when the text is not a number of bytes, or above `u64::MAX`.
pub fn parse(text: &str) -> Result<u64, String> {
    let refuse = || format!("{text:?} is no number of bytes; give one such as 10MiB");
    let (number, unit) = split(text);
    let unit = unit.strip_suffix("/s").unwrap_or(unit);
    let (power, is_binary) = power(unit.strip_suffix(['B', 'b']).unwrap_or(unit)).ok_or_else(refuse)?;
    bytes(number, if is_binary { 1024 } else { 1000 }, power).ok_or_else(refuse)
}

/// Bytes as Prometheus has them: KB and KiB are 1024 bytes both, and the B may not be left out.
#[must_use]
pub fn parse_prometheus(text: &str) -> Option<u64> {
    let (number, unit) = split(text);
    let prefix = match unit.trim() {
        "" => "",
        unit => unit.strip_suffix(['B', 'b'])?,
    };
    bytes(number, 1024, power(prefix)?.0)
}

fn split(text: &str) -> (&str, &str) {
    text.split_at(text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len()))
}

/// The power that a prefix means, and whether it is one of 1024.
fn power(prefix: &str) -> Option<(u32, bool)> {
    let prefix = prefix.to_ascii_lowercase();
    let (letter, is_binary) = prefix.strip_suffix('i').map_or((&*prefix, false), |letter| (letter, true));
    match letter {
        "" if !is_binary => Some((0, false)),
        "k" => Some((1, is_binary)),
        "m" => Some((2, is_binary)),
        "g" => Some((3, is_binary)),
        "t" => Some((4, is_binary)),
        _ => None,
    }
}

fn bytes(number: &str, base: u64, power: u32) -> Option<u64> {
    number.parse::<u64>().ok()?.checked_mul(base.pow(power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_1000_and_1024() {
        for (text, size) in [
            ("0", 0),
            ("10", 10),
            ("10B", 10),
            ("1k", 1_000),
            ("1kb/s", 1_000),
            ("2M", 2_000_000),
            ("3GB", 3_000_000_000),
            ("1ki", 1 << 10),
            ("10MiB", 10 << 20),
            ("50MiB/s", 50 << 20),
            ("1GiB", 1 << 30),
            ("2TiB", 2 << 40),
        ] {
            assert_eq!(parse(text), Ok(size), "{text}");
        }
        for text in ["", "MiB", "1i", "1x", "-1", "1 MiB", "1.5GiB", "99999999999TiB", "1MiB/h", "1EB"] {
            assert_eq!(parse(text), Err(format!("{text:?} is no number of bytes; give one such as 10MiB")));
        }
    }

    #[test]
    fn sizes_of_prometheus_are_powers_of_1024() {
        for (text, size) in
            [("0", Some(0)), ("10", Some(10)), ("1KB", Some(1024)), ("10MiB", Some(10 << 20)), ("1GB", Some(1 << 30))]
        {
            assert_eq!(parse_prometheus(text), size, "{text}");
        }
        for text in ["x", "1EB", "99999999999TB", "1K", "1i", "1iB"] {
            assert_eq!(parse_prometheus(text), None, "{text}");
        }
        assert_eq!(parse_prometheus("1 MB"), Some(1 << 20));
    }
}
