//! Times an operation and records how long it took.
//!
//! *Invariants*: an operation that panics is recorded too; one that went on across a break of the clock's line is not
//! recorded, since its time means nothing, but counted ([`Recorder::straddled`](crate::Recorder::straddled)). So
//! operations timed = records + straddled.

use crate::{Clock, Writer};
use std::marker::PhantomData;

/// How the two ends of a [`Watch`] are read; [`Ordered`] and [`Unordered`] are the only implementations.
pub trait Ends: Copy + sealed::Sealed {
    /// An end, in this kind's own unit.
    fn read(clock: Clock) -> u64;
    /// Nanoseconds from one end to the other; 0 when they are in the wrong order.
    fn ns_between(clock: Clock, from: u64, to: u64) -> u64;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Ordered {}
    impl Sealed for super::Unordered {}
}

/// Ends that are read after all earlier instructions are done ([`Clock::now`]): right however short the operation is,
/// and across threads.
#[derive(Clone, Copy, Debug)]
pub enum Ordered {}

/// Ends that the processor may read before earlier instructions are done ([`Clock::ticks`]).
///
/// Order matters for what is short: an operation of less than some 200 ns can come out too short, or as 0, because part
/// of it runs before the first reading or after the second. A longer one is off by some tens of nanoseconds, less than
/// a bin of its histogram. Both ends must be in one thread.
#[derive(Clone, Copy, Debug)]
pub enum Unordered {}

impl Ends for Ordered {
    #[inline(always)]
    fn read(clock: Clock) -> u64 {
        clock.now()
    }
    #[inline(always)]
    fn ns_between(_clock: Clock, from: u64, to: u64) -> u64 {
        to.saturating_sub(from)
    }
}

impl Ends for Unordered {
    #[inline(always)]
    fn read(clock: Clock) -> u64 {
        clock.ticks()
    }
    #[inline(always)]
    fn ns_between(clock: Clock, from: u64, to: u64) -> u64 {
        clock.ns_between(from, to)
    }
}

/// A running measurement. It records nothing by itself: pass it to a writer, or read it.
#[derive(Clone, Copy, Debug)]
pub struct Watch<E> {
    clock: Clock,
    start: u64,
    epoch: u16,
    _ends: PhantomData<E>,
}

/// A running measurement with ordered ends.
pub type Stopwatch = Watch<Ordered>;

/// A running measurement with unordered ends, for what takes more than some 200 ns ([`Unordered`] says why): it costs
/// little more than two readings of the counter.
pub type TickStopwatch = Watch<Unordered>;

impl<E: Ends> Watch<E> {
    /// Starts now.
    #[inline]
    #[must_use]
    pub fn start(clock: Clock) -> Self {
        Self { clock, epoch: clock.epoch(), start: E::read(clock), _ends: PhantomData }
    }

    /// Nanoseconds since the start.
    #[inline]
    #[must_use]
    pub fn elapsed_ns(&self) -> u64 {
        E::ns_between(self.clock, self.start, E::read(self.clock))
    }

    /// Records the nanoseconds since the start, and returns them; `None` when the clock's line was broken in between.
    #[inline]
    pub fn record(self, writer: &Writer) -> Option<u64> {
        let ns = self.elapsed_ns();
        if self.clock.epoch() != self.epoch {
            writer.count_straddled();
            return None;
        }
        writer.record_ns(ns);
        Some(ns)
    }
}

impl Writer {
    /// Runs `operation` and records how long it took, even when it panics.
    ///
    /// Both ends are ordered: the time is that of the operation alone, however short. [`Writer::timed_unordered`] costs
    /// less.
    #[inline]
    pub fn timed<R>(&self, clock: Clock, operation: impl FnOnce() -> R) -> R {
        self.timed_by::<Ordered, R>(clock, operation)
    }

    /// As [`Writer::timed`] with unordered ends: it costs less, for operations above 200 ns ([`Unordered`] says why).
    #[inline]
    pub fn timed_unordered<R>(&self, clock: Clock, operation: impl FnOnce() -> R) -> R {
        self.timed_by::<Unordered, R>(clock, operation)
    }

    #[inline(always)]
    fn timed_by<E: Ends, R>(&self, clock: Clock, operation: impl FnOnce() -> R) -> R {
        struct OnDrop<'a, E: Ends>(Watch<E>, &'a Writer);
        impl<E: Ends> Drop for OnDrop<'_, E> {
            #[inline]
            fn drop(&mut self) {
                self.0.record(self.1);
            }
        }
        let _guard = OnDrop(Watch::<E>::start(clock), self);
        operation()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Recorder;

    #[test]
    fn an_operation_is_recorded_with_its_time() {
        let (clock, recorder) = (Clock::manual(0, 0), Recorder::new());
        let writer = recorder.handle();
        let answer = writer.timed(clock, || {
            clock.advance(1_500);
            42
        });
        let watch = Stopwatch::start(clock);
        clock.advance(500);
        assert_eq!((answer, watch.elapsed_ns(), watch.record(&writer)), (42, 500, Some(500)));
        let cell = recorder.snapshot();
        assert_eq!((cell.count, cell.sum, cell.min, cell.max), (2, Some(2e-6), Some(5e-7), Some(1.5e-6)));
    }

    #[test]
    fn unordered_ends_record_the_same() {
        let (clock, recorder) = (Clock::manual(0, 0), Recorder::new());
        let writer = recorder.handle();
        assert_eq!(writer.timed_unordered(clock, || clock.advance(1_500)), ());
        let watch = TickStopwatch::start(clock);
        clock.advance(500);
        assert_eq!((watch.elapsed_ns(), watch.record(&writer)), (500, Some(500)));
        writer.timed_unordered(clock, || clock.break_line());
        let cell = recorder.snapshot();
        assert_eq!((cell.count, cell.sum, cell.max, recorder.straddled()), (2, Some(2e-6), Some(1.5e-6), 1));
    }

    #[test]
    fn an_operation_across_a_break_of_the_clock_is_counted_and_not_recorded() {
        let (clock, recorder) = (Clock::manual(0, 0), Recorder::new());
        let writer = recorder.handle();
        let watch = Stopwatch::start(clock);
        clock.advance(60_000_000_000);
        clock.break_line();
        assert_eq!((watch.record(&writer), recorder.straddled(), recorder.snapshot().count), (None, 1, 0));
        writer.timed(clock, || clock.break_line());
        writer.timed(clock, || clock.advance(5));
        drop(writer);
        assert_eq!((recorder.straddled(), recorder.snapshot().count), (2, 1));
    }

    #[test]
    fn an_operation_that_panics_is_recorded() {
        let (clock, recorder) = (Clock::manual(0, 0), Recorder::new());
        let writer = recorder.handle();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            writer.timed(clock, || {
                clock.advance(7);
                panic!("as the test wants");
            })
        }));
        assert!(result.is_err());
        assert_eq!(recorder.snapshot().sum, Some(7e-9));
    }
}
