//! What became of each sample of a batch: accepted, duplicate, or rejected with a counted reason.

/// Why a sample was rejected. The text form is a label value of `ogive_ingest_rejected_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// The series' labels break a rule of `Labels`.
    LabelsInvalid,
    /// The sample names a series that the batch does not declare.
    SeriesUnknown,
    /// The value is not of the series' kind, or the series is stored with another temporality.
    KindConflict,
    /// Too far ahead of the server's clock.
    TimeTooNew,
    /// Before the first time that can be stored.
    TimeTooOld,
    /// A start that is negative, or not before the sample's time.
    StartInvalid,
    /// Older than the tenant's retention.
    BeyondRetention,
    /// The histogram violates its scheme: bad bins, a count that does not add up, or NaN where it is not allowed.
    HistogramInvalid,
    /// The point violates another rule of its protocol: it has no value, no time, or no temporality.
    PointInvalid,
    /// The histogram's scheme does not merge with the existing cell.
    SchemeConflict,
    /// A text longer than the limit.
    TextTooLarge,
    /// The store holds the maximum number of series.
    SeriesLimit,
    /// Below the window in which the source's numbers are remembered: it may or may not be here already.
    SequenceTooOld,
}

impl Reason {
    /// Every reason, so that each one's counter exists from the start.
    pub const ALL: [Self; 13] = [
        Self::LabelsInvalid,
        Self::SeriesUnknown,
        Self::KindConflict,
        Self::TimeTooNew,
        Self::TimeTooOld,
        Self::StartInvalid,
        Self::BeyondRetention,
        Self::HistogramInvalid,
        Self::PointInvalid,
        Self::SchemeConflict,
        Self::TextTooLarge,
        Self::SeriesLimit,
        Self::SequenceTooOld,
    ];

    /// Name in counters and responses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LabelsInvalid => "labels_invalid",
            Self::SeriesUnknown => "series_unknown",
            Self::KindConflict => "kind_conflict",
            Self::TimeTooNew => "time_too_new",
            Self::TimeTooOld => "time_too_old",
            Self::StartInvalid => "start_invalid",
            Self::BeyondRetention => "beyond_retention",
            Self::HistogramInvalid => "histogram_invalid",
            Self::PointInvalid => "point_invalid",
            Self::SchemeConflict => "scheme_conflict",
            Self::TextTooLarge => "text_too_large",
            Self::SeriesLimit => "series_limit",
            Self::SequenceTooOld => "sequence_too_old",
        }
    }

    /// The name of the reason that `text` names, for counters by reason; `other` for text of another version.
    #[must_use]
    pub fn known_name(text: &str) -> &'static str {
        Self::ALL.into_iter().map(Self::as_str).find(|known| *known == text).unwrap_or("other")
    }
}

/// The outcome of a batch. `accepted + duplicate + rejected.len()` is the number of its samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Samples that are durable now.
    pub accepted: u64,
    /// Samples that were durable before: nothing changed.
    pub duplicate: u64,
    /// How many of the accepted ones are beyond a limit of their tenant: they are in its series `ogive_overflow`.
    pub folded: u64,
    /// The others, by index into the batch's samples.
    pub rejected: Vec<(u32, Reason)>,
}
