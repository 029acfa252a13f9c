//! Every version of every group's configuration, signed, one file each.
//!
//! Invariants: a version is durable in every directory before it is visible; numbers only grow; a version that is there
//! is never changed. The newest version that can be read and whose signature is right is the one in force.
//! Limits: [`GROUPS_MAX`], [`VERSIONS_MAX`].

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::check_name;
use crate::error::Error;
use crate::package::{Contents, Package, Signed, SigningKey, WHY_BYTES_MAX};
use crate::record::Records;

/// 1,000 groups: brokers of a group are alike.
const GROUPS_MAX: usize = 1_000;
/// 10,000 versions of a group: one a day for 27 years.
const VERSIONS_MAX: usize = 10_000;
const DIRECTORY: &str = "groups";

/// A version in force.
#[derive(Clone, Debug)]
pub(crate) struct InForce {
    pub(crate) package: Arc<Package>,
    pub(crate) signed: Arc<Signed>,
    /// All that there are.
    pub(crate) versions: usize,
}

/// See the module.
pub(crate) struct GroupStore {
    records: Records,
    groups: BTreeMap<String, InForce>,
    /// Files that could not be read, a sentence each.
    pub(crate) damaged: Vec<String>,
}

/// A new version.
pub(crate) struct NewVersion<'a> {
    pub(crate) group: &'a str,
    pub(crate) contents: Contents,
    pub(crate) by: &'a str,
    pub(crate) why: &'a str,
    /// Higher than these.
    pub(crate) above: u64,
    pub(crate) now_ms: i64,
}

fn file(group: &str, version: u64) -> String {
    format!("{DIRECTORY}/{group}/{version:010}.json")
}

impl GroupStore {
    /// Reads the newest good version of each group.
    pub(crate) fn open(records: Records, key: Option<&SigningKey>) -> Result<Self, Error> {
        let mut this = Self { records, groups: BTreeMap::new(), damaged: Vec::new() };
        let Some(key) = key else { return Ok(this) };
        for group in this.records.list(DIRECTORY)? {
            let versions = this.versions(&group)?;
            for version in versions.iter().rev() {
                match this.read(&group, *version, key) {
                    Ok((package, signed)) => {
                        let (package, signed) = (Arc::new(package), Arc::new(signed));
                        this.groups.insert(group, InForce { package, signed, versions: versions.len() });
                        break;
                    }
                    Err(error) => {
                        tracing::error!("group {group}, version {version}: {error}; the version before it is in force");
                        this.damaged.push(format!("group {group}, version {version}: {error}"));
                    }
                }
            }
        }
        Ok(this)
    }

    /// The version of a group in force.
    pub(crate) fn in_force(&self, group: &str) -> Option<&InForce> {
        self.groups.get(group)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&String, &InForce)> {
        self.groups.iter()
    }

    /// The versions of a group that there are, the oldest first.
    pub(crate) fn versions(&self, group: &str) -> Result<Vec<u64>, Error> {
        let names = self.records.list(&format!("{DIRECTORY}/{group}"))?;
        Ok(names.iter().filter_map(|name| name.strip_suffix(".json")?.parse().ok()).collect())
    }

    /// A version of a group.
    pub(crate) fn read(&self, group: &str, version: u64, key: &SigningKey) -> Result<(Package, Signed), Error> {
        let unknown = || Error::Unknown(format!("the group {group:?} has no version {version}"));
        let signed: Signed = self.records.read(&file(group, version))?.ok_or_else(unknown)?;
        let package = signed.verify(&key.public()).map_err(Error::Corrupt)?;
        if package.group != group || package.version != version {
            return Err(Error::Corrupt(format!("the file is version {} of {}", package.version, package.group)));
        }
        Ok((package, signed))
    }

    /// Adds a version. It is in force when this returns.
    pub(crate) fn add(&mut self, new: NewVersion<'_>, key: &SigningKey) -> Result<Arc<Package>, Error> {
        let NewVersion { group, contents, by, why, above, now_ms } = new;
        check_name(group).map_err(Error::Wrong)?;
        contents.check_size().map_err(Error::Wrong)?;
        if why.len() > WHY_BYTES_MAX {
            return Err(Error::Wrong(format!("the reason has more than {WHY_BYTES_MAX} bytes")));
        }
        if !self.groups.contains_key(group) && self.groups.len() >= GROUPS_MAX {
            return Err(Error::Limit(format!("there are {GROUPS_MAX} groups, and no more are taken")));
        }
        let versions = self.versions(group)?;
        if versions.len() >= VERSIONS_MAX {
            return Err(Error::Limit(format!("the group {group:?} has {VERSIONS_MAX} versions; give it a new name")));
        }
        let version = versions.last().copied().unwrap_or(0).max(above) + 1;
        let package = Package {
            group: group.to_owned(),
            version,
            time_ms: now_ms,
            by: by.to_owned(),
            why: why.to_owned(),
            contents,
        };
        let signed = key.sign(&package).map_err(Error::Wrong)?;
        self.records.write(&file(group, version), &signed)?;
        let package = Arc::new(package);
        let in_force = InForce { package: package.clone(), signed: Arc::new(signed), versions: versions.len() + 1 };
        self.groups.insert(group.to_owned(), in_force);
        Ok(package)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ogive_journal::{Disk, SimulatedDisk};

    use super::*;
    use crate::testing;

    fn new(toml: &str, above: u64) -> NewVersion<'_> {
        let contents = Contents { toml: toml.into(), scrape: None };
        NewVersion { group: "edge", contents, by: "amy", why: "because", above, now_ms: 5 }
    }

    #[test]
    fn versions_stay_and_their_numbers_only_grow() {
        let disk = Arc::new(SimulatedDisk::new(1));
        let key = SigningKey::parse(&SigningKey::generate().unwrap()).unwrap();
        let open = || GroupStore::open(testing::records(&disk), Some(&key)).unwrap();
        let mut store = open();
        for (toml, above, version) in [("a", 0, 1), ("b", 0, 2), ("c", 7, 8)] {
            assert_eq!(store.add(new(toml, above), &key).unwrap().version, version);
        }
        let mut store = open();
        assert_eq!(store.in_force("edge").unwrap().package.contents.toml, "c");
        assert_eq!(store.versions("edge").unwrap(), [1, 2, 8]);
        assert_eq!(store.read("edge", 2, &key).unwrap().0.contents.toml, "b");
        assert!(matches!(store.read("edge", 3, &key), Err(Error::Unknown(_))));
        assert_eq!(store.add(new("d", 0), &key).unwrap().version, 9);
        // The newest is damaged, in every directory.
        let path = Path::new("/one/fleet/groups/edge/0000000009.json");
        let mut bytes = disk.read(path).unwrap();
        bytes[90] ^= 1;
        disk.put(path, bytes);
        let mut store = open();
        assert_eq!(store.in_force("edge").unwrap().package.version, 8);
        assert_eq!(store.damaged.len(), 1, "{:?}", store.damaged);
        assert_eq!(store.add(new("e", 0), &key).unwrap().version, 10);
        // Somebody wrote one that the key has not signed.
        let other = SigningKey::parse(&SigningKey::generate().unwrap()).unwrap();
        GroupStore::open(testing::records(&disk), Some(&other)).unwrap().add(new("evil", 0), &other).unwrap();
        assert_eq!(open().in_force("edge").unwrap().package.version, 10);
    }

    #[test]
    fn what_is_not_taken_says_why() {
        let disk = Arc::new(SimulatedDisk::new(1));
        let key = SigningKey::parse(&SigningKey::generate().unwrap()).unwrap();
        let mut store = GroupStore::open(testing::records(&disk), Some(&key)).unwrap();
        let long = "x".repeat(WHY_BYTES_MAX + 1);
        let mut wrong = |new: NewVersion<'_>, word: &str| {
            let error = store.add(new, &key).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        };
        wrong(NewVersion { group: "a/b", ..new("", 0) }, "no name");
        wrong(NewVersion { why: &long, ..new("", 0) }, "the reason has more than");
        let contents = Contents { toml: "x".repeat(crate::CONTENTS_BYTES_MAX + 1), scrape: None };
        wrong(NewVersion { contents, ..new("", 0) }, "divide the group");
    }
}
