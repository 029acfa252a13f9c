//! The progress of the sources: the watermark of each, and the lowest of those that still send.
//!
//! Invariants: a watermark never falls.
//! Limits: [`SOURCES_MAX`]; sources beyond it share one watermark, so that they are waited for together.

use std::collections::HashMap;

use ogive_model::SourceId;

use super::Options;

/// 65,536 sources of 48 bytes: 3 MiB for a large site's hosts.
const SOURCES_MAX: usize = 1 << 16;

/// The id of sources beyond the limit.
const BEYOND: SourceId = SourceId(u128::MAX);

#[derive(Clone, Copy, Debug)]
struct Mark {
    newest_ns: i64,
    /// When it last sent.
    seen_ns: i64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    marks: HashMap<SourceId, Mark>,
    watermark_ns: i64,
}

impl Sources {
    /// `source` sent samples up to `newest_ns` when the clock stood at `now_ns`.
    pub(crate) fn seen(&mut self, source: SourceId, newest_ns: i64, now_ns: i64) {
        let has_place = self.marks.len() < SOURCES_MAX || self.marks.contains_key(&source);
        let mark = self.marks.entry(if has_place { source } else { BEYOND });
        let mark = mark.or_insert(Mark { newest_ns, seen_ns: now_ns });
        mark.newest_ns = mark.newest_ns.max(newest_ns);
        mark.seen_ns = mark.seen_ns.max(now_ns);
        assert!(self.marks.len() <= SOURCES_MAX + 1, "{} sources, those beyond as one", self.marks.len());
    }

    /// The instant before which nothing is expected any more at `now_ns`. Forgets sources that have stopped sending.
    pub(crate) fn watermark(&mut self, now_ns: i64, options: &Options) -> i64 {
        self.marks.retain(|_, mark| now_ns.saturating_sub(mark.seen_ns) <= options.idle_ns);
        let least = self.marks.values().map(|mark| mark.newest_ns.saturating_sub(options.disorder_ns)).min();
        let patient = options.patience_ns.map(|patience| now_ns.saturating_sub(patience));
        let known = least.into_iter().chain(patient).max();
        self.watermark_ns = self.watermark_ns.max(known.unwrap_or(0));
        self.watermark_ns
    }

    /// How many send.
    pub(crate) fn len(&self) -> usize {
        self.marks.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    #[test]
    fn the_slowest_source_that_sends_holds_the_watermark_until_patience_or_idleness_ends() {
        let options = Options { patience_ns: None, idle_ns: 5 * S, disorder_ns: S / 2, ..Options::default() };
        let mut sources = Sources::default();
        assert_eq!(sources.watermark(0, &options), 0, "nobody was seen");
        sources.seen(SourceId(1), 100 * S, 100 * S);
        sources.seen(SourceId(2), 90 * S, 100 * S);
        assert_eq!(sources.watermark(100 * S, &options), 90 * S - S / 2);
        sources.seen(SourceId(1), 105 * S, 105 * S);
        assert_eq!(sources.watermark(105 * S, &options), 90 * S - S / 2, "the other one is still waited for");
        assert_eq!(sources.watermark(105 * S + 1, &options), 105 * S - S / 2, "and is idle now");
        assert_eq!(sources.len(), 1);
        sources.seen(SourceId(2), 50 * S, 106 * S);
        assert_eq!(sources.watermark(106 * S, &options), 105 * S - S / 2, "a watermark never falls");
        let hasty = Options { patience_ns: Some(S / 4), ..options };
        assert_eq!(sources.watermark(107 * S, &hasty), 107 * S - S / 4, "nobody is waited for longer than patience");
    }

    #[test]
    fn sources_beyond_the_limit_share_a_mark() {
        let options = Options { patience_ns: None, ..Options::default() };
        let mut sources = Sources::default();
        (0..=SOURCES_MAX as u128 + 5).for_each(|source| sources.seen(SourceId(source), 10 * S, S));
        assert_eq!(sources.len(), SOURCES_MAX + 1);
        assert_eq!(sources.watermark(S, &options), 10 * S);
    }
}
