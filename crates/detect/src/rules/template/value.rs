//! Values of templates, and how Go prints them.

use std::collections::BTreeMap;
use std::sync::Arc;

use ogive_model::Labels;

use super::number::float_text;
use super::time::{duration_text, time_text};

/// A value of a template.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Neither a value nor nil: the result for a missing key of a map of any type.
    Missing,
    /// `nil`.
    Nil,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text.
    Text(Arc<str>),
    /// A map of texts; a missing key gives the empty text.
    Texts(Arc<BTreeMap<String, String>>),
    /// A map of anything; a missing key gives no value.
    Map(Arc<BTreeMap<String, Value>>),
    /// A list.
    List(Arc<Vec<Value>>),
    /// Named fields.
    Structure(Arc<Structure>),
    /// An instant, nanoseconds since 1970.
    Time(i128),
    /// A length of time, nanoseconds.
    Duration(i64),
}

/// Named fields: an element of a query's result, or the initial data of a template.
#[derive(Clone, Debug, PartialEq)]
pub struct Structure {
    /// Name of the type in messages.
    pub type_name: &'static str,
    /// The fields in order.
    pub fields: Vec<(&'static str, Value)>,
}

impl Structure {
    /// The value of a field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value)
    }
}

impl Value {
    /// A text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::Text(text.into())
    }

    /// Labels as a map.
    #[must_use]
    pub fn labels(labels: &Labels) -> Self {
        Self::Texts(Arc::new(labels.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()))
    }

    /// An element of a query's result.
    #[must_use]
    pub fn sample(labels: &Labels, value: f64) -> Self {
        let fields = vec![("Labels", Self::labels(labels)), ("Value", Self::Float(value))];
        Self::Structure(Arc::new(Structure { type_name: "*template.sample", fields }))
    }

    /// Whether a condition is true: everything except the zero value of its type.
    #[must_use]
    pub fn is_true(&self) -> bool {
        match self {
            Self::Missing | Self::Nil => false,
            Self::Bool(value) => *value,
            Self::Int(value) | Self::Duration(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::Texts(map) => !map.is_empty(),
            Self::Map(map) => !map.is_empty(),
            Self::List(list) => !list.is_empty(),
            Self::Structure(_) | Self::Time(_) => true,
        }
    }

    /// Name of the Go type.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Missing | Self::Nil => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) => "float64",
            Self::Text(_) => "string",
            Self::Texts(_) => "map[string]string",
            Self::Map(_) => "map[string]interface {}",
            Self::List(_) => "template.queryResult",
            Self::Structure(structure) => structure.type_name,
            Self::Time(_) => "*time.Time",
            Self::Duration(_) => "time.Duration",
        }
    }

    /// As `%v` prints it.
    #[must_use]
    pub fn print(&self) -> String {
        match self {
            Self::Missing => "<no value>".to_owned(),
            Self::Nil => "<nil>".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Float(value) => float_text(*value, 'g', None),
            Self::Text(text) => text.to_string(),
            Self::Texts(map) => {
                let pairs: Vec<String> = map.iter().map(|(name, value)| format!("{name}:{value}")).collect();
                format!("map[{}]", pairs.join(" "))
            }
            Self::Map(map) => {
                let pairs: Vec<String> = map.iter().map(|(name, value)| format!("{name}:{}", value.print())).collect();
                format!("map[{}]", pairs.join(" "))
            }
            Self::List(list) => format!("[{}]", list.iter().map(Self::print).collect::<Vec<_>>().join(" ")),
            Self::Structure(structure) => {
                let fields: Vec<String> = structure.fields.iter().map(|(_, value)| value.print()).collect();
                format!("{{{}}}", fields.join(" "))
            }
            Self::Time(ns) => time_text(*ns),
            Self::Duration(ns) => duration_text(*ns),
        }
    }
}
