//! Natural order of texts: runs of digits compare as numbers, so `4m600` comes before `4m1000`.

use std::cmp::Ordering;

/// Whether `left` comes before `right`.
pub(crate) fn natural_less(left: &str, right: &str) -> bool {
    let (mut left, mut right) = (left, right);
    loop {
        match (run(left), run(right)) {
            (None, other) => return other.is_some(),
            (_, None) => return false,
            (Some((a, rest_a)), Some((b, rest_b))) => {
                match (a.parse::<i64>(), b.parse::<i64>()) {
                    (Ok(a), Ok(b)) if a != b => return a < b,
                    (Ok(_), Ok(_)) => {}
                    _ => match a.cmp(b) {
                        Ordering::Equal => {}
                        order => return order == Ordering::Less,
                    },
                }
                (left, right) = (rest_a, rest_b);
            }
        }
    }
}

/// The first run of digits or of anything else, and the rest.
fn run(text: &str) -> Option<(&str, &str)> {
    let digit = text.chars().next()?.is_ascii_digit();
    let end = text.find(|c: char| c.is_ascii_digit() != digit).unwrap_or(text.len());
    Some(text.split_at(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_compare_as_numbers() {
        let sorted = ["", "0", "2", "4m5", "4m600", "4m1000", "10", "a", "b"];
        for (at, left) in sorted.iter().enumerate() {
            for (other, right) in sorted.iter().enumerate() {
                assert_eq!(natural_less(left, right), at < other, "{left} {right}");
            }
        }
    }
}
