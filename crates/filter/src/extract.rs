//! Fields out of another field or a label: the path of a file that a shipper names, a message inside a message.

use ogive_model::Labels;

use crate::fields::Fields;
use crate::measure::value;
use crate::parse::{LINE_BYTES_MAX, Parser, member};

/// See the module.
#[derive(Debug)]
pub(crate) struct Extract {
    /// Names of fields, labels or members of a record; the first that is there is read.
    pub(crate) from: Vec<String>,
    /// The first that fits is used.
    pub(crate) parsers: Vec<Parser>,
}

impl Extract {
    /// Adds the fields that it finds. They stand behind those that are there, which win where names are equal.
    pub(crate) fn read(&self, labels: &Labels, line: &str, fields: &mut Fields) {
        let known = self.from.iter().find_map(|name| value(fields, labels, name)).map(str::to_owned);
        let Some(text) = known.or_else(|| member(line, &self.from)) else { return };
        if text.len() <= LINE_BYTES_MAX {
            let _ = self.parsers.iter().any(|parser| parser.read(&text, fields));
        }
    }
}
