//! The key that clients of the Forward protocol and the server share.

use std::fmt;
use std::str::FromStr;

/// See the module. A key is shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct SharedKey(String);

impl SharedKey {
    pub(super) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Without the key.
impl fmt::Debug for SharedKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SharedKey")
    }
}

impl FromStr for SharedKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            Err("the key is empty; give at least one character".into())
        } else {
            Ok(Self(text.into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_not_empty_and_not_shown() {
        assert!("".parse::<SharedKey>().is_err());
        let key: SharedKey = "hunter2".parse().unwrap();
        assert_eq!((key.as_bytes(), format!("{key:?}")), (&b"hunter2"[..], "SharedKey".to_owned()));
    }
}
