//! When a certificate expires: the one date that is read of it (RFC 5280, 4.1).

const SEQUENCE: u8 = 0x30;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const VERSION: u8 = 0xa0;

/// The end of validity of the first certificate in a Certificate message of TLS up to 1.2, in seconds after 1970.
pub(super) fn expiry(message: &[u8]) -> Option<i64> {
    let list = message.get(3..)?;
    let [a, b, c, rest @ ..] = list else { return None };
    let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
    not_after(rest.get(..length)?)
}

/// A DER element: its tag, its contents, and the rest.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let [tag, first, rest @ ..] = bytes else { return None };
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (value, rest) = rest.split_at_checked(length)?;
    Some((*tag, value, rest))
}

fn not_after(certificate: &[u8]) -> Option<i64> {
    let within = |bytes| element(bytes).filter(|(tag, ..)| *tag == SEQUENCE).map(|(_, value, rest)| (value, rest));
    let (certificate, _) = within(certificate)?;
    let (mut fields, _) = within(certificate)?;
    if let Some((VERSION, _, rest)) = element(fields) {
        fields = rest;
    }
    // The serial number, the signature's algorithm, the issuer.
    for _ in 0..3 {
        fields = element(fields)?.2;
    }
    let (validity, _) = within(fields)?;
    let (_, _, rest) = element(validity)?;
    let (tag, text, _) = element(rest)?;
    seconds(tag, text)
}

/// A time of DER, always in UTC with a final Z.
fn seconds(tag: u8, text: &[u8]) -> Option<i64> {
    let digits = text.strip_suffix(b"Z")?;
    let number = |range: std::ops::Range<usize>| {
        let digits = digits.get(range)?;
        digits.iter().try_fold(0_i64, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + i64::from(digit - b'0')))
    };
    let (year, at) = match (tag, digits.len()) {
        // Years from 50 on are of the last century (RFC 5280, 4.1.2.5.1).
        (UTC_TIME, 12) => (number(0..2).map(|year| if year < 50 { 2000 + year } else { 1900 + year })?, 2),
        (GENERALIZED_TIME, 14) => (number(0..4)?, 4),
        _ => return None,
    };
    let field = |place: usize| number(at + 2 * place..at + 2 * place + 2);
    let (month, day) = (field(0)?, field(1)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    Some(days(year, month, day) * 86_400 + field(2)? * 3_600 + field(3)? * 60 + field(4)?)
}

/// Days from 1970-01-01 to a day of the Gregorian calendar: years begin in March, so that the leap day is the last of
/// its year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let before_month = (153 * month + 2) / 5;
    365 * year + leap_days + before_month + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted() {
        for (date, expected) in
            [((1970, 1, 1), 0), ((2000, 3, 1), 11_017), ((2024, 2, 29), 19_782), ((1969, 12, 31), -1)]
        {
            assert_eq!(days(date.0, date.1, date.2), expected, "{date:?}");
        }
    }

    #[test]
    fn both_forms_of_time_are_read() {
        assert_eq!(seconds(UTC_TIME, b"700101000001Z"), Some(1));
        assert_eq!(seconds(GENERALIZED_TIME, b"20240229120000Z"), Some(19_782 * 86_400 + 43_200));
        for bad in [&b""[..], b"Z", b"7001010000Z", b"701301000001Z", b"7001010000xxZ"] {
            assert_eq!(seconds(UTC_TIME, bad), None);
        }
    }

    #[test]
    fn lengths_that_lie_are_no_certificate() {
        assert_eq!(expiry(&[0, 0, 9, 0, 0, 6, 0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(expiry(&[0, 0, 9, 0xff, 0, 6]), None);
        assert_eq!(expiry(&[]), None);
    }
}
