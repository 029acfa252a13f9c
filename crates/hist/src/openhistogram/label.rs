//! Bin labels: a bin is called by its edge nearer zero.

use crate::{DecimalBin, Error};

/// The bin that a label names: `"1.2e-3"`, `"-0.5"`, `"+12e-004"`, `"0"`, `"NaN"`. A number that is not an edge names
/// the bin that contains it.
///
/// # Errors
/// [`Error::Label`] for a text that is not a number, or a number beyond the scheme.
pub fn bin_of_label(label: &str) -> Result<DecimalBin, Error> {
    if label == "NaN" {
        return Ok(DecimalBin::NAN);
    }
    // Rust also parses "inf", "nan" and "infinity", in any case: those must be refused.
    let number = label.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    match label.parse().map(DecimalBin::from_value) {
        Ok(bin) if number && bin != DecimalBin::NAN => Ok(bin),
        _ => Err(Error::Label(label.to_owned())),
    }
}

/// The label of a valid bin: `"1.2e-3"`, `"0"`, `"NaN"`.
#[must_use]
pub fn label_of_bin(bin: DecimalBin) -> String {
    match bin {
        DecimalBin::NAN => "NaN".to_owned(),
        DecimalBin { val: 0, .. } => "0".to_owned(),
        DecimalBin { val, exp } => {
            let sign = if val < 0 { "-" } else { "" };
            let digits = val.unsigned_abs();
            format!("{sign}{}.{}e{exp}", digits / 10, digits % 10)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_name_bins() {
        for (label, val, exp) in [
            ("1.2e-3", 12, -3),
            ("0.0012", 12, -3),
            ("+12e-004", 12, -3),
            ("-0.5", -50, -1),
            ("0", 0, 0),
            ("-0.0", 0, 0),
            ("NaN", -1, 0),
            ("9.9e127", 99, 127),
            ("-1.0e-128", -10, -128),
            ("1.25e-3", 12, -3),
            ("3.0e-1", 30, -1),
        ] {
            assert_eq!(bin_of_label(label), Ok(DecimalBin { val, exp }), "{label}");
        }
    }

    #[test]
    fn what_names_no_bin_is_refused() {
        for label in ["", "inf", "-Infinity", "nan", "1e128", "1.2.3", "abc", "1e", " 1", "0x10", "1e999"] {
            assert_eq!(bin_of_label(label), Err(Error::Label(label.to_owned())), "{label}");
        }
    }

    #[test]
    fn every_bin_has_a_label_of_its_own() {
        for positive in [true, false] {
            for index in 0..crate::BINS_PER_SIGN {
                let bin = DecimalBin::from_index(positive, index);
                assert_eq!(bin_of_label(&label_of_bin(bin)), Ok(bin));
            }
        }
        assert_eq!(label_of_bin(DecimalBin::ZERO), "0");
        assert_eq!(label_of_bin(DecimalBin { val: -12, exp: -3 }), "-1.2e-3");
    }
}
