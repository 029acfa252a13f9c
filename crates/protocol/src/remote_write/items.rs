//! A request as items of live cells: each sample with the identity of its series, which is computed from the labels in
//! place.
//!
//! Invariants: the identity is that of [`ogive_model::SeriesId`]. Labels that ascend and have no empty value, as the
//! specification requires, are hashed as they come; others take the slow path and give the same identity.

use ogive_model::{Kind, Labels, SeriesId, Tenant};
use ogive_stream::cells::{Item, ItemValue};

use super::v1::{self, Part, TimeSeries};
use crate::Error;

/// Reads requests; keeps what it needs for each.
#[derive(Debug, Default)]
pub struct ItemReader {
    tenant: Tenant,
    canonical: Vec<u8>,
}

/// What a request had beside the items that were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkippedItems {
    /// Samples of series whose labels break a rule, or whose time no cell has.
    pub bad: u64,
    /// Native histograms: they are cumulative, and a cell holds what happened in its second.
    pub histograms: u64,
}

impl ItemReader {
    /// For the series of `tenant`.
    #[must_use]
    pub fn new(tenant: &Tenant) -> Self {
        Self { tenant: tenant.clone(), canonical: Vec::new() }
    }

    /// Appends the float samples of the request in `message` to `items`.
    ///
    /// # Errors
    /// When the parts of the request cannot be distinguished from each other; what was read before stays.
    pub fn read(&mut self, message: &[u8], items: &mut Vec<Item>) -> Result<SkippedItems, Error> {
        let mut passed = SkippedItems::default();
        for part in v1::parts(message) {
            let Part::Series(series) = part? else { continue };
            let mut id = None;
            for sample in series.samples() {
                let sample = sample?;
                let id = *id.get_or_insert_with(|| self.identity(&series));
                match id.zip(sample.time_ms.checked_mul(1_000_000)) {
                    Some((series, time_ns)) => {
                        items.push(Item { series, time_ns, what: ItemValue::Number(sample.value) });
                    }
                    None => passed.bad += 1,
                }
            }
            for histogram in series.histograms() {
                histogram?;
                passed.histograms += 1;
            }
        }
        Ok(passed)
    }

    fn identity(&mut self, series: &TimeSeries<'_>) -> Option<SeriesId> {
        if series.label_bytes().is_ok_and(|labels| self.write_canonical(labels).is_some()) {
            return Some(SeriesId::from_canonical(&self.tenant, Kind::Float, &self.canonical));
        }
        let pairs: Vec<(&str, &str)> = series.labels().collect::<Result<_, _>>().ok()?;
        let labels = Labels::new(pairs).ok().filter(|labels| !labels.metric_name().is_empty())?;
        Some(SeriesId::from_labels(&self.tenant, Kind::Float, &labels))
    }

    /// Writes the canonical bytes of labels that keep every rule as they are: ASCII, ascending, none empty, none above
    /// 123 bytes with its name, each field once and in its place. Of any others nothing is said; they are looked at one
    /// by one. These are nearly all, and half of what reading a request costs.
    fn write_canonical(&mut self, labels: &[u8]) -> Option<()> {
        self.canonical.clear();
        if !labels.is_ascii() {
            return None;
        }
        let (mut rest, mut before, mut is_named, mut count) = (labels, &[][..], false, 0);
        while let [LABEL, length, NAME, name_length, behind @ ..] = rest {
            let (name, behind) = behind.split_at_checked(usize::from(*name_length))?;
            let [VALUE, value_length, behind @ ..] = behind else { return None };
            let (value, behind) = behind.split_at_checked(usize::from(*value_length))?;
            // All of them are below 128, since the bytes are ASCII.
            if usize::from(*length) != name.len() + value.len() + 4 || value.is_empty() || name <= before {
                return None;
            }
            is_named |= name == ogive_model::METRIC_NAME.as_bytes();
            for text in [name, value] {
                self.canonical.extend_from_slice(&(text.len() as u32).to_le_bytes());
                self.canonical.extend_from_slice(text);
            }
            (before, rest) = (name, behind);
            count += 1;
        }
        (rest.is_empty() && is_named && count <= Labels::COUNT_MAX).then_some(())
    }
}

/// The tags of fields 1 and 2 with bytes: a label of a series, and a label's name and value.
const LABEL: u8 = 1 << 3 | 2;
const NAME: u8 = 1 << 3 | 2;
const VALUE: u8 = 2 << 3 | 2;

// Texts of one length byte are within the limits of labels.
const _: () = assert!(Labels::NAME_BYTES_MAX >= 0x7f && Labels::VALUE_BYTES_MAX >= 0x7f);

#[cfg(test)]
mod tests {
    use ogive_model::{SourceId, Value};
    use proptest::prelude::*;

    use super::*;
    use crate::mutations::mutations;
    use crate::protobuf::write;

    /// Labels as senders write them, and as they should not: out of order, twice, empty.
    fn request(series: &[(Vec<(String, String)>, i64)]) -> Vec<u8> {
        let mut out = Vec::new();
        for (labels, time_ms) in series {
            let mut one = Vec::new();
            for (name, value) in labels {
                let mut pair = Vec::new();
                write::bytes(&mut pair, 1, name.as_bytes());
                write::bytes(&mut pair, 2, value.as_bytes());
                write::bytes(&mut one, 1, &pair);
            }
            let mut sample = Vec::new();
            write::double(&mut sample, 1, 0.5);
            write::number(&mut sample, 2, *time_ms as u64);
            write::bytes(&mut one, 2, &sample);
            write::bytes(&mut out, 1, &one);
        }
        out
    }

    /// The items that the batch of the same request would be.
    fn items_of_batch(message: &[u8], tenant: &Tenant) -> Option<Vec<Item>> {
        let batch = v1::read(message, tenant, SourceId(1), 1, None, |_| {}).ok()?.batch;
        let item = |sample: &ogive_model::Sample| {
            let Value::Float(value) = sample.value else { return None };
            let series = batch.series[sample.series as usize].as_ref().ok()?.id(tenant);
            Some(Item { series, time_ns: sample.time_ns, what: ItemValue::Number(value) })
        };
        Some(batch.samples.iter().flatten().filter_map(item).collect())
    }

    fn check(message: &[u8]) {
        for tenant in [Tenant::default(), Tenant::new("other").unwrap()] {
            let mut items = Vec::new();
            let read = ItemReader::new(&tenant).read(message, &mut items);
            let bits = |items: &[Item]| format!("{items:?}");
            match items_of_batch(message, &tenant) {
                Some(expected) => assert_eq!(bits(&items), bits(&expected)),
                None => assert!(read.is_err()),
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn items_have_the_identities_and_samples_of_the_batch(
            series in prop::collection::vec(
                (prop::collection::vec(("(__name__|[a-c]{0,2})", "([x-z]{0,2}|é|[x-z]{120,140})"), 0..5), any::<i64>()), 0..6),
        ) {
            check(&request(&series));
        }
    }

    #[test]
    fn damaged_requests_end_in_an_error_or_in_the_items_of_the_batch() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let labels = vec![pair("__name__", "up"), pair("instance", "a"), pair("job", "node")];
        let good = request(&[(labels.clone(), 1_700_000_000_000), (labels, -5)]);
        check(&good);
        mutations(&good, 5_000, 3, &[], check);
    }
}
