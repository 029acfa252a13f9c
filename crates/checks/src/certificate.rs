//! The expiry date of a certificate: the one field of X.509 (RFC 5280, 4.1) that the TLS library does not expose.
//!
//! Failure: bytes that are not a certificate have no expiry date.

use ogive_text::calendar::seconds_from_date;

/// A DER value: its tag, its content, and what follows it.
fn value(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        // Up to 3 bytes of length: 16 MiB, far more than TLS carries.
        0x81..=0x83 => {
            let (length, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

fn inside(bytes: &[u8], tag: u8) -> Option<&[u8]> {
    let (found, content, _) = value(bytes)?;
    (found == tag).then_some(content)
}

const SEQUENCE: u8 = 0x30;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The version, which the first version leaves out.
const VERSION: u8 = 0xa0;

/// The end of the certificate in seconds since the Unix epoch.
pub(super) fn not_after(certificate: &[u8]) -> Option<i64> {
    let mut rest = inside(inside(certificate, SEQUENCE)?, SEQUENCE)?;
    let (tag, _, behind) = value(rest)?;
    if tag == VERSION {
        rest = behind;
    }
    // Serial number, algorithm, issuer.
    for _ in 0..3 {
        rest = value(rest)?.2;
    }
    let (_, _, end) = value(inside(rest, SEQUENCE)?)?;
    let (tag, text, _) = value(end)?;
    seconds(tag, text)
}

/// `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`.
fn seconds(tag: u8, text: &[u8]) -> Option<i64> {
    let digits = text.strip_suffix(b"Z")?;
    let (year_digits, rest) = match tag {
        UTC_TIME => digits.split_at_checked(2)?,
        GENERALIZED_TIME => digits.split_at_checked(4)?,
        _ => return None,
    };
    let number = |digits: &[u8]| -> Option<i64> {
        digits.iter().try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
    };
    if rest.len() != 10 {
        return None;
    }
    let mut year = number(year_digits)?;
    if tag == UTC_TIME {
        year += if year < 50 { 2000 } else { 1900 };
    }
    let part = |at: usize| number(&rest[2 * at..2 * at + 2]);
    let (month, day, hour, minute, second) = (part(0)?, part(1)?, part(2)?, part(3)?, part(4)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // A leap second is the second behind it.
    Some(seconds_from_date([year, month, day], [hour, minute, second.min(59)])? + second / 60)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn made(year: i32) -> Vec<u8> {
        let mut parameters = rcgen::CertificateParams::new(vec!["a.example".into()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(year, 2, 28);
        let key = rcgen::KeyPair::generate().unwrap();
        parameters.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn the_end_is_found_in_both_forms_of_time() {
        assert_eq!(not_after(&made(2031)), Some(1_930_003_200));
        assert_eq!(not_after(&made(2096)), seconds_from_date([2096, 2, 28], [0; 3]));
    }

    #[test]
    fn no_certificate_cut_short_or_damaged_ends_the_program() {
        let whole = made(2031);
        (0..whole.len()).for_each(|end| assert_eq!(not_after(&whole[..end]), None, "{end}"));
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << bit;
                let _ = not_after(&damaged);
            }
        }
    }

    proptest! {
        #[test]
        fn anything_may_come(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = not_after(&bytes);
        }
    }
}
