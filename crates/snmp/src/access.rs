//! Who may send notifications: communities of v1 and v2c, users of v3.
//!
//! Format: a TOML file with `communities`, `engine_id` and `[[user]]` tables, whose keys are those of an SNMP check.
//! Invariants: without a file every community is taken and no user is known; with one, only what it lists.
//! Limits: [`COMMUNITIES_MAX`], [`USERS_MAX`].

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use async_snmp::v3::validate_engine_id;
use async_snmp::{Community, UsmConfig};
use bytes::Bytes;
use ogive_text::hex;
use ogive_text::mistake::Mistake;
use serde::Deserialize;

use crate::user::{Protection, User, UserKeys, long_enough, master_keys};

/// 100 communities: each datagram is compared with every one, in constant time.
const COMMUNITIES_MAX: usize = 100;

/// 100 users: their keys are made at the start, some milliseconds each.
const USERS_MAX: usize = 100;

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AccessFile {
    #[serde(default)]
    communities: Vec<String>,
    engine_id: Option<toml::Spanned<String>>,
    #[serde(default)]
    user: Vec<toml::Spanned<UserTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserTable {
    user: String,
    authentication: Option<String>,
    password: Option<String>,
    password_file: Option<PathBuf>,
    privacy: Option<String>,
    privacy_password: Option<String>,
    privacy_password_file: Option<PathBuf>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Access {
    /// None: every one.
    communities: Option<Vec<Community>>,
    users: HashMap<Bytes, UsmConfig>,
    engine_id: Option<Bytes>,
}

impl Access {
    /// What a file says; `read` reads the files that it names.
    ///
    /// # Errors
    /// The line and what is wrong in it.
    pub fn parse(text: &str, read: fn(&Path) -> io::Result<Vec<u8>>) -> Result<Self, String> {
        let file: AccessFile = toml::from_str(text).map_err(|error| Mistake::from_toml(text, &error).to_string())?;
        if file.communities.len() > COMMUNITIES_MAX {
            return Err(format!("there are {} communities, above {COMMUNITIES_MAX}", file.communities.len()));
        }
        if file.user.len() > USERS_MAX {
            return Err(format!("there are {} [[user]] tables, above {USERS_MAX}", file.user.len()));
        }
        let mut users = HashMap::new();
        for table in file.user {
            let at = table.span().start;
            let mistake = |sentence: String| Mistake::at(text, at, sentence).to_string();
            let config = table.into_inner().config(read).map_err(mistake)?;
            if let Some(twice) = users.insert(config.username().clone(), config) {
                let name = String::from_utf8_lossy(twice.username()).into_owned();
                return Err(mistake(format!("the user {name:?} is there twice")));
            }
        }
        let engine_id = file.engine_id.map(|id| {
            let at = id.span().start;
            engine_id(id.get_ref()).map_err(|sentence| Mistake::at(text, at, sentence).to_string())
        });
        let communities = Some(file.communities.into_iter().map(Community::from).collect());
        Ok(Self { communities, users, engine_id: engine_id.transpose()? })
    }

    /// The engine that informs are sent to, if the file says one.
    #[must_use]
    pub fn engine_id(&self) -> Option<&Bytes> {
        self.engine_id.as_ref()
    }

    /// Whether messages with this community are taken. Every one is compared, so that the time says nothing of which it
    /// is.
    pub(crate) fn admits(&self, community: &[u8]) -> bool {
        let Some(known) = &self.communities else { return true };
        known.iter().fold(false, |found, known| found | known.matches(community))
    }

    pub(crate) fn user(&self, name: &Bytes) -> Option<&UsmConfig> {
        self.users.get(name)
    }
}

impl UserTable {
    fn config(self, read: fn(&Path) -> io::Result<Vec<u8>>) -> Result<UsmConfig, String> {
        let keys = UserKeys {
            authentication: self.authentication,
            password: password("password", self.password, self.password_file, read)?,
            privacy: self.privacy,
            privacy_password: password("privacy_password", self.privacy_password, self.privacy_password_file, read)?,
        };
        let user = User::new(self.user, keys)?;
        let config = UsmConfig::new(user.name);
        let Some(Protection { protocol, password }) = &user.authentication else { return Ok(config) };
        let privacy = user.privacy.as_ref().map(|privacy| (privacy.protocol, privacy.password.as_str()));
        let keys = master_keys((*protocol, password), privacy);
        keys.and_then(|keys| config.with_master_keys(keys)).map_err(|error| format!("password: {error}"))
    }
}

/// A password from one of its two keys.
fn password(
    key: &str,
    here: Option<String>,
    file: Option<PathBuf>,
    read: fn(&Path) -> io::Result<Vec<u8>>,
) -> Result<Option<String>, String> {
    let password = match (here, file) {
        (Some(_), Some(_)) => return Err(format!("give {key} or {key}_file, not both")),
        (None, None) => return Ok(None),
        (Some(here), None) => here,
        (None, Some(path)) => {
            let bytes = read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let text = String::from_utf8(bytes).map_err(|_| format!("{}: the file is not UTF-8", path.display()))?;
            text.trim().to_owned()
        }
    };
    long_enough(key, &password)?;
    Ok(Some(password))
}

/// The bytes of hexadecimal digits, after `0x` or not.
fn engine_id(text: &str) -> Result<Bytes, String> {
    let wrong =
        || format!("engine_id {text:?} is none; write 5 to 32 bytes in hexadecimal, such as 80000000051a2b3c4d");
    let bytes = hex::parse(text.strip_prefix("0x").unwrap_or(text));
    let bytes = bytes.filter(|bytes| validate_engine_id(bytes).is_ok()).ok_or_else(wrong)?;
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use async_snmp::message::SecurityLevel;

    use super::*;

    fn read(path: &Path) -> io::Result<Vec<u8>> {
        match path.to_str() {
            Some("/good") => Ok(b" hunter2 hunter2\n".to_vec()),
            Some("/short") => Ok(b"\n".to_vec()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    #[test]
    fn a_file_lists_who_may_send() {
        let text = "communities = ['public', 'b']\nengine_id = '0x80000000051A2b'\n[[user]]\nuser = 'open'\n\
                    [[user]]\nuser = 'sealed'\nauthentication = 'sha256'\npassword_file = '/good'\nprivacy = 'aes128'\n\
                    privacy_password = 'hunter2 hunter2'\n[[user]]\nuser = 'signed'\nauthentication = 'sha1'\npassword = 'hunter2 hunter2'\n";
        let access = Access::parse(text, read).unwrap();
        assert!(access.admits(b"public") && access.admits(b"b") && !access.admits(b"") && !access.admits(b"publi"));
        assert_eq!(access.engine_id().unwrap().as_ref(), b"\x80\0\0\0\x05\x1a\x2b");
        let level =
            |name: &'static str| access.user(&Bytes::from_static(name.as_bytes())).map(UsmConfig::security_level);
        assert_eq!(level("open"), Some(SecurityLevel::NoAuthNoPriv));
        assert_eq!(level("signed"), Some(SecurityLevel::AuthNoPriv));
        assert_eq!((level("sealed"), level("else")), (Some(SecurityLevel::AuthPriv), None));
        let shown = format!("{access:?}");
        assert!(!shown.contains("hunter2") && !shown.contains("public"), "{shown}");
    }

    #[test]
    fn without_a_file_every_community_is_taken_and_with_an_empty_one_none() {
        assert!(Access::default().admits(b"anything"));
        assert!(!Access::parse("", read).unwrap().admits(b"public"));
    }

    #[test]
    fn mistakes_are_refused() {
        for (text, sentence) in [
            ("community = 'a'", "unknown field `community`"),
            ("engine_id = '80'", "line 1: engine_id \"80\" is none"),
            ("engine_id = '8000000005x'", "is none"),
            ("engine_id = '0000000000'", "is none"),
            ("engine_id = '80000000051'", "is none"),
            ("[[user]]\nuser = ''", "user has 0 bytes"),
            ("[[user]]\nuser = 'a'\n[[user]]\nuser = 'a'", "the user \"a\" is there twice"),
            ("[[user]]\nuser = 'a'\npassword = 'hunter2'", "password has fewer than 8 bytes"),
            ("[[user]]\nuser = 'a'\npassword_file = '/short'", "password has fewer than 8 bytes"),
            ("[[user]]\nuser = 'a'\npassword_file = '/gone'", "/gone: "),
            ("[[user]]\nuser = 'a'\npassword = 'hunter2hunter2'\npassword_file = '/good'", "not both"),
            ("[[user]]\nuser = 'a'\npassword = 'hunter2hunter2'", "a password needs authentication"),
            ("[[user]]\nuser = 'a'\nauthentication = 'sha2'\npassword_file = '/good'", "there are md5, "),
        ] {
            let found = Access::parse(text, read).unwrap_err();
            assert!(found.contains(sentence) && !found.contains("hunter2"), "{found}");
        }
        let communities = |count: usize| Access::parse(&format!("communities = [{}]", "'a',".repeat(count)), read);
        assert!(communities(COMMUNITIES_MAX).is_ok());
        assert!(communities(COMMUNITIES_MAX + 1).unwrap_err().contains("above 100"));
        let users = |count: usize| {
            let tables: String = (0..count).map(|at| format!("[[user]]\nuser = 'u{at}'\n")).collect();
            Access::parse(&tables, read)
        };
        assert!(users(USERS_MAX).is_ok());
        assert!(users(USERS_MAX + 1).unwrap_err().contains("above 100"));
    }
}
