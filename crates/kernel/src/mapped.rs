//! The memory of an array in the kernel, read where it is: no system call, and no copy that nobody asked for.
//!
//! Invariants: read only, and by words of 8 bytes at a time; what belongs together is for the reader to find out, as
//! programs in the kernel write meanwhile.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// An array that was declared with `MMAPABLE`, mapped while this lives.
#[derive(Debug)]
pub(crate) struct MappedArray {
    at: NonNull<AtomicU64>,
    words: usize,
}

impl MappedArray {
    /// The first `words` of an array.
    ///
    /// # Errors
    /// When the kernel does not map it.
    pub(crate) fn from_map(map: BorrowedFd<'_>, words: usize) -> io::Result<Self> {
        // SAFETY: no address is asked for, so nothing that is in use is replaced; the descriptor is borrowed and so
        // open.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), words * 8, libc::PROT_READ, libc::MAP_SHARED, map.as_raw_fd(), 0)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Self { at, words })
    }

    /// Its words, which change while they are looked at.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has so many words, is page-aligned, and lives until `self` is dropped. Others write to
        // it, which is what an `AtomicU64` may meet; nobody writes through this reference, as the pages are read only
        // and the callers only load.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.words) }
    }
}

impl Drop for MappedArray {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped, and no reference to it outlives `self`.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.words * 8) };
    }
}
