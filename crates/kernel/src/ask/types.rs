//! The kernel's types, as far as a question needs them, and the probes in programs.

use ogive_text::near::suggestion;

use super::code::{ARGUMENTS, LAYOUTS};
use super::usdt::{Argument, Machine, Note, arguments, notes};

/// Places of one USDT probe, at most: each is attached on its own.
const SITES_MAX: usize = 1024;

/// The form of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A number of 1, 2, 4 or 8 bytes.
    Number {
        /// Its bytes.
        bytes: u32,
        /// Whether its highest bit is a sign.
        is_signed: bool,
    },
    /// Some bits of a word of 8 bytes.
    Bits {
        /// The lowest.
        first: u32,
        /// How many.
        count: u32,
    },
    /// A pointer to a structure, by its number.
    Pointer(u32),
    /// A pointer to something else: a number to count with, and what [`str`] reads.
    Address,
    /// A structure, by its number.
    Structure(u32),
    /// Letters up to a zero byte.
    Letters,
    /// A word whose lower half says where in the record letters are: from its beginning, or from the end of the word.
    FarLetters {
        /// From the end of the word.
        is_relative: bool,
    },
    /// What no question can use, with its name.
    Other(String),
}

/// A field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordField {
    /// Its name.
    pub name: String,
    /// Bytes before it.
    pub offset: u32,
    /// Its form.
    pub shape: Shape,
}

/// One place of a USDT probe, by distances in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The instruction.
    pub offset: u64,
    /// A number that the kernel raises while somebody observes, so that the program prepares the arguments; 0 for none.
    pub semaphore: u64,
    /// Which of the layouts its arguments have.
    pub layout: usize,
}

/// A USDT probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usdt {
    /// Where it is in the program: more than once where the compiler copied it.
    pub sites: Vec<Site>,
    /// Where its arguments are, each way once.
    pub layouts: Vec<Vec<Argument>>,
}

/// Names of probes in an error, at most.
const SHOWN: usize = 8;

impl Usdt {
    /// The places of a probe, by its provider and name, among the notes of a program: `section` is its `.note.stapsdt`,
    /// `base` the address of `.stapsdt.base` or 0, and `offset` finds an address in the file.
    ///
    /// # Errors
    /// When there is no such probe, it is outside of the file, or in more places than are observed.
    pub fn from_notes(
        section: &[u8],
        provider: &str,
        name: &str,
        machine: Machine,
        base: u64,
        offset: impl Fn(u64) -> Option<u64>,
    ) -> Result<Self, String> {
        let notes = notes(section);
        let mut usdt = Self::default();
        for note in notes.iter().filter(|note| note.provider == provider && note.name == name) {
            // A program may be moved after its notes were written: by as much as the section that is there for this.
            let moved = if base == 0 || note.base == 0 { 0 } else { base.wrapping_sub(note.base) };
            let semaphore = if note.semaphore == 0 { Some(0) } else { offset(note.semaphore.wrapping_add(moved)) };
            let (Some(at), Some(semaphore)) = (offset(note.location.wrapping_add(moved)), semaphore) else {
                return Err(format!("has the USDT probe {provider}:{name} outside of the file"));
            };
            usdt.add(at, semaphore, arguments(note.arguments, machine))?;
        }
        if usdt.sites.is_empty() { Err(none(&notes, provider, name)) } else { Ok(usdt) }
    }

    /// One more place.
    pub(super) fn add(&mut self, offset: u64, semaphore: u64, mut arguments: Vec<Argument>) -> Result<(), String> {
        arguments.truncate(ARGUMENTS);
        let known = self.layouts.iter().position(|known| *known == arguments);
        let layout = known.unwrap_or(self.layouts.len());
        if layout == LAYOUTS || self.sites.len() == SITES_MAX {
            return Err(format!(
                "has the probe in more than {SITES_MAX} places, or with more than {LAYOUTS} ways to pass its arguments"
            ));
        }
        if known.is_none() {
            self.layouts.push(arguments);
        }
        self.sites.push(Site { offset, semaphore, layout });
        Ok(())
    }
}

/// That there is no such probe, and which ones there are.
fn none(notes: &[Note<'_>], provider: &str, name: &str) -> String {
    let mut known: Vec<String> = notes.iter().map(|note| format!("{}:{}", note.provider, note.name)).collect();
    known.sort_unstable();
    known.dedup();
    if known.is_empty() {
        return "has no USDT probes".to_owned();
    }
    let wanted = format!("{provider}:{name}");
    let meant = suggestion(known.iter().map(String::as_str), &wanted);
    let others = known.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = if known.len() > SHOWN { ", ..." } else { "" };
    format!("has no USDT probe {wanted:?} among {}{meant} ({others}{more})", known.len())
}

/// The kernel's tracepoints and structures, and the probes of programs.
pub trait Types {
    /// A USDT probe of a program or library.
    ///
    /// # Errors
    /// With the reason when the file has no such probe.
    fn usdt(&self, path: &str, provider: &str, name: &str) -> Result<Usdt, String>;
    /// The fields of a tracepoint's record, by name, with where they begin.
    ///
    /// # Errors
    /// With the reason when there is no such tracepoint, or no description of it.
    fn record(&self, category: &str, name: &str) -> Result<Vec<RecordField>, String>;
    /// The arguments of a tracepoint, with their names.
    fn point(&self, name: &str) -> Option<Vec<(String, Shape)>>;
    /// The names of all tracepoints.
    fn points(&self) -> Vec<String>;
    /// A structure by its name.
    fn structure(&self, name: &str) -> Option<u32>;
    /// The name of a structure.
    fn name(&self, structure: u32) -> String;
    /// Where a field begins, in bytes, and its form.
    fn field(&self, structure: u32, name: &str) -> Option<(u32, Shape)>;
    /// The names of a structure's fields.
    fn fields(&self, structure: u32) -> Vec<String>;
}
