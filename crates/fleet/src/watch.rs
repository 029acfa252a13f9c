//! Samples of a broker while somebody watches: what is asked for, and what the broker sends each second.
//!
//! Format: docs/formats/fleet.md; a number that JSON does not have is null.
//! Limits: [`WATCH_SERIES_MAX`], [`WATCH_CELLS_MAX`], [`WATCH_SUM_BINS_MAX`], [`WATCH_BYTES_MAX`],
//! [`BROKER_WATCHES_MAX`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// 100 series of a watch: more lines than anybody reads in a second.
pub const WATCH_SERIES_MAX: usize = 100;
/// 500 cells a second: five of each series, as senders bring them that come every five seconds.
pub const WATCH_CELLS_MAX: usize = 500;
/// 50,000 bins of the sum, 12 bytes each: log-linear-10 has 46,082 in all, so only finer schemes have more.
pub const WATCH_SUM_BINS_MAX: usize = 50_000;
/// 256 KiB a second: 500 cells with their labels and some quantiles, and 2 Mbit/s at most on a bad line.
pub const WATCH_BYTES_MAX: usize = 256 << 10;
/// 4 watches of a broker: each reads what comes once more.
pub const BROKER_WATCHES_MAX: usize = 4;
/// 16 KiB: a selector of a person.
const QUERY_BYTES_MAX: usize = 16 << 10;
/// 16 quantiles.
const QUANTILES_MAX: usize = 16;

/// Which samples somebody wants to see.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Watch {
    /// Whose series, as senders of the broker name it.
    pub tenant: String,
    /// A plain selector.
    pub query: String,
    /// Quantiles of each distribution, 0 to 1.
    #[serde(default)]
    pub quantiles: Vec<f64>,
}

impl Watch {
    /// Whether it is within its limits.
    ///
    /// # Errors
    /// A sentence on what is not.
    pub fn check(&self) -> Result<(), String> {
        if self.query.len() > QUERY_BYTES_MAX {
            return Err(format!("a selector of {} bytes; {QUERY_BYTES_MAX} are the most", self.query.len()));
        }
        if self.quantiles.len() > QUANTILES_MAX {
            return Err(format!("{} quantiles; {QUANTILES_MAX} are the most", self.quantiles.len()));
        }
        match self.quantiles.iter().find(|q| !(0.0..=1.0).contains(*q)) {
            Some(wrong) => Err(format!("the quantile {wrong} is not a number from 0 to 1")),
            None => Ok(()),
        }
    }
}

/// Samples that came to a broker in about a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchColumn {
    /// The broker's clock when it was sent, seconds since 1970.
    pub t: i64,
    /// All deltas of distributions in it, merged, but those that are left out.
    #[serde(flatten)]
    pub sum: WatchDistribution,
    /// The bins of that: `[lo, hi, count]`.
    #[serde(default)]
    pub bins: Vec<[Option<f64>; 3]>,
    /// Each series' seconds, by labels and time.
    #[serde(default)]
    pub cells: Vec<WatchCell>,
    /// What is not in the cells.
    #[serde(default)]
    pub left_out: LeftOut,
}

/// A second of a series, as far as it came with this column: what comes with other columns for the same second adds up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchCell {
    /// The end of the second by the samples' own times, seconds since 1970.
    pub t: i64,
    /// The series.
    pub labels: BTreeMap<String, String>,
    /// Its base unit, or empty.
    #[serde(default)]
    pub unit: String,
    /// `delta`, `cumulative` or `gauge`. Deltas add up; of others it is the newest sample.
    #[serde(default)]
    pub temporality: String,
    /// How many samples it was made of.
    pub samples: u64,
    /// A number, as a text; none for a distribution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// A distribution, without its bins; empty for a number.
    #[serde(flatten)]
    pub distribution: WatchDistribution,
}

/// What is shown of a distribution.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchDistribution {
    /// How many measurements, as a text.
    #[serde(default)]
    pub count: Option<String>,
    /// Their sum, if it is known.
    #[serde(default)]
    pub sum: Option<f64>,
    /// The least, if it is known.
    #[serde(default)]
    pub min: Option<f64>,
    /// The greatest, if it is known.
    #[serde(default)]
    pub max: Option<f64>,
    /// `[q, value, lo, hi]`.
    #[serde(default)]
    pub quantiles: Vec<[Option<f64>; 4]>,
}

/// What a column does not show of what came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LeftOut {
    /// Batches that were gone from memory before they could be read.
    pub batches: u64,
    /// Samples of series or seconds beyond the limits; deltas of distributions are in the sum nevertheless.
    pub samples: u64,
    /// Samples that are texts.
    pub texts: u64,
    /// Distributions whose scheme does not merge with that of the sum or of the cell.
    pub schemes: u64,
    /// Bins of the sum.
    pub bins: u64,
    /// Deltas of distributions that came when the sum had more than [`WATCH_SUM_BINS_MAX`] bins: it lacks them.
    pub deltas: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_has_limits() {
        let check = |bytes: usize, quantiles: Vec<f64>| {
            Watch { query: "x".repeat(bytes), quantiles, ..Watch::default() }.check().err().unwrap_or_default()
        };
        assert_eq!(check(QUERY_BYTES_MAX, vec![0.0; QUANTILES_MAX]), "");
        assert!(check(QUERY_BYTES_MAX + 1, vec![]).contains("16384 are the most"));
        assert!(check(1, vec![1.0; QUANTILES_MAX + 1]).contains("16 are the most"));
        for wrong in [-0.1, 1.1, f64::NAN] {
            assert!(check(1, vec![0.5, wrong]).contains("from 0 to 1"));
        }
    }

    #[test]
    fn a_column_is_written_as_it_is_read() {
        let distribution = WatchDistribution {
            count: Some("3".into()),
            sum: Some(0.5),
            min: None,
            max: Some(0.25),
            quantiles: vec![[Some(0.5), Some(0.1), Some(0.1), None]],
        };
        let labels = [("__name__".to_owned(), "up".to_owned())].into();
        let number = WatchCell { t: 8, labels, samples: 2, value: Some("+Inf".into()), ..WatchCell::default() };
        let of = WatchCell { t: 9, samples: 1, unit: "s".into(), distribution: distribution.clone(), ..number.clone() };
        let column = WatchColumn {
            t: 9,
            sum: distribution,
            bins: vec![[Some(0.1), None, Some(3.0)]],
            cells: vec![number, WatchCell { value: None, ..of }],
            left_out: LeftOut { texts: 1, ..LeftOut::default() },
        };
        let text = serde_json::to_string(&column).unwrap();
        assert!(
            text.starts_with(r#"{"t":9,"count":"3","sum":0.5,"min":null,"max":0.25,"quantiles":[[0.5,0.1,0.1,null]]"#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<WatchColumn>(&text).unwrap(), column);
        assert_eq!(serde_json::from_str::<WatchColumn>(r#"{"t":9}"#).unwrap().left_out, LeftOut::default());
    }
}
