//! Who is silent, and what is said of it: suspects are held until their deadline so that parents form first; a parent
//! is one finding, and its children are suppressed until it is back.
//!
//! Invariants: a series is judged on the watermark of its source; while the source is silent its series are unknown,
//! and the source is what is reported. What returns is resynchronised: its outage is not learned as a gap. Each fault
//! has one finding as it begins and one as it ends.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use ogive_model::{Labels, Ms, WallMs};

use super::absence::Cadence;
use super::finding::{Finding, FindingKind};
use super::instant::{Clock24, Span};
use super::parent::{Parent, parents};

/// The hash of a label pair; the names are found again in the labels of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Pair(u64);

impl Pair {
    pub(super) fn new(name: &str, value: &str) -> Self {
        // SipHash with fixed keys: the same in each process, so that a replay decides identically.
        let mut hasher = DefaultHasher::new();
        (name, value).hash(&mut hasher);
        Self(hasher.finish())
    }

    /// All of a series.
    pub(super) fn all(labels: &Labels) -> Box<[Self]> {
        labels.iter().map(|(name, value)| Self::new(name, value)).collect()
    }
}

/// The presence of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Presence {
    #[default]
    Present,
    /// Two thirds of the patience are over.
    Suspect,
    /// It has a finding of its own.
    Reported,
    /// It is covered by the finding of its source or of a parent.
    Suppressed,
}

/// A series or a source that may fall silent.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) labels: Labels,
    pub(super) pairs: Box<[Pair]>,
    pub(super) cadence: Cadence,
    pub(super) presence: Presence,
}

impl Member {
    pub(super) fn new(labels: Labels, time: WallMs) -> Self {
        let pairs = Pair::all(&labels);
        Self { labels, pairs, cadence: Cadence::new(time), presence: Presence::Present }
    }

    /// It arrived; true when it was missing and is back.
    pub(super) fn arrive(&mut self, time: WallMs) -> bool {
        let was = std::mem::take(&mut self.presence);
        match was {
            Presence::Present | Presence::Suspect => self.cadence.arrive(time),
            Presence::Reported | Presence::Suppressed => self.cadence.resume(time),
        }
        was == Presence::Reported
    }

    /// Two thirds of its patience are over: it is held until its deadline.
    pub(super) fn suspect(&mut self, watermark: WallMs, lateness: Ms) {
        if self.presence == Presence::Present && self.cadence.suspect_at(lateness).is_some_and(|from| watermark > from)
        {
            self.presence = Presence::Suspect;
        }
    }

    /// All of its patience is over.
    pub(super) fn is_due(&self, watermark: WallMs, lateness: Ms) -> bool {
        self.cadence.deadline(lateness).is_some_and(|deadline| watermark > deadline)
    }

    /// Its finding, when it is silent alone.
    pub(super) fn absent(&self, watermark: WallMs, name: &str) -> Finding {
        let last = self.cadence.last();
        let usual = self.cadence.mean_ms().unwrap_or(f64::NAN);
        let how = if self.cadence.is_periodic() { "every" } else { "on average every" };
        let (silent, since) = (Span::from_ms(watermark.since(last)), Clock24::from_ms(last));
        let sentence = format!(
            "{name} did not come for {silent}, last at {since}; it used to come {how} {}",
            Span::from_seconds(usual / 1e3)
        );
        #[expect(clippy::cast_precision_loss, reason = "milliseconds")]
        let evidence = vec![("silent_ms", watermark.since(last).0 as f64), ("usual_ms", usual)];
        Finding { kind: FindingKind::Absence, at: watermark, began: last, is_active: true, sentence, evidence }
    }

    pub(super) fn back(&self, watermark: WallMs, name: &str) -> Finding {
        let last = self.cadence.last();
        let sentence = format!("{name} is back at {}", Clock24::from_ms(last));
        Finding {
            kind: FindingKind::Absence,
            at: watermark,
            began: last,
            is_active: false,
            sentence,
            evidence: Vec::new(),
        }
    }
}

/// A parent that is lost.
#[derive(Clone, Debug)]
pub(super) struct LostParent {
    pub(super) pair: Pair,
    pub(super) name: String,
    pub(super) began: WallMs,
    pub(super) children: u32,
}

/// All lost parents, and how many series have each pair.
#[derive(Clone, Debug, Default)]
pub(super) struct Family {
    counts: HashMap<Pair, u32>,
    pub(super) lost: Vec<LostParent>,
}

impl Family {
    pub(super) fn add(&mut self, member: &Member) {
        for pair in &member.pairs {
            *self.counts.entry(*pair).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, member: &Member) {
        for pair in &member.pairs {
            if let Some(count) = self.counts.get_mut(pair) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(pair);
                }
            }
        }
    }

    /// Bytes of the counts: 8 and 4, a control byte, and a quarter of room.
    pub(super) fn heap_bytes(&self) -> usize {
        self.counts.capacity() * 17
    }

    /// Whether a lost parent covers it.
    pub(super) fn covers(&self, member: &Member) -> bool {
        !self.lost.is_empty() && self.lost.iter().any(|lost| member.pairs.contains(&lost.pair))
    }

    /// The parents that explain `silent`, a finding each.
    pub(super) fn judge(&mut self, silent: &[&Member], series: u32, watermark: WallMs) -> Vec<(Labels, Finding)> {
        let pairs: Vec<&[Pair]> = silent.iter().map(|member| &*member.pairs).collect();
        let found = parents(&pairs, series, |pair| self.counts.get(pair).copied().unwrap_or(0));
        found.into_iter().filter_map(|parent| self.lose(&parent, silent, watermark)).collect()
    }

    fn lose(&mut self, parent: &Parent<Pair>, silent: &[&Member], watermark: WallMs) -> Option<(Labels, Finding)> {
        let children = || silent.iter().filter(|member| member.pairs.contains(&parent.pair));
        let began = children().map(|member| member.cadence.last()).max()?;
        let one = children().next()?;
        let (name, value) = one.labels.iter().find(|(name, value)| Pair::new(name, value) == parent.pair)?;
        let labels = Labels::new([(name, value)]).ok()?;
        let named = format!("{name}=\"{value}\"");
        let sentence = format!(
            "{named} is lost: {} of its {} series are silent since {}",
            parent.silent,
            parent.series,
            Clock24::from_ms(began)
        );
        let evidence = vec![
            ("silent", f64::from(parent.silent)),
            ("series", f64::from(parent.series)),
            ("evidence_ln", parent.evidence),
        ];
        self.lost.push(LostParent { pair: parent.pair, name: named, began, children: parent.silent });
        let finding =
            Finding { kind: FindingKind::LostParent, at: watermark, began, is_active: true, sentence, evidence };
        Some((labels, finding))
    }

    /// Parents with less than half silent are back; `silent` counts by pair.
    pub(super) fn returned(&mut self, silent: impl Fn(Pair) -> u32, watermark: WallMs) -> Vec<(Pair, String, Finding)> {
        let counts = &self.counts;
        let mut back = Vec::new();
        self.lost.retain(|lost| {
            let (silent, series) = (silent(lost.pair), counts.get(&lost.pair).copied().unwrap_or(0));
            let is_back = silent * 2 <= series;
            if is_back {
                let since = Clock24::from_ms(lost.began);
                let sentence = format!(
                    "{} is back: {} of its {series} series, lost since {since}",
                    lost.name,
                    series - silent.min(series)
                );
                let evidence = vec![("children", f64::from(lost.children)), ("silent", f64::from(silent))];
                let finding = Finding {
                    kind: FindingKind::LostParent,
                    at: watermark,
                    began: lost.began,
                    is_active: false,
                    sentence,
                    evidence,
                };
                back.push((lost.pair, lost.name.clone(), finding));
            }
            !is_back
        });
        back
    }
}
