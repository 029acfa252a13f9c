//! Fields out of another field or a label: the path of a file that a shipper names, a message inside a message.

use ogive_model::Labels;

use crate::fields::Fields;
use crate::measure::value;
use crate::parse::{LINE_BYTES_MAX, Parser, member};

/// See the module.
#[derive(Debug)]
pub(crate) struct Extract {
    /// Names of fields, labels or members of a record; the first that fits is read.
    pub(crate) from: Vec<String>,
    /// The first that fits is used.
    pub(crate) parsers: Vec<Parser>,
}

impl Extract {
    /// Adds the fields that it finds. They stand behind those that are there, which win where names are equal.
    pub(crate) fn read(&self, labels: &Labels, line: &str, fields: &mut Fields) {
        for name in &self.from {
            let text = value(fields, labels, name).map(str::to_owned);
            if text.is_some_and(|text| self.fits(&text, fields)) {
                return;
            }
        }
        if let Some(text) = member(line, &self.from) {
            self.fits(&text, fields);
        }
    }

    fn fits(&self, text: &str, fields: &mut Fields) -> bool {
        text.len() <= LINE_BYTES_MAX && self.parsers.iter().any(|parser| parser.read(text, fields))
    }
}
