//! What was deleted: records in the cluster that every node reads, and that hide samples.
//!
//! Format: docs/formats/cassandra.md.
//! Invariants: a deletion hides what arrived at a node before it, wherever that is by then: in the tables, in the spool
//! of a node, at a copy that was away. What arrives later for the same times is shown. Rows carry the time of arrival
//! as their write time, so a deletion in Cassandra at the time of the record removes the same rows.
//! Limits: [`RECORDS_MAX`] records, [`BODY_BYTES_MAX`] each, checked when they are written and when they are read.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ogive_model::{MatchOp, Matcher, Tenant, TimeRange};
use serde_json::{Value, json};
use twox_hash::XxHash3_64;

use crate::Error;
use crate::hidden::Hidden;
use crate::index::CatalogSeries;

/// 4,096: each is looked at for each series of a query.
pub(crate) const RECORDS_MAX: usize = 4_096;
/// 256 KiB of selectors.
const BODY_BYTES_MAX: usize = 256 << 10;

/// One deletion.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Deletion {
    /// Microseconds since 1970, by the cluster's clock: what arrived until then is hidden.
    pub(crate) at_us: i64,
    pub(crate) tenant: Tenant,
    /// Series that one of these selects.
    pub(crate) selectors: Vec<Vec<Matcher>>,
    /// Samples in it.
    pub(crate) range: TimeRange,
}

impl Deletion {
    /// The record and its digest.
    pub(crate) fn encode(&self) -> Result<(i64, Vec<u8>), Error> {
        let matcher = |one: &Matcher| json!([one.name, one.op.as_str(), one.value]);
        let selectors: Vec<Value> =
            self.selectors.iter().map(|all| all.iter().map(matcher).collect::<Vec<_>>().into()).collect();
        let TimeRange { start, end } = self.range;
        let body = json!({"tenant": self.tenant.as_str(), "start": start.0, "end": end.0, "selectors": selectors});
        let body = body.to_string().into_bytes();
        if body.len() > BODY_BYTES_MAX {
            return Err(Error::Local(format!("the selectors take more than {BODY_BYTES_MAX} bytes; give fewer")));
        }
        Ok((digest(self.at_us, &body), body))
    }

    /// What [`Deletion::encode`] gave.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub(crate) fn decode(at_us: i64, stored: i64, body: &[u8]) -> Result<Self, Error> {
        let corrupt = |what: &str| Error::Corrupt(format!("a deletion: {what}"));
        if body.len() > BODY_BYTES_MAX || digest(at_us, body) != stored {
            return Err(corrupt("its digest is not that of its bytes"));
        }
        let record: Value = serde_json::from_slice(body).map_err(|error| corrupt(&error.to_string()))?;
        let time = |name: &str| record[name].as_i64().ok_or_else(|| corrupt("it has no range"));
        let range = TimeRange::from_ms(time("start")?, time("end")?);
        let tenant = match record["tenant"].as_str() {
            None => return Err(corrupt("it has no tenant")),
            Some("") => Tenant::default(),
            Some(name) => Tenant::new(name).map_err(|error| corrupt(&error.to_string()))?,
        };
        let all = record["selectors"].as_array().ok_or_else(|| corrupt("it has no selectors"))?;
        let selectors = all.iter().map(selector).collect::<Option<_>>().ok_or_else(|| corrupt("a selector is none"))?;
        Ok(Self { at_us, tenant, selectors, range })
    }

    /// Whether it is about a series.
    pub(crate) fn selects(&self, known: &CatalogSeries) -> bool {
        self.selectors.iter().any(|matchers| known.is_selected(&self.tenant, matchers))
    }
}

fn selector(value: &Value) -> Option<Vec<Matcher>> {
    let one = |value: &Value| {
        let text = |at: usize| value[at].as_str();
        Matcher::from_stored(text(0)?, MatchOp::parse(text(1)?)?, text(2)?).ok()
    };
    value.as_array()?.iter().map(one).collect()
}

fn digest(at_us: i64, body: &[u8]) -> i64 {
    XxHash3_64::oneshot_with_seed(at_us as u64, body) as i64
}

/// Those of a cluster, as far as this node knows.
#[derive(Debug, Default)]
pub(crate) struct Deletions {
    /// Ascending by time.
    all: Mutex<Vec<Deletion>>,
    /// Time and digest of those that were read.
    read: Mutex<HashSet<(i64, i64)>>,
}

impl Deletions {
    fn all(&self) -> MutexGuard<'_, Vec<Deletion>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes up records as they are stored; each is decoded once. One that cannot be is an error: what it hides must
    /// not show.
    pub(crate) fn learn_stored(&self, stored: Vec<(i64, i64, Vec<u8>)>) -> Result<(), Error> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        for (at_us, digest, body) in stored {
            if !read.contains(&(at_us, digest)) {
                self.learn(vec![Deletion::decode(at_us, digest, &body)?]);
                read.insert((at_us, digest));
            }
        }
        Ok(())
    }

    /// Takes up more; what is known stays, since one copy alone may not have it.
    pub(crate) fn learn(&self, found: Vec<Deletion>) {
        let mut all = self.all();
        for one in found {
            if !all.contains(&one) {
                all.push(one);
            }
        }
        all.sort_by_key(|one| one.at_us);
    }

    pub(crate) fn count(&self) -> usize {
        self.all().len()
    }

    pub(crate) fn list(&self) -> Vec<Deletion> {
        self.all().clone()
    }

    /// What is hidden of a series.
    pub(crate) fn hidden(&self, known: &CatalogSeries) -> Hidden {
        self.all().iter().filter(|one| one.selects(known)).map(|one| (one.range, one.at_us)).collect()
    }

    /// How many were made before something arrived: a row is of pieces with one number.
    pub(crate) fn before(&self, arrived_us: i64) -> usize {
        self.all().partition_point(|one| one.at_us < arrived_us)
    }

    /// Whether a minute of a series was ever deleted as a whole, so that rows of it may rightly be gone.
    pub(crate) fn covers(&self, known: &CatalogSeries, minute: i32) -> bool {
        let (from, to) = (i64::from(minute) * 60_000 - 1, i64::from(minute) * 60_000 + 59_999);
        let is_whole = |one: &Deletion| one.range.start.0 <= from && to <= one.range.end.0;
        self.all().iter().any(|one| is_whole(one) && one.selects(known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hidden::is_hidden;
    use ogive_model::{Kind, SeriesDef, SeriesMeta, Temporality, WallMs};

    fn deletion() -> Deletion {
        let matcher = |op, value: &str| Matcher::new("host", op, value).unwrap();
        Deletion {
            at_us: 77,
            tenant: Tenant::new("t").unwrap(),
            selectors: vec![
                vec![matcher(MatchOp::Equal, "a"), matcher(MatchOp::NotRegex, "b\".*")],
                vec![matcher(MatchOp::NotEqual, ""), matcher(MatchOp::Regex, "c|d")],
            ],
            range: TimeRange::from_ms(i64::MIN, 5),
        }
    }

    #[test]
    fn a_record_comes_back_and_a_changed_one_does_not() {
        let one = deletion();
        let (digest, body) = one.encode().unwrap();
        assert_eq!(Deletion::decode(77, digest, &body).unwrap(), one);
        assert!(Deletion::decode(78, digest, &body).is_err());
        for at in 0..body.len() {
            let mut body = body.clone();
            body[at] ^= 4;
            assert!(Deletion::decode(77, digest, &body).is_err());
        }
    }

    /// Changed bytes whose digest fits all the same.
    #[test]
    fn sealed_nonsense_is_a_deletion_or_an_error() {
        let (_, body) = deletion().encode().unwrap();
        let mut read = 0;
        crate::mutations::mutations(&body, 20_000, 6, &[], |changed| {
            read += u64::from(Deletion::decode(1, digest(1, changed), changed).is_ok());
        });
        assert!(read > 0, "some are deletions");
    }

    #[test]
    fn what_came_before_is_hidden_and_what_came_later_is_not() {
        let hidden: Hidden = vec![(TimeRange::from_ms(10, 20), 5)];
        let is = |time_ms, arrived_us| is_hidden(&hidden, WallMs(time_ms), arrived_us);
        assert_eq!((is(10, 1), is(11, 5), is(20, 5), is(21, 1), is(15, 6)), (false, true, true, false, false));
        let deletions = Deletions::default();
        deletions.learn(vec![Deletion { range: TimeRange::from_ms(-1, 119_999), ..deletion() }]);
        assert_eq!((deletions.before(77), deletions.before(78)), (0, 1));
        let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
        let known = |host: &str| {
            let (tenant, def) =
                (Tenant::new("t").unwrap(), SeriesDef::new([("__name__", "m"), ("host", host)], meta.clone()).unwrap());
            CatalogSeries { id: def.id(&tenant), tenant, def }
        };
        let covers = |host: &str, minute| deletions.covers(&known(host), minute);
        assert_eq!((covers("a", 0), covers("a", 1), covers("a", 2), covers("e", 0)), (true, true, false, false));
        assert_eq!(deletions.hidden(&known("c")).len(), 1);
    }
}
