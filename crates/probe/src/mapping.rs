//! Clock pages as files that are mapped into memory.
//!
//! *Invariants*: a file has its name only when it is whole; it is never truncated; a page that was made stays mapped
//! for the life of the process. *Failure*: what the kernel refuses is an `io::Error`, and a file that was begun is
//! removed.
#![allow(unsafe_code)]

use crate::clock::Page;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// One page of memory.
const FILE_BYTES: usize = 4_096;
const _: () = assert!(size_of::<Page>() <= FILE_BYTES && align_of::<Page>() <= FILE_BYTES);

/// A descriptor that is closed when dropped.
struct Descriptor(libc::c_int);

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the descriptor came from `open` and is closed only here.
        unsafe { libc::close(self.0) };
    }
}

fn name_of(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn open(path: &Path, flags: libc::c_int) -> io::Result<Descriptor> {
    let name = name_of(path)?;
    // SAFETY: `name` is NUL-terminated and lives through the call.
    check(unsafe { libc::open(name.as_ptr(), flags | libc::O_CLOEXEC, 0o600 as libc::c_uint) }).map(Descriptor)
}

fn map(descriptor: &Descriptor, access: libc::c_int) -> io::Result<*mut Page> {
    // SAFETY: a new mapping, placed by the kernel, of a file that the caller has found to be FILE_BYTES long.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), FILE_BYTES, access, libc::MAP_SHARED, descriptor.0, 0) };
    if address == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(address.cast()) }
}

/// Creates the file at `path`, lets `fill` write its page, and then names it; the page stays mapped forever.
pub(crate) fn create(path: &Path, fill: impl FnOnce(&Page)) -> io::Result<&'static Page> {
    /// Makes names of files that are begun differ within a process.
    static BEGUN: AtomicU64 = AtomicU64::new(0);
    let mut begun = path.as_os_str().to_owned();
    // ORDERING: Relaxed; only to be different.
    begun.push(format!(".{}.{}", std::process::id(), BEGUN.fetch_add(1, Ordering::Relaxed)));
    let begun = Path::new(&begun);
    let descriptor = open(begun, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW)?;
    let made = fill_and_name(&descriptor, begun, path, fill);
    if made.is_err() {
        let name = name_of(begun)?;
        // SAFETY: `name` is NUL-terminated and lives through the call.
        unsafe { libc::unlink(name.as_ptr()) };
    }
    made
}

fn fill_and_name(
    descriptor: &Descriptor,
    begun: &Path,
    path: &Path,
    fill: impl FnOnce(&Page),
) -> io::Result<&'static Page> {
    // SAFETY: the descriptor is ours and open.
    check(unsafe { libc::ftruncate(descriptor.0, FILE_BYTES as libc::off_t) })?;
    let address = map(descriptor, libc::PROT_READ | libc::PROT_WRITE)?;
    // SAFETY: the mapping is FILE_BYTES of zeros, aligned to a page, never unmapped, and `Page` is made of atomics, for
    // which every combination of bits is valid.
    let page: &'static Page = unsafe { &*address };
    fill(page);
    // SAFETY: as above.
    check(unsafe { libc::fchmod(descriptor.0, 0o644) })?;
    let (from, to) = (name_of(begun)?, name_of(path)?);
    // SAFETY: both names are NUL-terminated and live through the call.
    check(unsafe { libc::rename(from.as_ptr(), to.as_ptr()) })?;
    Ok(page)
}

/// The page behind a pointer that came from [`create`], or `None` for null.
pub(crate) fn kept(pointer: *mut Page) -> Option<&'static Page> {
    // SAFETY: pointers that are kept come from references to pages that are mapped for ever; see `create`.
    unsafe { pointer.as_ref() }
}

/// A page that is mapped for reading.
#[derive(Debug)]
pub(crate) struct Mapping {
    address: *const Page,
}

// SAFETY: the mapping is of atomics that are only loaded, and nothing in it belongs to a thread.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the file at `path` read-only.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let descriptor = open(path, libc::O_RDONLY)?;
        // SAFETY: all zeros is a valid `stat`, which the call overwrites.
        let mut status: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: `status` is valid for the call, the descriptor is ours and open.
        check(unsafe { libc::fstat(descriptor.0, &raw mut status) })?;
        if status.st_size < FILE_BYTES as libc::off_t {
            return Err(io::Error::other(format!("{} bytes are too few for a clock page", status.st_size)));
        }
        Ok(Self { address: map(&descriptor, libc::PROT_READ)? })
    }

    /// The page. Its atomics are to be loaded relaxed, because the memory is read-only.
    #[inline(always)]
    pub(crate) fn page(&self) -> &Page {
        // SAFETY: mapped until drop, aligned to a page, FILE_BYTES long; `Page` is made of atomics, so that what
        // another process writes meanwhile is no data race, and every combination of bits is valid.
        unsafe { &*self.address }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping came from `map` and is unmapped only here.
        unsafe { libc::munmap(self.address.cast_mut().cast(), FILE_BYTES) };
    }
}
