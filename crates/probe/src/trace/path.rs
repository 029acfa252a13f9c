//! The stamps that travel inside a message, and the path that they are stamps of.
//!
//! *Format*: a path of N points is `repr(C)`: N u64 ticks, u32 mask of points seen (bit i for point i; how often a
//! point was stamped again in the upper half), u32 epoch of the clock at the beginning; native byte order, 8 N + 8
//! bytes. All zeros is a message that has not begun.

use crate::{Clock, TickRate};
use std::marker::PhantomData;

/// Points of a path, at most: with four words of its own, a dump then fills a slot of 128 bytes.
pub const POINTS_MAX: usize = 12;

/// Bytes of a name, at most: so a slow trace's line stays below 8 KiB.
pub(crate) const NAME_BYTES_MAX: usize = 64;

/// What time goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Moving a message: queues, journals, encoding, the network.
    Infrastructure,
    /// What the message was sent for.
    Logic,
}

impl Class {
    /// Its name in texts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Infrastructure => "infra",
            Self::Logic => "logic",
        }
    }

    /// The class of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Infrastructure, Self::Logic].into_iter().find(|class| class.name() == name)
    }
}

/// One point of a path. The stage of the same name is the time from the point before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointDef {
    /// Its name.
    pub name: &'static str,
    /// What the time up to it goes to; the first point's class says nothing.
    pub class: Class,
    /// Stamped with an ordered read of the counter.
    pub ordered: bool,
}

/// Where stamps come from: a [`Clock`], or something around one.
pub trait TickSource: Copy + Send + 'static {
    /// The clock whose epochs and rate hold for the ticks.
    fn clock(self) -> Clock;
    /// As [`Clock::ticks`].
    fn ticks(self) -> u64;
    /// As [`Clock::ticks_ordered`].
    fn ticks_ordered(self) -> u64;
}

impl TickSource for Clock {
    #[inline(always)]
    fn clock(self) -> Clock {
        self
    }
    #[inline(always)]
    fn ticks(self) -> u64 {
        Clock::ticks(self)
    }
    #[inline(always)]
    fn ticks_ordered(self) -> u64 {
        Clock::ticks_ordered(self)
    }
}

/// A path made by [`trace_path!`](crate::trace_path).
pub trait TracePath: Copy + Default + Send + 'static {
    /// The path's name.
    const NAME: &'static str;
    /// Its points in order, 2 to [`POINTS_MAX`].
    const POINTS: &'static [PointDef];
    /// The stamps of a message, in the order of the points.
    fn stamps(&self) -> &[u64];
    /// Bit i is set when point i was stamped.
    fn seen(&self) -> u32;
    /// How often a point was stamped that had its stamp.
    fn repeated(&self) -> u32;
    /// The clock's epoch when the message began.
    fn epoch(&self) -> u32;
}

/// A point of path `P`; a point of another path does not fit.
#[derive(Debug)]
pub struct Point<P> {
    index: usize,
    ordered: bool,
    _path: PhantomData<fn(P)>,
}

impl<P> Clone for Point<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Point<P> {}

impl<P: TracePath> Point<P> {
    /// Point `index` of the path.
    ///
    /// # Panics
    /// When the path has no such point; in a constant that is an error of the compiler.
    #[must_use]
    pub const fn new(index: usize) -> Self {
        assert!(index < P::POINTS.len(), "the path has no such point");
        Self { index, ordered: P::POINTS[index].ordered, _path: PhantomData }
    }

    /// Its place on the path.
    pub(super) const fn index(self) -> usize {
        self.index
    }
}

/// What a path is made of. Use it through the type that [`trace_path!`](crate::trace_path) makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Stamps<const N: usize> {
    ticks: [u64; N],
    seen: u32,
    epoch: u32,
}

const REPEATED_SHIFT: u32 = 16;
const REPEATED_MAX: u32 = u32::MAX >> REPEATED_SHIFT;
const SEEN_MASK: u32 = (1 << REPEATED_SHIFT) - 1;

const _: () = assert!(size_of::<Stamps<8>>() == 8 * 8 + 8 && POINTS_MAX <= REPEATED_SHIFT as usize);

impl<const N: usize> Default for Stamps<N> {
    fn default() -> Self {
        const { assert!(N >= 2 && N <= POINTS_MAX, "a path has 2 to 12 points") };
        Self { ticks: [0; N], seen: 0, epoch: 0 }
    }
}

impl<const N: usize> Stamps<N> {
    /// Starts a message: stamps the first point.
    #[inline(always)]
    #[must_use]
    pub fn begin<T: TickSource>(source: T, ordered: bool) -> Self {
        let mut stamps = Self { epoch: u32::from(source.clock().epoch()), ..Self::default() };
        stamps.ticks[0] = read(source, ordered);
        stamps.seen = 1;
        stamps
    }

    /// Stamps a point now. A point has one stamp: a second one is counted and changes nothing; what happens a changing
    /// number of times is marked on a [`MarkList`](crate::MarkList).
    #[inline(always)]
    pub fn mark<P, T: TickSource>(&mut self, source: T, point: Point<P>) {
        self.mark_at(point, read(source, point.ordered));
    }

    /// Stamps a point with ticks that were read before, such as one reading for a batch of messages.
    #[inline(always)]
    pub fn mark_at<P>(&mut self, point: Point<P>, ticks: u64) {
        let bit = 1 << point.index;
        if self.seen & bit != 0 {
            self.repeat();
            return;
        }
        self.ticks[point.index] = ticks;
        self.seen |= bit;
    }

    #[cold]
    fn repeat(&mut self) {
        if self.repeated() < REPEATED_MAX {
            self.seen += 1 << REPEATED_SHIFT;
        }
    }

    /// The stamps.
    #[inline(always)]
    #[must_use]
    pub fn ticks(&self) -> &[u64] {
        &self.ticks
    }

    /// Bit i is set when point i was stamped.
    #[inline(always)]
    #[must_use]
    pub fn seen(&self) -> u32 {
        self.seen & SEEN_MASK
    }

    /// How often a point was stamped that had its stamp, up to 65,535.
    #[inline(always)]
    #[must_use]
    pub fn repeated(&self) -> u32 {
        self.seen >> REPEATED_SHIFT
    }

    /// The clock's epoch at the beginning.
    #[inline(always)]
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.epoch
    }
}

/// The first `bytes` bytes of a text, without the character that they would cut.
pub(crate) fn beginning(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Names that a line has room for; otherwise the path does not compile.
pub(crate) const fn check_names<P: TracePath>() {
    assert!(P::NAME.len() <= NAME_BYTES_MAX, "the name of a path has at most 64 bytes");
    let mut at = 0;
    while at < P::POINTS.len() {
        assert!(P::POINTS[at].name.len() <= NAME_BYTES_MAX, "the name of a point has at most 64 bytes");
        at += 1;
    }
}

#[inline(always)]
fn read<T: TickSource>(source: T, ordered: bool) -> u64 {
    if ordered { source.ticks_ordered() } else { source.ticks() }
}

/// What one reading costs, ns: the median over batches, so that an interruption does not count.
pub(crate) fn reading_ns<T: TickSource>(source: T) -> f64 {
    const BATCHES: usize = 9;
    const READS: u32 = 32;
    let mut costs: Vec<u64> = (0..BATCHES)
        .map(|_| {
            let start = source.ticks_ordered();
            for _ in 1..READS {
                std::hint::black_box(source.ticks());
            }
            source.ticks_ordered().saturating_sub(start)
        })
        .collect();
    costs.sort_unstable();
    TickRate::ns_f64(source.clock().tick_rate(), costs[BATCHES / 2]) / f64::from(READS)
}

/// Makes a path: a `repr(C)`, `Copy` struct of stamps that travels inside a message.
///
/// Points come in order, each with the class of the time up to it, `infra` or `logic`. A point where messages cross
/// threads (the first and the last of a thread) is `@ordered`; see [`Clock::ticks`](crate::Clock::ticks) for the
/// others. A point is a constant of the struct with its name, which cannot be `begin`, `mark` or `mark_at`.
///
/// ```
/// use ogive_probe::{Clock, TraceRecorder, Threshold, trace_path};
/// trace_path! {
///     /// From the socket in to the socket out.
///     pub OrderPath { recv: infra @ordered, decode: infra, matched: logic, publish: infra @ordered }
/// }
/// let clock = Clock::global();
/// let recorder = TraceRecorder::<OrderPath>::new(clock, Threshold::fixed_ns(1_000_000));
/// let writer = recorder.handle("engine");
/// let mut trace = OrderPath::begin(clock);
/// trace.mark(clock, OrderPath::decode);
/// trace.mark(clock, OrderPath::matched);
/// trace.mark(clock, OrderPath::publish);
/// writer.finish(&trace);
/// assert_eq!(recorder.snapshot().total.count, 1);
/// ```
#[macro_export]
macro_rules! trace_path {
    (@class infra) => { $crate::Class::Infrastructure };
    (@class logic) => { $crate::Class::Logic };
    (@ordered) => { false };
    (@ordered ordered) => { true };
    ($(#[$meta:meta])* $vis:vis $name:ident { $($point:ident : $class:ident $(@ $order:ident)?),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(transparent)]
        $vis struct $name($crate::Stamps<{ [$(stringify!($point)),+].len() }>);

        const _: () = {
            #[allow(non_camel_case_types)]
            enum Index { $($point),+ }

            impl $crate::TracePath for $name {
                const NAME: &'static str = stringify!($name);
                const POINTS: &'static [$crate::PointDef] = &[$($crate::PointDef {
                    name: stringify!($point),
                    class: $crate::trace_path!(@class $class),
                    ordered: $crate::trace_path!(@ordered $($order)?),
                }),+];
                #[inline(always)]
                fn stamps(&self) -> &[u64] { self.0.ticks() }
                #[inline(always)]
                fn seen(&self) -> u32 { self.0.seen() }
                #[inline(always)]
                fn repeated(&self) -> u32 { self.0.repeated() }
                #[inline(always)]
                fn epoch(&self) -> u32 { self.0.epoch() }
            }

            #[allow(non_upper_case_globals, dead_code)]
            impl $name {
                $(
                    #[doc = concat!("The point `", stringify!($point), "`.")]
                    $vis const $point: $crate::Point<Self> = $crate::Point::new(Index::$point as usize);
                )+

                /// Starts a message: stamps the first point.
                #[inline(always)]
                #[must_use]
                $vis fn begin<T: $crate::TickSource>(source: T) -> Self {
                    Self($crate::Stamps::begin(source, <Self as $crate::TracePath>::POINTS[0].ordered))
                }

                /// Stamps a point now. A point has one stamp: a second one is counted and changes nothing.
                #[inline(always)]
                $vis fn mark<T: $crate::TickSource>(&mut self, source: T, point: $crate::Point<Self>) {
                    self.0.mark(source, point);
                }

                /// Stamps a point with ticks that were read before.
                #[inline(always)]
                $vis fn mark_at(&mut self, point: $crate::Point<Self>, ticks: u64) {
                    self.0.mark_at(point, ticks);
                }
            }
        };
    };
}
