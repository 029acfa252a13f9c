//! The machine's cycle counter: which one to trust, and how to read it.
//!
//! All `unsafe` of reading is here. *Invariants*: a counter instruction runs only after [`detect`] (or the caller's
//! knowledge of the same facts) has said that it exists and is not made to trap.
#![allow(unsafe_code)]

/// The source of a clock's ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Source {
    /// Not looked at yet.
    Undetected = 0,
    /// Invariant TSC; an ordered read is `lfence; rdtsc`, because LFENCE waits for all earlier instructions here.
    TscLfence = 1,
    /// Invariant TSC; an ordered read is `rdtscp`.
    TscRdtscp = 2,
    /// ARM's virtual counter; an ordered read is `isb; mrs cntvct_el0`.
    Cntvct = 3,
    /// The operating system's clock: no counter here can be trusted.
    Os = 4,
    /// A clock that a test or a host program moves by hand.
    Manual = 5,
}

impl Source {
    /// The source that readers try first: its ordered read is [`read_fenced`].
    pub(crate) const FENCED: u8 = if cfg!(target_arch = "aarch64") { Self::Cntvct } else { Self::TscLfence } as u8;

    /// True when a stored byte is a counter of the machine; one subtraction and one comparison.
    #[inline(always)]
    pub(crate) const fn is_counter_byte(byte: u8) -> bool {
        byte.wrapping_sub(1) < 3
    }

    /// The value of a stored byte; unknown bytes are `Os`, which is always right.
    pub(crate) const fn from_u8(byte: u8) -> Self {
        match byte {
            0 => Self::Undetected,
            1 => Self::TscLfence,
            2 => Self::TscRdtscp,
            3 => Self::Cntvct,
            5 => Self::Manual,
            _ => Self::Os,
        }
    }

    /// True when a counter of the machine is read.
    #[must_use]
    pub const fn is_counter(self) -> bool {
        Self::is_counter_byte(self as u8)
    }

    /// Its name in `ogive clock` and in the status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Undetected => "undetected",
            Self::TscLfence => "tsc-lfence",
            Self::TscRdtscp => "tsc-rdtscp",
            Self::Cntvct => "cntvct",
            Self::Os => "os",
            Self::Manual => "manual",
        }
    }
}

/// Finds the counter that this process may use: it exists, runs at one rate in all power states, and does not trap.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) fn detect() -> Source {
    use std::arch::x86_64::__cpuid;
    if crate::os::counter_traps() {
        return Source::Os;
    }
    // CPUID exists on every x86-64; each leaf below is asked for only when the maximum says so.
    let extended_max = __cpuid(0x8000_0000).eax;
    if extended_max < 0x8000_0007 || __cpuid(0x8000_0007).edx & (1 << 8) == 0 {
        return Source::Os;
    }
    let vendor = __cpuid(0);
    let intel = vendor.ebx == u32::from_le_bytes(*b"Genu") && vendor.ecx == u32::from_le_bytes(*b"ntel");
    // AMD APM volume 3, CPUID 8000_0021 EAX[2]: "LFENCE is always dispatch serializing". Intel's LFENCE always is.
    let lfence_serialises = intel || (extended_max >= 0x8000_0021 && __cpuid(0x8000_0021).eax & (1 << 2) != 0);
    let has_rdtscp = __cpuid(0x8000_0001).edx & (1 << 27) != 0;
    match (lfence_serialises, has_rdtscp) {
        (true, _) => Source::TscLfence,
        (false, true) => Source::TscRdtscp,
        (false, false) => Source::Os,
    }
}

/// Finds the counter that this process may use: the architecture guarantees a constant, synchronous virtual counter.
#[cfg(all(target_arch = "aarch64", not(miri)))]
pub(crate) fn detect() -> Source {
    Source::Cntvct
}

/// Finds the counter that this process may use; on this architecture there is none.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub(crate) fn detect() -> Source {
    Source::Os
}

/// The counter now, not ordered with the instructions around it. 0 where the architecture has none.
#[inline(always)]
pub(crate) fn read() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // SAFETY: RDTSC exists on every x86-64; `detect` has found that it does not trap here.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        let ticks: u64;
        // SAFETY: reading CNTVCT_EL0 from user space is enabled by Linux on arm64 and touches no memory.
        unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
        ticks
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    {
        0
    }
}

/// The counter after every earlier instruction is done; for [`Source::TscLfence`] and [`Source::Cntvct`].
#[inline(always)]
pub(crate) fn read_fenced() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // SAFETY: SSE2, and with it LFENCE, is part of x86-64; RDTSC as in `read`.
        unsafe {
            std::arch::x86_64::_mm_lfence();
            std::arch::x86_64::_rdtsc()
        }
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        let ticks: u64;
        // No `nomem`: earlier loads and stores must stay before the barrier, in the compiler too.
        // SAFETY: ISB and reading CNTVCT_EL0 are allowed in user space and change no register but the output.
        unsafe { std::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nostack, preserves_flags)) };
        ticks
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    {
        0
    }
}

/// The counter after every earlier load is done, by RDTSCP; for [`Source::TscRdtscp`].
#[inline(always)]
pub(crate) fn read_rdtscp() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let mut processor = 0;
        // SAFETY: `detect` gives `TscRdtscp` only when CPUID 8000_0001 EDX[27] says that RDTSCP exists.
        unsafe { std::arch::x86_64::__rdtscp(&raw mut processor) }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        read_fenced()
    }
}

/// Nanoseconds a tick before anything is calibrated: one measurement of 20 us, good to about 1 %.
pub(crate) fn nominal_ns_per_tick() -> f64 {
    let start_ns = crate::os::monotonic_ns();
    let start = read_fenced();
    let mut ns = 0;
    while ns < 20_000 {
        ns = crate::os::monotonic_ns() - start_ns;
    }
    let ticks = read_fenced().saturating_sub(start);
    if ticks == 0 { 1.0 } else { ns as f64 / ticks as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_source_reads_back() {
        for source in
            [Source::Undetected, Source::TscLfence, Source::TscRdtscp, Source::Cntvct, Source::Os, Source::Manual]
        {
            assert_eq!(Source::from_u8(source as u8), source);
            let counter = matches!(source, Source::TscLfence | Source::TscRdtscp | Source::Cntvct);
            assert_eq!(source.is_counter(), counter);
        }
        assert_eq!(Source::from_u8(200), Source::Os, "an unknown byte is the safe source");
    }

    #[test]
    fn a_detected_counter_advances() {
        if detect().is_counter() {
            let first = read_fenced();
            std::thread::sleep(std::time::Duration::from_millis(1));
            assert!(read_fenced() > first);
            assert!(read() > first);
        }
    }
}
