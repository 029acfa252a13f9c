//! The name and the password with which a check logs in.

use ogive_outgoing::Secret;

use super::raw::{Raw, secret};

/// A name and a password; neither goes without the other.
#[derive(Clone, Debug)]
pub(super) struct Account {
    pub(super) user: String,
    pub(super) password: Secret,
}

impl Account {
    /// What the keys `user`, `password` and `password_file` say, if any of them is there.
    pub(super) fn from_raw(raw: &mut Raw) -> Result<Option<Self>, String> {
        let password = secret("password", raw.password.take(), raw.password_file.take())?;
        match (raw.user.take(), password) {
            (Some(user), Some(password)) => Ok(Some(Self { user, password })),
            (None, None) => Ok(None),
            _ => Err("give both user and password (or password_file)".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// The name of the account, if there is one, or the sentence of the error.
    fn check(user: Option<&str>, password: Option<&str>, file: Option<&str>, expected: Result<Option<&str>, &str>) {
        let mut raw = Raw {
            user: user.map(str::to_owned),
            password: password.map(str::to_owned),
            password_file: file.map(PathBuf::from),
            ..Raw::default()
        };
        let found = Account::from_raw(&mut raw).map(|account| account.map(|account| account.user));
        assert_eq!(found, expected.map(|user| user.map(str::to_owned)).map_err(str::to_owned));
        if found.is_ok() {
            assert!(raw.user.is_none() && raw.password.is_none() && raw.password_file.is_none(), "all keys are taken");
        }
    }

    #[test]
    fn a_name_and_a_password_are_there_together_or_not_at_all() {
        check(None, None, None, Ok(None));
        check(Some("u"), Some("p"), None, Ok(Some("u")));
        check(Some("u"), None, Some("/p"), Ok(Some("u")));
        // Services with keys in place of accounts take one behind an empty name.
        check(Some(""), Some("p"), None, Ok(Some("")));
        let both = "give both user and password (or password_file)";
        check(Some("u"), None, None, Err(both));
        check(None, Some("p"), None, Err(both));
        check(None, None, Some("/p"), Err(both));
        check(Some("u"), Some("p"), Some("/p"), Err("give password or password_file, not both"));
    }
}
