//! The answer to a question as series: what was counted since the last time goes in once.

use std::collections::HashSet;

use ogive_kernel::ask::{Compiled, Observer, Question, Verb, parse};

use super::super::key_texts::{key_texts, lost};
use super::sent::{Family, Sent, Source};

/// A question whose answer stays as series, and their name.
#[derive(Clone, Debug)]
pub(in crate::cli::kernel) struct NamedQuestion {
    pub(in crate::cli::kernel) name: String,
    pub(in crate::cli::kernel) question: Question,
}

impl NamedQuestion {
    /// Parses `NAME=QUESTION`.
    ///
    /// # Errors
    /// In one line: the first mistake, and where it is.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let form = "a question that is kept is NAME=QUESTION, as in reads=syscall:read hist latency by comm";
        let (name, question) = text.split_once('=').ok_or_else(|| format!("{form}, and not {text:?}"))?;
        let name = name.trim();
        let parsed = parse(question.trim())
            .map_err(|mistake| format!("{name}: position {}: {}", mistake.at + 1, mistake.message))?;
        check_name(name, parsed.verb)?;
        Ok(Self { name: name.to_owned(), question: parsed })
    }
}

/// Refuses what cannot be series.
pub(in crate::cli::kernel) fn check_name(name: &str, verb: Verb) -> Result<(), String> {
    let is_name = !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_name {
        return Err(format!("{name:?} is no name of series: letters, digits and _"));
    }
    if verb == Verb::Sum {
        return Err("a sum may fall and is no counter: keep hist instead, whose series have the sum".to_owned());
    }
    Ok(())
}

/// The labels of the keys: their texts, as far as a label may have them.
fn labels(question: &Compiled) -> Vec<String> {
    let mut taken: HashSet<String> = ["source", "le", "question"].into_iter().map(ToOwned::to_owned).collect();
    let label = |(text, _): &(String, _)| {
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let mut name = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_");
        if name.starts_with(|first: char| first.is_ascii_digit()) || name.is_empty() {
            name.insert_str(0, "key_");
        }
        while !taken.insert(name.clone()) {
            name.push('_');
        }
        name
    };
    question.keys.iter().map(label).collect()
}

/// The series of a question.
pub(in crate::cli::kernel) struct QuestionSeries {
    name: String,
    labels: Vec<String>,
    answers: Family,
    losses: Family,
    lost: [u64; 4],
}

impl QuestionSeries {
    pub(in crate::cli::kernel) fn new(sent: &Sent, name: &str, question: &Compiled) -> Self {
        Self {
            name: if question.verb == Verb::Count { format!("{name}_total") } else { name.to_owned() },
            labels: labels(question),
            answers: Family::new(sent, Vec::new()),
            losses: Family::new(sent, vec![("question", name.to_owned())]),
            lost: [0; 4],
        }
    }

    /// The observer that follows counts its losses from zero.
    pub(super) fn restart(&mut self) {
        self.lost = [0; 4];
    }

    /// Puts what was counted since the last time into the series.
    ///
    /// # Errors
    /// When the kernel's maps cannot be read.
    pub(in crate::cli::kernel) fn put(&mut self, observer: &mut Observer) -> Result<(), ogive_kernel::Error> {
        let groups = observer.drain()?;
        let question = observer.question();
        let unit = if question.is_duration { "s" } else { "" };
        for group in &groups {
            let texts = key_texts(question, group);
            let labels: Vec<(&str, &str)> =
                self.labels.iter().zip(&texts).map(|(label, text)| (label.as_str(), text.as_str())).collect();
            match &group.values {
                Some(values) => self.answers.distribution(Source::Bpf, &self.name, &labels, unit, values),
                None => self.answers.count(Source::Bpf, &self.name, &labels, group.count),
            }
        }
        for ((kind, count), before) in lost(&observer.losses()?).into_iter().zip(&mut self.lost) {
            let more = count.saturating_sub(std::mem::replace(before, count));
            self.losses.count(Source::Bpf, "ogive_kernel_ask_lost_total", &[("kind", kind)], more);
        }
        Ok(())
    }
}
