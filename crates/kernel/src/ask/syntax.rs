//! The syntax tree of a question: a probe, an optional filter, an aggregation, and keys.

/// Where events come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// A tracepoint of the kernel, with typed arguments.
    Point(String),
    /// Calls of a function of a program or library.
    Function {
        /// The file, or the name of a library or program that is searched for.
        path: String,
        /// Its symbol.
        symbol: String,
        /// At the return, and not at the call.
        at_return: bool,
    },
    /// A USDT probe: a place that the author of a program marked.
    Usdt {
        /// The file, or the name of a library or program that is searched for.
        path: String,
        /// Whose probes they are.
        provider: String,
        /// Its name.
        name: String,
    },
    /// System calls, at their return; every one without a name.
    Call(Option<String>),
    /// A clock that ticks so many times a second on each CPU while it works.
    Profile(u32),
    /// A clock that ticks once in so many nanoseconds, on one CPU.
    Interval(u64),
    /// A tracepoint by the record that tracefs describes.
    Record {
        /// The group of tracepoints.
        category: String,
        /// Its name.
        name: String,
    },
}

/// What is made of the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Their number.
    Count,
    /// Their number and the sum of a value.
    Sum,
    /// The distribution of a value.
    Histogram,
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Where events come from.
    pub probe: Probe,
    /// Where the probe stands in the text, in bytes.
    pub(super) probe_at: usize,
    pub(super) filter: Option<Expression>,
    /// What is made of them.
    pub verb: Verb,
    pub(super) value: Option<Expression>,
    /// Each with its text.
    pub(super) keys: Vec<(String, Expression)>,
}

/// An expression and where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expression {
    pub(super) at: usize,
    pub(super) form: Form,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A number; one with a unit of time is a duration.
    Number {
        value: i64,
        is_duration: bool,
    },
    Text(String),
    Name(String),
    Field(Box<Expression>, String),
    /// A function of one argument.
    Function(String, Box<Expression>),
    Unary(Unary, Box<Expression>),
    Binary(Binary, Box<Expression>, Box<Expression>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unary {
    Not,
    Negative,
    Complement,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Or,
    And,
    BitOr,
    BitXor,
    BitAnd,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    ShiftLeft,
    ShiftRight,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Binary {
    /// By its sign in the text.
    pub(super) fn from_sign(sign: &str) -> Option<Self> {
        Some(match sign {
            "||" => Self::Or,
            "&&" => Self::And,
            "|" => Self::BitOr,
            "^" => Self::BitXor,
            "&" => Self::BitAnd,
            "==" => Self::Equal,
            "!=" => Self::NotEqual,
            "<" => Self::Less,
            "<=" => Self::LessOrEqual,
            ">" => Self::Greater,
            ">=" => Self::GreaterOrEqual,
            "<<" => Self::ShiftLeft,
            ">>" => Self::ShiftRight,
            "+" => Self::Add,
            "-" => Self::Subtract,
            "*" => Self::Multiply,
            "/" => Self::Divide,
            "%" => Self::Remainder,
            _ => return None,
        })
    }

    /// As in C: the higher binds first.
    pub(super) fn rank(self) -> u8 {
        match self {
            Self::Or => 1,
            Self::And => 2,
            Self::BitOr => 3,
            Self::BitXor => 4,
            Self::BitAnd => 5,
            Self::Equal | Self::NotEqual => 6,
            Self::Less | Self::LessOrEqual | Self::Greater | Self::GreaterOrEqual => 7,
            Self::ShiftLeft | Self::ShiftRight => 8,
            Self::Add | Self::Subtract => 9,
            Self::Multiply | Self::Divide | Self::Remainder => 10,
        }
    }
}
