//! The operating system's side of threads: barriers across them, the CPUs they run on, the precision of their sleep.
//!
//! With `os`, all `unsafe` calls into libc are here, each behind a safe function. *Failure*: a call that the kernel
//! refuses gives `false` or nothing; the caller then does without.
#![allow(unsafe_code)]

/// Nanoseconds of CPU that the calling thread has used.
#[must_use]
pub fn cpu_ns() -> u64 {
    crate::os::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) as u64
}

// membarrier(2) commands, from the kernel's uapi header <linux/membarrier.h>; libc has no names for all of them.
#[cfg(target_os = "linux")]
const MEMBARRIER_CMD_PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
#[cfg(target_os = "linux")]
const MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

/// Whether [`process_barrier`] works in this process; determined once.
pub(crate) fn has_process_barrier() -> bool {
    static REGISTERED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *REGISTERED.get_or_init(register_process_barrier)
}

/// Registers for [`process_barrier`]; true when it will work in this process from now on (Linux 4.14 and later).
fn register_process_barrier() -> bool {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    {
        false
    }
}

/// Makes every running thread of this process execute a full memory barrier before this returns.
///
/// True when done; false when the kernel refused, which it does not after [`has_process_barrier`] returned true.
pub(crate) fn process_barrier() -> bool {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    {
        false
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: membarrier takes three integers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// The CPUs that the calling thread may run on, ascending; empty where the system does not report them.
#[must_use]
pub fn allowed_cpus() -> Vec<usize> {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: cpu_set_t is a plain bit array, for which all zeros is the empty set.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: `set` is valid for its own size; 0 means the calling thread.
        let result = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
        if result != 0 {
            return Vec::new();
        }
        // SAFETY: each number is below CPU_SETSIZE, the number of bits in the set.
        (0..libc::CPU_SETSIZE as usize).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect()
    }
    #[cfg(not(target_os = "linux"))]
    {
        Vec::new()
    }
}

/// Binds the calling thread to one CPU; false when the system refuses.
#[must_use]
pub fn pin_to_cpu(cpu: usize) -> bool {
    #[cfg(target_os = "linux")]
    {
        if cpu >= libc::CPU_SETSIZE as usize {
            return false;
        }
        // SAFETY: as in `allowed_cpus`.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: `cpu` is below CPU_SETSIZE, checked above.
        unsafe { libc::CPU_SET(cpu, &mut set) };
        // SAFETY: `set` is valid for its own size; 0 means the calling thread.
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) == 0 }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = cpu;
        false
    }
}

/// Requests that the kernel wake the calling thread's timers at once instead of up to 50 us late.
pub(crate) fn sharpen_timers() -> bool {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: PR_SET_TIMERSLACK takes one integer, nanoseconds, and touches no memory of ours.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) == 0 }
    }
    #[cfg(not(target_os = "linux"))]
    {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn a_thread_is_pinned_to_each_of_its_cpus() {
        std::thread::spawn(|| {
            let cpus = allowed_cpus();
            assert!(!cpus.is_empty());
            for cpu in cpus {
                assert!(pin_to_cpu(cpu));
                assert_eq!(allowed_cpus(), [cpu]);
            }
            assert!(!pin_to_cpu(usize::MAX));
        })
        .join()
        .expect("the pinned thread ends well");
    }
}
