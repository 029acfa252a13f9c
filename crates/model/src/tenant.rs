//! Whose data it is: tenants share a server and see nothing of each other.

use std::fmt;
use std::sync::{Arc, LazyLock};

use crate::Error;
use crate::error::within;

/// Name of a tenant; cloning shares it. Part of every series' identity.
///
/// A name has 1 to [`Tenant::BYTES_MAX`] ASCII letters, digits and `! - _ . * ' ( )`, and is neither `.` nor
/// `..`: the names that Grafana Mimir and Loki accept in `X-Scope-OrgID`, and a safe part of a path.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tenant(Arc<str>);

impl Tenant {
    /// 150 bytes, as in Grafana Mimir.
    pub const BYTES_MAX: usize = 150;
    /// The tenant when none is stated.
    pub const DEFAULT_NAME: &str = "default";

    /// A tenant by its name.
    ///
    /// # Errors
    /// [`Error::TooLarge`] or [`Error::Tenant`].
    pub fn new(name: &str) -> Result<Self, Error> {
        if name == Self::DEFAULT_NAME {
            return Ok(Self::default());
        }
        within("a tenant name's bytes", name.len(), Self::BYTES_MAX)?;
        let taken = |byte: u8| byte.is_ascii_alphanumeric() || b"!-_.*'()".contains(&byte);
        if name.is_empty() || name == "." || name == ".." || !name.bytes().all(taken) {
            return Err(Error::Tenant { name: name.into() });
        }
        Ok(Self(name.into()))
    }

    /// Its name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is the default tenant.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self.0 == *Self::DEFAULT_NAME
    }
}

impl Default for Tenant {
    fn default() -> Self {
        static DEFAULT: LazyLock<Tenant> = LazyLock::new(|| Tenant(Tenant::DEFAULT_NAME.into()));
        DEFAULT.clone()
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Debug for Tenant {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_and_plain() {
        for good in ["default", "a", "team-7_x.y*'()!", &"t".repeat(Tenant::BYTES_MAX)] {
            assert_eq!(Tenant::new(good).unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", "a/b", "a b", "a|b", "ä", "a\0"] {
            assert_eq!(Tenant::new(bad), Err(Error::Tenant { name: bad.into() }));
        }
        assert!(matches!(Tenant::new(&"t".repeat(Tenant::BYTES_MAX + 1)), Err(Error::TooLarge { .. })));
        assert!(Tenant::default().is_default() && Tenant::new("default").unwrap() == Tenant::default());
        assert!(!Tenant::new("a").unwrap().is_default());
    }
}
