//! What a series is: its labels, its kind, and what is known of its samples.

use twox_hash::{XxHash3_64, XxHash3_128};

use crate::error::within;
use crate::{Error, Labels, Tenant};

/// The type of a series' samples. Part of the series' identity: one name may have a float and a text series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// A number.
    Float = 0,
    /// A distribution.
    Histogram = 1,
    /// Words: a log line, a configuration, a state.
    Text = 2,
}

impl Kind {
    /// The number of kinds: one label set may have that many series.
    pub const COUNT: usize = Self::Text as usize + 1;

    /// Name in responses and labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Float => "float",
            Self::Histogram => "histogram",
            Self::Text => "text",
        }
    }
}

/// How the samples of a series relate to time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Temporality {
    /// The state at an instant.
    #[default]
    Gauge = 0,
    /// Everything since some start: a Prometheus counter or native histogram.
    Cumulative = 1,
    /// Only what happened in one cell.
    Delta = 2,
}

impl Temporality {
    /// Name in responses and labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Cumulative => "cumulative",
            Self::Delta => "delta",
        }
    }
}

/// Identity of a series: 128-bit xxh3 of its canonical label bytes, seeded with its tenant and its kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeriesId(pub u128);

impl SeriesId {
    /// The identity of `labels` with `kind` among the series of `tenant`. The seed is the kind's number for the
    /// default tenant, and for any other the 64-bit xxh3 of its name with that number as seed.
    #[must_use]
    pub fn from_labels(tenant: &Tenant, kind: Kind, labels: &Labels) -> Self {
        Self::from_canonical(tenant, kind, &labels.canonical_bytes())
    }

    /// As [`SeriesId::from_labels`], of labels whose [`Labels::canonical_bytes`] are at hand.
    #[must_use]
    pub fn from_canonical(tenant: &Tenant, kind: Kind, labels: &[u8]) -> Self {
        let kind = kind as u64;
        let seed =
            if tenant.is_default() { kind } else { XxHash3_64::oneshot_with_seed(kind, tenant.as_str().as_bytes()) };
        Self(XxHash3_128::oneshot_with_seed(seed, labels))
    }
}

impl std::fmt::Debug for SeriesId {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:032x}", self.0)
    }
}

/// The properties of a series other than its labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SeriesMeta {
    /// The type of its samples.
    pub kind: Kind,
    /// How they relate to time. That of a series that gets samples, or got some in the last hour, stays;
    /// another is refused as `kind_conflict`.
    pub temporality: Temporality,
    /// Base unit (`s`, `By`), or empty.
    pub unit: String,
    /// Width of a cell in milliseconds: a delta sample at t covers (t - width, t]. 0 when unknown.
    pub width_ms: u32,
}

/// A series as a batch declares it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SeriesDef {
    /// Labels, `__name__` included.
    pub labels: Labels,
    /// The rest.
    pub meta: SeriesMeta,
}

impl SeriesDef {
    /// 64 bytes for a unit: UCUM codes are a few letters.
    pub const UNIT_BYTES_MAX: usize = 64;

    /// A series from label pairs in any order.
    ///
    /// # Errors
    /// The errors of [`Labels::new`], [`Error::NoMetricName`], or [`Error::TooLarge`] for the unit.
    pub fn new<N: AsRef<str>, V: AsRef<str>>(
        pairs: impl IntoIterator<Item = (N, V)>,
        meta: SeriesMeta,
    ) -> Result<Self, Error> {
        let labels = Labels::new(pairs)?;
        if labels.metric_name().is_empty() {
            return Err(Error::NoMetricName);
        }
        within("a unit's bytes", meta.unit.len(), Self::UNIT_BYTES_MAX)?;
        Ok(Self { labels, meta })
    }

    /// The series' identity among those of `tenant`.
    #[must_use]
    pub fn id(&self, tenant: &Tenant) -> SeriesId {
        SeriesId::from_labels(tenant, self.meta.kind, &self.labels)
    }
}
