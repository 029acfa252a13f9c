//! A clock that costs little, keeps the line of CLOCK_MONOTONIC, and never goes back.
//!
//! *Invariants*: [`Clock::now`] never falls in a thread, nor across threads when one has heard from the other. It stays
//! within `err_ns` ([`Clock::now_bounded`]) of CLOCK_MONOTONIC while that is not slewed anew. It works from the first
//! call, before calibration, in a child of fork and when the calibration thread gets no CPU, by asking the operating
//! system. Nothing runs before `main`, and nothing blocks.
//!
//! *Threads*: a [`Clock`] is a copyable handle; every method may be called from any thread. One thread, `ogive-clock`,
//! serves the whole process; see [`service`].
//!
//! Hosts that want no such thread calibrate themselves ([`Clock::maintain`]).
//!
//! *Limits*: a reading cannot be finer than the counter's step ([`Status::quantum_ns`]). A time service that begins to
//! slew CLOCK_MONOTONIC is followed within some periods of 100 ms; until then the error can exceed `err_ns` by the
//! slew's rate times that. Reading the counter may be forbidden to single threads (`prctl(PR_SET_TSC)`): it is asked at
//! the first use and by the calibration, which cannot see what other threads do to themselves later.
//!
//! *Failure*: see [`calibrate`]; whatever is wrong with the counter, the operating system's clock takes over.

mod calibrate;
mod costs;
mod cpus;
mod crosscheck;
mod environment;
mod figures;
mod latch;
mod os_reason;
mod page;
mod page_reader;
mod policy;
mod process;
mod publish;
mod rate;
mod reading;
mod segment;
mod service;
mod share;
#[cfg(test)]
mod simulation;
mod status;
mod tick;
mod vmclock;

pub use costs::ReadCosts;
pub use os_reason::OsReason;
pub use page::ClockPage;
pub(crate) use page::Page;
pub use page_reader::{SharedClock, SharedStatus};
pub use policy::Policy;
pub use segment::Mode;
pub use service::Maintainer;
pub use status::Status;
pub use tick::{Bounded, TickRate};

use crate::counter::{self, Source};
use crate::os;
use process::{CHILD, GLOBAL, Inner, SERVICE_NONE, SERVICE_STARTED, detect, is_orphaned};
use segment::Segment;
use std::sync::atomic::Ordering;
use tick::order;

/// A clock: the machine's, or one that is moved manually. Copying it is cheap.
#[derive(Clone, Copy)]
pub struct Clock {
    inner: &'static Inner,
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clock").field("source", &self.inner.source()).finish_non_exhaustive()
    }
}

impl Clock {
    /// The machine's clock. The first call starts the calibration thread and does not wait for it.
    #[inline]
    #[must_use]
    pub fn global() -> Self {
        // ORDERING: Acquire; pairs with the Release in `start`, so that the source is known to whoever sees it started.
        if GLOBAL.service.load(Ordering::Acquire) != SERVICE_STARTED {
            start(&GLOBAL);
        }
        Self { inner: &GLOBAL }
    }

    /// Hands the calibration of the global clock to the caller, so that no thread is started for it. `None` when
    /// the calibration is already running: call this before anything reads the clock.
    ///
    /// ```
    /// use ogive_probe::Clock;
    /// let mut maintainer = Clock::maintain().expect("nobody has read the clock yet");
    /// let next = maintainer.turn().expect("not a child of fork"); // In the host's own loop, again after `next`.
    /// assert!(next.as_millis() <= 100 && Clock::global().now() > 0);
    /// ```
    #[must_use]
    pub fn maintain() -> Option<Maintainer> {
        detect(&GLOBAL);
        let orphaned = is_orphaned();
        // ORDERING: AcqRel; as in `start`.
        let before = GLOBAL.service.swap(SERVICE_STARTED, Ordering::AcqRel);
        (orphaned || before == SERVICE_NONE).then(|| Maintainer::new(&GLOBAL, read_costs))
    }

    /// A clock that is fixed at `now_ns` and `wall_ns` until [`Clock::advance`] moves it. For tests and simulations.
    ///
    /// Each one stays in memory for the life of the process, about 700 bytes.
    #[must_use]
    pub fn manual(now_ns: u64, wall_ns: i64) -> Self {
        let inner = Inner::new();
        // ORDERING: Relaxed throughout; nobody else has the clock yet.
        inner.source.store(Source::Manual as u8, Ordering::Relaxed);
        inner.service.store(SERVICE_STARTED, Ordering::Relaxed);
        inner.manual_ns.store(now_ns, Ordering::Relaxed);
        inner.manual_wall_offset_ns.store(wall_ns.wrapping_sub(now_ns as i64) as u64, Ordering::Relaxed);
        Self { inner: Box::leak(Box::new(inner)) }
    }

    /// Moves a manual clock forward, including its wall clock.
    ///
    /// # Panics
    /// When the clock is the machine's.
    pub fn advance(self, ns: u64) {
        assert_eq!(self.inner.source(), Source::Manual, "only a manual clock can be moved");
        // ORDERING: Relaxed; tests order their reads by other means, and a clock publishes nothing but itself.
        self.inner.manual_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// The counter, not ordered with the instructions around it: the cheapest stamp there is. Convert two of them later
    /// with [`Clock::ns_between`]. Without a usable counter, ticks are nanoseconds.
    ///
    /// A processor may read it some tens of nanoseconds before earlier loads are done. Use it for intervals above
    /// 200 ns in one thread; use [`Clock::ticks_ordered`] for shorter ones and for stamps that are compared between
    /// threads.
    #[inline]
    #[must_use]
    pub fn ticks(self) -> u64 {
        if Source::is_counter_byte(self.inner.source_byte()) { counter::read() } else { self.inner.ticks_otherwise() }
    }

    /// The counter, read after all earlier instructions of this thread are done.
    #[inline]
    #[must_use]
    pub fn ticks_ordered(self) -> u64 {
        if self.inner.is_fenced() { counter::read_fenced() } else { self.inner.ticks_otherwise() }
    }

    /// Nanoseconds on the CLOCK_MONOTONIC line, read after all earlier instructions of this thread are done.
    #[inline]
    #[must_use]
    pub fn now(self) -> u64 {
        if self.inner.is_fenced()
            && let Some(ns) = self.inner.latch.line(counter::read_fenced)
        {
            return ns;
        }
        self.now_otherwise()
    }

    /// As [`Clock::now`], not ordered: a third cheaper, and up to some 150 ns early from the viewpoint of another
    /// thread. For intervals above 200 ns that begin and end in one thread.
    #[inline]
    #[must_use]
    pub fn now_unordered(self) -> u64 {
        if Source::is_counter_byte(self.inner.source_byte())
            && let Some(ns) = self.inner.latch.line(counter::read)
        {
            return ns;
        }
        self.now_otherwise()
    }

    /// Nanoseconds since the Unix epoch. It steps at most 100 ms after the wall clock is set.
    #[inline]
    #[must_use]
    pub fn wall(self) -> i64 {
        if self.inner.is_fenced()
            && let Some(ns) = self.inner.latch.wall(counter::read_fenced)
        {
            return ns;
        }
        self.inner.wall_otherwise()
    }

    /// A reading with a bound on its error.
    #[must_use]
    pub fn now_bounded(self) -> Bounded {
        let source = self.inner.source();
        if source.is_counter()
            && let Some(bounded) = reading::bounded(&self.inner.latch, source)
        {
            return bounded;
        }
        let (ns, epoch) = (self.now(), self.epoch());
        if source == Source::Manual {
            return Bounded { ns, err_ns: 0, epoch, mode: Mode::Os };
        }
        reading::bounded_os(ns, epoch)
    }

    /// Nanoseconds from one stamp of [`Clock::ticks`] or [`Clock::ticks_ordered`] to a later one; 0 when it is earlier,
    /// and good to 1 % in the first 20 ms of the clock.
    #[inline]
    #[must_use]
    pub fn ns_between(self, from: u64, to: u64) -> u64 {
        self.tick_rate().ns(to.saturating_sub(from))
    }

    /// The current value of a tick. To convert many ticks consistently, get it once.
    #[inline]
    #[must_use]
    pub fn tick_rate(self) -> TickRate {
        self.inner.tick_rate()
    }

    /// Number of breaks of the line so far: an interval between different epochs is meaningless. Two or three loads.
    ///
    /// A break is visible once the calibration thread has found it: up to a second after a suspend, 100 ms after a
    /// jump.
    #[inline]
    #[must_use]
    pub fn epoch(self) -> u16 {
        self.inner.latch.epoch()
    }

    /// Begins a new epoch of a manual clock, as a suspend does of the machine's. From one thread at a time.
    ///
    /// # Panics
    /// When the clock is the machine's.
    pub fn break_line(self) {
        assert_eq!(self.inner.source(), Source::Manual, "only a manual clock can be broken");
        self.inner.latch.publish(&Segment::os(0, 0, self.epoch().wrapping_add(1)));
    }

    /// Sets when this clock uses the counter; takes effect at its next check, within a quarter of a second.
    pub fn set_policy(self, policy: Policy) {
        // ORDERING: Relaxed; one word, whole in itself, that the calibration reads at its next turn.
        self.inner.policy.store(policy as u8, Ordering::Relaxed);
    }

    /// When this clock uses the counter.
    #[must_use]
    pub fn policy(self) -> Policy {
        self.inner.policy()
    }

    /// The time when the fast path does not apply: the correction is over, the segment in force is the system's, or has
    /// ended, or is just beginning; or there is another counter, or none.
    #[inline(never)]
    fn now_otherwise(self) -> u64 {
        let source = self.inner.source();
        if !source.is_counter() {
            return self.inner.ticks_otherwise();
        }
        // ORDERING: Relaxed; a child of fork sees its own flag, and swap lets one thread through.
        if CHILD.load(Ordering::Relaxed) && is_orphaned() {
            service::spawn(&GLOBAL, read_costs);
        }
        // ORDERING: Relaxed; `start` looks again. Whoever calibrated has given it up.
        if GLOBAL.service.load(Ordering::Relaxed) == SERVICE_NONE {
            start(&GLOBAL);
        }
        reading::now(&self.inner.latch, source)
    }
}

#[cold]
fn start(inner: &'static Inner) {
    detect(inner);
    // ORDERING: AcqRel; Release pairs with the Acquire in `Clock::global`. Only the thread that changes it spawns.
    let before = inner.service.swap(SERVICE_STARTED, Ordering::AcqRel);
    if before == SERVICE_NONE && inner.source().is_counter() {
        service::spawn(inner, read_costs);
    }
}

/// The cost of each way to read the clock; its source is a counter.
fn read_costs(inner: &'static Inner) -> ReadCosts {
    let (clock, source) = (Clock { inner }, inner.source());
    costs::measure([
        &|| clock.ticks(),
        &|| order(source),
        &|| clock.now_unordered(),
        &|| clock.now(),
        &os::monotonic_ns,
    ])
}
