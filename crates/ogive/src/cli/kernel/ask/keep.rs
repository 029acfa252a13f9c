//! The answer as series: what was counted in each second is sent once.

use std::collections::HashSet;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use ogive_export::Exporter;
use ogive_kernel::ask::{Compiled, Observer, Verb};

use super::super::export::{Family, LAST_CELLS, Sent, Source};
use super::answer::{key_texts, lost};

/// Refuses what cannot be series.
pub(super) fn check(name: &str, question: &Compiled) -> Result<(), String> {
    let is_name = !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_name {
        return Err(format!("{name:?} is no name of series: letters, digits and _"));
    }
    if question.verb == Verb::Sum {
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

/// Sends what is counted until `end`.
pub(super) fn run(
    observer: &mut Observer,
    name: &str,
    url: &str,
    runtime: &tokio::runtime::Runtime,
    end: impl Future<Output = ()>,
) -> anyhow::Result<ExitCode> {
    let exporter = Exporter::builder(url).start().context("sending to a server")?;
    let sent = Sent::new(exporter.cells().clone());
    let mut series = Series {
        name: if observer.question().verb == Verb::Count { format!("{name}_total") } else { name.to_owned() },
        labels: labels(observer.question()),
        answers: Family::new(&sent, Vec::new()),
        losses: Family::new(&sent, vec![("question", name.to_owned())]),
        lost: [0; 4],
    };
    runtime.block_on(async {
        let mut end = std::pin::pin!(end);
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        loop {
            tokio::select! {
                () = &mut end => return Ok::<_, anyhow::Error>(()),
                _ = ticks.tick() => series.put(observer)?,
            }
        }
    })?;
    observer.stop();
    series.put(observer)?;
    let status = exporter.shutdown(LAST_CELLS);
    let lost = status.taken.samples - status.acknowledged.samples;
    eprintln!("sent: {} of {} samples, {lost} not acknowledged", status.acknowledged.samples, status.taken.samples);
    Ok(if lost == 0 { ExitCode::SUCCESS } else { ExitCode::from(crate::cli::exit::EXIT_FINDING) })
}

struct Series {
    name: String,
    labels: Vec<String>,
    answers: Family,
    losses: Family,
    lost: [u64; 4],
}

impl Series {
    fn put(&mut self, observer: &mut Observer) -> anyhow::Result<()> {
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
            let more = count - std::mem::replace(before, count);
            self.losses.count(Source::Bpf, "ogive_kernel_ask_lost_total", &[("kind", kind)], more);
        }
        Ok(())
    }
}
