//! How often the allocator is asked, by thread: with the feature `count-allocations`, which puts a counter in front of
//! the system's allocator; nothing without it. A counter in every build would cost `serve` a thread-local look for each
//! allocation.

/// Allocations that were requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Allocated {
    /// Their number; a growing reallocation counts again.
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

impl Allocated {
    /// The sum, if both are known.
    pub(crate) fn with(this: Option<Self>, other: Option<Self>) -> Option<Self> {
        let sum =
            |(this, other): (Self, Self)| Self { count: this.count + other.count, bytes: this.bytes + other.bytes };
        this.zip(other).map(sum)
    }
}

/// Runs `work`, and returns what this thread allocated meanwhile, if that is counted.
#[cfg(feature = "count-allocations")]
pub(crate) fn counted<T>(work: impl FnOnce() -> T) -> (T, Option<Allocated>) {
    let mut out = None;
    let info = allocation_counter::measure(|| out = Some(work()));
    (out.expect("the work was done"), Some(Allocated { count: info.count_total, bytes: info.bytes_total }))
}

/// Does `work`.
#[cfg(not(feature = "count-allocations"))]
pub(crate) fn counted<T>(work: impl FnOnce() -> T) -> (T, Option<Allocated>) {
    (work(), None)
}

/// Sizes of the first processor's data caches in bytes, the nearest first; empty where the system does not report them.
pub(crate) fn caches() -> Vec<(String, u64)> {
    let mut out = Vec::new();
    for index in 0..8 {
        let read = |file: &str| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{file}");
            std::fs::read_to_string(path).map(|text| text.trim().to_owned()).ok()
        };
        let (Some(level), Some(kind), Some(size)) = (read("level"), read("type"), read("size")) else { break };
        if kind != "Instruction"
            && let Some(bytes) = bytes_of(&size)
        {
            out.push((format!("L{level}"), bytes));
        }
    }
    out
}

/// `48K`, as the kernel writes it.
fn bytes_of(size: &str) -> Option<u64> {
    let kibibytes = size.strip_suffix('K')?;
    kibibytes.parse::<u64>().ok()?.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_allocates_is_counted_where_there_is_a_counter() {
        let (held, allocated) = counted(|| (vec![0_u8; 1_000], Box::new(7_u64)));
        assert_eq!(held.0.len(), 1_000);
        let expected = cfg!(feature = "count-allocations").then_some(Allocated { count: 2, bytes: 1_008 });
        assert_eq!(allocated, expected);
        assert_eq!(Allocated::with(allocated, None), None);
        let one = Some(Allocated { count: 1, bytes: 10 });
        assert_eq!(Allocated::with(one, one), Some(Allocated { count: 2, bytes: 20 }));
    }

    #[test]
    fn sizes_of_caches_are_read_as_the_kernel_writes_them() {
        assert_eq!(
            (bytes_of("48K"), bytes_of("2048K"), bytes_of("2M"), bytes_of("")),
            (Some(49_152), Some(2 << 20), None, None)
        );
        assert!(caches().iter().all(|(level, bytes)| level.starts_with('L') && *bytes >= 1_024), "{:?}", caches());
    }
}
