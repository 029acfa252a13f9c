//! Labels from attributes, and those that a resource and a scope add to every series below them.
//!
//! Format: `service.namespace/service.name` becomes `job` and `service.instance.id` becomes `instance`, as in
//! Prometheus; the other attributes of the resource become labels of `target_info`, and of every series if the options
//! promote them.

use std::borrow::Cow;

use ogive_model::{Error as SeriesError, Labels, METRIC_NAME};

use super::any::{key_value, messages};
use super::names::Translation;
use crate::Error;
use crate::protobuf::Fields;

/// What decides about labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How names become Prometheus names.
    pub translation: Translation,
    /// Attributes of resources that become labels of every series.
    pub promoted: Vec<String>,
    /// Name, version and attributes of a scope become labels `otel_scope_*`.
    pub scope_labels: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { translation: Translation::UNDERSCORES, promoted: Vec::new(), scope_labels: false }
    }
}

/// Pairs on the way to a label set.
pub(super) struct Pairs<'a> {
    translation: Translation,
    /// The label, the attribute that it came from, and its value.
    pairs: Vec<(Cow<'a, str>, &'a str, Cow<'a, str>)>,
}

impl<'a> Pairs<'a> {
    pub(super) fn new(translation: Translation) -> Self {
        Self { translation, pairs: Vec::with_capacity(16) }
    }

    /// Adds an attribute. Several attributes that become one label are joined, as in Prometheus.
    pub(super) fn attribute(&mut self, name: &'a str, value: Cow<'a, str>) -> Result<(), SeriesError> {
        self.pairs.push((self.translation.label(name)?, name, value));
        Ok(())
    }

    /// Adds the attributes in field `number` of `message`.
    pub(super) fn attributes(&mut self, message: &'a [u8], number: u32) -> Result<(), SeriesError> {
        for pair in messages(message, number, "an attribute is not a message") {
            let (name, value) = key_value(pair.map_err(malformed)?).map_err(malformed)?;
            let value = value.label().map_err(malformed)?;
            self.attribute(name, value)?;
        }
        Ok(())
    }

    /// The set of a series: it has a name.
    pub(super) fn labels(self, ours: &[(&str, &str)]) -> Result<Labels, SeriesError> {
        let labels = self.set(ours)?;
        if labels.metric_name().is_empty() { Err(SeriesError::NoMetricName) } else { Ok(labels) }
    }

    /// The set, with `ours` in place of what has one of their names.
    pub(super) fn set(mut self, ours: &[(&str, &str)]) -> Result<Labels, SeriesError> {
        self.pairs.retain(|(label, _, _)| ours.iter().all(|(name, _)| name.is_empty() || name != label));
        self.pairs.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        self.pairs.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                let joined = kept.2.to_mut();
                joined.push(';');
                joined.push_str(&next.2);
            }
            same
        });
        let theirs = self.pairs.iter().map(|(label, _, value)| (&**label, &**value));
        Labels::new(theirs.chain(ours.iter().copied().filter(|(_, value)| !value.is_empty())))
    }
}

pub(super) fn malformed(error: Error) -> SeriesError {
    SeriesError::Malformed(error.to_string())
}

/// What a resource brings: a `Resource`.
#[derive(Clone, Debug, Default)]
pub(super) struct Resource<'a> {
    message: &'a [u8],
    job: String,
    instance: String,
}

const IDENTIFYING: [&str; 3] = ["service.name", "service.namespace", "service.instance.id"];

impl<'a> Resource<'a> {
    pub(super) fn read(message: &'a [u8]) -> Result<Self, Error> {
        let mut found = [const { Cow::Borrowed("") }; 3];
        for pair in messages(message, 1, "an attribute is not a message") {
            let (name, value) = key_value(pair?)?;
            if let Some(at) = IDENTIFYING.iter().position(|identifying| *identifying == name) {
                found[at] = value.label()?;
            }
        }
        let [name, namespace, instance] = found;
        let job =
            if namespace.is_empty() || name.is_empty() { name.into_owned() } else { format!("{namespace}/{name}") };
        Ok(Self { message, job, instance: instance.into_owned() })
    }

    /// The bytes that distinguish it from others.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.message
    }

    /// The service, as the label `job` has it.
    pub(super) fn job(&self) -> &str {
        &self.job
    }

    /// The labels that stand in every series' set.
    pub(super) fn ours<'s>(&'s self, name: &'s str) -> [(&'s str, &'s str); 3] {
        // One that is not known leaves its name to the attributes.
        let named = |label, value: &'s str| if value.is_empty() { ("", "") } else { (label, value) };
        [(METRIC_NAME, name), named("job", &self.job), named("instance", &self.instance)]
    }

    /// Adds the attributes that `options` promote.
    pub(super) fn promote(&self, pairs: &mut Pairs<'a>, options: &Options) -> Result<(), SeriesError> {
        if options.promoted.is_empty() {
            return Ok(());
        }
        self.each(|name| options.promoted.iter().any(|promoted| promoted == name), pairs)
    }

    /// The labels of its `target_info`, if it has anything to report and a target to report on.
    pub(super) fn target_info(&self, options: &Options) -> Option<Result<Labels, SeriesError>> {
        if self.job.is_empty() && self.instance.is_empty() {
            return None;
        }
        let mut pairs = Pairs::new(options.translation);
        if let Err(error) = self.each(|name| !IDENTIFYING.contains(&name), &mut pairs) {
            return Some(Err(error));
        }
        if pairs.pairs.is_empty() { None } else { Some(pairs.labels(&self.ours("target_info"))) }
    }

    fn each(&self, wanted: impl Fn(&str) -> bool, pairs: &mut Pairs<'a>) -> Result<(), SeriesError> {
        for pair in messages(self.message, 1, "an attribute is not a message") {
            let (name, value) = key_value(pair.map_err(malformed)?).map_err(malformed)?;
            if wanted(name) {
                pairs.attribute(name, value.label().map_err(malformed)?)?;
            }
        }
        Ok(())
    }
}

/// What a scope brings: an `InstrumentationScope`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scope<'a> {
    pub(super) message: &'a [u8],
    pub(super) name: &'a str,
    version: &'a str,
}

impl<'a> Scope<'a> {
    pub(super) fn read(message: &'a [u8]) -> Result<Self, Error> {
        let mut scope = Self { message, ..Self::default() };
        for field in Fields::new(message) {
            match field? {
                (1, value) => scope.name = value.text("a scope's name is not UTF-8 text")?,
                (2, value) => scope.version = value.text("a scope's version is not UTF-8 text")?,
                _ => {}
            }
        }
        Ok(scope)
    }

    /// Adds its labels, when `options` want them.
    pub(super) fn label(&self, pairs: &mut Pairs<'a>, options: &Options) -> Result<(), SeriesError> {
        if !options.scope_labels {
            return Ok(());
        }
        pairs.attribute("otel_scope_name", Cow::Borrowed(self.name))?;
        pairs.attribute("otel_scope_version", Cow::Borrowed(self.version))?;
        for pair in messages(self.message, 3, "an attribute is not a message") {
            let (name, value) = key_value(pair.map_err(malformed)?).map_err(malformed)?;
            let label = format!("otel_scope_{name}");
            let label = pairs.translation.label(&label)?.into_owned();
            pairs.pairs.push((label.into(), name, value.label().map_err(malformed)?));
        }
        Ok(())
    }
}
