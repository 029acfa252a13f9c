//! The progress of the sources: the watermark of each, and the lowest of those that still send.
//!
//! Invariants: a watermark never falls.
//! Limits: [`SOURCES_MAX`]; sources beyond it share one watermark, so that they are waited for together.

use std::collections::HashMap;

use ogive_model::{SourceId, WallNs};

use super::Options;

/// 65,536 sources of 48 bytes: 3 MiB for a large site's hosts.
const SOURCES_MAX: usize = 1 << 16;

/// The id of sources beyond the limit.
const BEYOND: SourceId = SourceId(u128::MAX);

#[derive(Clone, Copy, Debug)]
struct Mark {
    newest: WallNs,
    /// When it last sent.
    seen: WallNs,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    marks: HashMap<SourceId, Mark>,
    watermark: WallNs,
}

impl Sources {
    /// `source` sent samples up to `newest` when the clock stood at `now`.
    pub(crate) fn seen(&mut self, source: SourceId, newest: WallNs, now: WallNs) {
        let has_place = self.marks.len() < SOURCES_MAX || self.marks.contains_key(&source);
        let mark = self.marks.entry(if has_place { source } else { BEYOND });
        let mark = mark.or_insert(Mark { newest, seen: now });
        mark.newest = mark.newest.max(newest);
        mark.seen = mark.seen.max(now);
        assert!(self.marks.len() <= SOURCES_MAX + 1, "{} sources, those beyond as one", self.marks.len());
    }

    /// The instant before which nothing is expected any more at `now`. Forgets sources that have stopped sending.
    pub(crate) fn watermark(&mut self, now: WallNs, options: &Options) -> WallNs {
        self.marks.retain(|_, mark| now.since(mark.seen) <= options.idle);
        let least = self.marks.values().map(|mark| mark.newest.saturating_sub(options.disorder)).min();
        let patient = options.patience.map(|patience| now.saturating_sub(patience));
        let known = least.into_iter().chain(patient).max();
        self.watermark = self.watermark.max(known.unwrap_or(WallNs(0)));
        self.watermark
    }

    /// How many send.
    pub(crate) fn len(&self) -> usize {
        self.marks.len()
    }
}

#[cfg(test)]
mod tests {
    use ogive_model::Ns;

    use super::*;

    const S: Ns = Ns::from_secs(1);

    /// `seconds` after the epoch.
    const fn at(seconds: i64) -> WallNs {
        WallNs(S.0 * seconds)
    }

    #[test]
    fn the_slowest_source_that_sends_holds_the_watermark_until_patience_or_idleness_ends() {
        let options = Options { patience: None, idle: S * 5, disorder: S / 2, ..Options::default() };
        let mut sources = Sources::default();
        assert_eq!(sources.watermark(at(0), &options), at(0), "nobody was seen");
        sources.seen(SourceId(1), at(100), at(100));
        sources.seen(SourceId(2), at(90), at(100));
        assert_eq!(sources.watermark(at(100), &options), at(90) - S / 2);
        sources.seen(SourceId(1), at(105), at(105));
        assert_eq!(sources.watermark(at(105), &options), at(90) - S / 2, "the other one is still waited for");
        assert_eq!(sources.watermark(at(105) + Ns(1), &options), at(105) - S / 2, "and is idle now");
        assert_eq!(sources.len(), 1);
        sources.seen(SourceId(2), at(50), at(106));
        assert_eq!(sources.watermark(at(106), &options), at(105) - S / 2, "a watermark never falls");
        let hasty = Options { patience: Some(S / 4), ..options };
        assert_eq!(sources.watermark(at(107), &hasty), at(107) - S / 4, "nobody is waited for longer than patience");
    }

    #[test]
    fn sources_beyond_the_limit_share_a_mark() {
        let options = Options { patience: None, ..Options::default() };
        let mut sources = Sources::default();
        (0..=SOURCES_MAX as u128 + 5).for_each(|source| sources.seen(SourceId(source), at(10), at(1)));
        assert_eq!(sources.len(), SOURCES_MAX + 1);
        assert_eq!(sources.watermark(at(1), &options), at(10));
    }
}
