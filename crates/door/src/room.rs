//! Memory that batches may take while they are in flight: counted before it is used, given back when it is dropped.
//!
//! Limits: [`UNFOLDED_KIB`] of what bodies unfold to, until the backend has replied.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::backend::Refusal;

/// 256 MiB of batches and their frames between a body and the backend's reply: two of the worst that a request may
/// unfold to.
pub const UNFOLDED_KIB: usize = 2 * (ogive_protocol::READ_BYTES_MAX >> 10);

/// Why there is no room.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is in use by others: retry soon.
    #[error("too many bytes of batches are in flight; send this one again in a second")]
    Busy,
    /// It exceeds the limit even alone: send less at once.
    #[error("the batch takes {found} bytes in memory, above the limit of {limit}; send less at once")]
    TooLarge {
        /// Bytes that it needs.
        found: usize,
        /// The limit in bytes.
        limit: usize,
    },
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            Error::Busy => Self::Busy,
            Error::TooLarge { .. } => Self::TooLarge(error.to_string()),
        }
    }
}

/// Kibibytes taken from a limit; released when dropped.
#[derive(Debug)]
pub struct Share {
    semaphore: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
    kib: u32,
}

impl Share {
    /// An empty share of `semaphore`, which has a permit for each kibibyte.
    #[must_use]
    pub fn new(semaphore: &Arc<Semaphore>) -> Self {
        Self { semaphore: semaphore.clone(), permit: None, kib: 0 }
    }

    /// Nothing yet of the same limit.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::new(&self.semaphore)
    }

    /// Releases what exceeds `bytes`.
    pub fn give_back(&mut self, bytes: usize) {
        let kib = kibibytes(bytes);
        if let (Some(permit), Some(rest)) = (&mut self.permit, self.kib.checked_sub(kib)) {
            drop(permit.split(rest as usize));
            self.kib = kib;
        }
    }

    /// Whether `bytes` would fit now.
    ///
    /// # Errors
    /// [`Error::Busy`] when they would not.
    pub fn has_room_for(&self, bytes: usize) -> Result<(), Error> {
        if bytes.div_ceil(1024) > self.semaphore.available_permits() { Err(Error::Busy) } else { Ok(()) }
    }

    /// Kibibytes that `bytes` need in addition to what is taken.
    #[must_use]
    pub fn missing_kib(&self, bytes: usize) -> u32 {
        kibibytes(bytes).saturating_sub(self.kib)
    }

    /// Adds a permit that was acquired elsewhere from the same limit.
    pub fn put(&mut self, permit: OwnedSemaphorePermit) {
        self.kib += u32::try_from(permit.num_permits()).unwrap_or(u32::MAX);
        match &mut self.permit {
            Some(held) => held.merge(permit),
            None => self.permit = Some(permit),
        }
    }

    /// Takes as much as `bytes` need in total.
    ///
    /// # Errors
    /// [`Error::Busy`] when that is not available.
    pub fn cover(&mut self, bytes: usize) -> Result<(), Error> {
        let more = self.missing_kib(bytes);
        if more > 0 {
            self.put(self.semaphore.clone().try_acquire_many_owned(more).map_err(|_| Error::Busy)?);
        }
        Ok(())
    }
}

fn kibibytes(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}

/// The memory of a decompressed body, counted from before it is read until the backend has replied.
#[derive(Debug)]
pub struct Unfolded(Share);

impl Unfolded {
    /// Reserves the most that a body of `body` bytes may decompress to.
    ///
    /// # Errors
    /// [`Error::Busy`] when that is not available now.
    pub fn new(semaphore: &Arc<Semaphore>, body: usize) -> Result<Self, Error> {
        let mut share = Share::new(semaphore);
        share.cover(ogive_protocol::read_bytes_max(body))?;
        Ok(Self(share))
    }

    /// Sets its actual size and releases the rest. A native batch may exceed what was reserved, or the limit.
    ///
    /// # Errors
    /// [`Error::TooLarge`] when it exceeds the limit, [`Error::Busy`] when it is not available now.
    pub fn settle(&mut self, bytes: usize) -> Result<(), Error> {
        const LIMIT: usize = UNFOLDED_KIB << 10;
        if bytes > LIMIT {
            return Err(Error::TooLarge { found: bytes, limit: LIMIT });
        }
        self.0.cover(bytes)?;
        self.0.give_back(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_needed_is_given_back() {
        let semaphore = Arc::new(Semaphore::new(100));
        let mut share = Unfolded(Share::new(&semaphore));
        share.settle(100 << 10).unwrap();
        assert_eq!(semaphore.available_permits(), 0);
        share.settle(1).unwrap();
        assert_eq!(semaphore.available_permits(), 99);
        let mut other = Unfolded(Share::new(&semaphore));
        let error = other.settle(100 << 10).unwrap_err();
        assert_eq!((error, semaphore.available_permits()), (Error::Busy, 99));
        other.settle(99 << 10).unwrap();
        drop((share, other));
        assert_eq!(semaphore.available_permits(), 100);
    }

    /// A batch of 32 MiB may unfold to more than there is room for at all: to come back with it would not help.
    #[test]
    fn what_never_fits_is_too_large() {
        let mut room = Unfolded(Share::new(&Arc::new(Semaphore::new(UNFOLDED_KIB))));
        let most = UNFOLDED_KIB << 10;
        assert!(matches!(room.settle(most + 1).unwrap_err(), Error::TooLarge { .. }));
        room.settle(most).unwrap();
    }
}
