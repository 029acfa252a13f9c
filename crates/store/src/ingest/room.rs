//! Room in the vectors that have an entry for each series.
//!
//! Invariants: a vector that grows by [`reserve_for_one`] has room for an eighth more than it holds at most, or for
//! four, so that each entry is copied some eight times.

/// Makes room for one more, and for an eighth more than there are. Doubling would leave up to half of it empty.
pub(crate) fn reserve_for_one<T>(entries: &mut Vec<T>) {
    if entries.len() == entries.capacity() {
        entries.reserve_exact((entries.len() / 8).max(4));
    }
    debug_assert!(entries.len() < entries.capacity(), "room for one more than {}", entries.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_an_eighth_is_room() {
        let mut entries = Vec::new();
        for number in 0..10_000_usize {
            reserve_for_one(&mut entries);
            entries.push(number);
            assert!(entries.capacity() <= entries.len() + (entries.len() / 8).max(4), "{}", entries.len());
        }
    }
}
