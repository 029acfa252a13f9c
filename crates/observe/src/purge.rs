//! Purging of freed pages: the one call to the allocator's control that no safe wrapper has.

/// The number that stands for all arenas, from the allocator's header (`MALLCTL_ARENAS_ALL`).
const PURGE: &std::ffi::CStr = c"arena.4096.purge";

/// Gives the freed pages of all arenas back to the system. Does nothing where another allocator is in use.
pub(crate) fn all_arenas() {
    use std::ptr::null_mut;
    // SAFETY: the name ends with a zero byte and lives as long as the program; this entry is neither read nor written,
    // so that the three other pointers must be null and the length zero, as they are; the call may be made from any
    // thread.
    let failed = unsafe { tikv_jemalloc_sys::mallctl(PURGE.as_ptr(), null_mut(), null_mut(), null_mut(), 0) };
    debug_assert_eq!(failed, 0, "the allocator has this entry");
}
