//! Sessions: a line that begins something and one that ends it, joined by an id into a duration.
//!
//! Invariants: a duration is in the batch of the line that completes its session, under that batch's number, and each
//! time that this batch comes; so it counts once, as every number does. It is in the cell of its end's time, whichever
//! line came first. Lines of different tenants are never joined.
//! Limits: [`ID_BYTES_MAX`] of an id, 256 bytes of a value, those of [`table`].
//! Failure: open lines are in memory alone; a restart forgets them, and counts ends whose begin it forgot as unmatched.

mod half;
mod settled;
mod table;
mod tally;

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ogive_model::{MonoNs, Ns, Tenant, WallNs};
use ogive_search::Query;

use crate::fields::{Fields, line_with};
use crate::measure::{Cells, Measure, Measured, VALUE_BYTES_MAX, cut, value};
use crate::tally::Tally;
pub(crate) use half::Origin;
use half::{Half, Side};
use settled::Pair;
use table::{Limits, Table};
pub use tally::{SessionOutcome, SessionTally};

/// 256 bytes: a UUID has 36, a trace id 32.
const ID_BYTES_MAX: usize = 256;

/// A rule.
pub(crate) struct Session {
    pub(crate) measure: Measure,
    /// The field with the id.
    id: String,
    begin: Query,
    end: Query,
    names: Vec<Name>,
    limits: Limits,
    table: Mutex<Table>,
    tally: SessionTally,
}

/// What a rule is made of.
pub(crate) struct SessionParts {
    pub(crate) measure: Measure,
    pub(crate) id: String,
    pub(crate) begin: Query,
    pub(crate) end: Query,
    pub(crate) open_max: usize,
    pub(crate) timeout: Ns,
}

/// A name in the rule's labels: of a field of either line, or of one of them (`begin.path`).
struct Name {
    whole: String,
    side: Option<Side>,
}

/// What a rule for sessions did.
#[derive(Debug)]
pub struct SessionReport<'s> {
    /// Its filter.
    pub filter: &'s str,
    /// The name of its histogram.
    pub name: &'s str,
    /// Lines that wait for the other one.
    pub open: usize,
    /// Bytes of those, and of the sessions that are remembered.
    pub memory_bytes: usize,
    /// What became of lines.
    pub tally: &'s SessionTally,
}

/// A line that may begin or end a session.
pub(crate) struct SessionLine<'e> {
    pub(crate) line: &'e Measured<'e>,
    /// Its own time, else the one that it is stored with.
    pub(crate) own_time: WallNs,
    pub(crate) tenant: &'e Tenant,
    pub(crate) origin: Origin,
    pub(crate) now: MonoNs,
}

impl Name {
    fn new(whole: &str) -> Self {
        let side = match whole.split_once('.') {
            Some(("begin", _)) => Some(Side::Begin),
            Some(("end", _)) => Some(Side::End),
            _ => None,
        };
        Self { whole: whole.to_owned(), side }
    }

    /// Its value in a line of `side`.
    fn value(&self, side: Side, line: &Measured<'_>) -> Option<Box<str>> {
        let name = match self.side {
            None => &*self.whole,
            Some(of) if of == side => self.whole.split_once('.').map_or("", |(_, name)| name),
            Some(_) => return None,
        };
        value(line.fields, line.labels, name).map(|value| cut(value, VALUE_BYTES_MAX).into())
    }
}

impl Session {
    pub(crate) fn new(parts: SessionParts) -> Self {
        let SessionParts { measure, id, begin, end, open_max, timeout } = parts;
        assert!(open_max > 0 && timeout > Ns::ZERO);
        let names: BTreeSet<&str> = measure.labels.iter().flat_map(|(_, template)| template.names()).collect();
        let names = names.into_iter().map(Name::new).collect();
        let limits = Limits { open_max, timeout };
        Self { measure, id, begin, end, names, limits, table: Mutex::default(), tally: SessionTally::default() }
    }

    /// Takes a line. When it completes a session, the duration is recorded in `cells`.
    pub(crate) fn take(&self, line: SessionLine<'_>, cells: &mut Cells, tally: &Tally) {
        let measured = line.line;
        let Some(side) = self.side(measured) else { return };
        let id = value(measured.fields, measured.labels, &self.id);
        let Some(id) = id.filter(|id| !id.is_empty() && id.len() <= ID_BYTES_MAX) else {
            self.tally.add(SessionOutcome::IdInvalid);
            return;
        };
        // No name of a tenant has a zero byte.
        let key = format!("{}\0{id}", line.tenant.as_str());
        let half = Half {
            side,
            origin: line.origin,
            arrived: line.now,
            own_time: line.own_time,
            time: measured.time,
            labels: measured.labels.clone(),
            values: self.names.iter().map(|name| name.value(side, measured)).collect(),
        };
        let pair = self.table().take(&key, half, self.limits, &self.tally);
        if let Some(pair) = pair {
            self.record(&pair, id, measured.tenant, cells, tally);
        }
    }

    /// Forgets what is too old.
    pub(crate) fn expire(&self, now: MonoNs) {
        self.table().expire(now, self.limits, &self.tally);
    }

    /// Forgets everything.
    pub(crate) fn forget(&self) {
        *self.table() = Table::default();
    }

    pub(crate) fn report<'s>(&'s self, filter: &'s str) -> SessionReport<'s> {
        let (name, table) = (&*self.measure.name, self.table());
        let (open, memory_bytes) = (table.len(), table.memory_bytes());
        SessionReport { filter, name, open, memory_bytes, tally: &self.tally }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which line of a session it is. One that matches both conditions begins.
    fn side(&self, line: &Measured<'_>) -> Option<Side> {
        let line = line_with(line.labels, line.text, line.fields);
        if self.begin.matches(&line) {
            return Some(Side::Begin);
        }
        self.end.matches(&line).then_some(Side::End)
    }

    fn record(&self, pair: &Pair, id: &str, tenant: u16, cells: &mut Cells, tally: &Tally) {
        let Pair { begin, end } = pair;
        let mut fields = Fields::default();
        for (at, name) in self.names.iter().enumerate() {
            if let Some(value) = end.values[at].as_ref().or(begin.values[at].as_ref()) {
                fields.push(&name.whole, value);
            }
        }
        let labels = end.labels.filtered(|name| begin.labels.get(name) == end.labels.get(name));
        let line = Measured { labels: &labels, fields: &fields, text: id, shown: "id", time: end.time, tenant };
        self.measure.record(pair.seconds(), &line, cells, tally);
    }
}
