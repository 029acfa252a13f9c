//! The times covered by the records of each journal segment, to describe what a lost record may have held.

use std::ops::Range;

use ogive_journal::{Position, SegmentRange};
use ogive_model::{TimeRange, WallMs};

use crate::findings::MARGIN;

/// See the module. In the order of the journal.
pub(crate) struct Spans(Vec<(SegmentRange, Option<(WallMs, WallMs)>)>);

impl Spans {
    pub(crate) fn new(segments: Vec<SegmentRange>) -> Self {
        Self(segments.into_iter().map(|segment| (segment, None)).collect())
    }

    /// A record holds samples of these times, first and last.
    pub(crate) fn add(&mut self, position: Position, first: WallMs, last: WallMs) {
        debug_assert!(first <= last, "a record of the times {first} to {last}");
        let at = self.0.partition_point(|(segment, _)| segment.end <= position);
        if let Some((_, span)) = self.0.get_mut(at) {
            *span = Some(span.map_or((first, last), |(a, b)| (a.min(first), b.max(last))));
        }
    }

    /// The times that the records `lost` could have held: those of their segments, else of the ones
    /// beside them, with a margin; all when nothing is known.
    pub(crate) fn around(&self, lost: Range<u64>) -> TimeRange {
        let Range { start: from, end: to } = lost;
        let before = self.0.partition_point(|(segment, _)| segment.end.0 <= from);
        let behind = self.0.partition_point(|(segment, _)| segment.first.0 < to.max(from + 1)).max(before);
        let mut known: Vec<(WallMs, WallMs)> = self.0[before..behind].iter().filter_map(|(_, span)| *span).collect();
        if known.is_empty() {
            known.extend(self.0[..before].iter().rev().find_map(|(_, span)| *span));
            known.extend(self.0[behind..].iter().find_map(|(_, span)| *span));
        }
        let (first, last) = (known.iter().map(|span| span.0).min(), known.iter().map(|span| span.1).max());
        let range = first
            .zip(last)
            .map(|(first, last)| TimeRange { start: first.saturating_sub(MARGIN), end: last.saturating_add(MARGIN) });
        range.unwrap_or(TimeRange::ALL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_record_has_the_times_of_its_segment_or_of_those_beside_it() {
        let segment =
            |first, end| SegmentRange { path: "s".into(), first: Position(first), end: Position(end), bytes: 1 };
        let mut spans = Spans::new(vec![segment(0, 10), segment(10, 20), segment(20, 30)]);
        assert_eq!(spans.around(5..6), TimeRange::ALL);
        spans.add(Position(3), WallMs(100), WallMs(200));
        spans.add(Position(9), WallMs(50), WallMs(60));
        spans.add(Position(25), WallMs(1000), WallMs(1001));
        let range = |first: i64, last: i64| TimeRange { start: WallMs(first) - MARGIN, end: WallMs(last) + MARGIN };
        assert_eq!(spans.around(5..6), range(50, 200));
        assert_eq!(spans.around(12..14), range(50, 1001), "nothing of its segment could be read");
        assert_eq!(spans.around(5..22), range(50, 1001));
        assert_eq!(spans.around(20..20), range(1000, 1001));
        assert_eq!(spans.around(30..31), range(1000, 1001), "behind the end");
    }
}
