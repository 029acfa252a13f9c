//! The kernel's types, as far as a question needs them.

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
    /// What no question can use, with its name.
    Other(String),
}

/// The kernel's tracepoints and structures.
pub trait Types {
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
