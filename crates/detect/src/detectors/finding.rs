//! What a detector reports: one sentence for people, the numbers behind it for machines.

use std::fmt;

use ogive_model::WallMs;

use super::instant::Clock24;

/// The kind of fault that a finding describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FindingKind {
    /// A series with a learned cadence did not arrive.
    Absence,
    /// Many series that share a label went silent together, or their source did.
    LostParent,
    /// Gaps or bad seconds that return with a fixed period.
    Instability,
    /// The share of slow (or fast) operations is no longer usual.
    Shape,
    /// A value reaches its limit within the horizon.
    Saturation,
    /// One of several siblings differs from the others.
    OddOne,
    /// A distribution differs from that of the same time a week before.
    LastWeek,
    /// A number left everything that its series did before.
    Novelty,
}

impl FindingKind {
    /// Every kind, in the order of the documents.
    pub const ALL: [Self; 8] = [
        Self::Absence,
        Self::LostParent,
        Self::Instability,
        Self::Shape,
        Self::Saturation,
        Self::OddOne,
        Self::LastWeek,
        Self::Novelty,
    ];

    /// The value of the label `kind`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Absence => "absence",
            Self::LostParent => "lost_parent",
            Self::Instability => "instability",
            Self::Shape => "shape",
            Self::Saturation => "saturation",
            Self::OddOne => "odd_one",
            Self::LastWeek => "last_week",
            Self::Novelty => "novelty",
        }
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A fault that a detector found, or its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Its kind.
    pub kind: FindingKind,
    /// The watermark at which it was decided.
    pub at: WallMs,
    /// When the fault began, as far as the data shows.
    pub began: WallMs,
    /// False when the fault is over, which the sentence then says.
    pub is_active: bool,
    /// One sentence that explains it.
    pub sentence: String,
    /// The numbers of the sentence and of the decision, by name.
    pub evidence: Vec<(&'static str, f64)>,
}

impl Finding {
    /// The number of that name in the evidence.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        self.evidence.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_active { "" } else { " (over)" };
        write!(f, "{} {}{state}: {}", Clock24::from_ms(self.at), self.kind, self.sentence)
    }
}
