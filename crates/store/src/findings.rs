//! Findings: losses due to bad bytes, kept until an operator acknowledges them.
//!
//! Invariants: a finding is durable before the start or scrub that found it ends, and is removed only by an
//! acknowledgement; finding the same loss again does not add another. Answers whose range may overlap a loss that
//! readers cannot detect carry a warning: unlike a bad part of a block, a lost journal record leaves no visible hole.
//! Format: docs/formats/findings.md.
//! Limits: [`FINDINGS_MAX`] are described, `PROBLEM_BYTES_MAX` each; the last one represents those beyond.
//! Failure: an unreadable file is a finding itself; findings that cannot be written are kept in memory and written with
//! the next one.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ogive_journal::Disk;
use ogive_model::{Ms, Tenant, TimeRange, WallMs};

use crate::Error;
use crate::bytes::{Broken, Cursor, get_tenant, put_bytes, put_signed, put_tenant, put_varint};
use crate::frame::{frame, read_frame};

/// Name of the file in the store's directory.
const FINDINGS_FILE: &str = "FINDINGS";
const MAGIC: [u8; 8] = *b"OGIVEFND";
/// 1,000 findings: who has not looked by then learns from the first ones what happens.
pub const FINDINGS_MAX: usize = 1000;
/// 2 KiB of a sentence: a path and two numbers; what is longer is cut.
const PROBLEM_BYTES_MAX: usize = 2 << 10;
/// 3 findings stand in one answer in words.
const WARNINGS_MAX: usize = 3;
/// An hour before and behind the samples beside a lost record: senders are seldom later than others by more.
pub(crate) const MARGIN: Ms = Ms::from_secs(3_600);

/// A finding that nobody has acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFinding {
    /// Rises from one to the next.
    pub id: u64,
    /// When it was met first.
    pub found: WallMs,
    /// What was found, in a sentence.
    pub problem: String,
    /// Whose samples may be missing; `None` when that is not known.
    pub tenant: Option<Tenant>,
    /// In which times they are, or would be.
    pub range: TimeRange,
    /// Reading does not meet it: answers say that they may lack something.
    pub silent: bool,
}

/// What was found before it has a number.
#[derive(Clone, Debug)]
pub(crate) struct NewFinding {
    pub(crate) problem: String,
    pub(crate) tenant: Option<Tenant>,
    pub(crate) range: TimeRange,
    pub(crate) silent: bool,
}

impl NewFinding {
    /// Samples of somebody, in a range, that are not there any more.
    pub(crate) const fn silent(problem: String, range: TimeRange) -> Self {
        Self { problem, tenant: None, range, silent: true }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    all: Vec<StoredFinding>,
    next: u64,
    /// The file does not say all of it.
    unsaved: bool,
}

/// See the module.
pub(crate) struct Findings {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    state: Mutex<State>,
}

impl Findings {
    /// Reads those of `directory`.
    pub(crate) fn open(disk: Arc<dyn Disk>, directory: &Path, now: WallMs) -> Self {
        let path = directory.join(FINDINGS_FILE);
        let read = read_frame(&*disk, &path, MAGIC, parse);
        let missing = matches!(read, Err(Error::Disk(ogive_journal::Error::NotFound { .. })));
        let problem = read.as_ref().err().filter(|_| !missing).map(ToString::to_string);
        let findings = Self { disk, path, state: Mutex::new(read.unwrap_or_default()) };
        if let Some(problem) = problem {
            let problem = format!("{problem}: what was found before and not acknowledged is not known any more");
            findings.note(now, vec![NewFinding::silent(problem, TimeRange::ALL)]);
        }
        findings
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what is new among `found`.
    pub(crate) fn note(&self, now: WallMs, found: Vec<NewFinding>) {
        let mut state = self.state();
        found.into_iter().for_each(|one| state.add(now, one));
        if state.unsaved && self.save(&state).is_ok() {
            state.unsaved = false;
        }
    }

    fn save(&self, state: &State) -> Result<(), Error> {
        Ok(self.disk.replace(&self.path, &encode(state))?)
    }

    /// All, the oldest first.
    pub(crate) fn list(&self) -> Vec<StoredFinding> {
        self.state().all.clone()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.state().all.len()
    }

    /// Forgets those up to the number `up_to`; returns how many.
    ///
    /// # Errors
    /// The disk's; then nothing is forgotten.
    pub(crate) fn acknowledge(&self, up_to: u64) -> Result<usize, Error> {
        let mut state = self.state();
        let mut next = state.clone();
        next.all.retain(|finding| finding.id > up_to);
        let gone = state.all.len() - next.all.len();
        if gone > 0 || next.unsaved {
            next.unsaved = false;
            self.save(&next)?;
            *state = next;
        }
        Ok(gone)
    }

    /// What an answer about `range` of a tenant may lack without anybody meeting it.
    pub(crate) fn warnings(&self, tenant: &Tenant, range: TimeRange) -> Vec<String> {
        let state = self.state();
        let overlaps = |finding: &&StoredFinding| {
            finding.silent
                && finding.tenant.as_ref().is_none_or(|of| of == tenant)
                && finding.range.start < range.end
                && range.start < finding.range.end
        };
        let concerned: Vec<&StoredFinding> = state.all.iter().filter(overlaps).collect();
        let mut out: Vec<String> = concerned.iter().take(WARNINGS_MAX).map(|one| warning(one)).collect();
        if concerned.len() > WARNINGS_MAX {
            let more = concerned.len() - WARNINGS_MAX;
            out.push(format!(
                "the answer may be incomplete: {more} more findings concern its range; see `ogive status`"
            ));
        }
        out
    }
}

fn warning(StoredFinding { id, problem, .. }: &StoredFinding) -> String {
    format!("the answer may be incomplete: {problem} (finding {id}; `ogive scrub --acknowledge` ends this warning)")
}

impl State {
    fn add(&mut self, now: WallMs, found: NewFinding) {
        let NewFinding { mut problem, tenant, range, silent } = found;
        cut(&mut problem, PROBLEM_BYTES_MAX);
        let known = |one: &&mut StoredFinding| one.problem == problem;
        if let Some(before) = self.all.iter_mut().find(known) {
            // Met again, perhaps with less beside it to take the range from.
            return self.unsaved |= before.widen(tenant.as_ref(), range, silent);
        }
        self.unsaved = true;
        if self.all.len() < FINDINGS_MAX {
            debug_assert!(
                self.all.last().is_none_or(|last| last.id < self.next),
                "numbers of findings rise: {}",
                self.next
            );
            self.all.push(StoredFinding { id: self.next, found: now, problem, tenant, range, silent });
            self.next += 1;
        } else if let Some(last) = self.all.last_mut() {
            last.widen(tenant.as_ref(), range, silent);
            const MORE: &str = "; more was found and is not described";
            if !last.problem.ends_with(MORE) {
                cut(&mut last.problem, PROBLEM_BYTES_MAX - MORE.len());
                last.problem.push_str(MORE);
            }
        }
    }
}

impl StoredFinding {
    /// Makes it concern what another does too; returns whether that is more.
    fn widen(&mut self, tenant: Option<&Tenant>, range: TimeRange, silent: bool) -> bool {
        let before = self.clone();
        if self.tenant.as_ref() != tenant {
            self.tenant = None;
        }
        let TimeRange { start, end } = self.range;
        self.range = TimeRange { start: start.min(range.start), end: end.max(range.end) };
        self.silent |= silent;
        *self != before
    }
}

/// Cuts a text to at most `bytes`, between two letters.
fn cut(text: &mut String, bytes: usize) {
    text.truncate(text.floor_char_boundary(bytes));
}

const SILENT: u8 = 1;
const OF_A_TENANT: u8 = 2;

fn encode(state: &State) -> Vec<u8> {
    assert!(state.all.len() <= FINDINGS_MAX, "{} findings", state.all.len());
    let mut body = Vec::new();
    put_varint(&mut body, state.next);
    put_varint(&mut body, state.all.len() as u64);
    for finding in &state.all {
        let (id, length) = (finding.id, finding.problem.len());
        assert!(id < state.next, "a reader takes no finding {id} of {}", state.next);
        assert!(length <= PROBLEM_BYTES_MAX, "a reader takes no sentence of {length} bytes");
        put_varint(&mut body, finding.id);
        put_signed(&mut body, finding.found.0);
        body.push(u8::from(finding.silent) * SILENT + u8::from(finding.tenant.is_some()) * OF_A_TENANT);
        put_tenant(&mut body, finding.tenant.as_ref().unwrap_or(&Tenant::default()));
        put_signed(&mut body, finding.range.start.0);
        put_signed(&mut body, finding.range.end.0);
        put_bytes(&mut body, finding.problem.as_bytes());
    }
    frame(MAGIC, &body)
}

fn parse(cursor: &mut Cursor<'_>) -> Result<State, Broken> {
    let mut state = State { next: cursor.varint()?, ..State::default() };
    for _ in 0..cursor.count(FINDINGS_MAX, "findings")? {
        let (id, found, flags) = (cursor.varint()?, WallMs(cursor.signed()?), cursor.byte()?);
        let tenant = Some(get_tenant(cursor)?).filter(|_| flags & OF_A_TENANT != 0);
        let range = TimeRange::from_ms(cursor.signed()?, cursor.signed()?);
        let problem = cursor.text()?.to_owned();
        if id >= state.next || problem.len() > PROBLEM_BYTES_MAX || flags & !(SILENT | OF_A_TENANT) != 0 {
            return Err(cursor.broken(format!("finding {id} of {} with flags {flags}", state.next)));
        }
        state.all.push(StoredFinding { id, found, problem, tenant, range, silent: flags & SILENT != 0 });
    }
    if cursor.is_empty() { Ok(state) } else { Err(cursor.broken("bytes follow the last finding")) }
}

#[cfg(test)]
mod tests {
    use ogive_journal::SimulatedDisk;

    use super::*;

    const DIRECTORY: &str = "/s";

    fn open(disk: &SimulatedDisk) -> Findings {
        disk.create_dir_all(Path::new(DIRECTORY)).unwrap();
        Findings::open(Arc::new(disk.clone()), Path::new(DIRECTORY), WallMs(7))
    }

    fn lost(n: i64) -> NewFinding {
        NewFinding::silent(format!("record {n} is lost"), TimeRange::from_ms(n * 100, n * 100 + 50))
    }

    fn warned(findings: &Findings, start_ms: i64, end_ms: i64) -> usize {
        findings.warnings(&Tenant::default(), TimeRange::from_ms(start_ms, end_ms)).len()
    }

    #[test]
    fn findings_stay_until_they_are_acknowledged() {
        let disk = SimulatedDisk::new(1);
        let findings = open(&disk);
        findings.note(WallMs(5), vec![lost(1), lost(2), NewFinding { silent: false, ..lost(3) }]);
        findings.note(WallMs(6), vec![lost(1)]);
        let findings = open(&disk);
        let reported: Vec<_> = findings.list().into_iter().map(|one| (one.id, one.found, one.problem)).collect();
        assert_eq!(reported.len(), 3);
        assert_eq!(reported[0], (0, WallMs(5), "record 1 is lost".to_owned()));
        assert_eq!([warned(&findings, 0, 100), warned(&findings, 0, 101), warned(&findings, 150, 200)], [0, 1, 0]);
        assert_eq!(
            [warned(&findings, 0, 1000), warned(&findings, 300, 350)],
            [2, 0],
            "a reader meets the third itself"
        );
        let other = Tenant::new("other").unwrap();
        findings.note(WallMs(6), vec![NewFinding { tenant: Some(other.clone()), ..lost(4) }]);
        assert_eq!(warned(&findings, 400, 450), 0);
        assert_eq!(findings.warnings(&other, TimeRange::ALL).len(), 3);
        assert_eq!(findings.acknowledge(1).unwrap(), 2);
        assert_eq!((findings.count(), open(&disk).count()), (2, 2));
        findings.note(WallMs(9), vec![lost(9)]);
        assert_eq!(open(&disk).list().last().map(|one| one.id), Some(4), "numbers are not used again");
        assert_eq!(findings.acknowledge(u64::MAX).unwrap(), 3);
        assert_eq!(open(&disk).count(), 0);
    }

    #[test]
    fn as_many_as_may_be_are_read_again_and_the_last_stands_for_more() {
        let disk = SimulatedDisk::new(1);
        let findings = open(&disk);
        findings.note(WallMs(5), (0..FINDINGS_MAX as i64).map(lost).collect());
        assert_eq!(open(&disk).list(), findings.list());
        findings
            .note(WallMs(5), vec![lost(5000), NewFinding::silent("x".repeat(PROBLEM_BYTES_MAX + 1), TimeRange::ALL)]);
        let read = open(&disk).list();
        assert_eq!((read.len(), read[FINDINGS_MAX - 1].range), (FINDINGS_MAX, TimeRange::ALL));
        assert!(read[FINDINGS_MAX - 1].problem.contains("more was found"));
        assert_eq!(warned(&findings, 0, i64::MAX), WARNINGS_MAX + 1);
        findings.acknowledge(u64::MAX).unwrap();
        findings.note(WallMs(5), vec![NewFinding::silent("x".repeat(PROBLEM_BYTES_MAX + 1), TimeRange::ALL)]);
        assert_eq!(open(&disk).list()[0].problem.len(), PROBLEM_BYTES_MAX);
    }

    #[test]
    fn a_bad_file_is_a_finding_and_a_full_disk_forgets_none() {
        let disk = SimulatedDisk::new(1);
        let path = Path::new(DIRECTORY).join(FINDINGS_FILE);
        open(&disk).note(WallMs(5), vec![lost(1)]);
        disk.flip_bit(&path, 200);
        let findings = open(&disk);
        assert_eq!((findings.count(), warned(&findings, 0, 10)), (1, 1));
        assert_eq!(open(&disk).list(), findings.list());
        disk.set_capacity(Some(disk.used_bytes()));
        findings.note(WallMs(5), vec![lost(2)]);
        assert_eq!((findings.count(), open(&disk).count()), (2, 1));
        assert!(findings.acknowledge(u64::MAX).is_err() && findings.count() == 2);
        disk.set_capacity(None);
        findings.note(WallMs(5), vec![lost(2)]);
        assert_eq!(open(&disk).count(), 2);
    }

    /// The bytes that docs/formats/findings.md shows.
    #[test]
    fn the_example_of_the_format_page_is_what_is_written_and_read() {
        let range = TimeRange::from_ms(1_700_000_000_000, 1_700_000_060_000);
        let tenant = Some(Tenant::new("team-7").unwrap());
        let problem = "record 7 is lost".to_owned();
        let one = StoredFinding { id: 2, found: WallMs(1_700_000_100_000), problem, tenant, range, silent: true };
        let bytes = encode(&State { all: vec![one], next: 3, unsaved: false });
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let kept = std::fs::read(root.join("vectors/findings/FINDINGS")).unwrap();
        assert_eq!(bytes, kept, "the format changed: its version must rise");
        let page = std::fs::read_to_string(root.join("docs/formats/findings.md")).unwrap();
        crate::testing::check_page(&page, &kept);
    }
}
