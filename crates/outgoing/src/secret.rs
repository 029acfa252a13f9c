//! Words that nobody may see.

use std::path::PathBuf;

use super::Files;

/// Words of a configuration, or those of another file, which is read for each use, so that a changed password counts at
/// once.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// In the configuration.
    Here(String),
    /// In this file.
    In(PathBuf),
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Here(_) => out.write_str("(secret)"),
            Self::In(path) => write!(out, "(secret in {})", path.display()),
        }
    }
}

impl Secret {
    /// The words, without the white space around those of a file, which is not empty.
    pub async fn words(&self, files: Files) -> Result<String, String> {
        match self {
            Self::Here(words) => Ok(words.clone()),
            Self::In(path) => {
                let text = String::from_utf8(files.read(path).await?);
                let text = text.map_err(|_| "a file with a secret is not UTF-8")?;
                let words = text.trim();
                // One that is being written, or was cut: an empty login would be sent in its place.
                if words.is_empty() {
                    return Err(format!("{}: the file is empty, and a secret should be in it", path.display()));
                }
                Ok(words.to_owned())
            }
        }
    }
}
