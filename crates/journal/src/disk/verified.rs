//! Reads that verify a checksum: the only way in which stored bytes are trusted, and in which one copy heals another.
//!
//! Invariants: bytes are returned only after the caller's check accepted them; a copy is overwritten only with accepted
//! bytes, and only where its own were refused.
//! Failure: when no copy is good, the error is the caller's verdict on the first readable one; a copy that cannot be
//! healed now stays as it is and is found again.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::file::DiskFile;
use crate::{Error, Finding};

/// Bytes that were accepted, and what the check made of them.
#[derive(Debug)]
pub struct Verified<T> {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// What the check returned.
    pub value: T,
}

/// A copy whose bytes were refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadCopy {
    /// Its file.
    pub path: PathBuf,
    /// Why its bytes were refused.
    pub problem: String,
    /// Whether it holds the good bytes of another copy now.
    pub healed: bool,
}

impl Finding {
    /// What a look at a piece in all copies found.
    #[must_use]
    pub fn from_bad_copy(bad: BadCopy, section: &str, place: &Range<u64>) -> Self {
        let BadCopy { path, problem, healed } = bad;
        Self { path, section: section.into(), offset: place.start, end: place.end, problem, healed }
    }
}

/// What looking at every copy of some bytes found.
#[derive(Debug)]
pub struct Piece {
    /// The bytes of the first good copy; `None` when there is none.
    pub bytes: Option<Vec<u8>>,
    /// The copies that were refused.
    pub bad: Vec<BadCopy>,
}

/// The bytes of `place`, from the first copy that `check` accepts; the copies before it are healed with them. `check`
/// is given the path of the copy too, for its error.
///
/// # Errors
/// The check's, or the disk's: of the first copy that could be read, if one could.
pub fn read_verified<T, E: From<Error>>(
    file: &dyn DiskFile,
    place: Range<u64>,
    check: impl Fn(&[u8], &Path) -> Result<T, E>,
) -> Result<Verified<T>, E> {
    let (mut refused, mut first) = (Vec::new(), None::<(bool, E)>);
    for copy in 0..file.copies() {
        let outcome = match read_copy(file, copy, &place) {
            Ok(bytes) => {
                check(&bytes, &file.copy_path(copy)).map(|value| (bytes, value)).map_err(|error| (true, error))
            }
            Err(Error::NoCopy { .. }) => continue,
            Err(error) => Err((matches!(error, Error::Truncated { .. }), error.into())),
        };
        match outcome {
            Ok((bytes, value)) => {
                assert_eq!(bytes.len() as u64, place.end - place.start, "a copy is healed with the whole of {place:?}");
                for bad in refused {
                    // Reported and counted by the mirror; what cannot be healed is met again.
                    let _ = file.heal(bad, place.clone(), &bytes);
                }
                return Ok(Verified { bytes, value });
            }
            Err((was_read, error)) => {
                refused.push(copy);
                if first.as_ref().is_none_or(|(read, _)| !read && was_read) {
                    first = Some((was_read, error));
                }
            }
        }
    }
    Err(first.map_or_else(|| Error::NoCopy { path: file.path().to_owned(), copy: 0 }.into(), |(_, error)| error))
}

/// As [`read_verified`], of bytes that stand in the file twice: when no copy of `place` is good, the bytes at `twin`
/// are taken, and `place` is healed with them.
///
/// # Errors
/// Those of `place`, when neither is good.
pub fn read_twinned<T, E: From<Error>>(
    file: &dyn DiskFile,
    place: Range<u64>,
    twin: Option<u64>,
    check: impl Fn(&[u8], &Path) -> Result<T, E>,
) -> Result<Verified<T>, E> {
    read_verified(file, place.clone(), &check).or_else(|error| {
        let Some(twin) = twin else { return Err(error) };
        let good = read_verified(file, twin..twin + (place.end - place.start), &check).map_err(|_| error)?;
        // Reported and counted by the mirror; what cannot be healed is met again.
        let _ = heal_from(file, &place, &good.bytes, check);
        Ok(good)
    })
}

/// Overwrites `place` with `bytes`, which are good, in every copy that `check` refuses; returns whether all are good
/// now.
pub fn heal_from<T, E: From<Error>>(
    file: &dyn DiskFile,
    place: &Range<u64>,
    bytes: &[u8],
    check: impl Fn(&[u8], &Path) -> Result<T, E>,
) -> bool {
    assert_eq!(bytes.len() as u64, place.end - place.start, "copies are healed with the whole of {place:?}");
    (0..file.copies()).all(|copy| match read_copy(file, copy, place) {
        Ok(found) if check(&found, &file.copy_path(copy)).is_ok() => true,
        Err(Error::NoCopy { .. }) => true,
        _ => file.heal(copy, place.clone(), bytes).is_ok(),
    })
}

/// Looks at the bytes of `place` in every copy, and heals those that `check` refuses from one that it accepts.
pub fn scrub_piece<T, E: From<Error> + std::fmt::Display>(
    file: &dyn DiskFile,
    place: Range<u64>,
    check: impl Fn(&[u8], &Path) -> Result<T, E>,
) -> Piece {
    let (mut good, mut refused) = (None, Vec::new());
    for copy in 0..file.copies() {
        let path = file.copy_path(copy);
        match read_copy(file, copy, &place).map_err(E::from).and_then(|bytes| check(&bytes, &path).map(|_| bytes)) {
            Ok(bytes) => good = good.or(Some(bytes)),
            // A member that is out has no copy to look at.
            Err(_) if file.copy_length(copy).is_err_and(|error| matches!(error, Error::NoCopy { .. })) => {}
            Err(error) => refused.push((copy, path, error.to_string())),
        }
    }
    let heal = |copy| good.as_ref().is_some_and(|bytes: &Vec<u8>| file.heal(copy, place.clone(), bytes).is_ok());
    assert!(refused.len() + usize::from(good.is_some()) <= file.copies(), "each copy is looked at once");
    let bad = refused.into_iter().map(|(copy, path, problem)| BadCopy { path, problem, healed: heal(copy) });
    Piece { bad: bad.collect(), bytes: good }
}

fn read_copy(file: &dyn DiskFile, copy: usize, place: &Range<u64>) -> Result<Vec<u8>, Error> {
    assert!(place.start <= place.end, "{place:?} has an end");
    let count = usize::try_from(place.end - place.start).expect("a piece fits memory");
    let mut bytes = vec![0; count];
    let read = file.read_copy_at(copy, place.start, &mut bytes)?;
    assert!(read <= count, "{read} bytes were read into {count}");
    if read < count {
        return Err(Error::Truncated { path: file.copy_path(copy), offset: place.start, end: place.end });
    }
    Ok(bytes)
}
