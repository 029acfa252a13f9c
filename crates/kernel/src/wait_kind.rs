//! What a thread waits for within futex, derived from the function names of its stack.
//!
//! The kernel sees only an address: idle threads of a pool wait there just like threads that want a mutex. Function
//! names tell them apart, innermost first; unknown ones are skipped.

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitKind {
    /// A mutex, a read-write lock, or a monitor that another thread has.
    Lock,
    /// A condition, an event or a queue: idle threads do.
    Condition,
    /// A semaphore.
    Semaphore,
    /// The end of another thread.
    Join,
    /// No name said which.
    Unknown,
}

/// Parts of names, in lower case, of the C library, libstdc++, Rust, Go, and the Java machine. In the order in which
/// they are looked for: to wait for a condition ends with a wait for its mutex.
const NAMES: [(&str, WaitKind); 21] = [
    ("mutex", WaitKind::Lock),
    ("rwlock", WaitKind::Lock),
    ("lll_lock", WaitKind::Lock),
    ("spin_lock", WaitKind::Lock),
    ("lock_contended", WaitKind::Lock),
    ("lock_slow", WaitKind::Lock),
    ("runtime.lock", WaitKind::Lock),
    ("objectmonitor::enter", WaitKind::Lock),
    ("raw_lock", WaitKind::Lock),
    ("sem_wait", WaitKind::Semaphore),
    ("sem_timedwait", WaitKind::Semaphore),
    ("sem_clockwait", WaitKind::Semaphore),
    ("semaphore", WaitKind::Semaphore),
    ("join", WaitKind::Join),
    ("cond_", WaitKind::Condition),
    ("condvar", WaitKind::Condition),
    ("condition_variable", WaitKind::Condition),
    ("notesleep", WaitKind::Condition),
    ("notetsleep", WaitKind::Condition),
    ("park", WaitKind::Condition),
    ("monitor::wait", WaitKind::Condition),
];

impl WaitKind {
    /// By the names of frames, innermost first.
    #[must_use]
    pub fn from_frames(frames: &[String]) -> Self {
        let of_frame = |frame: &String| {
            let name = frame.to_ascii_lowercase();
            NAMES.iter().find(|(part, _)| name.contains(part)).map(|(_, kind)| *kind)
        };
        frames.iter().find_map(of_frame).unwrap_or(Self::Unknown)
    }

    /// Its name, in English.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Condition => "condition",
            Self::Semaphore => "semaphore",
            Self::Join => "join",
            Self::Unknown => "unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_name_that_is_known_says_what_is_waited_for() {
        for (frames, expected) in [
            (&["[unknown]", "pthread_mutex_lock", "work"][..], WaitKind::Lock),
            (&["__futex_abstimed_wait_common", "pthread_cond_wait", "mutex_of_pool"], WaitKind::Condition),
            (&["__lll_lock_wait", "pthread_mutex_cond_lock", "pthread_cond_wait"], WaitKind::Lock),
            (&["__pthread_clockjoin_ex", "main"], WaitKind::Join),
            (&["__new_sem_wait_slow64", "main"], WaitKind::Semaphore),
            (&["std::sys::sync::mutex::futex::Mutex::lock_contended"], WaitKind::Lock),
            (&["runtime.futex", "runtime.notesleep", "runtime.stopm"], WaitKind::Condition),
            (&["work", "main"], WaitKind::Unknown),
            (&[], WaitKind::Unknown),
        ] {
            let frames: Vec<String> = frames.iter().map(|frame| (*frame).to_owned()).collect();
            assert_eq!(WaitKind::from_frames(&frames), expected, "{frames:?}");
        }
    }
}
