//! The types of expressions.

/// What an expression evaluates to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueType {
    /// One number.
    Scalar,
    /// A text.
    String,
    /// An instant vector.
    Vector,
    /// A range vector.
    Matrix,
}

impl ValueType {
    /// As error messages name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::String => "string",
            Self::Vector => "instant vector",
            Self::Matrix => "range vector",
        }
    }
}
