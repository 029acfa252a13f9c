//! Who somebody is by what their request carries, and what they may do.
//!
//! Invariants: secrets are compared by their SHA-256 in constant time, with every one that could be meant, so that the
//! time of an answer says nothing of them. A user who is not known costs as much as a wrong password. The password of a
//! user who is not known may be a token, so that a person can open the page with what they have.

use axum::http::{HeaderMap, header};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ogive_model::{Tenant, WallMs};
use ring::digest::{SHA256, digest};
use subtle::ConstantTimeEq;

use super::passwords::Passwords;
use ogive_door::doorkeeper::LoginFailure;

/// 72 bytes: bcrypt ignores the rest. Of longer passwords it would accept any with the same beginning.
const PASSWORD_BYTES_MAX: usize = 72;

/// What a route asks of whoever calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing.
    Open,
    /// To see.
    Read,
    /// To send measurements.
    Write,
    /// To change what is kept, or how.
    Admin,
    /// To issue tickets to others.
    Vend,
}

impl Need {
    /// As it is written.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Open => "nothing",
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
            Self::Vend => "vend",
        }
    }
}

/// A set of [`Need`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allow {
    /// Queries.
    pub read: bool,
    /// Samples.
    pub write: bool,
    /// Deletion, disks, snapshots, and what else changes the server.
    pub admin: bool,
    /// To issue tickets with permissions that it has itself.
    pub vend: bool,
}

impl Allow {
    /// Everything.
    pub const ALL: Self = Self { read: true, write: true, admin: true, vend: true };

    /// `read,write` as words.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut out = Self { read: false, write: false, admin: false, vend: false };
        for word in words {
            match word.trim() {
                "read" => out.read = true,
                "write" => out.write = true,
                "admin" => out.admin = true,
                "vend" => out.vend = true,
                other => return Err(format!("{other:?} cannot be allowed; read, write, admin and vend can")),
            }
        }
        match out.read || out.write || out.admin || out.vend {
            true => Ok(out),
            false => Err("nothing is allowed; name read, write, admin or vend".into()),
        }
    }

    /// The names of the permissions.
    pub fn words(self) -> Vec<&'static str> {
        let all = [(self.read, "read"), (self.write, "write"), (self.admin, "admin"), (self.vend, "vend")];
        all.into_iter().filter(|(is_allowed, _)| *is_allowed).map(|(_, word)| word).collect()
    }

    /// Whether `need` is among it.
    pub fn has(self, need: Need) -> bool {
        match need {
            Need::Open => true,
            Need::Read => self.read,
            Need::Write => self.write,
            Need::Admin => self.admin,
            Need::Vend => self.vend,
        }
    }
}

/// The permissions of a user or token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Its name, for people.
    pub name: String,
    /// The only tenant whose data it may access; any tenant when None.
    pub tenant: Option<Tenant>,
    /// Its permissions.
    pub allow: Allow,
}

/// The kind of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginKind {
    /// With a name and a password.
    User,
    /// With a token.
    Token,
}

/// A user or token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// How.
    pub kind: LoginKind,
    /// Its name and permissions.
    pub grant: Grant,
    /// Its expiry; None means that it does not expire.
    pub expires: Option<WallMs>,
}

/// A user of basic authentication.
#[derive(Clone, Debug)]
pub(super) struct User {
    pub(super) hash: String,
    pub(super) grant: Grant,
}

/// A token, identified by its hash.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) sha256: [u8; 32],
    pub(super) expires: Option<WallMs>,
    pub(super) grant: Grant,
}

/// Why a client is refused before its request is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// By kind, for the counters.
    pub why: LoginFailure,
    /// The message for the client.
    pub message: String,
}

/// The users and tokens; when there are none, no login is required.
#[derive(Debug, Default)]
pub(super) struct Rules {
    pub(super) users: Vec<User>,
    pub(super) tokens: Vec<Token>,
}

fn denied(why: LoginFailure, message: impl Into<String>) -> Denied {
    Denied { why, message: message.into() }
}

impl Rules {
    /// Whether no login is required.
    pub(super) fn is_empty(&self) -> bool {
        self.users.is_empty() && self.tokens.is_empty()
    }

    pub(super) fn logins(&self) -> Vec<Login> {
        let users =
            self.users.iter().map(|user| Login { kind: LoginKind::User, grant: user.grant.clone(), expires: None });
        let tokens = self.tokens.iter().map(|token| Login {
            kind: LoginKind::Token,
            grant: token.grant.clone(),
            expires: token.expires,
        });
        users.chain(tokens).collect()
    }

    pub(super) fn challenges(&self) -> Vec<&'static str> {
        let basic = (!self.is_empty()).then_some("Basic realm=\"ogive\", charset=\"UTF-8\"");
        let bearer = (!self.tokens.is_empty()).then_some("Bearer realm=\"ogive\"");
        basic.into_iter().chain(bearer).collect()
    }

    /// The kinds of login that are accepted, in words.
    fn wanted(&self) -> &'static str {
        match (self.users.is_empty(), self.tokens.is_empty()) {
            (true, _) => "a token (`Authorization: Bearer ...`)",
            (_, true) => "a user and a password (basic authentication)",
            _ => "a token (`Authorization: Bearer ...`) or a user and a password (basic authentication)",
        }
    }

    pub(super) async fn who(
        &self,
        headers: &HeaderMap,
        now: WallMs,
        passwords: &Passwords,
    ) -> Result<Option<Grant>, Denied> {
        if self.is_empty() {
            return Ok(None);
        }
        let mut given = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(value), None) = (given.next(), given.next()) else {
            let why = if headers.contains_key(header::AUTHORIZATION) {
                LoginFailure::Malformed
            } else {
                LoginFailure::Missing
            };
            return Err(denied(why, format!("say once who you are: this server wants {}", self.wanted())));
        };
        let malformed =
            || denied(LoginFailure::Malformed, format!("the header Authorization is none of {}", self.wanted()));
        let text = value.to_str().map_err(|_| malformed())?;
        let (scheme, secret) = text.trim().split_once(' ').ok_or_else(malformed)?;
        let secret = secret.trim();
        match scheme.to_ascii_lowercase().as_str() {
            // InfluxDB's clients call it a token.
            "bearer" | "token" => self.token(secret, now).map(Some),
            "basic" => {
                let bytes = BASE64_STANDARD.decode(secret).map_err(|_| malformed())?;
                let text = String::from_utf8(bytes).map_err(|_| malformed())?;
                let (name, password) = text.split_once(':').ok_or_else(malformed)?;
                self.named(name, password, now, passwords).await.map(Some)
            }
            _ => Err(malformed()),
        }
    }

    fn token(&self, secret: &str, now: WallMs) -> Result<Grant, Denied> {
        let hash = digest(&SHA256, secret.as_bytes());
        let mut found = None;
        for token in &self.tokens {
            if bool::from(token.sha256.ct_eq(hash.as_ref())) {
                found = Some(token);
            }
        }
        let token = found.ok_or_else(|| denied(LoginFailure::Token, "this token is not known here"))?;
        if token.expires.is_some_and(|end| end <= now) {
            let message = format!("the token {:?} has expired; ask for a new one", token.grant.name);
            return Err(denied(LoginFailure::Expired, message));
        }
        Ok(token.grant.clone())
    }

    /// A user with a password, or a token in place of the password: browsers can send only these two fields.
    async fn named(&self, name: &str, password: &str, now: WallMs, passwords: &Passwords) -> Result<Grant, Denied> {
        match self.token(password, now) {
            Err(Denied { why: LoginFailure::Token, .. }) if !self.users.is_empty() => {
                self.user(name, password, passwords).await
            }
            of_token => of_token,
        }
    }

    async fn user(&self, name: &str, password: &str, passwords: &Passwords) -> Result<Grant, Denied> {
        // Bytes after these would be ignored.
        if password.len() > PASSWORD_BYTES_MAX || password.contains('\0') {
            let message = format!(
                "a password has {PASSWORD_BYTES_MAX} bytes at most, none of them 0: bcrypt looks at no more; choose a shorter one"
            );
            return Err(denied(LoginFailure::Password, message));
        }
        let user = self.users.iter().find(|user| user.grant.name == name);
        let is_right = passwords.check(name, password, user.map(|user| &*user.hash)).await;
        let busy = || denied(LoginFailure::Busy, "too many passwords are being checked; try again in a second");
        match (is_right.map_err(|_| busy())?, user) {
            (true, Some(user)) => Ok(user.grant.clone()),
            _ => Err(denied(LoginFailure::Password, "the user or the password is wrong")),
        }
    }
}
