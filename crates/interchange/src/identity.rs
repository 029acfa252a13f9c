//! Who a file is as a source of batches: what it holds and what is made of it, so that the same import is the same
//! source.

use ogive_model::SourceId;
use twox_hash::XxHash3_128;

/// Changes when the same file would produce different batches.
const VERSION: &str = "import 1";

/// Bytes that are being read.
pub struct Identity(XxHash3_128);

impl Identity {
    /// For batches that are made with these options, as text.
    #[must_use]
    pub fn new(options: &str) -> Self {
        let mut hasher = XxHash3_128::with_seed(options.len() as u64);
        hasher.write(VERSION.as_bytes());
        hasher.write(options.as_bytes());
        Self(hasher)
    }

    /// Adds the next bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// The source.
    #[must_use]
    pub fn finish(self) -> SourceId {
        SourceId(self.0.finish_128())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_bytes_and_options_are_the_same_source() {
        let of = |options: &str, parts: &[&[u8]]| {
            let mut identity = Identity::new(options);
            parts.iter().for_each(|part| identity.add(part));
            identity.finish()
        };
        assert_eq!(of("csv", &[b"ab", b"c"]), of("csv", &[b"a", b"bc"]));
        assert_ne!(of("csv", &[b"abc"]), of("csv", &[b"abd"]));
        assert_ne!(of("csv", &[b"abc"]), of("csv x", &[b"abc"]));
    }
}
