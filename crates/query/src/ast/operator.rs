//! Operators and their names.

/// A sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// `+`
    Plus,
    /// `-`
    Minus,
}

impl UnaryOp {
    /// As it is written.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Plus => "+",
            Self::Minus => "-",
        }
    }
}

/// A binary operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Modulo,
    /// `^`
    Power,
    /// `atan2`
    Atan2,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `and`
    And,
    /// `or`
    Or,
    /// `unless`
    Unless,
    /// `</`: keeps the part of a histogram below a number.
    TrimUpper,
    /// `>/`: keeps the part of a histogram above a number.
    TrimLower,
}

impl BinaryOp {
    /// As it is written.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
            Self::Power => "^",
            Self::Atan2 => "atan2",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::And => "and",
            Self::Or => "or",
            Self::Unless => "unless",
            Self::TrimUpper => "</",
            Self::TrimLower => ">/",
        }
    }

    /// `== != < <= > >=`.
    #[must_use]
    pub const fn is_comparison(self) -> bool {
        matches!(
            self,
            Self::Equal | Self::NotEqual | Self::Less | Self::LessOrEqual | Self::Greater | Self::GreaterOrEqual
        )
    }

    /// `and or unless`.
    #[must_use]
    pub const fn is_set(self) -> bool {
        matches!(self, Self::And | Self::Or | Self::Unless)
    }
}

/// An aggregation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AggregateOp {
    /// `sum`
    Sum,
    /// `avg`
    Avg,
    /// `count`
    Count,
    /// `min`
    Min,
    /// `max`
    Max,
    /// `group`
    Group,
    /// `stddev`
    Stddev,
    /// `stdvar`
    Stdvar,
    /// `topk`
    TopK,
    /// `bottomk`
    BottomK,
    /// `count_values`
    CountValues,
    /// `quantile`
    Quantile,
    /// `limitk`
    LimitK,
    /// `limit_ratio`
    LimitRatio,
}

impl AggregateOp {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Sum,
        Self::Avg,
        Self::Count,
        Self::Min,
        Self::Max,
        Self::Group,
        Self::Stddev,
        Self::Stdvar,
        Self::TopK,
        Self::BottomK,
        Self::CountValues,
        Self::Quantile,
        Self::LimitK,
        Self::LimitRatio,
    ];

    /// The aggregation of that name, in any case.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|op| name.eq_ignore_ascii_case(op.name()))
    }

    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Avg => "avg",
            Self::Count => "count",
            Self::Min => "min",
            Self::Max => "max",
            Self::Group => "group",
            Self::Stddev => "stddev",
            Self::Stdvar => "stdvar",
            Self::TopK => "topk",
            Self::BottomK => "bottomk",
            Self::CountValues => "count_values",
            Self::Quantile => "quantile",
            Self::LimitK => "limitk",
            Self::LimitRatio => "limit_ratio",
        }
    }

    /// Whether it takes a parameter before the expression.
    #[must_use]
    pub const fn has_parameter(self) -> bool {
        matches!(
            self,
            Self::TopK | Self::BottomK | Self::CountValues | Self::Quantile | Self::LimitK | Self::LimitRatio
        )
    }
}
