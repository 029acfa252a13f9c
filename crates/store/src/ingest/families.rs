//! To which family a new series belongs: senders declare series after each other that differ in a few labels.
//!
//! Invariants: a series is of a family that it fits.
//! Limits: [`FAMILIES_MAX`] sets of names are remembered, with the newest family of each; then all are forgotten, and
//! series found new ones. A series of more than [`LABELS_BYTES_MAX`], or of more labels than a sender may declare, is
//! alone in its family. Families are counted with the series that are registered ([`Owned::join_family`]); what is
//! remembered beyond them is within these limits.
//! Threads: the journal writer only.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::Arc;

use ogive_model::{Labels, SeriesDef, Tenant};

use crate::ingest::owned::{Family, Owned, put_differences};

/// 4,096 sets of names: as many metrics as large sites have, 2 MiB with two sets of labels each.
const FAMILIES_MAX: usize = 4096;
/// 2 KiB, five times the labels of a series of Kubernetes: those of all that are remembered take 16 MiB at most.
const LABELS_BYTES_MAX: usize = 2048;
/// A family takes some 100 bytes beside its labels, which are to be saved in a few series.
const FOUNDING_BYTES: usize = 16;

/// A series that is no further from its family than usual is compared with the one before it at every sixteenth: that
/// costs as much as comparing it with its family.
const LOOK_INTERVAL: u8 = 16;

/// A family, and what helps to see when another one begins.
struct Recent {
    family: Arc<Family>,
    /// Of the series that last came to it.
    last: Labels,
    /// In so many bytes its series usually differ from each other.
    usual: usize,
    /// Series that came to it, modulo 256.
    count: u8,
}

/// See the module.
#[derive(Default)]
pub(super) struct Families {
    /// By what the series of a family have in common.
    recent: HashMap<u64, Recent>,
    state: RandomState,
    /// Under which the last series was found.
    newest: u64,
    /// Room for the differences of a series from its family.
    differences: String,
}

impl Families {
    /// A new series. It founds a family when it is much more like the one before it than like their family: the next
    /// ones are of another host.
    pub(super) fn owned(&mut self, tenant: &Tenant, def: &SeriesDef) -> Owned {
        // The server's own rules add labels to those of a series: the places of more have no room in the differences.
        let has_places = def.labels.len() <= Labels::COUNT_MAX;
        if !has_places || def.labels.memory_bytes() > LABELS_BYTES_MAX {
            return Owned::new(&Family::new(tenant, def), &def.labels);
        }
        if !self.is_of(self.newest, tenant, def) {
            self.newest = self.key(tenant, def);
            if !self.is_of(self.newest, tenant, def) {
                return self.found(tenant, def);
            }
        }
        let Self { recent, differences, newest, .. } = self;
        let recent = recent.get_mut(newest).expect("it was just found");
        let last = std::mem::replace(&mut recent.last, def.labels.clone());
        let bytes = differences.len();
        recent.count = recent.count.wrapping_add(1);
        let is_turn = recent.count.is_multiple_of(LOOK_INTERVAL);
        if is_turn || bytes > 2 * recent.usual + FOUNDING_BYTES {
            let to_last = bytes_of_differences(&last, &def.labels);
            let is_much_nearer = bytes > 2 * to_last + FOUNDING_BYTES;
            if is_turn || is_much_nearer || recent.usual == 0 {
                recent.usual = to_last;
            }
            if is_much_nearer {
                recent.family = Family::new(tenant, def);
                return Owned::new(&recent.family, &def.labels);
            }
        }
        Owned::with_differences(&recent.family, differences)
    }

    /// Whether a series can be of the family under `key`; then its differences from it are there.
    fn is_of(&mut self, key: u64, tenant: &Tenant, def: &SeriesDef) -> bool {
        self.differences.clear();
        self.recent.get(&key).is_some_and(|Recent { family, .. }| {
            family.tenant() == tenant
                && *family.meta() == def.meta
                && put_differences(&mut self.differences, family.labels(), &def.labels)
        })
    }

    /// The first series of its family, which is the newest.
    fn found(&mut self, tenant: &Tenant, def: &SeriesDef) -> Owned {
        if self.recent.len() >= FAMILIES_MAX {
            self.recent.clear();
        }
        let family = Family::new(tenant, def);
        let owned = Owned::new(&family, &def.labels);
        self.recent.insert(self.newest, Recent { family, last: def.labels.clone(), usual: 0, count: 0 });
        assert!(self.recent.len() <= FAMILIES_MAX, "{} families are remembered", self.recent.len());
        owned
    }

    fn key(&self, tenant: &Tenant, def: &SeriesDef) -> u64 {
        let mut hasher = self.state.build_hasher();
        (tenant, &def.meta).hash(&mut hasher);
        def.labels.iter().for_each(|(name, _)| name.hash(&mut hasher));
        hasher.finish()
    }
}

/// Bytes of the values in which series with the same names differ.
fn bytes_of_differences(of: &Labels, labels: &Labels) -> usize {
    let differing = of.iter().zip(labels.iter()).filter(|(of, own)| of.1 != own.1);
    differing.map(|(_, own)| own.1.len() + 2).sum()
}

#[cfg(test)]
mod tests {
    use ogive_model::{Kind, SeriesMeta, Temporality};

    use super::*;

    fn def(host: usize, path: usize) -> SeriesDef {
        let labels = [
            ("__name__", "requests_total".to_owned()),
            ("cluster", format!("cluster-{}", host % 7)),
            ("host", format!("node-{host:06}.example.org")),
            ("instance", format!("10.0.0.{host}:9100")),
            ("job", "some-job-of-these".to_owned()),
            ("path", format!("/v1/{path}")),
        ];
        let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
        SeriesDef::new(labels, meta).unwrap()
    }

    #[test]
    fn series_of_one_host_take_what_differs() {
        let (mut families, tenant) = (Families::default(), Tenant::default());
        let mut bytes = 0;
        for series in 0..1000 {
            let def = def(series / 100, series % 100);
            let owned = families.owned(&tenant, &def);
            assert_eq!(owned.def(), def);
            bytes += owned.join_family();
        }
        assert!(bytes < 1000 * 60, "{bytes} bytes");
        assert_eq!(families.recent.len(), 1);
    }

    #[test]
    fn labels_up_to_a_size_are_remembered() {
        let (mut families, tenant) = (Families::default(), Tenant::default());
        let room = LABELS_BYTES_MAX - Labels::new([("a", "x".repeat(200))]).unwrap().memory_bytes() + 200;
        for (length, remembered) in [(room + 1, 0), (room, 1)] {
            let def = SeriesDef { labels: Labels::new([("a", "x".repeat(length))]).unwrap(), ..def(1, 1) };
            assert_eq!(families.owned(&tenant, &def).def(), def);
            assert_eq!(families.recent.len(), remembered, "{length}");
        }
    }

    /// The place of a label behind those that a sender may declare has no room in the differences: the second such
    /// series would end the journal writer.
    #[test]
    fn a_series_of_more_labels_than_may_be_declared_is_alone() {
        let (mut families, tenant) = (Families::default(), Tenant::default());
        let most = Labels::new((0..Labels::COUNT_MAX).map(|at| (format!("l{at:03}"), "v"))).unwrap();
        for value in ["1", "2"] {
            let def = SeriesDef { labels: most.with("z", value), ..def(1, 1) };
            assert!(def.labels.memory_bytes() <= LABELS_BYTES_MAX);
            assert_eq!(families.owned(&tenant, &def).def(), def);
            assert_eq!(families.recent.len(), 0);
        }
    }

    #[test]
    fn sets_of_names_are_remembered_up_to_a_limit() {
        let (mut families, tenant) = (Families::default(), Tenant::default());
        for number in 0..=FAMILIES_MAX {
            let def = SeriesDef { labels: Labels::new([(format!("label{number}"), "v")]).unwrap(), ..def(1, 1) };
            assert_eq!(families.owned(&tenant, &def).def(), def);
            assert_eq!(families.recent.len(), if number == FAMILIES_MAX { 1 } else { number + 1 });
        }
    }

    #[test]
    fn other_names_properties_and_tenants_are_other_families() {
        let mut families = Families::default();
        let (tenant, other) = (Tenant::default(), Tenant::new("other").unwrap());
        let of = |name: &str| SeriesDef { labels: Labels::new([("__name__", "m"), (name, "v")]).unwrap(), ..def(1, 1) };
        let with_unit = SeriesDef { meta: SeriesMeta { unit: "s".into(), ..def(1, 1).meta }, ..of("a") };
        let all = [(&tenant, of("a")), (&other, of("a")), (&tenant, of("b")), (&tenant, with_unit)];
        for (tenant, def) in all.iter().chain(&all) {
            let owned = families.owned(tenant, def);
            assert_eq!((owned.tenant(), owned.def()), (*tenant, def.clone()));
        }
        assert_eq!(families.recent.len(), 4);
    }
}
