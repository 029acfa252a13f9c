//! What became of the samples of each sender: the ledger of a protocol, divided by who sent.
//!
//! Invariants: the rows and the forgotten together hold every batch that [`crate::submission`] counted. Of a source
//! that numbers its batches one by one, a number below its highest that never came is missing.
//! Limits: `SENDERS_MAX` rows, the one that was silent longest goes for a new one and is added to the forgotten of its
//! protocol; `NAME_BYTES_MAX` of a name.
//! Threads: whoever replies to a batch holds the lock for one look-up.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use ogive_model::{SourceId, Tenant, Verdict, WallNs};

use crate::backend::Refusal;
use crate::protocol::Protocol;

/// 1,000 senders: at about 400 bytes each less than half a MiB.
const SENDERS_MAX: usize = 1_000;
/// 256 bytes of a login, an address or a target; the rest is left out.
const NAME_BYTES_MAX: usize = 256;
/// A number that is further ahead than this is a new beginning: nobody lost 10,000 batches in a row and says nothing
/// else of it.
const JUMP_MAX: u64 = 10_000;

tokio::task_local! {
    /// Who sent what this task hands to the backend.
    static SENDER: Arc<str>;
}

/// Does `work` in the name of `sender`: a login, an address, a target.
pub async fn sent_by<T>(sender: Arc<str>, work: impl Future<Output = T>) -> T {
    SENDER.scope(sender, work).await
}

/// Whose samples a batch has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sender {
    /// The tenant that they are stored for.
    pub tenant: Tenant,
    /// How they came.
    pub protocol: Protocol,
    /// The login, address or target; empty where the protocol knows none.
    pub name: Arc<str>,
    /// The source of a native batch that its sender numbered.
    pub source: Option<SourceId>,
}

impl Sender {
    /// The sender of what this task hands over.
    pub fn current(tenant: Tenant, protocol: Protocol, source: Option<SourceId>) -> Self {
        let name = SENDER.try_with(Arc::clone).unwrap_or_default();
        let end = name.floor_char_boundary(NAME_BYTES_MAX);
        let name = if end == name.len() { name } else { name[..end].into() };
        Self { tenant, protocol, name, source }
    }
}

/// What became of samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Batches that were answered.
    pub batches: u64,
    /// Samples that are stored.
    pub accepted: u64,
    /// Samples that were stored before.
    pub duplicate: u64,
    /// Samples that were rejected, by reason.
    pub rejected: BTreeMap<&'static str, u64>,
    /// Samples of batches that were refused, by reason: they are to be sent again and then count again.
    pub refused: BTreeMap<&'static str, u64>,
    /// Requests that could not be read, by reason.
    pub unreadable: BTreeMap<&'static str, u64>,
    /// Batches whose numbers were left out.
    pub missing: u64,
    /// When the first came; the epoch for none.
    pub first: WallNs,
    /// When the last came.
    pub last: WallNs,
}

impl Account {
    fn heard(&mut self, now: WallNs) {
        if self.first == WallNs(0) {
            self.first = now;
        }
        self.last = self.last.max(now);
    }

    fn add(&mut self, samples: u64, outcome: &Result<Verdict, Refusal>) {
        self.batches += 1;
        match outcome {
            Ok(verdict) => {
                self.accepted += verdict.accepted;
                self.duplicate += verdict.duplicate;
                for (_, reason) in &verdict.rejected {
                    *self.rejected.entry(reason.as_str()).or_default() += 1;
                }
            }
            Err(refusal) => *self.refused.entry(refusal.reason()).or_default() += samples,
        }
    }

    fn merge(&mut self, other: &Self) {
        self.first = if self.first == WallNs(0) { other.first } else { self.first.min(other.first) };
        self.last = self.last.max(other.last);
        self.batches += other.batches;
        self.accepted += other.accepted;
        self.duplicate += other.duplicate;
        self.missing += other.missing;
        let Self { rejected, refused, unreadable, .. } = self;
        let pairs = [(rejected, &other.rejected), (refused, &other.refused), (unreadable, &other.unreadable)];
        for (mine, others) in pairs {
            others.iter().for_each(|(reason, count)| *mine.entry(reason).or_default() += count);
        }
    }
}

/// Which of the last 128 numbers of a source came.
#[derive(Clone, Copy, Debug, Default)]
struct Numbered {
    /// None until the first came.
    highest: Option<u64>,
    /// Bit `n`: `highest - n` came.
    seen: u128,
}

impl Numbered {
    /// Takes a number, and returns how many more, or fewer, are missing now.
    fn take(&mut self, number: u64) -> i64 {
        let Some(highest) = self.highest else {
            // Those below the first are nobody's loss: the server may have come later.
            *self = Self { highest: Some(number), seen: u128::MAX };
            return 0;
        };
        if number > highest {
            let ahead = number - highest;
            if ahead > JUMP_MAX {
                *self = Self { highest: Some(number), seen: u128::MAX };
                return 0;
            }
            self.seen = if ahead >= 128 { 1 } else { self.seen << ahead | 1 };
            self.highest = Some(number);
            return ahead as i64 - 1;
        }
        let bit = match highest - number {
            behind @ 0..128 => 1_u128 << behind,
            _ => return 0,
        };
        let is_new = self.seen & bit == 0;
        self.seen |= bit;
        -i64::from(is_new)
    }
}

#[derive(Debug, Default)]
struct Row {
    account: Account,
    numbered: Numbered,
}

#[derive(Debug, Default)]
struct Table {
    rows: HashMap<Sender, Row>,
    forgotten: BTreeMap<Protocol, Account>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Senders(Mutex<Table>);

impl Senders {
    /// Counts what became of a batch of `samples`, the one with the number `sequence` of its source.
    pub fn count(&self, sender: &Sender, sequence: u64, samples: u64, outcome: &Result<Verdict, Refusal>, now: WallNs) {
        self.change(sender, now, |row| {
            row.account.add(samples, outcome);
            // One that was refused comes again under its number.
            if sender.source.is_some() && outcome.is_ok() {
                let change = row.numbered.take(sequence);
                row.account.missing = row.account.missing.saturating_add_signed(change);
            }
        });
    }

    /// Counts samples that were known to be duplicates before they were in a batch.
    pub fn duplicate(&self, sender: &Sender, samples: u64, now: WallNs) {
        self.change(sender, now, |row| row.account.duplicate += samples);
    }

    /// Counts a request that could not be read.
    pub fn unreadable(&self, sender: &Sender, reason: &'static str, now: WallNs) {
        self.change(sender, now, |row| *row.account.unreadable.entry(reason).or_default() += 1);
    }

    fn change(&self, sender: &Sender, now: WallNs, change: impl FnOnce(&mut Row)) {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !table.rows.contains_key(sender) {
            if table.rows.len() >= SENDERS_MAX {
                table.forget_one();
            }
            table.rows.insert(sender.clone(), Row::default());
        }
        if let Some(row) = table.rows.get_mut(sender) {
            row.account.heard(now);
            change(row);
        }
        assert!(table.rows.len() <= SENDERS_MAX, "{} senders", table.rows.len());
    }

    /// The senders of `tenant`, or all of them, who sent last first; and those that were forgotten, by protocol.
    pub fn rows(&self, tenant: Option<&Tenant>) -> (Vec<(Sender, Account)>, BTreeMap<Protocol, Account>) {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = table.rows.iter().filter(|(sender, _)| tenant.is_none_or(|tenant| sender.tenant == *tenant));
        let mut rows: Vec<_> = wanted.map(|(sender, row)| (sender.clone(), row.account.clone())).collect();
        let forgotten = if tenant.is_none() { table.forgotten.clone() } else { BTreeMap::new() };
        drop(table);
        let key = |sender: &Sender| (sender.protocol, sender.name.clone(), sender.source.map(|source| source.0));
        rows.sort_by(|a, b| b.1.last.cmp(&a.1.last).then_with(|| key(&a.0).cmp(&key(&b.0))));
        (rows, forgotten)
    }
}

impl Table {
    /// Adds the one that was silent longest to the forgotten.
    fn forget_one(&mut self) {
        let silent = self.rows.iter().min_by_key(|(_, row)| row.account.last).map(|(sender, _)| sender.clone());
        let Some(sender) = silent else { return };
        if let Some(row) = self.rows.remove(&sender) {
            self.forgotten.entry(sender.protocol).or_default().merge(&row.account);
        }
    }
}

#[cfg(test)]
mod tests {
    use ogive_model::Reason;

    use super::*;

    fn sender(name: &str, source: Option<u128>) -> Sender {
        let protocol = if source.is_some() { Protocol::Batch } else { Protocol::Otlp };
        Sender { tenant: Tenant::default(), protocol, name: name.into(), source: source.map(SourceId) }
    }

    fn accepted(accepted: u64) -> Result<Verdict, Refusal> {
        Ok(Verdict { accepted, ..Verdict::default() })
    }

    #[test]
    fn every_sample_is_in_the_row_of_its_sender() {
        let senders = Senders::default();
        let rejected = vec![(0, Reason::TimeTooNew), (3, Reason::TimeTooNew), (4, Reason::KindConflict)];
        let mixed = Ok(Verdict { accepted: 5, duplicate: 2, folded: 1, rejected });
        senders.count(&sender("a", None), 7, 10, &mixed, WallNs(1));
        senders.count(&sender("a", None), 3, 7, &Err(Refusal::Busy), WallNs(5));
        senders.count(&sender("b", None), 1, 4, &accepted(4), WallNs(3));
        senders.unreadable(&sender("a", None), "malformed", WallNs(6));
        senders.duplicate(&sender("b", None), 3, WallNs(3));
        let (rows, forgotten) = senders.rows(None);
        let expected = Account {
            batches: 2,
            accepted: 5,
            duplicate: 2,
            rejected: BTreeMap::from([("time_too_new", 2), ("kind_conflict", 1)]),
            refused: BTreeMap::from([("busy", 7)]),
            unreadable: BTreeMap::from([("malformed", 1)]),
            missing: 0,
            first: WallNs(1),
            last: WallNs(6),
        };
        assert_eq!(rows[0], (sender("a", None), expected));
        let b = &rows[1];
        assert_eq!((&*b.0.name, b.1.accepted, b.1.duplicate), ("b", 4, 3));
        assert_eq!((rows.len(), forgotten.len()), (2, 0));
        assert!(senders.rows(Some(&Tenant::new("other").unwrap())).0.is_empty());
    }

    #[test]
    fn numbers_that_never_came_are_missing_until_they_come() {
        let senders = Senders::default();
        let missing = |numbers: &[u64]| {
            let of = sender("a", Some(9));
            numbers.iter().for_each(|number| senders.count(&of, *number, 1, &accepted(1), WallNs(1)));
            senders.rows(None).0[0].1.missing
        };
        assert_eq!(missing(&[40, 41, 39]), 0, "what is below the first is not known to be missing");
        assert_eq!(missing(&[45]), 3);
        assert_eq!(missing(&[43, 43, 45]), 2, "one came late, and once");
        assert_eq!(missing(&[300]), 2 + 254);
        assert_eq!(missing(&[42]), 2 + 254, "too late to know");
        assert_eq!(missing(&[300 + JUMP_MAX]), 2 + 254 + JUMP_MAX - 1);
        assert_eq!(missing(&[1_700_000_000_000]), 2 + 254 + JUMP_MAX - 1, "numbers that are no count");
    }

    /// Any order of numbers, against a set of those that came.
    #[test]
    fn what_is_missing_is_what_a_set_says() {
        let mut seed = 0x2545_f491_4f6c_dd1d_u64;
        let mut random = move |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        for _ in 0..200 {
            let (mut numbered, mut missing) = (Numbered::default(), 0_i64);
            let (mut came, mut next) = (std::collections::BTreeSet::new(), 1_000);
            for step in 0..60 {
                let number =
                    if step == 0 || random(3) > 0 { next } else { next - 1 - random((next - 1_000).clamp(1, 20)) };
                next = next.max(number) + 1 + random(2);
                missing += numbered.take(number);
                came.insert(number);
                let (first, last) = (1_000, *came.last().unwrap());
                let inside = came.iter().filter(|number| **number >= first).count() as u64;
                assert_eq!(missing, (last - first + 1 - inside) as i64, "{came:?}");
            }
        }
    }

    #[test]
    fn a_refused_batch_comes_again_under_its_number() {
        let senders = Senders::default();
        for (number, outcome) in [(1, accepted(1)), (2, Err(Refusal::Busy)), (3, accepted(1)), (2, accepted(1))] {
            senders.count(&sender("a", Some(1)), number, 1, &outcome, WallNs(1));
        }
        let (rows, _) = senders.rows(None);
        assert_eq!((rows[0].1.missing, rows[0].1.accepted, rows[0].1.refused["busy"]), (0, 3, 1));
    }

    #[test]
    fn who_was_silent_longest_is_forgotten_and_the_sum_stays() {
        let senders = Senders::default();
        for at in 0..=SENDERS_MAX as u64 {
            senders.count(&sender(&format!("s{at}"), None), 0, 2, &accepted(2), WallNs(1 + at as i64));
        }
        let (rows, forgotten) = senders.rows(None);
        assert_eq!((rows.len(), &*rows[0].0.name), (SENDERS_MAX, &*format!("s{SENDERS_MAX}")));
        assert!(rows.iter().all(|(sender, _)| &*sender.name != "s0"));
        assert_eq!(forgotten[&Protocol::Otlp].accepted, 2);
        let sum: u64 = rows.iter().map(|(_, account)| account.accepted).chain([2]).sum();
        assert_eq!(sum, 2 * (SENDERS_MAX as u64 + 1));
    }

    #[tokio::test]
    async fn a_batch_is_of_whom_its_task_answers() {
        let of = || Sender::current(Tenant::default(), Protocol::Otlp, None);
        assert_eq!(&*of().name, "");
        let long: Arc<str> = "ä".repeat(NAME_BYTES_MAX).into();
        sent_by(long, async { assert_eq!(of().name.len(), NAME_BYTES_MAX) }).await;
        sent_by("10.0.0.7".into(), async { assert_eq!(&*of().name, "10.0.0.7") }).await;
    }
}
