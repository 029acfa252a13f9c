//! Groups of targets as files and addresses list them, in YAML or JSON.
//!
//! Limits: [`FILE_BYTES_MAX`].

use std::path::Path;

use crate::config::{FILE_BYTES_MAX, Group, Text, yaml};

/// The groups in `bytes`, each with its origin as the label `origin`.
pub(crate) fn groups(path: &Path, bytes: &[u8], origin: &str) -> Result<Vec<Group>, String> {
    if bytes.len() > FILE_BYTES_MAX {
        return Err(format!("{} bytes, above the limit of {FILE_BYTES_MAX}", bytes.len()));
    }
    let mut groups: Vec<Group> = yaml(path, bytes)?;
    for group in &mut groups {
        group.labels.insert(origin.to_owned(), Text(path.display().to_string()));
    }
    Ok(groups)
}
