//! The search of an LDAP check: how many entries it finds, and the numbers in their attributes.
//!
//! Format: a `[check.search]` table. Each number is a series with the label `dn`, the entry's name, and the labels that
//! other attributes give.
//! Limits: [`ENTRIES_MAX`], [`OTHERS_MAX`], [`NUMBERS_MAX`], [`ATTRIBUTES_MAX`], [`STORED_MAX`], [`LABEL_BYTES_MAX`],
//! [`NAME_BYTES_MAX`]. The server is asked to end at the first two, and when the check's time is almost over.
//! Failure: what is missing or no number fails the run; what else was found is stored.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ogive_model::{Labels, METRIC_NAME};

use super::filter::Filter;
use super::messages::{
    Entry, INTERMEDIATE_RESPONSE, Outcome, SEARCH_DONE, SEARCH_ENTRY, SEARCH_REFERENCE, SearchRequest, search,
};
use super::session::Session;
use crate::raw::{AttributeTable, Raw, SearchTable};
use crate::run::{Failure, LABEL_BYTES_MAX, Reason, Run, cut, usable};
use crate::target::OWN_LABELS;

/// 10,000 entries, which are counted one by one.
const ENTRIES_MAX: usize = 10_000;
/// 1,000 references to other servers and intermediate answers.
const OTHERS_MAX: usize = 1_000;
/// 20 `values`, as many as queries of a database.
const NUMBERS_MAX: usize = 20;
/// 40 attributes: of each of those a label, too.
const ATTRIBUTES_MAX: usize = 40;
/// 5,000 numbers of a run, as of queries.
const STORED_MAX: usize = 5_000;
/// 4 KiB of the base's name and of each attribute's.
const NAME_BYTES_MAX: usize = 4 << 10;

const SCOPES: [&str; 3] = ["base", "one", "subtree"];
const ANYTHING: &str = "(objectClass=*)";
/// The label of an entry's name.
const DN: &str = "dn";

/// What is searched for.
#[derive(Clone, Debug)]
pub(super) struct Search {
    base: String,
    /// Its place in `SCOPES`.
    scope: u32,
    filter: Filter,
    entries_min: usize,
    entries_max: Option<usize>,
    /// The attributes that are asked for, in lower case.
    attributes: Vec<String>,
    /// Labels, each with the place of its attribute.
    labels: Vec<(String, usize)>,
    numbers: Vec<Number>,
}

/// An attribute that is stored.
#[derive(Clone, Debug)]
struct Number {
    name: String,
    /// The place of its attribute.
    attribute: usize,
    unit: String,
    is_counter: bool,
    labels: Vec<(String, String)>,
}

impl Search {
    /// What a table says.
    pub(super) fn from_table(table: SearchTable, raw: &Raw) -> Result<Self, String> {
        let SearchTable { base, scope, filter, entries_min, entries_max, labels, values } = table;
        if base.len() > NAME_BYTES_MAX {
            return Err(format!("base has more than {NAME_BYTES_MAX} bytes"));
        }
        let known = SCOPES.iter().position(|known| *known == scope);
        let place = known.ok_or_else(|| format!("scope {scope:?} is none; there are {}", SCOPES.join(", ")))?;
        let entries_min = entries_min.unwrap_or(1);
        let most = entries_max.unwrap_or(ENTRIES_MAX);
        if most > ENTRIES_MAX {
            return Err(format!("entries_max {most} is above {ENTRIES_MAX}"));
        }
        if entries_min > most {
            return Err(format!("entries_min {entries_min} is above entries_max {most}"));
        }
        if values.is_empty() && !labels.is_empty() {
            return Err("labels are those of values, and there are none".into());
        }
        let mut attributes = Vec::new();
        let labels = labels_of(labels, raw, &mut attributes)?;
        let numbers = numbers_of(values, raw, &labels, &mut attributes)?;
        let filter = Filter::parse(filter.as_deref().unwrap_or(ANYTHING))?;
        let scope = place as u32;
        Ok(Self { base, scope, filter, entries_min, entries_max, attributes, labels, numbers })
    }

    /// How many entries it may find.
    fn most(&self) -> usize {
        self.entries_max.unwrap_or(ENTRIES_MAX)
    }

    fn request(&self, timeout: Duration) -> SearchRequest<'_> {
        SearchRequest {
            base: &self.base,
            scope: self.scope,
            filter: self.filter.bytes(),
            attributes: &self.attributes,
            // One more shows that there are too many.
            entries_max: u32::try_from(self.most() + 1).expect("some thousand"),
            // 0 would be no limit.
            seconds_max: (usable(timeout).as_secs_f64().ceil() as u32).max(1),
        }
    }
}

/// The place of an attribute among those that are asked for.
fn attribute(name: &str, attributes: &mut Vec<String>) -> Result<usize, String> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-;_".contains(&byte);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_name) {
        return Err(format!("{name:?} is no name of an attribute"));
    }
    let name = name.to_ascii_lowercase();
    if let Some(place) = attributes.iter().position(|known| *known == name) {
        return Ok(place);
    }
    if attributes.len() == ATTRIBUTES_MAX {
        return Err(format!("there are more than {ATTRIBUTES_MAX} attributes"));
    }
    attributes.push(name);
    Ok(attributes.len() - 1)
}

/// Whether a label may have this name.
fn free(name: &str, raw: &Raw) -> Result<(), String> {
    let is_taken = name == DN || OWN_LABELS.contains(&name) || raw.labels.contains_key(name);
    if is_taken { Err(format!("the label {name} is the check's own")) } else { Ok(()) }
}

fn labels_of(
    table: BTreeMap<String, String>,
    raw: &Raw,
    attributes: &mut Vec<String>,
) -> Result<Vec<(String, usize)>, String> {
    let mut labels = Vec::new();
    for (name, of) in table {
        free(&name, raw)?;
        Labels::new([(name.as_str(), "x")]).map_err(|error| error.to_string())?;
        let place = attribute(&of, attributes)?;
        labels.push((name, place));
    }
    Ok(labels)
}

fn numbers_of(
    tables: Vec<AttributeTable>,
    raw: &Raw,
    taken: &[(String, usize)],
    attributes: &mut Vec<String>,
) -> Result<Vec<Number>, String> {
    if tables.len() > NUMBERS_MAX {
        return Err(format!("there are {} values, above {NUMBERS_MAX}", tables.len()));
    }
    let (mut numbers, mut seen) = (Vec::new(), BTreeSet::new());
    for AttributeTable { name, attribute: of, unit, counter, labels } in tables {
        if name.is_empty() || name.starts_with("ogive_") {
            let sentence = "give each of values a name, and none that begins with ogive_: those are the server's own";
            return Err(sentence.into());
        }
        let wrong = |sentence: String| format!("{name:?}: {sentence}");
        for label in labels.keys() {
            free(label, raw).map_err(wrong)?;
            if taken.iter().any(|(taken, _)| taken == label) {
                return Err(wrong(format!("the label {label} is that of an attribute")));
            }
        }
        let labels: Vec<(String, String)> = labels.into_iter().collect();
        let pairs = labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        Labels::new(pairs.chain([(METRIC_NAME, name.as_str())])).map_err(|error| wrong(error.to_string()))?;
        if !seen.insert((name.clone(), labels.clone())) {
            return Err(wrong("it is there twice with the same labels".into()));
        }
        let attribute = attribute(&of, attributes).map_err(wrong)?;
        numbers.push(Number { name, attribute, unit, is_counter: counter, labels });
    }
    Ok(numbers)
}

/// Searches, stores what is found, and judges it.
pub(super) async fn run(
    session: &mut Session,
    run: &mut Run,
    check: &Search,
    timeout: Duration,
) -> Result<(), Failure> {
    session.send(&search(&check.request(timeout))).await?;
    let mut found = SearchOutcome::new(check);
    let read = found.read(session, run).await;
    run.gauge("ogive_check_ldap_entries", "", found.entries as f64);
    run.gauge("ogive_check_ldap_references", "", found.references as f64);
    read?.judged("the search fails")?;
    found.judged()
}

/// What a search has found.
struct SearchOutcome<'a> {
    search: &'a Search,
    entries: usize,
    references: usize,
    /// Messages that are no entries.
    others: usize,
    /// Names of the entries whose numbers are stored.
    names: BTreeSet<String>,
    stored: usize,
    /// Whether an entry had the attribute of each number.
    is_there: Vec<bool>,
    wrong: Option<Failure>,
}

impl<'a> SearchOutcome<'a> {
    fn new(search: &'a Search) -> Self {
        Self {
            search,
            entries: 0,
            references: 0,
            others: 0,
            names: BTreeSet::new(),
            stored: 0,
            is_there: vec![false; search.numbers.len()],
            wrong: None,
        }
    }

    /// Reads answers until the search ends.
    async fn read(&mut self, session: &mut Session, run: &mut Run) -> Result<Outcome, Failure> {
        loop {
            let message = session.next().await?;
            match message.tag {
                SEARCH_DONE => return session.ended(&message),
                SEARCH_ENTRY => {
                    let entry = message.entry(&self.search.attributes)?;
                    self.count()?;
                    self.store(run, &entry)?;
                }
                SEARCH_REFERENCE | INTERMEDIATE_RESPONSE => {
                    self.references += usize::from(message.tag == SEARCH_REFERENCE);
                    self.others += 1;
                    if self.others > OTHERS_MAX {
                        let sentence = format!("more than {OTHERS_MAX} references and intermediate answers came");
                        return Err(Failure::new(Reason::Limit, sentence));
                    }
                }
                _ => return Err(message.unexpected()),
            }
        }
    }

    /// One more entry. Those beyond the last that may be found are not read.
    fn count(&mut self) -> Result<(), Failure> {
        self.entries += 1;
        let most = self.search.most();
        if self.entries <= most {
            return Ok(());
        }
        let reason = if self.search.entries_max.is_some() { Reason::Content } else { Reason::Limit };
        Err(Failure::new(reason, format!("the search finds more than {most} entries")))
    }

    /// Stores the numbers of an entry.
    fn store(&mut self, run: &mut Run, entry: &Entry) -> Result<(), Failure> {
        let search = self.search;
        if search.numbers.is_empty() {
            return Ok(());
        }
        let dn = cut(&entry.dn, LABEL_BYTES_MAX);
        if !self.names.insert(dn.to_owned()) {
            // Their series would be the same.
            let sentence = format!("two entries have the name {dn:?}");
            self.wrong.get_or_insert(Failure::new(Reason::Content, sentence));
            return Ok(());
        }
        let texts = search.labels.iter().filter_map(|(label, place)| {
            let text = String::from_utf8_lossy(entry.values[*place].first.as_ref()?).into_owned();
            (!text.is_empty()).then_some((label.as_str(), text))
        });
        let texts: Vec<(&str, String)> = texts.collect();
        for (number, is_there) in search.numbers.iter().zip(&mut self.is_there) {
            let values = &entry.values[number.attribute];
            let Some(first) = &values.first else { continue };
            *is_there = true;
            let value = self::value(first).filter(|_| values.count == 1);
            let Some(value) = value else {
                let failure = || unfit(&search.attributes[number.attribute], dn, first, values.count);
                self.wrong.get_or_insert_with(failure);
                continue;
            };
            self.stored += 1;
            if self.stored > STORED_MAX {
                return Err(Failure::new(Reason::Limit, format!("the search finds more than {STORED_MAX} numbers")));
            }
            let own = number.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            let texts = texts.iter().map(|(label, text)| (*label, cut(text, LABEL_BYTES_MAX)));
            let labels: Vec<(&str, &str)> =
                own.chain(texts).chain([(DN, dn)]).filter(|(_, text)| !text.is_empty()).collect();
            if number.is_counter {
                run.counter(&number.name, &number.unit, &labels, value);
            } else {
                run.labelled(&number.name, &number.unit, &labels, value);
            }
        }
        Ok(())
    }

    /// Whether it is what was asked for.
    fn judged(self) -> Result<(), Failure> {
        let (entries, least) = (self.entries, self.search.entries_min);
        if entries < least {
            let sentence = format!("the search finds fewer entries than {least}: {entries}");
            return Err(Failure::new(Reason::Content, sentence));
        }
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        let missing = self.search.numbers.iter().zip(&self.is_there).find(|(_, is_there)| !**is_there);
        match missing {
            Some((number, _)) if entries > 0 => {
                let attribute = &self.search.attributes[number.attribute];
                Err(Failure::new(Reason::Content, format!("{:?}: no entry has the attribute {attribute}", number.name)))
            }
            _ => Ok(()),
        }
    }
}

/// The number in a value: a text that is one, or a truth.
fn value(bytes: &[u8]) -> Option<f64> {
    match bytes {
        b"TRUE" => Some(1.0),
        b"FALSE" => Some(0.0),
        _ => std::str::from_utf8(bytes).ok()?.trim().parse().ok().filter(|number: &f64| number.is_finite()),
    }
}

/// Why there is no number.
fn unfit(attribute: &str, dn: &str, first: &[u8], count: usize) -> Failure {
    let what = match count {
        1 => format!("is no number: {:?}", cut(&String::from_utf8_lossy(first), LABEL_BYTES_MAX)),
        count => format!("has {count} values"),
    };
    Failure::new(Reason::Content, format!("the attribute {attribute} of {dn:?} {what}"))
}
