//! The name that was probably meant.

/// The one of `known` that is most similar to `name`, if it is similar enough: letters inserted, dropped, changed or
/// swapped with their neighbour, at most a third of the name.
pub fn nearest<'k>(known: impl IntoIterator<Item = &'k str>, name: &str) -> Option<&'k str> {
    let near = known.into_iter().map(|known| (strsim::osa_distance(known, name), known));
    // A third of the letters: a slip or two, also in a short name.
    near.min().filter(|(distance, _)| *distance <= name.chars().count().div_ceil(3)).map(|(_, known)| known)
}

/// `; did you mean "listen"?` to append to a sentence, or nothing.
#[must_use]
pub fn did_you_mean(meant: Option<&str>) -> String {
    meant.map_or_else(String::new, |meant| format!("; did you mean {meant:?}?"))
}

/// [`did_you_mean`] with the one of `known` that is [`nearest`] to `name`.
#[must_use]
pub fn suggestion<'k>(known: impl IntoIterator<Item = &'k str>, name: &str) -> String {
    did_you_mean(nearest(known, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_near_by_a_slip_or_two() {
        for (name, expected) in [
            ("listen", Some("listen")),
            ("listne", Some("listen")),
            ("lsten", Some("listen")),
            ("listens", Some("listen")),
            ("dota", Some("data")),
            ("qqqqqqq", None),
            ("", None),
        ] {
            assert_eq!(nearest(["listen", "data"], name), expected, "{name}");
        }
        assert_eq!(did_you_mean(Some("data")), "; did you mean \"data\"?");
        assert_eq!(did_you_mean(None), "");
        assert_eq!(suggestion(["listen", "data"], "dota"), "; did you mean \"data\"?");
    }

    #[test]
    fn slips_are_told_from_other_words() {
        let known = ["scrape_interval", "scrape_timeout", "job_name", "scheme"];
        assert_eq!(nearest(known, "scrape_intervall"), Some("scrape_interval"));
        assert_eq!(nearest(known, "jobname"), Some("job_name"));
        assert_eq!(nearest(known, "schema"), Some("scheme"));
        assert_eq!(nearest(known, "something"), None);
    }
}
